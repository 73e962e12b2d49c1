"""LLVM types and literals as text.

In: type names such as `float` and `<8 x i32>`, Python numbers. Out: their parts, and constants
written so that they are exact. Reference: https://llvm.org/docs/LangRef.html (LLVM 22).
"""

from __future__ import annotations

import struct
from functools import cache

import ml_dtypes
import numpy as np

FLOATS = frozenset({"half", "bfloat", "float", "double"})
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}


@cache
def lanes(type_: str) -> int:
    """How many elements a vector has; 0 for a scalar."""
    return int(type_[1:].split(" x ", maxsplit=1)[0]) if type_.startswith("<") else 0


@cache
def element(type_: str) -> str:
    """The element type of a vector; a scalar's own type."""
    return type_[:-1].split(" x ")[1] if type_.startswith("<") else type_


def vector(element_type: str, count: int) -> str:
    """`<8 x float>`; a scalar type where `count` is 0."""
    return f"<{count} x {element_type}>" if count else element_type


def like(type_: str, element_type: str) -> str:
    """The type of as many lanes as `type_`, of another element."""
    return vector(element_type, lanes(type_))


@cache
def bits(type_: str) -> int:
    """Width of one element."""
    name = element(type_)
    return _BITS[name] if name in _BITS else int(name[1:])


def is_float(type_: str) -> bool:
    return element(type_) in FLOATS


@cache
def suffix(type_: str) -> str:
    """How intrinsics name a type: `v8f32`, `i32`, `p0`."""
    name = element(type_)
    short = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}
    count = lanes(type_)
    return (f"v{count}" if count else "") + short.get(name, name)


def literal(number: float | int | bool, type_: str) -> str:
    """A constant; a float is rounded to its type and written in hexadecimal: exactly."""
    name = element(type_)
    text = (
        _float_literal(float(number), name) if name in FLOATS else _int_literal(int(number), name)
    )
    return f"splat ({name} {text})" if lanes(type_) else text


def _int_literal(number: int, name: str) -> str:
    width = bits(name)
    wrapped = (
        (number + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
        if width > 1
        else number & 1
    )
    return str(wrapped) if width > 1 else ("true" if wrapped else "false")


def _float_literal(number: float, name: str) -> str:
    if name == "half":
        return f"0xH{np.float16(number).view(np.uint16):04X}"
    if name == "bfloat":
        return f"0xR{np.asarray(number, dtype=ml_dtypes.bfloat16).view(np.uint16).item():04X}"
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number)) if name == "float" else number
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
