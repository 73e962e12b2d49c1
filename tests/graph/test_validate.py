"""A model that edits have broken is found out; one that is fine passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphkit import parsed
from model_diff import differences
from onnx import numpy_helper

from rewrite.errors import RewriteError
from rewrite.graph import edit, io, validate
from rewrite.graph.model import LoadedModel

TEXT = """
<ir_version: 8, opset_import: ["": 17]>
g (bool c, float[2] x) => (float[2] y) <float[2] w = {1, 2}>
{ a = Neg (x)  b = Add (a, w)
  y = If (c) <then_branch = t () => (float[2] r) { p = Abs (b)  r = Neg (p) },
              else_branch = e () => (float[2] s) { p = Neg (b)  s = Abs (p) }> }"""


def nodes(loaded: LoadedModel) -> list[ir.Node]:
    return list(loaded.model.graph)


def inner(loaded: LoadedModel, branch: str) -> list[ir.Node]:
    return list(nodes(loaded)[2].attributes[branch].value)


def swap(loaded: LoadedModel) -> None:
    first, second, _ = nodes(loaded)
    loaded.model.graph.insert_after(second, first)


def dangling(loaded: LoadedModel) -> None:
    nodes(loaded)[1].replace_input_with(0, ir.Value(name="gone"))


def same_name(loaded: LoadedModel) -> None:
    nodes(loaded)[1].outputs[0].name = "a"


def taken_name(loaded: LoadedModel) -> None:
    nodes(loaded)[1].outputs[0].name = "x"


def no_name(loaded: LoadedModel) -> None:
    nodes(loaded)[1].outputs[0].name = ""


def other_branch(loaded: LoadedModel) -> None:
    inner(loaded, "else_branch")[1].replace_input_with(
        0, inner(loaded, "then_branch")[0].outputs[0]
    )


def inner_value_outside(loaded: LoadedModel) -> None:
    graph = loaded.model.graph
    node = ir.Node("", "Neg", [inner(loaded, "then_branch")[0].outputs[0]], name="late")
    node.outputs[0].name = "late"
    graph.append(node)


def lost_initializer(loaded: LoadedModel) -> None:
    del loaded.model.graph.initializers["w"]


def output_from_elsewhere(loaded: LoadedModel) -> None:
    loaded.model.graph.remove(nodes(loaded)[2])


def wrong_type(loaded: LoadedModel) -> None:
    loaded.model.graph.initializers["w"].const_value = ir.tensor(np.int64([1, 2]))


def unknown_attribute(loaded: LoadedModel) -> None:
    nodes(loaded)[0].attributes.add(ir.AttrInt64("speed", 3))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (swap, "not defined"),
        (dangling, "gone"),
        (same_name, "two definitions"),
        (taken_name, "two definitions"),
        (no_name, "not defined"),
        (other_branch, "another value"),
        (inner_value_outside, "not defined"),
        (lost_initializer, "'w'"),
        (output_from_elsewhere, "'y'"),
        (wrong_type, "type"),
        (unknown_attribute, "speed"),
    ],
)
def test_damage_is_found(damage: Callable[[LoadedModel], None], words: str):
    loaded = io.load(parsed(TEXT))
    validate.check_graph(loaded)
    damage(loaded)
    with pytest.raises(RewriteError) as caught:
        validate.check_graph(loaded)
    assert {d.code for d in caught.value.diagnostics} == {"RW515"}
    assert any(words in d.message for d in caught.value.diagnostics)


def test_what_was_tolerated_at_loading_is_tolerated_again():
    loaded = io.load(
        parsed("""<ir_version: 8, opset_import: ["": 12]>
      g (float[2] x) => (y) <float[2] s = {1, 1}> { a = Neg (x)  y = LayerNormalization (a, s) }""")
    )
    assert loaded.notes
    validate.check_graph(loaded)
    loaded = io.load(
        parsed("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x, int64[2] n) => (float[2] y) { y = Add (x, n) }""")
    )
    assert loaded.notes
    validate.check_graph(loaded)


def test_edited_model_is_valid():
    loaded = io.load(parsed(TEXT))
    facts, graph = loaded.facts, loaded.model.graph
    a = nodes(loaded)[0].outputs[0]
    new = edit.make_node(facts, graph, "", "Relu", [graph.inputs[1]], {})
    assert isinstance(new, ir.Node)
    done = edit.replace(facts, graph, [(a, new.outputs[0])], [new])
    assert isinstance(done, edit.Replacement)
    done.finish()
    validate.check_graph(loaded)


# --- the comparison that other tests rest on ---------------------------------------------------


def change(path: str) -> Callable[[onnx.ModelProto], None]:
    def apply(proto: onnx.ModelProto) -> None:
        exec(f"proto.{path}", {"proto": proto, "nh": numpy_helper, "np": np, "onnx": onnx})

    return apply


@pytest.mark.parametrize(
    "path",
    [
        "ir_version = 9",
        "producer_name = 'p'",
        "model_version = 3",
        "opset_import[0].version = 18",
        "metadata_props.add(key='k', value='v')",
        "graph.name = 'other'",
        "graph.input[1].type.tensor_type.elem_type = 7",
        "graph.output[0].doc_string = 'd'",
        "graph.value_info.add(name='a')",
        "graph.quantization_annotation.add(tensor_name='a')",
        "graph.initializer[0].CopyFrom(nh.from_array(np.float32([1, 3]), 'w'))",
        "graph.initializer[0].dims[:] = [1, 2]",
        "graph.node[0].op_type = 'Abs'",
        "graph.node[0].input[0] = 'w'",
        "graph.node[0].metadata_props.add(key='k', value='v')",
        "graph.node[2].attribute[0].g.node[0].op_type = 'Sqrt'",
        "graph.node[2].attribute[0].name = 'else'",
        "graph.node.pop()",
        "functions.add(name='f')",
        "training_info.add()",
    ],
)
def test_comparison_sees(path: str):
    first, second = parsed(TEXT), parsed(TEXT)
    assert differences(first, second) == []
    change(path)(second)
    assert differences(first, second) != []
    assert differences(second, first) != []


def test_comparison_ignores_order_and_form():
    first, second = parsed(TEXT), parsed(TEXT)
    moved = second.graph.node.pop(0)
    second.graph.node.append(moved)
    second.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32([1, 2]), "w"))
    assert first.graph.initializer[0] != second.graph.initializer[0]
    assert differences(first, second) == []
