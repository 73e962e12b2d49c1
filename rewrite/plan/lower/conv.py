"""Convolutions of floats.

In: Conv. Out: kernels over channels-last tensors: windows times panels of weights, or where every
channel has its own filter, the depthwise kernel.
"""

from __future__ import annotations

import numpy as np

from rewrite.plan.conv_after import finish_of
from rewrite.plan.conv_dense import Dense, Products, call_conv, columns_for
from rewrite.plan.conv_depthwise import (
    biases,
    call_depthwise,
    filled,
    filters,
    repeated,
    width_of,
)
from rewrite.plan.conv_packing import NUMPY, Panels, bias, weights, widened
from rewrite.plan.conv_source import Conversion, source_of
from rewrite.plan.conv_window import Frame, frame_of, has_two_or_three, windows_of
from rewrite.plan.conv_winograd import Filtering, Operands, call_winograd
from rewrite.plan.conv_winograd_choice import Layer, chosen
from rewrite.plan.conv_winograd_weights import are_finite, transformed
from rewrite.plan.instance import Instance
from rewrite.plan.lowering import Lowering, channels_last, lowers, refuses
from rewrite.plan.view import BYTES

FLOATS = {"f32": "f32", "f64": "f64", "f16": "f32", "bf16": "f32"}  # to what sums are made in


@refuses("Conv")
def conv_refusal(op: Instance) -> str | None:
    if op.dtype(0) not in FLOATS:
        return f"a convolution of {op.dtype(0)}"
    return spatial_refusal(op, 1)


def spatial_refusal(op: Instance, weights: int) -> str | None:
    """What no kernel of a sliding window does; `weights`: which operand they are."""
    if not has_two_or_three(op):
        return f"a window over {len(op.shape(0)) - 2} dimensions"
    if min(op.integers("pads") or (0,)) < 0:
        return "a negative border"
    return empty_refusal(op, weights)


def empty_refusal(op: Instance, weights: int) -> str | None:
    """No filters, filters of no channel, or kernels of no element: nothing to pack."""
    return "weights without elements" if 0 in op.shape(weights) else None


@lowers("Conv", epilogue=True)
def conv(low: Lowering, op: Instance) -> None:
    frame = frame_of(op, op.shape(1)[2:])
    width = width_of(low, op, frame, 1, FLOATS[op.dtype(0)])
    if width:
        depthwise(low, op, frame, width)
    elif (how := _filtering(low, op, frame)) is not None:
        filtered(low, op, frame, how)
    else:
        dense(low, op, frame)


def depthwise(low: Lowering, op: Instance, frame: Frame, width: int) -> None:
    """One filter or several for every channel, or as many as channels for small groups."""
    dtype = op.dtype(0)
    total = FLOATS[dtype]
    filters_in_all = op.shape(1)[0]
    out = low.output(0, channels_last(len(op.shape(0))))
    x = repeated(low, low.view(0), filters_in_all // op.shape(0)[1])
    border = low.constant(filled("uint16" if BYTES[dtype] == 2 else NUMPY[dtype], 0))
    call_depthwise(
        low, frame, x, filters(low, 1, total), biases(low, 2, filters_in_all, total),
        finish_of(low, total), out, total, border, width,
    )  # fmt: skip


def _filtering(low: Lowering, op: Instance, frame: Frame) -> Filtering | None:
    """Fewer multiplications, where they pay; by larger tiles only where larger errors may be."""
    content = op.content(1)
    if content is None or op.dtype(0) != "f32":
        return None
    images = op.shape(0)[0]
    channels, depth = op.shape(1)[:2]
    layer = Layer(frame, op.integer("group", 1), images, depth, channels, "f32", "plain", 1)
    how = chosen(low.machine, layer, (2, 4) if low.fast_math else (2,))
    if how is None:
        return None
    finite = low.weights.packed(content, "finite", lambda w: np.asarray(are_finite(w)))
    return how if finite else None


def filtered(low: Lowering, op: Instance, frame: Frame, how: Filtering) -> None:
    """By Winograd's algorithm."""
    order = channels_last(len(op.shape(0)))
    x, out = low.ordered(low.view(0), order), low.output(0, order)
    w = low.packed(1, ("winograd", how), lambda w: transformed(how.panels, how.edge, w))
    given = Operands(x, 0, w, bias(low, 2, how.panels, "f32"))
    call_winograd(low, how, frame, given, finish_of(low, "f32"), out)


def dense(low: Lowering, op: Instance, frame: Frame) -> None:
    """Sums over all input channels of a group."""
    dtype = op.dtype(0)
    total = FLOATS[dtype]
    groups = op.integer("group", 1)
    channels = op.shape(1)[0] // groups
    run = op.shape(1)[1] * (frame.kernel[2] if groups == 1 and frame.dilations[2] == 1 else 1)
    panels = Panels(groups, channels, columns_for(low.machine, total, groups, channels, run))
    out = low.output(0, channels_last(len(op.shape(0))))
    source = source_of(low, low.view(0), frame, Conversion(total, widened(dtype, total)))
    finish = finish_of(low, total)
    call_conv(low, Dense(
        Products("plain", total, total, total), source,
        windows_of(frame, source.sizes, source.channels, groups), panels,
        weights(low, 1, panels, total, None, None), bias(low, 2, panels, total), finish, out,
    ))  # fmt: skip
