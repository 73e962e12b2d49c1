"""Powers and remainders: functions of two operands.

In: values in registers. Out: values of the first operand's type.

Powers of float32 are computed in float64, x^y = 2^(y log2 x), and rounded once (0.51 units in the
last place); special cases as IEEE 754 says of pow. Powers of float64 are the C library's. A known
small exponent is a product. Integer powers wrap; a negative power of an integer is truncated
toward zero, of 0 it is 0. An integer to the power of a float is the truncated float64 power.
"""

from __future__ import annotations

import struct

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math_base import (
    INFINITY,
    NAN,
    any_lane,
    at_least,
    at_most,
    magnitude,
    polynomial,
    quotient,
    square_root,
)
from rewrite.codegen.math_double import by_library
from rewrite.codegen.types import bits, is_float, lanes, like, suffix
from rewrite.codegen.value import Value

# log2((1 + s) / (1 - s)) / s in s^2, relative: 4e-12; 2^t, |t| <= 1/2: 4e-11.
_LOG2 = (
    2.885390081790137, 0.9617966732681921, 0.5770836001365308, 0.4116717528130099,
    0.34074890104979794,
)  # fmt: skip
_EXP2 = (
    0.9999999999616811, 0.693147180728451, 0.24022651198165482, 0.05550410353439178,
    0.009618027252603687, 0.0013333922567461544, 0.00015469291485605067, 1.5201921397218147e-05,
)  # fmt: skip
_SQRT_HALF = 0x3FE6A09E667F3BCD  # sqrt(1/2) as float64
_MAGIC = 1.5 * 2.0**52
_PRODUCTS = 8  # the largest known exponent that is written as products


def number_of(x: Value) -> float | None:
    """The number of a float constant (of all its lanes); None for other values."""
    if not is_float(x.type) or x.text.startswith("%"):
        return None
    if x.text == "zeroinitializer":
        return 0.0
    text = x.text.split()[-1].rstrip(")")
    if not text.startswith("0x") or text[2] in "HR":
        return None
    found: float = struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0]
    return found


def is_power_of_two(number: float) -> bool:
    """Whether a division by it is a multiplication by its reciprocal, bit for bit."""
    mantissa, _ = number.hex().split("p")
    return mantissa.lstrip("-") == "0x1.0000000000000" and 2.0**-120 < abs(number) < 2.0**120


def integer_of(x: Value) -> int | None:
    """The number of an integer constant (of all its lanes); None for other values."""
    if is_float(x.type) or x.text.startswith("%"):
        return None
    if x.text == "zeroinitializer":
        return 0
    text = x.text.split()[-1].rstrip(")")
    return int(text) if text.lstrip("-").isdigit() else None


def float_remainder(f: Function, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y without error, by the C library."""
    return by_library(f, "fmodf" if bits(x.type) == 32 else "fmod", x, y)


def raised(f: Function, isa: Isa, x: Value, y: Value, x_signed: bool, y_signed: bool) -> Value:
    """x^y for any two types of numbers."""
    if not is_float(x.type):
        return _raised_integer(f, x, y, x_signed, y_signed)
    known = number_of(y) if is_float(y.type) else integer_of(y)
    if known is not None:
        product = _known_power(f, x, float(known))
        if product is not None:
            return product
    wide = like(x.type, "double")
    exponent = _to_double(f, y, wide, y_signed)
    if x.type == wide:
        return by_library(f, "pow", x, exponent)
    return _power(f, isa, x, exponent)


def _known_power(f: Function, x: Value, y: float) -> Value | None:
    if y in (0.5, -0.5):
        # Of -0 it is 0 and of -infinity infinity, where the root gives -0 and NaN.
        root = square_root(f, f.add(x, 0.0))
        root = f.select(f.compare("==", x, -INFINITY), INFINITY, root)
        return root if y > 0 else quotient(f, 1.0, root)
    if y != int(y) or abs(y) > _PRODUCTS:
        return None
    if y == 0:
        return f.const(1.0, x.type)
    product = _product(f, x, int(abs(y)))
    return product if y > 0 else quotient(f, 1.0, product)


def _product(f: Function, x: Value, count: int) -> Value:
    """x^count by squaring."""
    found: Value | None = None
    square = x
    while count:
        if count & 1:
            found = square if found is None else f.mul(found, square)
        count >>= 1
        if count:
            square = f.mul(square, square)
    assert found is not None
    return found


def _to_double(f: Function, y: Value, wide: str, signed: bool) -> Value:
    if is_float(y.type):
        return f.cast("fpext", y, wide)
    return f.cast("sitofp" if signed else "uitofp", y, wide)


# --- float32 ------------------------------------------------------------------------------------


def _power(f: Function, isa: Isa, x: Value, y: Value) -> Value:
    """y is float64."""
    wide = y.type
    a = magnitude(f, f.cast("fpext", x, wide))
    logarithm = _log2(f, isa, a)
    found = _exp2(f, isa, f.mul(y, logarithm))
    # 0 times infinity: 1 to the power of infinity is 1.
    infinite = f.compare("==", magnitude(f, y), INFINITY)
    found = f.select(f.binary("and", infinite, f.compare("==", a, 1.0)), 1.0, found)
    found = f.cast("fptrunc", found, x.type)
    found = _signed_power(f, x, y, found)
    one = f.binary("or", f.compare("==", y, 0.0), f.compare("==", x, 1.0))
    return f.select(one, 1.0, found)


def _signed_power(f: Function, x: Value, y: Value, found: Value) -> Value:
    """Odd powers of negative numbers are negative; those that are not whole are NaN."""
    half = f.mul(y, 0.5)
    whole = f.compare("==", f.intrinsic("llvm.floor", y.type, y), y)
    odd = f.binary("and", whole, f.compare("!=", f.intrinsic("llvm.floor", y.type, half), half))
    with_sign = f.intrinsic("llvm.copysign", x.type, found, x)
    found = f.select(odd, with_sign, found)
    negative = f.binary("and", f.compare("<", x, 0.0), f.compare(">", x, -INFINITY))
    missing = f.binary("and", negative, f.compare("!=", f.intrinsic("llvm.floor", y.type, y), y))
    return f.select(missing, NAN, found)


def _log2(f: Function, isa: Isa, a: Value) -> Value:
    """Of float64 numbers that float32 has (none is subnormal): -infinity of 0."""
    offset = f.sub(f.bitcast(a, like(a.type, "i64")), _SQRT_HALF)
    exponent = f.cast("trunc", f.binary("ashr", offset, 52), like(a.type, "i32"))
    mantissa = f.add(f.binary("and", offset, (1 << 52) - 1), _SQRT_HALF)
    m = f.bitcast(mantissa, a.type)
    s = quotient(f, f.sub(m, 1.0), f.add(m, 1.0))
    part = f.mul(s, polynomial(f, isa, f.mul(s, s), _LOG2))
    found = f.add(f.cast("sitofp", exponent, a.type), part)
    found = f.select(f.compare("==", a, 0.0), -INFINITY, found)
    # Infinity and NaN are their own logarithms.
    return f.select(f.compare("<", a, INFINITY), found, a)


def _exp2(f: Function, isa: Isa, t: Value) -> Value:
    """2^t, beyond the range of float32 anything beyond it."""
    bounded = at_least(f, at_most(f, t, 300.0), -300.0)
    shifted = f.add(bounded, _MAGIC)
    rest = f.sub(bounded, f.sub(shifted, _MAGIC))
    power = polynomial(f, isa, rest, _EXP2)
    whole = like(t.type, "i64")
    exponent = f.binary("shl", f.bitcast(shifted, whole), 52)
    found = f.bitcast(f.add(f.bitcast(power, whole), exponent), t.type)
    return f.select(f.compare("==", t, t), found, t)


# --- integers -----------------------------------------------------------------------------------


def _raised_integer(f: Function, x: Value, y: Value, x_signed: bool, y_signed: bool) -> Value:
    if is_float(y.type):
        wide = like(x.type, "double")
        base = f.cast("sitofp" if x_signed else "uitofp", x, wide)
        power = by_library(f, "pow", base, _to_double(f, y, wide, True))
        return saturated(f, power, x.type, x_signed)
    known = integer_of(y)
    if known is not None and 0 < known <= _PRODUCTS:
        return _product(f, x, known)
    one = f.const(1, x.type)

    def turn(result: Value, square: Value, rest: Value) -> tuple[Value, ...]:
        odd = f.compare("!=", f.binary("and", rest, 1), 0)
        result = f.select(odd, f.mul(result, square), result)
        rest = f.binary("lshr", rest, 1)
        return any_lane(f, f.compare("!=", rest, 0)), result, f.mul(square, square), rest

    found = f.while_(turn, [one, x, y])[0]
    if not y_signed:
        return found
    # The loop takes a negative exponent for a large one, of the same parity: 1 and -1 come out
    # right. Of other numbers the true power is less than 1.
    unit = f.compare("==", x, 1)
    if x_signed:
        unit = f.binary("or", unit, f.compare("==", x, -1))
    vanishes = f.binary("and", f.compare("<", y, 0), f.binary("xor", unit, True))
    return f.select(vanishes, 0, found)


def saturated(f: Function, x: Value, type_: str, signed: bool) -> Value:
    """A float truncated to an integer; the nearest one out of range, 0 of NaN.

    Vectors are bounded first, those of narrow integers go by way of i32: LLVM's own saturating
    conversion takes their lanes one by one.
    """
    width = bits(type_)
    if lanes(type_) and width >= 32 and signed:
        return _saturated_wide(f, x, type_)
    if lanes(type_) and width <= 16:
        low = -(1 << (width - 1)) if signed else 0
        high = (1 << (width - 1)) - 1 if signed else (1 << width) - 1
        number = f.select(f.compare("==", x, x), x, 0.0) if signed else x
        bounded = f.select(f.compare(">", number, float(low)), number, float(low))  # NaN: low
        bounded = f.select(f.compare("<", bounded, float(high)), bounded, float(high))
        return f.cast("trunc", f.cast("fptosi", bounded, like(type_, "i32")), type_)
    name = f"llvm.fpto{'s' if signed else 'u'}i.sat.{suffix(type_)}.{suffix(x.type)}"
    return f.call(name, type_, x)


def _saturated_wide(f: Function, x: Value, type_: str) -> Value:
    """Vectors of i32 and i64. The largest integer may lie between floats: it is put in behind."""
    width, digits = bits(type_), 24 if bits(x.type) == 32 else 53
    low = -float(1 << (width - 1))
    most = (1 << (width - 1)) - (1 << max(0, width - 1 - digits))  # a float, if it fits
    number = f.select(f.compare("==", x, x), x, 0.0)
    bounded = f.select(f.compare(">", number, low), number, low)
    bounded = f.select(f.compare("<", bounded, float(most)), bounded, float(most))
    found = f.cast("fptosi", bounded, type_)
    if most == (1 << (width - 1)) - 1:
        return found
    return f.select(f.compare(">=", x, -low), (1 << (width - 1)) - 1, found)
