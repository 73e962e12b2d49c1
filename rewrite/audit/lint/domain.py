"""Sets of values that a term may have: what conditions say about it.

In: comparisons of a term with literals. Out: `Domain`, its intersection with another, and whether a
comparison always or never holds within it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Literal = int | float | str | bool


@dataclass(frozen=True, slots=True)
class Domain:
    """The values in `values`, or the numbers between `low` and `high`; `whole`: integers only."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    values: frozenset[Literal] | None = None
    whole: bool = False

    @property
    def empty(self) -> bool:
        if self.values is not None:
            return not self.values
        if self.low == self.high:
            return self.low_open or self.high_open
        return self.low > self.high

    def meet(self, other: Domain) -> Domain:
        """The values in both."""
        if self.values is not None or other.values is not None:
            first, second = (self, other) if self.values is not None else (other, self)
            assert first.values is not None
            return Domain(values=frozenset(v for v in first.values if second.has(v)))
        low, low_open = max((self.low, self.low_open), (other.low, other.low_open))
        high, closed = min((self.high, not self.high_open), (other.high, not other.high_open))
        return _tight(Domain(low, high, low_open, not closed, None, self.whole or other.whole))

    def has(self, value: Literal) -> bool:
        if self.values is not None:
            return value in self.values
        if isinstance(value, str):
            return False
        above = value > self.low or (value == self.low and not self.low_open)
        below = value < self.high or (value == self.high and not self.high_open)
        return above and below

    def within(self, other: Domain) -> bool:
        """Whether each value of this domain is one of the other."""
        if self.values is not None:
            return all(other.has(v) for v in self.values)
        if other.values is not None:
            single = self.low == self.high and not self.empty
            return single and other.has(self.low)
        low = (self.low, self.low_open) >= (other.low, other.low_open)
        high = (self.high, not self.high_open) <= (other.high, not other.high_open)
        return low and high


def _tight(domain: Domain) -> Domain:
    """Integers: bounds that are reached."""
    if not domain.whole or domain.empty:
        return domain
    low, high = domain.low, domain.high
    if math.isfinite(low):
        low = math.floor(low) + 1 if domain.low_open else math.ceil(low)
    if math.isfinite(high):
        high = math.ceil(high) - 1 if domain.high_open else math.floor(high)
    return Domain(low, high, whole=True)


def compared(symbol: str, value: Literal) -> Domain | None:
    """The values for which `term symbol value` holds; None where they are no domain."""
    if symbol == "==":
        return Domain(values=frozenset((value,)))
    if isinstance(value, str) or symbol not in ("<", "<=", ">", ">="):
        return None
    number = float(value)
    if symbol[0] == "<":
        return Domain(high=number, high_open=symbol == "<")
    return Domain(low=number, low_open=symbol == ">")


def one_of(values: frozenset[Literal]) -> Domain:
    return Domain(values=values)
