"""Normalizations: row programs; BatchNormalization with given statistics is pointwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rewrite.plan.instance import Array
from rewrite.plan.lower.reduction import row_program, row_refusal
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.rows_normalize import is_training
from rewrite.plan.spec import Body, Constant, Step

_NORMALIZATIONS = (
    "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
    "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", "LpNormalization",
)  # fmt: skip
_MICROSOFT = (
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "GroupNorm", "SkipGroupNorm",
)  # fmt: skip
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})

lowers(*_NORMALIZATIONS, epilogue=True)(row_program)
refuses(*_NORMALIZATIONS)(row_refusal)
lowers(*_MICROSOFT, domain="com.microsoft", epilogue=True)(row_program)
refuses(*_MICROSOFT, domain="com.microsoft")(row_refusal)


@refuses("BatchNormalization")
def batch_refusal(op: Instance) -> str | None:
    if op.dtype() not in _FLOATS:
        return f"BatchNormalization is not computed in {op.dtype()}"
    if len(op.shape(0)) < 2 or not op.integer("spatial", 1):
        return "BatchNormalization with statistics of each element"
    return row_refusal(op) if is_training(op) else None


@lowers("BatchNormalization", epilogue=True)
def batch(low: Lowering, op: Instance) -> None:
    """(x - mean) (scale / sqrt(variance + epsilon)) + bias, per channel"""
    if is_training(op):
        row_program(low, op)
        return
    x = low.view(0)
    wide = "f64" if op.dtype() == "f64" else "f32"
    rank, epsilon = len(x.shape), op.float32("epsilon", 1e-5)
    factor = _factor(low, op, wide, epsilon)
    channels = [_along_channels(t, rank, x.shape) for t in (low.view(3), factor, low.view(2))]
    order = x.view.order if x.view.dense else None
    steps = (
        Step("", "Sub", (4, 5), wide),
        Step("", "Mul", (8, 6), wide),
        Step("", "Add", (9, 7), wide),
    )
    body = _computed_wide([x.dtype, *(t.dtype for t in channels)], steps, wide, op.out_dtype())
    operands, tail = [x, *channels], low.epilogue()
    if tail is not None:
        epilogue, more = tail
        body, operands = _then(body, epilogue.body), [*operands, *more]
    low.pointwise(body, operands, [low.output(0, order)])


def _then(first: Body, second: Body) -> Body:
    """A program of one result, and one that takes it as value 0, as one program."""
    n, more = len(first.dtypes), len(second.dtypes) - 1
    before = n + more + len(first.steps)

    def of_first(value: int) -> int:
        return value if value < n else value + more

    def of_second(value: int) -> int:
        if value == 0:
            return of_first(first.results[0])
        return n + value - 1 if value <= more else before + value - more - 1

    steps = [_renumbered(step, of_first) for step in first.steps]
    steps += [_renumbered(step, of_second) for step in second.steps]
    results = tuple(of_second(v) for v in second.results)
    return Body((*first.dtypes, *second.dtypes[1:]), tuple(steps), results)


def _renumbered(step: Step, number: Callable[[int], int]) -> Step:
    args = tuple(number(a) if isinstance(a, int) else a for a in step.args)
    return replace(step, args=args)


def _factor(low: Lowering, op: Instance, wide: str, epsilon: float) -> Tensor:
    """scale / sqrt(variance + epsilon) of every channel."""
    scale, variance = low.known(1), low.known(4)
    if scale is not None and variance is not None:
        return low.constant(_known(scale, variance, wide, epsilon))
    steps = (
        Step("", "Add", (3, Constant(wide, epsilon)), wide),
        Step("", "Sqrt", (4,), wide),
        Step("", "Div", (2, 5), wide),
    )
    given = [low.view(1), low.view(4)]
    factor = low.new(wide, given[0].shape)
    low.pointwise(_computed_wide([t.dtype for t in given], steps, wide, wide), given, [factor])
    return factor


def _known(scale: Array, variance: Array, wide: str, epsilon: float) -> Array:
    kind = np.float64 if wide == "f64" else np.float32
    with np.errstate(all="ignore"):
        factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return np.asarray(factor.astype(kind))


def _computed_wide(dtypes: list[str], steps: tuple[Step, ...], wide: str, result: str) -> Body:
    """A program whose steps number the operands in the wide type: n, n + 1, … of n operands."""
    n = len(dtypes)
    casts = tuple(_cast(k, wide) for k in range(n))
    last = 2 * n + len(steps) - 1
    return Body(tuple(dtypes), (*casts, *steps, _cast(last, result)), (last + 1,))


def _cast(value: int, dtype: str) -> Step:
    return Step("", "Cast", (value,), dtype, (("saturate", 1),), 21)


def _along_channels(tensor: Tensor, rank: int, shape: tuple[int, ...]) -> Tensor:
    reshaped = tensor.reshaped((tensor.shape[0], *(1,) * (rank - 2)))
    assert reshaped is not None
    return reshaped.broadcast(shape)
