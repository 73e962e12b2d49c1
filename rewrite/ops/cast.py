"""Conversions between element types: Cast, CastLike, BitCast.

In: `Call` or `Evaluation`. Out: types or arrays. `convert` is exact where the standard says what
the result is, and gives None where it does not: a float outside an integer's range, strings.
Source: the tables in the text of Cast (onnx/defs/tensor/defs.cc).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.ops.call import Array, Arrays, Call, Evaluation, Types
from rewrite.ops.dtypes import BITS, finfo, integer_range, of_numpy, to_numpy
from rewrite.ops.registry import op, value
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF, Type

# Element types that no conversion here reads or writes.
_REFUSED = frozenset({"string", "c64", "c128"})

_FLOAT8 = frozenset({"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"})
_SMALL_FLOATS = frozenset({"f4e2m1", "f6e2m3", "f6e3m2"})  # finite only: they always saturate


def is_float(name: str) -> bool:
    return name in DTYPE_CLASSES["f"]


def convert(x: Array, target: str, saturate: bool = True, round_mode: str = "up") -> Array | None:
    """The array in another element type, None where the standard leaves a value open."""
    source = of_numpy(x.dtype)
    if source is None or source in _REFUSED or target in _REFUSED:
        return None
    if source == target:
        return x
    with np.errstate(all="ignore"):
        if target == "bool":
            return np.asarray(_to_native(x, source) != 0)
        if is_float(target):
            return _to_float(_to_native(x, source), target, saturate, round_mode)
        return _to_integer(_to_native(x, source), target)


def _to_native(x: Array, source: str) -> Array:
    """The same values in a type that numpy itself computes with."""
    if is_float(source):
        return x if source in ("f16", "f32", "f64") else x.astype(np.float32)
    if BITS[source] < 8:
        return x.astype(np.uint8 if source[0] == "u" else np.int8)
    return x


def _to_integer(x: Array, target: str) -> Array | None:
    low, high = integer_range(target)
    if x.dtype.kind == "f":
        whole = np.trunc(x.astype(np.float64))
        if not np.all((whole >= low) & (whole < float(high) + 1)):
            return None  # NaN and what does not fit
        x = whole.astype(np.uint64 if target == "u64" else np.int64)
    if BITS[target] >= 8:
        return np.asarray(x.astype(to_numpy(target)))
    # Higher bits are discarded and the rest is read in two's complement.
    wrapped = np.bitwise_and(x.astype(np.int64), 2 ** BITS[target] - 1)
    wrapped = np.where(wrapped > high, wrapped - 2 ** BITS[target], wrapped)
    return np.asarray(wrapped.astype(np.int8).astype(to_numpy(target)))


def _to_float(x: Array, target: str, saturate: bool, round_mode: str) -> Array | None:
    if target in ("f32", "f64"):
        return x.astype(to_numpy(target))
    narrow = x.astype(np.float32)
    found = _from_float32(narrow, target, saturate, round_mode)
    if found is None or not _inexact(x, narrow):
        return found
    # Some runtimes go by way of float32. Two roundings are one unless the float32 lies halfway
    # between two results: then its neighbour on the side of x gives another one.
    toward = np.nextafter(narrow, np.where(x > narrow, np.float32(np.inf), np.float32(-np.inf)))
    beside = np.where(narrow == x, narrow, toward)
    other = _from_float32(beside, target, saturate, round_mode)
    same = other is not None and np.array_equal(_codes(found), _codes(other))
    return found if same else None


def _inexact(x: Array, narrow: Array) -> bool:
    return x.dtype not in (np.float32, np.float16) and bool(np.any(narrow != x))


def _codes(x: Array) -> Array:
    return np.ascontiguousarray(x).view(np.dtype(f"u{x.dtype.itemsize}"))


def _from_float32(x: Array, target: str, saturate: bool, round_mode: str) -> Array | None:
    if target in ("f16", "bf16"):
        return x.astype(to_numpy(target))
    if target == "f8e8m0":
        return to_e8m0(x, saturate, round_mode)
    if target in _SMALL_FLOATS:
        return None if np.isnan(x).any() else _clamped(x, target)
    return to_float8(x, target, saturate)


def to_float8(x: Array, target: str, saturate: bool) -> Array:
    """float32 -> an 8-bit float, to nearest even; saturating or with NaN and Inf out of range."""
    return _clamped(x, target) if saturate else x.astype(to_numpy(target))


def _clamped(x: Array, target: str) -> Array:
    largest = float(finfo(to_numpy(target)).max)
    # Clamped before rounding: what is above the largest number rounds to it or overflows.
    return np.clip(x, -largest, largest).astype(to_numpy(target))


def to_e8m0(x: Array, saturate: bool, round_mode: str) -> Array | None:
    """float32 -> a power of two; only for positive finite numbers that stay in range."""
    low, high = 2.0**-127, 2.0**127
    wide = x.astype(np.float64)
    if not np.all((wide >= low) & (wide <= high)) or not saturate:
        return None
    mantissa, exponent = np.frexp(wide)  # x = m 2^e, 1/2 <= m < 1
    if round_mode == "up":
        exponent = np.where(mantissa > 0.5, exponent, exponent - 1)
    elif round_mode == "down":
        exponent = exponent - 1
    else:
        exponent = np.where(mantissa >= 0.75, exponent, exponent - 1)
    return np.asarray(np.ldexp(1.0, exponent)).astype(np.float32).astype(to_numpy("f8e8m0"))


# --- operators --------------------------------------------------------------------------------


@op("Cast", kind="elementwise", pointwise=True, shape_class="first")
def cast(call: Call) -> Types:
    """The element converted to another type"""
    return (Type(call.element_type("to", None), call.type(0).shape),)


@value("Cast")
def cast_value(e: Evaluation) -> Arrays | None:
    target = DTYPE_OF.get(e.integer("to", 0))
    return None if target is None else _converted(e, target)


def _converted(e: Evaluation, target: str) -> Arrays | None:
    saturate = e.integer("saturate", 1) != 0
    result = convert(e.array(0), target, saturate, e.text("round_mode", "up"))
    return None if result is None else (result,)


@op("CastLike", kind="elementwise", pointwise=True, shape_class="first")
def cast_like(call: Call) -> Types:
    """The element converted to the type of the second operand"""
    return (Type(call.type(1).dtype, call.type(0).shape),)


@value("CastLike")
def cast_like_value(e: Evaluation) -> Arrays | None:
    target = of_numpy(e.array(1).dtype)
    return None if target is None else _converted(e, target)


@op("BitCast", kind="elementwise", pointwise=True, shape_class="first")
def bit_cast(call: Call) -> Types:
    """The bits of the element read as another type of the same width"""
    x, target = call.type(0), call.element_type("to", None)
    if x.dtype is not None and target is not None and BITS[x.dtype] != BITS[target]:
        call.fail(f"the bits of {x.dtype} read as {target}")
    return (Type(target, x.shape),)


@value("BitCast")
def bit_cast_value(e: Evaluation) -> Arrays | None:
    x: Any = e.array(0)
    target = DTYPE_OF.get(e.integer("to", 0))
    source = of_numpy(x.dtype)
    if target is None or source is None or BITS[target] < 8:
        return None
    return (np.asarray(x).view(to_numpy(target)).reshape(x.shape, order="C"),)
