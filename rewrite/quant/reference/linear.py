"""Exact values of quantized convolutions and matrix products.

In: `Call`. Out: arrays. Accumulators are sums in int64; codes are requantized from them by the
requantizer of the call, so the same function is the oracle of every target.

    acc = sum (x - zx) (w - zw) + bias        y = saturate(round(acc x_s w_s / y_s) + zy)

Sources: QLinearConv-10, QLinearMatMul-21, ConvInteger-10, MatMulInteger-10; onnxruntime's
ContribOperators for com.microsoft.
"""

from __future__ import annotations

import numpy as np

from rewrite.quant.codes import Array, CodeType, Floats, Ints, storage, store
from rewrite.quant.faults import QuantError
from rewrite.quant.reference.call import Arrays, Call, integer_code, requantized
from rewrite.quant.reference.contraction import convolve, matmul, window
from rewrite.quant.reference.floats import dynamic_quantize, narrowed
from rewrite.quant.requantize import OnnxQdq
from rewrite.quant.rounding import two_product, two_sum


def _codes(
    call: Call, acc: Ints, x_s: Floats, w_s: Floats, y_s: Floats, zero: Array, code: CodeType,
    axis: int,
) -> Array:  # fmt: skip
    """Requantized accumulators; `w_s` has one element, or one per index of `axis`."""
    requantizer = call.arithmetic.requantizer
    zero = call.one(zero, "output zero point")
    if isinstance(requantizer, OnnxQdq):
        return requantized(call, acc, (x_s, _along(w_s, acc.ndim, axis)), y_s, zero, code)
    factor = requantizer.derive_scales(x_s, w_s, y_s)
    low, high = code.low, code.high
    return store(requantizer.apply(acc, factor, int(zero), low, high, axis % acc.ndim), code)


def _along(values: Array, rank: int, axis: int) -> Array:
    if values.size == 1:
        return values.reshape(())
    sizes = [1] * rank
    sizes[axis] = values.size
    return values.reshape(sizes)


def conv_accumulators(call: Call, x: Array, w: Array, zx: Ints, zw: Ints) -> Ints:
    """Convolution of zero-point-free integers; the border is the zero point, which is zero."""
    if x.ndim < 3 or w.ndim != x.ndim:
        raise QuantError(f"{call.name}: operands of rank {x.ndim} and {w.ndim}")
    left = x.astype(np.int64) - call.one(zx, "zero point of x")
    right = w.astype(np.int64) - _along(zw, w.ndim, 0)
    kernel = call.integers("kernel_shape") or list(w.shape[2:])
    if list(w.shape[2:]) != kernel:
        raise QuantError(f"{call.name}: kernel_shape {kernel} for weights {list(w.shape)}")
    shape = window(call, x.shape[2:], kernel)
    return convolve(left, right, shape, call.integer("group", 1))


def conv_integer(call: Call) -> Arrays:
    x, w = call.array(0), call.array(1)
    acc = conv_accumulators(call, x, w, call.zero(2, x), call.zero(3, w))
    return (acc.astype(np.int32),)


def qlinear_conv(call: Call) -> Arrays:
    """Of com.microsoft too: channels_last."""
    x, w, bias = call.array(0), call.array(3), call.optional(8)
    last = call.integer("channels_last", 0) != 0
    x = np.moveaxis(x, -1, 1) if last else x
    integer_code(call, x)
    acc = conv_accumulators(call, x, w, call.zero(2, x), call.zero(5, w))
    if bias is not None:
        acc = acc + _along(bias.astype(np.int64).reshape(-1), acc.ndim, 1)
    code = call.output_code(7)
    zero = call.array(7).astype(np.int64)
    x_s, y_s = call.one(call.scale(1), "scale of x"), call.one(call.scale(6), "scale of y")
    y = _codes(call, acc, x_s, call.scale(4).reshape(-1), y_s, zero, code, 1)
    return (np.moveaxis(y, 1, -1) if last else y,)


# --- matrix products --------------------------------------------------------------------------


def _row_operand(call: Call, values: Array, rank: int) -> Array:
    """Scale or zero point of the left operand: one, per row [M], or [..., M, 1]."""
    if values.size == 1:
        return values.reshape(())
    if values.ndim == 1:
        return values.reshape(-1, 1)
    if values.ndim != rank:
        raise QuantError(f"{call.name}: parameters of rank {values.ndim}")
    return values


def _column_operand(values: Array) -> Array:
    """Of the right operand: one, per column [N], or [..., 1, N]; all broadcast from the right."""
    return values.reshape(()) if values.size == 1 else values


def matmul_accumulators(call: Call, a: Array, b: Array, za: Ints, zb: Ints) -> Ints:
    left = a.astype(np.int64) - _row_operand(call, za, a.ndim)
    right = b.astype(np.int64) - _column_operand(zb)
    return matmul(left, right)


def matmul_integer(call: Call) -> Arrays:
    a, b = call.array(0), call.array(1)
    acc = matmul_accumulators(call, a, b, call.zero(2, a), call.zero(3, b))
    return (acc.astype(np.int32),)


def qlinear_matmul(call: Call) -> Arrays:
    a, b = call.array(0), call.array(3)
    integer_code(call, a)
    acc = matmul_accumulators(call, a, b, call.zero(2, a), call.zero(5, b))
    a_s, b_s, y_s = call.scale(1), call.scale(4), call.one(call.scale(6), "scale of y")
    code, zero = call.output_code(7), call.array(7).astype(np.int64)
    if a_s.size == 1 and b_s.ndim <= 1 and b.ndim > 1:
        return (_codes(call, acc, a_s.reshape(()), b_s.reshape(-1), y_s, zero, code, -1),)
    if not isinstance(call.arithmetic.requantizer, OnnxQdq):
        raise QuantError(f"{call.name}: scales per row")
    scales = (_row_operand(call, a_s, a.ndim), _column_operand(b_s))
    zero = call.one(zero, "output zero point")
    return (requantized(call, acc, scales, y_s, zero, code),)


def qgemm(call: Call) -> Arrays:
    """alpha a_s b_s ((A - za) (B - zb) + C); float32 without an output scale.

    C is an int32 in units of alpha a_s b_s (beta 1).
    """
    a, b, c = call.array(0), call.array(3), call.optional(6)
    za, zb = call.zero(2, a), call.zero(5, b)
    a = a.T if call.integer("transA", 0) else a
    left = a.astype(np.int64) - call.one(za, "zero point of A")
    b = b.T if call.integer("transB", 0) else b
    acc = matmul(left, b.astype(np.int64) - _column_operand(zb))
    acc = acc if c is None else acc + c.astype(np.int64)
    alpha = np.asarray(np.float32(call.number("alpha", 1.0)), np.float64)
    a_s, b_s = call.one(call.scale(1), "scale of A"), call.scale(4).reshape(-1)
    if call.optional(7) is None:
        product, rest = two_product(a_s * b_s, np.broadcast_to(alpha, b_s.shape))
        return (_float_product(acc, product, rest, None, "f32"),)
    zero, code = call.zero(8, call.array(8)), call.output_code(8)
    y_s = call.one(call.scale(7), "scale of y")
    # 48 digits: exact in float64; runtimes that multiply in float32 round it themselves.
    return (_codes(call, acc, alpha * a_s, b_s, y_s, zero, code, -1),)


def matmul_integer_to_float(call: Call) -> Arrays:
    """(A - za) (B - zb) a_s b_s + bias, rounded once to the type of the scales."""
    a, b, bias = call.array(0), call.array(1), call.optional(6)
    acc = matmul_accumulators(call, a, b, call.zero(4, a), call.zero(5, b))
    a_s, b_s = _row_operand(call, call.scale(2), a.ndim), _column_operand(call.scale(3))
    kind = "f16" if call.array(2).dtype == np.float16 else "f32"
    product = a_s * b_s  # 48 digits
    return (_float_product(acc, product, np.zeros(()), bias, kind),)


def dynamic_quantize_matmul(call: Call) -> Arrays:
    """A quantized by its own range to u8, then the product; B's scale may be per column."""
    b, bias = call.array(1), call.optional(4)
    a, a_s, za = dynamic_quantize(call, call.array(0))
    zb = call.zero(3, b)
    acc = matmul(a.astype(np.int64) - int(za), b.astype(np.int64) - _column_operand(zb))
    product = a_s.astype(np.float64) * _column_operand(call.scale(2))
    return (_float_product(acc, product, np.zeros(()), bias, "f32"),)


def _float_product(
    acc: Ints, scale: Floats, scale_rest: Floats, bias: Array | None, kind: str
) -> Array:
    """acc (scale + scale_rest) + bias, rounded once to float32 or float16.

    `scale_rest`, only there with alpha, is below 2^-53 of the scale; its product is rounded.
    """
    wide = acc.astype(np.float64)
    hi, lo = two_product(wide, np.broadcast_to(scale, wide.shape))
    lo = lo + wide * scale_rest
    if bias is not None:
        if not np.isfinite(bias).all():
            raise QuantError("bias is not finite")
        hi, error = two_sum(hi, np.broadcast_to(bias.astype(np.float64), hi.shape))
        lo = error + lo
    return narrowed(hi, lo, storage(kind))
