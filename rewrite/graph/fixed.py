"""Operands that are the same in every run, though they are not stored as they are used.

In: facts, a value. Out: whether it is a constant, or computed from constants by operators that
bring weights into the form in which they are used: QDQ models store codes, and whoever compiles
such a model has the real numbers before it runs. Folding leaves these nodes as they are.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.graph.facts import Facts

_FORMING = frozenset(
    {
        ("", "DequantizeLinear"), ("com.microsoft", "DequantizeLinear"),
        ("", "QuantizeLinear"), ("com.microsoft", "QuantizeLinear"),
        ("", "Cast"), ("", "Identity"), ("", "Reshape"), ("", "Squeeze"), ("", "Transpose"),
        ("", "Unsqueeze"),
    }
)  # fmt: skip
_MOST_NODES = 64


def is_fixed(facts: Facts, value: ir.Value) -> bool:
    """Whether the value is known before the model runs."""
    if facts.constant(value) is not None:
        return True
    waiting, seen = [value], {value}
    while waiting:
        node = waiting.pop().producer()
        if node is None or (node.domain, node.op_type) not in _FORMING or len(seen) > _MOST_NODES:
            return False
        for operand in node.inputs:
            if operand is None or operand in seen or facts.constant(operand) is not None:
                continue
            seen.add(operand)
            waiting.append(operand)
    return True
