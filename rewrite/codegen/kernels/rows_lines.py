"""What both shapes of its loop share.

In: a `Frame`. Out: `Lines`, the base of rewrite/codegen/kernels/rows_along.py and rows_across.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewrite.codegen.ir import Int
from rewrite.codegen.kernels.rows_fold import combiner, identity, tree
from rewrite.codegen.kernels.rows_frame import Cell, Frame, splat_to
from rewrite.codegen.memory import register_type
from rewrite.codegen.value import Value
from rewrite.plan.specs.rows import Fold
from rewrite.plan.specs.rows_passes import Pass, passes_of


class Lines:
    """What both shapes share: carrying folds through loops over the row."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.f = frame, frame.f
        self.passes = passes_of(frame.spec)

    def fold(self, value: int) -> Fold:
        step = self.frame.step(value)
        assert isinstance(step, Fold)
        return step

    def starts(self, p: Pass) -> list[Value]:
        """A vector of what changes nothing, for every fold."""
        found = []
        for value in p.folds:
            fold = self.fold(value)
            type_ = register_type(fold.dtype, self.frame.lanes)
            found.append(self.f.const(identity(fold.combine, fold.dtype, type_), type_))
        return found

    def combined(self, p: Pass, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return [
            combiner(self.f, self.fold(v).combine, self.fold(v).dtype)(a, b)
            for v, a, b in zip(p.folds, left, right, strict=True)
        ]

    def trees(self, p: Pass, accumulators: Sequence[Value], unroll: int) -> list[Value]:
        """Accumulators of fold after fold, `unroll` of each, into one per fold."""
        return [
            tree(
                accumulators[k * unroll : (k + 1) * unroll],
                combiner(self.f, self.fold(v).combine, self.fold(v).dtype),
            )
            for k, v in enumerate(p.folds)
        ]

    def blocked(self, p: Pass) -> bool:
        """Whether rounding errors add up."""
        return any(
            self.fold(v).combine == "add" and self.fold(v).dtype in ("f32", "f64") for v in p.folds
        )

    def run(self, p: Pass, cells: Sequence[Cell], carry: Sequence[Value]) -> list[Value]:
        """The work of one pass on some cells; `carry`: per fold one value per cell."""
        after: list[Value] = []
        for k, v in enumerate(p.folds):
            fold = self.fold(v)
            combine = combiner(self.f, fold.combine, fold.dtype)
            for u, cell in enumerate(cells):
                x = splat_to(self.f, cell.get(fold.arg), self.frame.lanes)
                if cell.place.part is not None and not self.frame.spec.across:
                    neutral = identity(fold.combine, fold.dtype, x.type)
                    x = self.f.select(cell.place.part.bits, x, neutral)
                after.append(combine(carry[k * len(cells) + u], x))
        # All are computed before the first is stored: it may lie where an operand lies.
        for cell in cells:
            for output in p.stores:
                cell.get(self.frame.spec.results[output])
        for cell in cells:
            cell.settle()
            for output in p.stores:
                cell.store(output)
        return after

    def pointers(self, p: Pass, at: Mapping[int, Value]) -> dict[int, Value]:
        """The addresses of what a pass reads and writes for each element."""
        frame, n = self.frame, len(self.frame.spec.operands)
        homes = [frame.homes[v] for v in sorted(p.makes | p.recalls) if v in frame.homes]
        return {a: at[a] for a in sorted({*p.reads, *(n + k for k in p.stores), *homes})}

    def bases(self, coordinates: Sequence[Int]) -> dict[int, Value]:
        """Where each access begins for a row."""
        found: dict[int, Value] = {}
        for access, pointer in enumerate(self.frame.pointers):
            at = pointer
            for index, stride in zip(coordinates, self.frame.outer_strides[access], strict=True):
                at = self.frame.moved(access, at, index, stride)
            found[access] = at
        return found

    def coordinates(self, item: Value, sizes: Sequence[Value]) -> list[Int]:
        """The number of a row as one index per outer dimension."""
        found: list[Int] = []
        left: Int = item
        for size in reversed(sizes[1:]):
            found.append(self.f.binary("urem", left, size))
            left = self.f.binary("udiv", left, size)
        return [left, *reversed(found)] if sizes else []

    def steps_between(self, level: int) -> list[int]:
        """Steps on values of the row that are known now."""
        n, frame = len(self.frame.spec.operands), self.frame
        return [
            n + k
            for k, step in enumerate(frame.spec.steps)
            if not isinstance(step, Fold)
            and n + k in frame.needed
            and not frame.is_element(n + k)
            and frame.level(n + k) == level
        ]
