"""Arithmetic of slices and codes that rules about movement and quantization need.

In: lists, shapes, constants. Out: the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from rewrite.match.builtins.elementwise import met
from rewrite.match.builtins.registry import Dtype, Ints, Items, builtin
from rewrite.match.values import Tensor, Unknown, integer_range, working
from rewrite.ops.dtypes import to_numpy

# ONNX's Slice clamps to the ends; this stands for "to the front end" with a negative step.
_BEFORE_FRONT = -(1 << 62)


@builtin
def slice_compose(
    s1: Ints,
    e1: Ints,
    a1: Ints | None,
    t1: Ints | None,
    s2: Ints,
    e2: Ints,
    a2: Ints | None,
    t2: Ints | None,
    shape: Items,
) -> Items:
    """[starts, ends, axes, steps] of one Slice that does two in a row on a value of this shape."""
    kept: dict[int, range | tuple[int, int, int]] = {}
    for starts, ends, axes, steps in ((s1, e1, a1, t1), (s2, e2, a2, t2)):
        for axis, start, end, step in _by_axis(starts, ends, axes, steps, len(shape)):
            kept[axis] = _narrow(kept.get(axis), shape[axis], start, end, step)
    order = sorted(kept)
    found = [k if isinstance(k, tuple) else _bounds(k) for k in (kept[a] for a in order)]
    return (
        tuple(start for start, _, _ in found),
        tuple(end for _, end, _ in found),
        tuple(order),
        tuple(step for _, _, step in found),
    )


def _by_axis(
    starts: Ints, ends: Ints, axes: Ints | None, steps: Ints | None, rank: int
) -> Iterator[tuple[int, int, int, int]]:
    places = tuple(range(len(starts))) if axes is None else axes
    strides = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(places) == len(strides):
        raise Unknown("the operands of a slice have different lengths")
    for start, end, place, step in zip(starts, ends, places, strides, strict=True):
        if not -rank <= place < rank or step == 0:
            raise Unknown("a slice has an axis out of range or a step of 0")
        yield place % rank, start, end, step


def _narrow(
    before: range | tuple[int, int, int] | None, size: object, start: int, end: int, step: int
) -> range | tuple[int, int, int]:
    """What is left of an axis; where its size is not known, the first slice as given."""
    if not isinstance(size, int):
        if before is not None:
            raise Unknown(f"the size {size} is not known")
        return start, end, step
    whole = before if isinstance(before, range) else range(size)
    return whole[_as_slice(start, end, step, len(whole))]


def _as_slice(start: int, end: int, step: int, size: int) -> slice:
    """Slice-13: negative counts from the end, then clamped ([0, n], or [-1, n-1] backwards)."""
    first = start + size if start < 0 else start
    last = end + size if end < 0 else end
    if step > 0:
        return slice(min(max(first, 0), size), min(max(last, 0), size), step)
    first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
    return slice(first, None if last < 0 else last, step)


def _bounds(kept: range) -> tuple[int, int, int]:
    if len(kept) == 0:
        return 0, 0, 1
    end = kept[-1] + (1 if kept.step > 0 else -1)
    return kept[0], end if end >= 0 else _BEFORE_FRONT, kept.step


@builtin
def quantize(v: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: Dtype) -> Tensor:
    """The codes QuantizeLinear gives: divided in the scale's type, ties to even, saturated."""
    low, high = integer_range(dtype)
    met(v, scale, *([] if zero_point is None else [zero_point]))
    kind = to_numpy(scale.dtype or v.dtype or "f32")
    ratio = v.array.astype(kind) / scale.array.astype(kind)
    if np.isnan(ratio.astype(np.float64)).any():
        raise Unknown("a value has no code")
    offset = 0 if zero_point is None else zero_point.array.astype(np.float64)
    codes = np.clip(np.rint(ratio.astype(np.float64)) + offset, low, high)
    return working(np.asarray(codes.astype(np.int64).astype(to_numpy(dtype))))


@builtin
def dequantize(v: Tensor, scale: Tensor, zero_point: Tensor | None) -> Tensor:
    """The values DequantizeLinear gives: (code - zero point) · scale, rounded to its type."""
    met(v, scale, *([] if zero_point is None else [zero_point]))
    offset = 0 if zero_point is None else zero_point.array
    kind = to_numpy(scale.dtype or "f32")
    steps = np.asarray(v.array - offset).astype(kind)
    return working(np.asarray(steps * scale.array.astype(kind), kind))
