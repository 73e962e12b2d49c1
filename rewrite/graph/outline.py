"""Nodes of a graph become a local function, and a call stands in their place.

In: `Facts`, nodes of one graph, the values that are still needed outside. Out: the call, or
`Refused`. The body holds copies of the nodes with their attributes. Constants of one element are
copied into it; everything else that the nodes use becomes an input. Bodies that are equal share
one function, so values inside have positional names.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import itemgetter

import onnx_ir as ir

from rewrite.graph import making
from rewrite.graph.edit import replace
from rewrite.graph.facts import Facts
from rewrite.graph.keys import attribute_key, tensor_key
from rewrite.graph.names import holds_graph
from rewrite.graph.nodes import PROVENANCE, Refused, discard
from rewrite.graph.versions import FUNCTIONS, require_ir
from rewrite.ops import schemas

OUTLINED = "rewrite.nodes"  # metadata of a call: the names of the nodes that went into the function


@dataclass(frozen=True, slots=True)
class Outlined:
    """A call that was made, the function that it calls, and the nodes that it replaced.

    `nodes` are those asked for, in the order of the graph; `removed` also what only they needed.
    """

    call: ir.Node
    function: ir.Function
    nodes: tuple[ir.Node, ...]
    removed: tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True)
class Enclosed:
    """A call, in no graph yet, in place of new nodes that were in none either."""

    call: ir.Node
    function: ir.Function
    key: Hashable
    nodes: tuple[ir.Node, ...]  # what went into the function

    def keep(self, facts: Facts) -> None:
        """The call has its place in a graph: the function becomes one of the model's."""
        _keep(facts, self.key, self.function)


@dataclass(frozen=True, slots=True)
class _Body:
    """What a function would be made of; `key` is equal for equal bodies."""

    nodes: tuple[ir.Node, ...]
    inputs: tuple[ir.Value, ...]
    constants: tuple[tuple[ir.Value, ir.TensorProtocol], ...]
    outputs: tuple[ir.Value, ...]
    key: Hashable


def outline(
    facts: Facts,
    graph: ir.Graph,
    nodes: Sequence[ir.Node],
    outputs: Sequence[ir.Value],
    domain: str,
    name: str,
    rule: str | None = None,
) -> Outlined | Refused:
    """Move `nodes` into a function `domain:name`, whose outputs are `outputs`."""
    ordered = sorted(nodes, key=lambda node: facts.order.label(graph, node))
    reason = _why_not(facts, graph, ordered, outputs)
    if reason is not None:
        return Refused(reason)
    body = _body(facts, graph, ordered, outputs)
    key = (domain, name, body.key)
    # The copies are made first: afterwards the nodes are no longer wired as they were.
    function = facts.outlined.get(key) or _function(facts, graph, body, domain, name)
    call = _call(facts, body, domain, function.name, rule, body.nodes)
    done = replace(facts, graph, list(zip(outputs, call.outputs, strict=True)), [call], ordered)
    if isinstance(done, Refused):
        discard([call])
        return done
    _keep(facts, key, function)
    return Outlined(call, function, body.nodes, done.finish())


def _keep(facts: Facts, key: Hashable, function: ir.Function) -> None:
    """A function that is called belongs to the model, and its body is there to be shared."""
    require_ir(facts, FUNCTIONS, "local functions")
    if key not in facts.outlined:
        facts.outlined[key] = function
        facts.model.functions[function.identifier()] = function
        facts.forget_graphs()


def enclose(
    facts: Facts,
    graph: ir.Graph,
    nodes: Sequence[ir.Node],
    output: ir.Value,
    domain: str,
    name: str,
    attributes: Sequence[ir.Attr],
    rule: str,
    matched: Sequence[ir.Node],
) -> Enclosed | Refused:
    """New nodes, operands first and in no graph yet, as the body of a function `domain:name`.

    The call has the attributes; the function declares them, and its body uses none. `matched` are
    the nodes that the call stands for.
    """
    members = frozenset(nodes)
    for node in nodes:
        reason = _why_not_body(facts, node)
        if reason is not None:
            return Refused(reason)
        for value in node.outputs:
            if facts.uses_outside(value, members):
                return Refused("a value inside of the group is used outside of it")
    body = _body(facts, graph, nodes, (output,))
    names = tuple(attribute.name for attribute in attributes)
    key = (domain, name, body.key, names)
    function = facts.outlined.get(key)
    if function is None:
        function = _function(facts, graph, body, domain, name)
        for given in names:
            function.attributes[given] = ir.Attr(given, ir.AttributeType.UNDEFINED, None)
    call = _call(facts, body, domain, function.name, rule, matched)
    for attribute in attributes:
        call.attributes.add(attribute)
    discard(nodes)
    return Enclosed(call, function, key, tuple(nodes))


def _why_not(
    facts: Facts, graph: ir.Graph, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]
) -> str | None:
    members = frozenset(nodes)
    kept = frozenset(outputs)
    if not outputs:
        return "a group needs an output"
    if any(value.producer() not in members for value in outputs):
        return "an output of the group is not computed in it"
    for node in nodes:
        reason = _why_not_node(facts, graph, node)
        if reason is not None:
            return reason
        for value in node.outputs:
            if value not in kept and facts.uses_outside(value, members):
                return f"'{value.name}' is used outside the group"
    return None


def _why_not_node(facts: Facts, graph: ir.Graph, node: ir.Node) -> str | None:
    if node._graph is not graph:
        return "the nodes of a group lie in different graphs"
    return _why_not_body(facts, node)


def _why_not_body(facts: Facts, node: ir.Node) -> str | None:
    """Why a node cannot be copied into a function."""
    for attribute in node._attributes.data.values():
        if attribute.is_ref():
            return f"'{node.name}' uses a parameter of the function around it"
    if holds_graph(node):
        return f"'{node.name}' ({node.op_type}) holds a subgraph"
    contrib = node._domain == "com.microsoft"
    if node.overload or (contrib and (node.op_type == "QLinearConcat" or None in node.inputs)):
        # Types inside functions go wrong there for such contributed operators, in 1.32.
        return f"'{node.name}' ({node.op_type}) runs in a graph, but in no function of onnxruntime"
    opset = facts.opset(node)
    if node._domain == "" and schemas.lookup("", node._op_type, opset) is None:
        return f"opset {opset} has no {node.op_type}, which a function may therefore not use"
    return None


def _body(
    facts: Facts, graph: ir.Graph, nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]
) -> _Body:
    inside = {value for node in nodes for value in node._outputs}
    index: dict[ir.Value, str] = {}
    inputs: list[ir.Value] = []
    constants: list[tuple[ir.Value, ir.TensorProtocol]] = []
    wiring: list[Hashable] = []
    held = _held_by_constant(facts, graph)
    for number, node in enumerate(nodes):
        for value in node._inputs:
            if value is None or value in inside or value in index:
                continue
            tensor = facts.constant(value)
            small = tensor is not None and set(facts.type(value).shape or ()) <= {1}
            if tensor is not None and small and facts.type(value).dtype in held:
                index[value] = f"const_{len(constants)}"
                constants.append((value, tensor))
            else:
                index[value] = f"in_{len(inputs)}"
                inputs.append(value)
        for position, value in enumerate(node._outputs):
            index[value] = f"value_{number}_{position}" if value._name else ""
        wiring.append(_shape_of(facts, node, index))
    key = (
        tuple(wiring),
        tuple(tensor_key(tensor) for _, tensor in constants),
        tuple(index[value] for value in outputs),
        len(inputs),
    )
    return _Body(tuple(nodes), tuple(inputs), tuple(constants), tuple(outputs), key)


def _held_by_constant(facts: Facts, graph: ir.Graph) -> frozenset[str]:
    """Element types that a Constant node can have in a graph (below opset 9: floats only)."""
    opset = facts.import_of(graph, "")
    schema = schemas.lookup("", "Constant", opset)
    return frozenset() if schema is None else schema.types[schema.outputs[0].type]


def _shape_of(facts: Facts, node: ir.Node, index: dict[ir.Value, str]) -> Hashable:
    """Everything about a node that its copy must have, with positional names."""
    attributes = [attribute_key(attribute) for attribute in node._attributes.data.values()]
    if len(attributes) > 1:
        attributes.sort(key=itemgetter(0))
    return (
        node._domain,
        node._op_type,
        node._overload,
        facts.opset(node),
        tuple(["" if value is None else index[value] for value in node._inputs]),
        tuple([index[value] for value in node._outputs]),
        tuple(attributes),
    )


def _call(
    facts: Facts,
    body: _Body,
    domain: str,
    name: str,
    rule: str | None,
    nodes: Sequence[ir.Node],
) -> ir.Node:
    props = {OUTLINED: ",".join([node.name or node.op_type for node in nodes])}
    if rule is not None:
        props[PROVENANCE] = rule
    title = facts.names.fresh(name)
    outputs = [ir.Value(name=facts.names.fresh(f"{title}_out")) for _ in body.outputs]
    for value, old in zip(outputs, body.outputs, strict=True):
        facts.set_type(value, facts.type(old))
    return making.node(
        domain, name, body.inputs, {}, outputs, title, version=1, metadata_props=props
    )


def _function(facts: Facts, graph: ir.Graph, body: _Body, domain: str, name: str) -> ir.Function:
    """A new function with this body, under a free name; not yet in the model."""
    functions = facts.model.functions
    free, number = name, 1
    while (domain, free, "") in functions:
        number += 1
        free = f"{name}_{number}"
    return ir.Function(domain, free, "", graph=_copy(facts, graph, body), attributes=())


def _copy(facts: Facts, graph: ir.Graph, body: _Body) -> ir.Graph:
    copies: dict[ir.Value, ir.Value] = {}
    for number, value in enumerate(body.inputs):
        copies[value] = ir.Value(name=f"in_{number}")
    made: list[ir.Node] = []
    for number, (value, tensor) in enumerate(body.constants):
        copies[value] = ir.Value(name=f"const_{number}")
        attribute = ir.AttrTensor("value", tensor)
        outputs = (copies[value],)
        made.append(ir.Node("", "Constant", (), (attribute,), outputs=outputs, name=""))
    opsets = {"": facts.import_of(graph, "")} if body.constants else {}
    for number, node in enumerate(body.nodes):
        for position, value in enumerate(node.outputs):
            copies[value] = ir.Value(name=f"value_{number}_{position}" if value.name else "")
        opsets[node.domain] = facts.opset(node)
        made.append(_copy_node(node, copies))
    return ir.Graph(
        [copies[value] for value in body.inputs],
        [copies[value] for value in body.outputs],
        nodes=made,
        opset_imports=opsets,
        name="",
    )


def _copy_node(node: ir.Node, copies: dict[ir.Value, ir.Value]) -> ir.Node:
    return ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else copies[value] for value in node.inputs],
        tuple(node.attributes.values()),
        overload=node.overload,
        outputs=[copies[value] for value in node.outputs],
        name="",
        doc_string=node.doc_string,
        metadata_props=dict(node.metadata_props),
    )
