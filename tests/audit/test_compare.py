"""Bounds judge outputs as docs/language.md words the claims."""

import ml_dtypes
import numpy as np
import pytest

from rewrite.audit.compare import differ, measure
from rewrite.engine.ledger import Bound

EXACT = Bound()


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_exact_tells_zeros_apart_but_not_nan_payloads() -> None:
    assert differ("y", f32(0.0), f32(-0.0), EXACT) is not None
    quiet = np.array([0x7FC00000], np.uint32).view(np.float32)
    payload = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert differ("y", quiet, payload, EXACT) is None
    assert differ("y", f32(1.0), f32(np.nan), EXACT) is not None


def test_equal_zero_lets_zeros_agree_and_nothing_else() -> None:
    equal = Bound("equal", rtol=0.0)
    assert differ("y", f32(0.0, 1.0), f32(-0.0, 1.0), equal) is None
    assert differ("y", f32(1.0), np.nextafter(f32(1.0), f32(2.0)), equal) is not None


def test_equal_is_relative_to_the_largest_magnitude() -> None:
    equal = Bound("equal", rtol=1e-3)
    assert differ("y", f32(100.0, 0.0), f32(100.0, 0.09), equal) is None
    assert differ("y", f32(100.0, 0.0), f32(100.0, 0.11), equal) is not None


def test_approx_is_absolute() -> None:
    approx = Bound("approx", atol=1e-3)
    assert differ("y", f32(0.1), f32(0.1009), approx) is None
    assert differ("y", f32(0.1), f32(0.1011), approx) is not None


def test_infinite_before_is_unclaimed_but_finite_must_stay_finite() -> None:
    equal = Bound("equal", rtol=1e-5)
    assert differ("y", f32(np.inf, np.nan, 1.0), f32(1.0, 2.0, 1.0), equal) is None
    assert differ("y", f32(1.0, 1.0), f32(1.0, np.inf), equal) is not None
    assert differ("y", f32(1.0, 1.0), f32(1.0, np.nan), equal) is not None


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, ml_dtypes.int4])
def test_lsb_counts_steps(dtype: type) -> None:
    a = np.array([1, 2, 3]).astype(dtype)
    one = np.array([1, 3, 3]).astype(dtype)
    two = np.array([1, 4, 3]).astype(dtype)
    assert differ("y", a, one, Bound("lsb", lsb=1)) is None
    assert differ("y", a, two, Bound("lsb", lsb=1)) is not None
    assert differ("y", a, one, EXACT) is not None


def test_shape_dtype_and_presence() -> None:
    loose = Bound("equal", rtol=1.0)
    assert "shape" in str(differ("y", np.ones((1, 3)), np.ones(3), loose))
    assert "dtype" in str(differ("y", np.ones(3), np.ones(3, np.float32), loose))
    assert differ("y", None, np.ones(3), loose) is not None
    assert differ("y", np.ones((0, 2)), np.ones((0, 2)), EXACT) is None


def test_complex_and_bfloat16_and_strings() -> None:
    z = np.array([1 + 2j, 3j])
    assert differ("y", z, z.copy(), EXACT) is None
    assert differ("y", z, z + 1e-9, EXACT) is not None
    b = np.array([1.0, 2.0]).astype(ml_dtypes.bfloat16)
    assert differ("y", b, b.copy(), EXACT) is None
    assert differ("y", b, -b, EXACT) is not None
    words = np.array(["a", "b"], dtype=object)
    assert differ("y", words, words.copy(), EXACT) is None
    assert differ("y", words, words[::-1], Bound("equal", rtol=1.0)) is not None


def test_bounds_add_up_to_their_weakest_class() -> None:
    total = Bound() + Bound("equal", rtol=1e-5).times(3) + Bound("lsb", lsb=1)
    assert total.kind == "equal"
    assert total.rtol == pytest.approx(3e-5)
    assert total.lsb == 1
    assert Bound("lsb", lsb=1).within("equal")
    assert not Bound("approx", atol=1.0).within("equal")
    assert str(Bound("equal", rtol=1e-5)) == "equal(rtol=1e-05)"
    assert str(Bound("lsb", lsb=2)) == "lsb(2)"


def test_what_was_used_of_a_bound() -> None:
    """By hand: 0.5 off where 1e-2 * 100 is allowed, and 4 * 2^-23 * 100 of rounding besides."""
    before, after = f32(100.0, 0.0), f32(100.0, 0.5)
    assert measure("y", before, before, Bound("equal", rtol=1e-2)).used == 0.0
    half = measure("y", before, after, Bound("equal", rtol=1e-2))
    assert half.difference is None
    assert half.used == pytest.approx(0.5, rel=1e-4)
    twice = measure("y", before, after, Bound("equal", rtol=2.5e-3))
    assert twice.difference is not None
    assert twice.used == pytest.approx(2.0, rel=1e-3)
    assert measure("y", before, after, EXACT).used == np.inf
    assert measure("y", f32(1.0), None, Bound("approx", atol=9.0)).used == np.inf
