"""ONNX Runtime's own operators (com.microsoft): activations, matrix products, normalizations.

In: `Call` or `Evaluation`. Out: types or arrays. Also SimplifiedLayerNormalization, which ONNX
Runtime registers in ai.onnx. Source of the meanings: the operator texts of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewrite.ops import dims
from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.contraction import contract, gemm_shape, gemm_value, matmul_shape
from rewrite.ops.convolution import conv_shape, conv_value
from rewrite.ops.elementwise import ACTIVATION, gelu_erf, gelu_tanh, logistic
from rewrite.ops.normalization import NORMALIZATION, check_scale, rms, softmax_of, standardize
from rewrite.ops.pooling import pooled_sizes
from rewrite.ops.reduction import SUMMATION
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import Builder, NumpyBuilder, V, pointwise, widen
from rewrite.schema import Dim, Shape, Type

DOMAIN = "com.microsoft"

# --- activations ------------------------------------------------------------------------------


@pointwise("Gelu", domain=DOMAIN, error=ACTIVATION)
def gelu(b: Builder[V], x: V) -> V:
    """x/2 (1 + erf(x / sqrt 2))"""
    return gelu_erf(b, x)


@pointwise("BiasGelu", domain=DOMAIN, error=ACTIVATION, shape="first")
def bias_gelu(b: Builder[V], x: V, bias: V) -> V:
    """Gelu(x + bias)"""
    return gelu_erf(b, b.add(x, bias))


@pointwise("FastGelu", domain=DOMAIN, error=ACTIVATION, shape="first")
def fast_gelu(b: Builder[V], x: V, bias: V | None = None) -> V:
    """The tanh form of Gelu, of x + bias"""
    return gelu_tanh(b, x if bias is None else b.add(x, bias))


@pointwise("QuickGelu", domain=DOMAIN, error=ACTIVATION)
def quick_gelu(b: Builder[V], x: V, *, alpha: float = 1.702) -> V:
    """x / (1 + e^(-alpha x))"""
    return b.mul(x, logistic(b, b.mul(x, alpha)))


@pointwise("BiasAdd", domain=DOMAIN, error=1e-6, shape="first")
def bias_add(b: Builder[V], x: V, bias: V, skip: V) -> V:
    """x + bias + skip"""
    return b.add(b.add(x, bias), skip)


@op("BiasSplitGelu", domain=DOMAIN, kind="normalization")
def bias_split_gelu(call: Call) -> Types:
    """The left half of x + bias times Gelu of the right half"""
    x = call.type(0)
    if x.shape is None:
        return (Type(x.dtype, None),)
    return (Type(x.dtype, (*x.shape[:-1], dims.quotient([x.shape[-1]], [2]))),)


@op("BiasDropout", domain=DOMAIN, kind="random", shape_class="first")
def bias_dropout(call: Call) -> Types:
    """Dropout of x + bias, plus a residual"""
    x = call.type(0)
    return (x, Type("bool", x.shape))


@op("BiasSoftmax", domain=DOMAIN, kind="normalization", shape_class="first")
def bias_softmax(call: Call) -> Types:
    """Softmax of x + bias over the dimensions from an axis on"""
    return (call.type(0),)


@value("BiasSoftmax", domain=DOMAIN, error=ACTIVATION)
def bias_softmax_value(e: Evaluation) -> Arrays | None:
    x, bias = widen(e.array(0), False), widen(e.array(1), False)
    axis = e.integer("axis", 1) % x.ndim
    if not e.integer("is_inner_broadcast", 0) or bias.ndim != x.ndim or x.size == 0:
        return None
    y = softmax_of(x + bias, tuple(range(axis, x.ndim)), log=False)
    return (y.astype(e.array(0).dtype),)


# --- matrix products --------------------------------------------------------------------------


def fused_matmul_order(rank: int, trans: bool, trans_batch: bool) -> list[int]:
    """The dimensions of an operand as (batch..., rows, columns)."""
    if rank < 2:
        return list(range(rank))
    order = [*range(1, rank - 1), 0, rank - 1] if trans_batch else list(range(rank))
    if trans:
        order[-2:] = [order[-1], order[-2]]
    return order


def _turned(call: Call, index: int, side: str) -> Shape | None:
    shape = call.shape(index)
    if shape is None:
        return None
    trans = call.integer(f"trans{side}", 0) != 0
    batch = call.integer(f"transBatch{side}", 0) != 0
    return tuple(shape[i] for i in fused_matmul_order(len(shape), trans, batch))


@op("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul", domain=DOMAIN, kind="contraction")
def fused_matmul(call: Call) -> Types:
    """alpha A B, with either operand transposed"""
    shape = matmul_shape(call, _turned(call, 0, "A"), _turned(call, 1, "B"))
    return (Type(call.dtype_of(0, 1), shape),)


@value("FusedMatMul", "TransposeMatMul", domain=DOMAIN, error=SUMMATION)
def fused_matmul_value(e: Evaluation) -> Arrays:
    sides = []
    for i, side in enumerate("AB"):
        x = e.array(i)
        trans = e.integer(f"trans{side}", 0) != 0
        batch = e.integer(f"transBatch{side}", 0) != 0
        sides.append(np.transpose(x, fused_matmul_order(x.ndim, trans, batch)))
    y = contract(*sides) * e.float32("alpha", 1.0)
    return (y.astype(e.array(0).dtype),)


@op("FusedGemm", domain=DOMAIN, kind="contraction")
def fused_gemm(call: Call) -> Types:
    """Gemm and an activation"""
    a = call.shape_of_rank(0, 2, "the first operand of FusedGemm")
    b = call.shape_of_rank(1, 2, "the second operand of FusedGemm")
    return (Type(call.dtype_of(0, 1, 2), gemm_shape(call, a, b)),)


@op("GemmFastGelu", domain=DOMAIN, kind="contraction")
def gemm_fast_gelu(call: Call) -> Types:
    """FastGelu(X W + bias)"""
    return (Type(call.dtype_of(0, 1), matmul_shape(call, call.shape(0), call.shape(1))),)


_ACTIVATIONS: dict[str, Callable[[Any, Array, list[float]], Array]] = {
    "Relu": lambda b, x, p: b.max(x, 0.0),
    "Tanh": lambda b, x, p: b.tanh(x),
    "Sigmoid": lambda b, x, p: logistic(b, x),
    "LeakyRelu": lambda b, x, p: b.select(b.less(x, 0.0), b.mul(x, p[0]), x),
    "Clip": lambda b, x, p: b.min(b.max(x, p[0]), p[1]),
    "HardSigmoid": lambda b, x, p: b.max(0.0, b.min(1.0, b.add(b.mul(x, p[0]), p[1]))),
}
_BUILDER = NumpyBuilder()


def activated(name: str, x: Array, parameters: list[float]) -> Array | None:
    """The activation named in an attribute of a fused operator."""
    if not name:
        return x
    body = _ACTIVATIONS.get(name)
    if body is None:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(body(_BUILDER, x, parameters)).astype(x.dtype)


@value("FusedGemm", domain=DOMAIN, error=SUMMATION)
def fused_gemm_value(e: Evaluation) -> Arrays | None:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [e.number(name, 0.0) for name in names]
    y = activated(e.text("activation", ""), gemm_value(e)[0], parameters)
    return None if y is None else (y,)


@op("FusedConv", domain=DOMAIN, kind="convolution")
def fused_conv(call: Call) -> Types:
    """Conv, plus a residual, and an activation"""
    return (Type(call.dtype_of(0, 1, 2, 3), conv_shape(call, call.shape(0), call.shape(1))),)


@value("FusedConv", domain=DOMAIN, error=SUMMATION)
def fused_conv_value(e: Evaluation) -> Arrays | None:
    found = conv_value(e)
    residual = e.optional(3)
    if found is None:
        return None
    y = found[0] if residual is None else found[0] + residual
    parameters = [float(p) for p in e.attributes.get("activation_params") or ()]
    y_or_none = activated(e.text("activation", ""), y, parameters)
    return None if y_or_none is None else (y_or_none,)


# --- channels last ----------------------------------------------------------------------------


@op("NhwcConv", "NhwcFusedConv", domain=DOMAIN, kind="convolution")
def nhwc_conv(call: Call) -> Types:
    """Convolution with the channels last"""
    x, w = call.shape(0), call.shape(1)
    dtype = call.dtype_of(0, 1, 2)
    kernel = call.integers("kernel_shape")
    if x is None:
        return (Type(dtype, None if w is None else call.unknown(len(w))),)
    filters: Dim = call.fresh() if w is None else w[0]
    spatial = call.unknown(len(x) - 2)
    if kernel is not None:
        spatial = tuple(pooled_sizes(call, kernel, x[1:-1]))
    return (Type(dtype, (x[0], *spatial, filters)),)


@op("NhwcMaxPool", domain=DOMAIN, kind="pooling")
def nhwc_max_pool(call: Call) -> Types:
    """The largest element of each window, channels last"""
    x = call.type(0)
    kernel = call.integers("kernel_shape") or ()
    if x.shape is None:
        return (Type(x.dtype, call.unknown(2 + len(kernel))),)
    return (Type(x.dtype, (x.shape[0], *pooled_sizes(call, kernel, x.shape[1:-1]), x.shape[-1])),)


# --- normalizations ---------------------------------------------------------------------------


@op("SkipLayerNormalization", domain=DOMAIN, kind="normalization", shape_class="first")
def skip_layer_normalization(call: Call) -> Types:
    """LayerNormalization of x + skip + bias, and that sum"""
    return _skip_types(call, (2, 3, 4))


@op("SkipSimplifiedLayerNormalization", domain=DOMAIN, kind="normalization", shape_class="first")
def skip_simplified_layer_normalization(call: Call) -> Types:
    """Root mean square normalization of x + skip + bias, and that sum"""
    return _skip_types(call, (2, 3))


def _skip_types(call: Call, vectors: tuple[int, ...]) -> Types:
    x = call.type(0)
    if x.shape is None:
        return (x, Type("f32", None), Type("f32", None), x)
    for i in vectors:
        length = call.shape_of_rank(i, 1, "a vector of the normalization")
        if length is not None:
            dims.same_dim(length[0], x.shape[-1])
    statistics = Type("f32", (*x.shape[:-1], 1))
    return (x, statistics, statistics, x)


def _skip_sum(e: Evaluation, bias: int) -> Array:
    total = widen(e.array(0), False) + widen(e.array(1), False)
    extra = e.optional(bias)
    return total if extra is None else total + widen(extra, False)


@value("SkipLayerNormalization", domain=DOMAIN, error=NORMALIZATION)
def skip_layer_normalization_value(e: Evaluation) -> Arrays | None:
    total, beta = _skip_sum(e, 4), e.optional(3)
    if total.size == 0:
        return None
    epsilon = e.float32("epsilon", 1e-12)
    y = standardize(total, (total.ndim - 1,), epsilon) * widen(e.array(2), False)
    y = y if beta is None else y + widen(beta, False)
    return _skip_outputs(e, y, total)


@value("SkipSimplifiedLayerNormalization", domain=DOMAIN, error=NORMALIZATION)
def skip_simplified_layer_normalization_value(e: Evaluation) -> Arrays | None:
    total = _skip_sum(e, 3)
    if total.size == 0:
        return None
    epsilon = e.float32("epsilon", 1e-12)
    y = rms(total, (total.ndim - 1,), epsilon) * widen(e.array(2), False)
    return _skip_outputs(e, y, total)


def _skip_outputs(e: Evaluation, y: Array, total: Array) -> Arrays:
    dtype = e.array(0).dtype
    empty = np.zeros(0, np.float32)  # mean and deviation, which inference kernels leave out
    outputs = (y.astype(dtype), empty, empty, total.astype(dtype))
    return outputs[:1] if e.n_outputs == 1 else outputs


@op("SimplifiedLayerNormalization", kind="normalization", shape_class="first")
def simplified_layer_normalization(call: Call) -> Types:
    """x / sqrt(mean(x^2) + epsilon) scale, over the dimensions from an axis on"""
    x, dtype = call.type(0), call.type(1).dtype
    if x.shape is None:
        return (Type(dtype, None), Type("f32", None))
    axis = call.axis(call.integer("axis", -1), len(x.shape))
    check_scale(call, x.shape, (1,))
    statistics = x.shape[:axis] + (1,) * (len(x.shape) - axis)
    return (Type(dtype, x.shape), Type("f32", statistics))


@value("SimplifiedLayerNormalization", error=NORMALIZATION)
def simplified_layer_normalization_value(e: Evaluation) -> Arrays | None:
    x, scale = e.array(0), e.array(1)
    if x.size == 0 or e.n_outputs > 1:
        return None
    axes = tuple(range(e.integer("axis", -1) % x.ndim, x.ndim))
    epsilon = e.float32("epsilon", 1e-5)
    y = rms(widen(x, False), axes, epsilon) * widen(scale, False)
    return (y.astype(scale.dtype),)


@op("BranchwiseRMSNorm", domain=DOMAIN, kind="normalization", shape_class="first")
def branchwise_rms_norm(call: Call) -> Types:
    """Root mean square normalization of each of the branches that the last dimension holds"""
    return (call.type(0),)


@op("GroupNorm", "SkipGroupNorm", domain=DOMAIN, kind="normalization", shape_class="first")
def group_norm(call: Call) -> Types:
    """Group normalization and an activation; of the sum with a skip, and that sum"""
    x = call.type(0)
    return (x, x)


@op("EmbedLayerNormalization", domain=DOMAIN, kind="normalization")
def embed_layer_normalization(call: Call) -> Types:
    """LayerNormalization of the sum of word, position and segment embeddings"""
    ids = call.shape_of_rank(0, 2, "the ids")
    words = call.shape_of_rank(2, 2, "the word embedding")
    batch, sequence = call.unknown(2) if ids is None else ids
    hidden: Dim = call.fresh() if words is None else words[1]
    embedded = Type(call.dtype_of(2, 3, 5, 6), (batch, sequence, hidden))
    return (embedded, Type(call.type(0).dtype, (batch,)), embedded)


# --- others -----------------------------------------------------------------------------------


@op("Rfft", domain=DOMAIN, kind="signal")
def rfft(call: Call) -> Types:
    """The one-sided Fourier transform of the last dimension"""
    x = call.type(0)
    if x.shape is None or call.integer("signal_ndim", 1) != 1:
        return (Type(x.dtype, None),)
    bins = dims.add(dims.floordiv(x.shape[-1], 2), 1)
    return (Type(x.dtype, (*x.shape[:-1], bins, 2)),)


@op("Irfft", domain=DOMAIN, kind="signal")
def irfft(call: Call) -> Types:
    """The inverse of the one-sided Fourier transform"""
    x = call.type(0)
    if x.shape is None or len(x.shape) < 2 or call.integer("signal_ndim", 1) != 1:
        return (Type(x.dtype, None),)
    return (Type(x.dtype, (*x.shape[:-2], dims.mul(dims.sub(x.shape[-2], 1), 2))),)


@op("Inverse", domain=DOMAIN, kind="contraction", shape_class="first")
def inverse(call: Call) -> Types:
    """The inverse of each matrix"""
    return (call.type(0),)


@op("ExpandDims", domain=DOMAIN, kind="movement")
def expand_dims(call: Call) -> Types:
    """A dimension of size 1 inserted"""
    x, place = call.type(0), call.integers_of(1)
    if x.shape is None:
        return (Type(x.dtype, None),)
    if not place:
        return (Type(x.dtype, call.unknown(len(x.shape) + 1)),)
    axis = call.axis(place[0], len(x.shape) + 1)
    return (Type(x.dtype, (*x.shape[:axis], 1, *x.shape[axis:])),)


@op("Trilu", domain=DOMAIN, kind="movement", shape_class="first")
def trilu(call: Call) -> Types:
    """The upper or lower triangle of each matrix"""
    return (call.type(0),)
