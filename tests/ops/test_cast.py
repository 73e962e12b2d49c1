"""Conversions against exact arithmetic: every code of a small type, integers without limits."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest

from rewrite.ops.cast import convert
from rewrite.ops.dtypes import BITS, integer_range, to_numpy
from rewrite.ops.evaluate import evaluate
from rewrite.schema import DTYPES

SMALL = [
    "f8e4m3fn",
    "f8e4m3fnuz",
    "f8e5m2",
    "f8e5m2fnuz",
    "f4e2m1",
    "f6e2m3",
    "f6e3m2",
    "f16",
    "bf16",
]
INTEGERS = ["u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


def finite_codes(name: str) -> list[tuple[float, int]]:
    """Every finite value with its code, ascending; of the zeros the positive one."""
    bits = BITS[name]
    width = np.uint16 if bits == 16 else np.uint8
    codes = np.arange(2**bits, dtype=np.uint32).astype(width)
    with np.errstate(invalid="ignore"):
        values = codes.view(to_numpy(name)).astype(np.float64)
    pairs = {float(v): int(c) for v, c in zip(values, codes, strict=True) if np.isfinite(v)}
    pairs[0.0] = 0
    return sorted(pairs.items())


def nearest(x: Fraction, numbers: list[float], codes: list[int]) -> float:
    """The nearest number; of two equally near the one with the even code."""
    place = bisect_left(numbers, x)
    if place in (0, len(numbers)):
        return numbers[0] if place == 0 else numbers[-1]
    low, high = numbers[place - 1], numbers[place]
    down, up = x - Fraction(low), Fraction(high) - x
    if down != up:
        return low if down < up else high
    return low if codes[place - 1] % 2 == 0 else high


def probes(name: str) -> np.ndarray:
    """Values, the middles between them, and a little to each side; within the range."""
    numbers = np.array([v for v, _ in finite_codes(name)])
    if numbers.size > 4096:
        numbers = numbers[:: numbers.size // 512]
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = np.concatenate([middles * (1 + 2.0**-22), middles * (1 - 2.0**-22)])
    found = np.concatenate([numbers, middles, near]).astype(np.float32)
    return found[(found >= numbers[0]) & (found <= numbers[-1])]


@pytest.mark.parametrize("name", SMALL)
def test_float_to_small_float_is_nearest_even(name: str) -> None:
    x = probes(name)
    found = convert(x, name)
    assert found is not None
    numbers, codes = map(list, zip(*finite_codes(name), strict=True))
    wanted = [nearest(Fraction(float(v)), numbers, codes) for v in x]
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


@pytest.mark.parametrize("name", SMALL[:7])
def test_small_floats_saturate(name: str) -> None:
    largest = finite_codes(name)[-1][0]
    x = np.array([largest * 1.01, largest * 8, -largest * 8], np.float32)
    found = convert(x, name)
    assert found is not None
    np.testing.assert_array_equal(found.astype(np.float64), [largest, largest, -largest])
    infinite = convert(np.array([np.inf, -np.inf], np.float32), name)
    assert infinite is not None
    np.testing.assert_array_equal(infinite.astype(np.float64), [largest, -largest])


def test_float8_without_saturation() -> None:
    x = np.array([1e6, np.inf, np.nan], np.float32)
    for name, wanted in (("f8e4m3fn", np.nan), ("f8e4m3fnuz", np.nan), ("f8e5m2", np.inf)):
        found = convert(x, name, saturate=False)
        assert found is not None
        np.testing.assert_array_equal(found.astype(np.float64), [wanted, wanted, np.nan])


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [("up", [1, 2, 2, 2, 4]), ("down", [1, 1, 1, 2, 2]), ("nearest", [1, 1, 2, 2, 4])],
)
def test_powers_of_two(mode: str, wanted: list[int]) -> None:
    x = np.array([1, 1.25, 1.5, 2, 3.5], np.float32)
    found = convert(x, "f8e8m0", round_mode=mode)
    assert found is not None
    np.testing.assert_array_equal(found.astype(np.float64), wanted)
    assert convert(np.array([-1.0], np.float32), "f8e8m0") is None


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_wrap(source: str, target: str) -> None:
    low, high = integer_range(source)
    numbers = sorted({low, low + 1, -1, 0, 1, 7, 100, 200, 40000, 2**31, high - 1, high})
    numbers = [n for n in numbers if low <= n <= high]
    wide = np.array(numbers, np.uint64 if source == "u64" else np.int64)
    found = convert(wide.astype(to_numpy(source)), target)
    assert found is not None
    least, most = integer_range(target)
    wanted = [(n - least) % (most - least + 1) + least for n in numbers]
    assert [int(v) for v in found] == wanted


@pytest.mark.parametrize("target", INTEGERS)
def test_floats_are_truncated(target: str) -> None:
    low, high = integer_range(target)
    numbers = [v for v in (-1.9, -1.0, -0.9, -0.0, 0.9, 1.5, 2.5, 7.99, 200.7, 2.0**40)
               if low - 1 < v < high + 1]  # fmt: skip
    found = convert(np.array(numbers, np.float64), target)
    assert found is not None
    assert [int(v) for v in found] == [int(v) for v in numbers]
    assert convert(np.array([float(high) + 2], np.float64), target) is None


@pytest.mark.parametrize("target", ["f32", "f16", "bf16"])
def test_integers_to_floats_are_nearest_even(target: str) -> None:
    numbers = [0, 1, -7, 255, 2049, 2051, 2**24 + 1, 2**24 + 3, -(2**25) - 2]
    if target == "f16":
        numbers = [n for n in numbers if abs(n) <= 60000]
    for n in numbers:
        found = convert(np.array([n], np.int64), target)
        assert found is not None
        got = Fraction(float(found[0]))
        beside = np.nextafter(found[0], found.dtype.type(np.inf if n > got else -np.inf))
        assert abs(got - n) <= abs(Fraction(float(beside)) - got) / 2


def test_no_answer_where_two_roundings_differ_from_one() -> None:
    # Just above the middle of two float16 numbers, but float32 rounds it onto the middle.
    x = np.array([1 + 2.0**-11 + 2.0**-40], np.float64)
    assert convert(x, "f16") is None
    assert convert(np.array([0.1], np.float64), "f16") is not None
    assert convert(np.array([0.1], np.float64), "bf16") is not None


def test_bool() -> None:
    found = convert(np.array([0.0, -0.0, 0.1, np.nan, np.inf], np.float32), "bool")
    assert found is not None
    assert found.tolist() == [False, False, True, True, True]
    back = convert(np.array([True, False]), "f16")
    assert back is not None
    assert back.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "source", ["f32", "f16", "f64", "u8", "s8", "s16", "s32", "s64", "bool", "u4"]
)
def test_every_pair_has_the_type_asked_for(source: str) -> None:
    x = np.array([0, 1], np.int8).astype(to_numpy(source))
    for name in DTYPES:
        if name in ("string", "c64", "c128", "f8e8m0"):
            continue
        found = evaluate("", "Cast", 28, [x], {"to": DTYPES[name]})
        assert found is not None, name
        assert found[0].dtype == to_numpy(name)
        assert [int(v) % 2 for v in found[0].astype(np.int64)] == [0, 1]


def test_bits_read_as_another_type() -> None:
    found = evaluate("", "BitCast", 28, [np.array([1.0], np.float32)], {"to": DTYPES["u32"]})
    assert found is not None
    assert int(found[0][0]) == 0x3F800000
