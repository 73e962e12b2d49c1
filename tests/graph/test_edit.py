"""Replacing values: the model computes the same, names stay, and refusals change nothing."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from graphkit import CHAIN, SIBLINGS, Bench, model, parsed, run, run_runtime, value
from model_diff import differences
from onnx import helper

from rewrite.graph import edit, io, validate


def test_interior_value_gives_way_and_its_name_stays():
    bench = Bench(CHAIN)
    new = bench.make("Sqrt", bench["a"])
    bench.replace([(bench["c"], new.outputs[0])], [new], matched=(bench["b"].producer(),)).finish()
    assert bench.ops() == ["Neg", "Sqrt", "Neg"]
    assert new.outputs[0].name == "c"
    assert run(bench.proto(), x=np.float32([-4, -9]))[0].tolist() == [-2, -3]


def test_graph_output_keeps_its_name_type_and_notes():
    source = parsed(CHAIN)
    source.graph.output[0].doc_string = "result"
    bench = Bench(source)
    new = bench.make("Abs", bench["x"])
    bench.replace([(bench["y"], new.outputs[0])], [new]).finish()
    proto = bench.proto()
    assert proto.graph.output[0] == source.graph.output[0]
    assert bench.ops() == ["Abs"]
    assert run(proto, x=np.float32([-4, 9]))[0].tolist() == [4, 9]


def test_existing_value_becomes_the_output():
    bench = Bench(CHAIN)
    bench.replace([(bench["y"], bench["b"])]).finish()
    assert bench.ops() == ["Neg", "Abs"]
    assert [v.name for v in bench.graph.outputs] == ["y"]
    assert run(bench.proto(), x=np.float32([-4, 9]))[0].tolist() == [4, 9]


def test_input_reaches_an_output_through_an_identity():
    bench = Bench(CHAIN)
    bench.replace([(bench["y"], bench["x"])]).finish()
    assert bench.ops() == ["Identity"]
    assert run(bench.proto(), x=np.float32([-4, 9]))[0].tolist() == [-4, 9]


def test_identity_between_input_and_output_stays():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y) { y = Identity (x) }""")
    assert "Identity" in bench.refused([(bench["y"], bench["x"])])


def test_output_that_equals_another_output():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x)  z = Neg (x) }""")
    bench.replace([(bench["z"], bench["y"])]).finish()
    proto = bench.proto()
    assert bench.ops() == ["Neg", "Identity"]
    assert [o.name for o in proto.graph.output] == ["y", "z"]
    assert [v.tolist() for v in run(proto, x=np.float32([1, 2]))] == [[-1, -2], [-1, -2]]


def test_one_new_value_for_an_output_and_an_interior_value():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x)  y = Neg (x)  z = Abs (a) }""")
    new = bench.make("Neg", bench["x"])
    out = new.outputs[0]
    bench.replace([(bench["a"], out), (bench["y"], out)], [new]).finish()
    proto = bench.proto()
    assert [o.name for o in proto.graph.output] == ["y", "z"]
    assert [v.tolist() for v in run(proto, x=np.float32([1, 2]))] == [[-1, -2], [1, 2]]


def test_two_outputs_with_one_new_value():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y, float[2] z) { y = Neg (x)  z = Neg (x) }""")
    new = bench.make("Neg", bench["x"])
    out = new.outputs[0]
    bench.replace([(bench["y"], out), (bench["z"], out)], [new]).finish()
    proto = bench.proto()
    assert sorted(bench.ops()) == ["Identity", "Neg"]
    assert [v.tolist() for v in run(proto, x=np.float32([1, 2]))] == [[-1, -2], [-1, -2]]


def test_output_listed_twice():
    bench = Bench(
        model([helper.make_node("Neg", ["x"], ["y"])], [value("x")], [value("y"), value("y")])
    )
    new = bench.make("Abs", bench["x"])
    bench.replace([(bench["y"], new.outputs[0])], [new]).finish()
    made = bench.proto()
    assert [o.name for o in made.graph.output] == ["y", "y"]
    assert [v.tolist() for v in run(made, x=np.float32([-1, 2]))] == [[1, 2], [1, 2]]


def test_constant_becomes_an_initializer_also_as_an_output():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x)  y = Abs (x)  z = Add (a, x) }""")
    bench.replace([(bench["a"], bench.constant(np.float32([5, 6])))]).finish()
    bench.replace([(bench["y"], bench.constant(np.float32([7, 8])))]).finish()
    proto = bench.proto()
    assert bench.ops() == ["Add"]
    assert sorted(i.name for i in proto.graph.initializer) == ["k", "y"]
    for execute in (run, run_runtime):
        got = [v.tolist() for v in execute(proto, x=np.float32([1, 2]))]
        assert got == [[7, 8], [6, 8]]


def test_constant_as_the_output_of_a_branch():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { y = If (c) <then_branch = t () => (float[1] r) { r = Neg (x) },
                    else_branch = e () => (float[1] q) { q = Abs (x) }> }""")
    then = bench["r"].producer().graph
    bench.replace([(bench["r"], bench.constant(np.float32([5])))], graph=then).finish()
    proto = bench.proto()
    for execute in (run, run_runtime):
        assert execute(proto, c=np.True_, x=np.float32([1]))[0].tolist() == [5]


def test_value_from_outside_as_the_output_of_a_branch():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { y = If (c) <then_branch = t () => (float[1] r) { p = Neg (x)  r = Neg (p) },
                    else_branch = e () => (float[1] q) { q = Abs (x) }> }""")
    then = bench["r"].producer().graph
    bench.replace([(bench["r"], bench["x"])], graph=then).finish()
    assert [n.op_type for n in then] == ["Identity"]
    assert run_runtime(bench.proto(), c=np.True_, x=np.float32([1]))[0].tolist() == [1]


def test_uses_in_subgraphs_follow():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { a = Neg (x)
        y = If (c) <then_branch = t () => (float[1] r) { r = Neg (a) },
                    else_branch = e () => (float[1] q) { q = Abs (a) }> }""")
    new = bench.make("Relu", bench["x"])
    bench.replace([(bench["a"], new.outputs[0])], [new]).finish()
    proto = bench.proto()
    assert run(proto, c=np.True_, x=np.float32([3]))[0].tolist() == [-3]


def test_renaming_does_not_hide_a_value_from_a_subgraph():
    """The body has an input named as the output of the graph: the captured value keeps its name."""
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (int64 n, bool c, float[1] x) => (float[1] z, float[1] y)
      { a = Neg (x)
        z = Loop (n, c, x) <body = b (int64 i, bool k, float[1] y) => (bool k2, float[1] y2)
          { k2 = Identity (k)  y2 = Add (y, a) }>
        y = Relu (a) }""")
    bench.replace([(bench.graph.outputs[1], bench["a"])]).finish()
    proto = bench.proto()
    got = run_runtime(proto, n=np.int64(2), c=np.True_, x=np.float32([3]))
    assert [v.tolist() for v in got] == [[-3], [-3]]


def test_function_bodies_get_constant_nodes():
    bench = Bench("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
      g (float[1] x) => (float[1] y) { y = my.f (x) }
      <opset_import: ["": 18], domain: "my"> f (v) => (w) { t = Neg (v)  w = Neg (t) }""")
    body = next(iter(bench.loaded.model.functions.values())).graph
    new = bench.make("Mul", bench["v"], bench.constant(np.float32([4])), graph=body)
    bench.replace([(bench["w"], new.outputs[0])], [new], graph=body).finish()
    proto = bench.proto()
    assert [n.op_type for n in proto.functions[0].node] == ["Constant", "Mul"]
    assert list(proto.functions[0].output) == ["w"]
    assert run(proto, x=np.float32([3]))[0].tolist() == [12]


def test_function_output_can_become_a_constant():
    bench = Bench("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
      g (float[1] x) => (float[1] y) { y = my.f (x) }
      <opset_import: ["": 18], domain: "my"> f (v) => (w) { w = Neg (v) }""")
    body = next(iter(bench.loaded.model.functions.values())).graph
    bench.replace([(bench["w"], bench.constant(np.float32([4])))], graph=body).finish()
    assert run(bench.proto(), x=np.float32([3]))[0].tolist() == [4]


def test_ir_3_is_raised_for_a_new_initializer_and_nothing_becomes_overridable():
    bench = Bench("""<ir_version: 3, opset_import: ["": 8]>
      g (float[1] x, float[1] w = {2}) => (float[1] y) { a = Mul (x, w)  y = Neg (a) }""")
    new = bench.make("Add", bench["a"], bench.constant(np.float32([4])))
    bench.replace([(bench["y"], new.outputs[0])], [new]).finish()
    proto = bench.proto()
    assert proto.ir_version == 4
    assert [i.name for i in proto.graph.input] == ["x"]
    assert any("IR version" in note for note in bench.loaded.notes)
    assert bench.facts.scalar(bench["w"]) == 2
    assert run(proto, x=np.float32([3]))[0].tolist() == [10]


# --- order and cycles --------------------------------------------------------------------------


def merged(bench: Bench) -> tuple[ir.Node, ir.Node]:
    both = bench.constant(np.float32([[1, 2, 5, 6], [3, 4, 7, 8]]))
    product = bench.make("MatMul", bench["x"], both)
    sizes = bench.constant(np.int64([2, 2]))
    split = edit.make_node(
        bench.facts, bench.graph, "", "Split", (product.outputs[0], sizes), {"axis": 1}, 2
    )
    assert isinstance(split, ir.Node)
    return product, split


def test_two_roots_move_what_lies_between_behind_the_new_nodes():
    bench = Bench(SIBLINGS)
    product, split = merged(bench)
    roots = list(zip((bench["a"], bench["c"]), split.outputs, strict=True))
    bench.replace(roots, [product, split]).finish()
    proto = bench.proto()
    assert sorted(bench.ops()) == ["Abs", "Add", "MatMul", "Neg", "Split"]
    x = np.float32([[1, 0], [0, 1]])
    assert run(proto, x=x)[0].tolist() == run(bench.source, x=x)[0].tolist()


def test_merging_values_that_depend_on_each_other_is_a_cycle():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] v = {1, 2, 3, 4}>
      { a = MatMul (x, v)  b = Neg (a)  c = MatMul (b, v)  y = Add (a, c) }""")
    new = bench.make("Add", bench["x"], bench["b"])
    out = new.outputs[0]
    assert "cycle" in bench.refused([(bench["a"], out), (bench["c"], out)], [new])


def test_needing_the_result_of_the_own_user_is_a_cycle():
    bench = Bench(CHAIN)
    new = bench.make("Neg", bench["c"])
    assert "cycle" in bench.refused([(bench["b"], new.outputs[0])], [new])


def test_operand_that_comes_later_but_does_not_depend():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x)  y = Abs (a)  z = Sqrt (x) }""")
    new = bench.make("Relu", bench["z"])
    bench.replace([(bench["a"], new.outputs[0])], [new]).finish()
    assert bench.ops() == ["Sqrt", "Relu", "Abs"]
    assert run(bench.proto(), x=np.float32([4, 9]))[0].tolist() == [2, 3]


def test_new_node_around_the_old_value():
    bench = Bench(CHAIN)
    new = bench.make("Sqrt", bench["b"])
    bench.replace([(bench["b"], new.outputs[0])], [new]).finish()
    assert bench.ops() == ["Neg", "Abs", "Sqrt", "Relu", "Neg"]
    assert run(bench.proto(), x=np.float32([-4, 9]))[0].tolist() == [-2, -3]


def test_cycle_through_a_subgraph():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { a = Neg (x)
        b = If (c) <then_branch = t () => (float[1] r) { r = Neg (a) },
                    else_branch = e () => (float[1] q) { q = Abs (x) }>
        y = Neg (b) }""")
    new = bench.make("Sqrt", bench["b"])
    assert "cycle" in bench.refused([(bench["a"], new.outputs[0])], [new])


def test_positions_stay_exact_over_many_edits_at_one_place():
    bench = Bench(CHAIN)
    for _ in range(100):
        new = bench.make("Neg", bench["b"])
        bench.replace([(bench["b"], new.outputs[0])], [new])
    labels = [bench.facts.order.label(bench.graph, node) for node in bench.graph]
    assert labels == sorted(labels)
    assert len(set(labels)) == len(labels) == 104
    assert run(bench.proto(), x=np.float32([-4, 9]))[0].tolist() == [-4, -9]


def test_random_edits_keep_the_model_valid():
    """Replace random values by new nodes over random operands; valid or refused, each time."""
    random = np.random.default_rng(3)
    nodes = [helper.make_node("Neg", ["x"], ["v0"])]
    for i in range(1, 40):
        operands = [f"v{int(random.integers(i))}" for _ in range(2)]
        nodes.append(helper.make_node("Add", operands, [f"v{i}"]))
    bench = Bench(model(nodes, [value("x")], [value("v39"), value("v20")]))
    done = refused = 0
    for _ in range(300):
        everything = [v for node in bench.graph for v in node.outputs]
        picked = [everything[int(i)] for i in random.integers(len(everything), size=5)]
        new = bench.make("Sub", *picked[:2])
        count = int(random.integers(1, 4))
        roots = [(old, new.outputs[0]) for old in picked[2 : 2 + count]]
        made = edit.replace(bench.facts, bench.graph, roots, [new])
        if isinstance(made, edit.Refused):
            edit.discard([new])
            refused += 1
        elif random.integers(4) == 0:
            made.undo()
        else:
            made.finish()
            done += 1
        assert list(validate.problems(bench.loaded.model)) == []
    assert done > 20
    assert refused > 20
    bench.proto()


# --- refusals and undo -------------------------------------------------------------------------


def test_undo_restores_everything():
    source = parsed(SIBLINGS)
    source.graph.value_info.append(value("a", (2, 2)))
    source.graph.quantization_annotation.add(tensor_name="c")
    bench = Bench(source)
    before = bench.text()
    product, split = merged(bench)
    roots = list(zip((bench["a"], bench["c"]), split.outputs, strict=True))
    bench.replace(roots, [product, split]).undo()
    made = io.to_proto(bench.loaded)
    assert differences(onnx.ModelProto.FromString(before), made) == []
    validate.check_graph(bench.loaded)
    bench.replace([(bench["y"], bench["x"])]).undo()
    bench.replace([(bench["y"], bench["b"])]).undo()
    assert differences(onnx.ModelProto.FromString(before), io.to_proto(bench.loaded)) == []


def test_foreign_values_are_refused():
    bench = Bench("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { y = If (c) <then_branch = t () => (float[1] r) { p = Neg (x)  r = Neg (p) },
                    else_branch = e () => (float[1] q) { q = Abs (x) }> }""")
    other = bench["q"].producer().graph
    new = bench.make("Neg", bench["p"], graph=other)
    assert "'p'" in bench.refused([(bench["q"], new.outputs[0])], [new], graph=other)
    assert bench.refused([(bench["x"], bench["y"])])
    assert bench.refused([(bench["r"], bench["x"])])


def test_value_of_a_removed_node_is_refused():
    bench = Bench(CHAIN)
    gone = bench["b"]
    bench.replace([(bench["b"], bench["x"])]).finish()
    assert gone.producer().graph is None
    assert "no graph" in bench.refused([(bench["y"], gone)])


def test_parameter_of_a_function_cannot_become_an_operand():
    bench = Bench("""<ir_version: 9, opset_import: ["": 11, "my": 1]>
      g (float[1] x) => (y) { y = my.f <a = [0]> (x) }
      <opset_import: ["": 11], domain: "my">
      f <a> (v) => (w) { w = Squeeze <axes: ints = @a> (v) }""")
    body = next(iter(bench.loaded.model.functions.values())).graph
    operands = bench.facts.operands(next(iter(body)))
    axes = operands[1]
    new = bench.make("Reshape", bench["v"], axes, graph=body)
    assert "parameter" in bench.refused([(bench["w"], new.outputs[0])], [new], graph=body)
    same = bench.make("Unsqueeze", *operands, graph=body)
    assert same.attributes["axes"].is_ref()
    bench.replace([(bench["w"], same.outputs[0])], [same], graph=body).finish()
    assert io.to_proto(bench.loaded).functions[0].node[0].attribute[0].ref_attr_name == "a"
