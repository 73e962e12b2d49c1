"""New constants and new nodes, in the form of the model's opset; they are in no graph yet.

In: `Facts` and operands in the newest form. Out: values and nodes that `edit.replace` puts into a
graph, or `Refused` where the opset cannot say it. `discard` undoes `make_node`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from rewrite.graph import making, types
from rewrite.graph.facts import Facts, schema_default
from rewrite.graph.uses import release
from rewrite.ops import legacy, schemas
from rewrite.schema import AttributeKind, OpSchema

PROVENANCE = "rewrite.rule"  # metadata of a node that a rule made: the rule's name


@dataclass(frozen=True, slots=True)
class Refused:
    """An edit that was not made, and why."""

    reason: str


def new_constant(facts: Facts, value: np.ndarray | ir.TensorProtocol, hint: str) -> ir.Value:
    """A constant value, in no graph yet. Its name is `hint`, with a number where that is taken."""
    name = facts.names.fresh(hint)
    tensor = _tensor(value, name) if isinstance(value, np.ndarray) else value
    made = ir.Value(name=name, const_value=tensor)
    facts.set_type(made, types.of_tensor(tensor))
    return made


def _tensor(array: np.ndarray, name: str) -> ir.TensorProtocol:
    if array.dtype.kind in "OUS":
        items = [v if isinstance(v, bytes) else str(v).encode() for v in array.reshape(-1).tolist()]
        return ir.StringTensor(items, shape=ir.Shape(array.shape), name=name)
    return ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), name=name)


def is_pending(value: ir.Value) -> bool:
    """A constant that is in no graph yet."""
    return value._producer is None and value._graph is None and value._const_value is not None


def make_node(
    facts: Facts,
    graph: ir.Graph,
    domain: str,
    op_type: str,
    operands: Sequence[ir.Value | None],
    attributes: Mapping[str, object],
    n_outputs: int = 1,
    rule: str | None = None,
) -> ir.Node | Refused:
    """A node in the form of the opset that `graph` imports.

    `operands` are in the newest form; one that this opset carries as an attribute must be a
    constant. Attributes that are None are left out; an `ir.Attr` is taken as it is.
    """
    opset = facts.import_of(graph, domain) or (0 if domain == "" else 1)
    schema = schemas.lookup(domain, op_type, opset)
    if schema is None and schemas.versions(domain, op_type):
        return Refused(f"opset {opset} has no {op_type}")
    if schema is not None and schema.deprecated:
        return Refused(f"opset {opset} no longer has {op_type}")
    made: dict[str, ir.Attr] = {}
    for name, value in attributes.items():
        problem = _add_attribute(made, schema, domain, op_type, opset, name, value)
        if problem is not None:
            return Refused(problem)
    inputs = list(operands)
    for index, entry in legacy.operands_of(domain, op_type, opset).items():
        operand = inputs[index] if index < len(inputs) else None
        problem = _carry(facts, made, op_type, opset, index, entry.attribute, operand)
        if problem is not None:
            return Refused(problem)
        if operand is not None:
            inputs[index] = None
    while inputs and inputs[-1] is None:
        inputs.pop()
    return _node(facts, domain, op_type, inputs, made, n_outputs, opset, rule)


def _node(
    facts: Facts,
    domain: str,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: dict[str, ir.Attr],
    n_outputs: int,
    opset: int,
    rule: str | None,
) -> ir.Node:
    name = facts.names.fresh(op_type)
    return making.node(
        domain,
        op_type,
        inputs,
        attributes,
        [ir.Value(name=facts.names.fresh(f"{name}_out")) for _ in range(n_outputs)],
        name,
        version=opset,
        metadata_props=None if rule is None else {PROVENANCE: rule},
    )


def _add_attribute(
    made: dict[str, ir.Attr],
    schema: OpSchema | None,
    domain: str,
    op_type: str,
    opset: int,
    name: str,
    value: object,
) -> str | None:
    """Add one attribute in the kind that the schema wants; the reason where there is none."""
    if value is None:
        return None
    if value.__class__ is ir.Attr:
        assert isinstance(value, ir.Attr)
        made[name] = value if value.name == name else _renamed(name, value)
        plain = value.value
    else:
        kind = schema.attributes[name].kind if schema and name in schema.attributes else None
        made[name] = to_attribute(name, value, kind)
        plain = made[name].value
    if schema is None or name in schema.attributes or name in schema.legacy.values():
        return None
    del made[name]
    if plain == schema_default(domain, op_type, opset, name):
        return None  # a later version's attribute, with the value that this version means anyway
    return f"{op_type} of opset {opset} has no attribute '{name}'"


def _renamed(name: str, value: ir.Attr) -> ir.Attr:
    return ir.Attr(name, value.type, value.value, value.ref_attr_name, doc_string=value.doc_string)


def to_attribute(name: str, value: object, kind: AttributeKind | None = None) -> ir.Attr:
    """A plain value as an attribute of `kind` (None: the kind that the value looks like)."""
    kind = kind or _kind_of(value)
    type_ = ir.AttributeType[kind.upper()]
    if type_ in (ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS):
        items = np.asarray(value).reshape(-1).tolist() if not _is_text(value) else [value]
        return ir.Attr(name, type_, tuple(items))
    return ir.Attr(name, type_, value)


def _is_text(value: object) -> bool:
    return isinstance(value, (str, bytes))


def _kind_of(value: object) -> AttributeKind:
    if isinstance(value, (bool, int, np.bool_, np.integer)):
        return "int"
    if isinstance(value, (float, np.floating)):
        return "float"
    if _is_text(value):
        return "string"
    if isinstance(value, ir.Graph):
        return "graph"
    if isinstance(value, (list, tuple, np.ndarray)):
        first = value[0] if len(value) else 0
        if isinstance(first, (bool, int, np.bool_, np.integer)):
            return "ints"
        return "strings" if _is_text(first) else "floats"
    return "tensor"


def _carry(
    facts: Facts,
    made: dict[str, ir.Attr],
    op_type: str,
    opset: int,
    index: int,
    name: str,
    operand: ir.Value | None,
) -> str | None:
    """Put an operand into the attribute that this opset has for it; the reason where it cannot."""
    source = None if operand is None else facts.legacy_source(operand)
    if source is not None and source.name == name:
        made[name] = source
        return None
    array = None if operand is None else facts.array(operand)
    if operand is not None and array is None:
        return f"{op_type} of opset {opset} has '{name}' as an attribute: it must be constant"
    value = legacy.legacy_attribute("", op_type, opset, index, array)
    if value is not None:
        made[name] = to_attribute(name, value, _legacy_kind(value))
    elif operand is not None:
        return f"attribute '{name}' of {op_type} at opset {opset} cannot hold this value"
    return None


def _legacy_kind(value: legacy.AttributeValue) -> AttributeKind:
    if isinstance(value, tuple):
        return "floats" if any(isinstance(v, float) for v in value) else "ints"
    return "float" if isinstance(value, float) else "int"


def discard(nodes: Iterable[ir.Node]) -> None:
    """Take nodes that are in no graph off the values they use."""
    for node in nodes:
        release(node)
