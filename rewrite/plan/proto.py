"""One operator as ONNX has it: for ONNX's own inference, function bodies and reference evaluator.

In: an `Op` without graphs. Out: a NodeProto, types that ONNX infers, the operators of its function
body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import (
    AttributeProto,
    GraphProto,
    NodeProto,
    TensorProto,
    TypeProto,
    helper,
    numpy_helper,
)

from rewrite.errors import error
from rewrite.graph.write import write_attribute
from rewrite.plan.expansions import expansion
from rewrite.plan.instance import Array, Instance, is_concrete, sizes
from rewrite.plan.program import Graph, Op, constant_of
from rewrite.schema import DTYPE_OF, DTYPES, UNKNOWN, Type

_MOST_DATA = 1 << 12  # elements of an operand whose value inference is shown


def node_of(op: Op) -> NodeProto:
    """The operator with inputs `i0`, `i1`, … and outputs `o0`, `o1`, …; absent ones empty.

    An output that the schema wants has its name even where nobody uses it.
    """
    node = NodeProto(op_type=op.name, domain=op.domain, name=op.node)
    node.input.extend("" if v is None else f"i{k}" for k, v in enumerate(op.inputs))
    schema = schema_of(op.domain, op.name, op.opset)
    for k, value in enumerate(op.outputs):
        absent = value is None and (schema is None or _is_optional(schema, k))
        node.output.append("" if absent else f"o{k}")
    for name, value in op.attributes.items():
        if isinstance(value, Graph):
            node.attribute.add(name=name, type=AttributeProto.GRAPH, g=_source(op, value))
        else:
            write_attribute(node.attribute.add(), _attribute(op, name, value))
    return node


def _source(op: Op, graph: Graph) -> GraphProto:
    """A graph inside an operator that only ONNX's own function or evaluator knows how to use."""
    if graph.source is None:
        raise error("RW804", f"{op.node}: nothing runs the graph inside of {op.domain}.{op.name}")
    return graph.source


def _is_optional(schema: Any, index: int) -> bool:
    outputs = schema.outputs
    return index < len(outputs) and outputs[index].option.name == "Optional"


def _attribute(op: Op, name: str, value: Any) -> ir.Attr:
    """An attribute of the kind that the schema says; the value alone does not tell an empty list
    of integers from one of floats."""
    kind = _kinds(op.domain, op.name, op.opset).get(name)
    if kind is not None:
        return ir.Attr(name, kind, value)
    return ir.convenience.convert_attribute(name, value)


@cache
def _kinds(domain: str, name: str, opset: int) -> dict[str, ir.AttributeType]:
    schema = schema_of(domain, name, opset)
    if schema is None:
        return {}
    return {n: ir.AttributeType(int(a.type.value)) for n, a in schema.attributes.items()}


@cache
def schema_of(domain: str, name: str, opset: int) -> Any:
    """ONNX's schema of the version in force; None where it has none."""
    try:
        return onnx.defs.get_schema(name, opset, domain)
    except onnx.defs.SchemaError:
        return None


def type_proto(type_: Type) -> TypeProto:
    """A dense tensor type."""
    assert type_.dtype is not None
    shape = None if type_.shape is None else list(type_.shape)
    return helper.make_tensor_type_proto(DTYPES[type_.dtype], shape)


def infer_by_onnx(
    op: Op, types: Sequence[Type | None], known: Callable[[int], Array | None]
) -> tuple[Type, ...] | None:
    """Output types by ONNX's inference; None where it has no schema. Raises its InferenceError."""
    schema = schema_of(op.domain, op.name, op.opset)
    if schema is None or any(isinstance(v, Graph) for v in op.attributes.values()):
        return None
    given: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for k, type_ in enumerate(types[: len(op.inputs)]):
        if type_ is None:
            continue
        given[f"i{k}"] = type_proto(type_)
        content = known(k) if is_concrete(type_) and prod(sizes(type_)) <= _MOST_DATA else None
        if content is not None and content.dtype.kind in "iuf":
            data[f"i{k}"] = numpy_helper.from_array(np.asarray(content))
    imports = [helper.make_opsetid(op.domain, op.opset)]
    found = onnx.shape_inference.infer_node_outputs(
        schema, node_of(op), given, data, opset_imports=imports
    )
    return tuple(_type_of(found.get(f"o{k}")) for k in range(len(op.outputs)))


def _type_of(proto: TypeProto | None) -> Type:
    if proto is None or not proto.HasField("tensor_type"):
        return UNKNOWN
    dtype = DTYPE_OF.get(proto.tensor_type.elem_type)
    if not proto.tensor_type.HasField("shape"):
        return Type(dtype, None)
    dims: list[int | str] = []
    for k, dim in enumerate(proto.tensor_type.shape.dim):
        dims.append(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or f"?{k}")
    return Type(dtype, tuple(dims))


def body_of(op: Op, made: Instance, fresh: Callable[[str], int], standard: int) -> Graph | None:
    """The function that the standard, or expansions.py, defines the operator by, over the op's own
    values.

    None where there is none, or not for these operands. `standard`: the opset of ai.onnx around
    it, for functions of other domains that do not say theirs.
    """
    expanded = expansion(op.domain, op.name)
    if expanded is not None:
        return _spliced(op, expanded, fresh, standard)
    schema = schema_of(op.domain, op.name, op.opset)
    if schema is None:
        return None
    if schema.has_function:
        function = schema.function_body
    elif schema.has_context_dependent_function:
        types = made.inputs[: len(op.inputs)]
        if not all(t is None or is_concrete(t) for t in types):
            return None
        given = [b"" if t is None else type_proto(t).SerializeToString() for t in types]
        text = schema.get_context_dependent_function(node_of(op).SerializeToString(), given)
        if not text:
            return None
        function = onnx.FunctionProto.FromString(text)
    else:
        return None
    return _spliced(op, function, fresh, standard if op.domain else op.opset)


def _spliced(
    op: Op, function: onnx.FunctionProto, fresh: Callable[[str], int], standard: int
) -> Graph:
    """The body's operators over the operands and results of `op`."""
    given = [*op.inputs, *([None] * (len(function.input) - len(op.inputs)))]
    numbers: dict[str, int | None] = dict(zip(function.input, given, strict=True))
    results = dict(zip(function.output, op.outputs, strict=False))
    opsets = {i.domain: i.version for i in function.opset_import}
    defaults = {a.name: ir.from_proto(a).value for a in function.attribute_proto}
    parameters = {**defaults, **op.attributes}
    made = Graph()
    ops: list[Op] = []
    for node in function.node:
        if any(attribute.HasField("g") for attribute in node.attribute):
            return Graph()  # control flow inside: left to the reference device
        inputs = tuple(numbers[name] if name else None for name in node.input)
        for name in node.output:
            found = results.get(name)
            numbers[name] = found if found is not None or not name else fresh(name)
        outputs = tuple(numbers[name] if name else None for name in node.output)
        attributes = _resolved(node, parameters)
        if node.op_type == "Constant" and not node.domain:
            array = constant_of(attributes)
            if array is not None and outputs[0] is not None:
                made.constants[outputs[0]] = array
                continue
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = opsets.get(node.domain, standard if domain == "" else op.opset)
        ops.append(Op(domain, node.op_type, opset, inputs, outputs, attributes, op.node, op.group))
    made.ops = tuple(ops)
    return made


def _resolved(node: NodeProto, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node in a function, where they are the function's own: its caller's."""
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            found[attribute.name] = ir.from_proto(attribute).value
        elif attribute.ref_attr_name in parameters:
            found[attribute.name] = parameters[attribute.ref_attr_name]
    return found
