"""QuantizeLinear and DequantizeLinear of one element.

In: an element, its scale, its zero point (absent: 0), in registers. Out: the code or the number,
as rewrite/quant/affine.py computes them: the quotient rounds to float32, or to the wider or stated
type (`body` states the scale's where the opset asks for it), then half to even; the difference of
codes rounds to the output's type, and so does its product with the scale. NaN has no code: it gives
the lowest one.
"""

from __future__ import annotations

from rewrite.codegen.convert import converted, is_float
from rewrite.codegen.floats import NARROW, narrowed_to_odd, rounded
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import register_type
from rewrite.codegen.power import is_power_of_two, number_of
from rewrite.codegen.types import bits, lanes, like, suffix
from rewrite.codegen.value import Value
from rewrite.ops.dtypes import integer_range

Typed = tuple[Value, str]


def quantized(
    f: Function,
    isa: Isa,
    x: Typed,
    scale: Typed,
    zero: Typed | None,
    target: str,
    precision: str | None,
    saturate: bool,
) -> Value:
    """saturate(rint(x / scale) + zero point)"""
    ratio = _ratio(f, isa, x, scale, precision)
    if is_float(target):
        if zero is not None and not target.startswith("f8"):  # whose zero point has to be 0
            ratio = f.add(ratio, _as(f, isa, zero, ratio))
        source = "f64" if bits(ratio.type) == 64 else "f32"
        return converted(f, isa, ratio, source, target, saturate)
    low, high = integer_range(target)
    steps = f.intrinsic("llvm.roundeven", ratio.type, ratio)
    if high > 1 << 16:
        steps = f.cast("fpext", steps, like(steps.type, "double"))
    wide = like(ratio.type, "i32" if high <= 1 << 16 else "i64")
    if zero is None:
        bounded = _between(f, steps, f.const(low, steps.type), f.const(high, steps.type))
        return _code(f, f.cast("fptosi", bounded, wide), target)
    shift = _as(f, isa, zero, steps)
    bounded = _between(f, steps, f.sub(low, shift), f.sub(high, shift))
    offset = f.cast("sext" if zero[1][0] == "s" else "zext", zero[0], wide)
    return _code(f, f.add(f.cast("fptosi", bounded, wide), offset), target)


def code_between(f: Function, isa: Isa, x: Value, low: Value, high: Value, zero: Value) -> Value:
    """The integer nearest to x, a float32 between float32s, plus one of 32 bits, in as many; of NaN
    that of `low`."""
    bounded = _between(f, x, low, high)
    wide = like(x.type, "i32")
    if isa.arch == "x86_64":  # rounds as the processor is set to: half to even
        steps = f.call(f"llvm.lrint.{suffix(wide)}.{suffix(x.type)}", wide, bounded)
    else:
        steps = f.cast("fptosi", f.intrinsic("llvm.roundeven", x.type, bounded), wide)
    found: Value = f.add(steps, zero)
    return found


def dequantized(
    f: Function, isa: Isa, x: Typed, scale: Typed, zero: Typed | None, target: str
) -> Value:
    """(x - zero point) scale"""
    number = "double" if target == "f64" else "float"
    steps = _steps(f, isa, x, zero, like(x[0].type, number))
    steps = rounded(f, isa, target, steps)
    factor, kind = scale
    if target == "f64" or (target in NARROW and kind in ("f32", "f64")):
        # The product of a narrow number and a float32 is exact in float64.
        wide = like(steps.type, "double")
        product: Value = f.mul(f.cast("fpext", steps, wide), f.cast("fpext", factor, wide))
        if target != "f64":
            product = rounded(f, isa, target, narrowed_to_odd(f, product))
        return product
    found: Value = f.mul(steps, f.cast("fptrunc", factor, steps.type))
    return found


def _ratio(f: Function, isa: Isa, x: Typed, scale: Typed, precision: str | None) -> Value:
    """x / scale, rounded to the type of the division."""
    wide = "f64" in (x[1], scale[1]) if precision is None else precision == "f64"
    kind = "f64" if wide else "f32"
    top = converted(f, isa, x[0], x[1], kind)
    bottom = converted(f, isa, scale[0], scale[1], kind)
    if precision in NARROW:
        top, bottom = rounded(f, isa, precision, top), rounded(f, isa, precision, bottom)
    known = number_of(bottom)
    if known is not None and is_power_of_two(known):
        ratio = f.mul(top, 1.0 / known)
    else:
        ratio = f.binary("fdiv", top, bottom)
    return ratio if precision is None else rounded(f, isa, precision, ratio)


def _between(f: Function, x: Value, low: Value, high: Value) -> Value:
    """`low` of NaN."""
    x = f.select(f.compare(">", x, low), x, low)
    return f.select(f.compare("<", x, high), x, high)


def _as(f: Function, isa: Isa, value: Typed, like_: Value) -> Value:
    return converted(f, isa, *value, "f64" if bits(like_.type) == 64 else "f32")


def _code(f: Function, x: Value, target: str) -> Value:
    return f.cast("trunc", x, register_type(target, lanes(x.type)))


def _steps(f: Function, isa: Isa, x: Typed, zero: Typed | None, type_: str) -> Value:
    """code - zero point as a float."""
    codes, dtype = x
    if is_float(dtype):
        return f.cast("fpext", codes, type_)
    wide = like(codes.type, "i32" if bits(codes.type) <= 16 else "i64")
    extend = "sext" if dtype[0] == "s" else "zext"
    if zero is None:
        return f.cast("sitofp" if dtype[0] == "s" else "uitofp", codes, type_)
    difference = f.sub(f.cast(extend, codes, wide), f.cast(extend, zero[0], wide))
    return f.cast("sitofp", difference, type_)
