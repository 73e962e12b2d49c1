"""QuantizeLinear and DequantizeLinear in floats and exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from rewrite.quant.affine import dequantize, dequantize_exact, quantize, quantize_exact
from rewrite.quant.codes import CODES, every_code, values_of
from rewrite.quant.faults import QuantError
from rewrite.quant.params import quant_params
from rewrite.quant.rounding import Order, Rounding
from tests.quant import exact

INTEGERS = [n for n, c in CODES.items() if c.kind == "int" and c.bits <= 16]
FLOATS = [n for n, c in CODES.items() if c.kind == "float"]


def reals(rng, scale, count=400):
    halves = rng.integers(-70000, 70000, count) * (float(scale) / 2)
    return np.concatenate([halves, rng.normal(0, 50 * float(scale), count)]).astype(np.float32)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("mode", list(Rounding))
def test_exact_codes(name, mode):
    rng = np.random.default_rng(31)
    code = CODES[name]
    for scale in (np.float32(0.1), np.float32(0.25), np.float16(0.3), np.float64(1 / 3)):
        zero = int(rng.integers(code.low, code.high + 1))
        params = quant_params(name, scale, zero)
        for order in Order:
            if mode is Rounding.TOWARD_ZERO and order is Order.ADD_THEN_ROUND:
                continue
            x = reals(rng, scale)
            found = quantize_exact(x, params, mode, order)
            wanted = [
                exact.code(*(exact.rational(v) / exact.rational(scale)).as_integer_ratio(), zero,
                           (code.low, code.high), order is Order.ADD_THEN_ROUND, mode.value)
                for v in x
            ]  # fmt: skip
            assert found.astype(int).tolist() == wanted
            assert found.dtype == code.dtype


@pytest.mark.parametrize("name", FLOATS)
def test_float_codes(name):
    """The nearest code by fractions, ties to the even mantissa; both forms, on ties too."""
    rng = np.random.default_rng(32)
    code, scale = CODES[name], np.float32(0.75)
    params = quant_params(name, scale)
    grid = every_code(code)
    numbers = values_of(grid)
    finite = [(Fraction(v), int(b) & 1) for v, b in zip(numbers, grid.view(np.uint8), strict=True)
              if np.isfinite(v)]  # fmt: skip
    distinct = sorted({v for v, _ in finite})
    middles = [float((a + b) / 2 * Fraction(float(scale))) for a, b in pairwise(distinct)]
    x = np.array(middles + (rng.normal(0, code.high / 4, 200)).tolist(), np.float32)
    x = np.concatenate([x, np.float32([1e38, -1e38, np.inf, -np.inf, 0.0])])
    exactly, in_floats = quantize_exact(x, params), quantize(x, params)
    for v, a, b in zip(x, values_of(exactly), values_of(in_floats), strict=True):
        if np.isinf(v):
            assert a == b == np.sign(v) * code.high
            continue
        ratio = exact.rational(v) / exact.rational(scale)
        distance = min(abs(ratio - f) for f, _ in finite)
        nearest = [(f, odd) for f, odd in finite if abs(ratio - f) == distance]
        wanted = nearest[0][0] if len({f for f, _ in nearest}) == 1 else next(
            f for f, odd in nearest if not odd)  # fmt: skip
        assert Fraction(a) == wanted
        narrow = Fraction(exact.f32(ratio))
        distance = min(abs(narrow - f) for f, _ in finite)
        assert abs(narrow - Fraction(b)) == distance


def test_float_codes_without_saturation():
    x = np.float32([1e6, -1e6, 1.0])
    found = values_of(quantize(x, quant_params("f8e4m3fn", 1.0), saturating=False))
    assert np.isnan(found[:2]).all()
    found = values_of(quantize(x, quant_params("f8e5m2", 1.0), saturating=False))
    assert found.tolist() == [np.inf, -np.inf, 1.0]


def test_infinities_saturate_and_nan_is_named():
    params = quant_params("s8", 0.1, 5)
    x = np.float32([np.inf, -np.inf, 1e10, -1e10])
    for f in (quantize, quantize_exact):
        assert f(x, params).tolist() == [127, -128, 127, -128]
        with pytest.raises(QuantError, match="NaN") as caught:
            f(np.float32([1, np.nan]), params)
        assert caught.value.faults == ("NaN has no code",)


def test_division_in_float32_can_make_a_tie():
    """Where quantize and quantize_exact differ, the float32 quotient is a tie and the exact one
    is not."""
    rng = np.random.default_rng(33)
    seen = 0
    for scale in (10.0 ** rng.uniform(-3, 0, 60)).astype(np.float32):
        params = quant_params("s16", scale)
        x = np.float32(np.arange(-3000, 3000) + 0.5) * scale
        for i in np.flatnonzero(quantize(x, params) != quantize_exact(x, params)):
            ratio = exact.rational(x[i]) / exact.rational(scale)
            assert Fraction(exact.f32(ratio)).denominator == 2
            assert ratio.denominator != 2
            seen += 1
    assert seen > 100


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_dequantize(kind):
    """(code - zero point) rounded to the output's type, times scale, rounded once."""
    digits, least, most = {"float32": (24, -126, 127), "float16": (11, -14, 15),
                           "bfloat16": (8, -126, 127)}[np.dtype(kind).name]  # fmt: skip
    rng = np.random.default_rng(34)
    for name in ("u8", "s8", "u16", "s4"):
        code = CODES[name]
        scale, zero = np.asarray(0.037, kind), int(rng.integers(code.low, code.high + 1))
        params = quant_params(name, scale, zero)
        codes = every_code(code)[:: max(1, code.count // 300)]
        found = dequantize(codes, params)
        assert found.dtype == np.dtype(kind)
        for c, f in zip(values_of(codes), values_of(found), strict=True):
            step = Fraction(exact.to_float(Fraction(int(c) - zero), digits, least, most))
            assert f == exact.to_float(step * exact.rational(scale), digits, least, most)
        values = dequantize_exact(codes, params)
        for c, v in zip(values_of(codes), values, strict=True):
            assert Fraction(v) == (int(c) - zero) * exact.rational(scale)


def test_steps_do_not_wrap():
    """ExecuTorch PR 20655: s8 codes less an s8 zero point need more than 8 bits."""
    found = dequantize(np.int8([-128, 127]), quant_params("s8", 1.0, 100))
    assert found.tolist() == [-228.0, 27.0]


def test_round_trip_is_the_identity_on_codes_but_for_fp16_scales_of_16_bits():
    """R3: exact for 8 and 16 bits at float32 scales; float16 scales and 16 bits lose codes."""
    rng = np.random.default_rng(35)
    for name in ("u8", "s8", "u16", "s16"):
        code = CODES[name]
        for scale in (10.0 ** rng.uniform(-6, 3, 12)).astype(np.float32):
            params = quant_params(name, scale, int(rng.integers(code.low, code.high + 1)))
            codes = every_code(code)
            assert np.array_equal(quantize(dequantize(codes, params), params), codes)
            if code.bits == 16 and 1e-4 < scale < 1:
                half = quant_params(name, np.float16(scale), params.zero_point)
                assert not np.array_equal(quantize(dequantize(codes, half), half), codes)


def test_per_axis_and_blocks_agree_with_slices():
    rng = np.random.default_rng(36)
    x = rng.normal(0, 3, (3, 10)).astype(np.float32)
    rows = quant_params("s8", [0.1, 0.2, 0.05], [1, -3, 7], axis=0)
    blocks = quant_params("s4", rng.uniform(0.1, 1, (3, 3)).astype(np.float32), axis=1, block=4)
    for f in (quantize, quantize_exact):
        for r in range(3):
            one = quant_params("s8", rows.scale[r], rows.zero_point[r])
            assert np.array_equal(f(x, rows)[r], f(x[r], one))
            for b in range(3):
                cell = quant_params("s4", blocks.scale[r, b])
                part = slice(4 * b, 4 * b + 4)
                assert np.array_equal(f(x, blocks)[r, part], f(x[r, part], cell))
