"""Nodes become local functions; the model computes the same."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphkit import parsed, run, run_runtime
from onnx import inliner

from rewrite.graph import io, validate
from rewrite.graph.model import LoadedModel
from rewrite.graph.outline import Outlined, Refused, outline

TWICE = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2, 2] x) => (float[2, 2] y, float[2, 2] z)
<float[2, 2] v = {1, 2, 3, 4}, float[2, 2] w = {5, 6, 7, 8},
 float half = {0.5}, float[1] other = {0.25}>
{ a = MatMul (x, v)  b = Mul (a, half)  c = Relu (b)
  d = MatMul (c, w)  e = Mul (d, half)  y = Relu (e)
  k = MatMul (c, w)  l = Mul (k, other)  z = Relu (l) }"""


def grouped(loaded: LoadedModel, names: str, outputs: str, **more) -> Outlined | Refused:
    graph = loaded.model.graph
    by_output = {v.name: node for node in graph for v in node.outputs}
    nodes = [by_output[n] for n in names.split()]
    values = [v for node in nodes for v in node.outputs if v.name in outputs.split()]
    return outline(loaded.facts, graph, nodes, values, "rewrite.test", "Group", **more)


def test_equal_bodies_share_a_function_and_names_are_numbered():
    source = parsed(TWICE)
    loaded = io.load(source)
    for names, output in (("a b c", "c"), ("d e y", "y"), ("k l z", "z")):
        made = grouped(loaded, names, output, rule="mm")
        assert isinstance(made, Outlined)
        assert len(made.removed) == 3
    validate.check_graph(loaded)
    proto = io.to_proto(loaded)
    assert [n.op_type for n in proto.graph.node] == ["Group", "Group", "Group_2"]
    assert [f.name for f in proto.functions] == ["Group", "Group_2"]
    assert {o.domain: o.version for o in proto.opset_import} == {"": 17, "rewrite.test": 1}
    assert sorted(i.name for i in proto.graph.initializer) == ["v", "w"]
    props = {p.key: p.value for p in proto.graph.node[0].metadata_props}
    assert props["rewrite.rule"] == "mm"
    x = np.float32([[1, -2], [3, 4]])
    expected = [v.tolist() for v in run(source, x=x)]
    assert [v.tolist() for v in run_runtime(proto, x=x)] == expected
    assert [v.tolist() for v in run(inliner.inline_local_functions(proto), x=x)] == expected


def test_small_constants_go_inside_and_large_ones_become_inputs():
    loaded = io.load(parsed(TWICE))
    made = grouped(loaded, "a b c", "c")
    assert isinstance(made, Outlined)
    assert [v.name for v in made.call.inputs if v] == ["x", "v"]
    assert [n.op_type for n in made.function.graph] == ["Constant", "MatMul", "Mul", "Relu"]


def test_several_outputs():
    source = parsed(TWICE)
    loaded = io.load(source)
    assert isinstance(grouped(loaded, "c d k", "c d k"), Outlined)
    x = np.float32([[1, -2], [3, 4]])
    got = run_runtime(io.to_proto(loaded), x=x)
    assert [v.tolist() for v in got] == [v.tolist() for v in run(source, x=x)]


@pytest.mark.parametrize(
    ("names", "outputs", "words"),
    [("a b d", "d", "'b'"), ("a", "", "output"), ("a d", "a d", "cycle")],
)
def test_refused(names, outputs, words):
    loaded = io.load(parsed(TWICE))
    before = io.to_proto(loaded).SerializeToString(deterministic=True)
    made = grouped(loaded, names, outputs)
    assert isinstance(made, Refused)
    assert words in made.reason
    assert io.to_proto(loaded).SerializeToString(deterministic=True) == before
    assert not loaded.model.functions


def test_nodes_with_subgraphs_are_refused():
    loaded = io.load(
        parsed("""<ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y)
      { y = If (c) <then_branch = t () => (float[1] r) { r = Neg (x) },
                    else_branch = e () => (float[1] q) { q = Abs (x) }> }""")
    )
    made = grouped(loaded, "y", "y")
    assert isinstance(made, Refused)
    assert "subgraph" in made.reason


def test_operators_that_the_opset_does_not_have_are_refused():
    loaded = io.load(
        parsed("""<ir_version: 8, opset_import: ["": 12]>
      g (float[2] x) => (float[2] y) <float[2] s = {1, 1}>
      { a = Neg (x)  y = LayerNormalization (a, s) }""")
    )
    made = grouped(loaded, "a y", "y")
    assert isinstance(made, Refused)
    assert "LayerNormalization" in made.reason


def test_attributes_optional_operands_and_domains_are_kept():
    source = parsed("""<ir_version: 10, opset_import: ["": 20, "com.microsoft": 1]>
      g (float[1, 2, 4, 4] x) => (float[1, 2, 2, 2] y) <float h = {3}>
      { p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        q = Clip (p, , h)  y = com.microsoft.Gelu (q) }""")
    loaded = io.load(source)
    made = grouped(loaded, "p q y", "y")
    assert isinstance(made, Outlined)
    assert made.function.opset_imports == {"": 20, "com.microsoft": 1}
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4) / 10
    got, expected = run_runtime(io.to_proto(loaded), x=x)[0], run_runtime(source, x=x)[0]
    assert np.array_equal(got, expected)


def test_bodies_differ_by_attribute_constant_and_wiring():
    loaded = io.load(
        parsed("""<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x, float[2] u) => (a2, b2, c2, d2, e2)
      <float p = {0.0}, float m = {-0.0}>
      { a1 = Add (x, p)  a2 = LeakyRelu <alpha = 0.5> (a1)
        b1 = Add (x, m)  b2 = LeakyRelu <alpha = 0.5> (b1)
        c1 = Add (x, p)  c2 = LeakyRelu <alpha = 0.25> (c1)
        d1 = Add (p, x)  d2 = LeakyRelu <alpha = 0.5> (d1)
        e1 = Add (u, p)  e2 = LeakyRelu <alpha = 0.5> (e1) }""")
    )
    names = []
    for letter in "abcde":
        made = grouped(loaded, f"{letter}1 {letter}2", f"{letter}2")
        assert isinstance(made, Outlined)
        names.append(made.function.name)
    assert names == ["Group", "Group_2", "Group_3", "Group_4", "Group"]


def test_ir_version_is_raised_for_functions():
    loaded = io.load(
        parsed("""<ir_version: 3, opset_import: ["": 8]>
      g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { a = Mul (x, w)  y = Neg (a) }""")
    )
    assert isinstance(grouped(loaded, "a y", "y"), Outlined)
    proto = io.to_proto(loaded)
    assert proto.ir_version == 8
    assert [i.name for i in proto.graph.input] == ["x"]
    assert len(loaded.notes) == 1
    onnx.checker.check_model(proto)
    assert run_runtime(proto, x=np.float32([3, 4]))[0].tolist() == [-3, -8]


def test_inside_a_function_and_with_names_taken():
    source = parsed("""<ir_version: 9, opset_import: ["": 18, "rewrite.test": 1]>
      g (float[2] x) => (float[2] y) { y = rewrite.test.Group (x) }
      <opset_import: ["": 18], domain: "rewrite.test">
      Group (v) => (w) { t = Neg (v)  u = Abs (t)  w = Neg (u) }""")
    loaded = io.load(source)
    body = next(iter(loaded.model.functions.values())).graph
    nodes = list(body)[:2]
    made = outline(loaded.facts, body, nodes, [nodes[1].outputs[0]], "rewrite.test", "Group")
    assert isinstance(made, Outlined)
    assert made.function.name == "Group_2"
    assert loaded.model.graph.opset_imports["rewrite.test"] == 1
    proto = io.to_proto(loaded)
    onnx.checker.check_model(proto)
    assert run_runtime(proto, x=np.float32([3, -4]))[0].tolist() == [-3, -4]
    assert isinstance(made.call, ir.Node)


def test_uses_of_parameters_are_refused():
    loaded = io.load(
        parsed("""<ir_version: 9, opset_import: ["": 18, "my": 1]>
      g (float[2] x) => (float[2] y) { y = my.f <a = 0.5> (x) }
      <opset_import: ["": 18], domain: "my">
      f <a> (v) => (w) { w = LeakyRelu <alpha: float = @a> (v) }""")
    )
    body = next(iter(loaded.model.functions.values())).graph
    made = outline(loaded.facts, body, list(body), list(body.outputs), "rewrite.test", "Group")
    assert isinstance(made, Refused)
    assert "parameter" in made.reason
