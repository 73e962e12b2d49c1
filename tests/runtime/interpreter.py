"""A model run node by node on the reference device: no plan, no kernels, no rewriting.

In: a ModelProto, feeds. Out: the outputs of the graph. What a session computes natively is held
against it where no other runtime has the operator, and the standard suite shows that the reference
device alone is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rewrite.runtime.reference import run_node
from rewrite.runtime.strings import to_text

Values = dict[str, Any]


class Interpreter:
    """`run` takes arrays by name, or in the order of the inputs that have no initializer."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.opsets = _opsets(model.opset_import)
        self.ran: list[tuple[str, str]] = []

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        values: Values = {name: to_text(value) for name, value in feeds.items()}
        return self._graph(self.model.graph, values, self.opsets)

    def _graph(self, graph: onnx.GraphProto, values: Values, opsets: Mapping[str, int]) -> list:
        for tensor in graph.initializer:
            values.setdefault(tensor.name, to_text(numpy_helper.to_array(tensor)))
        for sparse in graph.sparse_initializer:
            values.setdefault(sparse.values.name, _dense(sparse))
        for node in graph.node:
            self._node(node, values, opsets, {})
        return [values[output.name] for output in graph.output]

    def _node(
        self,
        node: onnx.NodeProto,
        values: Values,
        opsets: Mapping[str, int],
        given: Mapping[str, onnx.AttributeProto],
    ) -> None:
        node = _bound(node, given)
        inputs = [values[name] if name else None for name in node.input]
        if node.domain in ("", "ai.onnx") and node.op_type in ("If", "Loop", "Scan"):
            outputs = self._control(node, inputs, values, opsets)
        elif (node.domain, node.op_type) in self.functions:
            outputs = self._call(self.functions[node.domain, node.op_type], node, inputs)
        else:
            self.ran.append((node.domain, node.op_type))
            opset = opsets[node.domain if node.domain != "ai.onnx" else ""]
            outputs = run_node(node, opset, plain(node), inputs)
        values.update(
            (name, value) for name, value in zip(node.output, outputs, strict=False) if name
        )

    def _call(
        self, function: onnx.FunctionProto, node: onnx.NodeProto, inputs: Sequence[Any]
    ) -> list[Any]:
        given = {a.name: a for a in function.attribute_proto}
        given.update((a.name, a) for a in node.attribute)
        values: Values = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        for inner in function.node:
            self._node(inner, values, _opsets(function.opset_import), given)
        return [values[name] for name in function.output]

    # --- control flow

    def _control(
        self,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        values: Values,
        opsets: Mapping[str, int],
    ) -> list[Any]:
        graphs = {a.name: a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH}

        def body(graph: onnx.GraphProto, arguments: Sequence[Any]) -> list[Any]:
            scope = {**values, **{v.name: x for v, x in zip(graph.input, arguments, strict=False)}}
            return self._graph(graph, scope, opsets)

        if node.op_type == "If":
            branch = "then_branch" if bool(np.asarray(inputs[0]).reshape(())) else "else_branch"
            return body(graphs[branch], ())
        if node.op_type == "Loop":
            return _loop(node, inputs, lambda given: body(graphs["body"], given))
        old = opsets[""] < 9
        scan = _scan_batched if old else _scan
        return scan(node, inputs, lambda given: body(graphs["body"], given))


def _loop(node: onnx.NodeProto, inputs: Sequence[Any], body: Any) -> list[Any]:
    most, go, carried = inputs[0], inputs[1], list(inputs[2:])
    rows: list[list[Any]] = [[] for _ in range(len(node.output) - len(carried))]
    step = 0
    going = True if go is None else bool(np.asarray(go).reshape(()))
    while going and (most is None or step < int(np.asarray(most).reshape(()))):
        found = body([np.asarray(step, np.int64), np.asarray(True), *carried])
        going = bool(np.asarray(found[0]).reshape(()))
        carried = found[1 : 1 + len(carried)]
        for row, value in zip(rows, found[1 + len(carried) :], strict=False):
            row.append(value)
        step += 1
    stacked = [np.stack(row) if row else _no_rows(node, k) for k, row in enumerate(rows)]
    return [*carried, *stacked]


def _no_rows(node: onnx.NodeProto, index: int) -> np.ndarray:
    """What a loop of no steps stacks: the declared element type and sizes of the body's output."""
    graph = next(a.g for a in node.attribute if a.name == "body")
    outputs = graph.output[len(graph.output) - (len(node.output) - len(node.input) + 2) :]
    tensor = outputs[index].type.tensor_type
    sizes = [d.dim_value for d in tensor.shape.dim]
    return np.zeros([0, *sizes], helper.tensor_dtype_to_np_dtype(tensor.elem_type or 1))


def _scan(node: onnx.NodeProto, inputs: Sequence[Any], body: Any) -> list[Any]:
    attributes = plain(node)
    count = attributes["num_scan_inputs"]
    n_states = len(inputs) - count
    states, scanned = list(inputs[:n_states]), inputs[n_states:]
    axes = attributes.get("scan_input_axes", [0] * count)
    backwards = attributes.get("scan_input_directions", [0] * count)
    moved = [np.moveaxis(x, a, 0)[::-1] if back else np.moveaxis(x, a, 0)
             for x, a, back in zip(scanned, axes, backwards, strict=False)]  # fmt: skip
    rows: list[list[Any]] = [[] for _ in range(len(node.output) - n_states)]
    for step in range(len(moved[0])):
        found = body([*states, *(x[step] for x in moved)])
        states = found[:n_states]
        for row, value in zip(rows, found[n_states:], strict=False):
            row.append(value)
    out_axes = attributes.get("scan_output_axes", [0] * len(rows))
    out_back = attributes.get("scan_output_directions", [0] * len(rows))
    stacked = [np.stack(row[::-1] if back else row, a)
               for row, a, back in zip(rows, out_axes, out_back, strict=False)]  # fmt: skip
    return [*states, *stacked]


def _scan_batched(node: onnx.NodeProto, inputs: Sequence[Any], body: Any) -> list[Any]:
    """Scan of opset 8: a leading operand of lengths (absent: all), and a batch dimension."""
    lengths, operands = inputs[0], inputs[1:]
    outer = onnx.NodeProto()
    outer.CopyFrom(node)
    attributes = plain(node)
    del outer.attribute[:]
    count = attributes["num_scan_inputs"]
    outer.attribute.append(helper.make_attribute("num_scan_inputs", count))
    back = attributes.get("directions", [0] * count)
    outer.attribute.append(helper.make_attribute("scan_input_directions", back))
    rows = []
    for b in range(operands[0].shape[0]):
        n_states = len(operands) - count
        length = None if lengths is None else int(lengths[b])
        item = [x[b] if k < n_states else x[b][:length] for k, x in enumerate(operands)]
        rows.append(_scan(outer, item, body))
    return [np.stack(parts) for parts in zip(*rows, strict=False)]


# --- attributes --------------------------------------------------------------------------------


def plain(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes as plain values, tensors as arrays; graphs and the like are left as they are."""
    found = {}
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        if isinstance(value, onnx.TensorProto):
            value = to_text(numpy_helper.to_array(value))
        found[attribute.name] = value
    return found


def _bound(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """The node of a function's body with the values of the call's attributes put in."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    bound = onnx.NodeProto()
    bound.CopyFrom(node)
    del bound.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            bound.attribute.append(attribute)
        elif attribute.ref_attr_name in given:
            value = bound.attribute.add()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
    return bound


def _opsets(imports: Any) -> dict[str, int]:
    return {("" if i.domain == "ai.onnx" else i.domain): i.version for i in imports}


def _dense(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values = numpy_helper.to_array(sparse.values)
    indices = numpy_helper.to_array(sparse.indices)
    dense = np.zeros(int(np.prod(sparse.dims)), values.dtype)
    if indices.ndim == 2:
        indices = np.ravel_multi_index(tuple(indices.T), tuple(sparse.dims))
    dense[indices] = values
    return dense.reshape(tuple(sparse.dims))
