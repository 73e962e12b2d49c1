"""The table of legacy operands against the differences between the installed schemas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx.defs
import pytest

from rewrite.ops import legacy, schemas

# Attributes that a later version dropped without giving the same thing as an input.
DROPPED = {
    ("BatchNormalization", "spatial"),  # gone in 9: per-activation statistics
    ("Scan", "directions"),  # renamed in 9
}


def _history() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found.setdefault(schema.name, []).append(schema)
    return {name: sorted(v, key=lambda s: s.since_version) for name, v in found.items()}


def test_table_is_what_the_schemas_say() -> None:
    derived = set()
    for name, found in _history().items():
        for old, new in itertools.pairwise(found):
            if new.since_version <= 7:
                continue
            gone = set(old.attributes) - set(new.attributes)
            derived |= {(name, a, new.since_version - 1) for a in gone if (name, a) not in DROPPED}
    table = {
        (name, operand.attribute, operand.until)
        for name, entry in legacy.TABLE.items()
        for operand in entry.values()
    }
    assert table == derived


def test_operands_have_the_index_and_name_of_the_newest_form() -> None:
    for name, entry in legacy.TABLE.items():
        for index, operand in entry.items():
            newest = schemas.lookup("", name, operand.until + 1)
            oldest = schemas.lookup("", name, operand.until)
            assert newest is not None
            assert oldest is not None
            assert newest.inputs[index].name == operand.name == oldest.inputs[index].name
            assert newest.inputs[index].option == oldest.inputs[index].option
            assert oldest.legacy[index] == operand.attribute
            assert operand.attribute not in oldest.attributes
            assert not newest.legacy


ROUND_TRIPS = [
    ("Clip", 10, 1, -1.5, "f32", np.float32(-1.5)),
    ("Clip", 10, 2, 6.0, "f16", np.float16(6.0)),
    ("Clip", 7, 2, 6.0, "f64", np.float64(6.0)),
    ("Squeeze", 12, 1, (0, -1), "f32", np.array([0, -1], np.int64)),
    ("ReduceMean", 17, 1, (1,), "f32", np.array([1], np.int64)),
    ("Pad", 10, 1, (0, 1, 0, -1), "f32", np.array([0, 1, 0, -1], np.int64)),
    ("Pad", 10, 2, 0.5, "f32", np.float32(0.5)),
    ("Slice", 9, 2, (9223372036854775807,), "s32", np.array([9223372036854775807], np.int64)),
    ("Split", 11, 1, (2, 3), "u8", np.array([2, 3], np.int64)),
    ("TopK", 9, 1, 5, "f32", np.array([5], np.int64)),
    ("Upsample", 8, 1, (1.0, 1.0, 2.0, 2.0), "f32", np.array([1, 1, 2, 2], np.float32)),
    ("Dropout", 11, 1, 0.25, "f16", np.float32(0.25)),
    ("DFT", 17, 2, 1, "f32", np.int64(1)),
]


@pytest.mark.parametrize(("name", "opset", "index", "value", "dtype", "array"), ROUND_TRIPS)
def test_round_trip(
    name: str, opset: int, index: int, value: Any, dtype: str, array: np.ndarray
) -> None:
    operand = legacy.legacy_operand("", name, opset, index, value, dtype)
    assert operand is not None
    assert operand.dtype == array.dtype
    assert operand.shape == np.shape(array)
    np.testing.assert_array_equal(operand, array)
    assert legacy.legacy_attribute("", name, opset, index, operand) == value


def test_absent_and_newer() -> None:
    assert legacy.legacy_operand("", "Clip", 10, 1, None, "f32") is None
    assert legacy.legacy_operand("", "Clip", 11, 1, 1.0, "f32") is None
    assert legacy.legacy_operand("", "Clip", 10, 1, 1.0, None) is None
    assert legacy.legacy_operand("com.microsoft", "Clip", 10, 1, 1.0, "f32") is None


def test_dft_without_axis_means_different_axes() -> None:
    axis = legacy.legacy_operand("", "DFT", 17, 2, None, "f32")
    assert axis is not None
    assert int(axis) == 1
    assert legacy.legacy_attribute("", "DFT", 17, 2, None) == -2


def test_values_no_attribute_can_hold() -> None:
    assert legacy.legacy_attribute("", "Clip", 10, 1, np.array(0.1)) is None
    assert legacy.legacy_attribute("", "Clip", 10, 1, np.array([1.0, 2.0])) is None
    assert legacy.legacy_attribute("", "Clip", 10, 1, np.array(2**53 + 1)) is None
    assert legacy.legacy_attribute("", "TopK", 9, 1, np.array([1, 2])) is None


def test_implied_values() -> None:
    mode = "coordinate_transformation_mode"
    assert legacy.implied_attribute("", "Resize", 10, mode) == "asymmetric"
    assert legacy.implied_attribute("", "Resize", 11, mode) is None
    assert legacy.implied_attribute("", "RoiAlign", 15, mode) == "output_half_pixel"
