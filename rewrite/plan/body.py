"""Pointwise operators joined into one scalar program.

In: instances in order. Out: a `Body`, and the operands from outside that it takes. An operand that
is one known number becomes a constant of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewrite.ops import registry as operators
from rewrite.ops.dtypes import of_numpy
from rewrite.plan.instance import Instance
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.tensor import Tensor

Operand = tuple[Instance, int]  # an instance and the number of its operand
_PER_AXIS = frozenset({("", "QuantizeLinear"), ("", "DequantizeLinear")})
_BY_OPSET = frozenset({"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"})
_CONSTANTS = frozenset(
    {"f32", "f64", "f16", "bf16", "bool", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64"}
)


def join(
    ops: Sequence[Instance], first: int | None = None, results: Sequence[int] | None = None
) -> tuple[Body, list[Operand]]:
    """The program of `ops`. Value `first`, where given, is value 0 and comes from nowhere else.

    `results`: the values that the program gives; by default that of the last operator.
    """
    inside = {op.results[0] for op in ops}
    external: dict[object, Operand] = {}
    for op in ops:
        for index in range(len(op.operands)):
            key = _external(op, index, inside, first)
            if key is not None:
                external.setdefault(key, (op, index))
    base = 0 if first is None else 1
    numbers: dict[object, int] = {key: base + i for i, key in enumerate(external)}
    if first is not None:
        numbers[first] = 0
    count = base + len(external)
    steps: list[Step] = []
    for op in ops:
        args = tuple(_argument(op, i, inside, first, numbers) for i in range(len(op.operands)))
        steps.append(_step(op, args))
        result = op.results[0]
        if result is not None:
            numbers[result] = count + len(steps) - 1
    dtypes = [op.dtype(index) for op, index in external.values()]
    if first is not None:
        dtypes.insert(0, _dtype_of(ops, first))
    wanted = results if results is not None else [ops[-1].results[0] or -1]
    body = Body(tuple(dtypes), tuple(steps), tuple(numbers[value] for value in wanted))
    return body, list(external.values())


def _dtype_of(ops: Sequence[Instance], value: int) -> str:
    for op in ops:
        for index, operand in enumerate(op.operands):
            if operand == value:
                return op.dtype(index)
    raise AssertionError("the first operator of a tail takes what the head computes")


def _external(
    op: Instance, index: int, inside: set[int | None], first: int | None
) -> object | None:
    """A key for an operand from outside; None for constants, absent ones and those inside."""
    if not op.has(index) or _only_typed(op, index):
        return None
    number = op.operands[index]
    if number is not None and (number in inside or number == first):
        return None
    if as_constant(op, index) is not None:
        return None
    # A per-axis operand is seen through the axis of its operator.
    axis = op.integer("axis", 1) if op.key in _PER_AXIS and index > 0 else 0
    return (number, axis) if number is not None else (id(op.content(index)), axis)


def _argument(
    op: Instance,
    index: int,
    inside: set[int | None],
    first: int | None,
    numbers: dict[object, int],
) -> int | Constant | None:
    if not op.has(index) or _only_typed(op, index):
        return None
    number = op.operands[index]
    if number is not None and (number in inside or number == first):
        return numbers[number]
    constant = as_constant(op, index)
    if constant is not None:
        return constant
    key = _external(op, index, inside, first)
    return numbers[key]


def _only_typed(op: Instance, index: int) -> bool:
    """An operand of which only the element type is asked for; its shape is its own."""
    return op.name == "CastLike" and index == 1


def as_constant(op: Instance, index: int) -> Constant | None:
    """An operand that is one number known when the plan is made."""
    array = op.single(index)
    if array is None:
        return None
    dtype = of_numpy(array.dtype)
    if dtype is None or dtype not in _CONSTANTS:
        return None
    return Constant(dtype, _number(array.reshape(-1)[0]))


def _number(item: Any) -> float | int | bool:
    plain = item.item()
    return plain if isinstance(plain, (bool, int, float)) else float(plain)


def _step(op: Instance, args: tuple[int | Constant | None, ...]) -> Step:
    attributes = {**_defaults(op), **_plain(op)}
    opset = op.opset if op.name in _BY_OPSET else 0
    return Step(op.domain, op.name, args, op.out_dtype(), tuple(sorted(attributes.items())), opset)


def _defaults(op: Instance) -> dict[str, Any]:
    definition = operators.find(op.domain, op.name)
    body = None if definition is None else definition.body
    defaults = getattr(body, "__kwdefaults__", None)
    return dict(defaults) if defaults else {}


def _plain(op: Instance) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in op.attributes.items():
        if isinstance(value, bytes):
            found[name] = value.decode()
        elif isinstance(value, (bool, int, float, str)):
            found[name] = value
        elif isinstance(value, (list, tuple)):
            found[name] = tuple(value)
    return found


def place(op: Instance, index: int, tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The operand as a view of the program's shape: broadcast, or along the operator's axis."""
    if op.key in _PER_AXIS and index > 0 and len(tensor.shape) == 1 and tensor.shape[0] != 1:
        rank = len(op.shape(0))
        axis = op.integer("axis", 1) % rank
        sizes = tuple(tensor.shape[0] if k == axis else 1 for k in range(rank))
        reshaped = tensor.reshaped(sizes)
        assert reshaped is not None
        tensor = reshaped
    if tensor.view.size == 1 and len(tensor.shape) > len(shape):
        scalar = tensor.reshaped(())
        assert scalar is not None
        tensor = scalar
    return tensor.broadcast(shape)
