"""The k largest or smallest elements (rewrite/plan/specs/sort.py).

In: a `TopK` spec. Out: code. An element and its place become one unsigned integer: the more
significant half orders elements, the other one places, the lower ones above. There is room for
some of them, more than k. Once it is full it is sorted (sort_network.py), the k greatest stay, and
of the elements that follow those are appended that are greater than the least that stayed; most
elements of a long row are dismissed by this one comparison, a vector of them at once.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.sort_network import sort_falling
from rewrite.codegen.memory import load, memory_type, register_type
from rewrite.codegen.types import bits, is_float, like, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.sort import TopK

Body = Callable[[Value, Value], list[Value]]


@emits(TopK)
def top_k(k: Kernel, spec: TopK) -> None:
    """One row after another."""
    _TopK(k, spec).write()


class _TopK:
    def __init__(self, k: Kernel, spec: TopK) -> None:
        self.f: Function = k.f
        self.isa: Isa = k.isa
        self.kernel, self.spec = k, spec
        self.x, self.values, self.places = k.pointer(0), k.pointer(1), k.pointer(2)
        self.n, self.k, self.room = (k.integer(i) for i in range(3, 6))
        self.half = 64 if bits(register_type(spec.dtype, 0)) == 64 else 32
        self.key = f"i{self.half}"
        self.name = memory_type(spec.dtype)
        self.lanes = max(1, k.isa.vector_bytes * 8 // self.half)
        self.wide = max(1, k.isa.vector_bytes // 8)  # u64 of a vector
        second = self.f.at(k.scratch, self.room, "i64")
        self.areas = [k.scratch] if self.half == 32 else [k.scratch, second]

    def write(self) -> None:
        f = self.f

        def item(number: Value) -> None:
            self.row(f.at(self.x, f.mul(number, self.n), self.name), f.mul(number, self.k))

        f.if_(
            f.compare(">", self.k, 0),
            lambda: _nothing(f.loop(self.kernel.begin, self.kernel.end, item)),
        )

    # --- keys --------------------------------------------------------------------------------

    def keys(self, x: Value) -> Value:
        """Unsigned integers that are ordered as wanted: the greatest come first."""
        f, spec = self.f, self.spec
        type_ = like(x.type, self.key)
        if is_float(x.type):
            # -0 becomes 0, every NaN the same one.
            x = f.add(x, 0.0)
            x = f.select(f.compare("!=", x, x), f.const(float("nan"), x.type), x)
            raw = f.bitcast(x, type_)
            sign = f.binary("ashr", raw, self.half - 1)
            flip = f.binary("or", sign, f.const(1 << (self.half - 1), type_))
            raw = f.binary("xor", raw, flip)
        elif spec.dtype[0] == "u":
            raw = f.cast("zext", x, type_)
        else:
            raw = f.binary("xor", f.cast("sext", x, type_), f.const(1 << (self.half - 1), type_))
        return raw if spec.largest else f.binary("xor", raw, f.const(-1, type_))

    def put(self, index: Value, keys: Value, places: Value) -> None:
        """Elements with their places, one or a vector, from number `index` on; places are i64.

        Lower places are greater.
        """
        f = self.f
        type_ = like(keys.type, "i64")
        if self.half == 64:
            words = [keys, f.binary("xor", places, f.const(-1, type_))]
        else:
            upper = f.binary("shl", f.cast("zext", keys, type_), 32)
            lower = f.binary("xor", places, f.const((1 << 32) - 1, type_))
            words = [f.binary("or", upper, lower)]
        for word, area in zip(words, self.areas, strict=True):
            f.store(word, f.at(area, index, "i64"), 8)

    def key_at(self, index: Value) -> Value:
        f = self.f
        word = f.load("i64", f.at(self.areas[0], index, "i64"), 8)
        return word if self.half == 64 else f.cast("trunc", f.binary("lshr", word, 32), "i32")

    def place_at(self, index: Value) -> Value:
        f = self.f
        word = f.load("i64", f.at(self.areas[-1], index, "i64"), 8)
        ones = (1 << self.half) - 1
        return f.binary("xor", f.binary("and", word, ones), ones)

    # --- a row -------------------------------------------------------------------------------

    def row(self, base: Value, target: Value) -> None:
        f = self.f
        first = f.intrinsic("llvm.smin", "i64", self.n, self.room)
        self.take_all(base, first)

        def turn(i: Value, count: Value) -> list[Value]:
            for area in self.areas:  # what is not taken is below all others
                f.loop(count, self.room, lambda j: f.store(f.i64(0), f.at(area, j, "i64")))  # noqa: B023
            sort_falling(f, self.areas, self.room, self.wide)
            ends = f.compare(">=", i, self.n)
            after, taken = f.if_(ends, lambda: [i, self.k], lambda: self.take_greater(base, i), 2)
            return [f.compare(">", taken, self.k), after, taken]

        f.while_(turn, [first, first])
        f.loop(0, self.k, lambda rank: self.give(base, target, rank))

    def element(self, base: Value, i: Int, count: int = 0) -> Value:
        """Element `i`, or a vector of elements."""
        return load(self.f, self.isa, self.spec.dtype, self.f.at(base, i, self.name), count)

    def take_all(self, base: Value, count: Value) -> None:
        """The first `count` elements."""
        f = self.f
        some = f.i64(0)
        if self.wide > 1:
            some = f.binary("and", count, -self.wide)

            def several(i: Value) -> None:
                type_ = vector("i64", self.wide)
                places = f.add(f.splat(i, type_), f.iota(type_))
                self.put(i, self.keys(self.element(base, i, self.wide)), places)

            f.loop(0, some, several, step=self.wide)
        f.loop(some, count, lambda i: self.put(i, self.keys(self.element(base, i)), i))

    def take_greater(self, base: Value, start: Value) -> list[Value]:
        """Behind the k greatest, elements from `start` on that are greater than the last of those,
        until the row ends or there is no room: where it stopped, and how many there are."""
        f = self.f
        least = self.key_at(f.sub(self.k, 1))

        def single(i: Value, count: Value) -> list[Value]:
            # Of equal keys the one that is there has the lower place.
            key = self.keys(self.element(base, i))
            self.put(count, key, i)
            passes = f.compare(">", key, least, signed=False)
            return [f.add(count, f.cast("zext", passes, "i64"))]

        if self.lanes < 2:
            return self.while_room(start, self.k, 1, single)

        def several(i: Value, count: Value) -> list[Value]:
            def one(bits: Value, count: Value) -> list[Value]:
                """The lowest of the lanes that are left; it passes."""
                place = f.add(i, f.call("llvm.cttz.i64", "i64", bits, f.const(True, "i1")))
                self.put(count, self.keys(self.element(base, place)), place)
                left = f.binary("and", bits, f.sub(bits, 1))
                return [f.compare("!=", left, 0), left, f.add(count, 1)]

            keys = self.keys(self.element(base, i, self.lanes))
            passed = f.compare(">", keys, f.splat(least, keys.type), signed=False)
            bits = f.cast("zext", f.bitcast(passed, f"i{self.lanes}"), "i64")
            some = f.compare("!=", bits, 0)
            return f.if_(some, lambda: f.while_(one, [bits, count])[1:], lambda: [count], 1)

        i, count = self.while_room(start, self.k, self.lanes, several)
        rest = f.compare("<", f.sub(self.n, i), self.lanes)
        return f.if_(rest, lambda: self.while_room(i, count, 1, single), lambda: [i, count], 2)

    def while_room(self, start: Value, count: Value, step: int, body: Body) -> list[Value]:
        """`body(i, count)` gives the next count, while there are `step` more elements, and room."""
        f = self.f

        def fits(i: Value, count: Value) -> Value:
            more = f.compare("<=", f.add(i, step), self.n)
            return f.binary("and", more, f.compare("<=", f.add(count, step), self.room))

        def turn(i: Value, count: Value) -> list[Value]:
            (count,) = body(i, count)
            i = f.add(i, step)
            return [fits(i, count), i, count]

        begins = fits(start, count)
        return f.if_(begins, lambda: f.while_(turn, [start, count]), lambda: [start, count], 2)

    def give(self, base: Value, target: Value, rank: Value) -> None:
        """The result's element number `rank` and its place."""
        f = self.f
        place = self.place_at(rank)
        out = f.add(target, rank)
        raw = f.load(self.name, f.at(base, place, self.name))
        f.store(raw, f.at(self.values, out, self.name))
        f.store(place, f.at(self.places, out, "i64"))


def _nothing(_: object) -> tuple[Value, ...]:
    return ()
