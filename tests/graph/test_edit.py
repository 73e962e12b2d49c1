"""Replacing values: the model computes the same, names stay, and refusals change nothing."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from conftest import FLOAT, model, parsed, run, run_runtime, value
from onnx import helper

from rewrite.graph import compare, dead, edit, io, order, validate
from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel


class Bench:
    """A model under edit, its values by name."""

    def __init__(self, text: str | onnx.ModelProto) -> None:
        self.source = parsed(text) if isinstance(text, str) else text
        self.loaded: LoadedModel = io.load(self.source)
        self.facts: Facts = self.loaded.facts
        self.graph: ir.Graph = self.loaded.model.graph

    def __getitem__(self, name: str) -> ir.Value:
        for graph in self.facts.graphs():
            for v in (*graph.inputs, *graph.initializers.values()):
                if v.name == name:
                    return v
            for node in graph:
                for v in node.outputs:
                    if v.name == name:
                        return v
        raise KeyError(name)

    def make(
        self, op: str, *operands: ir.Value | None, graph: ir.Graph | None = None, **attributes
    ) -> ir.Node:
        made = edit.make_node(self.facts, graph or self.graph, "", op, operands, attributes)
        assert isinstance(made, ir.Node), made
        return made

    def constant(self, array: object, hint: str = "k") -> ir.Value:
        return edit.new_constant(self.facts, np.asarray(array), hint)

    def replace(self, roots, nodes=(), graph=None, matched=()) -> edit.Replacement:
        done = edit.replace(self.facts, graph or self.graph, roots, nodes, matched)
        assert isinstance(done, edit.Replacement), done
        return done

    def refused(self, roots, nodes=(), graph=None) -> str:
        before = self.text()
        done = edit.replace(self.facts, graph or self.graph, roots, nodes)
        assert isinstance(done, edit.Refused)
        edit.discard(nodes)
        assert self.text() == before
        return done.reason

    def proto(self) -> onnx.ModelProto:
        validate.check_graph(self.loaded)
        return io.to_proto(self.loaded)

    def text(self) -> bytes:
        return io.to_proto(self.loaded).SerializeToString(deterministic=True)

    def ops(self) -> list[str]:
        return [node.op_type for node in self.graph]


CHAIN = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2] x) => (float[2] y)
{ a = Neg (x)  b = Abs (a)  c = Relu (b)  y = Neg (c) }"""


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

SIBLINGS = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] v = {1, 2, 3, 4}, float[2, 2] w = {5, 6, 7, 8}>
{ a = MatMul (x, v)  b = Neg (a)  c = MatMul (x, w)  d = Abs (c)  y = Add (b, d) }"""


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
    assert compare.differences(onnx.ModelProto.FromString(before), made) == []
    validate.check_graph(bench.loaded)
    bench.replace([(bench["y"], bench["x"])]).undo()
    bench.replace([(bench["y"], bench["b"])]).undo()
    assert compare.differences(onnx.ModelProto.FromString(before), io.to_proto(bench.loaded)) == []


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
