"""Questions about the numbers in a constant.

In: constants. Out: truth values and single numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rewrite.match.builtins.elementwise import met
from rewrite.match.builtins.queries import dtype_of
from rewrite.match.builtins.registry import Dtype, builtin
from rewrite.match.values import Env, Tensor, Unknown, check_size, integer_range
from rewrite.ops.dtypes import finfo, to_numpy
from rewrite.schema import DTYPE_CLASSES


@builtin
def finite(x: Tensor) -> bool:
    """Whether every element is a finite number."""
    return bool(np.isfinite(x.array).all())


@builtin
def all_positive(x: Tensor) -> bool:
    """Whether every element is above 0."""
    return bool((x.array > 0).all())


@builtin
def all_nonnegative(x: Tensor) -> bool:
    """Whether every element is 0 or above."""
    return bool((x.array >= 0).all())


@builtin
def all_nonzero(x: Tensor) -> bool:
    """Whether no element is 0."""
    return bool((x.array != 0).all())


@builtin
def positive_zero(x: Tensor) -> bool:
    """Whether every element is 0, and none is -0."""
    if not (x.array == 0).all():
        return False
    parts = (x.array.real, x.array.imag) if x.array.dtype.kind == "c" else (x.reals(),)
    return not any(np.signbit(part).any() for part in parts)


@builtin
def is_integer_valued(x: Tensor) -> bool:
    """Whether every element is an integer."""
    if x.array.dtype.kind in "bi":
        return True
    return finite(x) and bool((x.array == np.trunc(x.array)).all())


@builtin
def all_equal(x: Tensor, value: Tensor) -> bool:
    """Whether every element is the number, or the element of the other constant."""
    met(x, value)
    return bool((x.array == value.array).all())


@builtin
def uniform(x: Tensor) -> bool:
    """Whether all elements are equal."""
    return x.size > 0 and bool((x.array == x.array.reshape(-1)[0]).all())


@builtin
def equal(x: Tensor, y: Tensor) -> bool:
    """Whether two constants have the same shape and elements."""
    return x.shape == y.shape and bool(np.array_equal(x.array, y.array))


@builtin
def close(x: Tensor, y: Tensor, rtol: float = 1e-6, atol: float = 0.0) -> bool:
    """Whether |x - y| <= max(atol, rtol · max(|x|, |y|)), everywhere."""
    met(x, y)
    a, b = x.reals(), y.reals()
    bound = np.maximum(rtol * np.maximum(np.abs(a), np.abs(b)), atol)
    return bool((np.abs(a - b) <= bound).all())


@builtin
def min_of(x: Tensor) -> float:
    """The least element."""
    return x.array.min().item()  # type: ignore[no-any-return]


@builtin
def max_of(x: Tensor) -> float:
    """The largest element."""
    return x.array.max().item()  # type: ignore[no-any-return]


@builtin
def number(x: float) -> float:
    """A constant of one element as a number."""
    return x


@builtin
def fits(x: Tensor, dtype: Dtype) -> bool:
    """Whether every element is a value of the element type."""
    try:
        rounded = Tensor(x.array, dtype).rounded()
    except Unknown:
        return False
    return bool(np.array_equal(rounded.astype(np.float64), x.reals()))


@builtin
def normal(x: Tensor, dtype: Dtype) -> bool:
    """Whether rounding to the element type neither overflows nor loses digits to underflow."""
    if dtype in DTYPE_CLASSES["int"]:
        return fits(x, dtype)
    try:
        rounded = Tensor(x.reals(), dtype).rounded().astype(np.float64)
    except Unknown:
        return False
    regular = np.isfinite(rounded) & (np.abs(rounded) >= float(_finfo(dtype).smallest_normal))
    return bool((regular | (x.array == 0)).all())


@builtin
def power_of_two(x: Tensor) -> bool:
    """Whether every element is ±2^k, and one over it is exact in the element type."""
    wide = x.reals()
    if not np.isfinite(wide).all() or not (wide != 0).all():
        return False
    mantissa, _ = np.frexp(np.abs(wide))
    exact = bool((mantissa == 0.5).all())
    return exact and (x.dtype is None or normal(Tensor(1 / wide, x.dtype), x.dtype))


@builtin
def is_identity_matrix(x: Tensor) -> bool:
    """Whether the last two axes hold the identity matrix."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return False
    check_size(x.shape[-2:])
    return bool((x.array == np.eye(x.shape[-1])).all())


@builtin
def is_ascending(x: Tensor) -> bool:
    """Whether no element of a vector is less than the one before."""
    return bool((np.diff(x.array.reshape(-1)) >= 0).all())


@builtin
def is_arange(x: Tensor) -> bool:
    """Whether a vector is [0, 1, ..., n - 1]."""
    return x.ndim == 1 and bool(np.array_equal(x.array, np.arange(x.size)))


@builtin
def lowest(env: Env, x: object) -> float:
    """The least value of an element type: -inf where it has infinities."""
    return _ends(dtype_of(env, x))[0]


@builtin
def highest(env: Env, x: object) -> float:
    """The largest value of an element type: inf where it has infinities."""
    return _ends(dtype_of(env, x))[1]


@builtin
def finite_lowest(env: Env, x: object) -> float:
    """The least finite value of an element type."""
    return _finite_ends(dtype_of(env, x))[0]


@builtin
def finite_highest(env: Env, x: object) -> float:
    """The largest finite value of an element type."""
    return _finite_ends(dtype_of(env, x))[1]


@builtin
def epsilon(env: Env, x: object) -> float:
    """The distance from 1 to the next larger value of a float type."""
    return float(_finfo(dtype_of(env, x)).eps)


def _ends(name: str) -> tuple[float, float]:
    low, high = _finite_ends(name)
    if name in DTYPE_CLASSES["f"]:
        has_infinity = bool(np.isinf(np.float32(np.inf).astype(to_numpy(name)).astype(np.float32)))
        return (-np.inf, np.inf) if has_infinity else (low, high)
    return low, high


def _finite_ends(name: str) -> tuple[float, float]:
    if name == "bool":
        return 0, 1
    if name in DTYPE_CLASSES["int"]:
        return integer_range(name)
    info = _finfo(name)
    return float(info.min), float(info.max)


def _finfo(name: str) -> Any:
    if name not in DTYPE_CLASSES["f"]:
        raise Unknown(f"{name} is not a float type")
    return finfo(to_numpy(name))


@builtin
def widens(env: Env, a: object, b: object) -> bool:
    """Whether every value of element type `a` is a value of element type `b`."""
    return dtype_widens(dtype_of(env, a), dtype_of(env, b))


@cache
def dtype_widens(a: str, b: str) -> bool:
    """`widens` of the names of two element types."""
    if a == b:
        return True
    if "string" in (a, b) or b == "bool" or (a[0] == "c" and b[0] != "c"):
        return False
    if a == "bool":
        return True
    low, high = _finite_ends(_part(a))
    target = _part(b)
    if target in DTYPE_CLASSES["int"]:
        below, above = integer_range(target)
        return a in DTYPE_CLASSES["int"] and below <= low and high <= above
    if a in DTYPE_CLASSES["int"]:
        # Integers are exact up to 2^(digits), where digits count the implicit one.
        digits = 1 - np.log2(float(_finfo(target).eps))
        return bool(max(-low, high) <= min(2.0**digits, _finite_ends(target)[1]))
    return _float_widens(_part(a), target)


def _part(name: str) -> str:
    return {"c64": "f32", "c128": "f64"}.get(name, name)


def _float_widens(a: str, b: str) -> bool:
    narrow, wide = _finfo(a), _finfo(b)
    if float(wide.eps) > float(narrow.eps) or _ends(a)[1] > _ends(b)[1]:
        return False
    if float(wide.max) < float(narrow.max):
        return False
    return float(wide.smallest_subnormal) <= float(narrow.smallest_subnormal)
