"""Places of extremes (rewrite/plan/specs/reduce.py).

In: an `ArgExtreme` spec. Out: code. Every lane keeps the best element that it has met and its
place; where lanes lie along the axis, the best of the lanes is found at the end, and among equal
ones the first or the last place.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.rows_memory import (
    Partial,
    load_partial,
    partial,
    slot_for_partial,
    store_partial,
)
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.strips import each_strip
from rewrite.codegen.types import bits, is_float, like, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.reduce import ArgExtreme

_UNROLL = 4  # sets of best elements along the axis: a comparison waits for the one before it


@emits(ArgExtreme)
def arg_extreme(k: Kernel, spec: ArgExtreme) -> None:
    """Along or across vectors."""
    _Search(k, spec).write()


class _Search:
    def __init__(self, k: Kernel, spec: ArgExtreme) -> None:
        self.f: Function = k.f
        self.isa: Isa = k.isa
        self.k, self.spec = k, spec
        self.x, self.out = k.pointer(0), k.pointer(1)
        self.n, self.inner, self.group = k.integer(2), k.integer(3), k.integer(4)
        register = register_type(spec.dtype, 0)
        self.lanes = max(1, min(64, k.isa.vector_bytes // max(4, bits(register) // 8)))
        self.index = f"i{max(32, bits(register))}"
        self.slot = slot_for_partial(k.f)

    def write(self) -> None:
        if self.spec.inner_one:
            self.f.loop(self.k.begin, self.k.end, self.row)
        else:
            each_strip(self.k, self.inner, self.group, self.strip)

    # --- comparing ---------------------------------------------------------------------------

    def better(self, x: Value, best: Value) -> Value:
        """Whether x, which comes later, takes the place of the best one."""
        f, spec = self.f, self.spec
        sign = (">" if spec.largest else "<") + ("=" if spec.last else "")
        if spec.dtype == "bool":
            x, best = (f.cast("zext", v, like(v.type, "i8")) for v in (x, best))
        wins = f.compare(sign, x, best, signed=spec.dtype[0] == "s")
        if not is_float(x.type):
            return wins
        # A NaN takes the place of a number; of NaNs the last one of the first.
        nan = f.compare("!=", x, x)
        if not spec.last:
            nan = f.binary("and", nan, f.compare("==", best, best))
        return f.binary("or", wins, nan)

    def taken(
        self, x: Value, place: Value, best: Value, best_place: Value, inside: Value | None = None
    ) -> list[Value]:
        f = self.f
        wins = self.better(x, best)
        if inside is not None:
            wins = f.binary("and", wins, inside)
        return [f.select(wins, x, best), f.select(wins, place, best_place)]

    # --- along -------------------------------------------------------------------------------

    def row(self, item: Value) -> None:
        """One row of n neighbours; every lane starts with the first element."""
        f, count, dtype = self.f, self.lanes, self.spec.dtype
        name, index = memory_type(dtype), vector(self.index, self.lanes)
        base = f.at(self.x, f.mul(item, self.n), name)
        whole, some = (f.binary("and", self.n, -by) for by in (_UNROLL * count, count))
        first = load(f, self.isa, dtype, base, count, 0)
        places = f.iota(index)

        def met(i: Value, best: Value, place: Value, part: Partial | None = None) -> list[Value]:
            at = f.at(base, i, name)
            if part is None:
                x, inside = load(f, self.isa, dtype, at, count), None
            else:
                x = load_partial(f, self.isa, dtype, at, count, 1, part)
                inside = part.bits
            here = f.add(f.splat(self.narrow(i), index), places)
            return self.taken(x, here, best, place, inside)

        def several(i: Value, *carried: Value) -> list[Value]:
            found: list[Value] = []
            for u in range(_UNROLL):
                found += met(f.add(i, u * count), carried[2 * u], carried[2 * u + 1])
            return found

        start = [first, f.zero(index)]
        sets = f.loop(0, whole, several, start * _UNROLL, _UNROLL * count)
        best = sets[:2]
        for u in range(1, _UNROLL):
            best = list(self.merged(best[0], best[1], sets[2 * u], sets[2 * u + 1]))
        best = f.loop(whole, some, met, best, count)

        def tail() -> list[Value]:
            part = partial(f, f.sub(self.n, some), count, self.slot)
            return met(some, best[0], best[1], part)

        best = f.if_(f.compare("<", some, self.n), tail, lambda: best, 2)
        place = f.cast("zext", self.of_lanes(best[0], best[1]), "i64")
        if self.spec.hot is None:
            f.store(place, f.at(self.out, item, "i64"))
            return
        hot = self.spec.hot
        out = f.at(self.out, f.mul(item, self.n), memory_type(hot))
        zero, one = (f.const(v, register_type(hot, 0)) for v in (0, 1))

        def write(i: Value) -> None:
            store(f, self.isa, hot, zero, f.at(out, i, memory_type(hot)), 0)

        f.loop(0, self.n, write)
        store(f, self.isa, hot, one, f.at(out, place, memory_type(hot)), 0)

    def narrow(self, i: Value) -> Value:
        return i if self.index == "i64" else self.f.cast("trunc", i, self.index)

    def of_lanes(self, best: Value, place: Value) -> Value:
        """The place of the best lane."""
        f = self.f
        count = self.lanes
        while count > 1:
            count //= 2
            low, high = range(count), range(count, 2 * count)
            a, b = f.shuffle(best, None, low), f.shuffle(best, None, high)
            p, q = f.shuffle(place, None, low), f.shuffle(place, None, high)
            best, place = self.merged(a, p, b, q)
        return f.extract(place, 0)

    def merged(self, a: Value, p: Value, b: Value, q: Value) -> tuple[Value, Value]:
        """The better one of two, and its place; of equal ones that with the better place."""
        f = self.f
        wins, loses = self.strictly_better(b, a), self.strictly_better(a, b)
        later = f.compare(">" if self.spec.last else "<", q, p)
        draw = f.binary("xor", loses, f.const(True, loses.type))
        wins = f.binary("or", wins, f.binary("and", draw, later))
        return f.select(wins, b, a), f.select(wins, q, p)

    def strictly_better(self, x: Value, y: Value) -> Value:
        """Whether x beats y whatever their places are."""
        f, spec = self.f, self.spec
        if spec.dtype == "bool":
            x, y = (f.cast("zext", v, like(v.type, "i8")) for v in (x, y))
        wins = f.compare(">" if spec.largest else "<", x, y, signed=spec.dtype[0] == "s")
        if not is_float(x.type):
            return wins
        nan = f.binary("and", f.compare("!=", x, x), f.compare("==", y, y))
        return f.binary("or", wins, nan)

    # --- across ------------------------------------------------------------------------------

    def strip(self, outer: Value, first: Value, width: Value) -> None:
        """Neighbours along inner, each with a lane of its own."""
        f, count = self.f, self.lanes
        some = f.binary("and", width, -count)

        def whole(j: Value) -> None:
            self.columns(outer, f.add(first, j), None)

        f.loop(0, some, whole, step=count)

        def rest() -> Sequence[Value]:
            self.columns(
                outer, f.add(first, some), partial(f, f.sub(width, some), count, self.slot)
            )
            return ()

        f.if_(f.compare("<", some, width), rest)

    def columns(self, outer: Value, first: Value, part: Partial | None) -> None:
        f, dtype, index = self.f, self.spec.dtype, vector(self.index, self.lanes)
        name = memory_type(dtype)
        base = f.at(self.x, f.add(f.mul(f.mul(outer, self.n), self.inner), first), name)

        def element(i: Int) -> Value:
            pointer = f.at(base, f.mul(i, self.inner), name)
            if part is None:
                return load(f, self.isa, dtype, pointer, self.lanes)
            return load_partial(f, self.isa, dtype, pointer, self.lanes, 1, part)

        def turn(i: Value, best: Value, place: Value) -> list[Value]:
            return self.taken(element(i), f.splat(self.narrow(i), index), best, place)

        _, place = f.loop(1, self.n, turn, [element(0), f.zero(index)])
        if self.spec.hot is None:
            wide = f.cast("zext", place, vector("i64", self.lanes))
            self.put("s64", wide, f.add(f.mul(outer, self.inner), first), part)
            return
        hot = self.spec.hot
        type_ = register_type(hot, self.lanes)

        def write(i: Value) -> None:
            here = f.compare("==", place, f.splat(self.narrow(i), index))
            value = f.select(here, f.const(1, type_), f.const(0, type_))
            at = f.add(f.mul(f.add(f.mul(outer, self.n), i), self.inner), first)
            self.put(hot, value, at, part)

        f.loop(0, self.n, write)

    def put(self, dtype: str, value: Value, at: Value, part: Partial | None) -> None:
        pointer = self.f.at(self.out, at, memory_type(dtype))
        if part is None:
            store(self.f, self.isa, dtype, value, pointer, self.lanes)
        else:
            store_partial(self.f, self.isa, dtype, value, pointer, self.lanes, 1, part)
