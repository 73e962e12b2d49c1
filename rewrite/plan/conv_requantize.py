"""Codes of accumulators as QLinearConv means them: exact quotients, rounded once.

In: scales. Out: factors in f64, checked against rational arithmetic.

A sum a of 32 bits becomes round(a r) with r = x_s w_s / y_s. In f64, a times r rounded to f64 is
off by at most 2^-52 of itself: less than 2^-43 where the code does not saturate. That can matter
only for sums whose a r lies that near to a half; for each half, that is one sum at most. `factors`
looks at all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.plan.instance import Array

_NEAR = 2.0**-40  # of a half: farther away no rounding of f64 decides


@dataclass(frozen=True, slots=True)
class Factors:
    """r of each channel, so that round(a r) in f64 is exact for all sums that give a code;
    `halves`: whether any a r is a half, or nearly one."""

    ratio: Array
    halves: bool


def factors(x_scale: float, w_scale: Array, y_scale: float, low: int, high: int) -> Factors:
    """`low` and `high`: codes less the zero point."""
    product = np.float64(x_scale) * w_scale.astype(np.float64).reshape(-1)  # 48 digits: exact
    ratio = product / np.float64(y_scale)
    halves = np.arange(low - 1, high + 1, dtype=np.float64) + 0.5
    found = False
    for c in np.flatnonzero(np.isfinite(ratio) & (ratio > 0)):
        nearest = np.rint(halves / ratio[c])
        gap = np.abs(nearest * ratio[c] - halves)
        doubtful = nearest[(gap < _NEAR) & (np.abs(nearest) < 2.0**31)]
        if doubtful.size:
            found = True
            exact = Fraction(float(product[c])) / Fraction(float(y_scale))
            ratio[c] = _right(float(ratio[c]), exact, doubtful)
    return Factors(ratio, found)


def _right(ratio: float, exact: Fraction, sums: Array) -> float:
    """The factor nearest to `ratio` that rounds these sums as the exact one does."""
    wanted = [round(Fraction(int(a)) * exact) for a in sums]  # half to even, as codes are
    for near in (ratio, np.nextafter(ratio, np.inf), np.nextafter(ratio, 0.0)):
        if all(int(np.rint(a * near)) == code for a, code in zip(sums, wanted, strict=True)):
            return float(near)
    return ratio
