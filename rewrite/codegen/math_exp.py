"""Exponential functions in float32: exp, expm1, sinh, cosh, tanh, erf.

In, out: `float` values, scalars or vectors.

    e^x = 2^n e^r,  n the integer next to x / ln 2, |r| <= ln 2 / 2,  e^r = 1 + r + r^2 Q(r)

erf is x P(x^2) / Q(x^2) with positive coefficients, so that no step cancels. Largest errors:
tests/codegen/test_math.py.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math_base import (
    INFINITY,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    at_least,
    at_most,
    integers_like,
    magnitude,
    multiply_add,
    polynomial,
    quotient,
    with_sign,
    zero_kept,
)
from rewrite.codegen.value import Value

# (e^r - 1 - r) / r^2, relative to e^r: 3e-9.
_EXP = (
    0.4999999403953552, 0.1666652113199234, 0.04166825860738754, 0.00836867094039917,
    0.0013821355532854795,
)  # fmt: skip
# (sinh x - x) / x^3 in x^2, up to 1: 2e-8.
_SINH = (0.1666671633720398, 0.008330272510647774, 0.00020373082952573895)
# (tanh x - x) / x^3 in x^2, up to 0.625: 5e-9.
_TANH = (
    -0.3333328068256378, 0.13331405818462372, -0.05373651534318924, 0.02062816731631756,
    -0.005692296661436558,
)  # fmt: skip
# The first coefficients of erf are two float32 numbers whose quotient is 2 / sqrt(pi) to 51 digits.
_ERF = (
    (1.4807621240615845, 0.24965672194957733, 0.06918206065893173, 0.004929073620587587,
     0.0003729636955540627, 2.6840930331673007e-06),
    (1.3122912645339966, 0.6586824059486389, 0.14964599907398224, 0.01961979828774929,
     0.001521405065432191, 4.987662396160886e-05),
)  # fmt: skip
_MAGIC = 12582912.0  # 1.5 2^23: a number added to it is rounded to an integer
_LARGEST = 88.72284  # e^x is finite up to here
_LEAST = -104.0  # and 0 from here on


def exp(f: Function, isa: Isa, x: Value) -> Value:
    """e^x, subnormal results included."""
    n, shifted, r = _reduced(f, isa, at_least(f, at_most(f, x, 89.0), _LEAST))
    power = _power(f, isa, r)
    if _scales(isa, x):
        return _scale(f, power, n)
    # The exponent is added as an integer; where it would leave the range of normal numbers, 2^64
    # is put in and taken out again by a multiplication, which rounds right.
    low = f.compare("<", x, -80.0)
    exponent = f.binary("shl", shifted, 23)
    lifted = f.add(exponent, f.select(low, f.const(64 << 23, exponent.type), 0))
    found = f.bitcast(f.add(f.bitcast(power, exponent.type), lifted), x.type)
    found = f.mul(found, f.select(low, f.const(2.0**-64, x.type), 1.0))
    # Beyond it infinity, by a sum that keeps NaN: adding exponents does not.
    return f.select(f.compare("<=", x, _LARGEST), found, f.add(x, INFINITY))


def expm1(f: Function, isa: Isa, x: Value) -> Value:
    """e^x - 1 = 2 (2^(n-1) (e^r - 1) + (2^(n-1) - 1/2))"""
    _, shifted, r = _reduced(f, isa, at_least(f, at_most(f, x, 89.0), -18.0))
    less_one = multiply_add(f, isa, f.mul(r, r), polynomial(f, isa, r, _EXP), r)
    half = f.bitcast(f.binary("shl", f.add(shifted, 126), 23), x.type)
    total = multiply_add(f, isa, half, less_one, f.sub(half, 0.5))
    return zero_kept(f, x, f.add(total, total))


def sinh(f: Function, isa: Isa, x: Value) -> Value:
    """From e^|x| / 2; a polynomial up to 1."""
    a = magnitude(f, x)
    half = _half_exp(f, isa, a)
    large = f.sub(half, quotient(f, 0.25, half))
    z = f.mul(a, a)
    small = multiply_add(f, isa, f.mul(a, z), polynomial(f, isa, z, _SINH), a)
    return with_sign(f, f.select(f.compare("<", a, 1.0), small, large), x)


def cosh(f: Function, isa: Isa, x: Value) -> Value:
    half = _half_exp(f, isa, magnitude(f, x))
    found: Value = f.add(half, quotient(f, 0.25, half))
    return found


def tanh(f: Function, isa: Isa, x: Value) -> Value:
    """1 - 2 / (e^2a + 1) of a = |x|; a polynomial up to 0.625"""
    a = magnitude(f, x)
    _, shifted, r = _reduced(f, isa, f.mul(at_most(f, a, 10.0), 2.0))
    exponent = f.binary("shl", shifted, 23)
    power = f.bitcast(f.add(f.bitcast(_power(f, isa, r), exponent.type), exponent), x.type)
    large = f.sub(1.0, quotient(f, 2.0, f.add(power, 1.0)))
    z = f.mul(a, a)
    small = multiply_add(f, isa, f.mul(a, z), polynomial(f, isa, z, _TANH), a)
    # Of NaN the polynomial is NaN; adding an exponent to NaN gives anything.
    return with_sign(f, f.select(f.compare(">", a, 0.625), large, small), x)


def erf(f: Function, isa: Isa, x: Value) -> Value:
    """x P(x^2) / Q(x^2); 1 from 3.93 on"""
    a = magnitude(f, x)
    z = f.mul(a, a)
    w = f.mul(z, z)
    above, below = _ERF
    top = f.mul(_halves(f, isa, z, w, above), a)
    found = at_most(f, quotient(f, top, _halves(f, isa, z, w, below)), 1.0)
    return with_sign(f, f.select(f.compare(">=", a, 3.93), 1.0, found), x)


def _halves(f: Function, isa: Isa, z: Value, w: Value, coefficients: tuple[float, ...]) -> Value:
    """Even and odd powers apart, w = z^2: fewer roundings one behind another."""
    even = polynomial(f, isa, w, coefficients[::2])
    return multiply_add(f, isa, z, polynomial(f, isa, w, coefficients[1::2]), even)


def _half_exp(f: Function, isa: Isa, a: Value) -> Value:
    """e^a / 2 for a >= 0: finite where e^a no longer is."""
    most = 89.41598
    _, shifted, r = _reduced(f, isa, at_most(f, a, most))
    raised = f.binary("shl", f.sub(shifted, 1), 23)
    found = f.bitcast(f.add(f.bitcast(_power(f, isa, r), raised.type), raised), a.type)
    return f.select(f.compare("<=", a, most), found, f.add(a, INFINITY))


def _reduced(f: Function, isa: Isa, x: Value) -> tuple[Value, Value, Value]:
    """n as a float, an integer whose low bits are those of n, r.

    Above its low bits the integer has the magic number, which shifted up by 23 leaves nothing.
    """
    shifted = multiply_add(f, isa, x, LOG2_E, _MAGIC)
    n = f.sub(shifted, _MAGIC)
    r = multiply_add(f, isa, n, -LN2_HIGH, x)
    r = multiply_add(f, isa, n, -LN2_LOW, r)
    return n, f.bitcast(shifted, integers_like(x)), r


def _power(f: Function, isa: Isa, r: Value) -> Value:
    """e^r"""
    square = f.mul(r, r)
    less_one = multiply_add(f, isa, square, polynomial(f, isa, r, _EXP), r)
    found: Value = f.add(less_one, 1.0)
    return found


def _scales(isa: Isa, x: Value) -> bool:
    return isa.has("avx512f") and x.type == "<16 x float>"


def _scale(f: Function, x: Value, n: Value) -> Value:
    """x 2^n by one instruction, rounded where the result is subnormal."""
    mask, mode = f.const(-1, "i16"), f.const(4, "i32")
    return f.call("llvm.x86.avx512.mask.scalef.ps.512", x.type, x, n, x, mask, mode)
