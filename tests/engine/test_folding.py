"""Constants computed ahead, shapes followed, and what is left alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewrite import apply
from rewrite.engine.folding import Folder
from rewrite.engine.journal import Log
from rewrite.engine.limits import Limits, Options
from rewrite.graph import io
from rewrite.graph.tensors import ComputedTensor
from rewrite.match.deferred import Arithmetic


def constants(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def test_nodes_of_constants_are_computed(rewriter, outputs):
    text = (
        "g (float[2] a) => (float[2] y) <float[2] p = {1, 2}, float[2] q = {3, 5}> "
        "{ s = Add(p, q) t = Neg(s) y = Mul(a, t) }"
    )
    found = rewriter("", text, fold=True)
    assert found.ops == ["Mul"]
    assert [v.tolist() for v in constants(found.model).values()] == [[-4, -7]]
    assert [f.operator for f in found.journal.folded] == ["Add", "Neg"]
    assert found.ledger.total.kind == "exact"


def test_a_graph_output_that_is_constant(rewriter, outputs):
    found = rewriter("", "g () => (float[2] y) <float[2] p = {1, 2}> { y = Neg(p) }", fold=True)
    assert found.ops == []
    assert found.model.graph.output[0].name == "y"
    assert constants(found.model)["y"].tolist() == [-1, -2]


def test_scalars_and_strings(rewriter):
    text = (
        "g (float a, string[2] t) => (float y, bool[2] e, bool[2] f) "
        '<float p = {2}, float q = {3}, string[2] s = {"a", "b"}, string[2] u = {"a", "b"}> '
        "{ r = Mul(p, q) y = Add(a, r) e = Equal(t, s) f = Equal(t, u) }"
    )
    found = rewriter("", text, opset=19, fold=True, tidy=True)
    assert sorted(found.ops) == ["Add", "Equal", "Equal"]
    (value,) = (t for t in found.model.graph.initializer if t.data_type == 1)
    assert numpy_helper.to_array(value).shape == ()
    assert sum(t.data_type == 8 for t in found.model.graph.initializer) == 1


def test_transcendental_functions_are_not_exact(rewriter):
    text = "g (float[2] a) => (float[2] y) <float[2] p = {1, 2}> { s = Exp(p) y = Mul(a, s) }"
    found = rewriter("", text, fold=True)
    assert found.ops == ["Mul"]
    assert found.ledger.total.kind == "equal"
    assert 0 < found.ledger.total.rtol < 1e-5


def test_operators_without_a_declaration_go_to_the_reference_evaluator(rewriter):
    text = (
        "g (float[2,2] a) => (float[2,2] y) <float[2,2] p = {2, 1, 1, 3}> "
        "{ s = Det(p) y = Mul(a, s) }"
    )
    found = rewriter("", text, fold=True)
    assert found.ops == ["Mul"]
    (value,) = constants(found.model).values()
    assert value == pytest.approx(5.0)
    assert found.journal.folded[0].bound.kind == "equal"


def test_random_operators_stay(rewriter):
    text = (
        "g (float[2] a) => (float[2] y) <float[2] p = {1, 2}> "
        "{ r = RandomNormalLike(p) y = Add(a, r) }"
    )
    assert rewriter("", text, fold=True).ops == ["RandomNormalLike", "Add"]


def test_quantized_weights_stay_quantized(rewriter):
    text = (
        "g (float[2] a) => (float[2] y) <int8[2] w = {1, 2}, float s = {0.5}, int8 z = {0}> "
        "{ d = DequantizeLinear(w, s, z) y = Mul(a, d) }"
    )
    assert rewriter("", text, fold=True).ops == ["DequantizeLinear", "Mul"]


def test_overridable_initializers_are_not_constant(rewriter, parse_model):
    model = parse_model(
        "g (float[2] a) => (float[2] y) <float[2] p = {1, 2}> { s = Neg(p) y = Mul(a, s) }"
    )
    model.graph.input.append(onnx.helper.make_tensor_value_info("p", 1, [2]))
    assert rewriter("", model, fold=True).ops == ["Neg", "Mul"]


def test_constant_nodes_are_constants(rewriter):
    text = (
        "g (float[2] a) => (float[2] y) "
        "{ p = Constant<value_floats = [1.0, 2.0]>() s = Neg(p) y = Mul(a, s) }"
    )
    found = rewriter("", text, fold=True)
    assert "Neg" not in found.ops


# --- budgets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        ("b = ConstantOfShape(n) y = Add(a, b)", "ConstantOfShape"),
        ("b = Expand(one, n) y = Add(a, b)", "Expand"),
        ("b = Tile(row, k) y = Add(a, b)", "Tile"),
    ],
)
def test_a_constant_of_gigabytes_is_not_allocated(rewriter, body, operator):
    text = (
        "g (float[N, 1] a) => (float[N, M] y) "
        "<int64[2] n = {100000, 100000}, float one = {1}, float[1,4] row = {1,2,3,4}, "
        f"int64[2] k = {{100000, 100000}}> {{ {body} }}"
    )
    found = rewriter("", text, fold=True)
    assert operator in found.ops
    assert any("bytes" in reason for reason in found.reasons)


def test_range_of_gigabytes_is_not_allocated(rewriter):
    text = (
        "g (int64[1] a) => (int64[N] y) <int64 s = {0}, int64 e = {10000000000}, int64 d = {1}> "
        "{ r = Range(s, e, d) y = Add(a, r) }"
    )
    found = rewriter("", text, fold=True)
    assert found.ops == ["Range", "Add"]
    assert found.reasons


def test_the_sum_of_new_constants_is_limited(rewriter):
    names = [f"v{i}" for i in range(20)]
    body = " ".join(f"{n} = Expand(one, n{i})" for i, n in enumerate(names))
    sizes = ", ".join(f"int64[1] n{i} = {{{1000 + i}}}" for i in range(20))
    outs = ", ".join(f"float[{1000 + i}] {n}" for i, n in enumerate(names))
    text = f"g (float a) => ({outs}) <float one = {{1}}, {sizes}> {{ {body} }}"
    found = rewriter("", text, fold=True, limits=Limits(bytes=20_000))
    assert 1 <= found.ops.count("Expand") < 20
    assert any("may be added" in reason or "bytes" in reason for reason in found.reasons)


def with_sparse(size: int) -> onnx.ModelProto:
    """y = x + sum(-s) where `s` is a square sparse constant with one element, the number 2."""
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [2.0])
    places = helper.make_tensor("places", TensorProto.INT64, [1], [5])
    graph = helper.make_graph(
        [
            helper.make_node("Neg", ["s"], ["t"]),
            helper.make_node("ReduceSum", ["t"], ["u"], keepdims=0),
            helper.make_node("Add", ["x", "u"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        sparse_initializer=[helper.make_sparse_tensor(values, places, [size, size])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def test_a_sparse_constant_of_gigabytes_is_not_made_dense():
    """A few bytes in the file are 64 GB when dense: what the result may cost is another matter."""
    small = apply(with_sparse(4))
    assert [node.op_type for node in small.model.graph.node] == ["Add"]
    (folded,) = constants(small.model).values()
    assert folded == -2.0
    large = apply(with_sparse(1 << 17))
    assert [node.op_type for node in large.model.graph.node] == ["Neg", "ReduceSum", "Add"]
    assert any("sparse" in refused.reason for refused in large.journal.refused)


# --- shapes ------------------------------------------------------------------------------------


def test_the_shape_of_a_known_shape(rewriter):
    text = "g (float[2,3] a) => (int64[2] y) { b = Relu(a) y = Shape(b) }"
    found = rewriter("", text, fold=True, tidy=True)
    assert found.ops == []
    assert constants(found.model)["y"].tolist() == [2, 3]


def test_a_part_of_a_shape_that_is_known(rewriter, outputs):
    text = (
        "g (float[N,3,5] a) => (float[N,15] y) "
        "<int64 i = {1}, int64 j = {2}, int64[1] ax = {0}, int64[1] m = {-1}> "
        "{ s = Shape(a) p = Gather(s, i) q = Gather(s, j) r = Mul(p, q) u = Unsqueeze(r, ax) "
        "  c = Concat<axis=0>(m, u) y = Reshape(a, c) }"
    )
    found = rewriter("", text, fold=True, tidy=True)
    assert found.ops == ["Reshape"]
    assert [v.tolist() for v in constants(found.model).values()] == [[-1, 15]]
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
    np.testing.assert_array_equal(outputs(found.model, a=x)[0], x.reshape(2, 15))


def test_an_unknown_part_of_a_shape_stays(rewriter):
    text = "g (float[N,3] a) => (int64 y) <int64 i = {0}> { s = Shape(a) y = Gather(s, i) }"
    assert rewriter("", text, fold=True).ops == ["Shape", "Gather"]


def test_division_of_sizes_is_not_guessed(rewriter):
    """(N - 5) / 2 truncates towards zero, a floor would not."""
    text = (
        "g (float[N] a) => (int64[1] y) <int64[1] five = {5}, int64[1] two = {2}> "
        "{ s = Shape(a) t = Sub(s, five) y = Div(t, two) }"
    )
    assert rewriter("", text, fold=True).ops == ["Shape", "Sub", "Div"]


# --- branches ----------------------------------------------------------------------------------

BRANCHES = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[1,2] a, float[2] w) => (float[2] y, float[2] z) <bool c = {%d}, float[2] k = {1, 1}>
{
  r = Relu(w)
  y = If (c) <
    then_branch = t () => (float[2] p) <int64[1] ax = {0}> { u = Squeeze(a, ax) p = Add(u, k) },
    else_branch = e () => (float[2] p) <float[2] k2 = {7, 8}> { u = Squeeze(a) p = Sub(u, k2) }
  >
  u = Neg(r)
  z = Abs(u)
}
"""


@pytest.mark.parametrize("taken", [1, 0])
def test_a_known_branch_is_inlined_with_its_initializers(rewriter, outputs, taken):
    found = rewriter("", BRANCHES % taken, fold=True, tidy=True)
    assert "If" not in found.ops
    a, w = np.float32([[3, 4]]), np.float32([-1, 2])
    y, z = outputs(found.model, a=a, w=w)
    np.testing.assert_array_equal(y, [4, 5] if taken else [-4, -4])
    np.testing.assert_array_equal(z, [0, 2])


def test_a_branch_that_gives_an_outer_value(rewriter, outputs):
    text = """
    <ir_version: 10, opset_import: ["" : 18]>
    g (float[2] a) => (float[2] y) <bool c = {1}> {
      r = Relu(a)
      y = If (c) <
        then_branch = t () => (float[2] p) { p = Identity(r) },
        else_branch = e () => (float[2] q) { q = Neg(r) }
      >
    }
    """
    found = rewriter("", text, fold=True)
    assert "If" not in found.ops
    np.testing.assert_array_equal(outputs(found.model, a=np.float32([-1, 2]))[0], [0, 2])


def test_only_exact_folds_under_that_limit(parse_model):
    from rewrite.engine import driver
    from rewrite.graph import io
    from rewrite.match.matcher import Matcher
    from tests.engine.conftest import TARGET

    model = parse_model(
        "g (float[2] a) => (float[2] y) <float[2] p = {1, 2}> "
        "{ s = Exp(p) t = Neg(s) u = Neg(p) v = Add(t, u) y = Mul(a, v) }"
    )
    loaded = io.load(model)
    driver.run(loaded, Matcher([], TARGET), TARGET, options=Options(max_class="exact"))
    assert [n.op_type for n in io.to_proto(loaded).graph.node] == ["Exp", "Neg", "Add", "Mul"]


def test_an_output_of_another_shape_than_declared_is_not_folded() -> None:
    """Onnxruntime warns and runs such a model; with an initializer as output it would not load."""
    text = """
    <ir_version: 8, opset_import: ["" : 15]>
    g (float[2,2] x) => (int64[2,2] y) { s = Shape(x)  y = Add(s, s) }
    """
    result = apply(onnx.parser.parse_model(text))
    assert [node.op_type for node in result.model.graph.node] == ["Add"]
    assert "another shape" in result.journal.refused[0].reason


def test_what_is_in_no_memory_frees_none():
    """A constant that is computed when it is read takes none before it is folded."""
    w = np.ones((300, 300), np.float32)
    text = (
        '<ir_version: 8, opset_import: ["" : 18]> g (float[300] x) => (float[300, 300] y) '
        "{ t = Transpose<perm = [1, 0]>(w) y = Add(t, x) }"
    )
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(w, "w"))
    late = ComputedTensor(Arithmetic(np.add, w, w, w.shape), ir.DataType.FLOAT)
    for tensor, freed in ((None, w.nbytes), (late, 0)):
        loaded = io.load(proto)
        if tensor is not None:
            loaded.model.graph.initializers["w"].const_value = tensor
        folder = Folder(loaded.facts, Log(), Limits(), Options(), w.nbytes)
        cost = folder._cost(loaded.model.graph[0])
        assert (cost.read, cost.freed) == (w.nbytes, freed)
