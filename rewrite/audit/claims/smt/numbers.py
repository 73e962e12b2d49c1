"""Element types as sorts of z3.

In: the name of an element type. Out: its sort, its numbers, equality, order. Integers are bit
vectors, truth values are booleans, floats are IEEE 754 with one NaN; all other types are sorts of
which nothing is known, which is enough to move and select.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import z3

from rewrite.audit.claims.smt.terms import NotCoveredError
from rewrite.audit.feeds import Array
from rewrite.ops.dtypes import integer_range, to_numpy
from rewrite.schema import DTYPE_CLASSES

INTEGERS = DTYPE_CLASSES["int"]
FLOATS: dict[str, tuple[int, int]] = {
    "f16": (5, 11),
    "bf16": (8, 8),
    "f32": (8, 24),
    "f64": (11, 53),
}
NEAREST = z3.RNE

Term3 = Any  # z3's expressions have no useful types


def bits(dtype: str) -> int:
    return int(dtype[1:])


def is_signed(dtype: str) -> bool:
    return dtype[0] == "s"


def sort(dtype: str) -> Term3:
    if dtype == "bool":
        return z3.BoolSort()
    if dtype in INTEGERS:
        return z3.BitVecSort(bits(dtype))
    if dtype in FLOATS:
        return z3.FPSort(*FLOATS[dtype])
    return z3.DeclareSort(dtype)


def number(value: float, dtype: str) -> Term3:
    """A number as the nearest value of the type. Raises `NotCoveredError` where there is none."""
    if dtype == "bool" and value in (0, 1):
        return z3.BoolVal(bool(value))
    if dtype in FLOATS:
        if isinstance(value, int):
            return z3.simplify(z3.fpRealToFP(NEAREST(), z3.RealVal(value), sort(dtype)))
        if math.isinf(value):
            return z3.fpPlusInfinity(sort(dtype)) if value > 0 else z3.fpMinusInfinity(sort(dtype))
        wide = z3.FPVal(value, sort("f64"))
        return z3.simplify(z3.fpFPToFP(NEAREST(), wide, sort(dtype)))
    if dtype in INTEGERS and value == math.floor(value):
        low, high = integer_range(dtype)
        if low <= value <= high:
            return z3.BitVecVal(int(value), bits(dtype))
    raise NotCoveredError(f"{value} as {dtype}")


def widened(x: Term3, dtype: str) -> Term3:
    """The same number in float64."""
    return x if dtype == "f64" else z3.fpFPToFP(NEAREST(), x, sort("f64"))


def ends(dtype: str, finite: bool = False) -> tuple[Term3, Term3]:
    """The least and the largest value."""
    if dtype in INTEGERS:
        low, high = integer_range(dtype)
        return number(low, dtype), number(high, dtype)
    if dtype not in FLOATS:
        raise NotCoveredError(f"the ends of {dtype}")
    if not finite:
        return number(-math.inf, dtype), number(math.inf, dtype)
    exponent, significand = FLOATS[dtype]
    largest = (2 - 2.0 ** (1 - significand)) * 2.0 ** (2 ** (exponent - 1) - 1)
    return number(-largest, dtype), number(largest, dtype)


def same(a: Term3, b: Term3, dtype: str, exact: bool) -> Term3:
    """Equal bits, one NaN; where not `exact`, zeros of either sign are equal, too."""
    if dtype in FLOATS and not exact:
        return z3.Or(z3.And(z3.fpIsNaN(a), z3.fpIsNaN(b)), z3.fpEQ(a, b))
    return a == b


def less(a: Term3, b: Term3, dtype: str) -> Term3:
    if dtype in FLOATS:
        return z3.fpLT(a, b)
    if dtype in INTEGERS:
        return a < b if is_signed(dtype) else z3.ULT(a, b)
    if dtype == "bool":
        return z3.And(z3.Not(a), b)
    raise NotCoveredError(f"an order of {dtype}")


def equal(a: Term3, b: Term3, dtype: str) -> Term3:
    """As ONNX's Equal: no NaN is equal to anything."""
    if dtype in FLOATS:
        return z3.fpEQ(a, b)
    return a == b


def compare(symbol: str, a: Term3, b: Term3, dtype: str) -> Term3:
    if symbol == "==":
        return equal(a, b, dtype)
    if symbol == "!=":
        return z3.Not(equal(a, b, dtype))
    if symbol in (">", ">="):
        return compare("<" + symbol[1:], b, a, dtype)
    below = less(a, b, dtype)
    return below if symbol == "<" else z3.Or(below, equal(a, b, dtype))


def is_regular(a: Term3, dtype: str) -> Term3:
    """What claims that are not `exact` speak of."""
    if dtype not in FLOATS:
        return z3.BoolVal(True)
    return z3.Or(z3.fpIsZero(a), z3.fpIsNormal(a))


def array_of(found: Term3, dtype: str) -> Array:
    """A number of z3's as an array of rank 0. Raises `NotCoveredError`."""
    kind = to_numpy(dtype)
    if z3.is_bool(found):
        return np.array(z3.is_true(found), kind)
    if z3.is_bv_value(found):
        return np.array(found.as_long() if dtype[0] == "u" else found.as_signed_long(), kind)
    if dtype not in FLOATS or not z3.is_fp(found):
        raise NotCoveredError("no number")
    if z3.is_true(z3.simplify(z3.fpIsNaN(found))):
        return np.array(np.nan, kind)
    pattern = z3.simplify(z3.fpToIEEEBV(found)).as_long()
    width = np.dtype(f"u{kind.itemsize}")
    return np.array(pattern, width).view(kind)
