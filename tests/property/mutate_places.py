"""Mutants of where things stand: what else sees an inner value, and what the whole is part of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.property.mutations import Change, copy, mutator, output_types, retyped


def _inner(model: onnx.ModelProto) -> list[str]:
    given = {v.name for v in model.graph.output}
    return [o for n in model.graph.node for o in n.output if o and o not in given]


@mutator
def given_out(model: onnx.ModelProto) -> Iterator[Change]:
    """An inner value is an output of the graph as well."""
    types = output_types(model)
    for name in _inner(model):
        if name in types:
            made = copy(model)
            made.graph.output.append(onnx.ValueInfoProto(name=name, type=types[name]))
            yield name, made


@mutator
def second_consumer(model: onnx.ModelProto) -> Iterator[Change]:
    """An inner value, or an output, is used by one more node."""
    types = output_types(model)
    for name in (*_inner(model), *(v.name for v in model.graph.output)):
        for op in ("Identity", "Shape"):
            if name not in types:
                continue
            made = copy(model)
            made.graph.node.append(helper.make_node(op, [name], [name + "_seen"]))
            made.graph.output.append(onnx.ValueInfoProto(name=name + "_seen"))
            result = retyped(made)
            if result is not None:
                yield f"{name} {op}", result


@mutator
def captured(model: onnx.ModelProto) -> Iterator[Change]:
    """An inner value, or an output, is read inside a branch of an If."""
    types = output_types(model)
    for name in (*_inner(model), *(v.name for v in model.graph.output)):
        if name not in types:
            continue
        made = copy(model)
        branches = {}
        for branch in ("then", "else"):
            out = f"{name}_{branch}"
            branches[f"{branch}_branch"] = helper.make_graph(
                [helper.make_node("Identity", [name], [out])],
                branch,
                [],
                [onnx.ValueInfoProto(name=out, type=types[name])],
            )
        made.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
        made.graph.node.append(helper.make_node("If", ["which"], [name + "_if"], **branches))
        made.graph.output.append(onnx.ValueInfoProto(name=name + "_if"))
        result = retyped(made)
        if result is not None:
            yield name, result


def _as_branch(model: onnx.ModelProto, name: str, constants_inside: bool) -> onnx.GraphProto:
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    graph.name = name
    del graph.input[:]
    if not constants_inside:
        del graph.initializer[:]
    names = {o for node in graph.node for o in node.output if o}
    if constants_inside:
        names |= {t.name for t in graph.initializer}
    for node in graph.node:
        for row in (node.input, node.output):
            for place, old in enumerate(row):
                if old in names:
                    row[place] = f"{name}_{old}"
    for tensor in graph.initializer:
        tensor.name = f"{name}_{tensor.name}"
    for value in graph.output:
        value.name = f"{name}_{value.name}" if value.name in names else value.name
    return graph


@mutator
def in_branch(model: onnx.ModelProto) -> Iterator[Change]:
    """The whole in both branches of an If, with constants inside or outside."""
    if any(attribute.HasField("g") for n in model.graph.node for attribute in n.attribute):
        return
    for inside in (True, False):
        made = copy(model)
        branches = {
            "then_branch": _as_branch(model, "then", inside),
            "else_branch": _as_branch(model, "else", inside),
        }
        if inside:
            del made.graph.initializer[:]
        del made.graph.node[:]
        outputs = [v.name for v in model.graph.output]
        made.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
        made.graph.node.append(helper.make_node("If", ["which"], outputs, **branches))
        yield "constants inside" if inside else "constants outside", made


@mutator
def in_loop(model: onnx.ModelProto) -> Iterator[Change]:
    """The whole in the body of a Loop that runs twice and stacks the results."""
    if any(attribute.HasField("g") for n in model.graph.node for attribute in n.attribute):
        return
    body = _as_branch(model, "body", True)
    body.input.extend(
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
        ]
    )
    body.node.append(helper.make_node("Identity", ["go"], ["go_on"]))
    outputs = list(body.output)
    del body.output[:]
    body.output.extend([helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), *outputs])
    made = copy(model)
    del made.graph.initializer[:]
    del made.graph.node[:]
    made.graph.initializer.extend(
        [
            numpy_helper.from_array(np.asarray(2, np.int64), "trips"),
            numpy_helper.from_array(np.asarray(True), "start"),
        ]
    )
    names = [v.name for v in model.graph.output]
    made.graph.node.append(helper.make_node("Loop", ["trips", "start"], names, body=body))
    result = retyped(made)
    if result is not None:
        yield "all", result


@mutator
def in_function(model: onnx.ModelProto) -> Iterator[Change]:
    """The whole as a local function, its constants as nodes inside or as operands."""
    if model.ir_version < 8:
        return
    graph = model.graph
    for inside in (True, False):
        constants = [helper.make_node("Constant", [], [t.name], value=t) for t in graph.initializer]
        inputs = [v.name for v in graph.input]
        outer = [] if inside else [t.name for t in graph.initializer]
        function = helper.make_function(
            "local",
            "Whole",
            inputs + outer,
            [v.name for v in graph.output],
            [*constants, *graph.node] if inside else list(graph.node),
            list(model.opset_import),
        )
        made = copy(model)
        if inside:
            del made.graph.initializer[:]
        del made.graph.node[:]
        names = [v.name for v in graph.output]
        made.graph.node.append(helper.make_node("Whole", inputs + outer, names, domain="local"))
        made.functions.append(function)
        made.opset_import.append(helper.make_opsetid("local", 1))
        yield "constants inside" if inside else "constants outside", made


@mutator
def untyped_inner(model: onnx.ModelProto) -> Iterator[Change]:
    """Outputs declared without shapes; inner values declared wholly."""
    made = copy(model)
    for value in made.graph.output:
        value.type.tensor_type.ClearField("shape")
    yield "outputs without shapes", made
    made = copy(model)
    types = output_types(model)
    for name in _inner(model):
        if name in types:
            made.graph.value_info.append(onnx.ValueInfoProto(name=name, type=types[name]))
    yield "inner declared", made


@mutator
def repeated(model: onnx.ModelProto) -> Iterator[Change]:
    """The whole twice in one graph, on the same inputs and constants."""
    made = copy(model)
    names = {o for node in model.graph.node for o in node.output if o}
    for node in model.graph.node:
        again = onnx.NodeProto()
        again.CopyFrom(node)
        for row in (again.input, again.output):
            for place, old in enumerate(row):
                if old in names:
                    row[place] = old + "_again"
        made.graph.node.append(again)
    for value in model.graph.output:
        if value.name in names:
            made.graph.output.append(
                onnx.ValueInfoProto(name=value.name + "_again", type=value.type)
            )
    yield "all", made


@mutator
def in_a_row(model: onnx.ModelProto) -> Iterator[Change]:
    """The whole twice in a row, where its first output fits its first input."""
    if not model.graph.input or model.graph.input[0].type != model.graph.output[0].type:
        return
    made = copy(model)
    first, last = model.graph.input[0].name, model.graph.output[0].name
    names = {o for node in model.graph.node for o in node.output if o}
    for node in model.graph.node:
        again = onnx.NodeProto()
        again.CopyFrom(node)
        for row in (again.input, again.output):
            for place, old in enumerate(row):
                if old in names:
                    row[place] = old + "_again"
                elif old == first:
                    row[place] = last
        made.graph.node.append(again)
    made.graph.output.append(
        onnx.ValueInfoProto(name=last + "_again", type=model.graph.output[0].type)
    )
    yield "all", made
    made = copy(made)
    del made.graph.output[0]
    yield "only the last", made
