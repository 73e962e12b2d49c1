"""Elementwise operators of several operands: arithmetic, comparison, logic, bits, selection.

In: scalar bodies (rewrite/ops/scalar.py). Out: their declarations. From opset 7 on all of them
broadcast like numpy, except PRelu and Clip, whose output has the shape of the first operand.
"""

from __future__ import annotations

from rewrite.ops import dims
from rewrite.ops.call import Arrays, Call, Evaluation, Types
from rewrite.ops.elementwise import ACTIVATION, LIBM, logistic
from rewrite.ops.registry import op, value
from rewrite.ops.scalar import Builder, V, pointwise
from rewrite.schema import Type

# One addition too many or too few in float32.
REASSOCIATION = 1e-6


@pointwise("Add", commutative=True)
def add(b: Builder[V], x: V, y: V) -> V:
    """x + y"""
    return b.add(x, y)


@pointwise("Sub")
def sub(b: Builder[V], x: V, y: V) -> V:
    """x - y"""
    return b.sub(x, y)


@pointwise("Mul", commutative=True)
def mul(b: Builder[V], x: V, y: V) -> V:
    """x y"""
    return b.mul(x, y)


@pointwise("Div")
def div(b: Builder[V], x: V, y: V) -> V:
    """x / y; integers are rounded toward zero"""
    return b.div(x, y)


@pointwise("Mod")
def mod(b: Builder[V], x: V, y: V, *, fmod: int = 0) -> V:
    """The remainder with the sign of y, or with fmod that of x"""
    return b.fmod(x, y) if fmod else b.mod(x, y)


@pointwise("Pow", error=ACTIVATION, out="first")
def power(b: Builder[V], x: V, y: V) -> V:
    """x^y, of the element type of x"""
    return b.pow(x, y)


@pointwise("Max", commutative=True)
def maximum(b: Builder[V], first: V, *rest: V) -> V:
    """The largest operand; NaN where one is NaN"""
    for x in rest:
        first = b.max(first, x)
    return first


@pointwise("Min", commutative=True)
def minimum(b: Builder[V], first: V, *rest: V) -> V:
    """The smallest operand; NaN where one is NaN"""
    for x in rest:
        first = b.min(first, x)
    return first


@pointwise("Sum", error=REASSOCIATION, commutative=True)
def total(b: Builder[V], first: V, *rest: V) -> V:
    """The sum of the operands"""
    for x in rest:
        first = b.add(first, x)
    return first


@pointwise("Mean", error=REASSOCIATION, commutative=True)
def mean(b: Builder[V], first: V, *rest: V) -> V:
    """The sum of the operands divided by their number"""
    for x in rest:
        first = b.add(first, x)
    return b.div(first, float(1 + len(rest)))


@pointwise("Clip", shape="first")
def clip(b: Builder[V], x: V, low: V | None = None, high: V | None = None) -> V:
    """min(max(x, low), high): high wins where low > high"""
    if low is not None:
        x = b.max(x, low)
    return x if high is None else b.min(x, high)


@pointwise("SwiGLU", error=ACTIVATION)
def swiglu(b: Builder[V], gate: V, x: V, *, alpha: float = 1.0) -> V:
    """gate / (1 + e^(-alpha gate)) x"""
    return b.mul(b.mul(gate, logistic(b, b.mul(gate, alpha))), x)


def _prelu_body(b: Builder[V], x: V, slope: V) -> V:
    """x where x >= 0, else slope x"""
    return b.select(b.less(x, 0), b.mul(x, slope), x)


pointwise("PRelu", shape="first", error=LIBM)(_prelu_body)


# --- comparison -------------------------------------------------------------------------------


@pointwise("Equal", out="bool", commutative=True)
def equal(b: Builder[V], x: V, y: V) -> V:
    """x = y"""
    return b.equal(x, y)


@pointwise("Less", out="bool")
def less(b: Builder[V], x: V, y: V) -> V:
    """x < y"""
    return b.less(x, y)


@pointwise("LessOrEqual", out="bool")
def less_or_equal(b: Builder[V], x: V, y: V) -> V:
    """x <= y"""
    return b.less_equal(x, y)


@pointwise("Greater", out="bool")
def greater(b: Builder[V], x: V, y: V) -> V:
    """x > y"""
    return b.less(y, x)


@pointwise("GreaterOrEqual", out="bool")
def greater_or_equal(b: Builder[V], x: V, y: V) -> V:
    """x >= y"""
    return b.less_equal(y, x)


# --- logic and bits ---------------------------------------------------------------------------


@pointwise("And", commutative=True)
def logical_and(b: Builder[V], x: V, y: V) -> V:
    """x and y"""
    return b.logical_and(x, y)


@pointwise("Or", commutative=True)
def logical_or(b: Builder[V], x: V, y: V) -> V:
    """x or y"""
    return b.logical_or(x, y)


@pointwise("Xor", commutative=True)
def logical_xor(b: Builder[V], x: V, y: V) -> V:
    """x or y, not both"""
    return b.logical_xor(x, y)


@pointwise("BitwiseAnd", commutative=True)
def bit_and(b: Builder[V], x: V, y: V) -> V:
    """Bits set in both"""
    return b.bit_and(x, y)


@pointwise("BitwiseOr", commutative=True)
def bit_or(b: Builder[V], x: V, y: V) -> V:
    """Bits set in either"""
    return b.bit_or(x, y)


@pointwise("BitwiseXor", commutative=True)
def bit_xor(b: Builder[V], x: V, y: V) -> V:
    """Bits set in one of them"""
    return b.bit_xor(x, y)


@pointwise("BitShift")
def bit_shift(b: Builder[V], x: V, y: V, *, direction: str = "") -> V:
    """x moved by y bits; a signed x keeps its sign"""
    return b.shift_left(x, y) if direction == "LEFT" else b.shift_right(x, y)


# --- selection --------------------------------------------------------------------------------


@op("Where", kind="elementwise", pointwise=True, shape_class="broadcast")
def where(call: Call) -> Types:
    """x where the condition holds, else y"""
    shape = call.shape(0)
    for other in (call.shape(1), call.shape(2)):
        known = shape is not None and other is not None
        shape = dims.broadcast(shape, other) if known else None  # type: ignore[arg-type]
    return (Type(call.dtype_of(1, 2), shape),)


@value("Where")
def where_value(e: Evaluation) -> Arrays:
    import numpy as np

    return (np.where(e.array(0), e.array(1), e.array(2)),)
