"""From a row program and the views of its operands to a kernel call.

In: `Built`, the full shape, which of its dimensions form a row, a view of that shape per operand
and output. Out: `Laid`: the `Rows` spec in canonical form, its integer words, items and scratch.

Canonical form: dimensions of size 1 are dropped, those of the row and those between rows are each
ordered by the strides of what is largest, and neighbours that every access walks through as one are
one. Strides other than 0 and that of neighbours are words, and so are all sizes: a program is
compiled once for all shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from rewrite.plan.rows_draft import Built
from rewrite.plan.spec import Step
from rewrite.plan.specs.rows import (
    ANY,
    NEXT,
    SAME,
    Access,
    Fold,
    Rows,
    closure,
    cost_of,
    dtype_of,
    levels_of,
    scratch_bytes,
)
from rewrite.plan.specs.rows_passes import HEAVY, Pass, passes_of
from rewrite.plan.view import View

_GROUP = 128  # rows per item where each lane is a row
# Rows of fewer elements leave most lanes empty: where there are so many neighbouring rows, every
# lane takes one, though its elements are gathered one by one.
_SHORT, _MANY = 12, 32
_KEEP = 4  # the cost of computing an element again from which on it is kept
_GRAIN = 65_536  # elements times steps that are worth handing to a thread

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Laid:
    """A kernel call: words are operands and outputs in the order given, then `integers`."""

    spec: Rows
    integers: tuple[int, ...]
    items: int
    grain: int
    scratch: int
    flops: int


@dataclass(frozen=True, slots=True)
class _Dimensions:
    """Sizes, and for each access its strides along them."""

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]


def lay(
    built: Built,
    shape: Sequence[int],
    axes: Sequence[int],
    operands: Sequence[View],
    outputs: Sequence[View],
    element_outputs: Sequence[bool],
) -> Laid:
    """`axes`: the dimensions of a row. Views have the full shape; what has one value per row has
    stride 0 along it. No dimension outside of the row has size 0."""
    views = [*operands, *outputs]
    elements = [*built.elements, *element_outputs]
    inside = sorted(axes)
    outside = [a for a in range(len(shape)) if a not in inside]
    row = _joined(shape, inside, views)
    outer = _joined(shape, outside, views)
    if not row.sizes:
        size = 1 if prod(shape[a] for a in inside) else 0
        row = _Dimensions((size,), tuple((NEXT,) if e else (SAME,) for e in elements))
    across = _is_across(row, outer, elements)
    if across:
        lane = _lane_dimension(outer, _weights(row, outer, elements))
        outer = _with_last(outer, lane)
    accesses = [
        Access(view.dtype, _classes(row.strides[k], not across), _classes(outer.strides[k], across))
        for k, view in enumerate(views)
    ]
    n = len(operands)
    accesses = [
        a if e else Access(a.dtype, (SAME,) * len(a.row), a.outer)
        for a, e in zip(accesses, elements, strict=True)
    ]
    spec = Rows(
        operands=tuple(accesses[:n]),
        steps=built.steps,
        results=built.results,
        outputs=tuple(accesses[n:]),
        kept=(),
        homes=(),
        across=across,
    )
    kept = _kept(spec, built.dtypes)
    spec = replace(spec, kept=kept, homes=(-1,) * len(kept))
    return _laid(replace(spec, homes=_homes(spec)), row, outer)


def _laid(spec: Rows, row: _Dimensions, outer: _Dimensions) -> Laid:
    count, lines = prod(row.sizes), prod(outer.sizes)
    group = _GROUP if spec.across else 1
    items = lines
    if spec.across:
        items = prod(outer.sizes[:-1]) * -(-outer.sizes[-1] // group)
    strides = [s for k in range(len(row.strides)) for s in (*row.strides[k], *outer.strides[k])]
    work = max(1, count) * (1 + sum(cost_of(step) for step in spec.steps))
    return Laid(
        spec=spec,
        integers=(count, *row.sizes, *outer.sizes, group, *strides),
        items=items,
        grain=max(1, _GRAIN // (work * group)),
        scratch=scratch_bytes(spec, count),
        flops=work * lines,
    )


# --- dimensions --------------------------------------------------------------------------------


def _joined(shape: Sequence[int], axes: Sequence[int], views: Sequence[View]) -> _Dimensions:
    """The dimensions in canonical order, neighbours joined where possible."""
    told = list(reversed(views))  # outputs first, they are dense
    kept = [a for a in axes if shape[a] != 1]
    kept.sort(key=lambda a: ([-abs(v.strides[a]) for v in told if v.strides[a]], a))
    kept.sort(key=lambda a: -max((abs(v.strides[a]) for v in views), default=0))
    sizes: list[int] = []
    strides: list[list[int]] = []  # per dimension, of every view
    for axis in kept:
        steps = [v.strides[axis] for v in views]
        size = shape[axis]
        if sizes and all(o == s * size for o, s in zip(strides[-1], steps, strict=True)):
            sizes[-1] *= size
            strides[-1] = steps
        else:
            sizes.append(size)
            strides.append(steps)
    return _Dimensions(tuple(sizes), tuple(tuple(s[k] for s in strides) for k in range(len(views))))


def _is_across(row: _Dimensions, outer: _Dimensions, elements: Sequence[bool]) -> bool:
    """Whether neighbouring rows, and not the elements of one, are neighbours in memory."""
    if not outer.sizes:
        return False
    count = prod(row.sizes)
    if count == 1 or (count < _SHORT and outer.sizes[-1] >= _MANY):
        return True
    weights = _weights(row, outer, elements)
    along = _neighbours(row, len(row.sizes) - 1, weights)
    best = max(_neighbours(outer, d, weights) for d in range(len(outer.sizes)))
    return best > along


def _weights(row: _Dimensions, outer: _Dimensions, elements: Sequence[bool]) -> list[int]:
    """How many elements each access has in memory, of those with a value per element."""
    found = []
    for k, element in enumerate(elements):
        sizes = [
            n
            for dimensions in (row, outer)
            for n, stride in zip(dimensions.sizes, dimensions.strides[k], strict=True)
            if stride
        ]
        found.append(prod(sizes) if element else 0)
    return found


def _neighbours(dimensions: _Dimensions, d: int, weights: Sequence[int]) -> int:
    """How many elements have their neighbours along a dimension."""
    return sum(
        weight
        for strides, weight in zip(dimensions.strides, weights, strict=True)
        if strides[d] == NEXT
    )


def _lane_dimension(outer: _Dimensions, weights: Sequence[int]) -> int:
    return max(range(len(outer.sizes)), key=lambda d: (_neighbours(outer, d, weights), d))


def _with_last(dimensions: _Dimensions, d: int) -> _Dimensions:
    """Dimension d moved to the end."""
    order = [*(k for k in range(len(dimensions.sizes)) if k != d), d]
    return _Dimensions(
        tuple(dimensions.sizes[k] for k in order),
        tuple(tuple(s[k] for k in order) for s in dimensions.strides),
    )


def _classes(strides: Strides, lanes: bool) -> tuple[int, ...]:
    """Stride classes; neighbours matter only in the dimension that lanes lie along."""
    last = len(strides) - 1
    return tuple(
        SAME if s == 0 else NEXT if s == 1 and lanes and d == last else ANY
        for d, s in enumerate(strides)
    )


# --- kept values -------------------------------------------------------------------------------


def _kept(spec: Rows, dtypes: tuple[str, ...]) -> tuple[int, ...]:
    """Values that a later pass needs again and that cost more to compute than to remember; of those
    that are stored anyhow, all."""
    n, steps = len(spec.operands), spec.steps
    levels = levels_of(tuple(a.element for a in spec.operands), steps)
    row = {v for v in range(n + len(steps)) if not levels.element[v]}
    stored = {v for k, v in enumerate(spec.results) if _as_it_is(spec, k, v)}
    kept: set[int] = set()
    done: set[int] = set()  # values of earlier passes
    for p in passes_of(spec):
        roots = [step.arg for v in p.folds if isinstance(step := steps[v - n], Fold)]
        roots += [spec.results[k] for k in p.stores]
        again = closure(n, steps, roots, row | kept)
        for value in reversed(again):  # the last ones first: they save most
            if value < n or value not in done:
                continue
            if value not in closure(n, steps, roots, row | kept):
                continue
            if value in stored or _cost(value, n, steps, row | kept, dtypes) >= _KEEP:
                kept.add(value)
        done |= set(again)
    return tuple(sorted(kept))


def _as_it_is(spec: Rows, output: int, value: int) -> bool:
    """Whether an output can hold a value for later passes: unrounded, lane by lane."""
    access = spec.outputs[output]
    lanes = access.outer if spec.across else access.row
    same = access.dtype == dtype_of(spec.operands, spec.steps, value)
    return access.element and same and lanes[-1:] == (NEXT,)


def _homes(spec: Rows) -> tuple[int, ...]:
    """For each kept value an output in whose place it can be: where it is stored anyhow, or where
    it waits until another value is; -1: none."""
    passes = passes_of(spec)
    homes: list[int] = []
    for value in spec.kept:
        able = [k for k in range(len(spec.outputs)) if _as_it_is(spec, k, value)]
        able = [k for k in able if k not in homes]
        own = [k for k in able if spec.results[k] == value]
        waiting = [k for k in able if _can_wait(spec, passes, value, k)]
        homes.append((own + waiting + [-1])[0])
    return tuple(homes)


def _can_wait(spec: Rows, passes: Sequence[Pass], value: int, output: int) -> bool:
    """Whether the output is stored when the value is needed no more; and much is computed in
    between: else writing twice to memory far away costs more than it hides."""
    maker = next(p for p in passes if value in p.makes)
    stored = next(p.level for p in passes if output in p.stores)
    last = max(p.level for p in passes if value in p.recalls)
    return maker.level < stored and last <= stored and maker.cost > HEAVY


def _cost(
    value: int, n: int, steps: tuple[Step | Fold, ...], given: set[int], dtypes: tuple[str, ...]
) -> int:
    """Of computing an element again: its steps, and loads with their conversions."""
    total = 0
    for v in closure(n, steps, [value], given):
        if v >= n:
            total += cost_of(steps[v - n])
        else:
            total += 1 if dtypes[v] not in ("f16", "bf16") else 2
    return total
