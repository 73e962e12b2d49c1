"""Depthwise convolutions: vectors of channels, a block of pixels of one row in registers. Small
groups of channels are treated alike: each channel of a group meets all lanes of the group.

In: `Depthwise`. Out: a kernel. Blocks all of whose windows lie inside of the rows are computed
without asking; others look at each column whether it is there, and take it from a vector of `fill`
if it is not. Rows of the kernel above or below the image are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.conv_after import finish, is_short, operand_values, pieces
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_depthwise import Depthwise
from rewrite.plan.view import BYTES

_COLUMNS = 8  # of the kernel whose weights are in registers at once
_COMMON = [
    ("ptr", "x"), ("i64", "rows"), ("i64", "x_row"), ("i64", "x_pixel"), ("ptr", "w"),
    ("i64", "w_pixel"), ("ptr", "bias"), ("ptr", "out"), ("i64", "out_pixel"), ("i64", "column"),
    ("i64", "width"), ("ptr", "fill"), ("i64", "count"), ("ptr", "cells"),
]  # fmt: skip


@emits(Depthwise)
def depthwise(k: Kernel, spec: Depthwise) -> None:
    _Rows(k, spec).emit()


class _Rows:
    def __init__(self, k: Kernel, spec: Depthwise) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        self.lanes = k.isa.lanes(spec.total)
        n = len(spec.after.operands)
        self.x, self.w, self.bias, self.fill = (k.pointer(i) for i in range(4))
        self.operands = [k.pointer(4 + i) for i in range(n)]
        self.out = k.pointer(4 + n)
        self.n = [k.integer(5 + n + i) for i in range(14 + 2 * n)]
        self.blocks = {
            (inside, lanes): _Block(k, spec, inside, lanes).name
            for inside in (True, False)
            for lanes in dict.fromkeys([self.lanes, *(p for _, p in pieces(spec.tail, self.lanes))])
        }

    def emit(self) -> None:
        """Some channels over all rows, so that the rows of a window stay in the nearest cache."""
        f, channels, chunk = self.f, self.n[2], self.n[13]
        chunks = f.binary("udiv", channels + (chunk - 1), chunk)

        def part(number: Value) -> None:
            first = number * chunk
            last = f.select(f.compare("<", first + chunk, channels), first + chunk, channels)
            f.loop(self.k.begin, self.k.end, lambda item: self.row(item, first, last))

        f.loop(0, chunks, part)

    def row(self, item: Value, begin: Value, end: Value) -> None:
        """Channels `begin` to `end` of one row."""
        f, n, spec = self.f, self.n, self.spec
        image = f.binary("udiv", item, n[9])
        y = item - image * n[9]
        top = y * n[4] - n[6]
        # Rows j of the kernel with 0 <= top + j dilation < height.
        first = self._least(self.f.sub(0, top))
        last = self._least(n[0] - top)
        last = f.select(f.compare("<", last, n[3]), last, n[3])
        rows = last - first
        size, channels = BYTES[spec.x], n[2]
        x_row = n[1] * channels
        start = image * n[11] + (top + first * n[5]) * x_row
        x = f.at(self.x, start * size)
        w = f.at(self.w, first * channels * (spec.columns * spec.spread * BYTES[spec.total]))
        pixel = y * n[10]
        out_pixel = n[8] * BYTES[spec.after.out]
        out = f.at(self.out, image * n[12] * BYTES[spec.after.out])
        out = f.at(out, pixel * out_pixel)
        common = [rows, x_row * n[5] * size, channels * size, w, channels * BYTES[spec.total]]
        operands = [
            (f.at(p, (image * n[14 + 2 * i] + pixel * n[15 + 2 * i]) * BYTES[o.dtype]),
             n[15 + 2 * i] * BYTES[o.dtype])
            for i, (p, o) in enumerate(zip(self.operands, spec.after.operands, strict=True))
        ]  # fmt: skip
        reach = (spec.block - 1) * spec.stride + (spec.columns - 1) * spec.dilation

        def block(at: Value) -> None:
            column = at * spec.stride - n[7]
            left = n[10] - at
            inside = self._all(
                f.compare(">=", column, 0),
                f.compare("<", column + reach, n[1]),
                f.compare(">=", left, spec.block),
            )
            count = f.select(f.compare("<", left, spec.block), left, f.i64(spec.block))
            here = f.at(x, column * channels * size)
            to = f.at(out, at * out_pixel)
            more = [v for p, s in operands for v in (f.at(p, at * s), s)]
            arguments = [here, *common, self.bias, to, out_pixel, column,
                         n[1], self.fill, count, self.k.scratch, *more]  # fmt: skip
            f.if_(
                inside,
                lambda: self.channels(True, arguments, begin, end),
                lambda: self.channels(False, arguments, begin, end),
            )

        f.loop(0, n[10], block, step=spec.block)

    def _least(self, distance: Value) -> Value:
        """The least j >= 0 with j dilation >= distance."""
        f = self.f
        above = f.compare(">", distance, 0)
        found = f.binary("udiv", distance + (self.n[5] - 1), self.n[5])
        return f.select(above, found, f.i64(0))

    def _all(self, first: Value, *more: Value) -> Value:
        for value in more:
            first = self.f.binary("and", first, value)
        return first

    def channels(self, inside: bool, arguments: Sequence[Value], begin: Value, end: Value) -> None:
        """Channels of a block: whole vectors, then pieces."""
        f = self.f
        whole = self.n[2] - self.spec.tail
        name = self.blocks[inside, self.lanes]
        last = f.select(f.compare("<", end, whole), end, whole)
        f.call(name, "void", *arguments, begin, last)
        if not self.spec.tail:
            return

        def rest() -> None:
            for at, lanes in pieces(self.spec.tail, self.lanes):
                first = whole + at
                name = self.blocks[inside, lanes]
                f.call(name, "void", *arguments, first, first + max(lanes, 1))

        f.if_(f.compare(">", end, whole), rest)


class _Block:
    """A function that computes `block` pixels, channels `first` to `last` by `lanes`."""

    def __init__(self, k: Kernel, spec: Depthwise, inside: bool, lanes: int) -> None:
        self.k = k
        self.spec = spec
        self.inside = inside
        self.lanes = lanes
        self.name = f"{k.f.name}_{'inside' if inside else 'edge'}_{lanes}"
        operands = [
            p for i in range(len(spec.after.operands)) for p in (("ptr", f"o{i}"), ("i64", f"s{i}"))
        ]
        parameters = [*_COMMON, *operands, ("i64", "first"), ("i64", "last")]
        self.f = k.module.function(self.name, parameters, internal=True)
        f = self.f
        self.codes = spec.x[0] in "us"
        self.zero = self.converted(f.arg("fill")) if self.codes and spec.shifted else None
        f.loop(f.arg("first"), f.arg("last"), self.chunk, step=max(1, lanes))
        f.ret()

    def chunk(self, channel: Value) -> None:
        """One vector of channels."""
        f, spec = self.f, self.spec
        total = BYTES[spec.total]
        x = f.at(f.arg("x"), channel * BYTES[spec.x])
        w = f.at(f.arg("w"), channel * total)
        at = f.at(f.arg("bias"), channel * total)
        start = load(f, self.k.isa, spec.total, at, self.lanes)

        def row(_: Value, x: Value, w: Value, *sums: Value) -> list[Value]:
            found = self.products(x, w, list(sums))
            w = f.at(w, f.arg("w_pixel") * (spec.columns * spec.spread))
            return [f.at(x, f.arg("x_row")), w, *found]

        _, _, *sums = f.loop(0, f.arg("rows"), row, [x, w, *[start] * spec.block])
        self.finish(sums, channel)

    def products(self, x: Value, w: Value, sums: list[Value]) -> list[Value]:
        """One row of the kernel, some of its columns at a time."""
        f, spec = self.f, self.spec
        most = max(1, _COLUMNS // spec.spread)
        for first in range(0, spec.columns, most):
            count = min(most, spec.columns - first)
            at = f.at(x, f.mul(f.arg("x_pixel"), first * spec.dilation))
            sums = self.columns(at, w, sums, first, count)
            w = f.at(w, f.mul(f.arg("w_pixel"), count * spec.spread))
        return sums

    def columns(self, x: Value, w: Value, sums: list[Value], first: int, count: int) -> list[Value]:
        """`count` columns of the kernel: each column of x is loaded once."""
        f, spec = self.f, self.spec
        taps = []
        for _ in range(count * spec.spread):
            taps.append(load(f, self.k.isa, spec.total, w, self.lanes))
            w = f.at(w, f.arg("w_pixel"))
        for column in range((spec.block - 1) * spec.stride + (count - 1) * spec.dilation + 1):
            uses = [
                (t, i)
                for t in range(spec.block)
                for i in range(count)
                if t * spec.stride + i * spec.dilation == column
            ]
            if uses:
                value = self.element(x, first * spec.dilation + column)
                for k, part in enumerate(self.spread(value)):
                    for t, i in uses:
                        sums[t] = self.add(part, taps[i * spec.spread + k], sums[t])
            x = f.at(x, f.arg("x_pixel"))
        return sums

    def spread(self, value: Value) -> list[Value]:
        """For each channel of a group, that channel in all lanes of the group."""
        width = self.spec.spread
        if width == 1:
            return [value]
        return [
            self.f.shuffle(value, None, [lane // width * width + k for lane in range(self.lanes)])
            for k in range(width)
        ]

    def element(self, x: Value, column: int) -> Value:
        f, spec = self.f, self.spec
        if not self.inside:
            number = f.arg("column") + column
            there = f.compare("<", number, f.arg("width"), signed=False)
            x = f.select(there, x, f.arg("fill"))
        if not self.codes:
            return load(f, self.k.isa, spec.x, x, self.lanes)
        found = self.converted(x)
        return found if self.zero is None else found - self.zero

    def converted(self, x: Value) -> Value:
        """An integer as a float."""
        kind = "uitofp" if self.spec.x[0] == "u" else "sitofp"
        value = load(self.f, self.k.isa, self.spec.x, x, self.lanes)
        return self.f.cast(kind, value, register_type(self.spec.total, self.lanes))

    def add(self, x: Value, w: Value, total: Value) -> Value:
        if self.k.isa.fma:
            return self.f.fma(x, w, total)
        found: Value = total + x * w
        return found

    def finish(self, sums: Sequence[Value], channel: Value) -> None:
        f, spec, isa = self.f, self.spec, self.k.isa
        lanes, after = self.lanes, spec.after
        out = f.at(f.arg("out"), channel * BYTES[after.out])
        pointers = [
            f.at(f.arg(f"o{i}"), channel * BYTES[o.dtype]) if o.channels else f.arg(f"o{i}")
            for i, o in enumerate(after.operands)
        ]

        def one(total: Value, t: Value | int) -> None:
            here = [
                f.at(p, f.mul(f.arg(f"s{i}"), t)) if after.operands[i].pixels else p
                for i, p in enumerate(pointers)
            ]
            values = operand_values(f, isa, after, here, 0, lanes)
            finish(f, isa, after, total, values, f.at(out, f.mul(f.arg("out_pixel"), t)), lanes)

        if self.inside and is_short(after):
            for t, total in enumerate(sums):
                one(total, t)
            return
        size = BYTES[spec.total] * max(1, lanes)
        for t, total in enumerate(sums):
            store(f, isa, spec.total, total, f.at(f.arg("cells"), t * size), lanes)

        def pixel(t: Value) -> None:
            one(load(f, isa, spec.total, f.at(f.arg("cells"), t * size), lanes), t)

        f.loop(0, f.arg("count"), pixel)
