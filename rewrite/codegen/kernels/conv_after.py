"""Sums on their way to memory: the epilogue of convolutions and pools.

In: `After`, sums in registers, addresses of operands at the place of the first one. Out: stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import load, store
from rewrite.codegen.types import is_float, lanes, like, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv import After
from rewrite.plan.view import BYTES

SHORT = 9  # steps of a program that may stand behind every accumulator


def pieces(count: int, widest: int) -> list[tuple[int, int]]:
    """`count` neighbours as whole vectors, then halves of them: (first one, lanes; 0: a scalar)."""
    found = []
    at = 0
    width = widest
    while at < count:
        while width > count - at:
            width //= 2
        found.append((at, width if width > 1 else 0))
        at += width
    return found


def operand_values(
    f: Function, isa: Isa, after: After, pointers: Sequence[Value], channel: int, width: int
) -> list[Value]:
    """The operands of the elements from `channel` on."""
    found = []
    for operand, pointer in zip(after.operands, pointers, strict=True):
        if operand.channels:
            at = f.at(pointer, channel * BYTES[operand.dtype])
            found.append(load(f, isa, operand.dtype, at, width))
        else:
            found.append(load(f, isa, operand.dtype, pointer, width, 0))
    return found


def finish(
    f: Function, isa: Isa, after: After, total: Value, operands: Sequence[Value], out: Value,
    width: int,
) -> None:  # fmt: skip
    """A vector of `width` sums (0: a scalar) through the epilogue to `out`."""
    result, rest = total, list(operands)
    if after.codes:
        result = _code(f, after.codes, total, rest[0], rest[1])
        rest = rest[2:]
    if after.body is not None:
        result = emit_body(f, isa, after.body, [result, *rest])[0]
    store(f, isa, after.out, result, out, width)


_MAGIC = 1.5 * 2.0**52  # its unit is 1: adding it rounds half to even


def _code(f: Function, dtype: str, total: Value, factor: Value, zero: Value) -> Value:
    """round(total factor) + zero, saturated. The integer is in the low bits of the sum of doubles,
    which are two's complement since those of the constant are 0."""
    wide = f.cast("fpext" if is_float(total.type) else "sitofp", total, factor.type)
    moved = f.add(f.mul(wide, factor), _MAGIC)
    halves = f.bitcast(moved, vector("i32", 2 * max(1, lanes(moved.type))))
    whole = f.extract(halves, 0)
    if lanes(moved.type):
        whole = f.shuffle(halves, None, range(0, 2 * lanes(moved.type), 2))
    bits = 8 * BYTES[dtype]
    low, high = (0, (1 << bits) - 1) if dtype[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    code = f.add(whole, zero)
    code = f.intrinsic("llvm.smax", code.type, code, low)
    code = f.intrinsic("llvm.smin", code.type, code, high)
    return f.cast("trunc", code, like(code.type, f"i{bits}"))


def is_short(after: After) -> bool:
    return after.body is None or len(after.body.steps) <= SHORT
