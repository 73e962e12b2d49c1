"""`emit ... group y as Name { attributes }`: run by onnxruntime, attributes as ONNX has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.engine.conftest import TARGET

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
MODEL = """
g (float[3,4] x) => (float[3,4] y, float[3,4] z)
<float[4] w = {1,2,3,4}, float a = {2.5}>
{ m = Mul(x, w)  y = Relu(m)  n = Mul(y, a)  z = Relu(n) }
"""


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def grouped(make_rule, attributes: str = "", phase: str = "lower") -> str:
    return make_rule(
        "y = Relu(Mul(x, W: const))",
        f"t = Max(x * W, 0) y = Identity(t) group y as Scaled {attributes}",
        phase=phase,
    )


@pytest.mark.parametrize("phase", ["lower", "group"])
def test_what_is_emitted_becomes_a_function(rewriter, make_rule, outputs, phase):
    found = rewriter(grouped(make_rule, phase=phase), MODEL)
    assert sorted(found.ops) == ["Scaled", "Scaled_2"]
    # A constant of one element is copied into the function, four elements are an input.
    assert [len(node.input) for node in found.model.graph.node] == [2, 1]
    domains = {node.domain for node in found.model.graph.node}
    assert domains == {TARGET.domain}
    assert [g.nodes for g in found.journal.groups] == [("Mul", "Max", "Identity")] * 2
    order = ["y", "z"] if phase == "lower" else ["z", "y"]  # groups are made from the end
    assert [g.node for g in found.journal.groups] == order
    assert {a.added for a in found.journal.applied} == {("Scaled",), ("Scaled_2",)}
    assert found.journal.fired() == {"r": 2}
    assert [(e.rule, e.count) for e in found.ledger.entries] == [("r", 2)]
    for before, after in zip(outputs(found.before, x=X), outputs(found.model, x=X), strict=True):
        np.testing.assert_array_equal(before, after)


def test_attributes_of_the_call_are_declared_by_the_function(rewriter, make_rule, outputs):
    given = (
        '{ ints: shape(x), int: rank(x), float: 0.1, floats: [1, 0.5], string: "same", '
        'strings: ["a", "b"], flag: true, scale: W, type: dtype(x), none: none }'
    )
    found = rewriter(grouped(make_rule, given), MODEL)
    first, second = (attributes(node) for node in found.model.graph.node)
    assert first == {
        "ints": [3, 4], "int": 2, "float": np.float32(0.1), "floats": [1, 0.5], "string": b"same",
        "strings": [b"a", b"b"], "flag": 1, "scale": [1, 2, 3, 4], "type": onnx.TensorProto.FLOAT,
    }  # fmt: skip
    assert second["scale"] == 2.5
    for function in found.model.functions:
        assert sorted(function.attribute) == sorted(first)
        assert not function.attribute_proto
    for before, after in zip(outputs(found.before, x=X), outputs(found.model, x=X), strict=True):
        np.testing.assert_array_equal(before, after)


def test_equal_bodies_share_one_function_whatever_the_attributes(rewriter, make_rule):
    model = """
    g (float[3,4] x) => (float[3,4] y) <float[4] w = {1,2,3,4}, float[4] a = {4,3,2,1}>
    { m = Mul(x, w)  r = Relu(m)  n = Mul(r, a)  y = Relu(n) }
    """
    found = rewriter(grouped(make_rule, "{ scale: W }"), model)
    assert [f.name for f in found.model.functions] == ["Scaled"]
    assert [attributes(n)["scale"] for n in found.model.graph.node] == [[1, 2, 3, 4], [4, 3, 2, 1]]


def test_a_target_without_groups_refuses(rewriter, make_rule):
    found = rewriter(grouped(make_rule), MODEL, target=replace(TARGET, groups=False))
    assert found.ops == ["Mul", "Relu", "Mul", "Relu"]
    assert found.reasons == ["target test takes no groups"] * 2
    assert not found.model.functions


@pytest.mark.parametrize(
    ("emit", "reason"),
    [
        ("t = Neg(x) y = Abs(t) c = Relu(t) group y as G", "used outside"),
        ("y = Abs(x) c = Neg(x) group y as G { big: shape(q) }", "no list"),
        ("y = x c = Neg(x) group y as G", "there is no group"),
    ],
)
def test_what_cannot_be_one_function_is_refused(rewriter, make_rule, emit, reason):
    model = """
    g (float[N,4] x) => (float[N,4] y, float[N,4] c)
    { c = Tanh(x)  q = Cosh(c) y = Sinh(q) }
    """
    if reason == "no list":
        reason = "the size N is not known"
    rules = make_rule("c = Tanh(x) q = Cosh(c) y = Sinh(q)", emit, phase="lower")
    found = rewriter(rules, model)
    assert found.ops == ["Tanh", "Cosh", "Sinh"]
    assert len(found.reasons) == 1
    assert reason in found.reasons[0]
    assert not found.model.functions


def test_rules_do_not_look_inside_groups(rewriter, make_rule):
    rules = grouped(make_rule) + make_rule("y = Identity(x)", "y = x", name="other", phase="clean")
    found = rewriter(rules, MODEL)
    again = rewriter(rules, found.model)
    assert found.model.SerializeToString() == again.model.SerializeToString()
    assert not again.journal.applied
