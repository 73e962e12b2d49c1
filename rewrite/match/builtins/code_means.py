"""Means of codes over sizes that are not known before the run.

In: scales. Out: a `Mean`, which the attributes of a group and `mean_codes` ask; then, from sums and
counts as graph values, nodes. The arithmetic is `rewrite.quant.means`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.match.builtins.maker import Maker
from rewrite.match.builtins.nodes import Nodes
from rewrite.match.builtins.registry import Dtype, Value, builtin
from rewrite.match.builtins.requantization import requantizer_of
from rewrite.match.values import Env, Tensor, Unknown
from rewrite.quant.body import Clamp
from rewrite.quant.faults import QuantError
from rewrite.quant.means import Mean, derive_mean, mean_body


@dataclass(frozen=True, slots=True, eq=False)
class CodeMean:
    """How the target divides sums of codes by a count."""

    name: str
    plan: Mean


@builtin
def code_mean(env: Env, scale: float, to: float) -> object:
    """How the target makes codes of scale `to` of sums of 8-bit codes and counts up to 2^23."""
    name, _ = requantizer_of(env)
    try:
        return CodeMean(name, derive_mean(name, Fraction(scale) / Fraction(to)))
    except (QuantError, ZeroDivisionError) as error:
        raise Unknown(str(error)) from error


@builtin
def mean_multiplier(m: object) -> Tensor:
    """The multiplier of the sums in a mean of codes: an integer, or a float."""
    plan = _mean(m).plan
    return Tensor(np.array([plan.multiplier]), "f32" if plan.shift is None else "s64")


@builtin
def mean_shift(m: object) -> Tensor:
    """How far sums times multiplier over count are shifted to the right; 0 beside a float."""
    return Tensor(np.array([_mean(m).plan.shift or 0], np.int64), "s64")


@builtin
def mean_arithmetic(m: object) -> str:
    """The name of the arithmetic of a mean of codes."""
    found = _mean(m)
    return f"{found.name}_mean"


def _mean(value: object) -> CodeMean:
    if not isinstance(value, CodeMean):
        raise Unknown("this is not a mean of codes")
    return value


@builtin
def mean_codes(
    maker: Maker, total: Value, count: Value, m: object, zero_point: int, low: int, high: int,
    dtype: Dtype,
) -> object:  # fmt: skip
    """Sums of 8-bit codes less their zero points, over a count, as codes of [low, high]."""
    clamp = Clamp(zero_point, low, high, dtype)
    return mean_body(Nodes(maker), _mean(m).plan, total, count, clamp)
