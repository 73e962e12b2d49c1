"""The element types of quantized tensors: integers of 2 to 32 bits, 8-bit and 4-bit floats.

In: short names of `rewrite.schema.DTYPES`, or numpy types. Out: `CodeType`, `ScaleType`.
Sources: the type lists of QuantizeLinear-25 and DequantizeLinear-25; for the floats, the table
"Float stored in 8 bits" of the ONNX documentation and the OCP microscaling specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CodeType:
    """An element type that codes are stored in.

    `low` and `high` are the least and the largest finite value. An integer code is its value; a
    float code's value is what its bits mean (`value_of`).
    """

    name: str
    bits: int
    signed: bool
    low: int
    high: int
    kind: Literal["int", "float"]

    @property
    def count(self) -> int:
        """How many bit patterns there are."""
        return 1 << self.bits

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type that stores the codes (ml_dtypes below 8 bits and for floats)."""
        return _storage(self.name)


# Name -> largest finite value: 448 = 1.75 * 2^8, 240 = 1.875 * 2^7, 57344 = 1.75 * 2^15.
_FLOATS: Mapping[str, tuple[int, int]] = {
    "f8e4m3fn": (8, 448), "f8e4m3fnuz": (8, 240), "f8e5m2": (8, 57344), "f8e5m2fnuz": (8, 57344),
    "f4e2m1": (4, 6),
}  # fmt: skip
_INTEGERS = ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16", "s32")


def _integer(name: str) -> CodeType:
    bits = int(name[1:])
    if name[0] == "u":
        return CodeType(name, bits, False, 0, (1 << bits) - 1, "int")
    return CodeType(name, bits, True, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, "int")


CODES: Mapping[str, CodeType] = {
    **{name: _integer(name) for name in _INTEGERS},
    **{n: CodeType(n, bits, True, -top, top, "float") for n, (bits, top) in _FLOATS.items()},
}


@dataclass(frozen=True, slots=True)
class ScaleType:
    """An element type of scales: significant bits, exponents of the least and largest normal."""

    name: str
    digits: int
    least: int  # 2^least is the smallest normal number
    most: int  # numbers are below 2^(most + 1)


SCALES: Mapping[str, ScaleType] = {
    "f32": ScaleType("f32", 24, -126, 127),
    "f16": ScaleType("f16", 11, -14, 15),
    "bf16": ScaleType("bf16", 8, -126, 127),
    "f8e8m0": ScaleType("f8e8m0", 1, -127, 127),  # powers of two; no sign, no zero
    "f64": ScaleType("f64", 53, -1022, 1023),  # not in ONNX: for exact work
}

_NATIVE: Mapping[str, str] = {
    "u8": "uint8", "s8": "int8", "u16": "uint16", "s16": "int16", "s32": "int32",
    "f32": "float32", "f16": "float16", "f64": "float64", "u32": "uint32", "s64": "int64",
    "u64": "uint64", "bool": "bool",
}  # fmt: skip
_EXTENDED: Mapping[str, str] = {
    "u2": "uint2", "s2": "int2", "u4": "uint4", "s4": "int4", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f4e2m1": "float4_e2m1fn", "f8e8m0": "float8_e8m0fnu",
}  # fmt: skip
_SHORT: Mapping[str, str] = {spelled: n for n, spelled in (*_NATIVE.items(), *_EXTENDED.items())}


@cache
def _storage(name: str) -> np.dtype[Any]:
    native = _NATIVE.get(name)
    if native is not None:
        return np.dtype(native)
    import ml_dtypes

    extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _EXTENDED[name]))
    return extended


def storage(name: str) -> np.dtype[Any]:
    """The numpy type of a short name: `s4` -> ml_dtypes.int4."""
    return _storage(name)


def name_of(dtype: np.dtype[Any]) -> str | None:
    """The short name of a numpy type; None for types that are not in the tables."""
    return _SHORT.get(dtype.name)


def code_type(of: str | np.dtype[Any]) -> CodeType | None:
    """The code type of a short name or a numpy type; None where it holds no codes."""
    name = of if isinstance(of, str) else name_of(of)
    return None if name is None else CODES.get(name)


def every_code(code: CodeType) -> Array:
    """Every code, in storage type: integers ascending, floats in order of their bits."""
    if code.kind == "int":
        if code.bits > 16:
            raise ValueError(f"{code.name} has too many codes to list")
        return np.arange(code.low, code.high + 1, dtype=np.int64).astype(code.dtype)
    return np.arange(code.count, dtype=np.uint8).view(code.dtype)


def values_of(codes: Array) -> Floats:
    """The number that each code stands for before scale and zero point; exact."""
    return codes.astype(np.float64) if codes.dtype.kind in "iuf" else _wide(codes)


def _wide(codes: Array) -> Floats:
    # ml_dtypes converts its types to float32 without error; the step to float64 has none.
    wide: Floats = codes.astype(np.float32).astype(np.float64)
    return wide


def store(values: Ints, code: CodeType) -> Array:
    """Integers within `code`'s range, in its storage type."""
    return values.astype(code.dtype)
