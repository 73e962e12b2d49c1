"""ONNX Runtime's own quantized operators (com.microsoft).

In: `Call`. Out: types. None has a reference value: x86 and Arm kernels round differently
(QLinearAdd by a step), so a single answer would be wrong on one of them.
"""

from __future__ import annotations

from rewrite.ops import dims
from rewrite.ops.call import Call, Types
from rewrite.ops.contraction import gemm_shape, matmul_shape
from rewrite.ops.convolution import conv_shape
from rewrite.ops.microsoft import DOMAIN
from rewrite.ops.movement import joined
from rewrite.ops.pooling import pooled_sizes
from rewrite.ops.quantize import check_scale
from rewrite.ops.reduction import reduced
from rewrite.ops.registry import op
from rewrite.schema import Dim, Shape, Type


def _broadcast(call: Call, *indices: int) -> Shape | None:
    result: Shape = ()
    for i in indices:
        shape = call.shape(i)
        if shape is None:
            return None
        result = dims.broadcast(result, shape)
    return result


@op("QLinearAdd", "QLinearMul", domain=DOMAIN, kind="quantize")
def qlinear_binary(call: Call) -> Types:
    """A sum or product of quantized operands, requantized"""
    return (Type(call.dtype_of(0, 3), _broadcast(call, 0, 3)),)


@op(
    "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax",
    domain=DOMAIN, kind="quantize", shape_class="first",
)  # fmt: skip
def qlinear_unary(call: Call) -> Types:
    """An activation of a quantized operand, requantized"""
    return (call.type(0),)


@op("QLinearWhere", domain=DOMAIN, kind="quantize")
def qlinear_where(call: Call) -> Types:
    """One of two quantized operands, requantized"""
    return (Type(call.dtype_of(1, 4), _broadcast(call, 0, 1, 4)),)


@op("QLinearConcat", domain=DOMAIN, kind="quantize")
def qlinear_concat(call: Call) -> Types:
    """Quantized operands one after another, requantized; scale and zero point follow each"""
    shapes = [call.shape(i) for i in range(2, len(call.inputs), 3)]
    return (Type(call.type(1).dtype, joined(call, shapes, call.integer("axis", 0))),)


@op("QLinearReduceMean", domain=DOMAIN, kind="quantize")
def qlinear_reduce_mean(call: Call) -> Types:
    """The mean over axes of a quantized operand, requantized"""
    x, axes = call.type(0), call.integers("axes")
    if x.shape is None or axes is None:
        return (Type(x.dtype, None),)
    keep = call.integer("keepdims", 1) != 0
    return (Type(x.dtype, reduced(x.shape, call.axes(axes, len(x.shape)), keep)),)


@op("QLinearAveragePool", domain=DOMAIN, kind="quantize")
def qlinear_average_pool(call: Call) -> Types:
    """The mean of each window of a quantized operand, requantized"""
    x = call.type(0)
    kernel = call.integers("kernel_shape") or ()
    if x.shape is None:
        return (Type(x.dtype, call.unknown(2 + len(kernel))),)
    if call.integer("channels_last", 0):
        sizes = pooled_sizes(call, kernel, x.shape[1:-1])
        return (Type(x.dtype, (x.shape[0], *sizes, x.shape[-1])),)
    return (Type(x.dtype, (*x.shape[:2], *pooled_sizes(call, kernel, x.shape[2:]))),)


@op("QLinearGlobalAveragePool", domain=DOMAIN, kind="quantize")
def qlinear_global_average_pool(call: Call) -> Types:
    """The mean over all spatial dimensions of a quantized operand, requantized"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    ones = (1,) * (len(x.shape) - 2)
    if call.integer("channels_last", 0):
        return (Type(x.dtype, (x.shape[0], *ones, x.shape[-1])),)
    return (Type(x.dtype, (*x.shape[:2], *ones)),)


@op("QLinearConv", domain=DOMAIN, kind="quantize")
def qlinear_conv(call: Call) -> Types:
    """Convolution of quantized operands, requantized; the channels may be last"""
    x, w, dtype = call.shape(0), call.shape(3), call.type(7).dtype
    if not call.integer("channels_last", 0) or x is None:
        return (Type(dtype, conv_shape(call, x, w)),)
    shape = conv_shape(call, (x[0], x[-1], *x[1:-1]), w)
    return (Type(dtype, None if shape is None else (shape[0], *shape[2:], shape[1])),)


# --- matrix products --------------------------------------------------------------------------


@op("QGemm", domain=DOMAIN, kind="quantize")
def qgemm(call: Call) -> Types:
    """Gemm of quantized operands; the output is float without an output scale"""
    a = call.shape_of_rank(0, 2, "the first operand of QGemm")
    b = call.shape_of_rank(3, 2, "the second operand of QGemm")
    dtype = call.type(8).dtype if call.has(8) else "f32"
    return (Type(dtype, gemm_shape(call, a, b)),)


@op("MatMulIntegerToFloat", domain=DOMAIN, kind="contraction")
def matmul_integer_to_float(call: Call) -> Types:
    """The product of integer matrices, scaled"""
    return (Type(call.dtype_of(2, 3), matmul_shape(call, call.shape(0), call.shape(1))),)


@op("DynamicQuantizeMatMul", domain=DOMAIN, kind="contraction")
def dynamic_quantize_matmul(call: Call) -> Types:
    """The product of a matrix, quantized by its range, with an integer matrix"""
    return (Type(call.dtype_of(0, 2), matmul_shape(call, call.shape(0), call.shape(1))),)


@op("MatMulInteger16", domain=DOMAIN, kind="contraction")
def matmul_integer16(call: Call) -> Types:
    """The product of 16-bit integer matrices"""
    return (Type(None, matmul_shape(call, call.shape(0), call.shape(1))),)


@op("MatMulNBits", domain=DOMAIN, kind="contraction")
def matmul_nbits(call: Call) -> Types:
    """The product with a matrix of few bits per element, scaled in blocks"""
    a = call.type(0)
    dtype = call.dtype_of(0, 2)
    if a.shape is None:
        return (Type(dtype, None),)
    dims.same_dim(a.shape[-1], call.integer("K", 0))
    return (Type(dtype, (*a.shape[:-1], call.integer("N", 0))),)


@op("GatherBlockQuantized", domain=DOMAIN, kind="indexing")
def gather_block_quantized(call: Call) -> Types:
    """Rows of a table quantized in blocks, dequantized"""
    data, indices = call.type(0), call.shape(1)
    dtype = call.type(2).dtype
    if data.shape is None or indices is None or data.dtype is None:
        return (Type(dtype, None),)
    axis = call.axis(call.integer("gather_axis", 0), len(data.shape))
    table = list(data.shape)
    if data.dtype == "u8":  # several elements in a byte of the last dimension
        table[-1] = dims.mul(table[-1], 8 // call.integer("bits", 4))
    return (Type(dtype, (*table[:axis], *indices, *table[axis + 1 :])),)


# --- conversions ------------------------------------------------------------------------------


@op("QuantizeLinear", domain=DOMAIN, kind="quantize", shape_class="first")
def quantize_linear(call: Call) -> Types:
    """saturate(rint(x / scale) + zero point)"""
    x = call.type(0)
    check_scale(call, x.shape, 1, call.integer("axis", 1))
    return (Type(call.type(2).dtype if call.has(2) else "u8", x.shape),)


@op("DequantizeLinear", domain=DOMAIN, kind="quantize", shape_class="first")
def dequantize_linear(call: Call) -> Types:
    """(x - zero point) scale"""
    x = call.type(0)
    check_scale(call, x.shape, 1, call.integer("axis", 1))
    return (Type(call.type(1).dtype, x.shape),)


@op("DynamicQuantizeLSTM", domain=DOMAIN, kind="recurrent")
def dynamic_quantize_lstm(call: Call) -> Types:
    """LSTM with quantized weights"""
    dtype = call.dtype_of(0, 3)
    x = call.shape_of_rank(0, 3, "the operand of a recurrent layer")
    sequence, batch = call.unknown(2) if x is None else x[:2]
    directions = 2 if call.text("direction", "forward") == "bidirectional" else 1
    hidden: Dim = call.integer("hidden_size", 0) or call.fresh()
    last = Type(dtype, (directions, batch, hidden))
    return (Type(dtype, (sequence, directions, batch, hidden)), last, last)
