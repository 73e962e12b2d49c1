"""Pools: MaxPool, AveragePool, LpPool, their global forms, MaxUnpool, region pools.

In: `Call` or `Evaluation`. Out: types or arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.reduction import SUMMATION
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import widen
from rewrite.ops.window import Window, known_pads, output_size, read_window
from rewrite.schema import Dim, Shape, Type


def pool_shape(call: Call, x: Shape | None) -> Shape | None:
    kernel = call.integers("kernel_shape")
    if kernel is None:
        call.fail("a pool without kernel_shape")
    if x is None:
        return call.unknown(2 + len(kernel))
    if len(x) != 2 + len(kernel):
        call.fail(f"a pool of {len(kernel)} spatial dimensions on a tensor of rank {len(x)}")
    return (*x[:2], *pooled_sizes(call, kernel, x[2:]))


def pooled_sizes(call: Call, kernel: tuple[int, ...], sizes: Sequence[Dim]) -> list[Dim]:
    window = read_window(call, kernel)
    ceil = call.integer("ceil_mode", 0) != 0
    found = (output_size(window, i, size, ceil) for i, size in enumerate(sizes))
    return [call.fresh() if size is None else size for size in found]


@op("MaxPool", kind="pooling")
def max_pool(call: Call) -> Types:
    """The largest element of each window, and where it was"""
    x = call.type(0)
    shape = pool_shape(call, x.shape)
    return (Type(x.dtype, shape), Type("s64", shape))


@op("AveragePool", "LpPool", kind="pooling")
def pool(call: Call) -> Types:
    """The mean, or the p-norm, of each window"""
    x = call.type(0)
    return (Type(x.dtype, pool_shape(call, x.shape)),)


@op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", kind="pooling")
def global_pool(call: Call) -> Types:
    """The mean, maximum or p-norm over all spatial dimensions"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    if len(x.shape) < 2:
        call.fail(f"a global pool of a tensor of rank {len(x.shape)}")
    return (Type(x.dtype, (*x.shape[:2], *(1,) * (len(x.shape) - 2))),)


@op("MaxUnpool", kind="pooling")
def max_unpool(call: Call) -> Types:
    """Elements put back where MaxPool took them from"""
    x = call.type(0)
    kernel = call.integers("kernel_shape") or ()
    if call.has(2):
        sizes = call.sizes_of(2)
        return (Type(x.dtype, call.unknown(2 + len(kernel)) if sizes is None else sizes),)
    if x.shape is None:
        return (Type(x.dtype, call.unknown(2 + len(kernel))),)
    window = read_window(call, kernel)
    spatial = []
    for i, size in enumerate(x.shape[2:]):
        pads = window.pads[i] + window.pads[i + window.rank]
        spread = dims.mul(dims.sub(size, 1), window.strides[i])
        spatial.append(dims.add(spread, kernel[i] - pads))
    return (Type(x.dtype, (*x.shape[:2], *spatial)),)


@op("MaxRoiPool", kind="pooling")
def max_roi_pool(call: Call) -> Types:
    """The largest element in each part of each region"""
    return _regions(call, call.integers("pooled_shape") or (1, 1))


@op("RoiAlign", kind="pooling")
def roi_align(call: Call) -> Types:
    """Each part of each region sampled by interpolation"""
    sizes = (call.integer("output_height", 1), call.integer("output_width", 1))
    return _regions(call, sizes)


def _regions(call: Call, sizes: Sequence[int]) -> Types:
    x = call.shape_of_rank(0, 4, "the data of a region pool")
    regions = call.shape_of_rank(1, 2, "the regions")
    count: Dim = call.fresh() if regions is None else regions[0]
    channels: Dim = call.fresh() if x is None else x[1]
    return (Type(call.dtype_of(0), (count, channels, *sizes)),)


# --- values -----------------------------------------------------------------------------------


def windows(x: Array, window: Window, fill: Any) -> Array | None:
    """(n, c, out..., k...): every window of the padded data; None where sizes are in doubt."""
    if min(window.pads, default=0) < 0:
        return None
    pads = []
    for i, size in enumerate(x.shape[2:]):
        if output_size(window, i, size) is None:
            return None
        pads.append(known_pads(window, i, size))
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    reach = [window.reach(i) for i in range(window.rank)]
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, x.ndim)))
    steps = tuple(slice(None, None, s) for s in window.strides)
    holes = tuple(slice(None, None, d) for d in window.dilations)
    return np.asarray(view[(slice(None), slice(None), *steps, *holes)])


def _pool_value(
    e: Evaluation, x: Array, fill: Any, combine: Callable[[Array, tuple[int, ...]], Array]
) -> Array | None:
    if e.integer("ceil_mode", 0):
        return None
    window = read_window(e, e.integers("kernel_shape") or ())
    view = windows(x, window, fill)
    if view is None:
        return None
    with np.errstate(all="ignore"):
        return combine(view, tuple(range(2 + window.rank, 2 + 2 * window.rank)))


@value("MaxPool")
def max_pool_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    if e.n_outputs > 1 or np.isnan(widen(x, True)).any():
        return None
    wide = widen(x, True)
    lowest = float("-inf") if wide.dtype.kind == "f" else np.iinfo(wide.dtype).min
    y = _pool_value(e, wide, lowest, lambda view, axes: np.asarray(np.max(view, axes)))
    return None if y is None else (y.astype(x.dtype),)


@value("AveragePool", error=SUMMATION)
def average_pool_value(e: Evaluation) -> Arrays | None:
    x = widen(e.array(0), False)

    def combine(view: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.sum(view, axes))

    sums = _pool_value(e, x, 0, combine)
    if sums is None:
        return None
    if e.integer("count_include_pad", 0):
        counts: Any = int(np.prod(e.integers("kernel_shape") or ()))
    else:
        counts = _pool_value(e, np.ones_like(x[:1, :1]), 0, combine)
    return ((sums / counts).astype(e.array(0).dtype),)


@value("LpPool", error=SUMMATION)
def lp_pool_value(e: Evaluation) -> Arrays | None:
    x, p = e.array(0), e.integer("p", 2)

    def combine(view: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(np.sum(np.abs(view) ** p, axes) ** (1 / p))

    y = _pool_value(e, widen(x, False), 0, combine)
    return None if y is None else (y.astype(x.dtype),)


@value("GlobalAveragePool", error=SUMMATION)
def global_average_pool_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    if x.size == 0:
        return None
    return (np.mean(widen(x, False), tuple(range(2, x.ndim)), keepdims=True).astype(x.dtype),)


@value("GlobalMaxPool")
def global_max_pool_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    if x.size == 0 or np.isnan(widen(x, True)).any():
        return None
    return (np.max(widen(x, True), tuple(range(2, x.ndim)), keepdims=True).astype(x.dtype),)


@value("GlobalLpPool", error=SUMMATION)
def global_lp_pool_value(e: Evaluation) -> Arrays:
    x, p = e.array(0), e.integer("p", 2)
    sums = np.sum(np.abs(widen(x, False)) ** p, tuple(range(2, x.ndim)), keepdims=True)
    return ((sums ** (1 / p)).astype(x.dtype),)
