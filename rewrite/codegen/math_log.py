"""Logarithms in float32 and what follows from them: log, log1p, asinh, acosh, atanh.

In, out: `float` values, scalars or vectors.

    log x = e ln 2 + log(1 + t),  sqrt(1/2) <= 1 + t < sqrt 2,  log(1 + t) = t - t^2/2 + t^3 P(t)
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math_base import (
    INFINITY,
    LN2,
    NAN,
    integers_like,
    magnitude,
    multiply_add,
    polynomial,
    quotient,
    square_root,
    with_sign,
    zero_kept,
)
from rewrite.codegen.value import Value

# (log(1 + t) - t + t^2/2) / t^3, relative to log(1 + t): 6e-9.
_LOG = (
    0.3333333134651184, -0.2500081956386566, 0.20001240074634552, -0.16623401641845703,
    0.14201609790325165, -0.13159754872322083, 0.1276211440563202, -0.0763588473200798,
)  # fmt: skip
_SQRT_HALF = 0x3F3504F3  # sqrt(1/2) as float32
_HIGH = 0.693359375  # of ln 2, with 10 digits: its product with an exponent is exact
_LOW = LN2 - _HIGH
_LEAST_NORMAL = 2.0**-126
_HUGE = 1e10  # 1 + x^2 is x^2, and x + 1 is x


def log(f: Function, isa: Isa, x: Value) -> Value:
    """Natural logarithm; of subnormal numbers too."""
    small = f.compare("<", x, _LEAST_NORMAL)
    normal = f.select(small, f.mul(x, 2.0**23), x)
    exponent, t = _split(f, normal)
    lifted = f.sub(exponent, f.select(small, f.const(23.0, x.type), 0.0))
    return _ends(f, x, _joined(f, isa, lifted, t, None))


def log1p(f: Function, isa: Isa, x: Value) -> Value:
    """log(1 + x). The digits that 1 + x loses come back as their quotient by it."""
    total = f.add(x, 1.0)
    lost = quotient(f, f.sub(x, f.sub(total, 1.0)), total)
    exponent, t = _split(f, total)
    near = f.binary("and", f.compare(">", x, -0.2928), f.compare("<", x, 0.4142))
    zero = f.zero(x.type)
    exponent, t = f.select(near, zero, exponent), f.select(near, x, t)
    found = _joined(f, isa, exponent, t, f.select(near, zero, lost))
    return zero_kept(f, x, _ends(f, total, found))


def asinh(f: Function, isa: Isa, x: Value) -> Value:
    """log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))) of a = |x|"""
    a = magnitude(f, x)
    square = f.mul(a, a)
    root = square_root(f, f.add(square, 1.0))
    moderate = f.add(a, quotient(f, square, f.add(root, 1.0)))
    return with_sign(f, _of_large(f, isa, a, moderate), x)


def acosh(f: Function, isa: Isa, x: Value) -> Value:
    """log1p(t + sqrt(t (t + 2))) of t = x - 1; NaN below 1"""
    t = f.sub(x, 1.0)
    moderate = f.add(t, square_root(f, f.mul(t, f.add(t, 2.0))))
    found = _of_large(f, isa, x, moderate)
    return f.select(f.compare("<", x, 1.0), NAN, found)


def atanh(f: Function, isa: Isa, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2 of a = |x|"""
    a = magnitude(f, x)
    ratio = quotient(f, f.add(a, a), f.sub(1.0, a))
    return with_sign(f, f.mul(log1p(f, isa, ratio), 0.5), x)


def _of_large(f: Function, isa: Isa, a: Value, moderate: Value) -> Value:
    """log1p(moderate), or log(2 a) where a is so large that its square is not finite."""
    large = f.compare(">", a, _HUGE)
    found = log1p(f, isa, f.select(large, a, moderate))
    total: Value = f.add(found, f.select(large, f.const(LN2, a.type), 0.0))
    return total


def _split(f: Function, x: Value) -> tuple[Value, Value]:
    """The exponent as a float, and t; for normal numbers."""
    offset = f.sub(f.bitcast(x, integers_like(x)), _SQRT_HALF)
    exponent = f.cast("sitofp", f.binary("ashr", offset, 23), x.type)
    mantissa = f.add(f.binary("and", offset, 0x007FFFFF), _SQRT_HALF)
    return exponent, f.sub(f.bitcast(mantissa, x.type), 1.0)


def _joined(f: Function, isa: Isa, exponent: Value, t: Value, extra: Value | None) -> Value:
    square = f.mul(t, t)
    rest = f.mul(f.mul(square, t), polynomial(f, isa, t, _LOG))
    if extra is not None:
        rest = f.add(rest, extra)
    rest = multiply_add(f, isa, exponent, _LOW, rest)
    rest = multiply_add(f, isa, square, -0.5, rest)
    return multiply_add(f, isa, exponent, _HIGH, f.add(t, rest))


def _ends(f: Function, x: Value, found: Value) -> Value:
    """-infinity of 0, NaN below, infinity of infinity."""
    found = f.select(f.compare("==", x, INFINITY), INFINITY, found)
    outside = f.select(f.compare("==", x, 0.0), f.const(-INFINITY, x.type), NAN)
    return f.select(f.compare(">", x, 0.0), found, outside)
