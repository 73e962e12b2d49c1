"""Quantization against exact rational arithmetic, and the steps where runtimes differ."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite.ops.dtypes import to_numpy
from rewrite.ops.evaluate import evaluate
from rewrite.schema import DTYPES

F = np.float32


def value(name: str, *inputs: Any, opset: int = 25, **attributes: Any) -> np.ndarray | None:
    found = evaluate("", name, opset, inputs, attributes)
    return found[0] if found else None


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-300, 300, width=32), min_size=1, max_size=8),
    st.sampled_from([0.5, 0.25, 1.0, 0.1, 0.07, 3.0]),
    st.sampled_from(["u8", "s8", "u4", "s4", "u16", "s16", "u2", "s2"]),
    st.integers(-3, 3),
)
def test_rint_then_zero_point_then_saturation(
    numbers: list[float], scale: float, dtype: str, zero: int
) -> None:
    """y = saturate(rint(x / scale) + zero point), the quotient rounded to float32."""
    info = ml_dtypes.iinfo(to_numpy(dtype))
    low, high = int(info.min), int(info.max)
    zero = min(max(zero, low), high)
    x, s = np.array(numbers, F), F(scale)
    found = value("QuantizeLinear", x, np.asarray(s), np.array(zero).astype(to_numpy(dtype)))
    assert found is not None
    for code, number in zip(found.astype(np.int64).tolist(), x, strict=True):
        quotient = Fraction(float(F(number) / s))
        wanted = round(quotient) + zero  # of Fraction: halves to even
        assert code == min(max(wanted, low), high)


def test_infinite_and_huge_numbers_saturate() -> None:
    x = np.array([np.inf, -np.inf, 1e30, -1e30], F)
    found = value("QuantizeLinear", x, np.asarray(F(0.1)), np.array(3, np.int8))
    assert found is not None
    assert found.tolist() == [127, -128, 127, -128]


def test_ties_are_even_before_an_odd_zero_point() -> None:
    """rint(0.5) + 1 = 1, not rint(1.5) = 2."""
    x = np.array([0.5, 1.5, 2.5], F)
    found = value("QuantizeLinear", x, np.asarray(F(1)), np.array(1, np.uint8))
    assert found is not None
    assert found.tolist() == [1, 3, 3]


def test_half_precision_scales_only_where_both_precisions_agree() -> None:
    x = np.array([1.0, 2.0], np.float16)
    found = value("QuantizeLinear", x, np.asarray(np.float16(0.5)))
    assert found is not None
    assert found.tolist() == [2, 4]
    # 8.499 / 1 is 8.5 in float16, and rint differs.
    scale = np.float16(1.001)
    x = np.arange(1, 2000, dtype=np.float16) / np.float16(7)
    assert (
        value("QuantizeLinear", x, np.asarray(scale), opset=21, output_dtype=DTYPES["s16"]) is None
    )


def test_dequantized_by_subtraction_then_product() -> None:
    codes = np.array([0, 3, 255], np.uint8)
    found = value("DequantizeLinear", codes, np.asarray(F(0.1)), np.array(3, np.uint8))
    assert found is not None
    wanted = [F(c - 3) * F(0.1) for c in (0, 3, 255)]
    np.testing.assert_array_equal(found, np.array(wanted, F))


def test_blocks() -> None:
    x = np.arange(10, dtype=np.int8).reshape(2, 5)
    scale = np.array([[1, 10, 100], [2, 20, 200]], F)
    found = value("DequantizeLinear", x, scale, axis=1, block_size=2)
    assert found is not None
    wanted = x * np.array([[1, 1, 10, 10, 100], [2, 2, 20, 20, 200]], F)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("opset", [10, 11])
def test_integer_products_do_not_saturate_in_between(opset: int) -> None:
    """255 * 127 * 64 does not fit 16 bits; the standard forbids to notice."""
    a = np.full((1, 64), 255, np.uint8)
    b = np.full((64, 1), 127, np.int8)
    found = value("MatMulInteger", a, b, opset=opset)
    assert found is not None
    assert found.tolist() == [[255 * 127 * 64]]


def test_zero_points_per_column() -> None:
    a = np.array([[1, 2], [3, 4]], np.uint8)
    b = np.array([[5, 6], [7, 8]], np.int8)
    found = value("MatMulInteger", a, b, np.array(1, np.uint8), np.array([1, -1], np.int8))
    assert found is not None
    wanted = (a.astype(int) - 1) @ (b.astype(int) - np.array([1, -1]))
    np.testing.assert_array_equal(found, wanted)


def test_dynamic_range_includes_zero() -> None:
    found = evaluate("", "DynamicQuantizeLinear", 11, [np.array([1, 2, 5], F)], {})
    assert found is not None
    y, scale, zero = found
    assert float(scale) == float(F(5) / F(255))
    assert int(zero) == 0
    assert y.tolist() == [51, 102, 255]
