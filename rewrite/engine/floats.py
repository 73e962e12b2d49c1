"""Operators that still compute with floats in the quantized part of a model, and why.

In: a rewritten model, what was refused. Out: one record for each such node. The quantized part is
what lies behind some codes and before others: nodes with codes above and codes below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.engine.journal import Refused
from rewrite.graph.facts import Facts
from rewrite.match.structure import operator_words
from rewrite.schema import DTYPE_CLASSES

CODES = ("u8", "s8", "u16", "s16", "u4", "s4", "u2", "s2")
PAIR = ("QuantizeLinear", "DequantizeLinear")
_ALWAYS = ("DynamicQuantizeLinear",)


@dataclass(frozen=True, slots=True)
class FloatLeft:
    """A node by its first output, its operator, and what kept it from becoming an integer one."""

    node: str
    operator: str
    reason: str


def floats_left(facts: Facts, refused: Iterable[Refused] = ()) -> tuple[FloatLeft, ...]:
    """Float nodes of the main graph between the first codes and the last, in graph order."""
    nodes = list(facts.model.graph)
    inside = _behind(facts, nodes) & _before(facts, nodes)
    reasons = {record.node: f"{record.rule}: {record.reason}" for record in refused}
    return tuple(
        FloatLeft(str(node.outputs[0].name), _words(node), _why(facts, node, reasons))
        for node in nodes
        if node in inside and _computes_floats(facts, node)
    )


def _codes(facts: Facts, value: ir.Value | None) -> bool:
    return value is not None and facts.type(value).dtype in CODES


def _float(facts: Facts, value: ir.Value | None) -> bool:
    return value is not None and facts.type(value).dtype in DTYPE_CLASSES["f"]


def _behind(facts: Facts, nodes: list[ir.Node]) -> set[ir.Node]:
    """Nodes that read codes made by a node, or what comes of them."""
    reached: set[ir.Node] = set()
    for node in nodes:
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if producer is None:
                continue
            if producer in reached or _codes(facts, value) or producer.op_type in _ALWAYS:
                reached.add(node)
                break
    return reached


def _before(facts: Facts, nodes: list[ir.Node]) -> set[ir.Node]:
    """Nodes from which codes are made further on."""
    reached: set[ir.Node] = set()
    for node in reversed(nodes):
        for value in node.outputs:
            users = [use.node for use in value.uses()]
            if any(u in reached or u.op_type == PAIR[0] for u in users) or any(
                _codes(facts, out) for u in users for out in u.outputs
            ):
                reached.add(node)
                break
    return reached


def _computes_floats(facts: Facts, node: ir.Node) -> bool:
    if node.op_type in PAIR or node.op_type == "Constant":
        return False
    made = any(_float(facts, value) for value in node.outputs)
    read = any(_float(facts, v) and facts.constant(v) is None for v in node.inputs if v is not None)
    return made or read


def _words(node: ir.Node) -> str:
    return operator_words((node.domain, node.op_type))


def _why(facts: Facts, node: ir.Node, reasons: Mapping[str, str]) -> str:
    users = [use.node for value in node.outputs for use in value.uses()]
    names = [value.name for value in node.outputs]
    names += [out.name for user in users if user.op_type == PAIR[0] for out in user.outputs]
    for name in names:
        if str(name) in reasons:
            return reasons[str(name)]
    for value in node.inputs:
        if value is None or not _float(facts, value) or facts.constant(value) is not None:
            continue
        producer = value.producer()
        if producer is None or producer.op_type != PAIR[1]:
            return f"its operand '{value.name}' is not quantized"
    if not any(user.op_type == PAIR[0] for user in users):
        return "its result is not quantized"
    return f"no rule has an integer form for {_words(node)}"
