"""Operators that read or write at places that are data.

In: instances. Out: kernels of rewrite/plan/specs/index.py.
"""

from __future__ import annotations

from math import prod

from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.index import (
    GatherElements,
    GatherRows,
    OneHot,
    ReverseRows,
    ScatterCache,
    ScatterElements,
    ScatterRows,
    moved,
    short,
)
from rewrite.plan.view import BYTES, Sizes, strides_of

_GRAIN_BYTES = 32_768  # of moved bytes that are worth handing to a thread


def grain_of(bytes_per_item: int) -> int:
    """Items that are worth handing to a thread."""
    return max(1, _GRAIN_BYTES // max(bytes_per_item, 1))


# --- gathering ---------------------------------------------------------------------------------


@lowers("Gather")
def gather(low: Lowering, op: Instance) -> None:
    axis = op.integer("axis", 0) % len(op.shape())
    if op.is_known(1) and _alias_one(low, op, axis):
        return
    data, indices = low.rows(0), low.rows(1)
    width = BYTES[data.dtype]
    outer, size = prod(data.shape[:axis]), data.shape[axis]
    row = prod(data.shape[axis + 1 :]) * width
    count = prod(indices.shape)
    words: list[Tensor | int] = [data, indices, low.output(0), count, 0, size * row, row, size, row]
    low.call(GatherRows(indices.dtype, 1, short(row)), words, outer * count, grain_of(row))


def _alias_one(low: Lowering, op: Instance, axis: int) -> bool:
    """A single known place is a slice: a view."""
    places = op.integers_at(1) or ()
    x = low.view(0)
    if len(places) != 1 or not -x.shape[axis] <= places[0] < x.shape[axis]:
        return False
    starts = tuple(places[0] % x.shape[a] if a == axis else 0 for a in range(x.view.rank))
    sizes = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    view = x.sliced(starts, sizes).reshaped(op.out_shape())
    if view is None:
        return False
    low.alias(0, view)
    return True


@lowers("GatherND")
@lowers("GatherND", domain="com.microsoft")
def gather_nd(low: Lowering, op: Instance) -> None:
    data, indices = low.rows(0), low.rows(1)
    batches = op.integer("batch_dims", 0)
    depth = indices.shape[-1]
    width = BYTES[data.dtype]
    batch, rows = prod(data.shape[:batches]), prod(indices.shape[batches:-1])
    row = prod(data.shape[batches + depth :]) * width
    steps = _steps(data.shape, batches, depth, width)
    pitch = prod(data.shape[batches:]) * width
    words: list[Tensor | int] = [data, indices, low.output(0), rows, rows, pitch, row, *steps]
    low.call(GatherRows(indices.dtype, depth, short(row)), words, batch * rows, grain_of(row))


def _steps(shape: Sizes, first: int, depth: int, unit: int) -> list[int]:
    """For `depth` dimensions from `first` on: size, and units from one place to the next."""
    strides = strides_of(shape)
    found: list[int] = []
    for axis in range(first, first + depth):
        found += [shape[axis], strides[axis] * unit]
    return found


@lowers("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(low: Lowering, op: Instance) -> None:
    """Columns of the last dimension."""
    del op
    data, indices = low.rows(0), low.rows(1)
    width, size = BYTES[data.dtype], data.shape[-1]
    outer, count = prod(data.shape[:-1]), prod(indices.shape)
    words: list[Tensor | int] = [
        data,
        indices,
        low.output(0),
        count,
        0,
        size * width,
        width,
        size,
        width,
    ]
    low.call(GatherRows(indices.dtype, 1, short(width)), words, outer * count, grain_of(width))


@lowers("GatherElements")
def gather_elements(low: Lowering, op: Instance) -> None:
    data, indices = low.view(0), low.rows(1)
    axis = op.integer("axis", 0) % data.view.rank
    extent = data.shape[axis]
    sizes, strides, at = _joined(indices.shape, data.view.strides, axis)
    spec = GatherElements(indices.dtype, BYTES[data.dtype], len(sizes), at)
    words: list[Tensor | int] = [data, indices, low.output(0), extent, *sizes, *strides]
    low.call(spec, words, sizes[0], grain_of(prod(sizes[1:]) * BYTES[data.dtype]))


def _joined(sizes: Sizes, strides: Sizes, axis: int) -> tuple[list[int], list[int], int]:
    """Neighbouring dimensions of indices that data walks through as one are made one."""
    found: list[tuple[int, int, bool]] = []
    for a, (n, s) in enumerate(zip(sizes, strides, strict=True)):
        mine = a == axis
        if n == 1 and not mine:
            continue
        if found and not mine and not found[-1][2] and found[-1][1] == n * s:
            found[-1] = (found[-1][0] * n, s, False)
        else:
            found.append((n, s, mine))
    at = next(i for i, entry in enumerate(found) if entry[2])
    return [n for n, _, _ in found], [s for _, s, _ in found], at


# --- scattering --------------------------------------------------------------------------------


@lowers("ScatterElements", "Scatter")
def scatter_elements(low: Lowering, op: Instance) -> None:
    data, indices, updates = low.view(0), low.rows(1), low.rows(2)
    axis = op.integer("axis", 0) % data.view.rank
    result = low.output(0)
    low.copy(data, result)
    sizes, strides, at = _joined(indices.shape, result.view.strides, axis)
    split = next((a for a in range(len(sizes)) if a != at), -1)
    items = sizes[split] if split >= 0 else min(1, sizes[0])
    spec = ScatterElements(
        indices.dtype, _updated(op, data.dtype), len(sizes), at, split, _reduction(op)
    )
    words: list[Tensor | int] = [indices, updates, result, data.shape[axis], *sizes, *strides]
    low.call(spec, words, items, grain_of(prod(sizes) // max(items, 1) * 8))


def _reduction(op: Instance) -> str:
    return op.text("reduction", "none")


def _updated(op: Instance, dtype: str) -> str:
    """The type as which elements are written: where nothing is computed, that of their width."""
    return moved(BYTES[dtype]) if _reduction(op) == "none" else dtype


@refuses("ScatterElements", "Scatter", "ScatterND")
def scatter_refusal(op: Instance) -> str | None:
    if _reduction(op) != "none" and op.dtype().startswith("c"):
        return "complex numbers are only moved"
    return None


@lowers("ScatterND")
def scatter_nd(low: Lowering, op: Instance) -> None:
    data, indices, updates = low.view(0), low.rows(1), low.rows(2)
    depth = indices.shape[-1]
    result = low.output(0)
    low.copy(data, result)
    rows, row = prod(indices.shape[:-1]), prod(data.shape[depth:])
    if rows == 0:
        return
    spec = ScatterRows(indices.dtype, _updated(op, data.dtype), depth, _reduction(op))
    words: list[Tensor | int] = [
        indices,
        updates,
        result,
        rows,
        row,
        *_steps(data.shape, 0, depth, 1),
    ]
    low.call(spec, words, row, grain_of(rows * BYTES[data.dtype]))


@lowers("TensorScatter")
def tensor_scatter(low: Lowering, op: Instance) -> None:
    cache, updates = low.view(0), low.rows(1)
    axis = op.integer("axis", -2) % cache.view.rank
    places: Tensor | int = low.rows(2) if op.has(2) else 0
    result = low.output(0)
    low.copy(cache, result)
    row = prod(cache.shape[axis + 1 :]) * BYTES[cache.dtype]
    slices = prod(cache.shape[1:axis])
    rows = updates.shape[axis]
    index = op.dtype(2) if op.has(2) else "s64"
    spec = ScatterCache(index, op.text("mode", "linear") == "circular")
    words: list[Tensor | int] = [updates, places, result, rows, cache.shape[axis], row, slices]
    low.call(spec, words, cache.shape[0] * slices, grain_of(rows * row))


@lowers("OneHot", needs=(1,))
def one_hot(low: Lowering, op: Instance) -> None:
    """The off value everywhere, then the on value where an index says."""
    indices, pair, result = low.rows(0), low.rows(2), low.output(0)
    axis = op.integer("axis", -1) % len(op.out_shape())
    depth = op.out_shape()[axis]
    low.copy(pair.sliced((0,), (1,)), result)
    words: list[Tensor | int] = [indices, pair, result, depth, prod(indices.shape[axis:])]
    spec = OneHot(indices.dtype, BYTES[pair.dtype])
    low.call(spec, words, prod(indices.shape) if depth else 0, grain_of(64))


@lowers("ReverseSequence")
def reverse_sequence(low: Lowering, op: Instance) -> None:
    x, lengths = low.rows(0), low.rows(1)
    time, batch = op.integer("time_axis", 0), op.integer("batch_axis", 1)
    row = prod(x.shape[2:]) * BYTES[x.dtype]
    pitches = {0: x.shape[1] * row, 1: row}
    words: list[Tensor | int] = [
        x, lengths, low.output(0), x.shape[time], x.shape[batch], row, pitches[time],
        pitches[batch],
    ]  # fmt: skip
    items = x.shape[batch] if prod(x.shape) else 0
    low.call(ReverseRows(lengths.dtype, short(row)), words, items, grain_of(x.shape[time] * row))
