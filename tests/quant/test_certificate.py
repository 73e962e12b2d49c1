"""Certificates: counts, worst differences and witnesses are those of trying everything."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.certificate import (
    Claim,
    bound,
    compare_factors,
    compare_requantizers,
    compare_steps,
    exhaust_binary,
    exhaust_unary,
    ordinals,
    steps,
)
from rewrite.quant.codes import CODES, every_code, values_of
from rewrite.quant.faults import QuantError
from rewrite.quant.params import quant_params
from rewrite.quant.reference import Arithmetic, evaluate
from rewrite.quant.requantize import REQUANTIZERS
from rewrite.quant.rounding import Order
from rewrite.quant.table import build

U8 = CODES["u8"]
INT32 = (-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize("name", REQUANTIZERS)
@pytest.mark.parametrize("ratio", [0.0037, 0.25, 2.0**-8, 0.9])
def test_steps_count_every_accumulator(name, ratio):
    """On a domain small enough to try all of it."""
    a, b = REQUANTIZERS["onnx_qdq"], REQUANTIZERS[name]
    domain = (-40_000, 40_000)
    found = compare_requantizers(a, b, ratio, 7, -128, 127, domain)
    acc = np.arange(domain[0], domain[1] + 1)
    x, y = (r.apply(acc, r.derive(ratio), 7, -128, 127) for r in (a, b))
    difference = np.abs(x - y)
    assert found.cases == acc.size
    assert found.mismatches == int((difference > 0).sum())
    assert found.max_lsb == int(difference.max())
    if found.mismatches:
        (where,) = found.witness
        assert difference[where - domain[0]] == found.max_lsb
        assert found.claim == Claim("lsb", found.max_lsb)
    else:
        assert found.witness is None
        assert found.claim == Claim("exact")


def test_the_whole_int32_range():
    a, b = REQUANTIZERS["onnx_qdq"], REQUANTIZERS["tflite_single"]
    ratio = Fraction(float(np.float32(0.0037)))
    found = compare_requantizers(a, b, ratio, 0, -128, 127)
    assert found.domain == INT32
    assert found.cases == 1 << 32
    assert found.supports(Claim("exact"))
    ties = compare_requantizers(a, b, Fraction(1, 256), 0, -128, 127)
    assert ties.mismatches == len(range(-128, 127, 2))  # ties n + 1/2 with n even
    (where,) = ties.witness
    assert Fraction(where, 256).denominator == 2
    assert not ties.supports(Claim("exact"))
    assert ties.supports(Claim("lsb", 1))


def test_sixteen_bits():
    a, b = REQUANTIZERS["onnx_qdq"], REQUANTIZERS["tflite_double"]
    found = compare_requantizers(a, b, 0.0037, 0, -32768, 32767)
    rng = np.random.default_rng(81)
    acc = rng.integers(-8_000_000, 8_000_000, 400_000)
    x, y = (r.apply(acc, r.derive(0.0037), 0, -32768, 32767) for r in (a, b))
    assert found.max_lsb == 1
    rate = found.mismatches / (65536 / 0.0037)
    sampled = ((x != y) & (np.abs(x) < 32767)).sum() / (np.abs(acc) < 32767 / 0.0037).sum()
    assert abs(rate - sampled) < 0.3 * rate


def test_channels_are_joined():
    a, b = REQUANTIZERS["onnx_qdq"], REQUANTIZERS["tflite_double"]
    ratios = [Fraction(1, 3), Fraction(1, 256), Fraction(float(np.float32(0.01)))]
    parts = [compare_requantizers(a, b, r, 0, -128, 127) for r in ratios]
    joined = compare_requantizers(a, b, ratios, 0, -128, 127)
    assert joined.cases == sum(p.cases for p in parts)
    assert joined.mismatches == sum(p.mismatches for p in parts)
    where, channel = joined.witness
    assert parts[channel].witness == (where,)
    scales = np.asarray(0.02, np.float32), np.float32([0.01, 0.03]), np.asarray(0.05, np.float32)
    x = REQUANTIZERS["ort_x86"]
    of_scales = compare_factors(
        a, x, (a.derive_scales(*scales), x.derive_scales(*scales)), 0, -128, 127
    )
    assert of_scales.cases == 2 << 32


def test_positions_of_steps():
    found = steps(lambda acc: np.clip((acc + 5) // 10, -3, 3), (-100, 100))
    assert found.tolist() == [-25, -15, -5, 5, 15, 25]
    assert steps(lambda acc: np.zeros_like(acc), (-5, 5)).tolist() == []
    with pytest.raises(QuantError, match="monotone"):
        steps(lambda acc: -acc, (-5, 5))
    constant = compare_steps(lambda a: 0 * a, lambda a: 0 * a + 2, (0, 9))
    assert (constant.mismatches, constant.max_lsb, constant.witness) == (10, 2, (0,))


def test_exhausted_unary():
    source, target = quant_params("u8", 0.1, 3), quant_params("u8", 0.2, 9)
    table = build(lambda x: x, source, target)
    off = table.entries.copy()
    off[200] += 3
    found = exhaust_unary(table.apply, lambda c: off[c], U8, U8)
    assert (found.cases, found.mismatches, found.max_lsb, found.witness) == (256, 1, 3, (200,))
    same = exhaust_unary(table.apply, table.apply, U8, U8)
    assert str(same) == "exact: exhausted, 256 cases, 0 differ"


def test_exhausted_binary_orders_of_the_zero_point():
    """QLinearAdd 0.25, 0.25 -> 0.5 with zero point 1: the orders differ on half of all pairs."""

    def add(order):
        def f(a, b):
            scales = [np.float32(0.25), np.uint8(0), b, np.float32(0.25), np.uint8(0)]
            operands = [a, *scales, np.float32(0.5), np.uint8(1)]
            arithmetic = Arithmetic(order=order)
            return evaluate("com.microsoft", "QLinearAdd", operands, {}, arithmetic)[0]

        return f

    found = exhaust_binary(add(Order.ROUND_THEN_ADD), add(Order.ADD_THEN_ROUND), U8, U8, U8)
    assert found.cases == 65_536
    assert found.max_lsb == 1
    halves = [Fraction(a + b, 2) for a in range(256) for b in range(256)]
    odd = sum(min(round(h) + 1, 255) != min(round(h + 1), 255) for h in halves)
    assert found.mismatches == odd
    assert 0.49 < odd / 65_536 <= 0.5
    with pytest.raises(QuantError, match="too many"):
        exhaust_binary(add(Order.ROUND_THEN_ADD), add(Order.ROUND_THEN_ADD),
                       CODES["u16"], CODES["u16"], U8)  # fmt: skip


@pytest.mark.parametrize("name", [n for n, c in CODES.items() if c.bits <= 8])
def test_ordinals_count_codes(name):
    """Neighbouring values are one apart; both zeros are one."""
    codes = every_code(CODES[name])
    values, numbers = values_of(codes), ordinals(codes, CODES[name])
    finite = np.isfinite(values)
    distinct = sorted(set(values[finite].tolist()))
    rank = {v: i - distinct.index(0.0) for i, v in enumerate(distinct)}
    assert numbers[finite].tolist() == [rank[v] for v in values[finite].tolist()] or (
        CODES[name].kind == "int"
    )


def test_bounds():
    made = bound(0.4, (3,))
    assert made.claim == Claim("approx", 0.4)
    assert made.supports(Claim("approx", 0.5))
    assert not made.supports(Claim("exact"))
    with pytest.raises(QuantError, match="finite"):
        bound(float("inf"))
