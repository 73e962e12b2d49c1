"""Operators on codes, by their meaning: DequantizeLinear, the operator, QuantizeLinear.

In: `Step`. Out: codes. The bias of a contraction has the scale x_s w_s, as a rational.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rewrite.audit.oracle import integers, pointwise
from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.contraction import conv, matmul, per_channel, times
from rewrite.audit.oracle.movement import joined
from rewrite.audit.oracle.quantize import dequantized, dynamically, quantized
from rewrite.audit.oracle.real import Real, lift
from rewrite.audit.oracle.reduction import averaged, over_axes
from rewrite.audit.oracle.run_floats import in_floats
from rewrite.audit.oracle.step import OracleError, Step, Values, operator
from rewrite.quant.codes import Array

MS = "com.microsoft"


def taken(step: Step, index: int, axis: int = 1) -> Real:
    """The real numbers of codes, scale and zero point at `index` and after."""
    zero = step.optional(index + 2)
    scale = step.array(index + 1)
    return dequantized(step.array(index), scale, zero, axis, 0, scale.dtype)


def given(step: Step, y: Real, index: int, like: Array) -> Values:
    """Codes with the scale at `index` and the zero point after it."""
    zero = step.optional(index + 1)
    dtype = like.dtype if zero is None else zero.dtype
    return (quantized(step, y, step.array(index), zero, dtype),)


def _bias(step: Step, index: int, x_scale: Array, w_scale: Array) -> Real:
    """s32 codes of scale x_s w_s."""
    codes = step.array(index).astype(np.int64)
    one = np.asarray(1.0, np.float32)
    factor = reals.multiply(lift(x_scale.reshape(())), _vector(w_scale, codes.size))
    return reals.multiply(dequantized(codes, one, None), factor)


def _vector(scale: Array, size: int) -> Real:
    return lift(scale.reshape(()) if scale.size == 1 else scale.reshape(size))


@operator("QLinearConv")
@operator("QLinearConv", domain=MS)
def qlinear_conv(step: Step) -> Values:
    x, w = taken(step, 0), taken(step, 3, axis=0)
    last = step.domain == MS and step.integer("channels_last", 0) != 0
    if last:
        x = x.moved(lambda a: np.moveaxis(a, -1, 1))
    bias = _bias(step, 8, step.array(1), step.array(4)) if step.has(8) else None
    y = conv(step, x, w, None)
    if bias is not None:
        y = reals.add(y, per_channel(bias, y.ndim))
    if last:
        y = y.moved(lambda a: np.moveaxis(a, 1, -1))
    return given(step, y, 6, step.array(0))


@operator("QLinearMatMul")
def qlinear_matmul(step: Step) -> Values:
    a, b = step.array(0), step.array(3)
    left = dequantized(a, step.array(1), step.array(2), a.ndim - 2)
    right = dequantized(b, step.array(4), step.array(5), b.ndim - 1)
    return given(step, matmul(left, right), 6, a)


@operator("QGemm", domain=MS)
def qgemm(step: Step) -> Values:
    a = taken(step, 0)
    b_codes = step.array(3)
    transposed = step.integer("transB", 0) != 0
    b = dequantized(b_codes, step.array(4), step.optional(5), 0 if transposed else 1)
    if step.integer("transA", 0):
        a = a.moved(lambda x: x.T)
    y = matmul(a, b.moved(lambda x: x.T) if transposed else b)
    if step.has(6):
        y = reals.add(y, _bias_rows(step))
    y = times(y, step.float32("alpha", 1.0))
    if not step.has(7):
        return (y,)
    return given(step, y, 7, step.array(0))


def _bias_rows(step: Step) -> Real:
    codes = step.array(6)
    a_scale, b_scale = step.array(1), step.array(4)
    factor = reals.multiply(lift(a_scale.reshape(())), lift(b_scale))
    one = np.asarray(1.0, np.float32)
    return reals.multiply(dequantized(codes, one, None), factor)


@operator("QLinearAdd", "QLinearMul", domain=MS)
def qlinear_binary(step: Step) -> Values:
    a, b = taken(step, 0), taken(step, 3)
    y = reals.add(a, b) if step.op == "QLinearAdd" else reals.multiply(a, b)
    return given(step, y, 6, step.array(0))


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MS)
def qlinear_unary(step: Step) -> Values:
    inner = step.replaced(step.op.removeprefix("QLinear"), (taken(step, 0),), step.attributes)
    found = pointwise.pointwise(inner)
    assert found is not None
    y = found[0]
    assert isinstance(y, Real)
    return given(step, y, 3, step.array(0))


@operator("QLinearSoftmax", domain=MS)
def qlinear_softmax(step: Step) -> Values:
    """Softmax of the opset that the attribute names; before 13 over all axes from `axis` on."""
    x = taken(step, 0)
    inner = step.replaced("Softmax", (x,), {"axis": step.integer("axis", -1)})
    inner.opset = step.integer("opset", 13)
    y = in_floats(inner)[0]
    assert isinstance(y, Real)
    return given(step, y, 3, step.array(0))


@operator("QLinearConcat", domain=MS)
def qlinear_concat(step: Step) -> Values:
    parts = [taken(step, k) for k in range(2, len(step.inputs), 3)]
    return given(step, joined(parts, step.integer("axis", 0)), 0, step.array(2))


@operator("QLinearWhere", domain=MS)
def qlinear_where(step: Step) -> Values:
    y = pointwise.select(step.array(0), taken(step, 1), taken(step, 4))
    return given(step, y, 7, step.array(1))


def _channels_first(step: Step, apply: Callable[[Real], Real]) -> Values:
    x = taken(step, 0)
    if not step.integer("channels_last", 0):
        return given(step, apply(x), 3, step.array(0))
    y = apply(x.moved(lambda a: np.moveaxis(a, -1, 1)))
    return given(step, y.moved(lambda a: np.moveaxis(a, 1, -1)), 3, step.array(0))


@operator("QLinearGlobalAveragePool", domain=MS)
def qlinear_global_average_pool(step: Step) -> Values:
    return _channels_first(step, lambda x: over_axes(x, tuple(range(2, x.ndim)), True, True))


@operator("QLinearAveragePool", domain=MS)
def qlinear_average_pool(step: Step) -> Values:
    return _channels_first(step, lambda x: averaged(step, x))


@operator("QLinearReduceMean", domain=MS)
def qlinear_reduce_mean(step: Step) -> Values:
    x = taken(step, 0)
    axes = step.integers("axes") or tuple(range(x.ndim))
    keep = step.integer("keepdims", 1) != 0
    return given(step, over_axes(x, tuple(a % x.ndim for a in axes), keep, True), 3, step.array(0))


# --- products that stay float -----------------------------------------------------------------


@operator("MatMulIntegerToFloat", domain=MS)
def matmul_integer_to_float(step: Step) -> Values:
    a = _scaled(step.array(0), step.array(2), step.optional(4))
    b = _scaled(step.array(1), step.array(3), step.optional(5))
    return (_with_bias(step, matmul(a, b), 6),)


@operator("DynamicQuantizeMatMul", domain=MS)
def dynamic_quantize_matmul(step: Step) -> Values:
    codes, scale, zero = dynamically(step, step.real(0))
    a = dequantized(codes, scale, zero)
    b = _scaled(step.array(1), step.array(2), step.optional(3))
    return (_with_bias(step, matmul(a, b), 4),)


def _scaled(codes: Array, scale: Array, zero: Array | None) -> Real:
    """Per tensor, or per last index."""
    wide = integers.shifted(codes, zero)
    return reals.multiply(Real(wide.terms, 0.0, np.float32), lift(scale))


def _with_bias(step: Step, y: Real, index: int) -> Real:
    return reals.add(y, step.real(index)) if step.has(index) else y


@operator("MatMulNBits", domain=MS)
def matmul_nbits(step: Step) -> Values:
    """B is N rows of K elements of `bits` bits, low bits first, scaled in blocks along K."""
    n, k = step.integer("N", 0), step.integer("K", 0)
    bits, block = step.integer("bits", 4), step.integer("block_size", 32)
    count = -(-k // block)
    codes = _unpacked(step.array(1).reshape(n, count, -1), bits)[:, :, :block]
    codes = codes.reshape(n, -1)[:, :k]
    scale = step.array(2).reshape(n, count)
    zero = _zero_points(step, n, count, bits)
    if step.has(4):
        raise OracleError("MatMulNBits with reordered groups")
    spread = np.arange(k) // block
    wide = codes - zero[:, spread]
    b = reals.multiply(Real([exact.integers(wide)], 0.0, np.float32), lift(scale[:, spread]))
    return (_with_bias(step, matmul(step.real(0), b.moved(lambda x: x.T)), 5),)


def _unpacked(data: Array, bits: int) -> Array:
    """Elements along the last axis of bytes, low bits first."""
    if 8 % bits:
        raise OracleError(f"elements of {bits} bits")
    shifts = np.arange(0, 8, bits)
    wide = (data.astype(np.int64)[..., None] >> shifts) & ((1 << bits) - 1)
    return np.asarray(wide.reshape(*data.shape[:-1], -1))


def _zero_points(step: Step, n: int, count: int, bits: int) -> Array:
    if not step.has(3):
        return np.full((n, count), 1 << (bits - 1), np.int64)
    given_ = step.array(3)
    if given_.dtype != np.uint8:
        raise OracleError("MatMulNBits with float zero points")
    return _unpacked(given_.reshape(n, -1), bits)[:, :count]
