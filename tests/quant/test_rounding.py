"""Rounding of exact quotients, against Python's divmod on unbounded integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.requantize import half_away, half_up, srdhm, toward_zero
from rewrite.quant.rounding import (
    LARGEST,
    Order,
    Rounding,
    quotient,
    round_fraction,
    round_parts,
    round_ratio,
    two_product,
    two_sum,
)
from tests.quant import exact

MODES = list(Rounding)


@pytest.mark.parametrize("mode", MODES)
def test_ratios_of_all_small_integers(mode):
    n, d = np.meshgrid(np.arange(-60, 61), np.arange(1, 18))
    wanted = [
        exact.rounded(int(a), int(b), mode.value) for a, b in zip(n.flat, d.flat, strict=True)
    ]
    assert round_ratio(n, d, mode).reshape(-1).tolist() == wanted
    wide = round_ratio(n.astype(object) << 200, d.astype(object) << 200, mode)
    assert wide.reshape(-1).tolist() == wanted
    assert [
        round_fraction(Fraction(int(a), int(b)), mode) for a, b in zip(n.flat, d.flat, strict=True)
    ] == wanted


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", list(Order))
def test_quotients_of_floats(mode, order):
    """Ties, neighbours of ties by one unit in the last place of an unevaluated sum, and others."""
    rng = np.random.default_rng(5)
    den = rng.integers(1, 1 << 24, 4000).astype(np.float64) * 2.0 ** rng.integers(-60, 40, 4000)
    k = rng.integers(-70000, 70000, 4000)
    hi, lo = two_product(k + 0.5, den)
    nudge = rng.integers(-1, 2, 4000) * np.spacing(np.maximum(np.abs(lo), np.spacing(hi) / 64))
    lo = lo + nudge
    zero = rng.integers(-200, 200, 4000)
    found = round_parts(quotient(hi, lo, den), mode, zero, order)
    before = order is Order.ADD_THEN_ROUND
    for i in range(4000):
        value = (Fraction(hi[i]) + Fraction(lo[i])) / Fraction(den[i])
        shift = int(zero[i]) if before else 0
        wanted = exact.rounded(value.numerator, value.denominator, mode.value, shift)
        if before and mode is Rounding.TOWARD_ZERO:
            moved = value + shift
            wanted = exact.rounded(moved.numerator, moved.denominator, mode.value) - shift
        assert found[i] == wanted + zero[i]


def test_large_quotients_are_clipped_and_infinities_too():
    hi = np.array([1e30, -1e30, np.inf, -np.inf, 3.0])
    parts = quotient(hi, np.zeros(5), np.array(1e-30))
    assert parts.floor.tolist() == [LARGEST, -LARGEST, LARGEST, -LARGEST, LARGEST]
    with pytest.raises(ValueError, match="NaN"):
        quotient(np.array([np.nan]), np.zeros(1), np.ones(1))


def test_what_cancels_to_the_last_bit():
    """hi is a unit above k den, lo a unit and 2^-53 of one below the rest: k den is just missed,
    and the sum of the four terms in float64 is 0."""
    rng = np.random.default_rng(9)
    seen = 0
    for _ in range(200):
        den = float(rng.integers(1 << 52, 1 << 53)) * 2.0**-60
        k = int(rng.integers(1 << 20, 1 << 27))
        product, rest = two_product(np.float64(k), np.float64(den))
        unit = Fraction(float(np.spacing(product)))
        low = Fraction(float(rest)) - unit - unit / (1 << 53)
        hi = np.array([float(Fraction(float(product)) + unit)])
        if rest <= 0 or Fraction(float(low)) != low:
            continue
        exactly = Fraction(float(hi[0])) + low - k * Fraction(den)
        assert exactly == -unit / (1 << 53)
        parts = quotient(hi, np.array([float(low)]), np.array(den))
        assert (parts.floor[0], bool(parts.whole[0])) == (k - 1, False)
        seen += 1
    assert seen > 40


def test_error_free_transformations():
    rng = np.random.default_rng(6)
    a, b = (rng.normal(size=500) * 2.0 ** rng.integers(-40, 40, 500) for _ in range(2))
    for f, exactly in ((two_sum, lambda x, y: x + y), (two_product, lambda x, y: x * y)):
        hi, lo = f(a, b)
        for i in range(500):
            total = exactly(Fraction(a[i]), Fraction(b[i]))
            assert Fraction(hi[i]) + Fraction(lo[i]) == total


def test_high_multiply_at_its_ends():
    """As in CMSIS-NN and gemmlowp: nudge, then division toward zero; INT_MIN^2 saturates."""
    low, high = -(1 << 31), (1 << 31) - 1
    rng = np.random.default_rng(7)
    ends = [low, low + 1, -1, 0, 1, 1 << 30, -(1 << 30), high - 1, high]
    a = np.array([x for x in ends for _ in ends] + rng.integers(low, high, 3000).tolist())
    b = np.array([y for _ in ends for y in ends] + rng.integers(low, high, 3000).tolist())
    for x, y, found in zip(a.tolist(), b.tolist(), srdhm(a, b).tolist(), strict=True):
        product = x * y
        nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
        wanted = nudged // (1 << 31) if nudged >= 0 else -(-nudged // (1 << 31))
        assert found == (high if x == y == low else wanted)
    assert srdhm(np.array([low]), np.array([low])).tolist() == [high]


@pytest.mark.parametrize(
    ("shift", "mode"),
    [(half_up, "half_up"), (half_away, "half_away"), (toward_zero, "toward_zero")],
)
def test_shifts(shift, mode):
    rng = np.random.default_rng(8)
    x = np.concatenate([np.arange(-40, 41), rng.integers(-(1 << 62), 1 << 62, 500)])
    for bits in (0, 1, 2, 3, 31, 47, 61, 62, 63):
        wanted = [exact.rounded(v, 1 << bits, mode) for v in x.tolist()]
        assert shift(x, bits).tolist() == wanted
