"""Clamps before QuantizeLinear, biases, normalizations: in exact rational arithmetic.

QuantizeLinear is saturate(rint(x / s) + z), where x / s is a float32 division (one rounding of the
exact quotient) and rint goes to even. Both models, before and after, are evaluated by the little
evaluator below, which knows nothing of the tool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

CODES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
Number = float | int
MOST = Fraction(float(np.finfo(np.float32).max))


def _divide(x: float, s: float) -> float:
    """x / s rounded once to float32, from the exact quotient."""
    if math.isinf(x):
        return x
    exact = Fraction(x) / Fraction(s)
    if abs(exact) > MOST:
        return math.copysign(math.inf, exact)
    # Rounding to float64 first is harmless: it has more than twice the digits (Figueroa, 1995).
    return float(np.float32(exact.numerator / exact.denominator))


def _code(x: float, s: float, z: int, low: int, high: int) -> int:
    ratio = _divide(x, s)
    if math.isinf(ratio):
        return high if ratio > 0 else low
    return min(max(round(Fraction(ratio)) + z, low), high)  # `round` goes to even


def _one_code(x: float, s: float) -> bool:
    """Whether a runtime that divides exactly and one that divides in float32 round alike."""
    return round(Fraction(np.float32(x).item()) / Fraction(s)) == round(Fraction(_divide(x, s)))


Function = Callable[[float], int]


def _function(model: onnx.ModelProto) -> Function:
    """The model as a function of one element; constants count by their first element."""
    held = {
        t.name: numpy_helper.to_array(t).reshape(-1).tolist()[0] for t in model.graph.initializer
    }
    output = model.graph.output[0]
    kind = onnx.helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    low, high = CODES[kind.name]

    def compute(x: float) -> int:
        values: dict[str, Number] = {**held, model.graph.input[0].name: x}
        for node in model.graph.node:
            first, *rest = (values[n] if n else None for n in node.input)
            values[node.output[0]] = _step(node.op_type, first, rest, low, high)
        return int(values[output.name])

    return compute


def _step(op: str, x: Number | None, rest: list[Number | None], low: int, high: int) -> Number:
    assert x is not None
    if op == "Relu":
        return max(x, 0)
    if op == "Clip":
        lo, hi = (*rest, None, None)[:2]
        x = x if lo is None else max(x, lo)
        return x if hi is None else min(x, hi)
    assert op == "QuantizeLinear"
    assert rest[0] is not None
    zero = rest[1] if len(rest) > 1 else None
    return _code(x, rest[0], int(zero or 0), low, high)


def _points(s: float, z: int, low: int, high: int, bounds: list[float]) -> Iterator[float]:
    """Every code, every tie, their float32 neighbours, the bounds, and the ends of the line."""
    step = max(1, (high - low) // 256)
    for code in [*range(low, high, step), high, *range(z - 3, z + 4)]:
        for half in (Fraction(0), Fraction(1, 2)):
            yield from _around(float(Fraction(s) * (code - z + half)))
    for bound in bounds:
        yield from _around(bound)
    yield from (0.0, -0.0, math.inf, -math.inf, 1e10, -1e10, 3.4e38, -3.4e38, 1e-45)


def _around(x: float) -> Iterator[float]:
    middle = np.float32(x)
    yield float(middle)
    yield float(np.nextafter(middle, np.float32(np.inf)))
    yield float(np.nextafter(middle, np.float32(-np.inf)))


def _text(dtype: str, clamp: str, held: list[str], s: float, z: int) -> str:
    opset = 21 if dtype.endswith("16") else 18
    constants = ", ".join([f"float s = {{{s!r}}}", f"{dtype} z = {{{z}}}", *held])
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
        g (float[1] x) => ({dtype}[1] y)
        <{constants}> {{ r = {clamp}  y = QuantizeLinear(r, s, z) }}
    """


SCALES = [0.1, 0.0235, 1.0, 1 / 3, 7.3e-4, 2.0**-5]


@pytest.mark.parametrize("dtype", sorted(CODES))
@pytest.mark.parametrize("place", ["low", "low+1", "middle", "odd", "high"])
def test_relu(rewrite: Callable[..., Any], dtype: str, place: str) -> None:
    low, high = CODES[dtype]
    z = {"low": low, "low+1": low + 1, "middle": (low + high + 1) // 2, "odd": low + 77,
         "high": high}[place]  # fmt: skip
    for s in SCALES[:2]:
        s32 = float(np.float32(s))
        found = rewrite(_text(dtype, "Relu(x)", [], s32, z), "quant-fold")
        before, after = _function(found.before), _function(found.model)
        for x in _points(s32, z, low, high, [0.0]):
            assert after(x) == before(x), (s, z, x)
    if place == "low":
        assert found.ops == ["QuantizeLinear"]
    elif dtype.endswith("16"):  # no runtime clips 16-bit codes
        assert found.ops == ["Relu", "QuantizeLinear"]
    else:
        assert found.ops == ["QuantizeLinear", "Clip"]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "bounds", [(0.0, 6.0), (-1.0, 1.0), (0.5, 0.75), (None, 2.5), (-0.05, None)]
)
def test_clip(
    rewrite: Callable[..., Any], dtype: str, bounds: tuple[float | None, float | None]
) -> None:
    """Bounds between codes, on codes and on ties; zero points at the ends and odd."""
    low, high = CODES[dtype]
    held = [f"float {n} = {{{b!r}}}" for n, b in zip("lh", bounds, strict=True) if b is not None]
    names = ["" if b is None else n for n, b in zip("lh", bounds, strict=True)]
    clamp = f"Clip({', '.join(['x', *names]).rstrip(', ')})"
    for s in SCALES[:2]:
        for z in (low, low + 77, 1):
            s32 = float(np.float32(s))
            found = rewrite(_text(dtype, clamp, held, s32, z), "quant-fold")
            ends = [b for b in bounds if b is not None]
            if all(_one_code(b, s32) for b in ends):
                assert found.ops[0] == "QuantizeLinear"
            else:
                assert found.ops == ["Clip", "QuantizeLinear"]
            before, after = _function(found.before), _function(found.model)
            for x in _points(s32, z, low, high, ends):
                assert after(x) == before(x), (s, z, x)


def test_a_clip_that_the_codes_end_within_goes(rewrite: Callable[..., Any]) -> None:
    """255 * 0.0235 = 5.99: nothing above 6 has a code of its own."""
    held = ["float l = {0}", "float h = {6}"]
    found = rewrite(_text("uint8", "Clip(x, l, h)", held, 0.0235, 0), "quant-fold")
    assert found.ops == ["QuantizeLinear"]


def test_the_bound_formula_on_a_grid_of_parameters(rewrite: Callable[..., Any]) -> None:
    """Q(Clip(x, a, b)) = Clip(Q(x), Q(a), Q(b)): bounds on codes and on ties."""
    count = 0
    for dtype in ("uint8", "int8"):
        low, high = CODES[dtype]
        for s in (0.1, 0.25):
            s32 = float(np.float32(s))
            for a, b in ((-3.5, 2.5), (-1.0, 1.0), (0.0, 6.0), (0.5, 100.5), (-200.0, 0.5)):
                for z in (low, low + 127, high):
                    held = [f"float l = {{{a * s32!r}}}", f"float h = {{{b * s32!r}}}"]
                    found = rewrite(_text(dtype, "Clip(x, l, h)", held, s32, z), "quant-fold")
                    if found.ops[0] != "QuantizeLinear":
                        # A bound beside a tie: float32 and exact division give different codes.
                        assert any(_beside_a_tie(v * s32, s32) for v in (a, b)), (dtype, s, a, b, z)
                        continue
                    count += 1
                    before, after = _function(found.before), _function(found.model)
                    points = list(_points(s32, z, low, high, [a * s32, b * s32]))
                    for x in (*points[::7], *points[-16:]):
                        assert after(x) == before(x), (dtype, s, a, b, z, x)
    assert count > 40


def _beside_a_tie(bound: float, s: float) -> bool:
    exact = Fraction(float(np.float32(bound))) / Fraction(s)
    return abs(exact - math.floor(exact) - Fraction(1, 2)) < Fraction(1, 1 << 16)


@pytest.mark.parametrize("clamp", ["Relu(x)", "Clip(x, l, h)"])
def test_clamps_per_channel(
    rewrite: Callable[..., Any], run: Callable[..., Any], clamp: str
) -> None:
    """Each channel has bounds of its own."""
    scales, zeros = (0.1, 0.0235, 0.7), (-128, 5, 127)
    held = [
        f"float[3] s = {{{','.join(repr(float(np.float32(s))) for s in scales)}}}",
        f"int8[3] z = {{{','.join(map(str, zeros))}}}",
        "float l = {-1}",
        "float h = {2.7}",
    ]
    found = rewrite(
        f"""g (float[3,N] x) => (int8[3,N] y) <{", ".join(held)}>
        {{ r = {clamp}  y = QuantizeLinear <axis = 0> (r, s, z) }}""",
        "quant-fold",
    )
    assert found.ops[0] == "QuantizeLinear"
    assert set(found.ops[1:]) <= {"Max", "Min"}
    rows = [
        np.array(
            [
                x
                for x in _points(float(np.float32(s)), z, -128, 127, [-1.0, 2.7])
                if math.isfinite(x)
            ]
        )
        for s, z in zip(scales, zeros, strict=True)
    ]
    x = np.stack([row[: min(map(len, rows))] for row in rows]).astype(np.float32)
    (got,) = found.run(x=x)
    a, b = (0.0, math.inf) if clamp.startswith("Relu") else (-1.0, float(np.float32(2.7)))
    for row, s, z, codes in zip(x, scales, zeros, got, strict=True):
        expected = [
            _code(min(max(float(v), a), b), float(np.float32(s)), z, -128, 127) for v in row
        ]
        np.testing.assert_array_equal(codes, expected)


# --- biases -------------------------------------------------------------------------------------


def _conv(bias: str, held: str, opset: int = 13) -> str:
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
        g (uint8[1,2,2,2] x) => (uint8[1,3,2,2] y)
        <int8[3,2,1,1] w = {{1,-2,3,-4,5,6}}, float s = {{0.11}}, uint8 z = {{7}},
         float t = {{0.017}}, uint8 o = {{5}}, {held}>
        {{ d = DequantizeLinear(x, s, z)  k = DequantizeLinear <axis = 0> (w, u, v)  {bias}
           c = Conv(d, k, b)  y = QuantizeLinear(c, t, o) }}
    """


PER_TENSOR = ("float u = {0.013}, int8 v = {0}", [0.013] * 3)
PER_CHANNEL = ("float[3] u = {0.013,0.01,0.05}, int8[3] v = {0,0,0}", [0.013, 0.01, 0.05])


def _units(scales: list[float]) -> list[Fraction]:
    x = Fraction(float(np.float32(0.11)))
    return [x * Fraction(float(np.float32(s))) for s in scales]


def _constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def _bias_of(model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    """Codes and scale of the bias of the one Conv."""
    held = _constants(model)
    makers = {n.output[0]: n for n in model.graph.node}
    (conv,) = (n for n in model.graph.node if n.op_type == "Conv")
    node = makers[conv.input[2]]
    assert node.op_type == "DequantizeLinear"
    return held[node.input[0]], held[node.input[1]]


@pytest.mark.parametrize("weights", [PER_TENSOR, PER_CHANNEL])
def test_float_bias(rewrite: Callable[..., Any], weights: tuple[str, list[float]]) -> None:
    """rint(b / (x_s w_s)), exactly; ties to even, of both signs."""
    units = _units(weights[1])
    values = [float(np.float32(units[0] * Fraction(5, 2))), -0.2, 3.1]
    held = f"{weights[0]}, float[3] b = {{{','.join(map(repr, values))}}}"
    found = rewrite(_conv("", held), "quant-fold")
    codes, scale = _bias_of(found.model)
    assert codes.dtype == np.int32
    expected = [
        round(Fraction(float(np.float32(v))) / u) for v, u in zip(values, units, strict=True)
    ]
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(
        np.broadcast_to(scale, 3), np.array([float(u) for u in units], np.float32)
    )


@pytest.mark.parametrize("weights", [PER_TENSOR, PER_CHANNEL])
def test_bias_of_another_scale(
    rewrite: Callable[..., Any], weights: tuple[str, list[float]]
) -> None:
    """A scale 0.9 % too large: 5000 steps of it are 5045 of the accumulator's."""
    units = _units(weights[1])
    wrong = [float(np.float32(float(u) * 1.009)) for u in units]
    given = wrong[:1] if len(set(wrong)) == 1 else wrong
    form = "float r" if len(given) == 1 else "float[3] r"
    held = f"{weights[0]}, {form} = {{{','.join(map(repr, given))}}}, int32[3] h = {{5000,-300,7}}"
    found = rewrite(_conv("b = DequantizeLinear <axis = 0> (h, r)", held), "quant-fold")
    codes, _ = _bias_of(found.model)
    expected = [
        round(code * Fraction(w) / u)
        for code, w, u in zip((5000, -300, 7), wrong, units, strict=True)
    ]
    np.testing.assert_array_equal(codes, expected)
    assert codes[0] == 5045  # 5000 * 1.009


def test_bias_out_of_range_is_left_alone(rewrite: Callable[..., Any]) -> None:
    """The integer would not fit 32 bits."""
    held = "float u = {1e-6}, int8 v = {0}, float[3] b = {1000,-0.2,0.3}"
    found = rewrite(_conv("", held), "quant-fold")
    assert found.rules == []


# --- normalizations -----------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [[1.5, 0.2, 3.0], [-1.5, 0.0, 3.0], [-0.5, -0.2, -3.0]])
@pytest.mark.parametrize("zero", [None, 3])
def test_batchnorm(
    rewrite: Callable[..., Any], run: Callable[..., Any], gamma: list[float], zero: int | None
) -> None:
    """The codes stay, or are reflected; what they stand for is what the normalization asks for."""
    codes = np.array([1, -100, 3, -4, 5, 6]).reshape(3, 2, 1, 1)
    third = "" if zero is None else ", z"
    points = "" if zero is None else f", int8[3] z = {{{zero},{zero},{zero}}}"
    slopes = ",".join(map(str, gamma))
    held = f"float[3] s = {{0.11,0.2,0.3}}{points}"
    text = f"""<ir_version: 10, opset_import: ["" : 13]>
        g (float[1,2,2,2] x) => (float[1,3,2,2] y)
        <int8[3,2,1,1] w = {{1,-100,3,-4,5,6}}, {held}, float[3] g1 = {{{slopes}}},
         float[3] b = {{0.3,0.2,0.1}}, float[3] m = {{0.1,0.2,-0.3}}, float[3] v = {{1,2,0.5}}>
        {{ k = DequantizeLinear <axis = 0> (w, s{third})  c = Conv(x, k)
           y = BatchNormalization(c, g1, b, m, v) }}"""
    found = rewrite(text, "quant-fold")
    assert found.ops == ["DequantizeLinear", "Conv"]
    held_after = _constants(found.model)
    node = found.model.graph.node[0]
    new, scale = held_after[node.input[0]].astype(int), held_after[node.input[1]]
    z = 0 if zero is None else zero
    assert set(np.abs(new - z).reshape(-1)) <= set(np.abs(codes - z).reshape(-1)) | {0}
    factor = np.array(gamma) / np.sqrt(np.array([1, 2, 0.5]) + 1e-5)
    old = np.array([0.11, 0.2, 0.3], np.float32).astype(float)
    stands_for = (new - z) * scale.astype(float).reshape(3, 1, 1, 1)
    wanted = (codes - z) * (old * factor).reshape(3, 1, 1, 1)
    np.testing.assert_allclose(stands_for, wanted, rtol=1e-6)
    x = np.random.default_rng(0).standard_normal((1, 2, 2, 2)).astype(np.float32)
    (a,), (b,) = run(found.before, {"x": x}), found.run(x=x)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * np.abs(a).max())


def test_batchnorm_that_would_need_128(rewrite: Callable[..., Any]) -> None:
    text = """<ir_version: 10, opset_import: ["" : 13]>
        g (float[1,1,2,2] x) => (float[1,2,2,2] y)
        <int8[2,1,1,1] w = {1,-128}, float s = {0.11}, float[2] g1 = {1,-1}, float[2] b = {0,0},
         float[2] v = {1,2}>
        { k = DequantizeLinear(w, s)  c = Conv(x, k)  y = BatchNormalization(c, g1, b, b, v) }"""
    assert rewrite(text, "quant-fold").rules == []
