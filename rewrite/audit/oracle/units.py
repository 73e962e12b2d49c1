"""What one step is for the floats of a model: the scale of the codes that they stand for.

In: an `Oracle`. Out: value name -> scale. A value has one if it is dequantized codes, moved or
selected, or goes straight into a QuantizeLinear; per-tensor constant scales only.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from rewrite.audit.oracle.movement import MOVES
from rewrite.audit.oracle.run import Oracle
from rewrite.quant.codes import values_of

# The first operand's elements, or zeros.
_KEEPS = frozenset({*MOVES, "Split", "MaxPool", "GlobalMaxPool", "Relu", "ReduceMax", "ReduceMin"})


def units(oracle: Oracle) -> dict[str, float]:
    """The size of a step, by value."""
    found: dict[ir.Value, float] = {}
    for node in oracle.nodes:
        scale = _unit(oracle, node, found)
        if scale is not None:
            found.update(dict.fromkeys(node.outputs, scale))
    for node in oracle.nodes:
        if node.op_type == "QuantizeLinear" and node.inputs[0] is not None:
            scale = _scale(oracle, node)
            if scale is not None:
                found.setdefault(node.inputs[0], scale)
    return {value.name: scale for value, scale in found.items() if value.name}


def _unit(oracle: Oracle, node: ir.Node, found: dict[ir.Value, float]) -> float | None:
    if node.op_type == "DequantizeLinear":
        return _scale(oracle, node)
    first = node.inputs[0] if node.inputs else None
    if first is None or node.domain:
        return None
    if node.op_type in _KEEPS:
        return found.get(first)
    if node.op_type == "Concat":
        scales = {found.get(value) for value in node.inputs if value is not None}
        return scales.pop() if len(scales) == 1 else None
    return None


def _scale(oracle: Oracle, node: ir.Node) -> float | None:
    value = node.inputs[1] if len(node.inputs) > 1 else None
    array = None if value is None else oracle.loaded.facts.array(value)
    if array is None or array.size == 0:
        return None
    scales = np.abs(values_of(array)).reshape(-1)
    one = float(scales[0])
    return one if one > 0 and np.isfinite(one) and np.all(scales == one) else None
