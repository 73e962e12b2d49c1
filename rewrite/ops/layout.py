"""Operators that repeat, pad or regroup elements.

In: `Call` or `Evaluation`. Out: types or arrays; every value is exact.
"""

from __future__ import annotations

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.registry import op, value
from rewrite.schema import Dim, Type


@op("Expand", kind="movement")
def expand(call: Call) -> Types:
    """x broadcast with a shape"""
    x = call.type(0)
    target = call.sizes_of(1)
    if target is not None:
        return (Type(x.dtype, None if x.shape is None else dims.broadcast(x.shape, target)),)
    length = call.length_of(1)
    if x.shape is None or length is None:
        return (Type(x.dtype, None),)
    rank = max(len(x.shape), length)
    result = list(call.unknown(rank))
    for i, size in enumerate(x.shape, rank - len(x.shape)):
        if (isinstance(size, int) and size != 1) or i < rank - length:
            result[i] = size
    return (Type(x.dtype, tuple(result)),)


@value("Expand")
def expand_value(e: Evaluation) -> Arrays:
    x = e.array(0)
    shape = np.broadcast_shapes(x.shape, e.integers_of(1) or ())
    return (np.asarray(np.broadcast_to(x, shape), order="C"),)


@op("Tile", kind="movement")
def tile(call: Call) -> Types:
    """Each dimension repeated"""
    x = call.type(0)
    repeats = call.sizes_of(1)
    if x.shape is None:
        length = len(repeats) if repeats is not None else call.length_of(1)
        return (Type(x.dtype, None if length is None else call.unknown(length)),)
    if repeats is None:
        return (Type(x.dtype, call.unknown(len(x.shape))),)
    if len(repeats) != len(x.shape):
        call.fail(f"{len(repeats)} repeats for {len(x.shape)} dimensions")
    return (Type(x.dtype, tuple(dims.mul(d, r) for d, r in zip(x.shape, repeats, strict=True))),)


@value("Tile")
def tile_value(e: Evaluation) -> Arrays:
    return (np.tile(e.array(0), e.integers_of(1) or ()),)


@op("Pad", kind="movement")
def pad(call: Call) -> Types:
    """Elements added around, or with negative pads taken away"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    rank = len(x.shape)
    axes = call.integers_of(3) if call.has(3) else tuple(range(rank))
    pads = call.sizes_of(1)
    if axes is None:
        return (Type(x.dtype, call.unknown(rank)),)
    axes = call.axes(axes, rank)
    if pads is None:
        return (Type(x.dtype, tuple(_fresh_if(call, i in axes, d) for i, d in enumerate(x.shape))),)
    if len(pads) != 2 * len(axes):
        call.fail(f"{len(pads)} pads for {len(axes)} dimensions")
    result = list(x.shape)
    for i, axis in enumerate(axes):
        result[axis] = dims.add(result[axis], dims.add(pads[i], pads[i + len(axes)]))
        if isinstance(size := result[axis], int) and size < 0:
            call.fail("pads remove more than there is")
    return (Type(x.dtype, tuple(result)),)


def _fresh_if(call: Call, condition: bool, size: Dim) -> Dim:
    return call.fresh() if condition else size


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


@value("Pad")
def pad_value(e: Evaluation) -> Arrays | None:
    x, pads = e.array(0), e.integers_of(1) or ()
    axes = e.integers_of(3)
    axes = tuple(range(x.ndim)) if axes is None else tuple(a % max(x.ndim, 1) for a in axes)
    around = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        around[axis] = (pads[i], pads[i + len(axes)])
    mode = e.text("mode", "constant")
    if mode == "constant":
        return (_pad_constant(x, around, e.optional(2)),)
    for (before, after), size in zip(around, x.shape, strict=True):
        # Negative pads and pads longer than the tensor: runtimes differ.
        limit = size - 1 if mode == "reflect" else size
        if min(before, after) < 0 or (max(before, after) > limit and mode != "edge"):
            return None
        if size == 0 and before + after:
            return None
    return (np.pad(x, around, _PAD_MODES[mode]),)  # type: ignore[call-overload]


def _pad_constant(x: Array, around: list[tuple[int, int]], fill: Array | None) -> Array:
    crop = tuple(
        slice(max(0, -before), size - max(0, -after))
        for (before, after), size in zip(around, x.shape, strict=True)
    )
    shape = [max(0, n + a + b) for (a, b), n in zip(around, x.shape, strict=True)]
    number = fill.reshape(-1)[0] if fill is not None else ("" if x.dtype.kind in "OUS" else 0)
    result = np.full(shape, number, x.dtype)
    place = tuple(
        slice(max(0, before), size - max(0, after))
        for (before, after), size in zip(around, shape, strict=True)
    )
    result[place] = x[crop]
    return result


@op("DepthToSpace", kind="movement")
def depth_to_space(call: Call) -> Types:
    """Blocks of channels spread over height and width"""
    x = call.type(0)
    shape = call.shape_of_rank(0, 4, "the operand of DepthToSpace")
    if shape is None:
        return (Type(x.dtype, call.unknown(4)),)
    block = call.integer("blocksize", 1)
    n, c, h, w = shape
    depth = dims.quotient([c], [block * block])
    return (Type(x.dtype, (n, depth, dims.mul(h, block), dims.mul(w, block))),)


@value("DepthToSpace")
def depth_to_space_value(e: Evaluation) -> Arrays:
    x, b = e.array(0), e.integer("blocksize", 1)
    n, c, h, w = x.shape
    d = c // (b * b)
    if e.text("mode", "DCR") == "CRD":
        y = x.reshape(n, d, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        y = x.reshape(n, b, b, d, h, w).transpose(0, 3, 4, 1, 5, 2)
    return (np.asarray(y).reshape(n, d, h * b, w * b, order="C"),)


@op("SpaceToDepth", kind="movement")
def space_to_depth(call: Call) -> Types:
    """Blocks of height and width stacked into channels"""
    x = call.type(0)
    shape = call.shape_of_rank(0, 4, "the operand of SpaceToDepth")
    if shape is None:
        return (Type(x.dtype, call.unknown(4)),)
    block = call.integer("blocksize", 1)
    n, c, h, w = shape
    rows, columns = dims.quotient([h], [block]), dims.quotient([w], [block])
    return (Type(x.dtype, (n, dims.mul(c, block * block), rows, columns)),)


@value("SpaceToDepth")
def space_to_depth_value(e: Evaluation) -> Arrays:
    x, b = e.array(0), e.integer("blocksize", 1)
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // b, b, w // b, b)
    if e.text("mode", "DCR") == "CRD":
        y = blocks.transpose(0, 1, 3, 5, 2, 4)
    else:
        y = blocks.transpose(0, 3, 5, 1, 2, 4)
    return (np.asarray(y).reshape(n, c * b * b, h // b, w // b, order="C"),)


@op("CenterCropPad", kind="movement")
def center_crop_pad(call: Call) -> Types:
    """Cropped or padded around the centre to given sizes"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    rank = len(x.shape)
    axes = call.axes(call.integers("axes") or tuple(range(rank)), rank)
    sizes = call.sizes_of(1)
    result = list(x.shape)
    for i, axis in enumerate(axes):
        result[axis] = call.fresh() if sizes is None else sizes[i]
    return (Type(x.dtype, tuple(result)),)


@op("Trilu", kind="movement", shape_class="first")
def trilu(call: Call) -> Types:
    """The upper or lower triangle of each matrix, the rest 0"""
    x = call.type(0)
    if x.shape is not None and len(x.shape) < 2:
        call.fail(f"Trilu of a tensor of rank {len(x.shape)}")
    return (x,)


@value("Trilu")
def trilu_value(e: Evaluation) -> Arrays:
    x, k = e.array(0), e.integers_of(1)
    diagonal = k[0] if k else 0
    upper = e.integer("upper", 1) != 0
    below = np.tri(x.shape[-2], x.shape[-1], diagonal - 1 if upper else diagonal, dtype=np.bool_)
    mask = ~below if upper else below
    return (np.where(mask, x, np.zeros((), x.dtype)),)


@op("ReverseSequence", kind="movement", shape_class="first")
def reverse_sequence(call: Call) -> Types:
    """The first elements of each sequence in reverse order"""
    return (call.type(0),)


@value("ReverseSequence")
def reverse_sequence_value(e: Evaluation) -> Arrays:
    x, lengths = e.array(0), e.integers_of(1) or ()
    batch, time = e.integer("batch_axis", 1), e.integer("time_axis", 0)
    y = x.copy()
    for i, length in enumerate(lengths):
        place: list[slice | int] = [slice(None)] * x.ndim
        place[batch], place[time] = i, slice(0, length)
        row = x[tuple(place)]
        axis = time - (1 if batch < time else 0)
        y[tuple(place)] = np.flip(row, axis)
    return (y,)
