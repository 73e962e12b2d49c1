"""Normalizations and softmax.

In: `Call` or `Evaluation`. Out: types or arrays. Values are computed in float64 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.dtypes import to_numpy
from rewrite.ops.elementwise import ACTIVATION
from rewrite.ops.reduction import SUMMATION
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import widen
from rewrite.schema import Shape, Type

# A normalization divides by a small difference of sums: errors of the sums are magnified.
NORMALIZATION = 1e-4


@op(
    "Softmax", "LogSoftmax", "Hardmax", "LRN", "LpNormalization", "MeanVarianceNormalization",
    kind="normalization", shape_class="first",
)  # fmt: skip
def keeps_type(call: Call) -> Types:
    """A tensor like the operand"""
    return (call.type(0),)


# --- softmax ----------------------------------------------------------------------------------


def softmax_axes(e: Evaluation, rank: int) -> tuple[int, ...]:
    """One axis from opset 13 on; before, all from the axis on taken as one."""
    if e.opset >= 13:
        return (e.integer("axis", -1) % rank,) if rank else ()
    axis = e.integer("axis", 1)
    return tuple(range(axis + rank if axis < 0 else axis, rank))


def softmax_of(x: Array, axes: tuple[int, ...], log: bool) -> Array:
    with np.errstate(all="ignore"):
        shifted = x - np.max(x, axes, keepdims=True)
        total = np.sum(np.exp(shifted), axes, keepdims=True)
        return np.asarray(shifted - np.log(total) if log else np.exp(shifted) / total)


@value("Softmax", error=ACTIVATION)
def softmax_value(e: Evaluation) -> Arrays:
    return _softmax_value(e, log=False)


@value("LogSoftmax", error=ACTIVATION)
def log_softmax_value(e: Evaluation) -> Arrays:
    return _softmax_value(e, log=True)


def _softmax_value(e: Evaluation, log: bool) -> Arrays:
    x = e.array(0)
    if x.size == 0:
        return (x,)
    return (softmax_of(widen(x, False), softmax_axes(e, x.ndim), log).astype(x.dtype),)


@value("Hardmax")
def hardmax_value(e: Evaluation) -> Arrays | None:
    """1 at the first largest element, else 0"""
    x = e.array(0)
    wide = widen(x, True)
    if x.size == 0 or np.isnan(wide).any():
        return None
    axes = softmax_axes(e, x.ndim)
    if e.opset < 13:
        flat = wide.reshape(int(np.prod(x.shape[: axes[0]] if axes else x.shape)), -1)
        hot = np.eye(flat.shape[1])[np.argmax(flat, 1)]
        return (hot.reshape(x.shape).astype(x.dtype),)
    place = np.expand_dims(np.argmax(wide, axes[0]), axes[0])
    y = np.zeros(x.shape, wide.dtype)
    np.put_along_axis(y, place, 1, axes[0])
    return (y.astype(x.dtype),)


# --- batch, instance, group -------------------------------------------------------------------


@op("BatchNormalization", kind="normalization", shape_class="first")
def batch_normalization(call: Call) -> Types:
    """(x - mean) / sqrt(var + epsilon) scale + bias, per channel"""
    x = call.type(0)
    _check_channels(call, x.shape, range(1, 5))
    statistics = Type(call.type(3).dtype or call.type(4).dtype, call.shape(3))
    return (x, *(statistics,) * 4)


def _check_channels(call: Call, shape: Shape | None, operands: range) -> None:
    """Per-channel operands have the size of dimension 1."""
    if shape is None or len(shape) < 2 or not isinstance(shape[1], int):
        return
    for i in operands:
        length = call.length_of(i)
        if length is not None and length != shape[1]:
            call.fail(f"{length} values for {shape[1]} channels")


def per_channel(v: Array, rank: int) -> Array:
    return widen(v, False).reshape(-1, *(1,) * (rank - 2))


@value("BatchNormalization", error=NORMALIZATION)
def batch_normalization_value(e: Evaluation) -> Arrays | None:
    if e.integer("training_mode", 0) or e.n_outputs > 1 or not e.integer("spatial", 1):
        return None
    x = e.array(0)
    if x.ndim < 2:
        return None
    scale, bias, mean, variance = (per_channel(e.array(i), x.ndim) for i in range(1, 5))
    epsilon = e.float32("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        y = (widen(x, False) - mean) / np.sqrt(variance + epsilon) * scale + bias
    return (y.astype(x.dtype),)


@op("InstanceNormalization", kind="normalization", shape_class="first")
def instance_normalization(call: Call) -> Types:
    """Mean and variance of each channel of each sample"""
    _check_channels(call, call.shape(0), range(1, 3))
    return (call.type(0),)


@op("GroupNormalization", kind="normalization", shape_class="first")
def group_normalization(call: Call) -> Types:
    """Mean and variance of each group of channels of each sample"""
    return (call.type(0),)


def standardize(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """(x - mean) / sqrt(variance + epsilon)"""
    with np.errstate(all="ignore"):
        centred = x - np.mean(x, axes, keepdims=True)
        variance = np.mean(centred * centred, axes, keepdims=True)
        return np.asarray(centred / np.sqrt(variance + epsilon))


@value("InstanceNormalization", error=NORMALIZATION)
def instance_normalization_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    if x.size == 0:
        return None
    epsilon = e.float32("epsilon", 1e-5)
    y = standardize(widen(x, False), tuple(range(2, x.ndim)), epsilon)
    y = y * per_channel(e.array(1), x.ndim) + per_channel(e.array(2), x.ndim)
    return (y.astype(x.dtype),)


@value("GroupNormalization", error=NORMALIZATION)
def group_normalization_value(e: Evaluation) -> Arrays | None:
    x, groups = e.array(0), e.integer("num_groups", 1)
    scale, bias = widen(e.array(1), False), widen(e.array(2), False)
    if x.size == 0:
        return None
    if e.opset < 21:  # one scale per group
        scale, bias = (np.repeat(v, x.shape[1] // groups) for v in (scale, bias))
    grouped = widen(x, False).reshape(x.shape[0], groups, -1)
    epsilon = e.float32("epsilon", 1e-5)
    y = standardize(grouped, (2,), epsilon).reshape(x.shape)
    y = y * scale.reshape(-1, *(1,) * (x.ndim - 2)) + bias.reshape(-1, *(1,) * (x.ndim - 2))
    return (y.astype(x.dtype),)


# --- layer, root mean square ------------------------------------------------------------------


@op("LayerNormalization", kind="normalization", shape_class="first")
def layer_normalization(call: Call) -> Types:
    """Mean and variance over the dimensions from an axis on"""
    x = call.type(0)
    stash = call.element_type("stash_type", "f32")
    if x.shape is None:
        return (x, *(Type(stash, None),) * 2)
    axis = call.axis(call.integer("axis", -1), len(x.shape))
    check_scale(call, x.shape, (1, 2))
    statistics = Type(stash, x.shape[:axis] + (1,) * (len(x.shape) - axis))
    return (x, statistics, statistics)


def check_scale(call: Call, shape: Shape, operands: tuple[int, ...]) -> None:
    """Scale and bias broadcast to the operand, never the other way round."""
    for i in operands:
        scale = call.shape(i)
        if scale is None:
            continue
        if len(scale) > len(shape):
            call.fail(f"a scale of rank {len(scale)} for a tensor of rank {len(shape)}")
        for size, full in zip(scale, shape[len(shape) - len(scale) :], strict=True):
            if isinstance(size, int) and isinstance(full, int) and size not in (1, full):
                call.fail(f"a scale of size {size} for a dimension of size {full}")


@value("LayerNormalization", error=NORMALIZATION)
def layer_normalization_value(e: Evaluation) -> Arrays | None:
    x, bias = e.array(0), e.optional(2)
    if x.size == 0:
        return None
    axes = tuple(range(e.integer("axis", -1) % x.ndim, x.ndim))
    epsilon = e.float32("epsilon", 1e-5)
    wide = widen(x, False)
    y = standardize(wide, axes, epsilon) * widen(e.array(1), False)
    if bias is not None:
        y = y + widen(bias, False)
    mean = np.mean(wide, axes, keepdims=True)
    inverse = 1 / np.sqrt(np.mean((wide - mean) ** 2, axes, keepdims=True) + epsilon)
    stash = to_numpy(e.element_type("stash_type", "f32") or "f32")
    return (y.astype(x.dtype), mean.astype(stash), inverse.astype(stash))


@op("RMSNormalization", kind="normalization", shape_class="first")
def rms_normalization(call: Call) -> Types:
    """x / sqrt(mean(x^2) + epsilon) scale, over the dimensions from an axis on"""
    x = call.type(0)
    if x.shape is not None:
        call.axis(call.integer("axis", -1), len(x.shape))
        check_scale(call, x.shape, (1,))
    return (Type(call.type(1).dtype, x.shape),)


def rms(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(x / np.sqrt(np.mean(x * x, axes, keepdims=True) + epsilon))


@value("RMSNormalization", error=NORMALIZATION)
def rms_normalization_value(e: Evaluation) -> Arrays | None:
    x, scale = e.array(0), e.array(1)
    if x.size == 0:
        return None
    axes = tuple(range(e.integer("axis", -1) % x.ndim, x.ndim))
    epsilon = e.float32("epsilon", 1e-5)
    y = rms(widen(x, False), axes, epsilon) * widen(scale, False)
    return (y.astype(scale.dtype),)


# --- others -----------------------------------------------------------------------------------


@value("LpNormalization", error=SUMMATION)
def lp_normalization_value(e: Evaluation) -> Arrays | None:
    x, axis, p = e.array(0), e.integer("axis", -1), e.integer("p", 2)
    wide = widen(x, False)
    norm = np.sum(np.abs(wide) ** p, axis, keepdims=True) ** (1 / p)
    if np.any(norm == 0):
        return None  # 0 or NaN, depending on the version of the text
    return ((wide / norm).astype(x.dtype),)


@value("MeanVarianceNormalization", error=NORMALIZATION)
def mean_variance_normalization_value(e: Evaluation) -> Arrays | None:
    x = e.array(0)
    if x.size == 0:
        return None
    axes = e.integers("axes") or (0, 2, 3)
    wide = widen(x, False)
    centred = wide - np.mean(wide, axes, keepdims=True)
    deviation = np.sqrt(np.mean(centred * centred, axes, keepdims=True))
    # The function body adds 1e-9 to the deviation.
    return ((centred / (deviation + 1e-9)).astype(x.dtype),)


@value("LRN", error=SUMMATION)
def lrn_value(e: Evaluation) -> Arrays:
    """x / (bias + alpha/size sum of squares of neighbouring channels)^beta"""
    x, size = e.array(0), e.integer("size", 1)
    wide: Any = widen(x, False)
    squares = wide * wide
    sums = np.zeros_like(squares)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    channels = x.shape[1]
    for c in range(channels):
        sums[:, c] = np.sum(squares[:, max(0, c - before) : min(channels, c + after + 1)], 1)
    alpha, beta = e.number("alpha", 1e-4), e.number("beta", 0.75)
    y = wide / (e.number("bias", 1.0) + alpha / size * sums) ** beta
    return (y.astype(x.dtype),)
