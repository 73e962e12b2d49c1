"""Normalizations and softmax as row programs.

In: instances. Out: the region of one normalization, and its steps. Half floats are computed in f32
throughout and rounded at the end. The variance is the mean of the squared deviations from the mean,
not E[x²] - E[x]², whose difference cancels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rewrite.plan.instance import Instance
from rewrite.plan.rows import Axes, Builder, Region, RowOp, UnfitError
from rewrite.plan.rows_draft import Draft, Ref
from rewrite.plan.rows_reduce import dequantized, quantized
from rewrite.plan.spec import Constant
from rewrite.plan.specs.rows import ADD, EXP_BELOW, PEAK

MICROSOFT = "com.microsoft"
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})


def _wide(d: Draft, x: Ref) -> Ref:
    return d.cast(x, "f32") if d.dtype(x) in ("f16", "bf16") else x


def _as(d: Draft, x: Ref, like: Ref) -> Ref:
    """A scale or a bias in the type of computation."""
    return d.cast(x, d.dtype(like))


def _epsilon(op: Instance, default: float) -> float:
    return op.float32("epsilon", default)


def _floats(op: Instance, shape: tuple[int, ...], axes: Axes) -> Region | str:
    if op.dtype() not in _FLOATS:
        return f"{op.name} is not computed in {op.dtype()}"
    return Region(shape, axes)


def _trailing(op: Instance, default: int) -> Axes:
    """The dimensions from an axis on."""
    rank = len(op.shape(0))
    axis = op.integer("axis", default)
    return tuple(range(axis + rank if axis < 0 else axis, rank))


# --- softmax -----------------------------------------------------------------------------------


def _where_softmax(op: Instance) -> Region | str:
    rank = len(op.shape(0))
    if op.opset < 13:  # all dimensions from the axis on are one
        return _floats(op, op.shape(0), _trailing(op, 1))
    return _floats(op, op.shape(0), (op.integer("axis", -1) % rank,) if rank else ())


def softmax(d: Draft, x: Ref) -> Ref:
    """exp(x - top) / sum; the sum is at least 1, so that its reciprocal is a number."""
    raised = _raised(d, d.step("Sub", x, d.fold(PEAK, x)))
    return d.step("Mul", raised, d.step("Reciprocal", d.fold(ADD, raised)))


def _raised(d: Draft, x: Ref) -> Ref:
    """e^x of x <= 0"""
    return d.step(EXP_BELOW, x, domain="rewrite")


def log_softmax(d: Draft, x: Ref) -> Ref:
    """x - top - log sum exp(x - top)"""
    shifted = d.step("Sub", x, d.fold(PEAK, x))
    total = d.fold(ADD, _raised(d, shifted))
    return d.step("Sub", shifted, d.step("Log", total))


def _expand_softmax(formula: Callable[[Draft, Ref], Ref]) -> Callable[[Builder, Instance], None]:
    def expand(b: Builder, op: Instance) -> None:
        b.put(op, 0, formula(b.draft, _wide(b.draft, b.arg(op, 0))))

    return expand


def _where_bias_softmax(op: Instance) -> Region | str:
    if not op.integer("is_inner_broadcast", 0) or len(op.shape(0)) != len(op.shape(1)):
        return "BiasSoftmax with an outer broadcast"
    return _floats(op, op.shape(0), _trailing(op, 1))


def _expand_bias_softmax(b: Builder, op: Instance) -> None:
    d = b.draft
    x, bias = _wide(d, b.arg(op, 0)), b.arg(op, 1)
    b.put(op, 0, softmax(d, d.step("Add", x, _as(d, bias, x))))


def _where_quantized_softmax(op: Instance) -> Region | str:
    rank = len(op.shape(0))
    if op.integer("opset", 13) < 13:
        return Region(op.shape(0), _trailing(op, -1))
    return Region(op.shape(0), (op.integer("axis", -1) % rank,))


def _expand_quantized_softmax(b: Builder, op: Instance) -> None:
    b.put(op, 0, quantized(b, op, softmax(b.draft, dequantized(b, op, 0, 1, 2)), 3, 4))


# --- layer normalization -----------------------------------------------------------------------


def _where_layer(op: Instance) -> Region | str:
    return _floats(op, op.shape(0), _trailing(op, -1))


def standardized(d: Draft, x: Ref, epsilon: float) -> tuple[Ref, Ref, Ref]:
    """(x - mean) / sqrt(variance + epsilon), the mean, and the reciprocal of that root"""
    mean = d.mean(x)
    centred = d.step("Sub", x, mean)
    variance = d.mean(d.square(centred))
    inverse = _inverse_root(d, variance, epsilon)
    return d.step("Mul", centred, inverse), mean, inverse


def _inverse_root(d: Draft, x: Ref, epsilon: float) -> Ref:
    return d.step("Reciprocal", d.step("Sqrt", d.step("Add", x, d.number(epsilon, x))))


def _scaled(b: Builder, op: Instance, y: Ref, scale: int, bias: int, axes: Axes | None) -> Ref:
    """y scale + bias, where they are given."""
    d = b.draft
    if op.has(scale):
        y = d.step("Mul", y, _as(d, b.arg(op, scale, axes), y))
    if op.has(bias):
        y = d.step("Add", y, _as(d, b.arg(op, bias, axes), y))
    return y


def _expand_layer(b: Builder, op: Instance) -> None:
    d = b.draft
    y, mean, inverse = standardized(d, _wide(d, b.arg(op, 0)), _epsilon(op, 1e-5))
    b.put(op, 0, _scaled(b, op, y, 1, 2, None))
    b.put(op, 1, mean)
    b.put(op, 2, inverse)


def _root_mean_square(d: Draft, x: Ref, epsilon: float) -> tuple[Ref, Ref]:
    inverse = _inverse_root(d, d.mean(d.square(x)), epsilon)
    return d.step("Mul", x, inverse), inverse


def _expand_rms(b: Builder, op: Instance) -> None:
    d = b.draft
    y, inverse = _root_mean_square(d, _wide(d, b.arg(op, 0)), _epsilon(op, 1e-5))
    b.put(op, 0, _scaled(b, op, y, 1, 99, None))
    b.put(op, 1, inverse)


def _where_skip(op: Instance) -> Region | str:
    rank = len(op.shape(0))
    return _floats(op, op.shape(0), (rank - 1,)) if rank else f"{op.name} of a scalar"


def _expand_skip(b: Builder, op: Instance) -> None:
    """The normalization of x + skip + bias, which is a result, too."""
    d, plain = b.draft, op.name == "SkipSimplifiedLayerNormalization"
    total = _wide(d, b.arg(op, 0))
    total = d.step("Add", total, _as(d, b.arg(op, 1), total))
    bias = 3 if plain else 4
    if op.has(bias):
        total = d.step("Add", total, _as(d, b.arg(op, bias), total))
    epsilon = _epsilon(op, 1e-12)
    if plain:
        y, inverse = _root_mean_square(d, total, epsilon)
        b.put(op, 0, _scaled(b, op, y, 2, 99, None))
    else:
        y, mean, inverse = standardized(d, total, epsilon)
        b.put(op, 0, _scaled(b, op, y, 2, 3, None))
        b.put(op, 1, mean)
    b.put(op, 2, inverse)
    b.put(op, 3, total)


# --- per instance, per group, over any dimensions ----------------------------------------------


def _where_instance(op: Instance) -> Region | str:
    return _floats(op, op.shape(0), tuple(range(2, len(op.shape(0)))))


def _expand_instance(b: Builder, op: Instance) -> None:
    d = b.draft
    y, _, _ = standardized(d, _wide(d, b.arg(op, 0)), _epsilon(op, 1e-5))
    b.put(op, 0, _scaled(b, op, y, 1, 2, (1,)))


def _where_group(op: Instance) -> Region | str:
    shape, groups = op.shape(0), op.integer("num_groups", 1)
    region = _floats(op, shape, tuple(range(2, len(shape))))
    if isinstance(region, str):
        return region
    if op.opset < 21:  # ONNX has withdrawn it
        return "GroupNormalization with a scale for each group"
    if len(shape) < 2 or shape[1] % max(groups, 1):
        return "GroupNormalization of channels that are no multiple of the groups"
    return Region(region.shape, region.axes, (1, groups))


def _where_channels_last_group(op: Instance) -> Region | str:
    shape, groups = op.shape(0), op.integer("groups", 1)
    if not op.integer("channels_last", 1) or op.integer("activation", 0) not in (0, 1):
        return f"{op.name} with channels in front, or another activation"
    rank = len(shape)
    region = _floats(op, shape, tuple(range(1, rank - 1)))
    return region if isinstance(region, str) else Region(shape, region.axes, (rank - 1, groups))


def _expand_channels_last_group(b: Builder, op: Instance) -> None:
    """com.microsoft's GroupNorm: of x, or of x + skip + bias; then perhaps SiLU."""
    d, channels = b.draft, (b.rank - 1,)
    x = _wide(d, b.arg(op, 0))
    if op.name == "SkipGroupNorm":
        skip = op.shape(3)
        if skip != op.shape(0) and skip[1:-1] != (1,) * (len(skip) - 2):
            raise UnfitError("a skip of another shape")
        axes = (0, b.rank - 1) if len(skip) == 2 else None
        x = d.step("Add", x, _as(d, b.arg(op, 3, axes), x))
        if op.has(4):
            x = d.step("Add", x, _as(d, b.arg(op, 4, channels), x))
        b.put(op, 1, x)
    y, _, _ = standardized(d, x, _epsilon(op, 1e-5))
    y = _scaled(b, op, y, 1, 2, channels)
    if op.integer("activation", 0):
        y = d.step("Mul", y, d.step("Sigmoid", y))
    b.put(op, 0, y)


def _where_mean_variance(op: Instance) -> Region | str:
    rank = len(op.shape(0))
    axes = op.integers("axes") or (0, 2, 3)
    if any(not -rank <= a < rank for a in axes):
        return "MeanVarianceNormalization over dimensions that are not there"
    return _floats(op, op.shape(0), tuple(sorted({a % rank for a in axes})))


def _expand_mean_variance(b: Builder, op: Instance) -> None:
    """(x - mean) / (deviation + 1e-9), as in the function body of the operator"""
    d = b.draft
    x = _wide(d, b.arg(op, 0))
    centred = d.step("Sub", x, d.mean(x))
    deviation = d.step("Sqrt", d.mean(d.square(centred)))
    divisor = d.step("Add", deviation, d.number(1e-9, x))
    b.put(op, 0, d.step("Mul", centred, d.step("Reciprocal", divisor)))


def _where_power(op: Instance) -> Region | str:
    if op.integer("p", 2) not in (1, 2):
        return "LpNormalization with p other than 1 and 2"
    rank = len(op.shape(0))
    return _floats(op, op.shape(0), (op.integer("axis", -1) % rank,)) if rank else "a scalar"


def _expand_power(b: Builder, op: Instance) -> None:
    """x / norm; 0 where the norm is 0"""
    d = b.draft
    x = _wide(d, b.arg(op, 0))
    if op.integer("p", 2) == 1:
        norm = d.fold(ADD, d.step("Abs", x))
    else:
        norm = d.step("Sqrt", d.fold(ADD, d.square(x)))
    zero = Constant(d.dtype(x), 0.0)
    empty = d.step("Equal", norm, zero, dtype="bool")
    divisor = d.step("Where", empty, Constant(d.dtype(x), 1.0), norm, dtype=d.dtype(x))
    b.put(op, 0, d.step("Div", x, divisor))


# --- training ----------------------------------------------------------------------------------


def _where_batch(op: Instance) -> Region | str:
    """Only training: with given statistics it is pointwise."""
    if not is_training(op):
        return "BatchNormalization with given statistics reduces nothing"
    if op.opset < 14:
        return "BatchNormalization that gives statistics, before opset 14"
    rank = len(op.shape(0))
    return _floats(op, op.shape(0), tuple(a for a in range(rank) if a != 1))


def is_training(op: Instance) -> bool:
    """Statistics are computed: by attribute, before opset 14 where they are asked for."""
    if op.opset >= 14:
        return op.integer("training_mode", 0) != 0
    return any(op.wants(k) for k in range(1, len(op.outputs)))


def _expand_batch(b: Builder, op: Instance) -> None:
    d, channel = b.draft, (1,)
    x = _wide(d, b.arg(op, 0))
    mean = d.mean(x)
    centred = d.step("Sub", x, mean)
    variance = d.mean(d.square(centred))
    inverse = _inverse_root(d, variance, _epsilon(op, 1e-5))
    b.put(op, 0, _scaled(b, op, d.step("Mul", centred, inverse), 1, 2, channel))
    old = op.float32("momentum", 0.9)
    new = float(np.float32(1) - np.float32(old))
    for output, given, seen in ((1, 3, mean), (2, 4, variance)):
        before = _as(d, b.arg(op, given, channel), seen)
        mixed = d.step(
            "Add",
            d.step("Mul", before, d.number(old, seen)),
            d.step("Mul", seen, d.number(new, seen)),
        )
        b.put(op, output, mixed, channel)


OPERATORS: dict[tuple[str, str], RowOp] = {
    ("", "Softmax"): RowOp(_where_softmax, _expand_softmax(softmax)),
    ("", "LogSoftmax"): RowOp(_where_softmax, _expand_softmax(log_softmax)),
    (MICROSOFT, "BiasSoftmax"): RowOp(_where_bias_softmax, _expand_bias_softmax),
    (MICROSOFT, "QLinearSoftmax"): RowOp(_where_quantized_softmax, _expand_quantized_softmax),
    ("", "LayerNormalization"): RowOp(_where_layer, _expand_layer),
    ("", "RMSNormalization"): RowOp(_where_layer, _expand_rms),
    ("", "SimplifiedLayerNormalization"): RowOp(_where_layer, _expand_rms),
    (MICROSOFT, "SkipLayerNormalization"): RowOp(_where_skip, _expand_skip),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): RowOp(_where_skip, _expand_skip),
    ("", "InstanceNormalization"): RowOp(_where_instance, _expand_instance),
    ("", "GroupNormalization"): RowOp(_where_group, _expand_instance),
    (MICROSOFT, "GroupNorm"): RowOp(_where_channels_last_group, _expand_channels_last_group),
    (MICROSOFT, "SkipGroupNorm"): RowOp(_where_channels_last_group, _expand_channels_last_group),
    ("", "MeanVarianceNormalization"): RowOp(_where_mean_variance, _expand_mean_variance),
    ("", "LpNormalization"): RowOp(_where_power, _expand_power),
    ("", "BatchNormalization"): RowOp(_where_batch, _expand_batch),
}
