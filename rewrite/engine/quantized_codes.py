"""Which codes a value can have.

In: facts of a model, a value of integer type. Out: the least and the largest integer that it can
be. Clamps, tables and constants say more than the element type, and operators that move elements
keep what is known.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.engine.quantized import operand
from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.ops.dtypes import integer_range
from rewrite.schema import DTYPE_CLASSES

Range = tuple[int, int]

# Operators whose results are elements of their first operand.
MOVES = frozenset(
    {"Reshape", "Transpose", "Slice", "Gather", "GatherElements", "GatherND", "Squeeze",
     "Unsqueeze", "Flatten", "Expand", "Tile", "DepthToSpace", "SpaceToDepth", "Identity",
     "ReverseSequence", "Compress", "Split", "Dropout"}
)  # fmt: skip
EXTREMA = frozenset({"MaxPool", "GlobalMaxPool", "ReduceMax", "ReduceMin", "Max", "Min"})
_INTEGERS = frozenset((*DTYPE_CLASSES["int"], "u2", "s2"))
_FAR = 64  # operators that are looked through


def code_range(facts: Facts, value: ir.Value, far: int = _FAR) -> Range | None:
    """None for a value that is not of an integer type."""
    dtype = facts.type(value).dtype
    if dtype not in _INTEGERS:
        return None
    low, high = integer_range(dtype)
    found = _known(facts, value, far)
    return (low, high) if found is None else (max(low, found[0]), min(high, found[1]))


def _known(facts: Facts, value: ir.Value, far: int) -> Range | None:
    """What the constant or the node says, if anything."""
    array = facts.array(value)
    if array is not None:
        return (int(array.min()), int(array.max())) if array.size else None
    node = value.producer()
    if node is None or far == 0:
        return None
    function = facts.model.functions.get(node.op_identifier())
    if function is not None:
        return _of_group(facts, node, function)
    return _of_operator(facts, node, far - 1) if node.domain == "" else None


def _of_operator(facts: Facts, node: ir.Node, far: int) -> Range | None:
    name = node.op_type
    first = operand(facts, node, 0)
    if first is None:
        return None
    if name in MOVES or name == "Cast" or (name == "Resize" and _is_nearest(node)):
        return code_range(facts, first, far)
    if name == "Concat" or name in EXTREMA:
        return _united([code_range(facts, v, far) for v in _data(facts, node)])
    if name == "Pad":
        return _united([code_range(facts, first, far), _one(facts, node, 2, 0)])
    if name == "Clip":
        return _clipped(facts, node, code_range(facts, first, far))
    if name in ("Add", "Sub"):
        x, y = (code_range(facts, v, far) for v in _data(facts, node))
        if x is None or y is None:
            return None
        return (x[0] + y[0], x[1] + y[1]) if name == "Add" else (x[0] - y[1], x[1] - y[0])
    return None


def _is_nearest(node: ir.Node) -> bool:
    mode = node.attributes.get("mode")
    return mode is None or mode.value == "nearest"


def _data(facts: Facts, node: ir.Node) -> list[ir.Value]:
    """Operands that are tensors of elements; for reductions the second one is axes."""
    operands = [v for v in facts.operands(node) if v is not None]
    return operands[:1] if node.op_type.startswith("Reduce") else operands


def _united(ranges: list[Range | None]) -> Range | None:
    if not ranges or any(r is None for r in ranges):
        return None
    known = [r for r in ranges if r is not None]
    return min(r[0] for r in known), max(r[1] for r in known)


def _one(facts: Facts, node: ir.Node, index: int, default: int) -> Range | None:
    value = operand(facts, node, index)
    if value is None:
        return default, default
    number = facts.scalar(value)
    return None if number is None else (int(number), int(number))


def _clipped(facts: Facts, node: ir.Node, of: Range | None) -> Range | None:
    if of is None:
        return None
    low = _one(facts, node, 1, of[0]) or of
    high = _one(facts, node, 2, of[1]) or of
    return min(max(of[0], low[0]), high[1]), min(max(of[1], low[0]), high[1])


def _of_group(facts: Facts, node: ir.Node, function: ir.Function) -> Range | None:
    """The clamp that a group states, or the entries of its table."""
    low, high = (node.attributes.get(name) for name in ("low", "high"))
    if low is not None and high is not None and isinstance(low.value, int):
        return low.value, int(high.value)
    last = function.outputs[0].producer() if len(function.outputs) == 1 else None
    if last is None or last.op_type != "Gather" or last.inputs[0] is None:
        return None
    table = dict(zip(function.inputs, node.inputs, strict=False)).get(last.inputs[0])
    array = None if table is None else facts.array(table)
    if array is None or not array.size or array.dtype.kind not in "iu":
        return None
    return int(array.min()), int(array.max())


def pads(facts: Facts, node: ir.Node) -> bool:
    """Whether a convolution may read elements beside its operand: zero points."""
    try:
        around = facts.attribute(node, "pads")
        automatic = facts.attribute(node, "auto_pad")
    except ReferenceAttribute:
        return True
    return any(around or ()) or str(automatic or "NOTSET") not in ("NOTSET", "VALID")
