"""Convolutions: Conv, ConvTranspose, ConvInteger, DeformConv, Col2Im.

In: `Call` or `Evaluation`. Out: types or arrays. The reference value gathers the windows and
contracts them in float64 (int64 for integers).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.reduction import SUMMATION
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import widen
from rewrite.ops.window import Window, known_pads, output_size, read_window
from rewrite.schema import Dim, Shape, Type


def conv_shape(call: Call, x: Shape | None, w: Shape | None) -> Shape | None:
    """(batch, filters, spatial sizes) from the shapes of data and weight."""
    if w is None and x is None:
        kernel = call.integers("kernel_shape")
        return None if kernel is None else call.unknown(2 + len(kernel))
    rank = len(x) if x is not None else len(w or ())
    if rank < 3 or (w is not None and len(w) != rank):
        call.fail(f"a convolution of rank {rank} with a weight of rank {len(w or ())}")
    if x is not None and w is not None:
        dims.same_dim(x[1], dims.mul(w[1], call.integer("group", 1)))
    batch: Dim = call.fresh() if x is None else x[0]
    filters: Dim = call.fresh() if w is None else w[0]
    return (batch, filters, *_spatial(call, x, w, rank - 2))


def _spatial(call: Call, x: Shape | None, w: Shape | None, rank: int) -> Sequence[Dim]:
    kernel = kernel_of(call, w)
    if x is None or kernel is None:
        return call.unknown(rank)
    window = read_window(call, kernel)
    sizes = (output_size(window, i, size) for i, size in enumerate(x[2:]))
    return [call.fresh() if size is None else size for size in sizes]


def kernel_of(call: Call, w: Shape | None) -> tuple[int, ...] | None:
    given = call.integers("kernel_shape")
    if w is None:
        return given
    found = w[2:]
    if given is not None:
        if len(given) != len(found):
            call.fail(f"kernel_shape {list(given)} for a weight of rank {len(w)}")
        for size, other in zip(given, found, strict=True):
            dims.same_dim(size, other)
        return given
    sizes = tuple(size for size in found if isinstance(size, int))
    return sizes if len(sizes) == len(found) else None


@op("Conv", kind="convolution")
def conv(call: Call) -> Types:
    """Convolution with optional bias"""
    return (Type(call.dtype_of(0, 1, 2), conv_shape(call, call.shape(0), call.shape(1))),)


@op("ConvInteger", kind="convolution")
def conv_integer(call: Call) -> Types:
    """Convolution of integers, zero points taken off"""
    return (Type("s32", conv_shape(call, call.shape(0), call.shape(1))),)


def convolve(x: Array, w: Array, window: Window, group: int) -> Array:
    """The convolution of arrays that are wide enough for the sums."""
    pads = [known_pads(window, i, size) for i, size in enumerate(x.shape[2:])]
    # Negative pads are refused by runtimes; the caller checks.
    padded = np.pad(x, [(0, 0), (0, 0), *pads])
    reach = [window.reach(i) for i in range(window.rank)]
    axes = tuple(range(2, x.ndim))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    steps = tuple(slice(None, None, s) for s in window.strides)
    holes = tuple(slice(None, None, d) for d in window.dilations)
    view = view[(slice(None), slice(None), *steps, *holes)]
    n, m = x.shape[0], w.shape[0]
    out = view.shape[2 : 2 + window.rank]
    grouped = view.reshape(n, group, x.shape[1] // group, *view.shape[2:])
    weights = w.reshape(group, m // group, *w.shape[1:])
    parts = [_contract_windows(grouped[:, g], weights[g], window.rank) for g in range(group)]
    return np.concatenate(parts, axis=1).reshape(n, m, *out)


def _contract_windows(view: Array, w: Array, rank: int) -> Array:
    """(n, c, out..., k...) with (m, c, k...) -> (n, m, out...)"""
    kernel_axes = list(range(2 + rank, 2 + 2 * rank))
    y = np.tensordot(view, w, axes=([1, *kernel_axes], [1, *range(2, 2 + rank)]))
    return np.moveaxis(y, -1, 1)


def conv_value_of(e: Evaluation, x: Array, w: Array) -> Array | None:
    """None where the kernel does not fit or a pad is negative."""
    window = read_window(e, e.integers("kernel_shape") or w.shape[2:])
    if min(window.pads, default=0) < 0:
        return None
    for i, size in enumerate(x.shape[2:]):
        if output_size(window, i, size) is None:
            return None
    with np.errstate(all="ignore"):
        return convolve(x, w, window, e.integer("group", 1))


@value("Conv", error=SUMMATION)
def conv_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    y = conv_value_of(e, widen(x, False), widen(e.array(1), False))
    if y is None:
        return None
    bias = e.optional(2)
    if bias is not None:
        y = y + widen(bias, False).reshape(-1, *(1,) * (y.ndim - 2))
    return (y.astype(x.dtype),)


@value("ConvInteger")
def conv_integer_value(e: Evaluation) -> Arrays | None:
    x, w = e.array(0).astype(np.int64), e.array(1).astype(np.int64)
    x_zero, w_zero = e.optional(2), e.optional(3)
    if x_zero is not None:
        x = x - x_zero.astype(np.int64).reshape(())
    if w_zero is not None:
        w = w - w_zero.astype(np.int64).reshape(-1, *(1,) * (w.ndim - 1))
    y = conv_value_of(e, x, w)
    return None if y is None else (y.astype(np.int32),)


@op("DeformConv", kind="convolution")
def deform_conv(call: Call) -> Types:
    """Convolution at displaced positions"""
    return (Type(call.dtype_of(0, 1), conv_shape(call, call.shape(0), call.shape(1))),)


# --- transposed -------------------------------------------------------------------------------


@op("ConvTranspose", kind="convolution")
def conv_transpose(call: Call) -> Types:
    """The gradient of a convolution, as an operator"""
    x, w = call.shape(0), call.shape(1)
    dtype = call.dtype_of(0, 1, 2)
    if x is None or w is None:
        known = x if x is not None else w
        return (Type(dtype, None if known is None else call.unknown(len(known))),)
    if len(x) != len(w) or len(x) < 3:
        call.fail(f"a convolution of rank {len(x)} with a weight of rank {len(w)}")
    dims.same_dim(x[1], w[0])
    filters = dims.mul(w[1], call.integer("group", 1))
    return (Type(dtype, (x[0], filters, *_transposed_sizes(call, x, w))),)


def _transposed_sizes(call: Call, x: Shape, w: Shape) -> Sequence[Dim]:
    rank = len(x) - 2
    given = call.integers("output_shape")
    if given is not None:
        return given[-rank:]
    kernel = kernel_of(call, w)
    if kernel is None:
        return call.unknown(rank)
    window = read_window(call, kernel)
    extra = call.integers("output_padding") or (0,) * rank
    if len(extra) != rank:
        call.fail(f"output_padding {list(extra)} for {rank} spatial dimensions")
    if window.auto_pad.startswith("SAME"):
        # Before opset 11 the text asked for the size of the input.
        same = [dims.mul(size, s) for size, s in zip(x[2:], window.strides, strict=True)]
        return same if call.opset >= 11 and not any(extra) else call.unknown(rank)
    return [_transposed_size(window, i, x[2 + i], extra[i]) for i in range(rank)]


def _transposed_size(window: Window, axis: int, size: Dim, extra: int) -> Dim:
    pads = window.pads[axis] + window.pads[axis + window.rank]
    spread = dims.mul(dims.sub(size, 1), window.strides[axis])
    return dims.add(spread, window.reach(axis) + extra - pads)


@value("ConvTranspose", error=SUMMATION)
def conv_transpose_value(e: Evaluation) -> Arrays | None:
    """Each input element spreads the kernel over the output."""
    x, w, bias = e.array(0), e.array(1), e.optional(2)
    window = read_window(e, e.integers("kernel_shape") or w.shape[2:])
    if e.integers("output_shape") is not None or window.auto_pad.startswith("SAME"):
        return None
    extra = e.integers("output_padding") or (0,) * window.rank
    with np.errstate(all="ignore"):
        full = _spread(widen(x, False), widen(w, False), window, e.integer("group", 1), extra)
    crop = tuple(
        slice(window.pads[i], full.shape[2 + i] - window.pads[i + window.rank])
        for i in range(window.rank)
    )
    y = full[(slice(None), slice(None), *crop)]
    if bias is not None:
        y = y + widen(bias, False).reshape(-1, *(1,) * window.rank)
    return (np.asarray(y).astype(x.dtype, order="C"),)


def _spread(x: Array, w: Array, window: Window, group: int, extra: Sequence[int]) -> Array:
    n, c = x.shape[:2]
    m = w.shape[1]
    rank = window.rank
    sizes = [
        (x.shape[2 + i] - 1) * window.strides[i] + window.reach(i) + extra[i] for i in range(rank)
    ]
    y = np.zeros((n, group, m, *sizes), x.dtype)
    per = c // group
    for g in range(group):
        # (n, spatial..., m, k...)
        part = np.tensordot(x[:, g * per : (g + 1) * per], w[g * per : (g + 1) * per], ([1], [0]))
        for offset in np.ndindex(*window.kernel):
            place = tuple(_strided(window, i, offset[i], x.shape[2 + i]) for i in range(rank))
            index: Any = (slice(None), *(slice(None),) * rank, slice(None), *offset)
            spot: Any = (slice(None), g, slice(None), *place)
            y[spot] += np.moveaxis(part[index], -1, 1)
    return y.reshape(n, group * m, *sizes)


def _strided(window: Window, axis: int, offset: int, size: int) -> slice:
    start = offset * window.dilations[axis]
    return slice(start, start + (size - 1) * window.strides[axis] + 1, window.strides[axis])


@op("Col2Im", kind="convolution")
def col2im(call: Call) -> Types:
    """Columns of blocks put back together as an image"""
    x = call.type(0)
    image, block = call.sizes_of(1), call.integers_of(2)
    length = len(image) if image is not None else call.length_of(1)
    if length is None:
        return (Type(x.dtype, None),)
    spatial = image if image is not None else call.unknown(length)
    batch: Dim = call.fresh() if x.shape is None else x.shape[0]
    channels: Dim = call.fresh()
    if x.shape is not None and block is not None:
        channels = dims.quotient([x.shape[1]], list(block))
        _check_columns(call, x.shape[2], spatial, block)
    return (Type(x.dtype, (batch, channels, *spatial)),)


def _check_columns(call: Call, columns: Dim, image: Sequence[Dim], block: Sequence[int]) -> None:
    """There are as many columns as places of the block in the image."""
    rank = len(image)
    sizes = [n for n in image if isinstance(n, int)]
    if not isinstance(columns, int) or len(sizes) < rank or len(block) != rank:
        return
    pads = call.integers("pads") or (0,) * (2 * rank)
    steps = call.integers("strides") or (1,) * rank
    gaps = call.integers("dilations") or (1,) * rank
    places = [
        (n + pads[i] + pads[rank + i] - gaps[i] * (block[i] - 1) - 1) // steps[i] + 1
        for i, n in enumerate(sizes)
    ]
    if min(*sizes, *places) < 0 or prod(places) != columns:
        call.fail(f"{columns} columns for {prod(places)} places of the block in the image")
