"""Take: places that tables say, one table per dimension.

In: the spec of rewrite/plan/specs/index.py. Out: code. A line (everything behind the last dimension
but one) that is the line before again is copied from there.
"""

from __future__ import annotations

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.moving import (
    copy_bytes,
    copy_row,
    fill_row,
    load_bytes,
    row_major,
    store_bytes,
)
from rewrite.codegen.value import Value
from rewrite.plan.specs.index import Take


@emits(Take)
def take(k: Kernel, spec: Take) -> None:
    """Items are places of the outer and the first dimension together."""
    f = k.f
    made = _Take(k, spec)
    if spec.rank == 1 and spec.repeat:
        f.loop(k.begin, k.end, made.lone_line)
    elif made.has_lines and spec.rank == 2:
        f.loop(k.begin, k.end, made.line_item, [made.nowhere])
    else:
        f.loop(k.begin, k.end, made.item)


class _Take:
    """The operands of the kernel. `inside`: no table so far has asked for the fill value."""

    def __init__(self, k: Kernel, spec: Take) -> None:
        f, rank = k.f, spec.rank
        self.k, self.f, self.spec, self.rank = k, f, spec, rank
        self.data, fill, *self.tables, self.result = (k.pointer(i) for i in range(3 + rank))
        self.pitch, self.row_bytes = k.integer(4 + rank), k.integer(5 + rank)
        self.sizes = [k.integer(6 + rank + i) for i in range(rank)]
        self.row: Int = spec.row or self.row_bytes
        self.steps = [f.mul(s, self.row) for s in row_major(f, self.sizes)]
        self.blank = load_bytes(f, fill, spec.width) if spec.filled else None
        self.first = f.intrinsic("llvm.umax", "i64", self.sizes[0], 1)
        self.has_lines = rank >= 2 and not spec.filled
        self.nowhere = f.const(-(1 << 63), "i64")  # an offset that no line has

    # --- items -------------------------------------------------------------------------------

    def parts(self, number: Value) -> tuple[Value, Int, Int]:
        """Place of the first dimension, and where its outer place begins in data and result."""
        f = self.f
        outer = f.binary("udiv", number, self.first)
        inner = f.sub(number, f.mul(outer, self.first))
        return inner, f.mul(outer, self.pitch), f.mul(f.mul(outer, self.first), self.steps[0])

    def item(self, number: Value) -> None:
        inner, source, target = self.parts(number)
        self.place(0, inner, source, target, None)

    def line_item(self, number: Value, last: Value) -> Value:
        inner, source, target = self.parts(number)
        return self.line(0, inner, source, target, last)

    def lone_line(self, number: Value) -> None:
        f = self.f
        whole = f.mul(self.sizes[0], self.steps[0])
        self.level(0, f.mul(number, self.pitch), f.mul(number, whole), None)

    # --- dimensions --------------------------------------------------------------------------

    def level(self, axis: int, source: Int, target: Int, inside: Value | None) -> None:
        """All places of a dimension, and of those behind it."""
        f, size = self.f, self.sizes[axis] if axis < self.rank else 0
        if axis == self.rank:
            self.leaf(source, target, inside)
        elif axis == self.rank - 1 and self.spec.repeat:
            self.repeated(f.at(self.data, source), f.at(self.result, target), size)
        elif axis == self.rank - 2 and self.has_lines:

            def line(i: Value, last: Value) -> Value:
                return self.line(axis, i, source, target, last)

            f.loop(0, size, line, [self.nowhere])
        else:
            f.loop(0, size, lambda i: self.place(axis, i, source, target, inside))

    def offset(self, axis: int, i: Int) -> Value:
        return self.f.load("i64", self.f.at(self.tables[axis], i, "i64"))

    def place(self, axis: int, i: Int, source: Int, target: Int, inside: Value | None) -> None:
        f = self.f
        offset = self.offset(axis, i)
        if self.spec.filled:
            fine = f.compare(">=", offset, 0)
            inside = fine if inside is None else f.binary("and", inside, fine)
        to = f.add(target, f.mul(i, self.steps[axis]))
        self.level(axis + 1, f.add(source, offset), to, inside)

    def line(self, axis: int, i: Int, source: Int, target: Int, last: Value) -> Value:
        """One line; gives its offset in data."""
        f, size = self.f, self.steps[axis]
        here: Value = f.i64(f.add(source, self.offset(axis, i)))
        to = f.add(target, f.mul(i, size))

        def again() -> None:
            before = f.at(self.result, f.sub(to, size))
            copy_bytes(f, self.k.isa, before, f.at(self.result, to), size)

        f.if_(f.compare("==", here, last), again, lambda: self.level(axis + 1, here, to, None))
        return here

    # --- elements ----------------------------------------------------------------------------

    def leaf(self, source: Int, target: Int, inside: Value | None) -> None:
        f, spec, blank = self.f, self.spec, self.blank
        to = f.at(self.result, target)

        def move() -> None:
            copy_row(f, self.k.isa, f.at(self.data, source), to, spec.row, self.row_bytes)

        if blank is None or inside is None:
            move()
        else:
            f.if_(inside, move, lambda: fill_row(f, to, blank, spec.width, self.row))

    def repeated(self, source: Value, target: Value, size: Int) -> None:
        """Elements in order, each `repeat` times: vectors are spread by shuffles."""
        f, times, width = self.f, self.spec.repeat, self.spec.width
        lanes = max(1, self.k.isa.vector_bytes // width)
        kind = f"[{width} x i8]"
        count = f.divide(size, times)
        whole = f.binary("and", count, -lanes)

        def vector(i: Value) -> None:
            x = f.load(f"<{lanes} x i{8 * width}>", f.at(source, i, kind), 1)
            for part in range(times):
                spread = [(part * lanes + lane) // times for lane in range(lanes)]
                place = f.add(f.mul(i, times), part * lanes)
                f.store(f.shuffle(x, None, spread), f.at(target, place, kind), 1)

        def scalar(i: Value) -> None:
            x = load_bytes(f, f.at(source, i, kind), width)
            for part in range(times):
                store_bytes(f, x, f.at(target, f.add(f.mul(i, times), part), kind), width)

        f.loop(0, whole, vector, step=lanes)
        f.loop(whole, count, scalar)
