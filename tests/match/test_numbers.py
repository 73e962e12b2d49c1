"""Literals in patterns: any constant all of whose elements are the number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

MODEL = "g (float[2,3] x) => (float[2,3] y) <{constant}> {{ y = Mul(x, k) }}"


def multiply(constant: str) -> str:
    return MODEL.format(constant=constant)


@pytest.mark.parametrize(
    "constant",
    ["float k = {0.5}", "float[1] k = {0.5}", "float[1,1] k = {0.5}", "float[3] k = {0.5,0.5,0.5}"],
)
def test_any_shape(ask, constant):
    assert ask("y = Mul(x, 0.5)", multiply(constant))


def test_all_elements_must_be_the_number(ask):
    assert ask("y = Mul(x, 0.5)", multiply("float[3] k = {0.5,0.5,0.25}")).code == "literal"


def test_a_value_that_is_not_constant_is_no_literal(ask):
    text = "g (float[2] x) => (float[2] y) { k = Relu(x) y = ordered_(x, k) }"
    text = text.replace("ordered_", "Mul")
    assert ask("y = ordered Mul(x, 0.5)", text).code == "literal"


# 0.1 is not a float32; the nearest float32 is 0.100000001490116..., the next 0.10000000894...
@pytest.mark.parametrize(
    ("number", "exact", "close"),
    [
        ("0.1", True, True), ("0.10000000894069672", False, True),
        ("0.10000002384185791", False, True), ("0.1000001", False, False), ("-0.1", False, False),
    ],
)  # fmt: skip
def test_tolerance_of_float32(ask, number, exact, close):
    """Exact rules compare after rounding; others allow 4 units in the last place of 2^-23."""
    text = multiply(f"float k = {{{number}}}")
    assert bool(ask("y = Mul(x, 0.1)", text)) is exact
    assert bool(ask("y = Mul(x, 0.1)", text, claim="equal(rtol=1e-6)")) is close


@pytest.mark.parametrize(
    ("dtype", "number", "close"),
    [
        ("float16", "0.79785", True), ("float16", "0.7974", True), ("float16", "0.79", False),
        ("bfloat16", "0.796875", True), ("bfloat16", "0.80", True), ("bfloat16", "0.78", False),
        ("double", "0.7978845608", True), ("double", "0.79788460", True),
        ("double", "0.797885", False),
    ],
)  # fmt: skip
def test_tolerance_of_other_types(ask, dtype, number, close):
    """1e-3 for float16, 1e-2 for bfloat16, 1e-7 for float64, of sqrt(2/pi) = 0.7978845608."""
    half = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}.get(dtype)
    # ONNX's text has the bits of 16-bit floats.
    stored = number if half is None else int(np.array(float(number), half).view(np.uint16))
    text = multiply(f"{dtype} k = {{{stored}}}").replace("float[2,3]", f"{dtype}[2,3]")
    found = ask("y = Mul(x, 0.7978845608)", text, claim="approx(atol=1e-3)")
    assert bool(found) is close


def test_a_tolerance_of_its_own(ask):
    text = multiply("float k = {0.797}")
    assert ask("y = Mul(x, 0.7979~1e-2)", text, claim="approx(atol=1e-3)")
    assert not ask("y = Mul(x, 0.7979~1e-4)", text, claim="approx(atol=1e-3)")


def test_zero_is_compared_exactly(ask):
    text = "g (float[2] x) => (float[2] y) <float k = {%s}> { y = Add(x, k) }"
    assert ask("y = Add(x, 0)", text % "0", claim="approx(atol=1)")
    assert ask("y = Add(x, 0)", text % "-0.0", claim="approx(atol=1)")
    assert not ask("y = Add(x, 0)", text % "1e-38", claim="approx(atol=1)")


@pytest.mark.parametrize(
    ("dtype", "stored", "literal", "matches"),
    [
        ("int64", "2", "2", True), ("int64", "3", "2", False), ("uint8", "255", "255", True),
        ("int32", "2", "2.0", True), ("int32", "2", "2.5", False),
        ("int64", "2", "2.0000001", False),
    ],
)  # fmt: skip
def test_integers_are_compared_exactly(ask, dtype, stored, literal, matches):
    text = f"g ({dtype}[2] x) => ({dtype}[2] y) <{dtype} k = {{{stored}}}> {{ y = Mul(x, k) }}"
    assert bool(ask(f"y = Mul(x, {literal})", text, claim="approx(atol=1)")) is matches


def test_negative_literals_are_negations_of_a_constant_too(ask):
    found = ask("y = Mul(x, -1)", multiply("float k = {-1}"))
    assert found, "a minus sign before a number belongs to the number"


def test_truth_values_are_0_and_1(ask):
    text = "g (bool[2] x) => (bool[2] y) <bool k = {1}> { y = And(x, k) }"
    assert ask("y = And(x, 1)", text)
    assert not ask("y = And(x, 0)", text)


def test_an_empty_constant_is_no_number(ask):
    text = "g (float[0] x) => (float[0] y) <float[0] k = {}> { y = Mul(x, k) }"
    assert ask("y = Mul(x, 1)", text).code == "literal"
