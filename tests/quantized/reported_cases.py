"""Reported faults as models with right values: integers and fractions, written out here."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
from reported import Array, Case, each, integers, product, rational

U8, S8, S32, F32 = np.uint8, np.int8, np.int32, np.float32
RNG = np.random.default_rng(2024)

# --- parameters that are read wrongly -----------------------------------------------------------

_SOFTMAX = Case(
    "a softmax that ends at the largest code",
    "g (int8[1,4] x) => (int8[1,4] y) "
    "<float s = {0.1}, int8 z = {0}, float t = {0.00390625}, int8 w = {-128}> "
    "{ y = com.microsoft.QLinearSoftmax <axis = 1, opset = 13> (x, s, z, t, w) }",
    {"x": S8([[127, -128, -128, -128]])},
    (S8([[127, -128, -128, -128]]),),  # 1 * 256 - 128 saturates; e^-25.5 is less than half a step
)
_SOFTMAX_QDQ = Case(
    "a softmax between codes that ends at the largest code",
    "g (int8[1,4] x) => (int8[1,4] y) "
    "<float s = {0.1}, int8 z = {0}, float t = {0.00390625}, int8 w = {-128}> "
    "{ d = DequantizeLinear(x, s, z) p = Softmax <axis = 1> (d) y = QuantizeLinear(p, t, w) }",
    _SOFTMAX.feeds,
    _SOFTMAX.expected,
)


def _other_bias(factor: float, b: int) -> Case:
    """x at its zero point, so that the bias alone is seen; its scale is not x_s w_s = 1/8."""
    scale = 0.125 * factor
    real = b * rational(scale)
    wanted = each([real], 2.8, 0, U8).reshape(1, 1, 1, 1)
    assert wanted.item() == 225
    assert each([Fraction(b, 8)], 2.8, 0, U8).item() == 223  # taken for codes of x_s w_s
    return Case(
        f"a bias of scale {factor} times that of the product",
        "g (uint8[1,1,1,1] x) => (uint8[1,1,1,1] y) <float s = {0.5}, uint8 z = {7}, "
        "int8[1,1,1,1] w = {3}, float u = {0.25}, int8 o = {0}, "
        f"int32[1] b = {{{b}}}, float e = {{{scale}}}, int32 n = {{0}}, "
        "float t = {2.8}, uint8 v = {0}> "
        "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, u, o) "
        "  f = DequantizeLinear(b, e, n) c = Conv(d, k, f) y = QuantizeLinear(c, t, v) }",
        {"x": U8([[[[7]]]])},
        (wanted,),
    )


_ALPHA = Case(
    "an alpha beside a bias",
    "g (uint8[1,2] x) => (uint8[1,1] y) <float s = {0.5}, uint8 z = {0}, int8[2,1] w = {3, 4}, "
    "float u = {0.25}, int8 o = {0}, int32[1] b = {1000}, float e = {0.125}, int32 n = {0}, "
    "float t = {1}> "
    "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, u, o) f = DequantizeLinear(b, e, n) "
    "  c = Gemm <alpha = 2.0> (d, k, f) y = QuantizeLinear(c, t, z) }",
    {"x": U8([[10, 20]])},
    (each([[Fraction(2 * (10 * 3 + 20 * 4) + 1000, 8)]], 1, 0, U8),),
)
assert _ALPHA.expected[0].item() == 152

_NO_ZERO_POINT = Case(
    "signed codes without zero point before a Reshape",
    "g (int8[2] x) => (float[2,1] y) <float s = {0.01}, int64[2] t = {2, 1}> "
    "{ d = DequantizeLinear(x, s) y = Reshape(d, t) }",
    {"x": S8([-30, 40])},
    ((F32([[-30], [40]]) * F32(0.01)),),
    opset=21,
)
_NO_ZERO_POINT_CODES = Case(
    "signed codes without zero point before a Reshape and codes",
    "g (int8[2] x) => (int8[2,1] y) <float s = {0.01}, int64[2] t = {2, 1}, int8 z = {0}> "
    "{ d = DequantizeLinear(x, s) r = Reshape(d, t) y = QuantizeLinear(r, s, z) }",
    {"x": S8([-30, 40])},
    (S8([[-30], [40]]),),
    opset=21,
)


def _gemm_bias(codes: bool) -> Case:
    """The scale of C is 0.02, four times that of the product: (127 * 10 + 400) steps of 0.1."""
    real = 1270 * rational(0.1) * rational(0.05) + 100 * rational(0.02)
    wanted = each([[real]], 0.05, 0, U8) if codes else F32([[float(real)]])
    assert not codes or wanted.item() == 167
    kind, result = ("uint8", "c") if codes else ("float", "y")
    last = "y = QuantizeLinear(c, t, z)" if codes else ""
    return Case(
        f"a Gemm whose bias has a scale of its own, to {'codes' if codes else 'numbers'}",
        f"g (uint8[1,1] x) => ({kind}[1,1] y) "
        "<float s = {0.1}, uint8 z = {0}, int8[1,1] w = {10}, float u = {0.05}, int8 o = {0}, "
        "int32[1] b = {100}, float e = {0.02}, int32 n = {0}, float t = {0.05}> "
        "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, u, o) "
        f"  f = DequantizeLinear(b, e, n) {result} = Gemm(d, k, f) {last} }}",
        {"x": U8([[127]])},
        (wanted,),
    )


def _conv_bias(channels: bool) -> Case:
    """Codes of the bias count x_s w_s[c], in the operator that has no scale for them."""
    scales = [0.5, 0.125] if channels else [0.5, 0.5]
    x, w = 9, (3, -5)
    real = [((x - 4) * w[c] + 40) * Fraction(1, 2) * rational(scales[c]) for c in range(2)]
    weights = (
        "float[2] u = {0.5, 0.125}, int8[2] o = {0, 0}"
        if channels
        else "float u = {0.5}, int8 o = {0}"
    )
    return Case(
        f"a QLinearConv with a bias and one scale for {'each channel' if channels else 'all'}",
        "g (uint8[1,1,1,1] x) => (uint8[1,2,1,1] y) <float s = {0.5}, uint8 z = {4}, "
        f"int8[2,1,1,1] w = {{3, -5}}, {weights}, int32[2] b = {{40, 40}}, "
        "float t = {0.26}, uint8 v = {3}> { y = QLinearConv(x, s, z, w, u, o, t, v, b) }",
        {"x": U8([[[[x]]]])},
        (each(real, 0.26, 3, U8).reshape(1, 2, 1, 1),),
    )


# --- products that saturate, zero points that are not subtracted --------------------------------

_A, _B = U8([[210, 198, 234]]), S8([[-81], [-80], [127]])
_ACC = product(integers(_A), integers(_B))
assert _ACC.item() == -3132
_PAIR = each(_ACC * rational(0.01) ** 2, 0.01, 128, U8)
assert _PAIR.item() == 97
_WEIGHTS = (
    "<float s = {0.01}, uint8 z = {0}, int8[3,1] w = {-81, -80, 127}, int8 o = {0}, "
    "uint8 v = {128}> "
)


def _saturating_product(form: str, opset: int) -> Case:
    body = {
        "MatMul": "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, s, o) "
        "c = MatMul(d, k) y = QuantizeLinear(c, s, v) }",
        "QLinearMatMul": "{ y = QLinearMatMul(x, s, z, w, s, o, s, v) }",
    }[form]
    return Case(
        f"a pair sum of -32850 in {form} at opset {opset}",
        f"g (uint8[1,3] x) => (uint8[1,1] y) {_WEIGHTS}{body}",
        {"x": _A},
        (_PAIR,),
        opset,
    )


_CONV = Case(
    "pair sums at the ends in a convolution",
    "g (uint8[1,64,1,1] x) => (uint8[1,2,1,1] y) <float s = {0.01}, uint8 z = {0}, int8 o = {0}, "
    "float t = {2.3}, uint8 v = {128}, int8[2,64,1,1] w> "
    "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, s, o) c = Conv(d, k) "
    "  y = QuantizeLinear(c, t, v) }",
    {"x": np.full((1, 64, 1, 1), 255, U8)},
    (
        each([64 * 255 * c * rational(0.01) ** 2 for c in (127, -128)], 2.3, 128, U8).reshape(
            1, 2, 1, 1
        ),
    ),
    tensors={"w": np.stack([np.full((64, 1, 1), 127, S8), np.full((64, 1, 1), -128, S8)])},
)


def _integer_product(
    name: str, a: Array, b: Array, a_zero: int, b_zero: int, constant: bool = True
) -> Case:
    weights = f"int8[{b.shape[0]},{b.shape[1]}] b"
    given, held = ("", f", {weights}") if constant else (f", {weights}", "")
    wanted = product(integers(a) - a_zero, integers(b) - b_zero).astype(S32)
    return Case(
        name,
        f"g (uint8[{a.shape[0]},{a.shape[1]}] a{given}) => (int32[{a.shape[0]},{b.shape[1]}] y) "
        f"<uint8 z = {{{a_zero}}}, int8 o = {{{b_zero}}}{held}> "
        "{ y = MatMulInteger(a, b, z, o) }",
        {"a": a} if constant else {"a": a, "b": b},
        (wanted,),
        tensors={"b": b} if constant else {},
    )


_A3, _B3 = (
    RNG.choice([0, 255, 128], (3, 3)).astype(U8),
    RNG.choice([-128, 127, 0], (3, 3)).astype(S8),
)
_A64, _B64 = np.full((1, 64), 255, U8), np.full((64, 1), 127, S8)

_WIDE = Case(
    "an s8 code less an s8 zero point",
    "g (int8[1,2] x) => (int32[1,1] n, int8[1,2] y) "
    "<float s = {0.1}, int8 z = {127}, int8[2,1] w = {1, 1}, int8 o = {0}, float t = {0.25}> "
    "{ n = MatMulInteger(x, w, z, o) d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, t, o) }",
    {"x": S8([[-128, 100]])},
    (
        np.array([[-255 - 27]], S32),
        each([[-255 * rational(0.1), -27 * rational(0.1)]], 0.25, 0, S8),
    ),
)

_BIAS = 2_000_000_000  # sums near the end of 32 bits; y_s is such that they end inside the codes
_UNIT = rational(0.02) * rational(0.05)
_STEP = float(F32(float(_BIAS * _UNIT / 120)))
_LARGE = Case(
    "sums near the end of 32 bits",
    "g (int8[1,1,1,4] x) => (int8[1,2,1,4] y) <float s = {0.02}, int8 z = {0}, "
    "int8[2,1,1,1] w = {100, -100}, float u = {0.05}, "
    f"int32[2] b = {{{_BIAS}, {-_BIAS}}}, float e = {{{float(F32(0.02) * F32(0.05))!r}}}, "
    f"float t = {{{_STEP!r}}}> "
    "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, u, z) f = DequantizeLinear(b, e) "
    "  c = Conv(d, k, f) y = QuantizeLinear(c, t, z) }",
    {"x": S8([[[[-128, -1, 0, 127]]]])},
    (
        each(
            [[w * x * _UNIT + b * rational(F32(0.02) * F32(0.05)) for x in (-128, -1, 0, 127)]
             for w, b in ((100, _BIAS), (-100, -_BIAS))], _STEP, 0, S8,
        ).reshape(1, 2, 1, 4),
    ),
)  # fmt: skip
assert _LARGE.expected[0].reshape(-1).tolist() == [120] * 4 + [-120] * 4

# --- order and movement of codes ----------------------------------------------------------------

_X4 = RNG.integers(-128, 128, (1, 1, 4, 4)).astype(S8)
_WINDOWS = _X4.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(1, 1, 2, 2, 4)
_POOL = (
    "{ d = DequantizeLinear(x, s, z) "
    "  p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (d) y = QuantizeLinear(p, s, z) }"
)
_NEGATIVE = Case(
    "a MaxPool of codes whose scale is negative",
    "g (int8[1,1,4,4] x) => (int8[1,1,2,2] y) <float s = {-0.1}, int8 z = {3}> " + _POOL,
    {"x": _X4},
    (_WINDOWS.min(axis=-1),),  # the largest number is the least code
)


def _old_pool(opset: int) -> Case:
    return Case(
        f"a MaxPool of opset {opset}",
        "g (int8[1,1,4,4] x) => (int8[1,1,2,2] y) <float s = {0.1}, int8 z = {3}> " + _POOL,
        {"x": _X4},
        (_WINDOWS.max(axis=-1),),
        opset,
    )


_PADDED = S8([[[[-7, 20], [-60, 90]]]])  # the zero point is -7


def _pad(codes: bool) -> Case:
    """A border of the zero point counts nothing, whatever the signedness."""
    x = integers(_PADDED)[0, 0] + 7
    total = sum(x.reshape(-1).tolist())  # every window of 3 by 3 holds the whole plane
    wanted = each([5 * total * Fraction(1, 4)], 1, 9, S8).item()
    first = (
        "p = Pad(x, b, z) d = DequantizeLinear(p, s, z)"
        if codes
        else "e = DequantizeLinear(x, s, z) d = Pad(e, b)"
    )
    return Case(
        f"a Pad of {'codes' if codes else 'numbers'} before a convolution",
        "g (int8[1,1,2,2] x) => (int8[1,1,2,2] y) <float s = {0.5}, int8 z = {-7}, "
        "int64[8] b = {0,0,1,1,0,0,1,1}, int8[1,1,3,3] w = {5,5,5,5,5,5,5,5,5}, int8 o = {0}, "
        f"float t = {{1}}, int8 v = {{9}}> {{ {first} k = DequantizeLinear(w, s, o) "
        "c = Conv(d, k) y = QuantizeLinear(c, t, v) }",
        {"x": _PADDED},
        (np.full((1, 1, 2, 2), wanted, S8),),
    )


# --- activations --------------------------------------------------------------------------------

_CODES = np.arange(-128, 128, dtype=S8)
_RELU = Case(
    "a Relu of signed codes",
    "g (int8[256] x) => (int8[256] y) <float s = {0.1}, int8 z = {-20}> "
    "{ d = DequantizeLinear(x, s, z) r = Relu(d) y = QuantizeLinear(r, s, z) }",
    {"x": _CODES},
    (np.maximum(_CODES, -20),),
)
_REAL = [(3 * (c - 5)) * Fraction(1, 8) for c in integers(S8([-90, -3, 7, 60])).tolist()]
_TWO_USERS = Case(
    "a convolution with two users",
    "g (int8[1,1,2,2] x) => (int8[1,1,2,2] y, int8[1,1,2,2] r) <float s = {0.5}, int8 z = {5}, "
    "int8[1,1,1,1] w = {3}, float u = {0.25}, int8 o = {0}, float t = {0.3}, int8 v = {-7}> "
    "{ d = DequantizeLinear(x, s, z) k = DequantizeLinear(w, u, o) c = Conv(d, k) "
    "  y = QuantizeLinear(c, t, v) a = Relu(c) r = QuantizeLinear(a, t, v) }",
    {"x": S8([[[[-90, -3], [7, 60]]]])},
    (
        each(_REAL, 0.3, -7, S8).reshape(1, 1, 2, 2),
        each([max(v, 0) for v in _REAL], 0.3, -7, S8).reshape(1, 1, 2, 2),
    ),
)
_RESIDUAL = Case(
    "a residual that reads what is not quantized",
    # Codes end at 255 * 0.004 = 1.02; `f` reads the sum itself.
    "g (int8[3] a, int8[3] b) => (int8[3] y, float[3] f) <float s = {0.01}, int8 z = {0}, "
    "float t = {0.004}, int8 w = {-128}, float two = {2}> "
    "{ d = DequantizeLinear(a, s, z) e = DequantizeLinear(b, s, z) c = Add(d, e) "
    "  y = QuantizeLinear(c, t, w) f = Mul(c, two) }",
    {"a": S8([50, 100, -30]), "b": S8([0, 70, 0])},
    (
        each([v * rational(0.01) for v in (50, 170, -30)], 0.004, -128, S8),
        F32([1.0, 3.4, -0.6]),
    ),
)
_RESIDUAL_CODES = Case(
    "a residual that reads what is quantized",
    "g (int8[3] a, int8[3] b) => (int8[3] y, float[3] f) <float s = {0.01}, int8 z = {0}, "
    "float t = {0.004}, int8 w = {-128}, float two = {2}> "
    "{ d = DequantizeLinear(a, s, z) e = DequantizeLinear(b, s, z) c = Add(d, e) "
    "  y = QuantizeLinear(c, t, w) g = DequantizeLinear(y, t, w) f = Mul(g, two) }",
    _RESIDUAL.feeds,
    (_RESIDUAL.expected[0], F32([1.0, 2.04, 0.0])),
)

# --- two pairs, sums, weights in few bits -------------------------------------------------------

_X = np.linspace(-12, 26, 4001).astype(F32)
_X = _X[np.abs(_X / F32(0.1) % 1 - 0.5) > 1e-3]  # ties of the first pair are another matter


def _two_pairs() -> Case:
    once = each([Fraction(float(v)) / 1 for v in _X], 0.1, 0, U8)
    numbers = [int(c) * rational(0.1) for c in once]
    twice = each(numbers, 0.07, 100, U8)
    return Case(
        "two pairs of different scales",
        f"g (float[{_X.size}] x) => (uint8[{_X.size}] y) "
        "<float s = {0.1}, uint8 z = {0}, float t = {0.07}, uint8 w = {100}> "
        "{ a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) y = QuantizeLinear(b, t, w) }",
        {"x": _X},
        (twice,),
    )


_SUM = Case(
    "a sum half a step off",
    "g (uint8[1] a, uint8[1] b) => (uint8[1] y) <float s = {0.04056}, uint8 z = {112}, "
    "float t = {0.08882}, uint8 w = {126}, float u = {0.0903}, uint8 v = {124}> "
    "{ d = DequantizeLinear(a, s, z) e = DequantizeLinear(b, t, w) c = Add(d, e) "
    "  y = QuantizeLinear(c, u, v) }",
    {"a": U8([158]), "b": U8([136])},
    (each([46 * rational(0.04056) + 10 * rational(0.08882)], 0.0903, 124, U8),),
)
assert _SUM.expected[0].item() == 154  # 30.498 steps above the zero point

_SCALE = 0.02
_NORMAL = RNG.standard_normal((2, 512)).astype(F32)
_NIBBLES = RNG.integers(0, 16, (512, 3))
_BLOCK = Case(
    "weights of 4 bits in blocks of 512",
    "g (float[2,512] x) => (float[2,3] y) <uint8[3,1,256] w, float[3] s = {0.02, 0.02, 0.02}> "
    "{ y = com.microsoft.MatMulNBits <K = 512, N = 3, bits = 4, block_size = 512> (x, w, s) }",
    {"x": _NORMAL},
    ((_NORMAL.astype(float) @ ((_NIBBLES - 8) * float(F32(_SCALE)))).astype(F32),),
    tensors={"w": (_NIBBLES.T[:, 0::2] | (_NIBBLES.T[:, 1::2] << 4)).astype(U8).reshape(3, 1, 256)},
    rtol=2e-6 * 8,  # sums of 512 products in float32, in eights
)


def _few_bits(block: int) -> Case:
    """With the activations quantized to 8 bits (accuracy level 4) results are off by some 0.05."""
    scales = RNG.uniform(0.01, 0.03, (512 // block, 3) if block else 512).astype(F32)
    spread = np.repeat(scales, block, axis=0) if block else scales[:, None]
    wanted = _NORMAL.astype(float) @ ((_NIBBLES - 8) * spread.astype(float))
    size = f", block_size = {block}" if block else ""
    return Case(
        f"weights of 4 bits with a scale for {f'{block} rows' if block else 'each row'}",
        "g (float[2,512] x) => (float[2,3] y) "
        f"<int4[512,3] w, float[{','.join(map(str, scales.shape))}] s> "
        f"{{ d = DequantizeLinear <axis = 0{size}> (w, s) y = MatMul(x, d) }}",
        {"x": _NORMAL},
        (wanted.astype(F32),),
        21,
        {"w": (_NIBBLES - 8).astype(ml_dtypes.int4), "s": scales},
        rtol=2e-6 * 8,
        left=bool(block),
    )


# --- seen on other optimizers, between codes ----------------------------------------------------

_BETWEEN = "<float s = {0.1}, int8 z = {5}, float t = {0.05}, int8 w = {-9}, "


def _between(name: str, shape: str, out: str, constants: str, body: str, wanted: Array) -> Case:
    """`x` as numbers `d`; `f` becomes codes `y`."""
    return Case(
        name,
        f"g (int8[{shape}] x) => (int8[{out}] y) {_BETWEEN}{constants}> "
        f"{{ d = DequantizeLinear(x, s, z) {body} y = QuantizeLinear(f, t, w) }}",
        {"x": S8([-60, -10, 40]) if shape == "3" else _X3},
        (wanted,),
    )


_X3 = RNG.integers(-128, 128, (1, 1, 4, 5)).astype(S8)
_THREE = [(c - 5) * rational(0.1) for c in (-60, -10, 40)]  # -6.5, -1.5, 3.5


def _along_width() -> Array:
    """A convolution by 2 in each of 3 channels, then factors along the width."""
    factors = (1, 2, 3, 4, 5)
    plane = [
        [(int(c) - 5) * rational(0.1) * 2 * k for c, k in zip(row, factors, strict=True)]
        for row in _X3[0, 0]
    ]
    real = np.array([plane] * 3, object)
    return each(real[None], 0.05, -9, S8)


_OTHERS = (
    _between(
        "a Relu of a Clip below zero between codes", "3", "3", "float lo = {-3}, float hi = {-1}",
        "a = Clip(d, lo, hi) f = Relu(a)", np.full(3, -9, S8),
    ),
    _between(
        "Min of Max with a constant of higher rank between codes", "3", "1,3",
        "float[1,1] lo = {0}, float hi = {1}", "a = Max(d, lo) f = Min(a, hi)",
        each([[min(max(v, 0), 1) for v in _THREE]], 0.05, -9, S8),
    ),
    _between(
        "a convolution times a vector along the width between codes", "1,1,4,5", "1,3,4,5",
        "float[3,1,1,1] k = {2, 2, 2}, float[5] h = {1, 2, 3, 4, 5}",
        "c = Conv(d, k) f = Mul(c, h)", _along_width(),
    ),
)  # fmt: skip

CASES = (
    _SOFTMAX, _SOFTMAX_QDQ, _other_bias(1.009, 5000), _ALPHA, _NO_ZERO_POINT, _NO_ZERO_POINT_CODES,
    _gemm_bias(True), _gemm_bias(False), _conv_bias(True), _conv_bias(False),
    *(_saturating_product("MatMul", v) for v in (13, 21, 23)),
    *(_saturating_product("QLinearMatMul", v) for v in (10, 19, 21, 23)),
    _CONV,
    _integer_product("a product of integers with zero points", _A3, _B3, 42, -26),
    _integer_product("a product of given integers with zero points", _A3, _B3, 42, -26, False),
    _integer_product("64 products at the ends", _A64, _B64, 0, 0),
    _integer_product("64 products of given integers at the ends", _A64, _B64, 0, 0, False),
    _WIDE, _LARGE, _NEGATIVE, _old_pool(10), _old_pool(11), _old_pool(12), _pad(True), _pad(False),
    _RELU, _TWO_USERS, _RESIDUAL, _RESIDUAL_CODES, _two_pairs(), _SUM, _BLOCK, _few_bits(0),
    _few_bits(32), *_OTHERS,
)  # fmt: skip
