"""Running sums and products (rewrite/plan/specs/scan.py).

In: a `RunningTotal` spec. Out: code. Across vectors every lane has a total of its own. Along them a
vector is combined with itself, moved by 1, 2, 4, … lanes, and then with the total before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.rows_fold import combiner
from rewrite.codegen.kernels.rows_memory import (
    Partial,
    load_partial,
    partial,
    slot_for_partial,
    store_partial,
)
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.strips import each_strip
from rewrite.codegen.types import bits
from rewrite.codegen.value import Value
from rewrite.plan.specs.scan import RunningTotal


@emits(RunningTotal)
def running_total(k: Kernel, spec: RunningTotal) -> None:
    """Along or across vectors."""
    _Scan(k, spec).write()


class _Scan:
    def __init__(self, k: Kernel, spec: RunningTotal) -> None:
        self.f: Function = k.f
        self.isa: Isa = k.isa
        self.k, self.spec = k, spec
        self.x, self.y = k.pointer(0), k.pointer(1)
        self.n, self.inner, self.group = k.integer(2), k.integer(3), k.integer(4)
        register = register_type(spec.dtype, 0)
        self.lanes = max(1, k.isa.vector_bytes // (bits(register) // 8))
        self.name = memory_type(spec.dtype)
        self.type = register_type(spec.dtype, self.lanes)
        self.neutral = 0 if spec.combine == "add" else 1
        self.combine = combiner(k.f, spec.combine, spec.dtype)
        self.slot = slot_for_partial(k.f)

    def write(self) -> None:
        f = self.f
        if self.spec.inner_one:
            f.loop(self.k.begin, self.k.end, self.row)
            return

        def strip(outer: Value, first: Value, width: Value) -> None:
            self.strip(f.add(f.mul(f.mul(outer, self.n), self.inner), first), width)

        each_strip(self.k, self.inner, self.group, strip)

    # --- along -------------------------------------------------------------------------------

    def row(self, item: Value) -> None:
        """Whole vectors from one end, then single elements."""
        f, count = self.f, self.lanes
        start = f.mul(item, self.n)
        some = f.binary("and", self.n, -count)

        def vectors(i: Value, total: Value) -> Value:
            at = f.add(start, self.from_end(i, count))
            x = self.turned(load(f, self.isa, self.spec.dtype, self.at(self.x, at), count))
            scanned = self.scanned(x)
            before = f.splat(total, self.type)
            totals = self.combine(before, scanned)
            given = totals
            if self.spec.exclusive:
                given = self.combine(before, self.moved(scanned, 1))
            store(f, self.isa, self.spec.dtype, self.turned(given), self.at(self.y, at), count)
            return f.extract(totals, count - 1)

        def single(i: Value, total: Value) -> Value:
            at = f.add(start, self.from_end(i, 1))
            x = load(f, self.isa, self.spec.dtype, self.at(self.x, at), 0)
            after = self.combine(total, x)
            given = total if self.spec.exclusive else after
            store(f, self.isa, self.spec.dtype, given, self.at(self.y, at), 0)
            return after

        scalar = register_type(self.spec.dtype, 0)
        (total,) = f.loop(0, some, vectors, [f.const(self.neutral, scalar)], count)
        f.loop(some, self.n, single, [total])

    def from_end(self, i: Value, count: int) -> Value:
        """Where the i-th element in the order of the scan begins, of so many at once."""
        if not self.spec.reverse:
            return i
        found: Value = self.f.sub(self.f.sub(self.n, count), i)
        return found

    def turned(self, x: Value) -> Value:
        if not self.spec.reverse:
            return x
        return self.f.shuffle(x, None, range(self.lanes - 1, -1, -1))

    def moved(self, x: Value, by: int) -> Value:
        """Lane k + by has what lane k had; the first lanes change nothing."""
        neutral = self.f.const(self.neutral, self.type)
        order = [self.lanes + k if k < by else k - by for k in range(self.lanes)]
        return self.f.shuffle(x, neutral, order)

    def scanned(self, x: Value) -> Value:
        by = 1
        while by < self.lanes:
            x = self.combine(self.moved(x, by), x)
            by *= 2
        return x

    # --- across ------------------------------------------------------------------------------

    def strip(self, start: Value, width: Value) -> None:
        """Neighbours along inner, each with a lane of its own."""
        f, count = self.f, self.lanes
        some = f.binary("and", width, -count)
        f.loop(0, some, lambda j: self.columns(f.add(start, j), None), step=count)

        def rest() -> Sequence[Value]:
            self.columns(f.add(start, some), partial(f, f.sub(width, some), count, self.slot))
            return ()

        f.if_(f.compare("<", some, width), rest)

    def columns(self, start: Value, part: Partial | None) -> None:
        f = self.f

        def turn(i: Value, total: Value) -> Value:
            at = f.add(start, f.mul(self.from_end(i, 1), self.inner))
            after = self.combine(total, self.element(at, part))
            self.put(total if self.spec.exclusive else after, at, part)
            return after

        f.loop(0, self.n, turn, [f.const(self.neutral, self.type)])

    def element(self, at: Value, part: Partial | None) -> Value:
        given = (self.f, self.isa, self.spec.dtype, self.at(self.x, at), self.lanes)
        return load(*given) if part is None else load_partial(*given, 1, part)

    def put(self, value: Value, at: Value, part: Partial | None) -> None:
        given = (self.f, self.isa, self.spec.dtype, value, self.at(self.y, at), self.lanes)
        if part is None:
            store(*given)
        else:
            store_partial(*given, 1, part)

    def at(self, base: Value, index: Int) -> Value:
        return self.f.at(base, index, self.name)
