"""Bounds of activations on codes: for every grid point, Q of the clipped number is the clamped Q.

Both sides are evaluated in Python's fractions; the bounds come from `rewrite.quant.clamp`.
REWRITE_QUANT_GRID multiplies the number of parameter sets (1: some 90,000 comparisons per type).
"""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.clamp import Bounds, bounds, clamp, interval, redundant
from rewrite.quant.faults import QuantError
from rewrite.quant.params import quant_params
from rewrite.quant.rounding import Rounding
from tests.quant import exact

SIZE = int(os.environ.get("REWRITE_QUANT_GRID", "1"))
TYPES = {"u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16}
ACTIVATIONS = [(0.0, None), (0.0, 6.0), (-1.0, 1.0), (None, 0.0), (-3.0, -1.0), (0.5, 0.25),
               (-0.0, 1e30), (1.5, 2.5), (-1e30, -1e-30), (-np.inf, np.inf)]  # fmt: skip


def scales(rng):
    fixed = [0.5, 0.25, 1.0, 3.0, 2.0**-20, 6 / 255, 6 / 65535, 0.1]
    return [np.float32(s) for s in fixed] + list(
        (10.0 ** rng.uniform(-5, 1, 3 * SIZE)).astype(np.float32)
    )


def zeros(rng, kind):
    info = np.iinfo(kind)
    return [info.min, info.min + 1, info.max, 0, *rng.integers(info.min, info.max + 1, 2).tolist()]


def points(rng, scale, zero, limits, a, b):
    """float32 numbers at every kind of place: ties, next to ties, bounds, next to bounds, ends."""
    steps = np.array([limits[0] - zero, limits[1] - zero, 0, *rng.integers(-300, 300, 2)], float)
    ties = np.concatenate([(steps + h) * float(scale) for h in (-0.5, 0, 0.5)])
    ends = [v for v in (a, b) if v is not None and np.isfinite(v)]
    ends += [v + k * float(scale) / 2 for v in ends for k in (-1, 1)]
    with np.errstate(over="ignore"):
        x = np.concatenate([ties, ends, [0.0, 1e38, -1e38]]).astype(np.float32)
    return np.concatenate(
        [x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, -np.float32(1e38))]
    )


def code_of(x, scale, zero, limits):
    """QuantizeLinear by the rational quotient, and by the float32 one."""
    if np.isinf(x):
        return (limits[x > 0],) * 2
    ratio = exact.rational(x) / exact.rational(scale)
    narrow = exact.f32(ratio)
    whole = exact.code(*ratio.as_integer_ratio(), zero, limits)
    if np.isinf(narrow):
        return whole, whole
    return whole, exact.code(*Fraction(narrow).as_integer_ratio(), zero, limits)


def clipped(x, a, b):
    x = x if a is None else max(x, np.float32(a))
    return x if b is None else min(x, np.float32(b))


@pytest.mark.parametrize("name", TYPES)
def test_no_counterexample_on_the_grid(name):
    rng = np.random.default_rng([21, len(name), TYPES[name]().itemsize, name[0] == "s"])
    limits = exact.RANGES[np.dtype(TYPES[name]).name]
    compared = 0
    for scale in scales(rng):
        for zero in zeros(rng, TYPES[name]):
            params = quant_params(name, scale, TYPES[name](zero))
            for a, b in ACTIVATIONS:
                pair = (bounds(a, b, params, exact=True), bounds(a, b, params))
                for x in points(rng, scale, zero, limits, a, b):
                    before = code_of(clipped(x, a, b), scale, zero, limits)
                    after = code_of(x, scale, zero, limits)
                    for wanted, code, found in zip(before, after, pair, strict=True):
                        assert wanted == min(max(code, found.low), found.high), (scale, zero, a, b)
                        compared += 1
    assert compared > 50_000 * SIZE // 2
    print(f"{name}: {compared} comparisons")


@pytest.mark.parametrize("name", TYPES)
def test_redundant_means_no_number_is_clipped(name):
    """redundant: the formula of the unsaturated codes; and where it does not hold, a witness."""
    rng = np.random.default_rng([22, len(name)])
    limits = exact.RANGES[np.dtype(TYPES[name]).name]
    for scale in scales(rng):
        for zero in zeros(rng, TYPES[name]):
            params = quant_params(name, scale, TYPES[name](zero))
            for a, b in ((0.0, None), (0.0, 6.0), (-1.0, 1.0), (None, None), (-1e6, 1e6)):
                low = -(10**9) if a is None else round(exact.rational(a) / exact.rational(scale))
                high = 10**9 if b is None else round(exact.rational(b) / exact.rational(scale))
                exactly = low + zero <= limits[0] and high + zero >= limits[1]
                assert redundant(a, b, params) == exactly or not bounds(a, b, params).agree
            assert redundant(0.0, None, params) == (zero == limits[0])


def test_relu_of_signed_codes_clamps_at_the_zero_point():
    """Not at a literal 0 (ExecuTorch PR 18462), and not dropped at zero point 0 (ORT 11660)."""
    params = quant_params("s8", 0.1, -5)
    found = bounds(0.0, None, params)
    assert (int(found.low), int(found.high)) == (-5, 127)
    symmetric = quant_params("s8", 0.1, 0)
    assert not redundant(0.0, None, symmetric)
    assert int(bounds(0.0, None, symmetric).low) == 0
    assert redundant(0.0, None, quant_params("s8", 0.1, -128))


def test_vector_bounds():
    params = quant_params("u8", [0.1, 0.02, 0.5], np.array([3, 7, 0], np.uint8), axis=1)
    found = bounds(0.0, 6.0, params)
    assert found.low.tolist() == [3, 7, 0]
    assert found.high.tolist() == [63, 255, 12]
    codes = np.arange(18, dtype=np.uint8).reshape(2, 3, 3)
    clamped = clamp(codes, found, axis=1)
    for c in range(3):
        wanted = np.minimum(np.maximum(codes[:, c], found.low[c]), found.high[c])
        assert np.array_equal(clamped[:, c], wanted)
    assert clamped.dtype == np.uint8


def test_activation_ranges_of_tensorflow_lite():
    """std::round breaks ties away from zero: 6 / 0.16 = 37.5 only nearly; 2.5 / 1 exactly."""
    params = quant_params("s8", 1.0, 0)
    assert int(bounds(0.0, 2.5, params).high) == 2
    assert int(bounds(0.0, 2.5, params, rounding=Rounding.HALF_AWAY).high) == 3
    assert int(bounds(-2.5, 2.5, params, rounding=Rounding.HALF_AWAY).low) == -3


def test_where_float32_division_makes_a_tie():
    """x / s rounds to 2.5 in float32 but is not 2.5: the two arithmetics part, and say so."""
    scale = np.float32(0.1)
    bound = next(
        float(x)
        for x in (np.float32(k + 0.5) * scale for k in range(1, 400))
        if (exact.rational(x) / exact.rational(scale)).denominator != 2
        and code_of(x, scale, 0, (-32768, 32767))[0] != code_of(x, scale, 0, (-32768, 32767))[1]
    )
    found = bounds(0.0, bound, quant_params("s16", scale))
    assert not found.agree
    other = bounds(0.0, bound, quant_params("s16", scale), exact=True)
    assert abs(int(found.high) - int(other.high)) == 1


def test_what_has_no_bounds():
    with pytest.raises(QuantError, match="NaN"):
        bounds(float("nan"), None, quant_params("u8", 0.1))
    with pytest.raises(QuantError, match="f8e4m3fn"):
        bounds(0.0, None, quant_params("f8e4m3fn", 0.1))
    blocked = quant_params("u8", np.ones((2, 2), np.float32), axis=1, block=4)
    with pytest.raises(QuantError, match="blocked"):
        bounds(0.0, None, blocked)


def test_interval():
    low, high = interval(quant_params("u8", np.float32(0.5), 128))
    assert (float(low), float(high)) == (-64.0, 63.5)
    low, high = interval(quant_params("s8", [0.5, 0.25], [0, 28], axis=1))
    assert (low.tolist(), high.tolist()) == ([-64.0, -39.0], [63.5, 24.75])
    assert isinstance(bounds(None, None, quant_params("u8", 0.5)), Bounds)
