"""Small quantized models at the ends of their ranges, with the exact sums that they come from.

Out: `Twin`: a model with one quantized operator, inputs, and for every element of its output the
sum of products of codes less their zero points, computed here in int64.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from builders_core import NUMPY, Array, Graph, limits
from twin_arithmetic import convolve, transposed


@dataclass(frozen=True)
class Twin:
    """`ratio`: of the sums to the steps of the output, one or one for each index of `axis`.

    `zeros`: of the operands. `taken`: pairs of activation and weight type; none: any target.
    """

    name: str
    graph: Graph = field(repr=False)
    kind: str
    sums: Array = field(repr=False)
    ratio: list[Fraction]
    zeros: tuple[int, ...]
    zero: int
    low: int
    high: int
    dtype: str
    axis: int = 1
    pair: tuple[str, str] = ("", "")
    weight_zero: int = 0


@dataclass(frozen=True)
class Scales:
    """Of the data, of the weights (one, or one per channel), of the result."""

    x: float
    w: tuple[float, ...]
    y: float

    def ratio(self) -> list[Fraction]:
        x, y = (Fraction(float(np.float32(v))) for v in (self.x, self.y))
        return [x * Fraction(float(np.float32(w))) / y for w in self.w]

    def bias(self) -> Array:
        return np.array([np.float32(self.x) * np.float32(w) for w in self.w], np.float32)


HALVES = Scales(0.5, (0.25,), 2.0)  # every second odd sum is a tie
QUARTERS = Scales(0.25, (0.125,), 32.0)
ODD = Scales(0.0371, (0.00913,), 0.1737)
LARGE = Scales(0.91, (0.73,), 0.41)  # a ratio above 1
WIDE = Scales(0.0117, (2.0**-11, 0.0031, 0.25, 1.0, 0.0000731), 0.0823)


def ends(dtype: str, shape: tuple[int, ...], seed: int = 3) -> Array:
    """Least, largest, both in turn, and random codes, along the first axis again and again."""
    low, high = limits(dtype)
    random = np.random.default_rng(seed).integers(low, high + 1, shape)
    found = np.empty(shape, np.int64)
    turns = np.where(np.arange(found[0].size).reshape(shape[1:]) % 2, low, high)
    for i in range(shape[0]):
        found[i] = (low, high, turns, random[i])[i % 4] if i < 3 or i % 4 else random[i]
    return found.astype(NUMPY[dtype])


def weights(dtype: str, shape: tuple[int, ...], seed: int = 5) -> Array:
    """As `ends`; without the least code of s8, which weights do not use everywhere."""
    found = ends(dtype, shape, seed)
    return np.maximum(found, -127).astype(found.dtype) if dtype == "s8" else found


def less(codes: Array, zero: int) -> Array:
    return codes.astype(np.int64) - zero


@dataclass(frozen=True)
class Conv:
    """A Conv, or `transpose` of one, and what is written around it."""

    name: str
    x: str = "u8"
    k: str = "s8"
    y: str = ""
    scales: Scales = ODD
    zero: int | None = 7  # of the data; None: no operand
    weight_zero: int = 0
    out_zero: int = 5
    shape: tuple[int, ...] = (4, 2, 5, 4)
    kernel: tuple[int, ...] = (3, 3)
    filters: int = 5
    group: int = 1
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    bias: tuple[int, ...] = ()
    clamp: tuple[float | None, float | None] | None = None
    relu: bool = False
    opset: int = 13
    transpose: bool = False
    flat: bool = False  # scales of shape [1]

    def twin(self) -> Twin:
        g = Graph(self.opset)
        g.opset = self.opset
        x = ends(self.x, self.shape)
        zero = self.zero or 0
        per = len(self.scales.w) > 1
        n = len(self.kernel)
        rows = (
            (self.shape[1], self.filters)
            if self.transpose
            else (self.filters, self.shape[1] // self.group)
        )
        k = weights(self.k, (*rows, *self.kernel))
        strides, dilations = self.strides or (1,) * n, self.dilations or (1,) * n
        pads = self.pads or (0,) * (2 * n)
        sums = self._sums(less(x, zero), less(k, self.weight_zero), strides, pads, dilations)
        operands = [self._dequantized(g, g.given(x, self.x), self.scales.x, self.zero, self.x)]
        axis = {"axis": 1 if self.transpose else 0} if per else {}
        w = self.scales.w if per else (self.scales.w[0] if not self.flat else [self.scales.w[0]])
        zeros = [self.weight_zero] * len(self.scales.w) if per else self.weight_zero
        zeros = [zeros] if self.flat and not per else zeros
        operands.append(g.dq(g.const(k, self.k), w, zeros, self.k, **axis))
        if self.bias:
            b = np.resize(self.bias, self.filters)
            scale = self.scales.bias() if per else self.scales.bias()[0]
            given = [g.const(b, "s32"), g.const(scale)]
            operands.append(g.node("DequantizeLinear", *given, **({"axis": 0} if per else {})))
            sums = sums + b.reshape(-1, *[1] * n)
        attributes = {"group": self.group, "strides": strides, "pads": pads, "dilations": dilations}
        op = "ConvTranspose" if self.transpose else "Conv"
        acted = g.node(op, *operands, **attributes)
        low, high = self._clamped()
        if self.relu:
            acted = g.node("Relu", acted)
        elif self.clamp:
            acted = g.node("Clip", acted, *("" if v is None else g.const(v) for v in self.clamp))
        made = self.y or self.x
        g.out(g.q(acted, [self.scales.y] if self.flat else self.scales.y,
                  [self.out_zero] if self.flat else self.out_zero, made))  # fmt: skip
        kind = "QConvTranspose" if self.transpose else "QConv"
        return Twin(self.name, g, kind, sums, self.scales.ratio(), (zero,), self.out_zero, low,
                    high, made, 1, (self.x, self.k), self.weight_zero)  # fmt: skip

    def _sums(self, x: Array, k: Array, strides: tuple[int, ...], pads: tuple[int, ...],
              dilations: tuple[int, ...]) -> Array:  # fmt: skip
        if self.transpose:
            return transposed(x, k, list(strides), list(pads))
        return convolve(x, k, list(strides), list(pads), list(dilations), self.group)

    def _dequantized(self, g: Graph, codes: str, scale: float, zero: int | None, dtype: str) -> str:
        if zero is None:
            return g.node("DequantizeLinear", codes, g.const([scale] if self.flat else scale))
        return g.dq(codes, [scale] if self.flat else scale, [zero] if self.flat else zero, dtype)

    def _clamped(self) -> tuple[int, int]:
        low, high = limits(self.y or self.x)
        if self.relu:
            return max(low, self.out_zero), high
        step = Fraction(float(np.float32(self.scales.y)))
        codes = [
            default if v is None else round(Fraction(float(np.float32(v))) / step) + self.out_zero
            for v, default in zip(self.clamp or (None, None), (low, high), strict=True)
        ]
        return max(low, codes[0]), min(high, codes[1])


BIAS = (1000, -20011, 30103, 0, -77)

CONVOLUTIONS = [
    Conv("plain"),
    Conv("halves", scales=HALVES, bias=BIAS, kernel=(1, 1)),
    Conv("quarters", scales=QUARTERS, zero=255, out_zero=255, bias=BIAS),
    Conv("large_ratio", scales=LARGE, kernel=(1, 1), zero=128),
    Conv("per_channel", scales=WIDE, bias=BIAS),
    Conv("one_channel", filters=1, scales=replace(ODD, w=(0.0071,)), bias=(77,)),
    Conv("depthwise", group=5, shape=(4, 5, 5, 4), scales=WIDE, bias=BIAS),
    Conv("groups", group=2, shape=(4, 4, 5, 4), filters=6, bias=BIAS),
    Conv("pads_and_strides", pads=(1, 2, 0, 1), strides=(2, 1), zero=255),
    Conv("dilated", dilations=(2, 1), pads=(2, 0, 2, 1), zero=0),
    Conv("clamped", clamp=(-3.0, 11.0), out_zero=93),
    Conv("clamped_below", clamp=(1.5, None), out_zero=93),
    Conv("clamped_above", clamp=(None, -1.5), out_zero=93),
    Conv("relu", relu=True, out_zero=93, bias=BIAS),
    Conv("relu_dropped", relu=True, out_zero=0, bias=BIAS),
    Conv("signed", x="s8", zero=-77, out_zero=-5, bias=BIAS),
    Conv("signed_halves", x="s8", zero=-128, out_zero=127, scales=HALVES, kernel=(1, 1)),
    Conv("signed_per_channel", x="s8", scales=WIDE, zero=127, out_zero=-128, bias=BIAS),
    Conv("unsigned_weights", k="u8", weight_zero=131, out_zero=100),
    Conv("unsigned_weights_128", k="u8", weight_zero=128, out_zero=100),
    Conv("weight_zero", weight_zero=-7, out_zero=100),
    Conv("from_signed_to_unsigned", x="s8", y="u8", out_zero=101),
    Conv("from_unsigned_to_signed", x="u8", y="s8", out_zero=-101),
    Conv("no_zero_point", zero=None),
    Conv("scales_of_rank_1", flat=True, bias=BIAS),
    Conv("one_axis", shape=(4, 3, 9), kernel=(3,), pads=(1, 1), bias=BIAS),
    Conv("three_axes", shape=(4, 2, 4, 3, 3), kernel=(2, 2, 3), pads=(1,) * 6, bias=BIAS),
    Conv("opset_11", opset=11, bias=BIAS),
    Conv("opset_11_relu", opset=11, relu=True, out_zero=93),
    Conv("opset_11_clamped", opset=11, clamp=(-3.0, 11.0), out_zero=93),
    Conv("opset_10_no_clamp", opset=10),
    Conv("opset_21", opset=21, scales=WIDE, bias=BIAS),
    Conv("sixteen_bits", x="u16", zero=31111, out_zero=30005, opset=21, bias=BIAS),
    Conv("sixteen_bits_symmetric", x="s16", zero=0, out_zero=0, opset=21, bias=BIAS,
         scales=replace(WIDE, y=0.911)),
    Conv("sixteen_bits_relu", x="s16", zero=0, out_zero=0, opset=21, relu=True),
    Conv("sixteen_bits_clamped", x="s16", zero=0, out_zero=0, opset=21, clamp=(-100.0, 300.0)),
    Conv("transposed", transpose=True, strides=(2, 2), out_zero=90, bias=BIAS),
    Conv("transposed_pads", transpose=True, strides=(2, 1), pads=(1, 0, 0, 2), zero=255,
         out_zero=90),
    Conv("transposed_per_channel", transpose=True, scales=WIDE, bias=BIAS, x="s8", zero=-3),
    Conv("transposed_halves", transpose=True, scales=HALVES, kernel=(1, 1)),
    Conv("transposed_one_axis", transpose=True, shape=(4, 2, 6), kernel=(4,), strides=(2,),
         clamp=(-2.0, 9.0), out_zero=90),
]  # fmt: skip
