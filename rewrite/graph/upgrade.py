"""Models of opsets before 7, which nothing here reads, as models of opset 7.

In: a model as `io.load` takes it. Out: a ModelProto that means the same, None where it is not of
such an opset or onnx's converter does not take it. Running a model asks for this, rewriting does
not: the names and nodes of what comes out are not those of what went in.
"""

from __future__ import annotations

import os

import onnx
import onnx_ir as ir
from onnx import version_converter

OLDEST = 7  # what checks.py accepts

Source = str | os.PathLike[str] | onnx.ModelProto | ir.Model


def upgraded(source: Source) -> onnx.ModelProto | None:
    """The model at opset 7, where it is older and can be raised."""
    proto = _proto(source)
    if proto is None or not any(
        entry.domain in ("", "ai.onnx") and 1 <= entry.version < OLDEST
        for entry in proto.opset_import
    ):
        return None
    inputs = {value.name for value in proto.graph.input}
    try:
        found = version_converter.convert_version(_declared(proto, inputs), OLDEST)
    except (version_converter.ConvertError, RuntimeError, ValueError, TypeError):
        return None  # an operator without an adapter
    for value in [v for v in found.graph.input if v.name not in inputs]:
        found.graph.input.remove(value)
    _slopes_per_channel(found)
    return found


def _declared(proto: onnx.ModelProto, inputs: set[str]) -> onnx.ModelProto:
    """All initializers are inputs, too, as models had it before IR version 4: the converter knows
    no others."""
    missing = [t for t in proto.graph.initializer if t.name not in inputs]
    if not missing:
        return proto
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    for tensor in missing:
        found.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    return found


def _slopes_per_channel(proto: onnx.ModelProto) -> None:
    """PRelu's slope was one per channel, and is broadcast from opset 7 on, which the converter
    leaves to others: a vector gets the dimensions behind that of the channels."""
    ranks = _ranks(proto)
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    for number, node in enumerate(nodes):
        rank = ranks.get(node.input[0], 0) if node.op_type == "PRelu" else 0
        if rank > 2 and ranks.get(node.input[1]) == 1:
            spread = f"{node.input[1]}_per_channel_{number}"
            axes = list(range(1, rank - 1))
            made = onnx.helper.make_node("Unsqueeze", [node.input[1]], [spread], axes=axes)
            proto.graph.node.append(made)
            node.input[1] = spread
        proto.graph.node.append(node)


def _ranks(proto: onnx.ModelProto) -> dict[str, int]:
    """The ranks of values of the main graph, where inference finds them."""
    graph = onnx.shape_inference.infer_shapes(proto).graph
    found = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor_type = value.type.tensor_type
        if tensor_type.HasField("shape"):
            found[value.name] = len(tensor_type.shape.dim)
    return found


def _proto(source: Source) -> onnx.ModelProto | None:
    if isinstance(source, onnx.ModelProto):
        return source
    if isinstance(source, ir.Model):
        return None  # onnx-ir has converted or refused it already
    return onnx.load(os.fspath(source))
