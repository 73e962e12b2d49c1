"""QuantizeLinear and DequantizeLinear in real numbers, and DynamicQuantizeLinear.

In: `Step`. Out: codes, or exact `Real`s.

    DequantizeLinear    (code - zero point) scale, exactly
    QuantizeLinear      saturate(nearest even integer of x / scale + zero point), exactly
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.step import OracleError, Step, Values, operator
from rewrite.audit.oracle.terms import Index, Term
from rewrite.ops.dtypes import to_numpy
from rewrite.quant.affine import quantize_exact
from rewrite.quant.codes import Array, code_type, values_of
from rewrite.quant.params import quant_params


def axis_index(
    shape: tuple[int, ...], sizes: tuple[int, ...], axis: int, block: int
) -> Index | None:
    """Which element of a scale of shape `sizes` each element of a tensor has; None if the only."""
    count = int(np.prod(sizes, dtype=np.int64))
    rank = len(shape)
    if block and rank == len(sizes):
        axis %= rank
        own = np.arange(count, dtype=np.int32).reshape(sizes)
        found = np.take(own, np.arange(shape[axis]) // block, axis)
        if found.shape != shape:
            raise OracleError(f"a scale of shape {list(sizes)} for blocks of {list(shape)}")
        return found
    if count == 1:
        return None
    if len(sizes) != 1 or not -rank <= axis < rank or shape[axis] != count:
        raise OracleError(f"a scale of shape {list(sizes)} on axis {axis} of {list(shape)}")
    places = [1] * rank
    places[axis] = count
    return np.arange(count, dtype=np.int32).reshape(places)


def scale_term(scale: Array, shape: tuple[int, ...], axis: int, block: int) -> Term:
    """1 times the scale of each element."""
    wide = values_of(scale).reshape(-1)
    if not np.isfinite(wide).all() or not np.all(wide):
        raise OracleError("a scale that is zero, infinite or NaN")
    index = axis_index(shape, scale.shape, axis, block)
    unique, places = np.unique(wide, return_inverse=True)
    table = tuple(Fraction(float(v)) for v in unique)
    if index is None:
        return Term(np.ones((1,) * len(shape)), table, None, 0, 1.0)
    ones = np.ones((1,) * len(shape))
    found = places.astype(np.int32)[index]
    return exact.compact(Term(ones, table, found, 0, 1.0))


def spread_zero(zero: Array | None, shape: tuple[int, ...], axis: int, block: int) -> Array:
    """The zero point of each element, in int64, to broadcast."""
    if zero is None:
        return np.zeros((1,) * len(shape), np.int64)
    flat = zero.astype(np.int64).reshape(-1)
    index = axis_index(shape, zero.shape, axis, block)
    return flat[:1].reshape((1,) * len(shape)) if index is None else np.asarray(flat[index])


def dequantized(
    codes: Array, scale: Array, zero: Array | None, axis: int = 1, block: int = 0, dtype: Any = None
) -> Real:
    """(code - zero point) scale, exact."""
    step = scale_term(scale, codes.shape, axis, block)
    kind = np.dtype(np.float32) if dtype is None else np.dtype(dtype)
    code = code_type(codes.dtype)
    if code is not None and code.kind == "float":
        term = reals.values_as_real(codes).terms[0]
        return Real([Term(term.x, step.table, step.index, term.grid, term.bound)], 0.0, kind)
    steps = codes.astype(np.int64) - spread_zero(zero, codes.shape, axis, block)
    x = steps.astype(np.float64)
    found = Term(x, step.table, step.index, 0, exact.magnitude(x))
    return Real([found], 0.0, kind)


def quantized(
    step: Step, x: Real, scale: Array, zero: Array | None, dtype: Any, axis: int = 1, block: int = 0
) -> Array:
    """The codes of real numbers."""
    code = code_type(np.dtype(dtype))
    if code is None:
        raise OracleError(f"codes of type {np.dtype(dtype).name}")
    if code.kind == "float":
        params = quant_params(code, scale, None, axis if scale.size > 1 else None, block or None)
        return quantize_exact(x.floats, params)
    width = scale_term(scale, x.shape, axis, block)
    zeros = spread_zero(zero, x.shape, axis, block)
    low, high = code.low - int(zeros.max()), code.high - int(zeros.min())
    found = reals.nearest(x, width, low, high, step.notes.doubts)
    if step.notes.steps is not None:
        step.notes.steps[step.key] = np.asarray(x.floats / width.floats() + zeros)
    missing = np.isnan(found)
    if missing.any():
        step.fault("NaN has no code", int(missing.sum()))
        found = np.where(missing, 0.0, found)
    return np.clip(found + zeros, code.low, code.high).astype(np.int64).astype(code.dtype)


@operator("DequantizeLinear")
@operator("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(step: Step) -> Values:
    stated = step.element_type("output_dtype", None)
    scale = step.array(1)
    kind = to_numpy(stated) if stated else scale.dtype
    if scale.dtype.itemsize == 1 and not stated:
        kind = np.dtype(np.float32)
    axis, block = step.integer("axis", 1), step.integer("block_size", 0)
    return (dequantized(step.array(0), scale, step.optional(2), axis, block, kind),)


@operator("QuantizeLinear")
@operator("QuantizeLinear", domain="com.microsoft")
def quantize_linear(step: Step) -> Values:
    zero = step.optional(2)
    stated = step.element_type("output_dtype", None) or "u8"
    dtype = zero.dtype if zero is not None else to_numpy(stated)
    axis, block = step.integer("axis", 1), step.integer("block_size", 0)
    return (quantized(step, step.real(0), step.array(1), zero, dtype, axis, block),)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(step: Step) -> Values:
    """The scale is a float32 number, as the operator gives it out; codes are exact under it."""
    codes, scale, zero = dynamically(step, step.real(0))
    return codes, scale, zero


def dynamically(step: Step, x: Real, told: bool = True) -> tuple[Array, Array, Array]:
    """Codes in u8, scale in float32, zero point in u8.

    An operand of zeros only has no scale in the text of ONNX (0 / 0); it is taken as 1, and noted
    where `told`.
    """
    if x.size == 0 or not np.isfinite(x.floats).all():
        raise OracleError("the range of an operand that is empty, infinite or NaN")
    high = max(0.0, float(x.floats.max()))
    low = min(0.0, float(x.floats.min()))
    scale = np.float32((high - low) / 255.0)
    if scale == 0:
        step.fault("a range of zero has no scale", int(told))
        scale = np.float32(1.0)
    zero = np.uint8(np.clip(np.rint(-low / float(scale)), 0, 255))
    codes = quantized(step, x, np.asarray(scale), np.asarray(zero), np.uint8)
    return codes, np.asarray(scale), np.asarray(zero)
