"""Operators whose results are as large as the data say.

In: instances. Out: kernels of rewrite/plan/specs/select.py, and the most that they can give.
What is found stands at the beginning of an output, row-major at the true sizes.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rewrite.plan.lowering import Bound, Instance, Lowering, Tensor, bounded, lowers, refuses
from rewrite.plan.specs.select import (
    Compress,
    NonMaxSuppression,
    NonZero,
    Unique,
    suppression_work,
)
from rewrite.plan.view import BYTES


@bounded("NonZero")
def nonzero_bounds(op: Instance) -> tuple[Bound, ...]:
    shape = op.shape()
    return (Bound((len(shape), prod(shape)), 1),)


@lowers("NonZero")
def nonzero(low: Lowering, op: Instance) -> None:
    del op
    x = low.rows(0)
    words: list[Tensor | int] = [x, low.output(0), low.count(0), *x.shape]
    low.call(NonZero(x.dtype, x.view.rank), words, 1)


# --- rows whose condition holds ----------------------------------------------------------------


def _sizes(op: Instance) -> tuple[int, int, int, int | None]:
    """Outer size, rows, elements of a row, axis."""
    shape = op.shape()
    if "axis" not in op.attributes:
        return 1, prod(shape), 1, None
    axis = op.integer("axis", 0) % len(shape)
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]), axis


@bounded("Compress")
def compress_bounds(op: Instance) -> tuple[Bound, ...]:
    _, rows, _, axis = _sizes(op)
    most = min(rows, op.shape(1)[0])
    if axis is None:
        return (Bound((most,), 0),)
    shape = op.shape()
    return (Bound((*shape[:axis], most, *shape[axis + 1 :]), axis),)


@lowers("Compress")
def compress(low: Lowering, op: Instance) -> None:
    outer, rows, inner, _ = _sizes(op)
    data, condition = low.rows(0), low.rows(1)
    row = inner * BYTES[data.dtype]
    words: list[Tensor | int] = [
        data,
        condition,
        low.output(0),
        low.count(0),
        outer,
        rows,
        condition.shape[0],
        row,
    ]
    low.call(Compress(), words, 1)


# --- different elements ------------------------------------------------------------------------


@bounded("Unique")
def unique_bounds(op: Instance) -> tuple[Bound, ...]:
    _, n, _, axis = _sizes(op)
    shape = op.shape()
    slices = Bound((n,), 0) if axis is None else Bound(shape, axis)
    return (slices, Bound((n,), 0), Bound((n,), None), Bound((n,), 0))[: len(op.outputs)]


@lowers("Unique")
def unique(low: Lowering, op: Instance) -> None:
    """All four results, wanted or not: they follow from one order."""
    outer, n, inner, _ = _sizes(op)
    x = low.rows(0)
    shapes = {
        0: (x.dtype, (outer * n * inner,)),
        1: ("s64", (n,)),
        2: ("s64", (n,)),
        3: ("s64", (n,)),
    }
    results: list[Tensor] = []
    for k, (dtype, shape) in shapes.items():
        results.append(low.output(k) if k < len(op.outputs) else low.new(dtype, shape))
    counts = [low.count(k) if k < len(op.outputs) else low.new("s64", (1,)) for k in (0, 1, 3)]
    work = low.new("s64", (3 * n,))
    words: list[Tensor | int] = [x, work, *results, *counts, outer, n, inner]
    spec = Unique(x.dtype, op.integer("sorted", 1) != 0)
    low.call(spec, words, 1)


@refuses("Unique")
def unique_refusal(op: Instance) -> str | None:
    return "complex numbers have no order" if op.dtype().startswith("c") else None


# --- boxes -------------------------------------------------------------------------------------


@bounded("NonMaxSuppression")
def suppression_bounds(op: Instance) -> tuple[Bound, ...]:
    batches, classes, n = op.shape(1)
    most = n
    if not op.has(2):
        most = 0
    elif op.is_known(2):
        most = min(n, max(0, (op.integers_at(2) or (0,))[0]))
    return (Bound((batches * classes * most, 3), 0),)


@lowers("NonMaxSuppression")
def non_max_suppression(low: Lowering, op: Instance) -> None:
    boxes, scores = low.rows(0), low.rows(1)
    batches, classes, n = scores.shape
    most = low.rows(2) if op.has(2) else low.constant(np.zeros(1, np.int64))
    overlap = low.rows(3) if op.has(3) else low.constant(np.zeros(1, np.float32))
    least: Tensor | int = low.rows(4) if op.has(4) else 0
    work = low.new("s64", (suppression_work(n),))
    words: list[Tensor | int] = [
        boxes, scores, most, overlap, least, work, low.output(0), low.count(0), batches, classes, n,
    ]  # fmt: skip
    spec = NonMaxSuppression(op.integer("center_point_box", 0) != 0, op.has(4))
    low.call(spec, words, 1)
