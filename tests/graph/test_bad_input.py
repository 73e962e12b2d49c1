"""Models that cannot be taken: one clear error each, never a traceback, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from graphkit import FLOAT, codes, model, parsed, relu, value, with_weight
from model_diff import differences
from onnx import TensorProto, helper

from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.wire import encode_len

# --- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, onnx.IR_VERSION + 1, 10**6])
def test_unsupported_ir_version(version):
    proto = relu()
    proto.ir_version = version
    assert codes(proto) == ["RW503"]


@pytest.mark.parametrize("version", [0, 1, 6, onnx.defs.onnx_opset_version() + 1, 2**40])
def test_unsupported_opset(version):
    proto = relu()
    proto.opset_import[0].version = version
    assert codes(proto) == ["RW504"]


@pytest.mark.parametrize(("version", "hint"), [(6, "convert_version"), (2**40, "a newer onnx")])
def test_what_to_do_about_an_opset(version, hint):
    proto = relu()
    proto.opset_import[0].version = version
    with pytest.raises(RewriteError) as caught:
        io.load(proto)
    assert hint in str(caught.value.diagnostics[0].hint)


def test_missing_opset():
    proto = relu()
    del proto.opset_import[:]
    assert codes(proto) == ["RW504"]


# --- structure ---------------------------------------------------------------------------------


def test_every_dangling_input_and_output_is_named():
    nodes = [
        helper.make_node("Add", ["x", "gone"], ["a"], name="first"),
        helper.make_node("Add", ["a", "lost"], ["y"], name="second"),
    ]
    proto = model(nodes, [value("x")], [value("y"), value("nowhere")])
    with pytest.raises(RewriteError) as caught:
        io.load(proto)
    texts = [d.headline() for d in caught.value.diagnostics]
    assert [d.code for d in caught.value.diagnostics] == ["RW505"] * 3
    for text, words in zip(
        texts, [("first", "gone"), ("second", "lost"), ("nowhere",)], strict=True
    ):
        assert all(word in text for word in words)


def test_a_name_like_the_missing_one_is_offered():
    proto = model([helper.make_node("Neg", ["hidden_"], ["y"])], [value("hidden")], [value("z_")])
    proto.graph.node.add().CopyFrom(helper.make_node("Neg", ["hidden"], ["z"]))
    with pytest.raises(RewriteError) as caught:
        io.load(proto)
    found = {d.hint for d in caught.value.diagnostics}
    assert found == {"did you mean `hidden`?", "did you mean `z`?"}


def test_dangling_in_subgraph_and_function():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17, "my": 1]>
      g (bool c, float[2] x) => (float[2] y)
      { y = If (c) <then_branch = t () => (float[2] r) { r = my.f (x) },
                    else_branch = e () => (float[2] r) { r = Neg (x) }> }
      <opset_import: ["": 17], domain: "my"> f (a) => (b) { b = Add (a, a) }""")
    proto.functions[0].node[0].input[1] = "x"
    proto.graph.node[0].attribute[1].g.node[0].input[0] = "hidden"
    assert codes(proto) == ["RW505", "RW505"]


def test_value_of_the_other_branch_is_not_visible():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[2] x) => (float[2] y)
      { y = If (c) <then_branch = t () => (float[2] r) { r = Neg (x) },
                    else_branch = e () => (float[2] s) { s = Neg (x) }> }""")
    proto.graph.node[0].attribute[1].g.node[0].input[0] = "r"
    assert codes(proto) == ["RW505"]


def test_cycle():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    assert codes(model(nodes, [value("x")], [value("a")])) == ["RW506"]


def test_node_that_needs_itself():
    assert codes(
        model([helper.make_node("Add", ["x", "a"], ["a"])], [value("x")], [value("a")])
    ) == ["RW506"]


def test_cycle_through_a_subgraph():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[2] x) => (float[2] y)
      { y = If (c) <then_branch = t () => (float[2] r) { r = Neg (z) },
                    else_branch = e () => (float[2] r) { r = Neg (x) }>
        z = Neg (y) }""")
    assert codes(proto) == ["RW506"]


@pytest.mark.parametrize("where", ["outputs", "inputs", "initializers", "initializer and output"])
def test_two_definitions_of_a_name(where):
    w = helper.make_tensor("w", FLOAT, [2], [1, 2])
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    inputs, weights = [value("x")], [w]
    if where == "outputs":
        nodes.append(helper.make_node("Neg", ["x"], ["y"]))
    elif where == "inputs":
        inputs.append(value("x"))
    elif where == "initializers":
        weights.append(w)
    else:
        nodes.insert(0, helper.make_node("Neg", ["x"], ["w"]))
    assert codes(model(nodes, inputs, [value("y")], weights)) == ["RW507"]


def test_missing_names():
    nameless = helper.make_tensor("", FLOAT, [2], [1, 2])
    assert codes(
        model([helper.make_node("Neg", ["x"], ["y"])], [value("x")], [value("y")], [nameless])
    ) == ["RW507"]
    assert codes(
        model([helper.make_node("Neg", ["x"], ["y"])], [value("x"), value("")], [value("y")])
    ) == ["RW507"]


def test_recursive_functions():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17, "my": 1]>
      g (float[2] x) => (float[2] y) { y = my.f (x) }
      <opset_import: ["": 17, "my": 1], domain: "my"> f (a) => (b) { b = my.f (a) }""")
    assert codes(proto) == ["RW510"]


def nested(depth: int) -> onnx.ModelProto:
    """If in If in If..."""
    proto = model([], [value("c", (), TensorProto.BOOL), value("x")], [value("r")])
    graph = proto.graph
    for _ in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=["r"])
        other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "e", [], [value("e")])
        node.attribute.append(helper.make_attribute("else_branch", other))
        kind = onnx.AttributeProto.GRAPH
        graph = node.attribute.add(name="then_branch", type=kind).g
        graph.name = "t"
        graph.output.add(name="r")
    graph.node.add(op_type="Neg", input=["x"], output=["r"])
    return proto


@pytest.mark.parametrize("depth", [29, 33, 200, 2000])
def test_deep_nesting_is_refused_and_no_recursion_error(depth):
    assert codes(nested(depth)) == ["RW511"]


def test_deep_nesting_in_a_file(tmp_path: Path):
    path = tmp_path / "m.onnx"
    part = onnx.NodeProto(op_type="Neg", input=["x"], output=["r"]).SerializeToString()
    for _ in range(200):  # the same as above, made of bytes: protobuf itself refuses to write it
        graph = encode_len(1, part)
        attribute = encode_len(1, b"then_branch") + encode_len(6, graph) + b"\xa0\x01\x05"
        part = encode_len(4, b"If") + encode_len(5, attribute)
    path.write_bytes(b"\x08\x08" + encode_len(7, encode_len(1, part)))
    assert codes(path) == ["RW502"]


def test_allowed_nesting_is_taken():
    loaded = io.load(nested(28))
    assert len(loaded.facts.graphs()) == 57
    names = nested(28)
    assert differences(names, io.to_proto(loaded)) == []


# --- tensors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="w", data_type=FLOAT, dims=[4], raw_data=b"\0" * 15),
        TensorProto(name="w", data_type=FLOAT, dims=[4], raw_data=b"\0" * 17),
        TensorProto(name="w", data_type=FLOAT, dims=[4], float_data=[1, 2, 3]),
        TensorProto(name="w", data_type=FLOAT, dims=[4], float_data=[1, 2, 3, 4, 5]),
        TensorProto(name="w", data_type=FLOAT, dims=[4], int32_data=[1, 2, 3, 4]),
        TensorProto(name="w", data_type=FLOAT, dims=[4]),
        TensorProto(name="w", data_type=FLOAT, dims=[-1, 4], float_data=[1, 2, 3, 4]),
        TensorProto(name="w", data_type=FLOAT, dims=[2**62, 2**62], raw_data=b"\0" * 16),
        TensorProto(name="w", data_type=99, dims=[4], raw_data=b"\0" * 16),
        TensorProto(name="w", dims=[4], raw_data=b"\0" * 16),
        TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], raw_data=b"\0" * 16),
        TensorProto(name="w", data_type=TensorProto.INT4, dims=[3], int32_data=[1]),
    ],
)
def test_tensor_without_the_data_it_claims(tensor):
    assert codes(with_weight(tensor)) == ["RW508"]


def test_sparse_tensor_with_positions_outside():
    values = onnx.numpy_helper.from_array(np.float32([5]), "w")
    indices = onnx.numpy_helper.from_array(np.int64([9]), "i")
    proto = model([helper.make_node("Relu", ["w"], ["y"])], [], [value("y", (2, 2))])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 2]))
    assert codes(proto) == ["RW510"]


# --- the checker's verdict ---------------------------------------------------------------------


def unknown_attribute(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].attribute.append(helper.make_attribute("speed", 3))


def missing_input(proto: onnx.ModelProto) -> None:
    del proto.graph.node[0].input[:]


def wrong_kind(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].op_type = "LeakyRelu"
    proto.graph.node[0].attribute.append(helper.make_attribute("alpha", "text"))


def no_type(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].ClearField("type")


@pytest.mark.parametrize("damage", [unknown_attribute, missing_input, wrong_kind])
def test_what_the_checker_refuses(damage: Callable[[onnx.ModelProto], None]):
    proto = relu()
    damage(proto)
    assert codes(proto) == ["RW510"]


def test_input_without_a_type():
    proto = relu()
    no_type(proto)
    assert codes(proto) == ["RW510"]


def test_types_that_do_not_fit_are_a_note():
    """The checker accepts such a model, so it is taken; the report says so."""
    node = helper.make_node("Add", ["x", "n"], ["y"])
    proto = model([node], [value("x"), value("n", (2,), TensorProto.INT64)], [value("y")])
    onnx.checker.check_model(proto)
    loaded = io.load(proto)
    assert len(loaded.notes) == 1
    assert "types do not fit" in loaded.notes[0]
    assert "Add" in loaded.notes[0]


def test_operator_newer_than_the_opset_is_tolerated_with_a_note():
    """Runtimes have LayerNormalization in older opsets; ONNX has it from 17 on."""
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"])
    scale = helper.make_tensor("s", FLOAT, [2], [1, 1])
    loaded = io.load(model([node], [value("x")], [value("y")], [scale], opset=12))
    assert len(loaded.notes) == 1
    assert "LayerNormalization" in loaded.notes[0]


def test_experimental_operators_are_taken_and_nothing_is_printed(capfd):
    node = helper.make_node("ScaledTanh", ["x"], ["y"], alpha=1.0, beta=1.0)
    loaded = io.load(model([node], [value("x")], [value("y")]))
    assert loaded.notes == []
    assert capfd.readouterr().out == ""


# --- budgets -----------------------------------------------------------------------------------


def test_long_chains_and_wide_graphs_take_linear_time():
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(20000)]
    proto = model(nodes[::-1], [value("v0")], [value("v20000")])
    start = time.perf_counter()
    loaded = io.load(proto)
    assert time.perf_counter() - start < 20
    assert len(loaded.model.graph) == 20000
    many = [value(f"v{i}") for i in range(1, 20001)]
    io.load(model(nodes, [value("v0")], many))
