"""Dead code, equal constants, common subexpressions."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from rewrite.engine.cleanup import Tidier
from rewrite.engine.journal import Log
from rewrite.graph.facts import Facts
from rewrite.graph.tensors import ComputedTensor
from rewrite.match.deferred import Arithmetic


def test_dead_nodes_and_initializers_go(rewriter):
    text = (
        "g (float[2] a) => (float[2] y) <float[2] w = {1, 2}> "
        "{ b = Mul(a, w) c = Neg(b) y = Relu(a) }"
    )
    found = rewriter("", text, tidy=True)
    assert found.ops == ["Relu"]
    assert not found.model.graph.initializer


def test_equal_nodes_are_merged(rewriter, outputs):
    text = (
        "g (float[2] a) => (float[2] y) "
        "{ b = Sigmoid(a) c = Sigmoid(a) d = Neg(b) e = Neg(c) y = Add(d, e) }"
    )
    found = rewriter("", text, tidy=True)
    assert found.ops == ["Sigmoid", "Neg", "Add"]
    x = np.float32([0.5, -1])
    np.testing.assert_allclose(outputs(found.model, a=x)[0], -2 / (1 + np.exp(-x)), rtol=1e-6)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("LeakyRelu<alpha=0.0>(a)", "LeakyRelu<alpha=-0.0>(a)"),
        ("Sum(a, a)", "Sum(a)"),
        ("Softmax<axis=0>(a)", "Softmax<axis=1>(a)"),
        ("RandomNormalLike(a)", "RandomNormalLike(a)"),
    ],
)
def test_nodes_that_differ_are_kept(rewriter, first, second):
    text = f"g (float[2,2] a) => (float[2,2] y) {{ b = {first} c = {second} y = Add(b, c) }}"
    assert len(rewriter("", text, tidy=True).ops) == 3


def test_both_outputs_keep_their_names(rewriter, outputs):
    text = "g (float[2] a) => (float[2] y, float[2] z) { y = Relu(a) z = Relu(a) }"
    found = rewriter("", text, tidy=True)
    assert [o.name for o in found.model.graph.output] == ["y", "z"]
    y, z = outputs(found.model, a=np.float32([-1, 2]))
    np.testing.assert_array_equal(y, z)


def test_what_two_kept_nodes_give_besides_an_output_is_given_once(rewriter, outputs):
    text = (
        "g (float[4] a) => (float[2] p, float[2] q, float[1] y) <int64[2] n = {2, 2}> "
        "{ b, p = Split(a, n) c, q = Split(a, n) d = ReduceSum(b) e = ReduceSum(c) y = Add(d, e) }"
    )
    found = rewriter("", text, tidy=True)
    assert sorted(found.ops) == ["Add", "ReduceSum", "Split", "Split"]
    p, q, y = outputs(found.model, a=np.float32([1, 2, 3, 4]))
    np.testing.assert_array_equal(p, [3, 4])
    np.testing.assert_array_equal(q, [3, 4])
    np.testing.assert_array_equal(y, [6])


def test_the_name_of_an_output_survives_a_merge(rewriter, outputs):
    text = "g (float[2] a) => (float[2] y, float[2] w) { b = Relu(a) w = Neg(b) y = Relu(a) }"
    found = rewriter("", text, tidy=True)
    assert sorted(found.ops) == ["Neg", "Relu"]
    y, w = outputs(found.model, a=np.float32([-1, 2]))
    np.testing.assert_array_equal(y, [0, 2])
    np.testing.assert_array_equal(w, [0, -2])


def test_equal_constants_are_merged_by_content_and_type(rewriter):
    text = (
        "g (float[2] a) => (float[2] y) "
        "<float[2] p = {1, 2}, float[2] q = {1, 2}, float[2] m = {1, 3}, float[2] n = {0, 0}> "
        "{ b = Mul(a, p) c = Mul(b, q) d = Mul(c, m) y = Add(d, n) }"
    )
    found = rewriter("", text, tidy=True)
    assert len(found.model.graph.initializer) == 3
    node = found.model.graph.node
    assert node[0].input[1] == node[1].input[1]


def test_zero_and_minus_zero_are_two_constants(rewriter):
    text = (
        "g (float[1] a) => (float[1] y) <float[1] p = {0.0}, float[1] q = {-0.0}> "
        "{ b = Div(a, p) c = Div(a, q) y = Add(b, c) }"
    )
    assert len(rewriter("", text, tidy=True).ops) == 3


@pytest.mark.parametrize(("training", "left"), [(1, ["g", "m", "v"]), (0, ["g"])])
def test_statistics_that_training_updates_are_not_shared(rewriter, training, left):
    """ONNX Runtime writes the new mean and variance into the initializers it was given."""
    outputs = "y, mean, var" if training else "y"
    text = (
        f"g (float[1,2] x) => (float[1,2] y{', float[2] mean, float[2] var' if training else ''}) "
        "<float[2] g = {1, 2}, float[2] b = {1, 2}, float[2] m = {1, 2}, float[2] v = {1, 2}> "
        f"{{ {outputs} = BatchNormalization<training_mode = {training}>(x, g, b, m, v) }}"
    )
    found = rewriter("", text, tidy=True)
    assert [tensor.name for tensor in found.model.graph.initializer] == left


def test_dequantize_linear_stays_one_per_consumer(rewriter):
    text = (
        "g (uint8[2] a) => (float[2] y, float[2] z) <float s = {0.5}, uint8 p = {3}> "
        "{ b = DequantizeLinear(a, s, p) c = DequantizeLinear(a, s, p) y = Relu(b) z = Neg(c) }"
    )
    assert rewriter("", text, tidy=True).ops.count("DequantizeLinear") == 2


def test_what_a_subgraph_uses_is_alive(rewriter, outputs):
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    g (float[2] a, bool c) => (float[2] y) {
      u = Relu(a)
      v = Relu(a)
      y = If (c) <
        then_branch = t () => (float[2] p) { p = Neg(u) },
        else_branch = e () => (float[2] q) { q = Abs(v) }
      >
    }
    """
    found = rewriter("", text, tidy=True)
    assert found.ops == ["Relu", "If"]
    x = np.float32([-1, 2])
    np.testing.assert_array_equal(outputs(found.model, a=x, c=True)[0], [0, -2])
    np.testing.assert_array_equal(outputs(found.model, a=x, c=False)[0], [0, 2])


def test_constant_nodes_become_initializers(rewriter, outputs):
    text = (
        "g (float[2] a) => (float[2] y, float[2] z) "
        "{ p = Constant<value_floats = [1.0, 2.0]>() y = Mul(a, p) "
        "  z = Constant<value_floats = [3.0, 4.0]>() }"
    )
    found = rewriter("", text, tidy=True)
    assert found.ops == ["Mul"]
    y, z = outputs(found.model, a=np.float32([5, 6]))
    assert y.tolist() == [5, 12]
    assert z.tolist() == [3, 4]


def test_constant_nodes_in_functions_stay(rewriter, outputs):
    text = """
    <ir_version: 10, opset_import: ["" : 18, "own" : 1]>
    g (float[2] a) => (float[2] y) { y = own.f(a) }
    <domain: "own", opset_import: ["" : 18]>
    f (x) => (z) { c = Constant<value_float = 2.0>() z = Mul(x, c) }
    """
    found = rewriter("", text, tidy=True)
    assert [n.op_type for n in found.model.functions[0].node] == ["Constant", "Mul"]
    assert outputs(found.model, a=np.float32([5, 6]))[0].tolist() == [10, 12]


@pytest.mark.parametrize("ir", [3, 10])
def test_before_ir_4_constants_stay_nodes(rewriter, parse_model, outputs, ir):
    model = parse_model(
        "g (float[2] a) => (float[2] y) "
        "{ p = Constant<value_floats = [1.0, 2.0]>() y = Mul(a, p) }",
        12,
        ir,
    )
    found = rewriter("", model, tidy=True)
    assert found.model.ir_version == ir
    assert found.ops == (["Constant", "Mul"] if ir == 3 else ["Mul"])
    assert outputs(found.model, a=np.float32([5, 6]))[0].tolist() == [5, 12]


def test_constants_computed_alike_are_one():
    """Two weights that follow in one way from the same data are one; from other data, two."""
    a, b = (np.random.default_rng(k).standard_normal((300, 300)).astype(np.float32) for k in (1, 2))
    half = np.asarray(np.float32(0.5))

    def scaled(array: np.ndarray) -> ComputedTensor:
        recipe = Arithmetic(np.multiply, array, half, array.shape)
        return ComputedTensor(recipe, ir.DataType.FLOAT)

    text = (
        '<ir_version: 8, opset_import: ["" : 18]> g (float[2, 300] x) => (float[2, 300] y) '
        "<float[1] u = {1}, float[1] v = {2}, float[1] w = {3}> "
        "{ p = MatMul(x, u) q = MatMul(p, v) y = MatMul(q, w) }"
    )
    model = ir.from_proto(onnx.parser.parse_model(text))
    for name, array in (("u", a), ("v", a), ("w", b)):
        value = model.graph.initializers[name]
        value.const_value, value.shape = scaled(array), ir.Shape(array.shape)
    facts = Facts(model)
    Tidier(facts, Log()).run()
    assert [node.inputs[1].name for node in model.graph] == ["u", "u", "w"]
    assert set(model.graph.initializers) == {"u", "w"}
    kept = [value.const_value for value in model.graph.initializers.values()]
    assert all(isinstance(t, ComputedTensor) and t._elements is None for t in kept)  # not computed
