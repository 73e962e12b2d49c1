"""The parameters of a tensor that is moved: Transpose, Reshape, Slice, Gather and their kin.

In: `QuantParams` of the operand and what the operator does. Out: those of the result, or None
where it has none of the same form (an axis that does not survive, blocks that are cut). Codes are
the same before and after, so Q(move(x)) = move(Q(x)) holds without any error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from rewrite.quant.codes import Array, Ints
from rewrite.quant.params import QuantParams


def transpose(params: QuantParams, perm: Sequence[int]) -> QuantParams | None:
    """Axis j of the result is axis perm[j] of the operand."""
    if params.axis is None:
        return params
    if sorted(perm) != list(range(len(perm))) or params.axis >= len(perm):
        return None
    axis = list(perm).index(params.axis)
    if params.block is None:
        return replace(params, axis=axis)
    return replace(
        params,
        axis=axis,
        scale=_fixed(params.scale.transpose(perm)),
        zero_point=_fixed(params.zero_point.transpose(perm)),
    )


def reshape(
    params: QuantParams, shape: Sequence[int], new_shape: Sequence[int]
) -> QuantParams | None:
    """Flatten too. The axis survives if a new axis has its size and as many elements in front.

    Blocks survive only where the shapes are equal but for sizes of 1 in front of the axis or
    behind it, which is Squeeze or Unsqueeze.
    """
    if params.axis is None:
        return params
    if prod(shape) != prod(new_shape) or 0 in shape or params.axis >= len(shape):
        return None
    before, size = prod(shape[: params.axis]), shape[params.axis]
    for axis, d in enumerate(new_shape):
        if d == size and prod(new_shape[:axis]) == before:
            break
    else:
        return None
    if params.block is None:
        return replace(params, axis=axis)
    if [d for d in shape if d != 1] != [d for d in new_shape if d != 1] or size == 1:
        return None
    sizes = list(new_shape)
    sizes[axis] = params.scale.shape[params.axis]
    return replace(
        params,
        axis=axis,
        scale=_fixed(params.scale.reshape(sizes)),
        zero_point=_fixed(params.zero_point.reshape(sizes)),
    )


def unsqueeze(params: QuantParams, axes: Sequence[int], rank: int) -> QuantParams | None:
    """`axes` are those of the result; `rank` is the operand's."""
    if params.axis is None:
        return params
    total = rank + len(axes)
    new = {a % total for a in axes}
    if len(new) != len(axes) or params.axis >= rank:
        return None
    kept = [i for i in range(total) if i not in new]
    moved = replace(params, axis=kept[params.axis])
    if params.block is None:
        return moved
    at = tuple(sorted(new))
    return replace(
        moved,
        scale=_fixed(np.expand_dims(params.scale, at)),
        zero_point=_fixed(np.expand_dims(params.zero_point, at)),
    )


def squeeze(params: QuantParams, axes: Sequence[int], rank: int) -> QuantParams | None:
    """The axis itself goes away only if it has size 1: then per tensor."""
    if params.axis is None:
        return params
    gone = tuple(sorted({a % rank for a in axes}))
    if params.axis in gone:
        if params.scale.size != 1:
            return None
        return replace(params, scale=_fixed(params.scale.reshape(())), axis=None, block=None,
                       zero_point=_fixed(params.zero_point.reshape(())))  # fmt: skip
    moved = replace(params, axis=params.axis - sum(a < params.axis for a in gone))
    if params.block is None:
        return moved
    return replace(
        moved,
        scale=_fixed(np.squeeze(params.scale, gone)),
        zero_point=_fixed(np.squeeze(params.zero_point, gone)),
    )


def gather(params: QuantParams, axis: int, indices: Array, rank: int) -> QuantParams | None:
    """Gather on another axis keeps the parameters; on the quantized one it picks them."""
    if params.axis is None:
        return params
    axis %= rank
    extra = indices.ndim - 1
    if axis != params.axis:
        if params.block is not None:
            return None if extra else _picked(params, axis, indices)
        return replace(params, axis=params.axis + (extra if axis < params.axis else 0))
    if params.block is not None or indices.ndim != 1:
        return None
    return _picked(params, axis, indices)


def slice_(
    params: QuantParams, axis: int, start: int, stop: int, step: int, shape: Sequence[int]
) -> QuantParams | None:
    """One axis of Slice (or one output of Split); start, stop and step as in Python."""
    if params.axis is None:
        return params
    axis %= len(shape)
    taken = np.arange(shape[axis])[start:stop:step]
    if axis == params.axis and params.block is not None:
        whole = start % params.block == 0 and step == 1
        if not whole or (taken.size and (taken[-1] + 1) % params.block and stop < shape[axis]):
            return None
        return _picked(params, axis, np.unique(taken // params.block))
    if axis == params.axis or params.block is not None:
        return _picked(params, axis, taken)
    return params


def repeat(params: QuantParams, shape: Sequence[int], new_shape: Sequence[int]) -> (
    QuantParams | None
):  # fmt: skip
    """Expand and Tile; None where the quantized axis itself grows, unless it had size 1."""
    if params.axis is None:
        return params
    shift = len(new_shape) - len(shape)
    if shift < 0 or params.block is not None:
        return None
    axis = params.axis + shift
    if new_shape[axis] == shape[params.axis]:
        return replace(params, axis=axis)
    if params.scale.size != 1:
        return None
    return replace(params, axis=None, scale=_fixed(params.scale.reshape(())),
                   zero_point=_fixed(params.zero_point.reshape(())))  # fmt: skip


def concat(parts: Sequence[QuantParams], axis: int, rank: int) -> QuantParams | None:
    """The parameters of joined tensors: equal ones stay, those on the joined axis are joined."""
    first, axis = parts[0], axis % rank
    if any(p.code != first.code or p.scale.dtype != first.scale.dtype for p in parts):
        return None
    if first.axis != axis:
        same = all(p == first for p in parts)
        return first if same and (first.axis is None or first.block is None) else None
    if first.block is not None or any((p.axis, p.block) != (axis, None) for p in parts):
        return None
    scale = np.concatenate([p.scale for p in parts])
    zeros = np.concatenate([np.broadcast_to(p.zero_point, p.scale.shape) for p in parts])
    return replace(first, scale=_fixed(scale), zero_point=_fixed(zeros))


def _picked(params: QuantParams, axis: int, indices: Array | Ints) -> QuantParams | None:
    along = axis if params.block is not None else 0
    size = params.scale.shape[along]
    if indices.size == 0 or indices.min() < -size or indices.max() >= size:
        return None
    zeros = params.zero_point
    if zeros.shape == params.scale.shape:
        zeros = np.take(zeros, indices, along)
    return replace(
        params, scale=_fixed(np.take(params.scale, indices, along)), zero_point=_fixed(zeros)
    )


def _fixed(array: Array) -> Array:
    out = np.array(array)
    out.setflags(write=False)
    return out
