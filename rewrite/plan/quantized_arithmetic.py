"""Arithmetic on codes in float32 that gives the exact result for all codes there are.

In: scales, zero points, ranges of codes. Out: float32 numbers for which rounding gives the code
that exact arithmetic gives, for each of the 65536 pairs of codes; None where none were found.

With numbers rounded to float32 a few pairs that lie next to a tie round to the wrong side. Only
pairs next to a tie can, so these are computed for numbers some units in the last place around, and
the first that are right for all of them are taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# Scales further apart are not added exactly in float64: 9 + 24 bits, and their distance.
_APART = 2.0**16
_KEPT = 4096  # results that are remembered
_TIE = 1e-9  # quotients nearer to a tie are compared as fractions


@dataclass(frozen=True, slots=True)
class Operand:
    """Codes from `low` to `high` with one scale and zero point."""

    scale: float
    zero: int
    low: int
    high: int

    @property
    def steps(self) -> Array:
        """All codes less the zero point."""
        return np.arange(self.low, self.high + 1, dtype=np.float64) - self.zero


@lru_cache(_KEPT)
def sum_numbers(a: Operand, b: Operand, y: Operand) -> tuple[float, float, float] | None:
    """(k, m, c) so that round(a k + b m + c) is the rounded ((a - za) sa + (b - zb) sb) / sy.

    Products and sums are rounded to float32, in this order.
    """
    i, j, want = _sums(a, b, y)
    k, m = a.scale / y.scale, b.scale / y.scale
    left = (i + a.low).astype(np.float32)
    right = (j + b.low).astype(np.float32)
    for dk, dm, dc in sorted(
        itertools.product(range(-2, 3), range(-2, 3), range(-4, 5)), key=lambda d: sum(map(abs, d))
    ):
        one, two = _moved(k, dk), _moved(m, dm)
        c = _moved(-(a.zero * float(one) + b.zero * float(two)), dc)
        if np.array_equal(_bounded(np.rint(left * one + right * two + c), y), want):
            return float(one), float(two), float(c)
    return None


@lru_cache(_KEPT)
def sum_is_exact(a: Operand, b: Operand, y: Operand) -> bool:
    """Whether the sum of both numbers in float64, over sy, rounds to the right code."""
    i, j, want = _sums(a, b, y)
    found = (a.steps[i] * a.scale + b.steps[j] * b.scale) / y.scale
    return np.array_equal(_bounded(np.rint(found), y), want)


@lru_cache(1)
def _sums(a: Operand, b: Operand, y: Operand) -> tuple[Array, Array, Array]:
    """Which pairs of codes have a sum next to a tie, and the codes of these sums."""
    exact = ((a.steps * a.scale)[:, None] + b.steps * b.scale) / y.scale
    slack = 256 * (a.scale + b.scale) / y.scale * 2.0**-20
    i, j = np.nonzero(_near_tie(exact, slack))
    near = exact[i, j]
    want = np.rint(near)
    if max(a.scale, b.scale) > _APART * min(a.scale, b.scale):  # not exact in float64
        x, z, to = (Fraction(n) for n in (a.scale, b.scale, y.scale))
        for at in np.nonzero(_near_tie(near, _TIE) & (np.abs(near) < 1024))[0]:
            total = int(a.steps[i[at]]) * x + int(b.steps[j[at]]) * z
            want[at] = round(total / to)
    return i, j, _bounded(want, y)


@lru_cache(_KEPT)
def product_number(a: Operand, b: Operand, y: Operand) -> float | None:
    """k so that round((a - za) (b - zb) k) is the rounded product of both numbers, over sy."""
    products, ratio, near, want = _products(a, b, y)
    left = products[near].astype(np.float32)
    for d in _around(12):
        k = _moved(float(ratio), d)
        if np.array_equal(_bounded(np.rint(left * k), y), want):
            return float(k)
    return None


@lru_cache(_KEPT)
def product_is_exact(a: Operand, b: Operand, y: Operand) -> bool:
    """Whether the product times sa sb, over sy, rounds to the right code in float64."""
    products, _, near, want = _products(a, b, y)
    found = products[near] * (a.scale * b.scale) / y.scale
    return np.array_equal(_bounded(np.rint(found), y), want)


@lru_cache(1)
def _products(a: Operand, b: Operand, y: Operand) -> tuple[Array, Fraction, Array, Array]:
    """Distinct products, the exact ratio, which of them lie next to a tie, and their codes."""
    products = np.unique(a.steps[:, None] * b.steps)
    ratio = Fraction(a.scale) * Fraction(b.scale) / Fraction(y.scale)
    exact = products * float(ratio)
    inside = np.abs(exact) < 1024  # others saturate, whatever the rounding
    near = np.nonzero(_near_tie(exact, 1024 * 2.0**-19) & inside)[0]
    want = np.rint(exact[near])
    for at in np.nonzero(_near_tie(exact[near], _TIE))[0]:
        want[at] = round(int(products[near[at]]) * ratio)
    return products, ratio, near, _bounded(want, y)


def _around(most: int) -> Iterator[int]:
    yield 0
    for d in range(1, most + 1):
        yield from (d, -d)


def _moved(number: float, units: int) -> np.float32:
    """The float32 next to a number, some units in the last place away."""
    found = np.float32(number)
    toward = np.float32(np.inf if units > 0 else -np.inf)
    for _ in range(abs(units)):
        found = np.nextafter(found, toward)
    return np.float32(found)


def _near_tie(x: Array, slack: float) -> Array:
    return np.asarray(np.abs(x - np.floor(x) - 0.5) <= slack)


def _bounded(steps: Array, y: Operand) -> Array:
    return np.clip(steps.astype(np.float64), y.low - y.zero, y.high - y.zero)
