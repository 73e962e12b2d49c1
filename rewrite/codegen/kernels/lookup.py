"""The kernel of `Lookup`.

In: the spec. Out: code. Where the machine permutes bytes of two registers by a third (AVX-512
VBMI), 64 bytes are looked up by two permutations, one of each half of the table, and a choice by
the top bit; where each neighbour has a table of its own, blocks of 64 rows by 16 channels are
transposed before and behind. Elsewhere elements are looked up one by one, which is bound by loads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rewrite.codegen.gather import extracted, inserted
from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.transpose import within_parts
from rewrite.codegen.value import Value
from rewrite.plan.specs.lookup import CHUNK, Lookup

_UNROLL = 4
_CACHED = 64  # channels whose tables fill a third of the first cache
_PART = 16  # bytes of a part of a vector, within which bytes are interleaved
_BYTES = "<64 x i8>"


@emits(Lookup)
def lookup(k: Kernel, spec: Lookup) -> None:
    _Lookup(k, spec).write()


class _Lookup:
    def __init__(self, k: Kernel, spec: Lookup) -> None:
        self.k, self.f, self.spec = k, k.f, spec
        self.x, self.table, self.y = (k.pointer(i) for i in range(3))
        self.entry = f"i{8 * spec.width}"
        self.permutes = k.isa.has("avx512vbmi") and spec.width == 1 and k.isa.vector_bytes == 64

    def write(self) -> None:
        f, k = self.f, self.k
        if not self.spec.channels:
            count = k.integer(3)

            def chunk(index: Value) -> None:
                start = f.mul(index, CHUNK)
                left = f.sub(count, start)
                length = f.select(f.compare("<", left, CHUNK), left, CHUNK)
                self.row(self.table, start, length)

            f.loop(k.begin, k.end, chunk)
            return
        channels, inner = k.integer(3), k.integer(4)
        if self.spec.neighbours:
            at = self.blocks(channels) if self.permutes else k.begin
            f.loop(at, k.end, lambda r: self.across(f.mul(r, channels), channels))
            return

        def row(index: Value) -> None:
            channel = f.binary("urem", index, channels)
            table = f.at(self.table, f.mul(channel, 256 * self.spec.width))
            self.row(table, f.mul(index, inner), inner)

        f.loop(k.begin, k.end, row)

    def blocks(self, channels: Value) -> Value:
        """Rows by the 64, then by the 16; which is the first row that is left.

        Tables of some channels stay in the first cache while all rows go by.
        """
        f, k = self.f, self.k
        whole = f.sub(channels, f.binary("urem", channels, _PART))
        at = k.begin
        for groups in (4, 1):
            rows = 16 * groups
            left = f.select(f.compare("<", at, k.end), f.sub(k.end, at), 0)
            end: Value = f.add(at, f.mul(f.binary("udiv", left, rows), rows))

            def some(c: Value, groups: int = groups, at: Value = at, end: Value = end) -> None:
                last = f.add(c, _CACHED)
                last = f.select(f.compare("<", last, whole), last, whole)

                def row(r: Value) -> None:
                    start = f.mul(r, channels)
                    f.loop(c, last, partial(self.block, groups, channels, start), step=_PART)

                f.loop(at, end, row, step=_PART * groups)

            f.loop(0, whole, some, step=_CACHED)
            f.loop(at, end, partial(self.behind, whole, channels))
            at = end
        return at

    def behind(self, first: Value, channels: Value, row: Value) -> None:
        """The channels of a row behind the last block."""
        f = self.f
        start = f.mul(row, channels)

        def element(c: Value) -> None:
            self.element(f.at(self.table, f.mul(c, 256)), f.add(start, c))

        f.loop(first, channels, element)

    def block(self, groups: int, channels: Value, start: Value, c: Value) -> None:
        """Row 16 g + i of a block lies in part g of vector i."""
        f = self.f
        at = f.add(start, c)
        offsets = [
            [f.add(at, f.mul(channels, _PART * g + i)) for g in range(groups)] for i in range(_PART)
        ]
        vectors = [self.loaded(row) for row in offsets]
        columns = within_parts(f, vectors, _PART)
        found = [
            permuted(f, f.at(self.table, f.mul(f.add(c, j), 256)))(column)
            for j, column in enumerate(columns)
        ]
        for row, vector in zip(offsets, within_parts(f, found, _PART), strict=True):
            for g, offset in enumerate(row):
                f.store(extracted(f, vector, _PART * g, _PART), f.at(self.y, offset))

    def loaded(self, offsets: list[Value]) -> Value:
        f = self.f
        value = f.undef(_BYTES)
        for g, offset in enumerate(offsets):
            part = f.load(f"<{_PART} x i8>", f.at(self.x, offset))
            value = inserted(f, value, part, _PART * g)
        return value

    def across(self, start: Value, channels: Value) -> None:
        """One element of each channel."""
        f = self.f

        def element(c: Value) -> None:
            table = f.at(self.table, f.mul(c, 256 * self.spec.width))
            self.element(table, f.add(start, c))

        f.loop(0, channels, element)

    def row(self, table: Value, start: Value, length: Value) -> None:
        """Neighbours with one table."""
        f = self.f
        at: Int = 0
        if self.permutes:
            look = permuted(f, table)

            def vector(i: Value) -> None:
                place = f.add(start, i)
                found = look(f.load(_BYTES, f.at(self.x, place)))
                f.store(found, f.at(self.y, place))

            whole = f.sub(length, f.binary("urem", length, 64))
            f.loop(0, whole, vector, step=64)
            at = whole
        else:

            def several(i: Value) -> None:
                for u in range(_UNROLL):
                    self.element(table, f.add(start, f.add(i, u)))

            at = f.sub(length, f.binary("urem", length, _UNROLL))
            f.loop(0, at, several, step=_UNROLL)
        f.loop(at, length, lambda i: self.element(table, f.add(start, i)))

    def element(self, table: Value, place: Value) -> None:
        f = self.f
        index = f.cast("zext", f.load("i8", f.at(self.x, place)), "i64")
        found = f.load(self.entry, f.at(table, index, self.entry))
        f.store(found, f.at(self.y, place, self.entry))


def permuted(f: Function, table: Value) -> Callable[[Value], Value]:
    """A table of 256 bytes in four registers; gives what looks up 64 bytes."""
    parts = [f.load(_BYTES, f.at(table, 64 * i)) for i in range(4)]
    name = "llvm.x86.avx512.vpermi2var.qi.512"

    def look(x: Value) -> Value:
        low, high = (f.call(name, _BYTES, a, x, b) for a, b in (parts[:2], parts[2:]))
        return f.select(f.compare("<", x, 0), high, low)

    return look
