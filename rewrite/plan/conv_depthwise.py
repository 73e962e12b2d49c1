"""Depthwise convolutions: every input channel has its own filters.

In: Conv with as many groups as channels, or with small groups of as many filters as channels. Out:
one call of the kernel `Depthwise`; where a channel has several filters, of a copy of the operand in
which it is repeated.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from rewrite.plan.conv_after import Finish
from rewrite.plan.conv_packing import NUMPY, no_bias, widened
from rewrite.plan.conv_window import Frame
from rewrite.plan.instance import Array, Instance
from rewrite.plan.lowering import Lowering
from rewrite.plan.spec import Body
from rewrite.plan.specs.conv_depthwise import Depthwise
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES, View, channels_last, strides_of

_NEAR = 32 * 1024  # bytes of a window's rows that stay in the first-level cache
_MOST = 64  # columns of a kernel: their code is written out


def width_of(low: Lowering, op: Instance, frame: Frame, index: int, total: str) -> int:
    """Channels of a group, where the kernel computes the convolution; 0 where it does not. `index`:
    of the weights."""
    groups = op.integer("group", 1)
    filters_in_all, width = op.shape(index)[:2]
    flat = frame.sizes[0] == frame.kernel[0] == frame.out[0] == 1
    if groups == 1 or not flat or frame.kernel[2] * width > _MOST:
        return 0
    alike = filters_in_all == groups * width
    return width if width == 1 or (alike and _fills(low, width, total)) else 0


def _fills(low: Lowering, width: int, total: str) -> bool:
    """Whether a vector holds whole groups; larger groups fill a vector by themselves."""
    lanes = low.machine.lanes(total)
    return width < lanes and lanes % width == 0


def packed_filters(w: Array, dtype: str) -> Array:
    """(M, width, …, rows, columns) as [rows][columns][width][M]."""
    flat = w.reshape(*w.shape[:2], -1).transpose(2, 1, 0)
    return np.ascontiguousarray(flat.astype(NUMPY[dtype]))


def filters(low: Lowering, index: int, dtype: str) -> Tensor:
    """Operand `index` as the kernel reads it."""
    if low.is_known(index):
        return low.packed(index, ("depthwise", dtype), lambda w: packed_filters(w, dtype))
    source = low.view(index)
    order = (*range(2, source.view.rank), 1, 0)
    target = low.new(dtype, source.shape, order)
    body = widened(source.dtype, dtype) or Body((dtype,), (), (0,))
    low.pointwise(body, [source], [target])
    return target


def biases(low: Lowering, index: int, count: int, dtype: str) -> Tensor:
    if not low.op.has(index):
        return low.constant(no_bias(count, NUMPY[dtype]))
    if low.is_known(index):
        return low.packed(index, ("bias", dtype), lambda b: b.astype(NUMPY[dtype]))
    source = low.rows(index)
    body = widened(source.dtype, dtype)
    if body is None:
        return source
    target = low.new(dtype, (count,))
    low.pointwise(body, [source], [target])
    return target


def repeated(low: Lowering, x: Tensor, times: int) -> Tensor:
    """Each channel `times` times, in channels-last order."""
    if times == 1:
        return low.ordered(x, channels_last(len(x.shape)))
    n, c, *rest = x.shape
    strides = x.view.strides
    shape = (n, *rest, c, times)
    given = View(x.dtype, shape, (strides[0], *strides[2:], strides[1], 0))
    made = low.new(x.dtype, (n, c * times, *rest), channels_last(len(x.shape)))
    low.copy(x.like(given), made.like(View(x.dtype, shape, strides_of(shape))))
    return made


@lru_cache(maxsize=512)
def filled(dtype: str, number: int) -> Array:
    """A vector of the border's value, for any machine."""
    return np.full(256, number, np.dtype(dtype))


def call_depthwise(
    low: Lowering,
    frame: Frame,
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    finish: Finish,
    out: Tensor,
    total: str,
    border: Tensor,
    width: int,
    shifted: bool = True,
) -> None:
    """`x` and `out` lie in channels-last order and have the same channels. `shifted`: whether the
    elements of `border` are other than 0."""
    images, channels = out.shape[:2]
    if out.view.size == 0:
        return
    _, height, x_width = frame.sizes
    _, out_height, out_width = frame.out
    block = block_of(low, out_width)
    spec = Depthwise(
        x.dtype, total, frame.kernel[2], frame.strides[2], frame.dilations[2], block,
        channels % low.machine.lanes(total), finish.after, width, shifted,
    )  # fmt: skip
    rows_at_once = frame.kernel[1] * frame.dilations[1] * x_width * BYTES[x.dtype]
    lanes = low.machine.lanes(total)
    chunk = max(1, _NEAR // (rows_at_once * lanes)) * lanes
    words: list[Tensor | int] = [x, w, bias, border, *finish.tensors, out]
    words += [height, x_width, channels, frame.kernel[1], frame.strides[1], frame.dilations[1]]
    words += [frame.before[1], frame.before[2], channels, out_height, out_width]
    words += [height * x_width * channels, out_height * out_width * channels]
    words += [chunk, *finish.strides]
    work = out_width * channels * frame.kernel[1] * frame.kernel[2] * width
    rows = images * out_height
    scratch = block * low.machine.lanes(total) * BYTES[total]
    low.call(spec, words, rows, max(1, (1 << 17) // work), scratch, 2 * work * rows)


def block_of(low: Lowering, width: int) -> int:
    """Pixels of a row at once: as many as fit beside the weights and waste least of a row. Few
    choices, so that images of all sizes share their code."""
    choices = (14, 10, 8) if low.machine.registers >= 32 else (5, 4)
    return min(choices, key=lambda b: (-(-width // b) * b * (1 + 0.5 / b), -b))
