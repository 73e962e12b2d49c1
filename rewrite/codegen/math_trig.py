"""Trigonometric functions in float32: sin, cos, tan, asin, acos, atan.

In, out: `float` values, scalars or vectors.

    x = n pi/2 + r,  |r| <= pi/4;  sin and cos of r by polynomials, exchanged and negated by n mod 4

n pi/2 is subtracted in three parts with fused multiply-adds, without them in float64. Beyond
`_FAR` that loses digits: there x is multiplied by enough of the digits of 2/pi as integers (Payne,
Hanek, 1983), one lane after another.
"""

from __future__ import annotations

import numpy as np

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math_base import (
    NAN,
    any_lane,
    integers_like,
    magnitude,
    multiply_add,
    polynomial,
    quotient,
    square_root,
    with_sign,
    zero_kept,
)
from rewrite.codegen.types import lanes, like
from rewrite.codegen.value import Value

# (sin x - x) / x^3 and (cos x - 1 + x^2/2) / x^4 in x^2, up to pi/4: 4e-9, 1e-10.
_SIN = (-0.16666655242443085, 0.008332188241183758, -0.00019518098270054907)
_COS = (0.04166664555668831, -0.0013887310633435845, 2.4432552891084924e-05)
# (asin x - x) / x^3 in x^2, up to 1/2: 5e-9.
_ASIN = (
    0.16666752099990845, 0.07495306432247162, 0.045469772070646286, 0.02418077364563942,
    0.04216641187667847,
)  # fmt: skip
# (atan x - x) / x^3 in x^2, up to 1: 3e-9.
_ATAN = (
    -0.33333298563957214, 0.1999852955341339, -0.14264015853405, 0.10950880497694016,
    -0.08399305492639542, 0.05788133665919304, -0.031096862629055977, 0.010868566110730171,
    -0.0017827798146754503,
)  # fmt: skip

PI, HALF_PI = 3.141592653589793, 1.5707963267948966
_TWO_OVER_PI = 0.6366197723675814
_MAGIC = 12582912.0  # 1.5 2^23
_FAR = 39000.0  # n has 15 bits
# pi/2 as a sum of float32 numbers, and as 33 bits and a float64.
_PARTS = (1.570796251296997, 7.549789415861596e-08, 5.390302953474238e-15)
_WIDE_PARTS = (1.5707963267341256, 6.077100506506192e-11)
# 2/pi in binary, behind 32 zeros.
_DIGITS = (
    0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
)  # fmt: skip
_FAR_FUNCTION = "reduce_far"


def sin(f: Function, isa: Isa, x: Value) -> Value:
    n, r = _reduced(f, isa, x)
    return zero_kept(f, x, _of_quadrant(f, isa, n, r))


def cos(f: Function, isa: Isa, x: Value) -> Value:
    n, r = _reduced(f, isa, x)
    return _of_quadrant(f, isa, f.add(n, 1), r)


def tan(f: Function, isa: Isa, x: Value) -> Value:
    """sin r / cos r, or -cos r / sin r"""
    n, r = _reduced(f, isa, x)
    s, c = _sine(f, isa, r), _cosine(f, isa, r)
    odd = f.compare("!=", f.binary("and", n, 1), 0)
    return zero_kept(f, x, quotient(f, f.select(odd, f.neg(c), s), f.select(odd, s, c)))


def asin(f: Function, isa: Isa, x: Value) -> Value:
    """Above 1/2: pi/2 - 2 asin sqrt((1 - |x|) / 2)"""
    large, small = _asin_parts(f, isa, magnitude(f, x))
    found = f.select(large, multiply_add(f, isa, small, -2.0, HALF_PI), small)
    return with_sign(f, found, x)


def acos(f: Function, isa: Isa, x: Value) -> Value:
    """pi/2 - asin x; above 1/2 in magnitude 2 asin sqrt((1 - |x|) / 2), or pi less it"""
    large, small = _asin_parts(f, isa, magnitude(f, x))
    twice = f.add(small, small)
    of_large = f.select(f.compare("<", x, 0.0), f.sub(PI, twice), twice)
    return f.select(large, of_large, f.sub(HALF_PI, with_sign(f, small, x)))


def atan(f: Function, isa: Isa, x: Value) -> Value:
    """Above 1: pi/2 - atan(1 / |x|)"""
    a = magnitude(f, x)
    large = f.compare(">", a, 1.0)
    minus_one = f.const(-1.0, x.type)
    t = quotient(f, f.select(large, minus_one, a), f.select(large, a, f.neg(minus_one)))
    z = f.mul(t, t)
    near = multiply_add(f, isa, f.mul(t, z), polynomial(f, isa, z, _ATAN), t)
    found = f.add(near, f.select(large, f.const(HALF_PI, x.type), 0.0))
    return with_sign(f, found, x)


def _asin_parts(f: Function, isa: Isa, a: Value) -> tuple[Value, Value]:
    """Whether a > 1/2; then asin sqrt((1 - a) / 2), else asin a."""
    large = f.compare(">", a, 0.5)
    z = f.select(large, multiply_add(f, isa, a, -0.5, 0.5), f.mul(a, a))
    s = f.select(large, square_root(f, z), a)
    return large, multiply_add(f, isa, f.mul(s, z), polynomial(f, isa, z, _ASIN), s)


def _of_quadrant(f: Function, isa: Isa, n: Value, r: Value) -> Value:
    odd = f.compare("!=", f.binary("and", n, 1), 0)
    chosen = f.select(odd, _cosine(f, isa, r), _sine(f, isa, r))
    sign = f.binary("shl", f.binary("and", n, 2), 30)
    return f.bitcast(f.binary("xor", f.bitcast(chosen, n.type), sign), r.type)


def _sine(f: Function, isa: Isa, r: Value) -> Value:
    z = f.mul(r, r)
    return multiply_add(f, isa, r, f.mul(z, polynomial(f, isa, z, _SIN)), r)


def _cosine(f: Function, isa: Isa, r: Value) -> Value:
    z = f.mul(r, r)
    half = multiply_add(f, isa, z, -0.5, 1.0)
    return multiply_add(f, isa, f.mul(z, z), polynomial(f, isa, z, _COS), half)


# --- the argument modulo pi/2 -------------------------------------------------------------------


def _reduced(f: Function, isa: Isa, x: Value) -> tuple[Value, Value]:
    """n (at least its low two bits) and r; NaN of infinity."""
    near = _near_with_fma(f, x) if isa.fma else _near_in_double(f, x)
    far = f.compare(">", magnitude(f, x), _FAR)
    n, r = f.if_(any_lane(f, far), lambda: _far(f, x, *near), lambda: near, 2)
    return n, r


def _near_with_fma(f: Function, x: Value) -> tuple[Value, Value]:
    shifted = f.fma(x, _TWO_OVER_PI, _MAGIC)
    n = f.sub(shifted, _MAGIC)
    r = x
    for part in _PARTS:
        r = f.fma(n, -part, r)
    return f.bitcast(shifted, integers_like(x)), r


def _near_in_double(f: Function, x: Value) -> tuple[Value, Value]:
    wide = like(x.type, "double")
    d = f.cast("fpext", x, wide)
    n = f.intrinsic("llvm.roundeven", wide, f.mul(d, _TWO_OVER_PI))
    r = d
    for part in _WIDE_PARTS:
        r = f.sub(r, f.mul(n, part))
    shifted = f.add(f.cast("fptrunc", n, x.type), _MAGIC)
    return f.bitcast(shifted, integers_like(x)), f.cast("fptrunc", r, x.type)


def _far(f: Function, x: Value, n: Value, r: Value) -> tuple[Value, Value]:
    """The lanes that are far, one by one; the others as they are."""
    if _FAR_FUNCTION not in f.module.names():
        _write_far(f)
    if not lanes(x.type):
        return _called(f, x)
    places = [f.slot(v.type) for v in (x, n, r)]
    for place, value in zip(places, (x, n, r), strict=True):
        f.store(value, place)

    def turn(lane: Value) -> None:
        given, whole, rest = (f.at(p, lane, "i32") for p in places)
        one = f.load("float", given)

        def replace() -> None:
            one_n, one_r = _called(f, one)
            f.store(one_n, whole)
            f.store(one_r, rest)

        f.if_(f.compare(">", magnitude(f, one), _FAR), replace)

    f.loop(0, lanes(x.type), turn)
    return f.load(n.type, places[1]), f.load(r.type, places[2])


def _called(f: Function, x: Value) -> tuple[Value, Value]:
    both = f.call(_FAR_FUNCTION, "i64", x)
    n = f.cast("trunc", f.binary("lshr", both, 32), "i32")
    return n, f.bitcast(f.cast("trunc", both, "i32"), "float")


def _write_far(f: Function) -> None:
    """`reduce_far(x)`: n in the upper half of the result, the bits of r in the lower one.

    x = m 2^(e - 24) with m of 24 bits. Bits of 2/pi up to number e - 26 make multiples of 4 of n;
    the 96 behind them times m have a unit of 2^-94, and 2^96 is a multiple of 4, too.
    """
    digits = f.module.table(np.array(_DIGITS, np.uint32))
    g = f.module.function(_FAR_FUNCTION, [("float", "x")], returns="i64", internal=True)
    raw = g.bitcast(g.arg("x"), "i32")
    power = g.binary("and", g.binary("lshr", raw, 23), 255)
    finite = g.compare("!=", power, 255)
    # Bit e - 25, the first of the window, has 31 + e - 25 bits before it in the table; less than
    # 0 or beyond the table only where the result is not used.
    first = g.select(finite, g.add(power, 31 - 25 - 126), 0)
    first = g.select(g.compare("<", first, 0), 0, first)
    at = g.at(g.global_(digits), g.cast("zext", g.binary("lshr", first, 5), "i64"), "i32")
    words = [g.load("i32", g.at(at, i, "i32")) for i in range(4)]
    shift = g.binary("and", first, 31)
    window = [
        g.cast("zext", g.intrinsic("llvm.fshl", "i32", words[i], words[i + 1], shift), "i64")
        for i in range(3)
    ]
    m = g.binary("or", g.binary("and", raw, 0x007FFFFF), 0x00800000)
    m = g.cast("zext", m, "i64")
    low = g.mul(m, window[2])
    middle = g.add(g.mul(m, window[1]), g.binary("lshr", low, 32))
    high = g.add(g.mul(m, window[0]), g.binary("lshr", middle, 32))
    top = g.binary("or", g.binary("shl", high, 32), g.binary("and", middle, 0xFFFFFFFF))
    n = g.binary("lshr", g.add(top, 1 << 61), 62)
    fraction = g.cast("sitofp", g.binary("shl", top, 2), "double")
    r = g.cast("fptrunc", g.mul(fraction, HALF_PI * 2.0**-64), "float")
    negative = g.compare("<", raw, 0)
    r = g.select(negative, g.neg(r), r)
    n = g.select(negative, g.sub(0, n), n)
    r = g.select(finite, r, NAN)
    g.ret(g.binary("or", g.binary("shl", n, 32), g.cast("zext", g.bitcast(r, "i32"), "i64")))
