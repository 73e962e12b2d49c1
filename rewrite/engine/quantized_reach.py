"""How far a value of a rewritten model can be from what it is without errors made before it.

In: the operands of an operator as `Reach`. Out: the `Reach` of its result.

Two runs of one operator, on operands that differ by at most e, differ by at most its gain times e;
where integers are made by rounding or division, by floor of that and one more. Errors are numbers
of the value's own units: codes, sums of codes, or real numbers. A relative slack covers that they
are computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rewrite.quant.codes import Array, Floats

SLACK = 1 + 2.0**-40  # far more than a few roundings to 53 bits
_FLOAT = 2.0**-22  # of a magnitude: a few roundings to float32


@dataclass(frozen=True, slots=True)
class Reach:
    """`unit`: the step of the codes that a real number stands for. `machine`: a float32 number, not
    a real one. `reason`: why nothing bounds the error, which is infinite then."""

    low: float = -math.inf
    high: float = math.inf
    error: float = 0.0
    integer: bool = False
    unit: float | None = None
    machine: bool = False
    reason: str = ""

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))

    def off(self, error: float) -> Reach:
        """With so much error, but no more than the range allows."""
        if self.reason:
            return replace(self, error=math.inf)
        error = min(error * SLACK, self.high - self.low)
        if self.integer and math.isfinite(error):
            error = math.floor(error)
        return replace(self, error=float(error))


def lost(reason: str) -> Reach:
    return Reach(error=math.inf, reason=reason)


def reason_of(operands: Sequence[Reach]) -> str:
    """Why one of the operands has no bound, if so."""
    return next((o.reason for o in operands if o.reason), "")


def joined(operands: Sequence[Reach]) -> Reach:
    """An element of any of them."""
    units = {o.unit for o in operands}
    return Reach(
        min(o.low for o in operands),
        max(o.high for o in operands),
        max(o.error for o in operands),
        all(o.integer for o in operands),
        units.pop() if len(units) == 1 else None,
        any(o.machine for o in operands),
        reason_of(operands),
    )


def rounded(error: float) -> float:
    """What an error becomes where numbers are rounded: two ties may go apart."""
    return math.floor(error * SLACK) + 1.0 if 0.0 < error < math.inf else error


def _noise(of: Reach, machine: bool) -> Reach:
    """Two float32 results may differ by roundings of their own, where the operands do."""
    if not machine or of.error == 0.0:
        return replace(of, machine=machine)
    return replace(of, machine=True, error=of.error + _FLOAT * of.largest)


def add(a: Reach, b: Reach, sign: int = 1) -> Reach:
    low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
    unit = a.unit if b.error == 0.0 else b.unit if a.error == 0.0 else None
    why = reason_of((a, b))
    made = Reach(a.low + low, a.high + high, a.error + b.error, a.integer, unit, reason=why)
    return _noise(made, a.machine or b.machine)


def multiply(a: Reach, b: Reach) -> Reach:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    error = _times(a.error, b.largest) + _times(b.error, a.largest)
    made = Reach(min(ends), max(ends), error, a.integer, reason=reason_of((a, b)))
    return _noise(made, a.machine or b.machine)


def _times(x: float, y: float) -> float:
    """A bound times a bound: nothing times what has no end is nothing."""
    return 0.0 if x == 0.0 or y == 0.0 else x * y


def divide(a: Reach, b: Reach) -> Reach:
    """By a divisor without error that is not 0; integers toward zero."""
    why = reason_of((a, b))
    if b.error or b.low <= 0.0 <= b.high:
        return Reach(error=math.inf, integer=a.integer, reason=why)
    error = a.error / min(abs(b.low), abs(b.high))
    ends = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    if a.integer:
        return Reach(_down(min(ends)), -_down(-max(ends)), rounded(error), True, reason=why)
    return _noise(Reach(min(ends), max(ends), error, reason=why), a.machine or b.machine)


def _down(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def clip(x: Reach, low: float, high: float) -> Reach:
    ends = [min(max(end, low), high) for end in (x.low, x.high)]
    return replace(x, low=ends[0], high=ends[1]).off(x.error)


def looked_up(table: Array, index: Reach) -> Reach:
    """An element of a table of one axis; negative indices count from its end."""
    if not math.isfinite(index.error) or not math.isfinite(index.largest):
        return replace(_of_array(table), error=float(np.ptp(table.astype(np.float64))))
    low, high = int(index.low), int(index.high)
    places = np.arange(low, high + 1)
    if not places.size or low < -len(table) or high >= len(table):
        return lost("an index is out of range")
    values = table.astype(np.float64)[places]
    return replace(_of_array(table), error=widest(values, int(index.error)))


def widest(values: Floats, steps: int) -> float:
    """The largest difference of two entries that lie at most so many places apart."""
    size = min(steps + 1, len(values))
    most, least, width = values, values, 1
    while width < size:  # windows of 2^k entries, then two that overlap
        shift = min(width, size - width)
        most = np.maximum(most[:-shift], most[shift:])
        least = np.minimum(least[:-shift], least[shift:])
        width += shift
    return float((most - least).max(initial=0.0))


def _of_array(array: Array) -> Reach:
    values = array.astype(np.float64)
    return Reach(float(values.min()), float(values.max()), integer=array.dtype.kind in "iu")


def of_array(array: Array) -> Reach:
    """A constant."""
    if not array.size or array.dtype.kind not in "iufbV":
        return Reach()
    found = _of_array(array)
    return found if math.isfinite(found.largest) else Reach()
