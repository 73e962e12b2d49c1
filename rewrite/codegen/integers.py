"""Division of integers in registers: total functions, no traps.

In: integers of one type, scalars or vectors. Out: quotients and remainders, rounded toward zero.
Division by zero gives 0, and is reported; the least integer divided by -1 wraps to itself.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Function
from rewrite.codegen.types import bits, like
from rewrite.codegen.value import Value
from rewrite.plan.spec import DIVISION_BY_ZERO

Report = Callable[[int, Value], None]


def divided(f: Function, x: Value, y: Value, signed: bool, report: Report | None) -> Value:
    return _total(f, "div", x, y, signed, report)


def remainder_of(f: Function, x: Value, y: Value, signed: bool, report: Report | None) -> Value:
    """With the sign of x."""
    return _total(f, "rem", x, y, signed, report)


def _total(
    f: Function, name: str, x: Value, y: Value, signed: bool, report: Report | None
) -> Value:
    by_zero = f.compare("==", y, 0)
    if report is not None:
        report(DIVISION_BY_ZERO, by_zero)
    # -1 apart: its quotient may not fit, which is a trap on some machines.
    by_minus_one = f.compare("==", y, -1) if signed else None
    harmless = f.select(by_zero, 1, y)
    if by_minus_one is not None:
        harmless = f.select(by_minus_one, 1, harmless)
    found = _divided(f, name, x, harmless, signed)
    if by_minus_one is not None and name == "div":
        found = f.select(by_minus_one, f.neg(x), found)
    return f.select(by_zero, f.zero(x.type), found)


def _divided(f: Function, name: str, x: Value, y: Value, signed: bool) -> Value:
    """Up to 32 bits by way of floats that hold the operands exactly: their quotient, rounded
    toward zero, is the quotient of the integers (it is off by 1 / y at least where it is not
    whole, and by half a unit in the last place at most)."""
    width = bits(x.type)
    if width == 64:
        return f.binary(("s" if signed else "u") + name, x, y)
    number = like(x.type, "double" if width == 32 else "float")
    into, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    quotient = f.binary("fdiv", f.cast(into, x, number), f.cast(into, y, number))
    wide = like(x.type, "i32") if width < 32 else x.type
    whole = f.cast(back if width == 32 else "fptosi", quotient, wide)
    whole = f.cast("trunc", whole, x.type)
    return whole if name == "div" else x - whole * y
