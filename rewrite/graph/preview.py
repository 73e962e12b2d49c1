"""Operators of ai.onnx.preview that take graphs, written out as the functions they stand for.

In: a loaded model. Out: one without FlexAttention, whose scores may pass through a graph given as
an attribute; None where there is nothing to write out. ONNX builds the function for each node
from its attributes and the types of its operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx
from onnx import shape_inference

from rewrite.graph import io
from rewrite.graph.model import LoadedModel

DOMAIN = "ai.onnx.preview"
NAME = "FlexAttention"


def written_out(loaded: LoadedModel) -> LoadedModel | None:
    """The model with the operator's nodes in the main graph replaced by their functions."""
    if not any(n.domain == DOMAIN and n.op_type == NAME for n in loaded.model.graph):
        return None
    model = io.to_proto(loaded)
    inferred = shape_inference.infer_shapes(model)
    types = {v.name: v.type for v in (*inferred.graph.input, *inferred.graph.value_info)}
    for tensor in inferred.graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    version = next(i.version for i in model.opset_import if i.domain == DOMAIN)
    nodes: list[onnx.NodeProto] = []
    for number, node in enumerate(model.graph.node):
        if (node.domain, node.op_type) == (DOMAIN, NAME):
            nodes += _body(node, types, version, f"{node.name or NAME}_{number}/")
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return io.load(model)


def _body(
    node: onnx.NodeProto, types: dict[str, onnx.TypeProto], version: int, prefix: str
) -> Iterator[onnx.NodeProto]:
    """The nodes of the function over the node's own operands and results."""
    schema: Any = onnx.defs.get_schema(NAME, version, DOMAIN)
    given = [types[name].SerializeToString() if name else b"" for name in node.input]
    text = schema.get_context_dependent_function(node.SerializeToString(), given)
    function = onnx.FunctionProto.FromString(text)
    names = {"": ""}
    names.update(zip(function.input, node.input, strict=False))
    names.update(dict.fromkeys(function.input[len(node.input) :], ""))
    names.update(zip(function.output, node.output, strict=False))
    for inner in function.node:
        made = onnx.NodeProto()
        made.CopyFrom(inner)
        made.name = f"{prefix}{inner.name or inner.output[0]}"
        for values in (made.input, made.output):
            renamed = [names.setdefault(name, f"{prefix}{name}") for name in values]
            del values[:]
            values.extend(renamed)
        yield made
