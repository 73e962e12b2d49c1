"""Types that ONNX's own shape inference finds for a model.

In: the bytes of a model without large tensor data, and the onnx-ir model of the same nodes. Out:
`Inferred`, asked by value. Nothing of it goes into the model that is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import onnx
import onnx_ir as ir
from onnx import helper
from onnx.onnx_cpp2py_export import shape_inference

from rewrite.graph.names import subgraphs

Table = Mapping[str, onnx.ValueInfoProto]


class Inferred:
    """Inferred types by graph and name; converted when asked for."""

    def __init__(self, tables: Mapping[ir.Graph, Table]) -> None:
        self._tables = tables

    def type(self, value: ir.Value) -> onnx.TypeProto | None:
        """The inferred type; None where inference says nothing about the value."""
        producer = value._producer
        graph = value.graph if producer is None else producer._graph
        table = None if graph is None else self._tables.get(graph)
        info = None if table is None else table.get(value._name or "")
        return None if info is None else info.type


NOTHING = Inferred({})
MISFIT = "types do not fit"


# Operators whose inference in the installed onnx takes the type of an input for granted and ends
# the process where there is none (found by running every schema on inputs without a type).
FRAGILE = frozenset({"EyeLike", "RegexFullMatch", "DictVectorizer", "LabelEncoder", "TreeEnsemble"})
# Operators that are fragile only with certain operands or attributes (see `_is_fragile`).
_SOMETIMES_FRAGILE = frozenset({"Einsum", "Expand", "Split"})
_HIDDEN = "rewrite.unknown"
LONGEST_SHAPE = 1 << 16  # Expand makes as many dimensions as its shape operand is long


def infer(
    model: ir.Model, data: bytes, nested: bool, op_types: frozenset[str], notes: list[str]
) -> Inferred:
    """Run shape inference. A model whose types do not fit gets a note, and the types that do."""
    data = _without_fragile(data, op_types)
    result = _run(data, True, strict=True)
    if isinstance(result, bytes):
        return Inferred(_tables(model, result, nested))
    result = _run(data, True)
    if isinstance(result, str):
        notes.append(f"{MISFIT}: {result}")
        result = _run(data, False)
    if isinstance(result, str):
        notes.append(f"no types inferred: {result}")
        return NOTHING
    tables = _tables(model, result, nested)
    bare = _run(_without_declarations(data), False)
    if isinstance(bare, bytes):
        _correct(tables, _tables(model, bare, nested), notes)
    return Inferred(tables)


def without_defaults(data: bytes, pinned: frozenset[str]) -> bytes:
    """The model without the values of initializers that callers may replace, or training does.

    Inference computes shapes with the values of initializers: from a default it would find a size
    that holds for that default alone. `pinned`: initializers that are not the model's to keep.
    """
    proto = onnx.ModelProto.FromString(data)
    main, *others = _graphs_of(proto)
    trained = [tensor for tensor in proto.graph.initializer if tensor.name in pinned]
    _drop(proto.graph, pinned)
    listed = {value.name for value in proto.graph.input}
    for tensor in trained:
        if tensor.name not in listed:
            kind, dims = tensor.data_type, list(tensor.dims)
            proto.graph.input.append(helper.make_tensor_value_info(tensor.name, kind, dims))
    for graph in others if proto.ir_version < 4 else (main, *others):
        if isinstance(graph, onnx.GraphProto):
            _drop(graph, frozenset(value.name for value in graph.input))
    return bytes(proto.SerializeToString())


def _drop(graph: onnx.GraphProto, names: frozenset[str]) -> None:
    """Initializers of these names go."""
    kept = [tensor for tensor in graph.initializer if tensor.name not in names]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _tables(model: ir.Model, result: bytes, nested: bool) -> dict[ir.Graph, Table]:
    tables: dict[ir.Graph, Table] = {}
    _collect(model.graph, onnx.ModelProto.FromString(result).graph, nested, tables)
    return tables


def _without_declarations(data: bytes) -> bytes:
    """The model without the types of values between, and without the shapes of outputs."""
    proto = onnx.ModelProto.FromString(data)
    for graph in _graphs_of(proto):
        if isinstance(graph, onnx.GraphProto):
            graph.ClearField("value_info")
            for output in graph.output:
                output.type.tensor_type.ClearField("shape")
    return bytes(proto.SerializeToString())


def _correct(
    tables: dict[ir.Graph, Table], bare: Mapping[ir.Graph, Table], notes: list[str]
) -> None:
    """Where a model declares a shape that its own nodes contradict, the nodes are right.

    What else depends on such a declaration is not known, so that then no shape is taken from one
    where the nodes say it too.
    """
    shaped = {g: {n: i for n, i in t.items() if _dims(i) is not None} for g, t in bare.items()}
    wrong = [
        f"'{name}'"
        for graph, table in tables.items()
        for name, info in shaped.get(graph, {}).items()
        if name in table and _contradict(table[name], info)
    ]
    if not wrong:
        return
    for graph, table in tables.items():
        tables[graph] = {**table, **shaped.get(graph, {})}
    names = ", ".join(wrong[:3]) + (", ..." if len(wrong) > 3 else "")
    notes.append(f"declared shapes that the nodes contradict are not used: {names}")


def _dims(info: onnx.ValueInfoProto) -> list[int | None] | None:
    """The sizes of a tensor, None where one is not known; None where its shape is not known."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]


def _contradict(a: onnx.ValueInfoProto, b: onnx.ValueInfoProto) -> bool:
    one, other = _dims(a), _dims(b)
    if one is None or other is None:
        return False
    if len(one) != len(other):
        return True
    return any(m != n for m, n in zip(one, other, strict=True) if m is not None and n is not None)


def complaint(data: bytes, op_types: frozenset[str]) -> str | None:
    """What shape inference says against the types of a model."""
    result = _run(_without_fragile(data, op_types), True)
    return result if isinstance(result, str) else None


def _run(data: bytes, check_types: bool, strict: bool = False) -> bytes | str:
    """The model with types, or the first line of what is wrong."""
    # Data propagation makes a message for each element of every 1-D tensor: gigabytes for some.
    data_propagation = False
    try:
        return bytes(shape_inference.infer_shapes(data, check_types, strict, data_propagation))
    except (shape_inference.InferenceError, RuntimeError, ValueError) as failure:
        return str(failure).splitlines()[0]


def _without_fragile(data: bytes, op_types: frozenset[str]) -> bytes:
    """The model with fragile nodes in a domain of which nothing is known."""
    if not op_types & (FRAGILE | _SOMETIMES_FRAGILE):
        return data
    proto = onnx.ModelProto.FromString(data)
    changed = False
    for graph in _graphs_of(proto):
        long = _long_vectors(graph) if isinstance(graph, onnx.GraphProto) else frozenset()
        for node in graph.node:
            if _is_fragile(node, long):
                node.domain = _HIDDEN
                changed = True
    for importer in (proto, *proto.functions):
        importer.opset_import.add(domain=_HIDDEN, version=1)
    return bytes(proto.SerializeToString()) if changed else data


def _graphs_of(proto: onnx.ModelProto) -> list[onnx.GraphProto | onnx.FunctionProto]:
    graphs: list[onnx.GraphProto | onnx.FunctionProto] = [proto.graph, *proto.functions]
    for graph in graphs:
        for node in graph.node:
            for attribute in node.attribute:
                graphs.extend(attribute.graphs)
                if attribute.type == onnx.AttributeProto.GRAPH:
                    graphs.append(attribute.g)
    return graphs


def _is_fragile(node: onnx.NodeProto, long: frozenset[str]) -> bool:
    if node.op_type == "Expand":
        return bool(long & set(node.input))
    if node.op_type == "Split":  # more outputs than `num_outputs` are written past the end
        return any(a.name == "num_outputs" and a.i != len(node.output) for a in node.attribute)
    if node.op_type == "Einsum":  # a second ellipsis in a term is looked for without end
        equations = (a.s for a in node.attribute if a.name == "equation")
        return any(term.count(b"...") > 1 for e in equations for term in re.split(b",|->", e))
    return node.op_type in FRAGILE


def _long_vectors(graph: onnx.GraphProto) -> frozenset[str]:
    """Names of vectors declared with more elements than a tensor has dimensions."""
    infos = (*graph.input, *graph.value_info)
    shapes = [(i.name, [d.dim_value for d in i.type.tensor_type.shape.dim]) for i in infos]
    shapes += [(tensor.name, list(tensor.dims)) for tensor in graph.initializer]
    return frozenset(n for n, dims in shapes if len(dims) == 1 and dims[0] > LONGEST_SHAPE)


def _collect(
    graph: ir.Graph, proto: onnx.GraphProto, nested: bool, tables: dict[ir.Graph, Table]
) -> None:
    pending = [(graph, proto)]
    for current, of in pending:
        tables[current] = {info.name: info for info in (*of.value_info, *of.input, *of.output)}
        if not nested:
            continue
        for node, node_proto in zip(current, of.node, strict=True):
            inner = [
                g
                for a in node_proto.attribute
                for g in ((a.g,) if a.type == onnx.AttributeProto.GRAPH else a.graphs)
            ]
            pending.extend(zip(subgraphs(node), inner, strict=True))
