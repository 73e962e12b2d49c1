"""Bounds of sums of products, against every vector of activations, or the worst one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rewrite.quant.accumulator import (
    by_channel,
    group_sums,
    longest_run,
    pair_sums,
    saturating_pairs,
    sums,
)


def test_bounds_are_reached():
    rng = np.random.default_rng(61)
    for _ in range(30):
        w = rng.integers(-8, 8, (3, 4))
        low, high, za = *sorted(rng.integers(0, 5, 2).tolist()), int(rng.integers(0, 5))
        zw, b = rng.integers(-3, 3, 3), rng.integers(-50, 50, 3)
        found = sums(w, low, high, za, zw, b)
        rows = np.array(list(product(range(low, high + 1), repeat=4))) - za
        every = rows @ (w - zw[:, None]).T + b
        assert found.low.tolist() == every.min(0).tolist()
        assert found.high.tolist() == every.max(0).tolist()


def test_partial_sums_in_any_order():
    rng = np.random.default_rng(62)
    w, b = rng.integers(-9, 9, (2, 3)), rng.integers(-40, 40, 2)
    found = sums(w, 0, 3, 1, 0, b)
    for channel in range(2):
        worst = 0
        for row in product(range(4), repeat=3):
            terms = [(a - 1) * int(v) for a, v in zip(row, w[channel], strict=True)]
            terms.append(int(b[channel]))
            down = sum(t for t in terms if t < 0)
            up = sum(t for t in terms if t > 0)
            worst = max(worst, -down, up)
        assert found.partial[channel] == worst


def test_int32_and_float32_limits():
    k = (1 << 31) // (255 * 128)
    w = np.full((1, k), -128)
    assert sums(w, 0, 255).fits_int32.all()
    assert not sums(np.full((1, k + 2), -128), 0, 255).fits_int32.any()
    exact = sums(np.array([[127] * 518]), 0, 255)
    assert int(exact.high[0]) == 127 * 255 * 518 <= 1 << 24
    assert exact.float32_exact.all()
    assert not sums(np.array([[127] * 519]), 0, 255).float32_exact.any()
    edge = np.array([[-128] * 514 + [-53]])  # 255 w adds up to -2^24 but for the bias
    total = 255 * int(edge.sum())
    for off, wanted in ((0, True), (-1, False)):
        found = sums(edge, 255, 255, bias=np.array([-(1 << 24) - total + off]))
        assert int(found.low[0]) == -(1 << 24) + off
        assert bool(found.float32_exact[0]) == wanted
    alternating = np.array([[127, -127] * 400])
    assert sums(alternating, 0, 255).partial[0] == 127 * 255 * 400
    assert exact.bits.tolist() == [25]
    assert sums(np.array([[-128]]), 0, 255).bits.tolist() == [16]


def test_pairs_of_vpmaddubsw():
    """Over all int8 pairs: safe exactly if positives add to at most 128 and negatives too; 75.2 %,
    against 25.4 % under |w| <= 64."""
    w = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)), -1).reshape(-1, 2)
    safe = pair_sums(w).safe[:, 0]
    corners = [w @ np.array(a) for a in product((0, 255), repeat=2)]
    reached = np.stack(corners)
    assert np.array_equal(safe, (reached.max(0) <= 32767) & (reached.min(0) >= -32768))
    rule = (np.maximum(w, 0).sum(1) <= 128) & (np.maximum(-w, 0).sum(1) <= 128)
    assert np.array_equal(safe, rule)
    assert round(100 * safe.mean(), 1) == 75.2
    assert round(100 * (np.abs(w) <= 64).all(1).mean(), 1) == 25.4
    for most in (128, 127, 63):
        assert pair_sums(w, 0, most).safe.all()
    assert not pair_sums(w, 0, 129).safe.all()


def test_published_saturation():
    """ORT 16105: u8 [210, 198, 234] by s8 [-81, -80, 127] is -3132; the pair -32,850 saturates."""
    a, w = np.array([210, 198, 234]), np.array([-81, -80, 127])
    assert int(a @ w) == -3132
    assert a[:2] @ w[:2] == -32850
    assert int(saturating_pairs(a, w)) == -3132 + 82
    assert not pair_sums(w[None]).safe[0, 0]
    assert pair_sums(w[None]).safe[0, 1]
    # 255 * 127 over K = 64: 1,048,544 instead of 2,072,640.
    assert int(saturating_pairs(np.full(64, 255), np.full(64, 127))) == 1_048_544


@pytest.mark.parametrize("size", [2, 4, 6])
def test_groups_of_sixteen_bits(size):
    rng = np.random.default_rng(63)
    w = rng.integers(-128, 128, (5, 12))
    found = group_sums(w, size, 0, 100)
    for c in range(5):
        for g in range(12 // size):
            part = w[c, g * size : (g + 1) * size]
            assert found.high[c, g] == 100 * part[part > 0].sum()
            assert found.low[c, g] == 100 * part[part < 0].sum()
    order = rng.permutation(12)
    assert np.array_equal(group_sums(w, size, order=order).high, group_sums(w[:, order], size).high)


def test_longest_run():
    w = np.array([[10] * 16, [127] * 16, [60] * 16, [-60, 60] * 8])
    assert longest_run(w).tolist() == [12, 0, 2, 4]
    assert longest_run(w, 0, 100)[0] == 16


def test_a_channel_axis():
    w = np.arange(24).reshape(2, 3, 4)
    assert by_channel(w, 2).shape == (4, 6)
    assert by_channel(w, 2)[1].tolist() == [1, 5, 9, 13, 17, 21]
    assert sums(w, 0, 1, axis=1).high.tolist() == w.sum((0, 2)).tolist()
