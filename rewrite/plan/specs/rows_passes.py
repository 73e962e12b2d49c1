"""The passes of a row program over its row.

In: a `Rows` spec. Out: what each pass folds, stores, reads and remembers. Planning asks when an
output is first written, code generation writes the passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rewrite.plan.specs.rows import Fold, Rows, args_of, closure, cost_of, levels_of

HEAVY = 12  # the cost of a pass from which on it is arithmetic that takes time, and not memory


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass does with the elements of the row, behind `level` folds."""

    level: int
    folds: tuple[int, ...]  # values
    stores: tuple[int, ...]  # outputs
    reads: tuple[int, ...]  # operands
    makes: frozenset[int]  # kept values that it computes
    recalls: frozenset[int]  # kept values of earlier passes that it needs
    cost: int

    @property
    def empty(self) -> bool:
        return not self.folds and not self.stores


@cache
def passes_of(spec: Rows) -> tuple[Pass, ...]:
    """All passes, one per level, up to the last that an output needs."""
    n = len(spec.operands)
    levels = levels_of(tuple(a.element for a in spec.operands), spec.steps)
    row = {v for v in range(n + len(spec.steps)) if not levels.element[v]}
    needed = closure(n, spec.steps, spec.results, ())
    found: list[Pass] = []
    remembered: set[int] = set()
    for level in range(max(levels.level[v] for v in spec.results) + 1):
        folds = [
            (v, step.arg)
            for v in needed
            if v >= n
            and isinstance(step := spec.steps[v - n], Fold)
            and levels.level[v] == level + 1
        ]
        stores = [
            k
            for k, access in enumerate(spec.outputs)
            if access.element and levels.level[spec.results[k]] == level
        ]
        roots = [arg for _, arg in folds] + [spec.results[k] for k in stores]
        values = closure(n, spec.steps, roots, remembered | row)
        below = {a for v in values if v >= n for a in args_of(spec.steps[v - n])} | set(roots)
        computed = [v for v in values if v >= n]
        made = frozenset(v for v in computed if v in spec.kept)
        found.append(
            Pass(
                level,
                tuple(v for v, _ in folds),
                tuple(stores),
                tuple(v for v in values if v < n),
                made,
                frozenset(below & remembered),
                sum(cost_of(spec.steps[v - n]) for v in computed) + len(folds),
            )
        )
        remembered |= made
    return tuple(found)


def first_write(spec: Rows, output: int) -> int:
    """The pass in which an output's memory is first written, be it with a kept value."""
    for p in passes_of(spec):
        homes = [h for v, h in zip(spec.kept, spec.homes, strict=True) if v in p.makes]
        if output in p.stores or output in homes:
            return p.level
    return len(passes_of(spec))
