"""Elementary functions of registers, by the names that scalar bodies use.

In: `float` or `double` values, scalars or vectors. Out: the same type. float32 is written here for
every machine (rewrite/codegen/math_*.py), float64 is the C library's.
"""

from __future__ import annotations

from rewrite.codegen import math_exp, math_log, math_trig
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math_base import Written
from rewrite.codegen.math_double import by_library
from rewrite.codegen.types import element
from rewrite.codegen.value import Value

SINGLE: dict[str, Written] = {
    "acos": math_trig.acos,
    "acosh": math_log.acosh,
    "asin": math_trig.asin,
    "asinh": math_log.asinh,
    "atan": math_trig.atan,
    "atanh": math_log.atanh,
    "cos": math_trig.cos,
    "cosh": math_exp.cosh,
    "erf": math_exp.erf,
    "exp": math_exp.exp,
    "expm1": math_exp.expm1,
    "log": math_log.log,
    "log1p": math_log.log1p,
    "sin": math_trig.sin,
    "sinh": math_exp.sinh,
    "tan": math_trig.tan,
    "tanh": math_exp.tanh,
}


def elementary(f: Function, isa: Isa, name: str, x: Value) -> Value:
    """The value of an elementary function."""
    if element(x.type) == "double":
        return by_library(f, name, x)
    return SINGLE[name](f, isa, x)
