"""The tables of element types against onnx, onnx-ir and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import onnx
import onnx_ir as ir
import pytest

from rewrite.ops.dtypes import BITS, finfo, integer_range, of_numpy, to_numpy
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF, DTYPES

NAMES = [name for name in DTYPES if name != "string"]


def test_every_element_type_of_onnx_has_a_name() -> None:
    numbers = set(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
    assert set(DTYPE_OF) == numbers


@pytest.mark.parametrize("name", NAMES)
def test_width_and_numpy_type(name: str) -> None:
    dtype = to_numpy(name)
    assert dtype == onnx.helper.tensor_dtype_to_np_dtype(DTYPES[name])
    assert of_numpy(dtype) == name
    assert BITS[name] == ir.DataType(DTYPES[name]).bitwidth


@pytest.mark.parametrize("name", sorted(DTYPE_CLASSES["int"]))
def test_integer_limits(name: str) -> None:
    info = ml_dtypes.iinfo(to_numpy(name))
    assert integer_range(name) == (info.min, info.max)


def test_float_limits() -> None:
    """From the definitions of the formats: IEEE 754; OCP FP8 and MX; brain floats."""
    assert finfo(to_numpy("f32")).eps == 2.0**-23
    assert finfo(to_numpy("f16")).max == 65504
    assert finfo(to_numpy("bf16")).eps == 2.0**-7
    assert finfo(to_numpy("f8e4m3fn")).max == 448
    assert finfo(to_numpy("f4e2m1")).max == 6
