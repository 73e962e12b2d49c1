"""Biases in int32, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from rewrite.quant import bias
from tests.quant import exact


def test_fold():
    rng = np.random.default_rng(51)
    x_s, w_s = np.float32(0.02), (10.0 ** rng.uniform(-4, -2, 60)).astype(np.float32)
    b = rng.normal(0, 3, 60).astype(np.float32)
    b[:20] = (rng.integers(-99, 99, 20) + 0.5) * float(x_s) * w_s[:20].astype(float)
    folded = bias.fold(b, x_s, w_s)
    assert folded.faults == ()
    for v, s, k, e in zip(b, w_s, folded.codes, folded.error, strict=True):
        quotient = exact.rational(v) / (exact.rational(x_s) * exact.rational(s))
        assert k == round(quotient)
        assert abs(Fraction(e) - abs(quotient - k)) < Fraction(1, 10**12)
        assert e <= 0.5
    steps = folded.steps(x_s, w_s, np.float32(0.05))
    assert np.allclose(steps, folded.error * 0.02 * w_s / 0.05, rtol=1e-6)


def test_out_of_range():
    folded = bias.fold(np.float32([1.0, 1e9, -1e9]), np.float32(1e-3), np.float32([1e-3]))
    assert folded.faults == ("int32 bias out of range",)
    assert folded.saturated == (1, 2)
    assert folded.codes.tolist() == [round(1 / (Fraction(float(np.float32(1e-3))) ** 2)),
                                     (1 << 31) - 1, -(1 << 31)]  # fmt: skip
    edge = bias.fold(np.float32([2.0**31, -(2.0**31)]), np.float32(1), np.float32(1))
    assert edge.saturated == (0,)


def test_a_scale_off_by_less_than_one_percent():
    """ORT PR 28229 accepts 1 %: b = 5000 at a scale 0.9 % off is two steps of the output."""
    x_s, w_s, y_s = np.float32(0.02), np.float32(0.01), np.float32(0.0045)
    b_s = np.float32(float(x_s) * float(w_s) * 1.009)
    assert not bias.is_product(b_s, x_s, w_s)
    assert bias.is_product(x_s * w_s, x_s, w_s)
    lost = bias.mismatch(np.int32([5000]), b_s, x_s, w_s, y_s)
    assert abs(lost[0] - 2.0) < 1e-3
    repaired = bias.repair(np.int32([5000]), b_s, x_s, w_s)
    unit = exact.rational(x_s) * exact.rational(w_s)
    assert repaired.codes.tolist() == [round(5000 * exact.rational(b_s) / unit)]
    assert repaired.codes.tolist() == [5045]
    assert repaired.error[0] <= 0.5


def test_products_per_channel():
    x_s, w_s = np.float32(0.3), np.float32([0.1, 0.7, 0.9])
    assert bias.is_product(x_s * w_s, x_s, w_s)
    off = (x_s * w_s).copy()
    off[1] = np.nextafter(off[1], np.float32(1))
    assert not bias.is_product(off, x_s, w_s)
    assert not bias.is_product(np.float32(0.03), x_s, w_s)
