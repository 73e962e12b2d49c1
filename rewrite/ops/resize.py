"""Operators that resample: Resize, Upsample, GridSample, AffineGrid.

In: `Call` or `Evaluation`. Out: types; values only of Upsample by whole numbers, nearest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.registry import op, value
from rewrite.schema import Dim, Shape, Type


def scaled(size: Dim, scale: float) -> Dim | None:
    """floor(size scale); None where float32 and exact arithmetic could disagree."""
    if isinstance(size, int):
        exact = math.floor(size * scale)
        rounded = math.floor(float(np.float32(size) * np.float32(scale)))
        return exact if exact == rounded else None
    if scale == 1:
        return size
    if scale == int(scale):
        return dims.mul(size, int(scale))
    if scale > 0 and 1 / scale == int(1 / scale):
        return dims.floordiv(size, int(1 / scale))
    return None


@op("Upsample", kind="resize")
def upsample(call: Call) -> Types:
    """Every dimension scaled"""
    x, scales = call.type(0), _floats(call.constant(1) if call.has(1) else None)
    return (Type(x.dtype, _scaled_shape(call, x.shape, scales, None)),)


def _floats(array: Array | None) -> tuple[float, ...] | None:
    return None if array is None or array.size == 0 else tuple(map(float, array.reshape(-1)))


def _scaled_shape(
    call: Call, shape: Shape | None, scales: tuple[float, ...] | None, axes: tuple[int, ...] | None
) -> Shape | None:
    if shape is None:
        return call.unknown(len(scales)) if scales is not None and axes is None else None
    places = tuple(range(len(shape))) if axes is None else axes
    if scales is None:
        return tuple(call.fresh() if i in places else size for i, size in enumerate(shape))
    if len(scales) != len(places):
        call.fail(f"{len(scales)} scales for {len(places)} dimensions")
    result = list(shape)
    for i, scale in zip(places, scales, strict=True):
        size = scaled(result[i], scale)
        result[i] = call.fresh() if size is None else size
    return tuple(result)


@op("Resize", kind="resize")
def resize(call: Call) -> Types:
    """Dimensions scaled, or resized to given sizes, by interpolation"""
    x = call.type(0)
    axes = call.integers("axes")
    if axes is not None and x.shape is not None:
        axes = call.axes(axes, len(x.shape))
    scales_at = 1 if call.opset < 11 else 2
    if call.opset >= 11 and call.has(3):
        return (Type(x.dtype, _sized(call, x.shape, axes)),)
    scales = _floats(call.constant(scales_at) if call.has(scales_at) else None)
    # The text multiplies by the length of the region, too; its evaluator and runtimes do not.
    return (Type(x.dtype, _scaled_shape(call, x.shape, scales, axes)),)


def _sized(call: Call, shape: Shape | None, axes: tuple[int, ...] | None) -> Shape | None:
    sizes = call.sizes_of(3)
    if sizes == ():
        sizes = None  # an empty tensor stands for an absent one: scales may be given
    if shape is None:
        return call.unknown(len(sizes)) if sizes is not None and axes is None else None
    places = tuple(range(len(shape))) if axes is None else axes
    policy = call.text("keep_aspect_ratio_policy", "stretch")
    if sizes is not None and policy != "stretch" and len(sizes) == len(places):
        sizes = _proportional([shape[i] for i in places], sizes, policy)
    if sizes is None:
        return tuple(call.fresh() if i in places else size for i, size in enumerate(shape))
    if len(sizes) != len(places):
        call.fail(f"{len(sizes)} sizes for {len(places)} dimensions")
    result = list(shape)
    for i, size in zip(places, sizes, strict=True):
        result[i] = size
    return tuple(result)


def _proportional(
    before: Sequence[Dim], wanted: Sequence[Dim], policy: str
) -> tuple[Dim, ...] | None:
    """All sizes times one scale, rounded half up: that of the dimension that grows least, or most
    (`not_larger`, `not_smaller`); None where a size is not known."""
    old = [n for n in before if isinstance(n, int)]
    new = [n for n in wanted if isinstance(n, int)]
    if len(old) != len(before) or len(new) != len(wanted) or 0 in old or not old:
        return None
    ratios = [Fraction(m, n) for n, m in zip(old, new, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return tuple(math.floor(n * scale + Fraction(1, 2)) for n in old)


@value("Upsample")
def upsample_value(e: Evaluation) -> Arrays | None:
    """Nearest by whole numbers: every element repeated."""
    y, scales = e.array(0), _floats(e.optional(1))
    if scales is None or e.text("mode", "nearest") != "nearest":
        return None
    if len(scales) != y.ndim or any(s != int(s) or s < 1 for s in scales):
        return None
    for axis, scale in enumerate(scales):
        y = np.repeat(y, int(scale), axis)
    return (y,)


@op("GridSample", kind="resize")
def grid_sample(call: Call) -> Types:
    """Interpolation at the places that a grid gives"""
    x, grid = call.shape(0), call.shape(1)
    dtype = call.type(0).dtype
    if x is None and grid is None:
        return (Type(dtype, None),)
    rank = len(x) if x is not None else len(grid or ())
    if x is not None and grid is not None and len(grid) != len(x):
        call.fail(f"a grid of rank {len(grid)} for a tensor of rank {len(x)}")
    batch: Dim = x[0] if x is not None else call.fresh()
    channels: Dim = x[1] if x is not None else call.fresh()
    spatial = grid[1:-1] if grid is not None else call.unknown(rank - 2)
    return (Type(dtype, (batch, channels, *spatial)),)


@op("AffineGrid", kind="resize")
def affine_grid(call: Call) -> Types:
    """The grid of an affine map"""
    size = call.sizes_of(1)
    length = len(size) if size is not None else call.length_of(1)
    if length is None:
        return (Type(call.type(0).dtype, None),)
    found = size if size is not None else call.unknown(length)
    return (Type(call.type(0).dtype, (found[0], *found[2:], length - 2)),)
