"""Operators that pick or place elements by index.

In: `Call` or `Evaluation`. Out: types or arrays. Values are exact; an index out of range, or two
updates of one element, have no defined value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.registry import op, value
from rewrite.schema import Dim, Shape, Type

# --- gathering --------------------------------------------------------------------------------


@op("Gather", kind="indexing")
def gather(call: Call) -> Types:
    """Slices along an axis, by index"""
    x, indices = call.type(0), call.shape(1)
    if x.shape is None or indices is None:
        return (Type(x.dtype, None),)
    axis = call.axis(call.integer("axis", 0), len(x.shape))
    return (Type(x.dtype, x.shape[:axis] + indices + x.shape[axis + 1 :]),)


@value("Gather")
def gather_value(e: Evaluation) -> Arrays | None:
    x, axis = e.array(0), e.integer("axis", 0)
    indices = _indices(e.array(1), x.shape[axis])
    return None if indices is None else (np.take(x, indices, axis),)


def _indices(indices: Array, size: int) -> Array | None:
    """Counted from the front; None where one is out of range."""
    found = indices.astype(np.int64)
    if np.any((found < -size) | (found >= size)):
        return None
    return np.where(found < 0, found + size, found)


@op("GatherElements", kind="indexing")
def gather_elements(call: Call) -> Types:
    """Elements whose place along an axis is given, the other places their own"""
    return (Type(call.type(0).dtype, call.shape(1)),)


@value("GatherElements")
def gather_elements_value(e: Evaluation) -> Arrays | None:
    x, axis = e.array(0), e.integer("axis", 0)
    indices = _indices(e.array(1), x.shape[axis])
    if indices is None:
        return None
    return (x[_element_index(indices, axis)],)


def _element_index(indices: Array, axis: int) -> tuple[Array, ...]:
    grid: list[Any] = list(np.indices(indices.shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


@op("GatherND", kind="indexing")
def gather_nd(call: Call) -> Types:
    """Slices whose leading places are given by rows of indices"""
    x, indices = call.type(0), call.shape(1)
    if x.shape is None or indices is None:
        return (Type(x.dtype, None),)
    depth, batch = indices[-1] if indices else 0, call.integer("batch_dims", 0)
    if isinstance(depth, str):
        return (Type(x.dtype, None),)
    if batch + depth > len(x.shape):
        call.fail(f"indices of length {depth} into a tensor of rank {len(x.shape)}")
    return (Type(x.dtype, indices[:-1] + x.shape[batch + depth :]),)


@value("GatherND")
def gather_nd_value(e: Evaluation) -> Arrays | None:
    x, batch = e.array(0), e.integer("batch_dims", 0)
    found = e.array(1).astype(np.int64)
    depth = found.shape[-1]
    place: list[Any] = []
    for i in range(batch):
        shape = [1] * (found.ndim - 1)
        shape[i] = x.shape[i]
        place.append(np.arange(x.shape[i]).reshape(shape))
    for i in range(depth):
        row = _indices(found[..., i], x.shape[batch + i])
        if row is None:
            return None
        place.append(row)
    return (np.asarray(x[tuple(place)]).reshape(found.shape[:-1] + x.shape[batch + depth :]),)


@op("Compress", kind="indexing")
def compress(call: Call) -> Types:
    """The slices where a condition holds; of the flattened tensor without an axis"""
    x, axis = call.type(0), call.attributes.get("axis")
    if axis is None:
        return (Type(x.dtype, (call.fresh(),)),)
    if x.shape is None:
        return (Type(x.dtype, None),)
    axis = call.axis(axis, len(x.shape))
    return (Type(x.dtype, (*x.shape[:axis], call.fresh(), *x.shape[axis + 1 :])),)


@value("Compress")
def compress_value(e: Evaluation) -> Arrays:
    x, condition, axis = e.array(0), e.array(1), e.attributes.get("axis")
    return (np.compress(condition.reshape(-1), x, None if axis is None else int(axis)),)


@op("NonZero", kind="indexing")
def non_zero(call: Call) -> Types:
    """The indices of elements that are not 0, one column each"""
    shape = call.shape(0)
    rank: Dim = len(shape) if shape else call.fresh()
    return (Type("s64", (rank, call.fresh())),)


@value("NonZero")
def non_zero_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    return None if x.ndim == 0 else (np.array(np.nonzero(x), np.int64).reshape(x.ndim, -1),)


@op("Unique", kind="indexing")
def unique(call: Call) -> Types:
    """Each different element or slice once, with places, inverse and counts"""
    x, axis = call.type(0), call.attributes.get("axis")
    count: Dim = call.fresh()
    inverse: Dim = call.fresh()
    shape: Shape | None = (count,)
    if axis is not None:
        shape = None
        if x.shape is not None:
            place = call.axis(axis, len(x.shape))
            shape = (*x.shape[:place], count, *x.shape[place + 1 :])
            inverse = x.shape[place]
    elif x.shape is not None:
        inverse = dims.product(x.shape)
    places = Type("s64", (count,))
    return (Type(x.dtype, shape), places, Type("s64", (inverse,)), places)


@op("OneHot", kind="indexing")
def one_hot(call: Call) -> Types:
    """A new dimension in which one place holds the second value, the others the first"""
    indices, dtype = call.shape(0), call.type(2).dtype
    if indices is None:
        return (Type(dtype, None),)
    rank = len(indices) + 1
    axis = call.axis(call.integer("axis", -1), rank)
    depth = call.sizes_of(1)
    size: Dim = call.fresh() if not depth else depth[0]
    return (Type(dtype, (*indices[:axis], size, *indices[axis:])),)


@value("OneHot")
def one_hot_value(e: Evaluation) -> Arrays:
    indices, values = e.array(0).astype(np.int64), e.array(2)
    depth = int(e.array(1).reshape(-1)[0])
    found = np.where(indices < 0, indices + depth, indices)
    axis = e.integer("axis", -1)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = depth
    hot = np.expand_dims(found, axis) == np.arange(depth).reshape(shape)
    return (np.where(hot, values[1], values[0]).astype(values.dtype, copy=False),)


# --- scattering -------------------------------------------------------------------------------


@op("Scatter", "ScatterElements", "ScatterND", kind="indexing", shape_class="first")
def scatter(call: Call) -> Types:
    """A copy of the operand with elements replaced"""
    return (call.type(0),)


@op("TensorScatter", kind="indexing", shape_class="first")
def tensor_scatter(call: Call) -> Types:
    """A cache with a run of entries replaced"""
    return (call.type(0),)


_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


@value("Scatter", "ScatterElements")
def scatter_elements_value(e: Evaluation) -> Arrays | None:
    x, axis = e.array(0), e.integer("axis", 0)
    indices = _indices(e.array(1), x.shape[axis])
    if indices is None:
        return None
    return _scatter(x, _element_index(indices, axis), e.array(2), e.text("reduction", "none"))


@value("ScatterND")
def scatter_nd_value(e: Evaluation) -> Arrays | None:
    x, found = e.array(0), e.array(1).astype(np.int64)
    rows = [_indices(found[..., i], x.shape[i]) for i in range(found.shape[-1])]
    place = tuple(row for row in rows if row is not None)
    if len(place) != len(rows):
        return None
    return _scatter(x, place, e.array(2), e.text("reduction", "none"))


def _scatter(x: Array, place: tuple[Array, ...], updates: Array, reduction: str) -> Arrays | None:
    y = x.copy()
    flat = np.ravel_multi_index(np.broadcast_arrays(*place), x.shape[: len(place)])
    if np.unique(flat).size != flat.size and not _any_order(x, reduction):
        return None  # several updates of one place: the order is not defined
    if reduction == "none":
        y[place] = updates
    else:
        _COMBINE[reduction].at(y, place, updates)
    return (y,)


def _any_order(x: Array, reduction: str) -> bool:
    """Whether updates of one place may come in any order."""
    return reduction in ("max", "min") or (reduction != "none" and x.dtype.kind in "iub")


# --- boxes ------------------------------------------------------------------------------------


@op("NonMaxSuppression", kind="indexing")
def non_max_suppression(call: Call) -> Types:
    """Batch, class and box of every box kept"""
    return (Type("s64", (call.fresh(), 3)),)
