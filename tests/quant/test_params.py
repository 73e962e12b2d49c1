"""Parameters: what is wrong with them is named, equality is of numbers, spreading is ONNX's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rewrite.quant.codes import CODES, code_type, every_code, name_of, values_of
from rewrite.quant.params import faults, quant_params, spread, uniform
from rewrite.schema import DTYPES

SCALE = np.float32(0.1)
TINY = np.float32(1e-40)


@pytest.mark.parametrize(
    ("scale", "fault"),
    [
        (np.float32(0), "zero scale"),
        (np.float32(-0.1), "negative scale"),
        (np.float32(np.inf), "infinite scale"),
        (np.float32(np.nan), "NaN scale"),
        (TINY, "denormal scale"),
        (np.float16(1e-6), "denormal scale"),
        (np.zeros(0, np.float32), "empty scale"),
        (np.int32(1), "scale of type int32"),
    ],
)
def test_scales(scale, fault):
    assert fault in faults(quant_params("s8", scale), (2, 3))


def test_a_scale_is_judged_by_its_own_type():
    assert faults(quant_params("s8", np.float32(1e-6)), (2,)) == ()
    assert faults(quant_params("s8", np.asarray(1e-38, ml_dtypes.bfloat16)), (2,)) == (
        "denormal scale",
    )
    assert faults(quant_params("f8e4m3fn", np.asarray(2.0, ml_dtypes.float8_e8m0fnu)), (2,)) == ()


@pytest.mark.parametrize(
    ("code", "zero", "fault"),
    [
        ("s8", 200, "zero point out of range"),
        ("u8", -1, "zero point out of range"),
        ("s8", np.uint8(3), "zero point of type u8 for codes of type s8"),
        ("u8", np.int32(300), "zero point out of range"),
        ("s8", np.zeros(2, np.int8), "zero point and scale of different shapes"),
        ("s32", np.int32(1), "zero point of s32 codes is not 0"),
        ("s8", np.float32(1), "zero point of type f32 for codes of type s8"),
        ("f8e5m2", np.asarray(1, ml_dtypes.float8_e5m2), "zero point of float codes is not 0"),
    ],
)
def test_zero_points(code, zero, fault):
    assert fault in faults(quant_params(code, SCALE, zero), (2, 3))


@pytest.mark.parametrize(
    ("scale", "axis", "block", "shape", "fault"),
    [
        ([1.0, 2.0], 3, None, (2, 2), "axis out of range"),
        ([1.0, 2.0], 1, None, (2, 3), "scale of shape [2] on an axis of size 3"),
        ([1.0, 2.0], None, None, (2, 3), "scale of shape [2] per tensor"),
        ([[1.0, 2.0]], 1, 0, (1, 8), "block size is not positive"),
        ([1.0, 2.0], 1, 4, (1, 8), "blocked scale of rank 1 for a tensor of rank 2"),
        ([[1.0, 2.0]], 1, 3, (1, 8), "2 blocks of 3 on a dimension of size 8"),
        ([[1.0, 2.0]], 1, 8, (1, 8), "2 blocks of 8 on a dimension of size 8"),
        ([[1.0, 2.0]], 1, 4, (2, 8), "scale and tensor of different shapes"),
        (1.0, None, None, (0, 3), "empty tensor"),
    ],
)
def test_fit(scale, axis, block, shape, fault):
    params = quant_params("u8", scale, axis=axis, block=block)
    assert fault in faults(params, shape)


def test_short_last_blocks_are_the_standards_and_named_when_asked():
    params = quant_params("u4", np.ones((1, 3), np.float32), axis=1, block=3)
    assert faults(params, (1, 8)) == ()
    assert faults(params, (1, 8), even_blocks=True) == ("block size does not divide the axis",)
    assert faults(params, (1, 9), even_blocks=True) == ()
    # B in [ceil(D/S), ceil(D/(S-1)) - 1] is S = ceil(D/B): D 8, S 3 admits 3 alone.
    fits = [b for b in range(1, 12) if not faults(
        quant_params("u4", np.ones((1, 3), np.float32), axis=1, block=b), (1, 8))]  # fmt: skip
    assert fits == [3]


def test_good_parameters():
    for name in CODES:
        assert faults(quant_params(name, 0.1), (2, 3)) == ()
    assert faults(quant_params("u8", [1.0, 2.0], [3, 4], axis=1), ("n", 2)) == ()
    assert faults(quant_params("u8", [1.0, 2.0], [3, 4], axis=1), ("n", "c")) == ()
    assert faults(quant_params("u8", 0.1, 200), None) == ()


def test_equality_is_of_numbers():
    one = quant_params("u8", np.float32(0.5), 3)
    assert one == quant_params("u8", np.float32([0.5]), np.uint8([3]))
    assert hash(one) == hash(quant_params("u8", np.float32([0.5]), np.uint8([3])))
    assert one != quant_params("s8", np.float32(0.5), 3)
    assert one != quant_params("u8", np.nextafter(np.float32(0.5), np.float32(1)), 3)
    assert one != quant_params("u8", np.float16(0.5), 3)
    rows = quant_params("u8", [0.5, 0.5], [3, 3], axis=0)
    assert rows != one
    assert uniform(rows) == one
    assert uniform(quant_params("u8", [0.5, 0.25], [3, 3], axis=0)).axis == 0


def test_nobody_writes_them():
    given = np.array([0.5, 0.25], np.float32)
    params = quant_params("u8", given, axis=0)
    given[0] = 7
    assert params.scale[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        params.scale[0] = 1


def test_spread():
    s, z = spread(quant_params("u8", [1.0, 2.0, 3.0], [4, 5, 6], axis=1), (2, 3, 4))
    assert s.shape == z.shape == (1, 3, 1)
    assert z.dtype == np.int64
    blocked = quant_params("s4", np.array([[1, 2, 3]], np.float32), axis=1, block=3)
    s, _ = spread(blocked, (1, 8))
    assert s.tolist() == [[1, 1, 1, 2, 2, 2, 3, 3]]


def test_code_types_are_those_of_the_schema():
    for name, kind in CODES.items():
        assert name in DTYPES
        assert name_of(kind.dtype) == name
        assert code_type(kind.dtype) is kind
        if kind.bits <= 16:
            codes = every_code(kind)
            assert len(codes) == 1 << kind.bits
            finite = values_of(codes)[np.isfinite(values_of(codes))]
            assert (finite.min(), finite.max()) == (kind.low, kind.high)
    assert code_type("f32") is None
    assert code_type(np.dtype(np.float64)) is None
