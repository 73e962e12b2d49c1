"""Element types: ONNX's type strings and numpy's types for the short names of `schema.DTYPES`.

In: nothing. Out: tables, the conversions between short names and numpy types, widths, limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from rewrite.schema import DTYPES

# onnx/defs/data_type_utils.cc: the word inside tensor(...).
ONNX_NAMES: Mapping[str, str] = {
    "float": "f32", "uint8": "u8", "int8": "s8", "uint16": "u16", "int16": "s16",
    "int32": "s32", "int64": "s64", "string": "string", "bool": "bool", "float16": "f16",
    "double": "f64", "uint32": "u32", "uint64": "u64", "complex64": "c64", "complex128": "c128",
    "bfloat16": "bf16", "float8e4m3fn": "f8e4m3fn", "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2", "float8e5m2fnuz": "f8e5m2fnuz", "uint4": "u4", "int4": "s4",
    "float4e2m1": "f4e2m1", "float8e8m0": "f8e8m0", "uint2": "u2", "int2": "s2",
    "float6e2m3": "f6e2m3", "float6e3m2": "f6e3m2",
}  # fmt: skip

_NATIVE: Mapping[str, str] = {
    "f32": "float32", "u8": "uint8", "s8": "int8", "u16": "uint16", "s16": "int16",
    "s32": "int32", "s64": "int64", "string": "object", "bool": "bool", "f16": "float16",
    "f64": "float64", "u32": "uint32", "u64": "uint64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip

_EXTENDED: Mapping[str, str] = {
    "bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz", "u4": "uint4", "s4": "int4",
    "f4e2m1": "float4_e2m1fn", "f8e8m0": "float8_e8m0fnu", "u2": "uint2", "s2": "int2",
    "f6e2m3": "float6_e2m3fn", "f6e3m2": "float6_e3m2fn",
}  # fmt: skip


# Width of an element in bits; 0 for strings.
BITS: Mapping[str, int] = {
    name: 8 if name == "bool" else int("".join(filter(str.isdigit, name.split("e")[0])) or 0)
    for name in DTYPES
}


def integer_range(name: str) -> tuple[int, int]:
    """The least and the largest value of an integer type."""
    bits = BITS[name]
    return (0, (1 << bits) - 1) if name[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def finfo(dtype: np.dtype[np.generic]) -> Any:
    """Limits of a float type, numpy's own types too; ml_dtypes has no annotations."""
    import ml_dtypes

    limits: Any = ml_dtypes.finfo
    return limits(dtype)


def from_type_string(text: str) -> str | None:
    """`tensor(float)` -> `f32`; None for anything that is not a tensor type."""
    if text.startswith("tensor(") and text.endswith(")"):
        return ONNX_NAMES.get(text[7:-1])
    return None


@cache
def to_numpy(name: str) -> np.dtype[np.generic]:
    """`bf16` -> ml_dtypes.bfloat16, `f32` -> float32. ml_dtypes is imported only where needed."""
    native = _NATIVE.get(name)
    if native is not None:
        return np.dtype(native)
    import ml_dtypes

    extended: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, _EXTENDED[name]))
    return extended


@cache
def of_numpy(dtype: np.dtype[np.generic]) -> str | None:
    """The short name of a numpy type; None where ONNX has no such type."""
    if dtype.kind in "OUST":
        return "string"
    text = dtype.name
    for table in (_NATIVE, _EXTENDED):
        for name, spelled in table.items():
            if spelled == text:
                return name
    return None
