"""The exact value of each operator against element-by-element arithmetic in Python's integers.

tests/bench/quant_oracle.py does a million elements per operator; here a slice of the same calls.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.reference import OPERATORS, Arithmetic, evaluate
from rewrite.quant.rounding import Order
from tests.quant.cases import CASES, calls
from tests.quant.exact import f32 as exact_f32
from tests.quant.exact import quantize_exact

BEFORE = Arithmetic(order=Order.ADD_THEN_ROUND)


def disagreements(operator, count, seed, size):
    """(elements, those that differ) over random calls, in both orders of the zero point."""
    elements = wrong = 0
    for i, (operands, attributes) in enumerate(calls(operator, count, seed, size)):
        before = bool(i % 2)
        wanted = CASES[operator][1](operands, attributes, before)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = evaluate(*operator, operands, attributes, BEFORE if before else None)
        for a, b in zip(found, wanted, strict=True):
            assert np.shape(a) == np.shape(b)
            elements += np.size(b)
            wrong += int((np.asarray(a, np.float64) != np.asarray(b, np.float64)).sum())
    return elements, wrong


@pytest.mark.parametrize("operator", CASES, ids=lambda o: o[1])
def test_value_is_the_rational_one(operator):
    elements, wrong = disagreements(operator, 24, 1, 16)
    assert elements > 300
    assert wrong == 0


def test_every_operator_has_cases():
    transcendental = {"QLinearSigmoid", "QLinearSoftmax"}  # tests of their own
    rest = {name for _, name in OPERATORS} - {name for _, name in CASES}
    assert rest == transcendental


def test_exact_quantize_linear():
    exact = Arithmetic(exact=True, order=Order.ADD_THEN_ROUND)
    for operands, attributes in calls(("", "QuantizeLinear"), 30, 2, 16):
        (found,) = evaluate("", "QuantizeLinear", operands, attributes, exact)
        assert np.array_equal(found, quantize_exact(operands, attributes, True))


def test_a_wrong_order_is_seen():
    """The comparison can fail: odd zero points and ties make the two orders differ."""
    operands, attributes = calls(("com.microsoft", "QLinearAdd"), 1, 3, 64)[0]
    quarter, half, one = np.float32(0.25), np.float32(0.5), np.array(1, operands[0].dtype)
    even = np.zeros((), operands[0].dtype)
    operands = [operands[0], quarter, even, operands[3], quarter, even, half, one]
    after = evaluate("com.microsoft", "QLinearAdd", operands, attributes)[0].astype(int)
    before = evaluate("com.microsoft", "QLinearAdd", operands, attributes, BEFORE)[0].astype(int)
    differ = after != before
    ties = (operands[0].astype(int) + operands[3].astype(int)) % 2 == 1
    info = np.iinfo(operands[0].dtype)
    inside = (after > info.min) & (after < info.max) & (before > info.min) & (before < info.max)
    assert 0.2 < differ.mean() < 0.8
    assert np.array_equal(differ[inside], ties[inside])


def product_plus_bias(acc, a_s, b_s, bias):
    """MatMulIntegerToFloat of one accumulator, made of u8 products."""
    k = -(-acc // 255)
    a = np.full((1, k), 255, np.uint8)
    a[0, -1] = acc - 255 * (k - 1)
    operands = [a, np.ones((k, 1), np.uint8), a_s, b_s, None, None, np.float32([bias])]
    return float(evaluate("com.microsoft", "MatMulIntegerToFloat", operands, {})[0][0, 0])


def test_a_float_output_rounds_once():
    """What float64 would lose decides a tie of float32: (1 + 2^-12)^2 is one; and 2^-60 beside."""
    scale = np.float32(1 + 2.0**-12)
    low, high = 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-23
    for bias, wanted in ((0.0, low), (2.0**-60, high), (-(2.0**-60), low)):
        assert product_plus_bias(1, scale, scale, bias) == wanted


def test_the_low_half_of_a_product_decides_a_tie():
    """Products of more than 53 digits, and biases that bring their high half to a tie."""
    a_s, b_s = np.float32(0.7310585), np.float32(0.8807971)
    scale, seen = Fraction(float(a_s)) * Fraction(float(b_s)), 0
    for acc in range(70_001, 90_000):
        high = float(acc * scale)
        low = acc * scale - Fraction(high)
        unit = Fraction(float(np.spacing(high)))
        away = (1 << 28) - int(Fraction(high) / unit) % (1 << 29)
        bias = float(np.float32(float(away * unit)))
        if low == 0 or Fraction(bias) != away * unit:
            continue
        wanted = exact_f32(acc * scale + Fraction(bias))
        assert product_plus_bias(acc, a_s, b_s, bias) == wanted
        seen += wanted != float(np.float32(high + bias))
    assert seen > 50
