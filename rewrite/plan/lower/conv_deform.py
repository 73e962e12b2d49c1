"""Deformable convolutions: samples of the operand, then a product with the weights.

In: DeformConv over two dimensions. Out: the kernels `DeformSample` and `Conv`.
"""

from __future__ import annotations

from rewrite.plan.conv_after import finish_of
from rewrite.plan.conv_dense import Dense, Products, call_conv, columns_for
from rewrite.plan.conv_packing import Panels, bias, weights
from rewrite.plan.conv_source import Source
from rewrite.plan.conv_window import Windows, frame_of, offsets, starts
from rewrite.plan.instance import Instance
from rewrite.plan.lower.conv import FLOATS, spatial_refusal
from rewrite.plan.lowering import Lowering, channels_last, lowers, refuses
from rewrite.plan.specs.conv_deform import DeformSample
from rewrite.plan.tensor import Tensor


@refuses("DeformConv")
def deform_conv_refusal(op: Instance) -> str | None:
    if op.dtype(0) not in FLOATS:
        return f"a convolution of {op.dtype(0)}"
    if len(op.shape(0)) != 4:
        return f"displaced windows over {len(op.shape(0)) - 2} dimensions"
    return spatial_refusal(op, 1)


@lowers("DeformConv", epilogue=True)
def deform_conv(low: Lowering, op: Instance) -> None:
    dtype = op.dtype(0)
    total = FLOATS[dtype]
    frame = frame_of(op, op.shape(1)[2:])
    images, channels = op.shape(0)[:2]
    groups = op.integer("group", 1)
    filters = op.shape(1)[0] // groups
    out = low.output(0, channels_last(4))
    x = low.ordered(low.view(0), channels_last(4))
    samples = low.new(total, (images, frame.pixels, frame.taps, channels))
    masked = op.has(4)
    where = low.rows(2)
    words: list[Tensor | int] = [x, where, low.rows(4) if masked else where, samples]
    words += [*frame.sizes[1:], channels, *frame.out[1:], *frame.strides[1:], *frame.kernel[1:]]
    words += [*frame.dilations[1:], *frame.before[1:], op.integer("offset_group", 1)]
    items = images * frame.pixels
    flops = 8 * items * frame.taps * channels
    grain = max(1, 4096 // (frame.taps * channels))
    low.call(DeformSample(dtype, total, masked), words, items, grain, 0, flops)

    step = frame.taps * channels
    source = Source(samples, (1, frame.pixels, frame.taps), channels)
    run = step if groups == 1 else channels // groups
    taps = (1, 1, 1) if groups == 1 else (1, 1, frame.taps)
    windows = Windows(
        starts((1, 1, frame.pixels), (0, 0, step)), offsets(taps, (0, 0, channels)), run
    )
    panels = Panels(groups, filters, columns_for(low.machine, total, groups, filters, run))
    call_conv(low, Dense(
        Products("plain", total, total, total), source, windows, panels,
        weights(low, 1, panels, total, None, None), bias(low, 3, panels, total),
        finish_of(low, total), out,
    ))  # fmt: skip
