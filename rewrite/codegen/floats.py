"""Floats narrower than float32, as bits and as float32 in a register.

In: codes (integers as wide as the element in memory) or floats, scalars or vectors of any number
of lanes. Out: the same numbers in the other form. Every value of these types is a float32, so
`decode` is exact; `encode` rounds to nearest, halves to even, once.

Sources: IEEE 754; the tables of the 8-bit floats in the text of Cast (onnx/defs/tensor/defs.cc);
OCP Microscaling Formats, version 1.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import like
from rewrite.codegen.value import Value


@dataclass(frozen=True, slots=True)
class Format:
    """Sign, `exponent` and `mantissa` bits. The number of exponent code e is 2^(e - bias) 1.m.

    `special` says what the largest exponent means: `ieee` infinity and NaN; `top`: only the
    code of all ones is NaN, `zero`: only the code of minus zero is, `none`: all codes are finite.
    """

    exponent: int
    mantissa: int
    bias: int
    special: str

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def largest_code(self) -> int:
        """Of the largest finite number."""
        everything = (1 << (self.exponent + self.mantissa)) - 1
        if self.special == "ieee":
            return everything - (1 << self.mantissa)
        return everything - (1 if self.special == "top" else 0)

    @property
    def top_exponent(self) -> int:
        """Of the largest finite number: it lies in [2^top, 2^(top + 1))."""
        return (self.largest_code >> self.mantissa) - self.bias

    @property
    def largest(self) -> float:
        rest = self.largest_code & ((1 << self.mantissa) - 1)
        return float((1 + rest / (1 << self.mantissa)) * 2.0**self.top_exponent)


FORMATS: dict[str, Format] = {
    "f16": Format(5, 10, 15, "ieee"),
    "bf16": Format(8, 7, 127, "ieee"),
    "f8e4m3fn": Format(4, 3, 7, "top"),
    "f8e4m3fnuz": Format(4, 3, 8, "zero"),
    "f8e5m2": Format(5, 2, 15, "ieee"),
    "f8e5m2fnuz": Format(5, 2, 16, "zero"),
    "f6e2m3": Format(2, 3, 1, "none"),
    "f6e3m2": Format(3, 2, 3, "none"),
    "f4e2m1": Format(2, 1, 1, "none"),
}

# Element types that are float32 in registers.
NARROW = frozenset({*FORMATS, "f8e8m0"})


def has_half(isa: Isa) -> bool:
    """Whether the machine converts float16 itself."""
    return isa.arch == "aarch64" or isa.has("f16c") or isa.has("avx512f")


def rounded(f: Function, isa: Isa, dtype: str, x: Value) -> Value:
    """A float32 rounded to an element type, out of range to infinity or NaN; others as they are."""
    if dtype not in NARROW:
        return x
    if dtype == "f16" and has_half(isa):
        return f.cast("fpext", f.cast("fptrunc", x, like(x.type, "half")), x.type)
    if dtype == "bf16":
        return f.bitcast(f.binary("and", _bfloat_sum(f, x), 0xFFFF0000), x.type)
    return decode(f, isa, dtype, encode(f, isa, dtype, x))


# --- codes to floats ---------------------------------------------------------------------------


def decode(f: Function, isa: Isa, dtype: str, code: Value) -> Value:
    """The float32 of a code."""
    wide = like(code.type, "i32")
    number = like(code.type, "float")
    if dtype == "f16" and has_half(isa):
        return f.cast("fpext", f.bitcast(code, like(code.type, "half")), number)
    c = f.cast("zext", code, wide)
    if dtype == "bf16":
        return f.bitcast(f.binary("shl", c, 16), number)
    if dtype == "f8e8m0":
        return _decode_power(f, c)
    form = FORMATS[dtype]
    magnitude = f.binary("and", c, (1 << (form.width - 1)) - 1)
    # The fields moved to where float32 has them, and the difference of the biases multiplied in:
    # subnormal codes come out right without being told apart.
    moved = f.binary("shl", magnitude, 23 - form.mantissa)
    value = f.bitcast(f.bitcast(moved, number) * 2.0 ** (127 - form.bias), wide)
    value = _decode_special(f, form, c, magnitude, moved, value)
    sign = f.binary("shl", f.binary("and", c, 1 << (form.width - 1)), 32 - form.width)
    return f.bitcast(f.binary("or", value, sign), number)


def _decode_special(
    f: Function, form: Format, code: Value, magnitude: Value, moved: Value, value: Value
) -> Value:
    if form.special == "none":
        return value
    if form.special == "ieee":
        beyond = f.compare(">", magnitude, form.largest_code, signed=False)
        return f.select(beyond, f.binary("or", moved, 0x7F800000), value)
    if form.special == "top":
        missing = f.compare(">", magnitude, form.largest_code, signed=False)
    else:
        missing = f.compare("==", code, 1 << (form.width - 1))
    return f.select(missing, 0x7FC00000, value)


def _decode_power(f: Function, code: Value) -> Value:
    """2^(code - 127); code 0 is subnormal in float32, 255 is NaN."""
    value = f.binary("shl", code, 23)
    value = f.select(f.compare("==", code, 0), 0x00400000, value)
    value = f.select(f.compare("==", code, 255), 0x7FC00000, value)
    return f.bitcast(value, like(code.type, "float"))


# --- floats to codes ---------------------------------------------------------------------------


def encode(f: Function, isa: Isa, dtype: str, x: Value) -> Value:
    """The code nearest to a float32; out of range infinity, or NaN where there is none."""
    if dtype == "f16" and has_half(isa):
        return f.bitcast(f.cast("fptrunc", x, like(x.type, "half")), like(x.type, "i16"))
    if dtype == "bf16":
        return f.cast("trunc", f.binary("lshr", _bfloat_sum(f, x), 16), like(x.type, "i16"))
    raw = f.bitcast(x, like(x.type, "i32"))
    if dtype == "f8e8m0":
        return f.cast("trunc", f.binary("lshr", raw, 23), like(x.type, "i8"))
    form = FORMATS[dtype]
    magnitude = f.binary("and", raw, 0x7FFFFFFF)
    code = _encode_magnitude(f, form, magnitude)
    return _with_sign(f, form, raw, magnitude, code)


def _encode_magnitude(f: Function, form: Format, magnitude: Value) -> Value:
    """The code of |x|, at most one above the largest; of NaN anything."""
    drop = 23 - form.mantissa
    # Normal numbers: half of the last digit is added, less where that would round a tie to odd.
    odd = f.binary("and", f.binary("lshr", magnitude, drop), 1)
    rebias = ((form.bias - 127) << 23) + (1 << (drop - 1)) - 1
    normal = f.binary("lshr", magnitude + rebias + odd, drop)
    # Subnormal ones: added to a power of two whose last digit is worth one code.
    magic = 2.0 ** (1 - form.bias - form.mantissa + 23)
    pushed = f.bitcast(magnitude, like(magnitude.type, "float")) + magic
    subnormal = f.bitcast(pushed, magnitude.type) - (
        (127 + 1 - form.bias - form.mantissa + 23) << 23
    )
    least = (127 + 1 - form.bias) << 23
    small = f.compare("<", magnitude, least, signed=False)
    code = f.select(small, subnormal, normal)
    # Larger numbers have larger codes; capped, no digit reaches the sign.
    beyond = form.largest_code + 1
    return f.select(f.compare("<", code, beyond, signed=False), code, beyond)


def _with_sign(f: Function, form: Format, raw: Value, magnitude: Value, code: Value) -> Value:
    sign = f.binary("lshr", f.binary("and", raw, 0x80000000), 32 - form.width)
    is_nan = f.compare(">", magnitude, 0x7F800000, signed=False)
    narrow = like(raw.type, "i16" if form.width == 16 else "i8")
    if form.special == "ieee":
        quiet = form.largest_code + 1 + (1 << (form.mantissa - 1))
        code = f.binary("or", f.select(is_nan, quiet, code), sign)
    elif form.special == "top":
        code = f.binary("or", f.select(is_nan, form.largest_code + 1, code), sign)
    elif form.special == "zero":
        missing = f.binary("or", is_nan, f.compare(">", code, form.largest_code, signed=False))
        signed = f.select(f.compare("==", code, 0), 0, f.binary("or", code, sign))
        code = f.select(missing, 1 << (form.width - 1), signed)
    else:
        over = f.compare(">", code, form.largest_code, signed=False)
        code = f.binary("or", f.select(over, form.largest_code, code), sign)
        code = f.select(is_nan, 1 << (form.width - 1), code)  # as ml_dtypes does: -0
    return f.cast("trunc", code, narrow)


def _bfloat_sum(f: Function, x: Value) -> Value:
    """The bits of a float32 whose upper half is the nearest bfloat16.

    By integers: the instruction of AVX-512 takes subnormal numbers for zero.
    """
    raw = f.bitcast(x, like(x.type, "i32"))
    odd = f.binary("and", f.binary("lshr", raw, 16), 1)
    nearest = raw + 0x7FFF + odd
    return f.select(f.compare("!=", x, x), f.binary("or", raw, 0x00400000), nearest)


def narrowed_to_odd(f: Function, x: Value) -> Value:
    """float64 to float32, inexact results to the neighbour whose last digit is odd: a second
    rounding, to fewer digits, then gives what one rounding of the float64 would have given."""
    nearest = f.cast("fptrunc", x, like(x.type, "float"))
    back = f.cast("fpext", nearest, x.type)
    raw = f.bitcast(nearest, like(x.type, "i32"))
    # Toward zero where the nearest one is farther out, then the last digit is set.
    magnitude = f.intrinsic("llvm.fabs", x.type, back)
    farther = f.compare(">", magnitude, f.intrinsic("llvm.fabs", x.type, x))
    down = f.select(farther, raw - 1, raw)
    odd = f.bitcast(f.binary("or", down, 1), nearest.type)
    return f.select(
        f.compare("!=", back, x), f.select(f.compare("!=", x, x), nearest, odd), nearest
    )
