"""Exact steps around floats: QuantizeLinear, DequantizeLinear, dynamic quantization.

In: `Call`. Out: arrays. Sources: QuantizeLinear-25, DequantizeLinear-25, DynamicQuantizeLinear-11.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.quant.affine import dequantize, dequantize_exact, quantize, quantize_exact
from rewrite.quant.codes import Array, CodeType, Floats, code_type
from rewrite.quant.faults import QuantError
from rewrite.quant.params import QuantParams, faults
from rewrite.quant.reference.call import Arrays, Call
from rewrite.quant.rounding import two_sum
from rewrite.schema import DTYPE_OF


def narrowed(hi: Floats, lo: Floats, kind: np.dtype[Any]) -> Array:
    """hi + lo, rounded once to float32 or narrower.

    First to float64 with round to odd, which keeps what decides the second rounding (Boldo and
    Melquiond 2008).
    """
    total, rest = two_sum(hi, lo)
    even = total.view(np.int64) & 1 == 0
    toward = np.where(rest > 0, np.inf, -np.inf)
    odd = np.where((rest != 0) & even, np.nextafter(total, toward), total)
    with np.errstate(over="ignore"):
        return np.asarray(odd.astype(kind))


def _params(call: Call, code: CodeType, rank: int) -> QuantParams:
    scale = call.array(1)
    zero = call.optional(2)
    block = call.integer("block_size", 0) or None
    axis: int | None = call.integer("axis", 1)
    if block is None and scale.size == 1 and (scale.ndim == 0 or rank < 2):
        axis = None
    elif axis is not None and not -rank <= axis < rank:
        raise QuantError("axis out of range")
    elif axis is not None and rank:
        axis %= rank
    zeros = np.zeros(scale.shape, code.dtype) if zero is None else zero
    return QuantParams(code, scale, zeros, axis, block)


def _checked(params: QuantParams, x: Array) -> QuantParams:
    single = params.block is None and params.scale.size == 1
    if single and params.axis is not None and x.shape[params.axis] != 1:
        params = QuantParams(params.code, params.scale, params.zero_point)  # [1]: per tensor
    found = [f for f in faults(params, x.shape) if f not in ("empty tensor", "denormal scale")]
    if found:
        raise QuantError(*found)
    return params


def quantize_linear(call: Call) -> Arrays:
    """saturate(rint(x / scale) + zero point)"""
    x, zero = call.array(0), call.optional(2)
    number = call.integer("output_dtype", 0)
    code = code_type(zero.dtype if zero is not None else DTYPE_OF.get(number, "u8"))
    if code is None:
        raise QuantError("output is not a type of codes")
    params = _checked(_params(call, code, x.ndim), x)
    if call.arithmetic.exact:
        return (quantize_exact(x, params, call.arithmetic.rounding, call.arithmetic.order),)
    number = call.integer("precision", 0)
    return (quantize(x, params, DTYPE_OF[number] if number else None,
                     call.integer("saturate", 1) != 0),)  # fmt: skip


def dequantize_linear(call: Call) -> Arrays:
    """(x - zero point) scale"""
    codes = call.array(0)
    code = code_type(codes.dtype)
    if code is None:
        raise QuantError(f"codes of type {codes.dtype.name}")
    params = _checked(_params(call, code, codes.ndim), codes)
    if call.arithmetic.exact:
        return (dequantize_exact(codes, params),)
    number = call.integer("output_dtype", 0)
    return (dequantize(codes, params, DTYPE_OF[number] if number else None),)


def dynamic_quantize(call: Call, x: Array) -> tuple[Array, Array, Array]:
    """Codes, scale and zero point in u8 by the range of x and 0, in float32 as the text says.

    scale = (max - min) / 255; zero point = saturate(rint(0 - min / scale)).
    """
    if x.dtype != np.float32:
        raise QuantError(f"dynamic quantization of {x.dtype.name}")
    if not np.isfinite(x).all():
        raise QuantError("dynamic quantization of numbers that are not finite")
    low = np.float32(min(0.0, float(x.min()))) if x.size else np.float32(0)
    high = np.float32(max(0.0, float(x.max()))) if x.size else np.float32(0)
    with np.errstate(over="ignore"):
        scale = np.float32((high - low) / np.float32(255))
    if low == high:
        scale = np.float32(call.arithmetic.zero_scale)
    if scale == 0 or not np.isfinite(scale):
        raise QuantError("range outside of float32 scales")
    zero = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
    code = code_type("u8")
    assert code is not None
    params = QuantParams(code, np.asarray(scale), np.asarray(zero))
    return quantize(x, params), np.asarray(scale), np.asarray(zero)


def dynamic_quantize_linear(call: Call) -> Arrays:
    return dynamic_quantize(call, call.array(0))
