"""Powers and remainders: what has no instruction and depends on more than one operand.

In: values in registers. Out: values.
"""

from __future__ import annotations

import struct

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import bits, is_float, lanes
from rewrite.codegen.value import Value


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


def float_remainder(f: Function, isa: Isa, x: Value, y: Value) -> Value:
    """x - trunc(x / y) y without error, by the C library's fmod, lane by lane."""
    name = "fmodf" if bits(x.type) == 32 else "fmod"
    if not lanes(x.type):
        return f.call(name, x.type, x, y)
    found = f.undef(x.type)
    for lane in range(lanes(x.type)):
        a, b = f.extract(x, lane), f.extract(y, lane)
        found = f.insert(found, f.call(name, a.type, a, b), lane)
    return found


def raised(f: Function, isa: Isa, x: Value, y: Value, x_signed: bool, y_signed: bool) -> Value:
    raise NotImplementedError
