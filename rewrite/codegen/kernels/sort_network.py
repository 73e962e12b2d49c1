"""Sorting without branches: a bitonic network over unsigned integers.

In: as many u64 in memory as a power of two says, at least one vector of them; or pairs of u64, the
more significant ones in one area and the others in a second. Out: instructions that sort them, the
greatest first. Which elements are compared does not depend on what they are, so that nothing is
mispredicted and whole vectors are compared at once.

Runs of `block` elements are sorted, falling and rising in turn; two of them together rise and fall
once, and comparing elements at distances block / 2, …, 2, 1 sorts those. A block that rises is
inverted bit by bit, sorted as one that falls, and inverted again.

Reference: K. E. Batcher, Sorting networks and their applications, 1968.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value

Words = list[Value]  # an element, or a vector of elements: its words, the most significant first


def sort_falling(f: Function, areas: Sequence[Value], size: Value, lanes: int) -> None:
    """Sorts `size` elements, whose words lie in `areas`. `lanes`: of one vector of u64, a power of
    two."""
    _Network(f, areas, size, lanes).write()


class _Network:
    def __init__(self, f: Function, areas: Sequence[Value], size: Value, lanes: int) -> None:
        self.f, self.areas, self.size, self.lanes = f, areas, size, lanes
        self.type = vector("i64", lanes) if lanes > 1 else "i64"

    def write(self) -> None:
        f = self.f
        if self.lanes > 1:
            f.loop(0, self.size, self.vector_run, step=self.lanes)
        more = f.compare(">", self.size, self.lanes)
        f.if_(more, lambda: f.while_(self.merge, [f.i64(2 * self.lanes)])[:0])

    def merge(self, block: Value) -> list[Value]:
        """All blocks of this size, whose halves are sorted, become sorted."""
        f = self.f

        def apart(distance: Value) -> list[Value]:
            self.compare_apart(block, distance)
            nearer = f.binary("lshr", distance, 1)
            return [f.compare(">=", nearer, self.lanes), nearer]

        f.while_(apart, [f.binary("lshr", block, 1)])
        if self.lanes > 1:
            f.loop(0, self.size, lambda i: self.within(i, block), step=self.lanes)
        double = f.add(block, block)
        return [f.compare("<=", double, self.size), double]

    def compare_apart(self, block: Value, distance: Value) -> None:
        """Vectors at a distance of one vector or more."""
        f = self.f
        low_bits = f.sub(distance, 1)

        def pair(i: Value) -> None:
            offset = f.binary("and", i, low_bits)
            here = f.add(f.mul(f.sub(i, offset), 2), offset)
            there = f.add(here, distance)
            rises = self.rises(here, block)
            greater, lesser = self.ordered(self.load(here, rises), self.load(there, rises))
            self.store(greater, here, rises)
            self.store(lesser, there, rises)

        f.loop(0, f.binary("lshr", self.size, 1), pair, step=self.lanes)

    def within(self, i: Value, block: Value) -> None:
        """One vector, the two halves of whose block have been compared down to its own size."""
        rises = self.rises(i, block)
        x = self.merged(self.load(i, rises), self.lanes)
        self.store(x, i, rises)

    def vector_run(self, i: Value) -> None:
        """One vector sorted from the start, rising where its number is odd."""
        rises = self.rises(i, self.f.i64(self.lanes))
        x = self.load(i, rises)
        block = 2
        while block <= self.lanes:
            x = self.merged(x, block)
            block *= 2
        self.store(x, i, rises)

    def merged(self, x: Words, block: int) -> Words:
        """Blocks of lanes sorted, falling and rising in turn."""
        distance = block // 2
        while distance:
            lanes = range(self.lanes)
            other = [self.f.shuffle(word, None, [i ^ distance for i in lanes]) for word in x]
            greater, lesser = self.ordered(x, other)
            first = [(i & distance == 0) == (i & block == 0 or block == self.lanes) for i in lanes]
            order = [i if takes else self.lanes + i for i, takes in enumerate(first)]
            x = [self.f.shuffle(a, b, order) for a, b in zip(greater, lesser, strict=True)]
            distance //= 2
        return x

    # --- elements ----------------------------------------------------------------------------

    def rises(self, i: Value, block: Value) -> Value:
        """All ones where the block of element `i` rises, else zeros."""
        f = self.f
        odd = f.compare("!=", f.binary("and", i, block), 0)
        return f.splat(f.cast("sext", odd, "i64"), self.type)

    def ordered(self, a: Words, b: Words) -> tuple[Words, Words]:
        f = self.f
        if len(a) == 1:
            names = ("llvm.umax", "llvm.umin")
            most, least = (f.intrinsic(name, self.type, a[0], b[0]) for name in names)
            return [most], [least]
        (upper_a, lower_a), (upper_b, lower_b) = a, b
        above = f.compare(">", upper_a, upper_b, signed=False)
        level = f.compare("==", upper_a, upper_b)
        decides = f.compare(">", lower_a, lower_b, signed=False)
        first = f.binary("or", above, f.binary("and", level, decides))
        greater = [f.select(first, x, y) for x, y in zip(a, b, strict=True)]
        return greater, [f.select(first, y, x) for x, y in zip(a, b, strict=True)]

    def load(self, i: Value, rises: Value) -> Words:
        f = self.f
        return [
            f.binary("xor", f.load(self.type, f.at(area, i, "i64"), 8), rises)
            for area in self.areas
        ]

    def store(self, x: Words, i: Value, rises: Value) -> None:
        f = self.f
        for word, area in zip(x, self.areas, strict=True):
            f.store(f.binary("xor", word, rises), f.at(area, i, "i64"), 8)
