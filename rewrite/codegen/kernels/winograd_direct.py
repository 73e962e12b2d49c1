"""Tiles of `Winograd` whose outputs are not finite: computed again, window by window.

In: the spec. Out: functions that ask whether numbers are finite and elements inside of an image,
and an internal function of the module. The transforms take differences of neighbours, so that an
infinite or NaN element (or one so large that a difference overflows) would spoil all outputs of its
tile. Where any output is not finite, all are summed up as the convolution is defined, with the
weights that the transformed ones say: w = R (G w G^T) R^T, R G = 1.
"""

from __future__ import annotations

import numpy as np

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.memory import load, register_type
from rewrite.codegen.types import lanes, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_winograd import Winograd

_R = {
    2: ({0: 1}, {1: 1, 2: -1}, {3: 1}),
    4: ({0: 4}, {1: -3, 2: 3}, {5: 1}),
}
_TERMS = 4  # of an element of w at most


def noted(f: Function, isa: Isa, x: Value, before: Value) -> Value:
    """`before`, or NaN in lanes where x is not finite."""
    if isa.fma:
        return f.fma(x, 0.0, before)
    found: Value = before + f.mul(x, f.const(0.0, x.type))
    return found


def any_nan(f: Function, x: Value) -> Value:
    """Whether any lane is NaN."""
    bits = f.bitcast(f.compare("!=", x, x), f"i{lanes(x.type)}")
    return f.compare("!=", bits, 0)


def in_image(f: Function, row: Value, column: Value) -> Value:
    """Whether an image of the size that the function is given has such an element."""
    return f.binary(
        "and",
        f.compare("<", row, f.arg("height"), signed=False),
        f.compare("<", column, f.arg("width"), signed=False),
    )


def direct_function(k: Kernel, spec: Winograd, columns: int) -> str:
    """outputs[pixel][column] of the tile whose window starts at (y, left) of an image."""
    name = f"{k.f.name}_direct"
    f = k.module.function(
        name,
        [("ptr", "x"), ("i64", "y"), ("i64", "left"), ("i64", "height"), ("i64", "width"),
         ("i64", "channels"), ("ptr", "w"), ("i64", "w_place"), ("ptr", "bias"),
         ("ptr", "outputs")],
        internal=True,
    )  # fmt: skip
    width = k.isa.lanes("f32")
    places, factors = _tables(spec.edge)
    numbers = f.global_(k.module.table(places)), f.global_(k.module.table(factors))

    def column(pixel: Value, c: Value) -> None:
        start = load(f, k.isa, "f32", f.at(f.arg("bias"), c * 4), width)
        row, first = f.divide(pixel, spec.edge), f.remainder(pixel, spec.edge)

        def tap(number: Value, total: Value) -> list[Value]:
            y = f.arg("y") + row + f.divide(number, 3)
            x = f.arg("left") + first + f.remainder(number, 3)
            there = in_image(f, y, x)
            at = f.at(f.arg("x"), (y * f.arg("width") + x) * f.arg("channels") * 4)
            w = _Taps(k, f, columns, c, number, numbers)
            return f.if_(there, lambda: w.summed(at, total), lambda: [total], 1)

        (total,) = f.loop(0, 9, tap, [start])
        f.store(total, f.at(f.arg("outputs"), (pixel * columns + c) * 4))

    f.loop(
        0,
        spec.edge**2,
        lambda pixel: f.loop(0, columns, lambda c: column(pixel, c), step=width),
    )
    f.ret()
    return name


def _tables(edge: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each tap which places its weight is a sum of, and by what: s64[9][4], f32[9][4]."""
    places = np.zeros((9, _TERMS), np.int64)
    factors = np.zeros((9, _TERMS), np.float32)
    for tap in range(9):
        down, across = _R[edge][tap // 3], _R[edge][tap % 3]
        pairs = [(i * (edge + 2) + j, a * b) for i, a in down.items() for j, b in across.items()]
        for term, (place, factor) in enumerate(pairs):
            places[tap, term], factors[tap, term] = place, factor
    return places, factors


class _Taps:
    """One tap of some columns' filters."""

    def __init__(
        self, k: Kernel, f: Function, columns: int, c: Value, tap: Value,
        tables: tuple[Value, Value],
    ) -> None:  # fmt: skip
        self.k, self.f, self.columns = k, f, columns
        self.type = register_type("f32", k.isa.lanes("f32"))
        self.places, self.factors = [], []
        for term in range(_TERMS):
            at = tap * _TERMS + term
            place = f.load("i64", f.at(tables[0], at, "i64"), 8)
            factor = f.load("float", f.at(tables[1], at, "float"))
            self.places.append(f.at(f.at(f.arg("w"), place * f.arg("w_place")), c * 4))
            self.factors.append(f.splat(factor, self.type))

    def summed(self, x: Value, total: Value) -> list[Value]:
        """The products with all channels of a pixel."""
        f = self.f
        width = lanes(self.type)

        def channel(number: Value, total: Value) -> list[Value]:
            w = f.zero(vector("float", width))
            for place, factor in zip(self.places, self.factors, strict=True):
                one = load(f, self.k.isa, "f32", f.at(place, number * (self.columns * 4)), width)
                w = w + one * factor
            element = f.splat(f.load("float", f.at(x, number, "float")), self.type)
            return [total + element * w]

        return f.loop(0, f.arg("channels"), channel, [total])
