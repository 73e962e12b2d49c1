"""New nodes in the form of the opset, dead code, sorting."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from graphkit import CHAIN, FLOAT, SIBLINGS, Bench, model, parsed, run_runtime, value
from onnx import helper

from rewrite.graph import dead, edit, io, order

# --- new nodes ---------------------------------------------------------------------------------


def opset(version: int) -> Bench:
    return Bench(f"""<ir_version: 8, opset_import: ["": {version}]>
      g (float[1, 2] x, int64[1] n) => (float[1, 2] y) {{ y = Neg (x) }}""")


def test_operands_become_attributes_in_older_opsets():
    old, new = opset(12), opset(13)
    for bench in (old, new):
        node = bench.make("Squeeze", bench["x"], bench.constant(np.int64([0])))
        assert (len(node.inputs), len(node.attributes)) == ((1, 1) if bench is old else (2, 0))
        bench.replace([(bench["y"], node.outputs[0])], [node])
    assert io.to_proto(old.loaded).graph.node[1].attribute[0].ints == [0]


def test_operand_in_the_middle_becomes_an_attribute():
    bench = opset(10)
    node = bench.make("Clip", bench["x"], None, bench.constant(np.float32(3)))
    assert [a.name for a in node.attributes.values()] == ["max"]
    assert len(node.inputs) == 1


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "words"),
    [
        ("Squeeze", ("x", "n"), {}, "constant"),
        ("Gelu", ("x",), {}, "opset 12 has no Gelu"),
        ("Upsample", ("x", "x"), {}, "no longer"),
        ("Relu", ("x",), {"speed": 3}, "no attribute 'speed'"),
        ("Reshape", ("x", "n"), {"allowzero": 1}, "no attribute 'allowzero'"),
    ],
)
def test_what_the_opset_cannot_say_is_refused(op, operands, attributes, words):
    bench = opset(12)
    before = bench.text()
    made = edit.make_node(
        bench.facts, bench.graph, "", op, [bench[o] for o in operands], attributes
    )
    assert isinstance(made, edit.Refused)
    assert words in made.reason
    assert bench.text() == before
    assert all(u.node.graph is not None for o in operands for u in bench[o].uses())


def test_attribute_with_the_value_that_an_older_version_means_anyway():
    bench = opset(12)
    node = bench.make("Reshape", bench["x"], bench["n"], allowzero=0)
    assert not node.attributes


def test_attributes_get_the_kind_of_the_schema():
    bench = opset(17)
    node = bench.make("LeakyRelu", bench["x"], alpha=1)
    assert node.attributes["alpha"].type == ir.AttributeType.FLOAT
    node = bench.make("Transpose", bench["x"], perm=np.int64([1, 0]))
    assert node.attributes["perm"].as_ints() == (1, 0)
    node = bench.make("Concat", bench["x"], axis=np.int64(1))
    assert node.attributes["axis"].as_int() == 1
    empty = bench.make("ReduceMean", bench["x"], axes=None)
    assert not empty.attributes


def test_new_domain_is_imported_and_the_rule_is_noted():
    bench = opset(17)
    node = edit.make_node(
        bench.facts, bench.graph, "com.microsoft", "Gelu", [bench["x"]], {}, rule="gelu"
    )
    assert isinstance(node, ir.Node)
    done = bench.replace([(bench["y"], node.outputs[0])], [node])
    done.undo()
    assert "com.microsoft" not in bench.graph.opset_imports
    node = edit.make_node(
        bench.facts, bench.graph, "com.microsoft", "Gelu", [bench["x"]], {}, rule="gelu"
    )
    bench.replace([(bench["y"], node.outputs[0])], [node]).finish()
    proto = bench.proto()
    assert {o.domain: o.version for o in proto.opset_import} == {"": 17, "com.microsoft": 1}
    assert [(p.key, p.value) for p in proto.graph.node[0].metadata_props] == [
        ("rewrite.rule", "gelu")
    ]
    run_runtime(proto, x=np.float32([[1, 2]]), n=np.int64([1]))


def test_domain_new_in_a_function_is_imported_by_the_model_too():
    bench = Bench("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
      g (float[2] x) => (float[2] y) { y = my.f (x) }
      <opset_import: ["": 18], domain: "my"> f (v) => (w) { w = Neg (v) }""")
    body = next(iter(bench.loaded.model.functions.values())).graph
    node = edit.make_node(bench.facts, body, "com.microsoft", "Gelu", [bench["v"]], {})
    bench.replace([(bench["w"], node.outputs[0])], [node], graph=body).finish()
    proto = bench.proto()
    assert {o.domain for o in proto.opset_import} == {"", "my", "com.microsoft"}
    assert {o.domain for o in proto.functions[0].opset_import} == {"", "com.microsoft"}
    run_runtime(proto, x=np.float32([1, 2]))


def test_notes_of_the_old_node_pass_to_the_new_one():
    source = parsed(CHAIN)
    source.graph.node[1].doc_string = "made by hand"
    source.graph.node[1].metadata_props.add(key="pkg.torch.name", value="layer1")
    bench = Bench(source)
    new = bench.make("Sqrt", bench["a"])
    bench.replace([(bench["b"], new.outputs[0])], [new]).finish()
    made = bench.proto().graph.node[1]
    assert made.op_type == "Sqrt"
    assert made.doc_string == "made by hand"
    assert made.metadata_props[0].value == "layer1"


def test_strings_and_small_types_as_constants():
    bench = Bench(
        model([helper.make_node("Take", ["x"], ["y"], domain="custom")], [value("x")], [value("y")])
    )
    for array in (
        np.array(["a", b"b"], object),
        np.array(3, np.int8),
        np.zeros((0, 2), np.float32),
    ):
        made = bench.constant(array)
        assert bench.facts.type(made).shape == array.shape
        node = edit.make_node(bench.facts, bench.graph, "custom", "Take", [made], {})
        assert isinstance(node, ir.Node)
        bench.replace([(bench["y"], node.outputs[0])], [node]).finish()
        io.load(io.to_proto(bench.loaded))


# --- dead code ---------------------------------------------------------------------------------


def test_remove_dead():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17, "custom": 1]>
      g (bool c, float[1] x, float[1] default = {1}) => (float[1] y, float[1] fixed)
      <float[1] used = {1}, float[1] unused = {1}, float[1] fixed = {3}, float[1] inner_used = {4}>
      { a = Neg (x)  b = Neg (a)
        q = custom.Log (x)
        z = If (c) <then_branch = t () => (float[1] r) { r = Add (x, inner_used) },
                    else_branch = e () => (float[1] s) { s = Add (x, b) }>
        y = Add (x, used) }""")
    removed = dead.remove_dead(bench.facts)
    assert sorted(node.op_type for node in removed) == ["If", "Neg", "Neg"]
    assert bench.ops() == ["Log", "Add"]
    assert sorted(bench.graph.initializers) == ["default", "fixed", "used"]
    assert [v.name for v in bench.graph.inputs] == ["c", "x", "default"]
    bench.proto()


def test_nodes_inside_a_removed_node_are_in_no_graph():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { y = Neg (x)
        z = If (c) <then_branch = t () => (float[1] r) { r = Neg (x) },
                    else_branch = e () => (float[1] s) { s = Neg (y) }> }""")
    inner = bench["r"].producer()
    dead.remove_dead(bench.facts)
    assert inner.graph is None
    assert len(bench["y"].uses()) == 0
    assert len(bench["x"].uses()) == 1


def test_remove_dead_inside_subgraphs_and_functions():
    bench = Bench("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
      g (bool c, float[1] x) => (float[1] y)
      { y = If (c) <then_branch = t () => (float[1] r)
                      <float[1] w = {1}> { u = Add (x, w)  r = my.f (x, x) },
                    else_branch = e () => (float[1] s) { s = Neg (x) }> }
      <opset_import: ["": 18], domain: "my"> f (v, unused) => (w) { t = Neg (v)  w = Abs (v) }""")
    assert len(dead.remove_dead(bench.facts)) == 2
    proto = bench.proto()
    assert list(proto.functions[0].input) == ["v", "unused"]
    assert len(proto.graph.node[0].attribute[0].g.initializer) == 0


def test_names_that_annotations_and_training_use_stay():
    source = model(
        [helper.make_node("Neg", ["x"], ["y"])],
        [value("x")],
        [value("y")],
        [helper.make_tensor(n, FLOAT, [1], [1]) for n in ("scale", "w", "other")],
    )
    annotation = source.graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    source.training_info.add().update_binding.add(key="w", value="w_new")
    bench = Bench(source)
    dead.remove_dead(bench.facts)
    assert sorted(bench.graph.initializers) == ["scale", "w"]


def test_dead_chain_takes_linear_time_and_no_recursion():
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(5000)]
    nodes.append(helper.make_node("Abs", ["v0"], ["y"]))
    bench = Bench(model(nodes, [value("v0")], [value("y")]))
    assert len(dead.remove_dead(bench.facts)) == 5000


# --- sorting -----------------------------------------------------------------------------------


def test_sort_is_stable():
    bench = Bench(SIBLINGS)
    before = list(bench.graph)
    assert order.sort(bench.graph)
    assert list(bench.graph) == before
    shuffled = [before[i] for i in (4, 3, 2, 1, 0)]
    bench.graph.extend(shuffled)
    assert order.sort(bench.graph)
    assert [n.outputs[0].name for n in bench.graph] == ["c", "d", "a", "b", "y"]
