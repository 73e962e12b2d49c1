"""Fourier transforms and mel weights. In: `Call`. Out: types."""

from __future__ import annotations

from rewrite.ops import dims
from rewrite.ops.call import Call, Types
from rewrite.ops.registry import op
from rewrite.schema import Dim, Type


@op("DFT", kind="signal")
def dft(call: Call) -> Types:
    """The discrete Fourier transform along an axis, real and imaginary part last"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    result = list(x.shape)
    onesided, inverse = call.integer("onesided", 0) != 0, call.integer("inverse", 0) != 0
    axes = call.integers_of(2) if call.has(2) else ((1,) if call.opset < 20 else (-2,))
    if axes is None:
        return (Type(x.dtype, (*call.unknown(len(result) - 1), call.fresh())),)
    axis = call.axis(axes[0], len(result))
    if call.has(1):
        length = call.sizes_of(1)
        result[axis] = call.fresh() if not length else length[0]
    if onesided and inverse:
        # Half of a spectrum gives a real signal, of even length where none is said.
        if not call.has(1):
            result[axis] = dims.mul(dims.sub(result[axis], 1), 2)
        result[-1] = 1
        return (Type(x.dtype, tuple(result)),)
    if onesided:
        result[axis] = dims.add(dims.floordiv(result[axis], 2), 1)
    result[-1] = 2
    return (Type(x.dtype, tuple(result)),)


@op("STFT", kind="signal")
def stft(call: Call) -> Types:
    """Fourier transforms of frames of the signal"""
    x = call.type(0)
    step = call.sizes_of(1)
    length = _frame_length(call)
    for what, size in (("step", step[0] if step else None), ("length", length)):
        if isinstance(size, int) and size <= 0:
            call.fail(f"frames of the {what} {size}")
    batch: Dim = call.fresh() if x.shape is None else x.shape[0]
    frames: Dim = call.fresh()
    bins: Dim = call.fresh()
    if length is not None:
        # Without the attribute onnx's own inference forgets its default of 1: left open here.
        onesided = call.integer("onesided", -1)
        if onesided >= 0:
            bins = dims.add(dims.floordiv(length, 2), 1) if onesided else length
        if x.shape is not None and step and isinstance(step[0], int) and step[0] > 0:
            frames = dims.add(dims.floordiv(dims.sub(x.shape[1], length), step[0]), 1)
    return (Type(x.dtype, (batch, frames, bins, 2)),)


def _frame_length(call: Call) -> Dim | None:
    if call.has(3):
        found = call.sizes_of(3)
        return found[0] if found else None
    if call.has(2):
        window = call.shape(2)
        return window[0] if window else None
    x = call.shape(0)
    return None if x is None else x[1]


@op("MelWeightMatrix", kind="signal")
def mel_weight_matrix(call: Call) -> Types:
    """Weights from frequencies to mel bins"""
    bins, length = call.sizes_of(0), call.sizes_of(1)
    columns: Dim = call.fresh() if not bins else bins[0]
    rows: Dim = call.fresh()
    if length:
        rows = dims.add(dims.floordiv(length[0], 2), 1)
    return (Type(call.element_type("output_datatype", "f32"), (rows, columns)),)
