"""What elementary functions are made of: polynomials, clamping, powers of two.

In: floats in registers, scalars or vectors. Out: floats. Fused multiply-adds are used where the
machine has them; without, every function keeps the error that it states.

Coefficients are those of the smallest largest relative error, each rounded to float32 with the
ones behind it fitted again (iteratively reweighted least squares on Chebyshev nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import lanes, like
from rewrite.codegen.value import Value

Written = Callable[[Function, Isa, Value], Value]
INFINITY = float("inf")
NAN = float("nan")

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
LN2_HIGH = 0.693145751953125  # 15 digits: its product with an exponent is exact
LN2_LOW = LN2 - LN2_HIGH


def multiply_add(f: Function, isa: Isa, x: Value, y: Value | float, z: Value | float) -> Value:
    """x y + z, rounded once where the machine can."""
    if isa.fma:
        return f.fma(x, y, z)
    found: Value = f.add(f.mul(x, f.value(y, x.type)), z)
    return found


def polynomial(f: Function, isa: Isa, x: Value, coefficients: Sequence[float]) -> Value:
    """c0 + c1 x + c2 x^2 + … (Horner)."""
    value = f.const(coefficients[-1], x.type)
    for c in reversed(coefficients[:-1]):
        value = multiply_add(f, isa, value, x, c)
    return value


def at_most(f: Function, x: Value, bound: float) -> Value:
    """The smaller one; NaN stays. One instruction."""
    return f.select(f.compare(">", x, bound), bound, x)


def at_least(f: Function, x: Value, bound: float) -> Value:
    return f.select(f.compare("<", x, bound), bound, x)


def magnitude(f: Function, x: Value) -> Value:
    return f.intrinsic("llvm.fabs", x.type, x)


def with_sign(f: Function, x: Value, sign: Value) -> Value:
    return f.intrinsic("llvm.copysign", x.type, x, sign)


def square_root(f: Function, x: Value) -> Value:
    return f.intrinsic("llvm.sqrt", x.type, x)


def quotient(f: Function, x: Value | float, y: Value) -> Value:
    return f.binary("fdiv", x, y)


def zero_kept(f: Function, x: Value, y: Value) -> Value:
    """y, but x where x is 0: the sign of zero."""
    return f.select(f.compare("==", x, 0.0), x, y)


def integers_like(x: Value) -> str:
    return like(x.type, "i32")


def any_lane(f: Function, condition: Value) -> Value:
    """Whether the condition holds in a lane."""
    count = lanes(condition.type)
    if not count:
        return condition
    return f.call(f"llvm.vector.reduce.or.v{count}i1", "i1", condition)
