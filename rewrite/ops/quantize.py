"""Quantization operators of ai.onnx.

In: `Call` or `Evaluation`. Out: types or arrays.

    QuantizeLinear    y = saturate(rint(x / scale) + zero point)     rint first, then the zero point
    DequantizeLinear  y = (x - zero point) scale

Where the standard leaves the precision of a step open (float16 scales), a value is given only if
float16 and float32 arithmetic agree on it. NaN and codes of QLinear operators have no value here:
runtimes round them differently.
"""

from __future__ import annotations

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.cast import convert, is_float
from rewrite.ops.contraction import matmul_shape
from rewrite.ops.convolution import conv_shape
from rewrite.ops.dtypes import integer_range, of_numpy, to_numpy
from rewrite.ops.registry import op, value
from rewrite.schema import Shape, Type


def check_scale(call: Call, x: Shape | None, scale: int, axis: int) -> None:
    """Per tensor, per axis, or blocked: the scale has to fit the operand."""
    shape = call.shape(scale)
    zero = call.shape(scale + 1)
    if shape is None or x is None or call.integer("block_size", 0):
        return
    if zero is not None and len(zero) != len(shape) and zero not in ((), (1,)):
        call.fail(f"a zero point of shape {zero} with a scale of shape {shape}")
    if len(shape) > 1:
        call.fail(f"a scale of rank {len(shape)} without blocks")
    if len(shape) == 1 and shape[0] != 1 and len(x) > 1:
        dims.same_dim(shape[0], x[call.axis(axis, len(x))])


@op("QuantizeLinear", kind="quantize", shape_class="first")
def quantize_linear(call: Call) -> Types:
    """saturate(rint(x / scale) + zero point)"""
    x = call.type(0)
    check_scale(call, x.shape, 1, call.integer("axis", 1))
    if call.has(2):
        dtype = call.type(2).dtype
        stated = call.element_type("output_dtype", None)
        if stated is not None and dtype is not None and stated != dtype:
            call.fail(f"a zero point of type {dtype} for an output of type {stated}")
        return (Type(dtype or stated, x.shape),)
    return (Type(call.element_type("output_dtype", "u8"), x.shape),)


@op("DequantizeLinear", kind="quantize", shape_class="first")
def dequantize_linear(call: Call) -> Types:
    """(x - zero point) scale"""
    x = call.type(0)
    check_scale(call, x.shape, 1, call.integer("axis", 1))
    default = call.type(1).dtype if call.opset >= 19 else "f32"
    return (Type(call.element_type("output_dtype", default), x.shape),)


@op("DynamicQuantizeLinear", kind="quantize")
def dynamic_quantize_linear(call: Call) -> Types:
    """Quantization to 8 bits by the range that the operand has"""
    return (Type("u8", call.shape(0)), Type("f32", ()), Type("u8", ()))


@op("MatMulInteger", kind="contraction")
def matmul_integer(call: Call) -> Types:
    """The matrix product of integers, zero points taken off"""
    return (Type("s32", matmul_shape(call, call.shape(0), call.shape(1))),)


@op("QLinearMatMul", kind="contraction")
def qlinear_matmul(call: Call) -> Types:
    """The matrix product of quantized operands, requantized"""
    return (Type(call.type(7).dtype, matmul_shape(call, call.shape(0), call.shape(3))),)


@op("QLinearConv", kind="convolution")
def qlinear_conv(call: Call) -> Types:
    """Convolution of quantized operands, requantized"""
    return (Type(call.type(7).dtype, conv_shape(call, call.shape(0), call.shape(3))),)


# --- values -----------------------------------------------------------------------------------


def spread(e: Evaluation, v: Array, x: Array) -> Array | None:
    """Scale or zero point in a shape that broadcasts with the operand; None where unclear."""
    block = e.integer("block_size", 0)
    axis = e.integer("axis", 1)
    if block:
        axis = axis % x.ndim
        repeated = np.repeat(v, block, axis)
        return np.take(repeated, np.arange(x.shape[axis]), axis)
    if v.size == 1:
        return v.reshape(())
    if v.ndim != 1 or x.ndim < 2:
        return None
    shape = [1] * x.ndim
    shape[axis] = v.size
    return v.reshape(shape)


@value("QuantizeLinear")
def quantize_linear_value(e: Evaluation) -> Arrays | None:
    x, zero = e.array(0), e.optional(2)
    scale = spread(e, e.array(1), x)
    target = of_numpy(zero.dtype) if zero is not None else e.element_type("output_dtype", "u8")
    offset = None if zero is None else spread(e, zero, x)
    if scale is None or target is None or (zero is not None and offset is None):
        return None
    with np.errstate(all="ignore"):
        ratio = _ratio(e, x, scale)
        if ratio is None or np.isnan(ratio).any():
            return None
        if is_float(target):
            shift = 0.0 if offset is None else offset.astype(np.float32)
            found = convert(ratio + shift, target, e.integer("saturate", 1) != 0)
            return None if found is None else (found,)
        low, high = integer_range(target)
        steps = np.rint(ratio.astype(np.float64))
        shifted = steps + (0 if offset is None else offset.astype(np.float64))
        return (np.clip(shifted, low, high).astype(np.int64).astype(to_numpy(target)),)


def _ratio(e: Evaluation, x: Array, scale: Array) -> Array | None:
    """x / scale, rounded to the type of the division."""
    name = e.element_type("precision", None) or of_numpy(scale.dtype)
    if x.dtype.kind == "i" and np.any(np.abs(x.astype(np.int64)) > 1 << 24):
        return None
    wide = x.astype(np.float32) / scale.astype(np.float32)
    if name == "f32":
        return wide
    if name not in ("f16", "bf16"):
        return None
    # One text divides in the scale's type, runtimes in float32.
    narrow = wide.astype(to_numpy(name)).astype(np.float32)
    return wide if np.array_equal(np.rint(narrow), np.rint(wide)) else None


@value("DequantizeLinear")
def dequantize_linear_value(e: Evaluation) -> Arrays | None:
    x, zero = e.array(0), e.optional(2)
    scale = spread(e, e.array(1), x)
    offset = None if zero is None else spread(e, zero, x)
    if scale is None or (zero is not None and offset is None):
        return None
    name = of_numpy(scale.dtype)
    target = e.element_type("output_dtype", None) or name
    wide = convert(x, "f32") if is_float(of_numpy(x.dtype) or "") else x.astype(np.int64)
    if wide is None or target is None or name not in ("f32", "f16", "bf16"):
        return None
    codes = wide if offset is None else wide - offset.astype(wide.dtype)
    exact_up_to = {"f32": np.inf, "f16": 2048, "bf16": 256}[target if target != "f32" else name]
    if target not in (name, "f32") or np.any(np.abs(codes) > exact_up_to):
        return None
    with np.errstate(all="ignore"):
        product = codes.astype(np.float32) * scale.astype(np.float32)
        return (product.astype(to_numpy(target)),)


@value("DynamicQuantizeLinear")
def dynamic_quantize_linear_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    if x.size == 0 or not np.isfinite(x).all() or not np.any(x):
        return None  # of an all-zero operand runtimes give different scales
    high = np.maximum(np.float32(0), np.max(x))
    low = np.minimum(np.float32(0), np.min(x))
    scale = np.float32((high - low) / np.float32(255))
    if not np.isfinite(scale) or scale < np.finfo(np.float32).tiny:
        return None
    zero = np.clip(np.rint(-low / scale), 0, 255)
    y = np.clip(np.rint(x / scale) + zero, 0, 255)
    return (y.astype(np.uint8), np.asarray(scale), np.asarray(zero).astype(np.uint8))


@value("MatMulInteger")
def matmul_integer_value(e: Evaluation) -> Arrays:
    a, b = e.array(0).astype(np.int64), e.array(1).astype(np.int64)
    a_zero, b_zero = e.optional(2), e.optional(3)
    if a_zero is not None:
        per_row = a_zero.ndim == 1 and a_zero.size > 1
        shift = a_zero.astype(np.int64)
        a = a - (
            shift.reshape(-1, 1) if per_row else shift.reshape(()) if shift.size == 1 else shift
        )
    if b_zero is not None:
        shift = b_zero.astype(np.int64)
        b = b - (shift.reshape(()) if shift.size == 1 else shift)
    return (np.asarray(np.matmul(a, b)).astype(np.int32),)
