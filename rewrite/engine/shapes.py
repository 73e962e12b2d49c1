"""Small integer tensors that are computed from shapes: Shape -> Gather -> Concat and the like.

In: a node. Out: its constant value where all elements follow from sizes that the model fixes,
though the tensor whose shape is asked for is not constant. Elements may be names of sizes on the
way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.ops import dims
from rewrite.schema import Dim

_LONGEST = 64  # elements followed
_DEEPEST = 32  # nodes followed upwards

# Elements in row-major order and whether the tensor has rank 1 (else rank 0).
Known = tuple[tuple[Dim, ...], bool]


class ShapeValues:
    """Values that follow from shapes. Nothing is kept: edits change what is known."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def constant(self, node: ir.Node) -> np.ndarray | None:
        """The only output of a node that `follows_shapes`, where every element is a number."""
        known = self._of_node(node, _DEEPEST)
        if known is None or any(isinstance(item, str) for item in known[0]):
            return None
        type_ = self.facts.type(node.outputs[0])
        dtype = np.int32 if type_.dtype == "s32" else np.int64
        array = np.array(known[0], dtype)
        return array if known[1] else array.reshape(())

    def symbols(self, value: ir.Value | None) -> tuple[Dim, ...] | None:
        """The elements of a small integer tensor, as far as they are sizes."""
        known = self.of(value, _DEEPEST)
        return None if known is None else known[0]

    def of(self, value: ir.Value | None, depth: int) -> Known | None:
        if value is None or depth < 0:
            return None
        tensor = self.facts.constant(value)
        if tensor is not None:
            return self._of_constant(value, tensor)
        node = value.producer()
        if node is None or node.domain != "" or node.op_type not in _RULES:
            return None
        return self._of_node(node, depth - 1)

    def _of_constant(self, value: ir.Value, tensor: Any) -> Known | None:
        if tensor.size > _LONGEST or len(tensor.shape) > 1:
            return None
        if tensor.dtype not in (ir.DataType.INT64, ir.DataType.INT32):
            return None
        array = self.facts.array(value)
        if array is None:
            return None
        return tuple(int(item) for item in array.reshape(-1)), array.ndim == 1

    def _of_node(self, node: ir.Node, depth: int) -> Known | None:
        try:
            return _RULES[node.op_type](self, node, depth)
        except (dims.SizeError, IndexError):
            return None

    def operand(self, node: ir.Node, index: int, depth: int) -> Known | None:
        operands = self.facts.operands(node)
        return self.of(operands[index], depth) if index < len(operands) else None

    def integer(self, node: ir.Node, name: str, default: int) -> int:
        value = self.facts.attribute(node, name)
        return default if value is None else int(value)

    def numbers(self, node: ir.Node, index: int) -> tuple[int, ...] | None:
        """An operand that is an integer constant."""
        operands = self.facts.operands(node)
        value = operands[index] if index < len(operands) else None
        array = None if value is None else self.facts.array(value)
        if array is None or array.size > _LONGEST or array.dtype.kind not in "iu":
            return None
        return tuple(int(item) for item in array.reshape(-1))


def _shape(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    operand = node.inputs[0]
    shape = None if operand is None else values.facts.type(operand).shape
    if shape is None:
        return None
    start = values.integer(node, "start", 0)
    end = node.attributes.get("end")
    return shape[slice(start, None if end is None else int(end.value))], True


def _size(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    operand = node.inputs[0]
    shape = None if operand is None else values.facts.type(operand).shape
    return None if shape is None else ((dims.product(shape),), False)


def _gather(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    data = values.operand(node, 0, depth)
    operands = values.facts.operands(node)
    index = values.numbers(node, 1)
    if data is None or index is None or not data[1]:
        return None
    assert operands[1] is not None
    rank = values.facts.type(operands[1]).shape
    if rank is None or len(rank) > 1 or values.integer(node, "axis", 0) not in (0, -1):
        return None
    return tuple(data[0][i] for i in index), len(rank) == 1


def _slice(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    data = values.operand(node, 0, depth)
    starts, ends = values.numbers(node, 1), values.numbers(node, 2)
    if data is None or starts is None or ends is None or len(starts) != 1:
        return None
    operands = values.facts.operands(node)
    steps: tuple[int, ...] | None = (1,)
    if len(operands) > 4 and operands[4] is not None:
        steps = values.numbers(node, 4)
    if steps is None or steps[0] < 1:
        return None
    return data[0][starts[0] : ends[0] : steps[0]], True


def _concat(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    parts: list[Dim] = []
    for index in range(len(node.inputs)):
        known = values.operand(node, index, depth)
        if known is None or not known[1]:
            return None
        parts += known[0]
    return tuple(parts), True


def _same(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    return values.operand(node, 0, depth)


def _cast(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    integer = values.integer(node, "to", 0) in (ir.DataType.INT64, ir.DataType.INT32)
    return values.operand(node, 0, depth) if integer else None


def _unsqueeze(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    known = values.operand(node, 0, depth)
    axes = values.numbers(node, 1)
    if known is None or known[1] or axes is None or len(axes) != 1:
        return None
    return known[0], True


def _squeeze(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
    known = values.operand(node, 0, depth)
    return (known[0], False) if known is not None and len(known[0]) == 1 else None


def _arithmetic(operation: Callable[[Dim, Dim], Dim]) -> Rule:
    def rule(values: ShapeValues, node: ir.Node, depth: int) -> Known | None:
        a, b = values.operand(node, 0, depth), values.operand(node, 1, depth)
        if a is None or b is None:
            return None
        length = max(len(a[0]), len(b[0]))
        if len(a[0]) not in (1, length) or len(b[0]) not in (1, length):
            return None
        left = a[0] * length if len(a[0]) == 1 else a[0]
        right = b[0] * length if len(b[0]) == 1 else b[0]
        made = tuple(operation(x, y) for x, y in zip(left, right, strict=True))
        return made, a[1] or b[1]

    return rule


def _divide(a: Dim, b: Dim) -> Dim:
    """Integer Div truncates; sizes are not negative, so that it is the floor."""
    if not isinstance(b, int) or b <= 0 or (isinstance(a, int) and a < 0):
        raise dims.SizeError("not a division of sizes")
    return dims.floordiv(a, b)


_SOURCES = frozenset({"Shape", "Size"})

Rule = Callable[[ShapeValues, ir.Node, int], Known | None]

_RULES: Mapping[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Identity": _same,
    "Cast": _cast,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Add": _arithmetic(dims.add),
    "Sub": _arithmetic(dims.sub),
    "Mul": _arithmetic(dims.mul),
    "Div": _arithmetic(_divide),
}


def follows_shapes(facts: Facts, node: ir.Node) -> bool:
    """Whether the node computes integers as they are computed from shapes."""
    name = node._op_type
    if name not in _RULES or node._domain != "" or len(node._outputs) != 1:
        return False
    if name not in _SOURCES:
        for value in node._inputs:
            producer = None if value is None else value._producer
            if producer is not None and producer._op_type in _RULES:
                break
        else:
            return False
    return facts.type(node._outputs[0]).dtype in ("s64", "s32")
