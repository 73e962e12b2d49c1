"""Twins (`twin_models`) of matrix products, products of codes and means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from builders_core import Graph, limits
from twin_arithmetic import convolve
from twin_models import BIAS, HALVES, ODD, QUARTERS, WIDE, Scales, Twin, ends, less, weights

PAIR = Scales(0.11, (0.13,), 2.7)


def _single(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))


@dataclass(frozen=True)
class Product:
    """A MatMul or Gemm, of constant weights unless `computed`."""

    name: str
    x: str = "u8"
    k: str = "s8"
    scales: Scales = ODD
    zero: int = 7
    weight_zero: int = 0
    out_zero: int = 5
    shape: tuple[int, ...] = (6, 9)
    weight: tuple[int, ...] = (9, 5)
    op: str = "MatMul"
    turned: bool = False
    bias: tuple[int, ...] = ()
    computed: bool = False
    relu: bool = False
    opset: int = 13

    def twin(self) -> Twin:
        g = Graph(self.opset)
        per = len(self.scales.w) > 1
        x, k = ends(self.x, self.shape), weights(self.k, self.weight)
        given = g.given(x, self.x)
        stored = k.T if self.turned else k
        codes = g.given(stored, self.k) if self.computed else g.const(stored, self.k)
        axis = {"axis": 0 if self.turned else k.ndim - 1} if per else {}
        w = self.scales.w if per else self.scales.w[0]
        zeros = [self.weight_zero] * len(self.scales.w) if per else self.weight_zero
        operands = [
            g.dq(given, self.scales.x, self.zero, self.x),
            g.dq(codes, w, zeros, self.k, **axis),
        ]
        sums = less(x, self.zero) @ less(k, self.weight_zero)
        if self.bias:
            b = np.resize(self.bias, k.shape[-1])
            scale = self.scales.bias() if per else self.scales.bias()[0]
            stored_bias = [g.const(b, "s32"), g.const(scale)]
            more = {"axis": 0} if per else {}
            operands.append(g.node("DequantizeLinear", *stored_bias, **more))
            sums = sums + b
        made = g.node(self.op, *operands, **({"transB": 1} if self.turned else {}))
        made = g.node("Relu", made) if self.relu else made
        g.out(g.q(made, self.scales.y, self.out_zero, self.x))
        low, high = limits(self.x)
        low = max(low, self.out_zero) if self.relu else low
        inputs = (self.zero, self.weight_zero) if self.computed else (self.zero,)
        return Twin(self.name, g, "QMatMul", sums, self.scales.ratio(), inputs, self.out_zero, low,
                    high, self.x, sums.ndim - 1, (self.x, self.k), self.weight_zero)  # fmt: skip


@dataclass(frozen=True)
class Codes:
    """A product of two codes: every pair."""

    name: str
    x: str = "u8"
    scales: Scales = PAIR
    zero: int = 7
    other_zero: int = 1
    out_zero: int = 5
    relu: bool = False
    opset: int = 13

    def twin(self) -> Twin:
        g = Graph(self.opset)
        low, high = limits(self.x)
        every = np.arange(low, high + 1, dtype=g.draw((), self.x, 0, 0).dtype)
        a, b = g.given(every[:, None], self.x), g.given(every, self.x)
        operands = [g.dq(a, self.scales.x, self.zero, self.x),
                    g.dq(b, self.scales.w[0], self.other_zero, self.x)]  # fmt: skip
        made = g.node("Mul", *operands)
        made = g.node("Relu", made) if self.relu else made
        g.out(g.q(made, self.scales.y, self.out_zero, self.x))
        sums = less(every, self.zero)[:, None] * less(every, self.other_zero)
        low = max(low, self.out_zero) if self.relu else low
        return Twin(self.name, g, "QMul", sums, self.scales.ratio(), (self.zero, self.other_zero),
                    self.out_zero, low, high, self.x)  # fmt: skip


@dataclass(frozen=True)
class Mean:
    """An AveragePool with `kernel`, or a GlobalAveragePool."""

    name: str
    x: str = "u8"
    scale: float = 0.051
    to: float = 0.0497
    zero: int = 117
    out_zero: int = 20
    shape: tuple[int, ...] = (4, 3, 6, 5)
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    relu: bool = False
    opset: int = 13
    divided: float = 1.0

    def twin(self) -> Twin:
        g = Graph(self.opset)
        x = ends(self.x, self.shape)
        value = g.dq(g.given(x, self.x), self.scale, self.zero, self.x)
        n = len(self.shape) - 2
        number = less(x, self.zero)
        if self.divided != 1.0:
            value = g.node("Div", value, g.const(self.divided))
        if self.kernel:
            pads, strides = self.pads or (0,) * 2 * n, self.strides or (1,) * n
            made = g.node("AveragePool", value, kernel_shape=self.kernel, strides=strides,
                          pads=pads, count_include_pad=int(any(pads)))  # fmt: skip
            channels = self.shape[1]
            ones = np.ones((channels, 1, *self.kernel), np.int64)
            sums = convolve(number, ones, list(strides), list(pads), [1] * n, channels)
            count = int(np.prod(self.kernel))
        else:
            made = g.node("GlobalAveragePool", value)
            sums = number.sum(tuple(range(2, n + 2)), keepdims=True)
            count = int(np.prod(self.shape[2:]))
        made = g.node("Relu", made) if self.relu else made
        g.out(g.q(made, self.to, self.out_zero, self.x))
        low, high = limits(self.x)
        low = max(low, self.out_zero) if self.relu else low
        ratio = _single(self.scale) / (_single(self.to) * count * _single(self.divided))
        kind = "QAveragePool" if self.kernel else "QGlobalAveragePool"
        return Twin(
            self.name, g, kind, sums, [ratio], (self.zero,), self.out_zero, low, high, self.x
        )


PRODUCTS = [
    Product("matmul"),
    Product("matmul_halves", scales=HALVES, zero=255),
    Product("matmul_per_column", scales=WIDE, zero=255),
    Product("matmul_signed", x="s8", zero=-128, out_zero=-7),
    Product("matmul_signed_quarters", x="s8", zero=-1, out_zero=-7, scales=QUARTERS),
    Product("matmul_stack", shape=(2, 4, 9), scales=WIDE),
    Product("matmul_of_stacks", shape=(2, 4, 9), weight=(2, 9, 5)),
    Product("matmul_vector", shape=(9,), weight=(9, 5)),
    Product("matmul_one_column", weight=(9, 1), scales=replace(ODD, w=(0.02,))),
    Product("matmul_unsigned", k="u8", weight_zero=3, out_zero=99),
    Product("matmul_unsigned_128", k="u8", weight_zero=128, out_zero=99),
    Product("matmul_relu", relu=True, out_zero=77),
    Product("matmul_opset_11", opset=11),
    Product("matmul_opset_11_relu", opset=11, relu=True, out_zero=77),
    Product("gemm", op="Gemm", bias=BIAS),
    Product("gemm_turned", op="Gemm", bias=BIAS, turned=True, zero=255),
    Product("gemm_turned_per_row", op="Gemm", bias=BIAS, turned=True, scales=WIDE),
    Product("gemm_per_column", op="Gemm", bias=BIAS, scales=WIDE, x="s8", zero=-9),
    Product("gemm_no_bias", op="Gemm", relu=True, out_zero=30),
    Product("computed", computed=True, k="u8", weight_zero=201, out_zero=99),
    Product("computed_mixed", computed=True, k="s8", weight_zero=-55, out_zero=99),
    Product("computed_signed", computed=True, x="s8", zero=-3, weight_zero=17, out_zero=-9),
    Product("computed_halves", computed=True, x="s8", scales=HALVES, zero=3, out_zero=-1),
    Product("computed_stack", computed=True, k="u8", shape=(2, 3, 9), weight=(2, 9, 4),
            weight_zero=9),
    Product("sixteen_bits", x="u16", zero=31111, out_zero=30005, opset=21),
    Product("sixteen_bits_per_column", x="s16", zero=0, out_zero=0, opset=21, relu=True,
            scales=WIDE),
    Product("sixteen_bits_gemm", x="s16", zero=0, out_zero=0, opset=21, op="Gemm", bias=BIAS),
    Codes("mul"),
    Codes("mul_halves", scales=Scales(0.5, (0.25,), 16.0), out_zero=101),
    Codes("mul_signed", x="s8", zero=-128, other_zero=127, out_zero=-3),
    Codes("mul_relu", relu=True, out_zero=30),
    Codes("mul_opset_11", opset=11),
    Mean("mean"),
    Mean("mean_ties", scale=0.5, to=1.0, zero=1, out_zero=101, shape=(8, 3, 2, 2)),
    Mean("mean_signed", x="s8", zero=-17, out_zero=3),
    Mean("mean_relu", relu=True),
    Mean("mean_divided", divided=6.0, to=0.00837),
    Mean("mean_one_axis", shape=(4, 3, 7)),
    Mean("mean_three_axes", shape=(4, 3, 2, 3, 2)),
    Mean("mean_opset_11", opset=11),
    Mean("pool", kernel=(3, 3), strides=(2, 1)),
    Mean("pool_padding_counts", kernel=(3, 3), pads=(1, 1, 0, 2), zero=255),
    Mean("pool_ties", kernel=(2, 2), scale=0.5, to=1.0, zero=255, out_zero=1),
    Mean("pool_signed", x="s8", kernel=(2, 2), zero=-128, out_zero=-100),
    Mean("pool_one_axis", kernel=(3,), shape=(4, 3, 7)),
    Mean("pool_relu", kernel=(2, 2), relu=True),
    Mean("pool_opset_11", kernel=(2, 2), opset=11),
]  # fmt: skip
