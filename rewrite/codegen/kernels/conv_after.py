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
from rewrite.plan.specs.conv import MAGIC, After
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
        result = _code(f, isa, after, total, rest[0], rest[1])
        rest = rest[2:]
    if after.body is not None:
        result = emit_body(f, isa, after.body, [result, *rest])[0]
    store(f, isa, after.out, result, out, width)


def _code(f: Function, isa: Isa, after: After, total: Value, factor: Value, zero: Value) -> Value:
    """round(total factor) + zero, saturated."""
    wide = f.cast("fpext" if is_float(total.type) else "sitofp", total, factor.type)
    if after.halves:
        whole = _low_words(f, f.add(f.mul(wide, factor), MAGIC))
        code = f.add(whole, zero)
    elif isa.fma:
        code = _low_words(f, f.fma(wide, factor, zero))
    else:
        code = _low_words(f, f.add(f.mul(wide, factor), zero))
    bits, signed = 8 * BYTES[after.codes], after.codes[0] == "s"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    code = f.intrinsic("llvm.smax", code.type, code, low)
    code = f.intrinsic("llvm.smin", code.type, code, high)
    return f.cast("trunc", code, like(code.type, f"i{bits}"))


def _low_words(f: Function, x: Value) -> Value:
    """The low 32 bits of doubles."""
    count = lanes(x.type)
    halves = f.bitcast(x, vector("i32", 2 * max(1, count)))
    return f.shuffle(halves, None, range(0, 2 * count, 2)) if count else f.extract(halves, 0)


def is_short(after: After) -> bool:
    """Whether the program may stand behind every accumulator."""
    if after.body is None:
        return not after.codes
    steps = after.body.steps
    return len(steps) <= SHORT and all(step.name in _CHEAP for step in steps)


# Steps of a few instructions.
_CHEAP = frozenset(
    {
        "Abs", "Add", "Cast", "Clip", "Code", "Div", "HardSigmoid", "HardSwish", "Identity",
        "LeakyRelu", "Max", "Min", "Mul", "Neg", "PRelu", "Relu", "Round", "Sub",
    }
)  # fmt: skip
