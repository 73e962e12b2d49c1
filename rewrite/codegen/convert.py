"""Conversions between element types, in registers.

In: a value of one element type. Out: the value of another, rounded to it. What the standard says is
exact: to floats by one rounding to nearest, halves to even; integers to integers discard higher
bits. What it leaves open is what most runtimes do: a float outside of the range of a narrow or an
unsigned integer becomes a wider signed one, whose higher bits are discarded (-1 as u8 is 255);
outside of s32 and s64 it is the nearest integer; NaN is 0, and as a 4-bit or 6-bit float -0;
negative numbers as `f8e8m0` are their magnitude.

Source: the text of Cast (onnx/defs/tensor/defs.cc).
"""

from __future__ import annotations

from rewrite.codegen.floats import FORMATS, NARROW, decode, narrowed_to_odd, rounded
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.math_base import at_least, at_most
from rewrite.codegen.memory import register_type, wrapped
from rewrite.codegen.power import saturated
from rewrite.codegen.types import bits, lanes, like
from rewrite.codegen.value import Value

_FINITE = frozenset({"f4e2m1", "f6e2m3", "f6e3m2"})  # no infinity, no NaN: they always saturate
_UNBOUNDED = frozenset({"f16", "bf16"})


def converted(
    f: Function,
    isa: Isa,
    x: Value,
    source: str,
    target: str,
    saturate: bool = True,
    round_mode: str = "up",
) -> Value:
    """The element `x` of type `source` as one of type `target`."""
    if source == target:
        return x
    if target == "bool":
        return f.compare("!=", x, 0)
    if is_float(target):
        return _to_float(f, isa, x, source, target, saturate, round_mode)
    type_ = register_type(target, lanes(x.type))
    if is_float(source):
        found = _truncated(f, x, target, type_)
    elif bits(type_) <= bits(x.type):
        found = f.cast("trunc", x, type_)
    else:
        found = f.cast("sext" if source[0] == "s" else "zext", x, type_)
    return wrapped(f, target, found)


def _truncated(f: Function, x: Value, target: str, type_: str) -> Value:
    """A float without its fraction, as an integer."""
    width = bits(type_)
    if width < 32 or target == "u32":
        wide = like(type_, "i32" if width < 32 else "i64")
        return f.cast("trunc", saturated(f, x, wide, True), type_)
    if target != "u64":
        return saturated(f, x, type_, True)
    negative = saturated(f, x, type_, True)
    return f.select(f.compare("<", x, 0.0), negative, saturated(f, x, type_, False))


def is_float(dtype: str) -> bool:
    return dtype in ("f32", "f64") or dtype in NARROW


def _to_float(
    f: Function, isa: Isa, x: Value, source: str, target: str, saturate: bool, round_mode: str
) -> Value:
    type_ = register_type(target, lanes(x.type))
    if not is_float(source):
        exact_by = "double" if target in NARROW and bits(x.type) > 16 else type_
        x = _from_integer(f, x, source, like(x.type, "double") if exact_by == "double" else type_)
    if target == "f64":
        return f.cast("fpext", x, type_)
    if target == "f32":
        return f.cast("fptrunc", x, type_)
    if bits(x.type) == 64:
        x = narrowed_to_odd(f, x)
    return _narrowed(f, isa, x, target, saturate, round_mode)


def _from_integer(f: Function, x: Value, source: str, type_: str) -> Value:
    return f.cast("sitofp" if source[0] == "s" else "uitofp", x, type_)


def _narrowed(
    f: Function, isa: Isa, x: Value, target: str, saturate: bool, round_mode: str
) -> Value:
    """A float32, or one rounded to odd, in a narrower type."""
    if target == "f8e8m0":
        return decode(f, isa, target, power_code(f, x, saturate, round_mode))
    if target not in _UNBOUNDED and (saturate or target in _FINITE):
        largest = FORMATS[target].largest
        x = at_least(f, at_most(f, x, largest), -largest)
    return rounded(f, isa, target, x)


def power_code(f: Function, x: Value, saturate: bool, round_mode: str) -> Value:
    """The code of a power of two next to |x|: at least it (`up`), at most it (`down`), or the
    nearest one, the larger of two. Out of range the first or the last one, or NaN."""
    magnitude = f.binary("and", f.bitcast(x, like(x.type, "i32")), 0x7FFFFFFF)
    # Code 0 is 2^-127, half of the least normal float32.
    threshold = {"up": 1, "down": 1 << 23}.get(round_mode, 1 << 22)
    normal = f.binary("lshr", f.add(magnitude, (1 << 23) - threshold), 23)
    step = {"up": 0x00400001, "down": 0x00800000}.get(round_mode, 0x00600000)
    subnormal = f.cast("zext", f.compare(">=", magnitude, step, signed=False), magnitude.type)
    small = f.compare("<", magnitude, 0x00800000, signed=False)
    code = f.select(small, subnormal, normal)
    below = f.compare("<", magnitude, 0x00400000, signed=False)
    above = f.compare(">", magnitude, 0x7F000000 if round_mode != "down" else 0x7F7FFFFF, False)
    code = f.select(below, 0 if saturate else 255, code)
    code = f.select(above, _beyond(f, code, saturate), code)
    missing = f.compare(">", magnitude, 0x7F800000, signed=False)
    return f.cast("trunc", f.select(missing, 255, code), like(x.type, "i8"))


def _beyond(f: Function, code: Value, saturate: bool) -> Value:
    """Rounded up beyond the last power, or infinite."""
    most = 254 if saturate else 255
    return f.select(f.compare(">", code, 254, signed=False), most, code)
