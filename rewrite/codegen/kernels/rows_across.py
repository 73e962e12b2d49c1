"""Row programs with neighbouring rows in the lanes of a vector.

In: a `Frame`. Out: code: some neighbouring rows at a time, from first to last pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rewrite.codegen.ir import Int
from rewrite.codegen.kernels.rows_fold import averaged
from rewrite.codegen.kernels.rows_frame import MOST_LANES, Cell, Place
from rewrite.codegen.kernels.rows_lines import Lines
from rewrite.codegen.kernels.rows_memory import Partial, load_partial, partial, store_partial
from rewrite.codegen.memory import load, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.rows import args_of
from rewrite.plan.specs.rows_passes import HEAVY, Pass

_STRETCH = 128  # elements of a row that one accumulator takes


class Across(Lines):
    """A row in each lane."""

    def write(self) -> None:
        f, frame = self.f, self.frame
        inner = frame.outer_sizes[-1]
        groups = f.binary("udiv", inner + frame.group - 1, frame.group)

        def item(number: Value) -> None:
            at = self.coordinates(number, [*frame.outer_sizes[:-1], groups])
            first = f.mul(at[-1], frame.group)
            width = f.intrinsic("llvm.smin", "i64", f.i64(frame.group), f.sub(inner, first))
            self.strip(self.bases([*at[:-1], first]), width)

        f.loop(frame.k.begin, frame.k.end, item)

    def strip(self, at: Mapping[int, Value], width: Value) -> None:
        """Some neighbouring rows."""
        f, count = self.f, self.frame.lanes

        def shifted(j: Value) -> dict[int, Value]:
            return {a: self.frame.moved(a, x, j, self.frame.stride(a)) for a, x in at.items()}

        done: Int = 0
        for number in self.bundles():
            stop = f.binary("and", width, -(number * count))
            self.loop(done, stop, number, shifted)
            done = stop
        f.if_(f.compare("<", done, width), lambda: self.bundle(shifted(done), 1, width - done))

    def bundles(self) -> tuple[int, ...]:
        """How many vectors go through the row at once: several make better use of the lines of a
        cache, and of registers while there is little to compute."""
        heavy = max(p.cost for p in self.passes) > HEAVY
        only_folds = all(not p.stores for p in self.passes) and len(self.passes) == 2
        wanted = (1,) if heavy else (8, 4, 1) if only_folds else (4, 1)
        most = (MOST_LANES if self.frame.spec.kept else 2 * MOST_LANES) // self.frame.lanes
        return tuple(number for number in wanted if number <= max(1, most))

    def loop(
        self, start: Int, stop: Value, number: int, shifted: Callable[[Value], dict[int, Value]]
    ) -> None:
        step = number * self.frame.lanes
        self.f.loop(start, stop, lambda j: self.bundle(shifted(j), number, None), step=step)

    def bundle(self, at: Mapping[int, Value], number: int, left: Value | None) -> None:
        """`number` vectors of rows from first to last pass."""
        frame, f = self.frame, self.f
        part = None if left is None else partial(f, left, frame.lanes, frame.slot)
        n = len(frame.spec.operands)
        starts = [self.shifted(at, u) for u in range(number)]
        single: list[dict[int, Value]] = [{} for _ in range(number)]
        for u, k in ((u, k) for u in range(number) for k in range(n)):
            access = frame.spec.operands[k]
            if not access.element and k in frame.needed:
                given = (f, frame.isa, access.dtype, starts[u][k], frame.lanes, frame.stride(k))
                single[u][k] = load(*given) if part is None else load_partial(*given, part)
        remembered: frozenset[int] = frozenset()
        for p in self.passes:
            for u, value in ((u, v) for u in range(number) for v in self.steps_between(p.level)):
                step = frame.step(value)
                assert step is not None
                args = [single[u][a] for a in args_of(step)]
                single[u][value] = frame.run_step(value, args)
            if not p.empty:
                totals = self.sweep(p, at, single, remembered, part)
                for k, value in enumerate(p.folds):
                    for u in range(number):
                        single[u][value] = self.closed(value, totals[k * number + u])
            remembered |= p.makes
        for u in range(number):
            self.finish(single[u], starts[u], part)

    def finish(
        self, single: Mapping[int, Value], at: Mapping[int, Value], part: Partial | None
    ) -> None:
        """Stores the outputs that have one value per row."""
        f, frame, n = self.f, self.frame, len(self.frame.spec.operands)
        for k, access in enumerate(frame.spec.outputs):
            if access.element:
                continue
            result, pointer = single[frame.spec.results[k]], at[n + k]
            stride = frame.stride(n + k)
            if part is None:
                store(f, frame.isa, access.dtype, result, pointer, frame.lanes, stride)
            else:
                store_partial(
                    f, frame.isa, access.dtype, result, pointer, frame.lanes, stride, part
                )

    def closed(self, value: int, total: Value) -> Value:
        fold = self.fold(value)
        return averaged(self.f, total, fold.dtype, self.frame.count) if fold.mean else total

    def sweep(
        self,
        p: Pass,
        at: Mapping[int, Value],
        single: Sequence[Mapping[int, Value]],
        remembered: frozenset[int],
        part: Partial | None,
    ) -> list[Value]:
        """One pass over all dimensions of the row; per fold one value per vector."""
        frame, f, number = self.frame, self.f, len(single)
        dimensions = frame.spec.row_rank - 1

        def work(i: Int, pointers: _Pointers, position: Int, carry: Sequence[Value]) -> list[Value]:
            first = f.mul(f.add(position, i), number * frame.lanes)
            moved = self.moved(pointers, i, dimensions)
            cells = []
            for u in range(number):
                kept = f.i64(f.add(first, u * frame.lanes)) if frame.kept else None
                place = Place(self.shifted(moved, u), kept, part)
                cells.append(Cell(frame, place, single[u], remembered))
            return self.run(p, cells, carry)

        def stretch(
            i: Value, pointers: _Pointers, position: Int, carry: Sequence[Value]
        ) -> list[Value]:
            stop = f.intrinsic("llvm.smin", "i64", i + _STRETCH, frame.row_sizes[-1])
            fresh = [x for x in self.starts(p) for _ in range(number)]
            found = f.loop(i, stop, lambda j, *c: work(j, pointers, position, c), fresh)
            return self.combined_all(p, carry, found, number)

        def nest(d: int, pointers: _Pointers, position: Int, carry: list[Value]) -> list[Value]:
            size = frame.row_sizes[d]
            if d == dimensions and self.blocked(p):
                return f.loop(
                    0, size, lambda i, *c: stretch(i, pointers, position, c), carry, _STRETCH
                )
            if d == dimensions:
                return f.loop(0, size, lambda i, *c: work(i, pointers, position, c), carry)

            def turn(i: Value, *carried: Value) -> list[Value]:
                behind = f.mul(f.add(position, i), frame.row_sizes[d + 1])
                return nest(d + 1, self.moved(pointers, i, d), behind, list(carried))

            return f.loop(0, size, turn, carry)

        begin = [x for x in self.starts(p) for _ in range(number)]
        return nest(0, self.pointers(p, at), 0, begin)

    def moved(self, pointers: _Pointers, i: Int, d: int) -> _Pointers:
        """The addresses at index i of a dimension of the row."""
        frame = self.frame
        return {a: frame.moved(a, x, i, frame.row_strides[a][d]) for a, x in pointers.items()}

    def shifted(self, pointers: _Pointers, u: int) -> _Pointers:
        """The addresses of vector u of neighbouring rows."""
        frame, by = self.frame, u * self.frame.lanes
        return {a: frame.moved(a, x, by, frame.stride(a)) for a, x in pointers.items()}

    def combined_all(
        self, p: Pass, left: Sequence[Value], right: Sequence[Value], number: int
    ) -> list[Value]:
        """`combined` of `number` values per fold."""
        found: list[Value] = []
        for u in range(number):
            found += self.combined(p, left[u::number], right[u::number])
        return [found[u * len(p.folds) + k] for k in range(len(p.folds)) for u in range(number)]


_Pointers = Mapping[int, Value]
