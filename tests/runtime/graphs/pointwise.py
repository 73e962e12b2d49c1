"""Pointwise operators: each element from those at the same place, operands broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DTYPES
from tests.runtime.graphs.maker import FLOATS, INTEGERS, MOST, Maker, Value

# Name: whether the result is exact, its limit from that of the operand.
EXACT_FLOAT = ("Neg", "Abs", "Relu", "Identity", "LeakyRelu", "ThresholdedRelu")
STEPS = ("Floor", "Ceil", "Round", "Sign")  # discontinuous: of exact values only
SMOOTH = ("Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Exp", "Sin", "Cos", "Atan", "Elu",
          "Selu", "HardSigmoid", "HardSwish", "Mish", "Gelu", "Celu", "Sinh", "Asinh")  # fmt: skip
ONLY_SINGLE = ("Celu", "ThresholdedRelu")
POSITIVE = ("Sqrt", "Log", "Reciprocal")


def unary_float(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.floating)
    if x is None:
        return None
    names = [*EXACT_FLOAT, *SMOOTH, *POSITIVE]
    names += STEPS if x.exact else ()
    name = m.choose(names)
    if x.dtype != "f32" and name in ONLY_SINGLE:
        name = "Tanh"
    if name in POSITIVE:
        x = m.positive(x)
        return m.add(m.node(name, [x]), x.dtype, x.shape, x.exact and name != "Log", x.limit + 2)
    if name in SMOOTH:
        x = m.tame(x, 4.0)
        limit = 60.0 if name in ("Exp", "Sinh") else 8.0
        return m.add(m.node(name, [x]), x.dtype, x.shape, False, limit)
    return m.add(m.node(name, [x]), x.dtype, x.shape, x.exact, x.limit)


def unary_integer(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.integer)
    if x is None:
        return None
    names = ["Identity", "BitwiseNot", "Sign"]
    names += ["Abs", "Neg"] if x.dtype[0] == "s" else []
    return m.add(m.node(m.choose(names), [x]), x.dtype, x.shape, True, x.limit)


def second_operand(m: Maker, x: Value) -> Value:
    """A value of the same type that broadcasts with x, or a constant."""

    def fits(v: Value) -> bool:
        return v.dtype == x.dtype and together(v.shape, x.shape) is not None

    found = m.pick(fits) if m.flag() else None
    if found is not None:
        return found
    shape = x.shape[m.number(0, x.rank) :]
    shape = tuple(1 if m.flag() else n for n in shape)
    return m.filled(x.dtype, shape)


def together(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        shape = np.broadcast_shapes(a, b)
    except ValueError:
        return None
    return shape if np.prod(shape, dtype=np.int64) <= 8192 else None


def binary(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.floating or v.integer)
    if x is None:
        return None
    y = second_operand(m, x)
    shape = together(x.shape, y.shape)
    if shape is None:
        return None
    name = m.choose(("Add", "Sub", "Mul", "Max", "Min", "Div", "PRelu", "Mod", "Pow"))
    exact = x.exact and y.exact
    if x.integer:
        return _binary_integer(m, name, x, y, shape)
    if name in ("Mod", "Pow"):
        name = "Add"
    if name == "PRelu" and together(y.shape, x.shape) != x.shape:
        name = "Mul"
    if name == "Div":
        y = m.positive(y)
    limit = {"Mul": x.limit * y.limit, "PRelu": x.limit * max(y.limit, 1), "Div": 2 * x.limit}.get(
        name, x.limit + y.limit
    )
    if limit > MOST[x.dtype]:
        x, y = m.tame(x, 8.0), m.tame(y, 8.0)
        limit = 64.0
    order = [y, x] if m.flag() and name in ("Add", "Mul", "Max", "Min", "Sub") else [x, y]
    return m.add(m.node(name, order), x.dtype, shape, exact, limit)


def _binary_integer(
    m: Maker, name: str, x: Value, y: Value, shape: tuple[int, ...]
) -> Value | None:
    if name in ("PRelu", "Pow"):
        name = m.choose(("BitwiseAnd", "BitwiseOr", "BitwiseXor"))
    if name in ("Max", "Min") and x.dtype in ("s16", "u16"):
        name = "Add"
    if name in ("Div", "Mod"):  # by constants: not by zero, and no smallest number by -1
        size = () if m.flag() else y.shape
        divisor = np.full(size, m.number(1, 5)).astype(to_numpy(x.dtype))
        y = m.constant(divisor)
        whole = together(x.shape, y.shape)
        assert whole is not None
        shape = whole
        if name == "Div" and x.dtype[0] == "s":  # towards zero or down, by the runtime
            x = Value(m.node("Abs", [x]), x.dtype, x.shape)
    return m.add(m.node(name, [x, y]), x.dtype, shape, True, x.limit)


def compare(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.exact and (v.floating or v.integer) and v.dtype != "bf16")
    if x is None:
        return None
    y = second_operand(m, x)
    if not y.exact:
        return None
    shape = together(x.shape, y.shape)
    if shape is None:
        return None
    name = m.choose(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    return m.add(m.node(name, [x, y]), "bool", shape, True, 1.0)


def logic(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.dtype == "bool")
    if x is None:
        return None
    if m.flag():
        return m.add(m.node("Not", [x]), "bool", x.shape, True, 1.0)
    y = second_operand(m, x)
    shape = together(x.shape, y.shape)
    assert shape is not None
    name = m.choose(("And", "Or", "Xor", "Equal"))
    return m.add(m.node(name, [x, y]), "bool", shape, True, 1.0)


def where(m: Maker) -> Value | None:
    condition = m.pick(lambda v: v.dtype == "bool")
    if condition is None:
        return None
    x = m.pick(lambda v: together(v.shape, condition.shape) is not None)
    if x is None:
        return None
    y = second_operand(m, x)
    shape = together(x.shape, y.shape)
    shape = None if shape is None else together(shape, condition.shape)
    if shape is None:
        return None
    name = m.node("Where", [condition, x, y])
    return m.add(name, x.dtype, shape, x.exact and y.exact, max(x.limit, y.limit))


def cast(m: Maker) -> Value | None:
    """Between types; floats go to integers only where they are exact and fit."""
    x = m.pick()
    if x is None:
        return None
    targets = [t for t in (*FLOATS, *INTEGERS, "bool") if t != x.dtype]
    if x.floating and (not x.exact or x.limit > 100):
        targets = [t for t in FLOATS if t != x.dtype]
    target = m.choose(targets)
    if x.floating and target[0] == "u":
        x = Value(m.node("Abs", [x]), x.dtype, x.shape, x.exact, x.limit)
    if x.integer and target in FLOATS:
        x = _small(m, x)
    limit = x.limit if target in FLOATS else 2.0**63
    if target in FLOATS and x.limit > MOST[target]:
        x = m.tame(x, 16.0)
        limit = x.limit
    name = m.node("Cast", [x], to=DTYPES[target])
    return m.add(name, target, x.shape, x.exact, limit)


def _small(m: Maker, x: Value) -> Value:
    """The remainder by 8: any float type holds it."""
    eight = m.constant(np.array(8, to_numpy(x.dtype)))
    return Value(m.node("Mod", [x, eight]), x.dtype, x.shape, True, 8.0)


def clip(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.floating or v.dtype in ("s64", "s32", "s8", "u8", "u32", "u64"))
    if x is None:
        return None
    low, high = sorted((m.number(0, 3), m.number(0, 3)))
    ends: list[Any] = [
        m.constant(np.array(e, np.float32).astype(to_numpy(x.dtype))) if m.flag() else None
        for e in (low, high)
    ]
    return m.add(m.node("Clip", [x, *ends]), x.dtype, x.shape, x.exact, x.limit)


def variadic(m: Maker) -> Value | None:
    """Sum and Max of several operands, shifts."""
    x = m.pick(lambda v: v.floating and v.exact)
    if x is None:
        return None
    others = [second_operand(m, x) for _ in range(m.number(1, 3))]
    shape: tuple[int, ...] | None = x.shape
    for other in others:
        shape = None if shape is None else together(shape, other.shape)
    if shape is None or x.dtype == "bf16":
        return None
    name = m.choose(("Sum", "Max", "Min", "Mean"))
    limit = x.limit + sum(o.limit for o in others)
    if limit > MOST[x.dtype]:
        return None
    exact = name in ("Max", "Min") and all(o.exact for o in others)
    return m.add(m.node(name, [x, *others]), x.dtype, shape, exact, limit)


FAMILY = (unary_float, binary, unary_integer, compare, where, cast, logic, clip, variadic)
