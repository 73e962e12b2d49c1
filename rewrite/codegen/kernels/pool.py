"""Pools: windows of a channels-last image combined, vectors of channels at a time.

In: `Pool`. Out: a kernel. Several vectors of channels share the walk over a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.conv_after import finish, operand_values, pieces
from rewrite.codegen.memory import load, register_type
from rewrite.codegen.types import bits, is_float, like, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.pool import Pool
from rewrite.plan.view import BYTES

_GROUP = 4  # vectors of channels at a time


@emits(Pool)
def pool(k: Kernel, spec: Pool) -> None:
    _Pools(k, spec).emit()


@dataclass(frozen=True, slots=True)
class _Range:
    """What one dimension of a window covers: first index, count, elements counted."""

    first: Value
    count: Value
    counted: Value


@dataclass(frozen=True, slots=True)
class _Pixel:
    """One window: ranges in d, h, w; addresses of results and operands at its pixel."""

    ranges: tuple[_Range, _Range, _Range]
    x: Value
    out: Value
    indices: Value | None
    image: Value
    operands: list[Value]
    count: Value | None


class _Pools:
    def __init__(self, k: Kernel, spec: Pool) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        self.lanes = k.isa.lanes("s64" if spec.indices else spec.total)
        n = len(spec.after.operands)
        self.x = k.pointer(0)
        self.tables = [k.pointer(1 + i) for i in range(3)]
        self.operands = [k.pointer(4 + i) for i in range(n)]
        self.out = k.pointer(4 + n)
        self.indices = k.pointer(5 + n) if spec.indices else None
        base = (6 if spec.indices else 5) + n
        self.n = [k.integer(base + i) for i in range(16 + 2 * n)]

    def emit(self) -> None:
        self.f.loop(self.k.begin, self.k.end, self.row)

    def range_of(self, axis: int, index: Value) -> _Range:
        f = self.f
        at = f.at(self.tables[axis], index * 3, "i32")
        found = [f.cast("sext", f.load("i32", f.at(at, i, "i32")), "i64") for i in range(3)]
        return _Range(*found)

    def row(self, item: Value) -> None:
        f, n = self.f, self.n
        rest = f.binary("udiv", item, n[1])
        h = item - rest * n[1]
        image = f.binary("udiv", rest, n[0])
        d = rest - image * n[0]
        depth, height = self.range_of(0, d), self.range_of(1, h)
        first = (d * n[1] + h) * n[2]
        x = f.at(self.x, image * n[15] * BYTES[self.spec.x])
        out = f.at(self.out, image * n[10] * BYTES[self.spec.after.out])

        def column(w: Value) -> None:
            width = self.range_of(2, w)
            pixel = first + w
            start = depth.first * n[7] + height.first * n[8] + width.first * n[9]
            indices = None
            if self.indices is not None:
                indices = f.at(self.indices, (image * n[10] + pixel * n[3]) * 8)
            operands = [
                f.at(p, (image * n[16 + 2 * i] + pixel * n[17 + 2 * i]) * BYTES[o.dtype])
                for i, (p, o) in enumerate(
                    zip(self.operands, self.spec.after.operands, strict=True)
                )
            ]
            self.channels(_Pixel(
                (depth, height, width), f.at(x, start * BYTES[self.spec.x]),
                f.at(out, pixel * n[3] * BYTES[self.spec.after.out]), indices, image, operands,
                self.count((depth, height, width)),
            ))  # fmt: skip

        f.loop(0, n[2], column)

    def count(self, ranges: Sequence[_Range]) -> Value | None:
        if not self.spec.counted:
            return None
        a, b, c = (r.counted for r in ranges)
        kind = "sitofp" if self.spec.counted[0] == "f" else "trunc"
        return self.f.cast(kind, a * b * c, register_type(self.spec.counted, 0))

    def channels(self, pixel: _Pixel) -> None:
        """Groups of vectors, vectors, then what is left."""
        f, lanes = self.f, self.lanes
        wide = lanes * _GROUP
        channels = self.n[3]
        grouped = f.binary("and", channels, -wide)
        whole = channels - self.spec.tail
        f.loop(0, grouped, lambda c: self.vectors(pixel, c, _GROUP, lanes), step=wide)
        f.loop(grouped, whole, lambda c: self.vectors(pixel, c, 1, lanes), step=lanes)
        for at, width in pieces(self.spec.tail, lanes):
            self.vectors(pixel, whole + at, 1, width)

    def vectors(self, pixel: _Pixel, channel: Value, count: int, lanes: int) -> None:
        """`count` vectors of channels of one window."""
        f, spec = self.f, self.spec
        size = BYTES[spec.x]
        x = f.at(pixel.x, channel * size)
        start = [self.initial(lanes)] * count
        step = [self.n[4 + i] * self.n[7 + i] * size for i in range(3)]
        index = [self.n[4 + i] * self.n[11 + i] for i in range(3)]
        begin = f.i64(0)
        if spec.indices:
            for i, r in enumerate(pixel.ranges):
                begin = begin + r.first * self.n[11 + i]
            # Where no element is larger than the lowest number there is, the first is the largest.
            start += [f.splat(begin, like(start[0].type, "i64"))] * count

        def walk(axis: int, at: Value, place: Value, carried: Sequence[Value]) -> list[Value]:
            if axis == 3:
                return self.taken(at, place, carried, count, lanes)

            def turn(_: Value, at: Value, place: Value, *found: Value) -> list[Value]:
                after = walk(axis + 1, at, place, found)
                return [f.at(at, step[axis]), place + index[axis], *after]

            return f.loop(0, pixel.ranges[axis].count, turn, [at, place, *carried])[2:]

        found = walk(0, x, begin, start)
        self.finish(pixel, channel, found, count, lanes)

    def initial(self, lanes: int) -> Value:
        spec = self.spec
        type_ = register_type(spec.total, lanes)
        if spec.combine == "sum":
            return self.f.zero(type_)
        if is_float(type_):
            return self.f.const(float("-inf"), type_)
        width = 8 * BYTES[spec.total]
        return self.f.const(0 if spec.total[0] == "u" else -(1 << (width - 1)), type_)

    def taken(
        self, at: Value, place: Value, carried: Sequence[Value], count: int, lanes: int
    ) -> list[Value]:
        """One element of the window for each vector."""
        f, spec = self.f, self.spec
        found, places = [], []
        for v in range(count):
            x = load(f, self.k.isa, spec.x, f.at(at, v * lanes * BYTES[spec.x]), lanes)
            if spec.each is not None:
                x = emit_body(f, self.k.isa, spec.each, [x])[0]
            best = carried[v]
            if spec.combine == "sum":
                found.append(f.add(best, x))
                continue
            if not spec.indices:
                found.append(self.maximum(x, best))
                continue
            larger = self.larger(x, best)
            found.append(f.select(larger, x, best))
            here = f.splat(place, like(x.type, "i64"))
            places.append(f.select(larger, here, carried[count + v]))
        return [*found, *places]

    def maximum(self, x: Value, best: Value) -> Value:
        """The larger one, or NaN if one is.

        Each of the two comparisons gives its second operand where they have no order, as the
        instruction of x86 does, so that the bits of both have those of NaN; else they are equal.
        """
        f = self.f
        if not is_float(x.type):
            more = f.compare(">", x, best, signed=self.spec.total[0] == "s")
            return f.select(more, x, best)
        bits_ = like(x.type, f"i{bits(x.type)}")
        one = f.bitcast(f.select(f.compare(">", x, best), x, best), bits_)
        other = f.bitcast(f.select(f.compare(">", best, x), best, x), bits_)
        return f.bitcast(f.binary("or", one, other), x.type)

    def larger(self, x: Value, best: Value) -> Value:
        """Whether x takes the place of the best; a NaN does, and nothing takes its place."""
        f = self.f
        if not is_float(x.type):
            return f.compare(">", x, best, signed=self.spec.total[0] == "s")
        # Not (x <= best): larger, or one of them is NaN.
        more = f.compare(">", x, best, ordered=False)
        return f.binary("and", more, f.op(f"fcmp ord {best.type} {best.text}, {best.text}",
                                          like(best.type, "i1")))  # fmt: skip

    def finish(
        self, pixel: _Pixel, channel: Value, found: Sequence[Value], count: int, lanes: int
    ) -> None:
        f, spec, isa = self.f, self.spec, self.k.isa
        for v in range(count):
            c = channel + v * lanes
            pointers = [
                f.at(p, c * BYTES[o.dtype]) if o.channels else p
                for p, o in zip(pixel.operands, spec.after.operands, strict=True)
            ]
            values = operand_values(f, isa, spec.after, pointers, 0, lanes)
            if pixel.count is not None:
                values.insert(0, f.splat(pixel.count, register_type(spec.counted, lanes)))
            out = f.at(pixel.out, c * BYTES[spec.after.out])
            finish(f, isa, spec.after, found[v], values, out, lanes)
            if pixel.indices is not None:
                self.place(pixel, c, found[count + v], f.at(pixel.indices, c * 8), lanes)

    def place(self, pixel: _Pixel, channel: Value, found: Value, at: Value, lanes: int) -> None:
        """The index in the whole tensor."""
        f, n = self.f, self.n
        numbers: Int = (pixel.image * n[3] + channel) * n[14]
        if lanes:
            wide = vector("i64", lanes)
            each = f.mul(f.iota(wide), f.splat(n[14], wide))
            numbers = f.add(f.splat(numbers, wide), each)
        f.store(f.add(numbers, found), at)
