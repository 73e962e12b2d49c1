"""Operands: in another order, absent, present, named twice; outputs that were not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import onnx

from rewrite.audit.instances.draft import Draft
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation
from rewrite.audit.instances.variations.opsets import opset_of
from rewrite.ops import registry, schemas


@variation("order of operands")
def order(draft: Draft, _: Hints) -> Iterator[Change]:
    """Operands of commutative operators exchanged; of others too, which is another model."""
    commutes = registry.commutative()
    nodes = draft.nodes
    ordered = sorted(range(len(nodes)), key=lambda i: _key(nodes[i]) not in commutes)
    for i in ordered:
        if len(nodes[i].input) == 2 and nodes[i].input[0] != nodes[i].input[1]:
            label = f"operands of {nodes[i].op_type} exchanged"
            yield Change(label, partial(_swap, index=i))


@variation("absent operand")
def absent(draft: Draft, _: Hints) -> Iterator[Change]:
    """An optional operand is not given."""
    for i, node in enumerate(draft.nodes):
        schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
        if schema is None:
            continue
        for place, operand in enumerate(schema.inputs[: len(node.input)]):
            if operand.option == "optional" and node.input[place]:
                label = f"{node.op_type} without {operand.name}"
                yield Change(label, partial(_leave_out, index=i, place=place))


@variation("associated otherwise")
def associated(draft: Draft, _: Hints) -> Iterator[Change]:
    """(a b) c becomes a (b c)."""
    nodes = draft.nodes
    for i, node in enumerate(nodes):
        if node.op_type not in ("Mul", "Add") or len(node.input) != 2:
            continue
        for j, inner in enumerate(nodes):
            if inner.op_type == node.op_type and inner.output[0] in node.input and i != j:
                label = f"{node.op_type} associated otherwise"
                yield Change(label, partial(_associate, outer=i, inner=j))


@variation("further output")
def further(draft: Draft, _: Hints) -> Iterator[Change]:
    """An output of a node that was not asked for is one of the graph."""
    for i, node in enumerate(draft.nodes):
        schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
        if schema is not None and len(schema.outputs) > len(node.output):
            label = f"{node.op_type} also gives {schema.outputs[len(node.output)].name}"
            yield Change(label, partial(_ask, index=i))


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return ("" if node.domain == "ai.onnx" else node.domain, node.op_type)


def _swap(draft: Draft, index: int) -> None:
    node = draft.graph.node[index]
    node.input[:] = [node.input[1], node.input[0]]


def _leave_out(draft: Draft, index: int, place: int) -> None:
    node = draft.graph.node[index]
    node.input[place] = ""
    while node.input and not node.input[-1]:
        node.input.pop()


def _associate(draft: Draft, outer: int, inner: int) -> bool:
    top, below = draft.graph.node[outer], draft.graph.node[inner]
    if len(below.input) != 2 or len(draft.users(below.output[0])) != 1:
        return False
    place = 0 if top.input[0] == below.output[0] else 1
    a, b, c = below.input[0], below.input[1], top.input[1 - place]
    copy = onnx.NodeProto()
    copy.CopyFrom(below)
    copy.input[:] = [b, c]
    top.input[:] = [a, below.output[0]]
    draft.graph.node.remove(below)
    position = list(draft.graph.node).index(top)
    draft.graph.node.insert(position, copy)
    return True


def _ask(draft: Draft, index: int) -> None:
    node = draft.graph.node[index]
    made = draft.fresh("further")
    node.output.append(made)
    draft.graph.output.append(onnx.ValueInfoProto(name=made))
