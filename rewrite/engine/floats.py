"""Operators that still compute with floats in the quantized part of a model, and why.

In: a rewritten model, what was refused. Out: one record for each such node. The quantized part is
what lies behind some codes and before others: nodes with computed codes above and codes below them.
What makes or ends codes is no such node, nor what only asks for a shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.engine.journal import Refused
from rewrite.engine.ledger import CLASSES
from rewrite.engine.quantized import NAMES, PAIR
from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of, uses_of
from rewrite.match.structure import operator_words
from rewrite.ops import registry
from rewrite.schema import DTYPE_CLASSES
from rewrite.target.target import Target

CODES = ("u8", "s8", "u16", "s16", "u4", "s4", "u2", "s2")
DYNAMIC = "DynamicQuantizeLinear"
WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_FROM_12 = ("Clip", "Max", "MaxPool", "Min", "ReduceMax", "ReduceMin")  # with codes of 8 bits
_ASKS = ("Shape", "Size")  # of the tensor, and not of its numbers


@dataclass(frozen=True, slots=True)
class FloatLeft:
    """A node by its first output, its operator, and what kept it from becoming an integer one."""

    node: str
    operator: str
    reason: str


def floats_left(
    facts: Facts,
    refused: Iterable[Refused] = (),
    target: Target | None = None,
    limit: str = CLASSES[-1],
) -> tuple[FloatLeft, ...]:
    """Float nodes between the first codes and the last of the main graph, and of each graph inside
    it, in graph order. `limit`: the class of exactness that rules had to keep to."""
    reasons = {record.node: f"{record.rule}: {record.reason}" for record in refused}
    main, found = facts.model.graph, list[FloatLeft]()
    for graph in facts.graphs():
        if graph is not main and facts.root(graph) is not main:
            continue
        nodes = nodes_of(graph)
        behind, before = _behind(facts, nodes), _before(facts, nodes)
        found += [
            FloatLeft(
                str(node.outputs[0].name),
                _words(node),
                _why(facts, node, reasons, target, limit),
            )
            for node in nodes
            if node in behind and node in before and _computes_floats(facts, node)
        ]
    return tuple(found)


def _codes(facts: Facts, value: ir.Value | None) -> bool:
    return value is not None and facts.type(value).dtype in CODES


def _float(facts: Facts, value: ir.Value | None) -> bool:
    return value is not None and facts.type(value).dtype in DTYPE_CLASSES["f"]


def _behind(facts: Facts, nodes: list[ir.Node]) -> set[ir.Node]:
    """Nodes that read computed codes, or what comes of them. Integers that are given are codes
    where a quantized operator reads them."""
    reached: set[ir.Node] = set()
    for node in nodes:
        for value in node.inputs:
            if value is None or facts.constant(value) is not None:
                continue
            producer = value.producer()
            if producer is None:
                found = node.op_type in NAMES and _codes(facts, value)
            else:
                found = producer.op_type not in _ASKS and (
                    producer in reached or _codes(facts, value)
                )
            if found:
                reached.add(node)
                break
    return reached


def _before(facts: Facts, nodes: list[ir.Node]) -> set[ir.Node]:
    """Nodes from which codes are made further on."""
    reached: set[ir.Node] = set()
    for node in reversed(nodes):
        for value in node.outputs:
            users = [use.node for use in uses_of(value)]
            if any(u in reached or u.op_type in (PAIR[0], DYNAMIC) for u in users) or any(
                _codes(facts, out) for u in users for out in u.outputs
            ):
                reached.add(node)
                break
    return reached


def _computes_floats(facts: Facts, node: ir.Node) -> bool:
    if node.op_type in (*PAIR, *_ASKS, DYNAMIC, "Constant"):
        return False
    made = any(_float(facts, value) for value in node.outputs)
    read = any(_float(facts, v) and facts.constant(v) is None for v in node.inputs if v is not None)
    return made or read


def _words(node: ir.Node) -> str:
    return operator_words((node.domain, node.op_type))


def _float_constant(facts: Facts, node: ir.Node) -> bool:
    """Whether the second operand is a constant of floats."""
    weights = node.inputs[1]
    return _float(facts, weights) and weights is not None and facts.constant(weights) is not None


def _of_one_value(facts: Facts, node: ir.Node) -> bool:
    """Whether each element of the result is a function of one element of one operand."""
    known = registry.find(node.domain, node.op_type)
    given = [v for v in node.inputs if v is not None and facts.constant(v) is None]
    return known is not None and known.pointwise and len(set(given)) == 1


def _is_explicit(target: Target) -> bool:
    """Whether the target takes quantized operators as floats between the two of the pair."""
    return bool(target.dtypes) and not target.groups and target.requantize is None


def _why(
    facts: Facts,
    node: ir.Node,
    reasons: Mapping[str, str],
    target: Target | None,
    limit: str,
) -> str:
    if target is not None and _is_explicit(target) and target.has(node.domain, node.op_type):
        return "the target's compiler looks for it between DequantizeLinear and QuantizeLinear"
    users = [use.node for value in node.outputs for use in value.uses()]
    names = [value.name for value in node.outputs]
    names += [out.name for user in users if user.op_type == PAIR[0] for out in user.outputs]
    for name in names:
        if str(name) in reasons:
            return reasons[str(name)]
    if node.op_type in _FROM_12 and node.domain == "" and facts.opset(node) < 12:
        return f"{node.op_type} takes no codes before opset 12"
    for value in node.inputs:
        if value is None or not _float(facts, value) or facts.constant(value) is not None:
            continue
        producer = value.producer()
        if producer is None or producer.op_type not in (*PAIR, DYNAMIC):
            of = "an input" if producer is None else f"the result of {_words(producer)}"
            return f"an operand is {of}, not codes"
        if producer.op_type == DYNAMIC:
            return "a scale is known only when the model runs"
    if node.op_type in WEIGHTED and _float_constant(facts, node):
        return "its weights are not quantized"
    if not any(user.op_type in (PAIR[0], DYNAMIC) for user in users):
        return "its result is not quantized"
    if target is not None and target.table(8) is None and _of_one_value(facts, node):
        return "the target has no tables for functions of codes"
    rule = "rule" if limit == CLASSES[-1] else f"rule of class {limit}"
    return f"no {rule} has an integer form for {_words(node)}"
