"""Constants are rounded once from working precision to their element type.

The expected values come from exact rational arithmetic, not from the conversions under test.
"""

from __future__ import annotations

from fractions import Fraction
from operator import add, mul, sub, truediv

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite.match.builtins.tensors import concat, flip, repeat, slice_, stack, transpose
from rewrite.match.deferred import Arithmetic, stored
from rewrite.match.operators import arithmetic
from rewrite.match.values import Env, Tensor, Unknown, weak, working
from rewrite.ops.dtypes import to_numpy

FLOATS = ("f32", "f16", "bf16", "f8e4m3fn", "f8e5m2")


def values_of(dtype: str) -> np.ndarray:
    """Every finite value of a type of at most 16 bits, ascending, each once (0 and -0 are one)."""
    kind = to_numpy(dtype)
    bits = np.arange(1 << (8 * kind.itemsize), dtype=f"u{kind.itemsize}")
    with np.errstate(invalid="ignore"):
        found = bits.view(kind).astype(np.float64)
    return np.unique(found[np.isfinite(found)])


SMALL = {dtype: values_of(dtype) for dtype in FLOATS if dtype != "f32"}


def nearest(dtype: str, number: float) -> set[float]:
    """The values of the type nearest to the number: two where it lies in the middle."""
    values = SMALL[dtype]
    place = int(np.searchsorted(values, number))
    around = [float(v) for v in values[max(0, place - 2) : place + 2]]
    distance = {v: abs(Fraction(v) - Fraction(number)) for v in around}
    least = min(distance.values())
    return {v for v in around if distance[v] == least}


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(SMALL)), st.data())
def test_rounded_to_the_nearest_value(dtype, data):
    limit = float(SMALL[dtype][-1])
    number = data.draw(st.floats(-limit, limit, allow_nan=False))
    found = float(Tensor(np.array(number), dtype).rounded().astype(np.float64))
    assert found in nearest(dtype, number)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(SMALL)), st.data())
def test_ties_go_to_even_and_are_not_made_by_rounding_twice(dtype, data):
    """Just above a middle is above it, though float32 cannot tell."""
    values = SMALL[dtype]
    i = data.draw(st.integers(0, len(values) - 2))
    low, high = float(values[i]), float(values[i + 1])
    middle = float((Fraction(low) + Fraction(high)) / 2)
    up, down = np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)
    for number, wanted in ((up, high), (down, low)):
        found = float(Tensor(np.array(number), dtype).rounded().astype(np.float64))
        assert found == wanted
    tie = Tensor(np.array(middle), dtype).rounded()
    bits = tie.view(f"u{tie.dtype.itemsize}")
    assert int(bits) % 2 == 0, "the last bit of the value chosen is 0"


def test_a_case_that_rounding_twice_gets_wrong():
    """1 + 2^-8 + 2^-30 is above the middle of 1 and 1 + 2^-7; float32 makes it the middle."""
    number = 1 + 2.0**-8 + 2.0**-30
    assert np.float32(number) == np.float32(1 + 2.0**-8)
    assert float(ml_dtypes.bfloat16(number)) == 1.0, "what rounding twice gives"
    assert float(Tensor(np.array(number), "bf16").rounded()) == 1 + 2.0**-7


@pytest.mark.parametrize(
    ("dtype", "number"),
    [("f16", 70000.0), ("f8e4m3fn", 1e6), ("bf16", 3.5e38), ("f32", 1e39), ("f8e5m2", 1e9)],
)
def test_overflow_is_refused(dtype, number):
    with pytest.raises(Unknown, match="overflows"):
        Tensor(np.array(number), dtype).rounded()


def test_infinities_and_nan_stay():
    found = Tensor(np.array([np.inf, -np.inf, np.nan]), "f16").rounded()
    assert np.isposinf(found[0])
    assert np.isneginf(found[1])
    assert np.isnan(found[2])


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [
        ("s8", (-128, 127), (-129, 128)), ("u8", (0, 255), (-1, 256)), ("s4", (-8, 7), (-9, 8)),
        ("u4", (0, 15), (-1, 16)), ("s2", (-2, 1), (-3, 2)), ("u2", (0, 3), (-1, 4)),
        ("s32", (-(2**31), 2**31 - 1), (-(2**31) - 1, 2**31)), ("u32", (0, 2**32 - 1), (-1, 2**32)),
    ],
)  # fmt: skip
def test_integers_have_a_range(dtype, inside, outside):
    found = Tensor(np.array(inside), dtype).rounded()
    assert found.dtype == to_numpy(dtype)
    assert tuple(int(v) for v in found) == inside
    for number in outside:
        with pytest.raises(Unknown, match="range"):
            Tensor(np.array(number), dtype).rounded()


def test_a_fraction_is_no_integer():
    assert int(Tensor(np.array(3.0), "s32").rounded()) == 3
    for number in (0.5, np.inf, np.nan):
        with pytest.raises(Unknown, match="integer"):
            Tensor(np.array(number), "s32").rounded()
    with pytest.raises(Unknown, match="too large"):
        Tensor(np.array(2.0**60), "s64").rounded()


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "s8", "u4", "s64", "bool"])
def test_there_and_back(dtype):
    stored = np.array([0, 1, 1, 0]).astype(to_numpy(dtype))
    found = working(stored)
    assert found.dtype == dtype
    back = found.rounded()
    assert back.dtype == stored.dtype
    assert back.tobytes() == stored.tobytes()


def test_integers_are_exact_beyond_float64():
    """2^62 + 1 is no float64."""
    stored = np.array([2**62 + 1, -(2**62) - 1])
    assert working(stored).rounded().tolist() == stored.tolist()
    with pytest.raises(Unknown, match="u64"):
        working(np.array([2**63], np.uint64))


# --- what only moves, what is computed late ----------------------------------------------------


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8", "u4", "u64", "c64", "bool"])
def test_moved_elements_stay_as_they_are_stored(dtype):
    stored = np.array([[0, 1, 1], [1, 0, 1]]).astype(to_numpy(dtype))
    one = working(stored)
    moves = {
        "transpose": (transpose(one), stored.T),
        "slice": (slice_(one, 1, 1, 3), stored[:, 1:3]),
        "stack": (stack((one, one)), np.stack([stored, stored])),
        "repeat": (repeat(one, 2), np.repeat(stored, 2, 0)),
    }
    for name, (found, expected) in moves.items():
        assert found.elements.dtype == stored.dtype, name
        rounded = found.rounded()
        assert rounded.dtype == stored.dtype, name
        assert rounded.flags.owndata, name  # a part does not keep the whole in memory
        assert rounded.tobytes() == expected.tobytes(), name


def test_a_signalling_nan_that_moves_keeps_its_bits():
    bits = np.array([0x7F800001, 0xFFC00123, 0x3F800000], np.uint32)
    moved = flip(working(bits.view(np.float32)), (0,)).rounded()
    assert moved.view(np.uint32).tolist() == bits[::-1].tolist()


def test_elements_of_different_types_meet_in_working_precision():
    parts = (working(np.array([1.5], np.float32)), weak((2**24 + 1,)))
    assert stack(parts[:1] * 2).elements.dtype == np.float32
    joined = stack(parts).rounded()
    assert joined.dtype == np.float32
    assert joined.tolist() == [[1.5], [16777216.0]]  # 2^24 + 1 is no float32


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("symbol", ["+", "-", "*", "/"])
def test_arithmetic_is_float64_rounded_once(symbol, dtype):
    """Python's own floats are float64, one operation at a time; operands are broadcast."""
    rng = np.random.default_rng(5)
    a = rng.uniform(0.5, 2, (3, 1)).astype(to_numpy(dtype))
    b = rng.uniform(0.5, 2, (1, 4)).astype(to_numpy(dtype))
    found = arithmetic(symbol, working(a), working(b))
    assert found.shape == (3, 4)
    assert found.dtype == dtype
    python = {"+": add, "-": sub, "*": mul, "/": truediv}[symbol]
    wide = [[python(float(x), float(y)) for y in b[0]] for x in a[:, 0]]
    assert found.array.tolist() == wide
    assert found.rounded().tobytes() == Tensor(np.array(wide), dtype).rounded().tobytes()
    again = arithmetic(symbol, working(a), working(b)).rounded()  # not asked for in float64
    assert again.tobytes() == found.rounded().tobytes()


def test_late_arithmetic_that_overflows_is_unknown():
    large = working(np.array([3e38, 1.0], np.float32))
    with pytest.raises(Unknown, match="overflows f32"):
        arithmetic("*", large, weak(2.0)).rounded()
    infinite = working(np.array([np.inf, 1.0], np.float32))
    assert arithmetic("*", infinite, weak(2.0)).rounded().tolist() == [np.inf, 2.0]
    assert arithmetic("*", large, weak(2)).array.dtype == np.float64


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_what_is_computed_and_joined_is_rounded_once(dtype):
    """Against Python's own floats, which are float64."""
    rng = np.random.default_rng(6)
    a, b = (rng.uniform(-2, 2, (2, n)).astype(to_numpy(dtype)) for n in (3, 2))
    half = working(np.array([[0.5], [1.7]]).astype(to_numpy(dtype)))
    scaled = arithmetic("*", working(a), half)
    env = Env({}, None)  # of constants alone
    joined = concat(env, scaled, working(b), scaled, axis=-1)
    assert joined.shape == (2, 8)
    products = [
        [x * y for x in map(float, row)] for row, y in zip(a, half.array[:, 0], strict=True)
    ]
    expected = np.array([[*p, *map(float, r), *p] for p, r in zip(products, b, strict=True)])
    assert joined.rounded().tolist() == expected.astype(to_numpy(dtype)).tolist()
    assert joined.array.tolist() == expected.tolist()
    assert arithmetic("+", joined, weak(1.0)).array.tolist() == (expected + 1).tolist()
    with pytest.raises(ValueError, match="dimensions"):
        concat(env, scaled, working(b), axis=0)


def test_a_constant_of_a_file_is_computed_with_piece_by_piece():
    """Elements of files are typed `<f4`, which numpy does not count as one of its own types."""
    of_file = np.array([1.5, 2.5], np.float32)
    of_file = of_file.view(of_file.dtype.newbyteorder("<"))
    late = arithmetic("*", working(of_file), weak(2.0)).late
    assert isinstance(late, Arithmetic)
    assert stored(late, np.dtype(np.float32)).tolist() == [3.0, 5.0]


def test_the_size_of_numpys_buffer_is_as_before():
    before = np.getbufsize()
    arithmetic("*", working(np.ones(3, np.float32)), weak(2.0)).rounded()
    assert np.getbufsize() == before
