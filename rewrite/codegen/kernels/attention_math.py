"""Arithmetic that attention and recurrent kernels share: powers of two, maxima, sums of products.

In: values of f32 or f64, scalars or vectors. Out: values. Functions are approximations with fused
multiply-adds where the machine has them.

2^x = 2^n 2^r with n the integer next to x and |r| <= 1/2; 2^r by a polynomial with the least
largest relative error (Remez exchange): 7.5e-8 for f32, 3.1e-18 for f64.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import element, lanes, like
from rewrite.codegen.value import Value

LOG2_E = 1.4426950408889634

_POWERS = {
    "float": (
        1.0000000716546844, 0.6931469670647623, 0.24022119723841995, 0.05550713273496501,
        0.00967554133438942, 0.0013276471992890268,
    ),
    "double": (
        1.0, 0.6931471805599453, 0.24022650695910155, 0.055504108664819925, 0.009618129107588335,
        0.0013333558146789955, 0.00015403530462514579, 1.5252733489956e-05, 1.321543308961168e-06,
        1.0178198035488657e-07, 7.0741056232725776e-09, 4.435280600257178e-10,
    ),
}  # fmt: skip
_MANTISSA = {"float": 23, "double": 52}
_BIAS = {"float": 127, "double": 1023}
_INTEGER = {"float": "i32", "double": "i64"}


def multiply_add(f: Function, isa: Isa, x: Value, y: Value, z: Value) -> Value:
    """x y + z, rounded once where the machine can."""
    if isa.fma:
        return f.fma(x, y, z)
    found: Value = f.add(f.mul(x, y), z)
    return found


def maximum(f: Function, x: Value, y: Value) -> Value:
    """The larger one; y where one of them is NaN."""
    return f.select(f.compare(">", x, y), x, y)


def minimum(f: Function, x: Value, y: Value) -> Value:
    """The smaller one; y where one of them is NaN."""
    return f.select(f.compare("<", x, y), x, y)


def exp2(f: Function, isa: Isa, x: Value) -> Value:
    """2^x for x up to the largest exponent; 0 (or subnormal) below the smallest; NaN of NaN."""
    name = element(x.type)
    shift, bias, whole = _MANTISSA[name], _BIAS[name], like(x.type, _INTEGER[name])
    native = isa.has("avx512f") and x.type in ("<16 x float>", "<8 x double>")
    x = maximum(f, f.const(-2 * bias if native else -bias, x.type), x)
    magic = f.const(1.5 * 2.0**shift, x.type)
    shifted = f.add(x, magic)
    rest = f.sub(x, f.sub(shifted, magic))
    power = polynomial(f, isa, rest, _POWERS[name])
    if native:
        return _scaled(f, power, f.sub(shifted, magic))
    exponent = f.binary("shl", f.bitcast(shifted, whole), f.const(shift, whole))
    scale = f.bitcast(f.add(exponent, f.const(bias << shift, whole)), x.type)
    found: Value = f.mul(power, scale)
    return found


def _scaled(f: Function, x: Value, exponent: Value) -> Value:
    """x 2^exponent in one instruction."""
    count = lanes(x.type)
    kind = "ps" if count == 16 else "pd"
    mask = f.const(-1, f"i{count}")
    return f.call(
        f"llvm.x86.avx512.mask.scalef.{kind}.512", x.type, x, exponent, x, mask, f.const(4, "i32"),
    )  # fmt: skip


def polynomial(f: Function, isa: Isa, x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's scheme; the first coefficient is the constant."""
    found = f.const(coefficients[-1], x.type)
    for number in reversed(coefficients[:-1]):
        found = multiply_add(f, isa, found, x, f.const(number, x.type))
    return found


def tanh(f: Function, isa: Isa, x: Value) -> Value:
    """1 - 2 / (e^2x + 1), right to the rounding of 1 in absolute terms."""
    limit = 40.0 if element(x.type) == "float" else 350.0
    bounded = minimum(f, f.const(limit, x.type), x)
    power = exp2(f, isa, f.mul(bounded, f.const(2 * LOG2_E, x.type)))
    one = f.const(1.0, x.type)
    quotient = f.binary("fdiv", f.const(2.0, x.type), f.add(power, one))
    found: Value = f.sub(one, quotient)
    return found
