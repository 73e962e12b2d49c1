"""Combining elements: what a `Fold` does with two vectors, and what it starts from.

In: two values of one type. Out: one. NaN goes through min and max; sums and products of integers
wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewrite.codegen.integers import divided
from rewrite.codegen.ir import Function
from rewrite.codegen.types import bits, is_float, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.rows import ADD, MAX, MUL, PEAK

Combine = Callable[[Value, Value], Value]


def combiner(f: Function, kind: str, dtype: str) -> Combine:
    """The function of two values."""
    if kind == ADD:
        return lambda a, b: _logical_or(f, a, b) if dtype == "bool" else f.add(a, b)
    if kind == MUL:
        return lambda a, b: f.mul(a, b)
    if kind == PEAK:
        return lambda a, b: _peak(f, a, b, dtype)
    return lambda a, b: _extreme(f, kind, dtype, a, b)


def _logical_or(f: Function, a: Value, b: Value) -> Value:
    return f.binary("or", a, b)


def _peak(f: Function, a: Value, b: Value, dtype: str) -> Value:
    if not is_float(a.type):
        return _extreme(f, MAX, dtype, a, b)
    return f.select(f.compare(">", b, a), b, a)


def _extreme(f: Function, kind: str, dtype: str, a: Value, b: Value) -> Value:
    if dtype == "bool":
        return f.binary("or" if kind == MAX else "and", a, b)
    if not is_float(a.type):
        sign = "u" if dtype[0] == "u" else "s"
        return f.intrinsic(f"llvm.{sign}{kind}", a.type, a, b)
    # The first selection gives b where one of both is NaN, the second a where a is NaN.
    chosen = f.select(f.compare(">" if kind == MAX else "<", a, b), a, b)
    return f.select(f.compare("==", a, a), chosen, a)


def identity(kind: str, dtype: str, type_: str) -> float | int | bool:
    """What changes no other value."""
    if kind == ADD:
        return 0
    if kind == MUL:
        return 1
    lowest = kind in (MAX, PEAK)
    if dtype == "bool":
        return not lowest
    if is_float(type_):
        return float("-inf") if lowest else float("inf")
    width = {"u4": 4, "s4": 4, "u2": 2, "s2": 2}.get(dtype, bits(type_))
    if dtype[0] == "u":
        return 0 if lowest else (1 << width) - 1
    return -(1 << (width - 1)) if lowest else (1 << (width - 1)) - 1


def tree(values: Sequence[Value], combine: Combine) -> Value:
    """Pairwise."""
    left = list(values)
    while len(left) > 1:
        pairs = [combine(a, b) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = pairs + (left[-1:] if len(left) % 2 else [])
    return left[0]


def averaged(f: Function, x: Value, dtype: str, count: Value) -> Value:
    """x divided by the number of elements; of integers rounded toward zero."""
    lanes = (x.type.startswith("<") and int(x.type[1:].split(" ")[0])) or 0
    if is_float(x.type):
        number = f.cast("uitofp", count, "double" if dtype == "f64" else "float")
        return f.binary("fdiv", x, f.splat(number, x.type))
    width = bits(x.type)
    whole = count if width == 64 else f.cast("trunc", count, f"i{width}")
    return divided(f, x, f.splat(whole, vector(f"i{width}", lanes)), dtype[0] != "u", None)
