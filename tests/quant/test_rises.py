"""Rises of the exact code against rationals, and samples against every accumulator."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.body import Body, Clamp
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS, Single
from rewrite.quant.rises import apart, exact_rises, joined, packed, samples

BOUND = 700
ACC = np.arange(-BOUND, BOUND + 1)


def _codes(ratio: Fraction, clamp: Clamp) -> np.ndarray:
    """Of every accumulator; `round` of a rational is half to even."""
    codes = [round(int(a) * ratio) + clamp.zero_point for a in ACC]
    return np.clip(codes, clamp.low, clamp.high)


def _ratios(seed: int) -> list[Fraction]:
    """With ties everywhere, at some accumulators and almost nowhere."""
    rng = np.random.default_rng(seed)
    some = [Fraction(float(np.float32(2.0 ** rng.uniform(-12, 2)))) for _ in range(4)]
    near = [Fraction(1, 7) + Fraction(1, 1 << 60), Fraction(1, 7) - Fraction(1, 1 << 60)]
    return [Fraction(1, 8), Fraction(3, 64), Fraction(5, 2), Fraction(1, 7), *near, *some]


@pytest.mark.parametrize("zero", [-7, 0, 3, 100])
def test_rises_are_where_rationals_have_them(zero: int) -> None:
    clamp = Clamp(zero, -40, 41, "s8")
    ratios = _ratios(zero + 10)
    found = exact_rises(ratios, clamp, BOUND)
    for column, ratio in zip(found.T, ratios, strict=True):
        codes = _codes(ratio, clamp)
        first = [int(np.argmax(codes >= c)) if (codes >= c).any() else len(ACC)
                 for c in range(clamp.low + 1, clamp.high + 1)]  # fmt: skip
        np.testing.assert_array_equal(column, np.array(first) - BOUND)


@pytest.mark.parametrize("by", [-300, -3, -1, 0, 1, 3, 300])
def test_critical_samples_decide_as_every_accumulator_does(by: int) -> None:
    """Factors some units in the last place off, both sides and none."""
    clamp = Clamp(3, -50, 50, "s8")
    ratios = [r for r in _ratios(by + 400) if r < 1]
    base = REQUANTIZERS["ort_x86"]
    factor = base.derive(ratios)
    assert isinstance(factor, Single)
    moved = Single((factor.scale.view(np.int32) + np.int32(by)).view(np.float32))
    given = (clamp.zero_point, clamp.low, clamp.high, 1)
    body = Body(base, BOUND)
    made = body.apply(ACC[:, None].repeat(len(ratios), 1), moved, *given)
    differs = [(made[:, i] != _codes(r, clamp)).any() for i, r in enumerate(ratios)]
    all_of_them = samples(exact_rises(ratios, clamp, BOUND), clamp, BOUND)
    few = all_of_them.critical(clamp.zero_point)
    assert len(few.acc) < len(all_of_them.acc)
    for some in (all_of_them, few):
        assert (np.abs(some.acc[some.valid]) <= BOUND).all()
        wrong = (body.apply(some.acc, moved, *given) >= some.code) != some.reached
        assert (wrong & some.valid).any(0).tolist() == differs
    assert any(differs) or abs(by) < 300


def test_packed_has_the_rows_of_each_channel() -> None:
    mask = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 0]], bool)
    np.testing.assert_array_equal(packed(mask), [[1, 0, 0], [2, 2, 0]])
    assert packed(np.zeros((3, 2), bool)).shape == (1, 2)
    assert packed(np.zeros((0, 2), bool)).shape == (0, 2)


def test_how_far_apart_is_counted_by_accumulators() -> None:
    """Codes 1 and 2 rise late by 3 and 1 accumulators, which overlap in one."""
    exact, made = np.array([[10, -5], [12, 8]]), np.array([[13, -5], [13, 8]])
    found = apart(made, exact, 20, np.array([4, 6]))
    assert (found.differing, found.most, found.witness) == (3, 2, (12, 4))
    other = apart(exact, exact, 20, np.array([0, 1]))
    assert (other.differing, other.most, other.witness) == (0, 0, None)
    total = joined([other, found, found])
    assert (total.differing, total.most, total.witness) == (6, 2, (12, 4))


@pytest.mark.parametrize(("name", "bound"), [("vela_truncate", 100), ("vela_natural", 0)])
def test_a_shift_beyond_63_bits_is_refused(name: str, bound: int) -> None:
    body = Body(REQUANTIZERS[name], bound)
    factor = body.derive([Fraction(1, 1 << 33)])
    with pytest.raises(QuantError):
        body.apply(np.array([[0]]), factor, 0, -128, 127, 1)
