"""The operators of expressions: arithmetic, comparison, membership.

In: numbers, tensors, lists, strings, sizes, graph values. Out: the same, or truth values. A
comparison of a size that is not known with anything but itself is `Unknown`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from rewrite.match import budget
from rewrite.match.deferred import Arithmetic
from rewrite.match.values import (
    ElementType,
    Env,
    Symbol,
    Tensor,
    Unknown,
    check_int,
    check_size,
    describe,
    is_graph_value,
    join_dtypes,
    weak,
)
from rewrite.ops.call import Array
from rewrite.schema import DTYPE_CLASSES

Scalar = bool | int | float

_EXACT: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv,
    "%": operator.mod,
}  # fmt: skip

_FLOAT: Mapping[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide,
    "%": np.mod, "**": np.power,
}  # fmt: skip

NUMBERS = frozenset({bool, int, float})
_WORDS = frozenset({str, ElementType})
_INTEGERS = frozenset({int})
COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip

# `a < b` is `b > a`.
MIRRORED: Mapping[str, str] = {
    "<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!=",
}  # fmt: skip

# Kinds of two element types whose arithmetic numpy does in float64 when it is told to.
_WIDENED = frozenset({"ff", "fi", "if", "fb", "bf"})

_ORDER: Mapping[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


def binary(symbol: str, a: object, b: object, env: Env) -> object:
    """`a symbol b` for the arithmetic operators."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return _numbers(symbol, a, b)
    for side in (a, b):
        if isinstance(side, Symbol):
            raise Unknown(f"the size {side} is not known")
        if isinstance(side, (str, type(None))):
            raise Unknown(f"{describe(side)} has no `{symbol}`")
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) != len(b):
        raise Unknown(f"`{symbol}` of lists of different lengths")
    return simplest(arithmetic(symbol, env.tensor(a), env.tensor(b)))


def negative(a: object, env: Env) -> object:
    """`-a`."""
    if isinstance(a, int):
        return check_int(-a)
    if isinstance(a, float):
        return -a
    return simplest(arithmetic("*", env.tensor(a), weak(-1)))


def simplest(result: Tensor) -> object:
    """What came from numbers alone is a number (rank 0) or a list of numbers (rank 1)."""
    if result.dtype is not None or result.ndim > 1 or result.array.dtype.kind not in "bif":
        return result
    plain = result.array.tolist()
    return tuple(plain) if isinstance(plain, list) else plain


def _numbers(symbol: str, a: Scalar, b: Scalar) -> Scalar:
    if isinstance(a, int) and isinstance(b, int):
        return _integers(symbol, int(a), int(b))
    with np.errstate(all="ignore"):
        return float(_FLOAT[symbol](np.asarray(a, np.float64), np.asarray(b, np.float64)))


def _integers(symbol: str, a: int, b: int) -> Scalar:
    if symbol == "**":
        if b < 0:
            return float(a) ** b if a else float("inf")
        if abs(a) > 1 and b > 63:
            raise Unknown("a number is out of the range of int64")
        return check_int(a**b)
    if symbol in ("/", "//", "%") and b == 0:
        raise Unknown("division by zero")
    if symbol == "/":
        return a // b if a % b == 0 else a / b
    return check_int(_EXACT[symbol](a, b))


def arithmetic(symbol: str, a: Tensor, b: Tensor) -> Tensor:
    """Element by element under broadcasting, in working precision."""
    dtype = join_dtypes(a, b)
    shape = _meet(a, b)
    kinds = a.elements.dtype.kind + b.elements.dtype.kind
    if dtype in DTYPE_CLASSES["f"] and kinds in _WIDENED and _is_native(a, b):
        return Tensor(Arithmetic(_FLOAT[symbol], a.elements, b.elements, shape), dtype)
    if "O" in (a.array.dtype.kind, b.array.dtype.kind):
        raise Unknown(f"strings have no `{symbol}`")
    with np.errstate(all="ignore"):
        if a.array.dtype.kind in "bi" and b.array.dtype.kind in "bi" and symbol != "/":
            return Tensor(_exact_integers(symbol, a.array, b.array), dtype)
        wide = np.complex128 if "c" in (a.array.dtype.kind, b.array.dtype.kind) else np.float64
        result = _FLOAT[symbol](a.array.astype(wide, copy=False), b.array.astype(wide, copy=False))
    return Tensor(np.asarray(result), dtype)


def _is_native(*sides: Tensor) -> bool:
    """Whether the elements are in the machine's own order."""
    return all(x.elements.dtype.isnative for x in sides)


def _exact_integers(symbol: str, a: Array, b: Array) -> Array:
    if symbol in ("//", "%") and (b == 0).any():
        raise Unknown("division by zero")
    if symbol == "**" and (b < 0).any():
        raise Unknown("a negative power of an integer constant")
    left, right = a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)
    estimate = _FLOAT[symbol](left.astype(np.float64), right.astype(np.float64))
    if np.abs(estimate).max(initial=0.0) >= 2.0**62:
        raise Unknown("a number is out of the range of int64")
    return np.asarray(_FLOAT[symbol](left, right))


def compare(symbol: str, a: object, b: object, env: Env) -> object:
    """`a symbol b` for the comparisons; a tensor of truth values where a side is a constant."""
    if a.__class__ in NUMBERS and b.__class__ in NUMBERS:
        return COMPARE[symbol](a, b)
    if a.__class__ in _WORDS and b.__class__ in _WORDS and symbol in ("==", "!="):
        return COMPARE[symbol](a, b)
    if is_graph_value(a) != is_graph_value(b) and not (a is None or b is None):
        a, b = (env.tensor(s) if is_graph_value(s) else s for s in (a, b))
    if symbol in ("==", "!=") and not _computes(a, b):
        equal = same(a, b)
        return equal if symbol == "==" else not equal
    for side in (a, b):
        if isinstance(side, Symbol):
            raise Unknown(f"the size {side} is not known")
        if isinstance(side, (str, type(None))):
            raise Unknown(f"{describe(side)} cannot be compared by `{symbol}`")
    left, right = env.tensor(a), env.tensor(b)
    _meet(left, right)
    if _strings(left) or _strings(right):
        return _compare_strings(symbol, left, right)
    if "c" in (left.array.dtype.kind, right.array.dtype.kind) and symbol not in ("==", "!="):
        raise Unknown("complex numbers have no order")
    with np.errstate(all="ignore"):
        return Tensor(np.asarray(_ORDER[symbol](left.array, right.array)), "bool")


def _strings(tensor: Tensor) -> bool:
    return tensor.array.dtype.kind in "OSU"


def _compare_strings(symbol: str, a: Tensor, b: Tensor) -> Tensor:
    if symbol not in ("==", "!=") or not (_strings(a) and _strings(b)):
        raise Unknown(f"strings cannot be compared by `{symbol}`")
    sides = a.array.astype(object), b.array.astype(object)
    return Tensor(np.asarray(_ORDER[symbol](*sides), np.bool_), "bool")


def _meet(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Two tensors are about to meet under broadcasting: the shape of the result."""
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError as complaint:
        raise Unknown(f"shapes {list(a.shape)} and {list(b.shape)} do not broadcast") from complaint
    check_size(shape)
    budget.spend(budget.PER_CALL + math.prod(shape))
    return shape


def _computes(a: object, b: object) -> bool:
    """Whether equality of these two is that of numbers, element by element."""
    if isinstance(a, (str, type(None))) or isinstance(b, (str, type(None))):
        return False
    if isinstance(a, tuple) or isinstance(b, tuple):
        return False
    return not (is_graph_value(a) and is_graph_value(b))


def same(a: object, b: object) -> bool:
    """Equality of anything but constants: of graph values, being the same value."""
    budget.spend(budget.PER_ITEM)
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return _same_size(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _same_lists(a, b)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        budget.spend(a.size)
        return a.shape == b.shape and bool(np.array_equal(a.array, b.array))
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return _same_number(a, b)
    if is_graph_value(a) or is_graph_value(b):
        return a is b
    return bool(a == b)


def _same_number(a: object, b: object) -> bool:
    tensor, other = (a, b) if isinstance(a, Tensor) else (b, a)
    if not isinstance(tensor, Tensor) or not isinstance(other, (bool, int, float, tuple)):
        return False
    if isinstance(other, tuple) and len(other) != tensor.size:
        return False
    number = weak(other)
    return tensor.shape == number.shape and bool(np.array_equal(tensor.array, number.array))


def _same_size(a: object, b: object) -> bool:
    if isinstance(a, Symbol) and isinstance(b, Symbol) and str(a) == str(b):
        return True
    unknown = a if isinstance(a, Symbol) else b
    raise Unknown(f"the size {unknown} is not known")


def _same_lists(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
    """False as soon as one pair is known to differ, whatever is unknown elsewhere."""
    if len(a) != len(b):
        return False
    if _INTEGERS.issuperset(map(type, a)) and _INTEGERS.issuperset(map(type, b)):
        budget.spend(len(a))
        return a == b
    pairs = tuple(zip(a, b, strict=True))
    return not decided(lambda pair: not same(*pair), pairs)


def member(item: object, group: object) -> bool:
    """`item in group`, for lists."""
    if isinstance(group, Tensor) and group.ndim == 1:
        group = tuple(group.array.tolist())
    if not isinstance(group, tuple):
        raise Unknown(f"{describe(group)} is not a list")
    return decided(lambda other: same(item, other), group)


T = TypeVar("T")


def decided(holds: Callable[[T], bool], items: Iterable[T]) -> bool:
    """Whether it holds for some item. As Kleene's `or`: one that holds decides, else one that is
    unknown makes the answer unknown."""
    unknown: Unknown | None = None
    for item in items:
        budget.spend(budget.PER_ITEM)
        try:
            if holds(item):
                return True
        except budget.Exhausted:
            raise
        except Unknown as reason:
            unknown = reason
    if unknown is not None:
        raise unknown
    return False
