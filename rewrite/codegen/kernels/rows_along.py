"""Row programs with neighbouring elements of one row in a vector.

In: a `Frame`. Out: code: one row after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rewrite.codegen.ir import Int
from rewrite.codegen.kernels.rows_fold import averaged, combiner
from rewrite.codegen.kernels.rows_frame import Cell, Place, splat_to
from rewrite.codegen.kernels.rows_lines import Lines
from rewrite.codegen.kernels.rows_memory import Partial, partial
from rewrite.codegen.memory import load, prefetch, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.rows import ANY, NEXT, args_of
from rewrite.plan.specs.rows_passes import HEAVY, Pass

_CHUNK = 4096  # elements that one set of accumulators takes


@dataclass(frozen=True, slots=True)
class _Run:
    """One pass over the innermost dimension: where it begins, values of the row, kept values that
    are there, the position in kept values, addresses in the next row to be fetched."""

    work: Pass
    pointers: Mapping[int, Value]
    row: Mapping[int, Value]
    remembered: frozenset[int]
    position: Int
    ahead: Mapping[int, Value]


class Along(Lines):
    """Vectors of neighbouring elements of one row."""

    def write(self) -> None:
        self.f.loop(self.frame.k.begin, self.frame.k.end, self.row)

    def row(self, item: Value) -> None:
        frame, f = self.frame, self.f
        at = self.bases(self.coordinates(item, frame.outer_sizes))
        single: dict[int, Value] = {}
        for k, access in enumerate(frame.spec.operands):
            if not access.element and k in frame.needed:
                single[k] = load(f, frame.isa, access.dtype, at[k], 0)
        remembered: frozenset[int] = frozenset()
        for p in self.passes:
            for value in self.steps_between(p.level):
                step = frame.step(value)
                assert step is not None
                single[value] = frame.run_step(value, [single[a] for a in args_of(step)])
            if not p.empty:
                wide = {v: splat_to(f, x, frame.lanes) for v, x in single.items()}
                for value, total in zip(p.folds, self.sweep(p, at, wide, remembered), strict=True):
                    single[value] = self.closed(value, total)
            remembered |= p.makes
        for k, (access, value) in enumerate(
            zip(frame.spec.outputs, frame.spec.results, strict=True)
        ):
            if not access.element:
                pointer = at[len(frame.spec.operands) + k]
                store(f, frame.isa, access.dtype, single[value], pointer, 0)

    def closed(self, value: int, total: Value) -> Value:
        """The lanes of a fold combined."""
        fold = self.fold(value)
        one = self.f.reduce(total, combiner(self.f, fold.combine, fold.dtype))
        return averaged(self.f, one, fold.dtype, self.frame.count) if fold.mean else one

    def sweep(
        self,
        p: Pass,
        at: Mapping[int, Value],
        row: Mapping[int, Value],
        remembered: frozenset[int],
    ) -> list[Value]:
        """One pass over all dimensions of the row."""
        frame, f = self.frame, self.f
        dimensions = frame.spec.row_rank - 1

        def nest(
            d: int, pointers: Mapping[int, Value], position: Int, carry: list[Value]
        ) -> list[Value]:
            if d == dimensions:
                run = _Run(p, pointers, row, remembered, position, self.ahead(p, at))
                return self.run_of(run, carry)

            def turn(i: Value, *carried: Value) -> list[Value]:
                moved = {
                    a: frame.moved(a, x, i, frame.row_strides[a][d]) for a, x in pointers.items()
                }
                behind = f.mul(f.add(position, i), frame.row_sizes[d + 1])
                return nest(d + 1, moved, behind, list(carried))

            return f.loop(0, frame.row_sizes[d], turn, carry)

        return nest(0, self.pointers(p, at), 0, self.starts(p))

    def ahead(self, p: Pass, at: Mapping[int, Value]) -> dict[int, Value]:
        """What the first pass over the next row will read: fetched during the second pass over this
        one, which has more to compute."""
        frame = self.frame
        if p.level != 1 or frame.spec.row_rank > 1 or not frame.spec.outer_rank:
            return {}
        return {
            a: frame.moved(a, at[a], frame.outer_strides[a][-1], 1)
            for a in self.passes[0].reads
            if frame.accesses[a].row[-1] == NEXT and frame.accesses[a].outer[-1] == ANY
        }

    def run_of(self, run: _Run, carry: list[Value]) -> list[Value]:
        """The innermost dimension: unrolled, then vector by vector, then what is left."""
        frame, f, count, p = self.frame, self.f, self.frame.lanes, run.work
        n = frame.row_sizes[-1]
        unroll = 2 if p.cost > HEAVY or len(p.folds) > 1 else 4
        whole = f.binary("and", n, -(unroll * count))
        some = f.binary("and", n, -count)

        def chunk(j: Value, *c: Value) -> list[Value]:
            stop = f.intrinsic("llvm.smin", "i64", j + _CHUNK, whole)
            return self.combined(p, c, self.unrolled(run, j, stop, unroll))

        if self.blocked(p):
            carry = f.loop(0, whole, chunk, carry, _CHUNK)
        else:
            carry = self.combined(p, carry, self.unrolled(run, 0, whole, unroll))
        carry = f.loop(
            whole, some, lambda j, *c: self.run(p, self.cells(run, j, 1, None), c), carry, count
        )

        def tail() -> list[Value]:
            part = partial(f, n - some, count, frame.slot)
            return self.run(p, self.cells(run, some, 1, part), carry)

        return f.if_(f.compare("<", some, n), tail, lambda: carry, len(carry))

    def unrolled(self, run: _Run, start: Int, stop: Value, number: int) -> list[Value]:
        """Several vectors at a time, each with accumulators of its own."""

        def turn(j: Value, *c: Value) -> list[Value]:
            for a, pointer in run.ahead.items():
                for u in range(number):
                    at = self.f.add(j, u * self.frame.lanes)
                    prefetch(self.f, self.frame.moved(a, pointer, at, 1))
            return self.run(run.work, self.cells(run, j, number, None), c)

        begin = [x for x in self.starts(run.work) for _ in range(number)]
        found = self.f.loop(start, stop, turn, begin, number * self.frame.lanes)
        return self.trees(run.work, found, number)

    def cells(self, run: _Run, j: Value, number: int, part: Partial | None) -> list[Cell]:
        """The values at element j of the run, and behind it."""
        frame, count = self.frame, self.frame.lanes
        here = {a: frame.moved(a, x, j, frame.stride(a)) for a, x in run.pointers.items()}
        first = self.f.add(run.position, j) if frame.kept else None
        found = []
        for u in range(number):
            moved = {a: frame.moved(a, x, u * count, frame.stride(a)) for a, x in here.items()}
            kept = None if first is None else self.f.add(first, u * count)
            found.append(Cell(frame, Place(moved, kept, part), run.row, run.remembered))
        return found
