"""Types of nodes: of those that were emitted, and of those matched, over any types of their
operands.

In: a node, its operands in the newest form and their types. Out: one `Type` per output. Declared
operators first (rewrite/ops); else the inference that comes with onnx; else nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, TypeProto, numpy_helper

from rewrite.engine.refused import RefusedError
from rewrite.engine.shapes import ShapeValues
from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.graph.write import write_attribute
from rewrite.ops.call import InferenceError, Symbols
from rewrite.ops.infer import infer
from rewrite.schema import DTYPE_OF, DTYPES, UNKNOWN, Dim, Type

TypeOf = Callable[[ir.Value], Type]

_MOST_CONSTANT = 1 << 16  # elements of a constant operand that onnx's inference is shown


def node_types(
    facts: Facts,
    node: ir.Node,
    operands: Sequence[ir.Value | None],
    type_of: TypeOf | None = None,
    symbols: Symbols | None = None,
) -> tuple[Type, ...]:
    """The output types of `node`; `RefusedError` where no run of it can succeed.

    `symbols`: names of sizes for the elements of integer operands, where known to be sizes.
    """
    lookup = facts.type if type_of is None else type_of
    types = [None if value is None else lookup(value) for value in operands]

    def constant(index: int) -> np.ndarray | None:
        value = operands[index] if index < len(operands) else None
        return None if value is None else facts.array(value)

    def known_sizes(index: int) -> tuple[Dim, ...] | None:
        return ShapeValues(facts).symbols(operands[index]) if index < len(operands) else None

    try:
        found = infer(
            node._domain,
            node._op_type,
            facts.opset(node),
            types,
            plain_attributes(node),
            constant,
            len(node._outputs),
            symbols=symbols or known_sizes,
        )
    except InferenceError as problem:
        raise RefusedError(f"{node.op_type} would be ill-typed: {problem}") from problem
    except ReferenceAttribute:
        return (UNKNOWN,) * len(node.outputs)
    if found is not None:
        return found
    return _by_onnx(facts, node, types)


def plain_attributes(node: ir.Node) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name, attribute in node._attributes.data.items():
        if attribute.is_ref():
            raise ReferenceAttribute(name)
        plain[name] = attribute.value
    return plain


def _by_onnx(facts: Facts, node: ir.Node, types: Sequence[Type | None]) -> tuple[Type, ...]:
    """onnx's own inference for an operator that it has a schema of."""
    nothing = (UNKNOWN,) * len(node.outputs)
    opset = facts.opset(node)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return nothing
    if any(
        a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) or a.is_ref()
        for a in node.attributes.values()
    ):
        return nothing
    known: dict[str, TypeProto] = {}
    data: dict[str, TensorProto] = {}
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        type_ = types[index] if index < len(types) else None
        if type_ is None or type_.dtype is None:
            return nothing
        known[f"i{index}"] = _to_proto(type_)
        tensor = facts.constant(value)
        array = None if tensor is None or tensor.size > _MOST_CONSTANT else facts.array(value)
        if array is not None and array.dtype.kind in "iuf":
            data[f"i{index}"] = numpy_helper.from_array(np.asarray(array))
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            to_node(node),
            known,
            data,
            opset_imports=[onnx.helper.make_opsetid(node.domain, opset)],
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as problem:
        reason = str(problem).splitlines()[0]
        raise RefusedError(f"{node.op_type} would be ill-typed: {reason}") from problem
    return tuple(_from_proto(found.get(f"o{i}")) for i in range(len(node.outputs)))


def to_node(node: ir.Node) -> onnx.NodeProto:
    """The node alone: inputs `i0`, `i1`, ... where present, outputs `o0`, `o1`, ..."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
    proto.input.extend("" if v is None else f"i{i}" for i, v in enumerate(node.inputs))
    proto.output.extend(f"o{i}" for i in range(len(node.outputs)))
    for attribute in node.attributes.values():
        write_attribute(proto.attribute.add(), attribute)
    return proto


def _to_proto(type_: Type) -> TypeProto:
    proto = TypeProto()
    proto.tensor_type.elem_type = DTYPES[type_.dtype] if type_.dtype else 0
    if type_.shape is None:
        return proto
    shape = proto.tensor_type.shape
    for dim in type_.shape:
        entry = shape.dim.add()
        if isinstance(dim, int):
            entry.dim_value = dim
        else:
            entry.dim_param = dim
    return proto


def _from_proto(proto: TypeProto | None) -> Type:
    if proto is None or not proto.HasField("tensor_type"):
        return UNKNOWN
    tensor = proto.tensor_type
    dtype = DTYPE_OF.get(tensor.elem_type)
    if not tensor.HasField("shape"):
        return Type(dtype, None)
    dims: list[int | str] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            dims.append(int(dim.dim_value))
        elif dim.dim_param:
            dims.append(dim.dim_param)
        else:
            return Type(dtype, None)  # a size nobody names cannot be compared
    return Type(dtype, tuple(dims))
