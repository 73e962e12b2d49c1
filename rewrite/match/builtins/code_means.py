"""Means of codes over sizes that are not known before the run.

In: sums and counts as graph values, scales. Out: nodes; the arithmetic is `rewrite.quant.means`.
"""

from __future__ import annotations

from fractions import Fraction

from rewrite.match.builtins.maker import Maker
from rewrite.match.builtins.nodes import Nodes
from rewrite.match.builtins.registry import Dtype, Value, builtin
from rewrite.match.builtins.requantization import requantizer_of
from rewrite.match.values import Unknown
from rewrite.quant.body import Clamp
from rewrite.quant.faults import QuantError
from rewrite.quant.means import derive_mean, mean_body


@builtin
def mean_codes(
    maker: Maker, total: Value, count: Value, scale: float, to: float, zero_point: int, low: int,
    high: int, dtype: Dtype,
) -> object:  # fmt: skip
    """Sums of 8-bit codes over a count of at most 2^23, as codes of [low, high]."""
    name, _ = requantizer_of(maker.env)
    try:
        plan = derive_mean(name, Fraction(scale) / Fraction(to))
    except (QuantError, ZeroDivisionError) as error:
        raise Unknown(str(error)) from error
    return mean_body(Nodes(maker), plan, total, count, Clamp(zero_point, low, high, dtype))
