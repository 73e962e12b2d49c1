"""The pack `fusion` as a whole: every spelling of a function finds its operator.

Right values come from numpy and `math`, in float64, of the function that the operator is named
for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rewrite as package
from rewrite.api import matcher_for
from rewrite.engine import driver
from rewrite.graph import io
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

Rewrite = Callable[..., Any]
Run = Callable[..., list[np.ndarray]]
Array = np.ndarray[Any, Any]

CONSTANTS = {
    "half": 0.5, "one": 1.0, "three": 3.0, "root2": math.sqrt(2.0), "cubic": 0.044715,
    "scale": math.sqrt(2.0 / math.pi),
}  # fmt: skip
RANKS: tuple[tuple[int, ...], ...] = ((), (1,), (1, 1, 1))
DTYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


# --- all spellings of GELU ---------------------------------------------------------------------


class Spelling:
    """Nodes of one spelling, built from the inside out."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []

    def node(self, op: str, *operands: str) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name]))
        return name

    def model(self, root: str, dtype: str, shape: tuple[int, ...]) -> onnx.ModelProto:
        """The spelling as a model of opset 20, constants of that shape."""
        self.nodes[-1].output[0] = "y"
        assert root == f"v{len(self.nodes) - 1}"
        used = {name for node in self.nodes for name in node.input}
        constants = [
            numpy_helper.from_array(np.full(shape, value, dtype), name)
            for name, value in CONSTANTS.items()
            if name in used
        ]
        kind = DTYPES[dtype]
        x = helper.make_tensor_value_info("x", kind, [2, 3, "N"])
        y = helper.make_tensor_value_info("y", kind, [2, 3, "N"])
        graph = helper.make_graph(self.nodes, "gelu", [x], [y], constants)
        opset = helper.make_opsetid("", 20)
        return helper.make_model(graph, opset_imports=[opset], ir_version=10)


def _either(flip: bool, a: str, b: str) -> tuple[str, str]:
    return (b, a) if flip else (a, b)


def _products_of_three(make: Spelling, a: str, b: str, c: str, which: int, flips: Any) -> str:
    """(a b) c, (a c) b or (b c) a, each Mul in either order."""
    first, second, last = ((a, b, c), (a, c, b), (b, c, a))[which]
    inner = make.node("Mul", *_either(flips[0], first, second))
    return make.node("Mul", *_either(flips[1], inner, last))


def erf_spellings() -> Iterator[tuple[Spelling, str]]:
    """x/2 (1 + erf(x/√2)): 3 associations, 2 orders of each of 3 commutative nodes: 24."""
    for which, *flips in itertools.product(range(3), *([(False, True)] * 3)):
        make = Spelling()
        erf = make.node("Erf", make.node("Div", "x", "root2"))
        plus = make.node("Add", *_either(flips[0], "one", erf))
        yield make, _products_of_three(make, "half", "x", plus, which, flips[1:])


def tanh_spellings() -> Iterator[tuple[Spelling, str]]:
    """x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))): 3 associations, 6 commutative nodes: 192."""
    for which, *flips in itertools.product(range(3), *([(False, True)] * 6)):
        make = Spelling()
        cube = make.node("Pow", "x", "three")
        cubic = make.node("Mul", *_either(flips[0], "cubic", cube))
        inner = make.node("Add", *_either(flips[1], "x", cubic))
        scaled = make.node("Mul", *_either(flips[2], "scale", inner))
        tanh = make.node("Tanh", scaled)
        plus = make.node("Add", *_either(flips[3], "one", tanh))
        yield make, _products_of_three(make, "half", "x", plus, which, flips[4:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RANKS, ids=str)
@pytest.mark.parametrize(
    ("spellings", "count", "approximate"),
    [(erf_spellings, 24, "none"), (tanh_spellings, 192, "tanh")],
    ids=["erf", "tanh"],
)
def test_every_spelling_of_gelu_is_one_gelu(
    spellings: Callable[[], Iterator[tuple[Spelling, str]]],
    count: int,
    approximate: str,
    shape: tuple[int, ...],
    dtype: str,
) -> None:
    target = load_target("generic", vocabulary())
    matcher = matcher_for(target)
    texts = set()
    for make, root in spellings():
        model = make.model(root, dtype, shape)
        texts.add(model.SerializeToString())
        loaded = io.load(model)
        driver.run(loaded, matcher, target)
        nodes = list(io.to_proto(loaded).graph.node)
        assert [node.op_type for node in nodes] == ["Gelu"], onnx.printer.to_text(model)
        assert list(nodes[0].input) == ["x"]
        assert helper.get_node_attr_value(nodes[0], "approximate").decode() == approximate
    assert len(texts) == count


def test_gelu_keeps_its_values(run: Run) -> None:
    x = np.linspace(-6, 6, 97, dtype=np.float32)[:96].reshape(2, 3, 16)
    wide = x.astype(np.float64)
    exact = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(wide)
    cubic = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    tanh = 0.5 * wide * (1 + np.tanh(cubic))
    for spellings, right in ((erf_spellings, exact), (tanh_spellings, tanh)):
        make, root = next(iter(spellings()))
        model = package.apply(make.model(root, "float32", ()), target="generic").model
        np.testing.assert_allclose(run(model, {"x": x})[0], right, rtol=0, atol=3e-6)


# --- other functions ---------------------------------------------------------------------------


def _silu(v: Array) -> Array:
    return v / (1 + np.exp(-v))


def _softplus(v: Array) -> Array:
    return np.logaddexp(v, 0)


FUNCTIONS: tuple[tuple[str, int, str, str, Callable[[Array], Array]], ...] = (
    ("Swish", 24, "", "s = Sigmoid(x)  y = Mul(s, x)", _silu),
    (
        "HardSwish",
        14,
        "<float t = {3}, float z = {0}, float six = {6}>",
        "a = Add(t, x)  c = Clip(a, z, six)  d = Div(c, six)  y = Mul(d, x)",
        lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
    ),
    (
        "HardSigmoid",
        14,
        "<float t = {3}, float z = {0}, float six = {6}>",
        "a = Add(t, x)  c = Clip(a, z, six)  y = Div(c, six)",
        lambda v: np.clip(v / 6 + 0.5, 0, 1),
    ),
    (
        "Mish",
        18,
        "<float o = {1}>",
        "e = Exp(x)  s = Add(e, o)  l = Log(s)  t = Tanh(l)  y = Mul(x, t)",
        lambda v: v * np.tanh(_softplus(v)),
    ),
    ("Softplus", 18, "<float o = {1}>", "e = Exp(x)  s = Add(o, e)  y = Log(s)", _softplus),
    (
        "Sigmoid",
        18,
        "<float o = {1}>",
        "n = Neg(x)  e = Exp(n)  s = Add(o, e)  y = Div(o, s)",
        lambda v: 1 / (1 + np.exp(-v)),
    ),
    (
        "LeakyRelu",
        18,
        "<float a = {0.1}>",
        "m = Mul(a, x)  y = Max(x, m)",
        lambda v: np.maximum(v, 0.1 * v),
    ),
    (
        "Elu",
        18,
        "<float z = {0}, float o = {1}>",
        "p = Greater(x, z)  e = Exp(x)  m = Sub(e, o)  y = Where(p, x, m)",
        lambda v: np.where(v > 0, v, np.expm1(v)),
    ),
    ("Softsign", 18, "<float o = {1}>", "a = Abs(x)  s = Add(o, a)  y = Div(x, s)",
     lambda v: v / (1 + np.abs(v))),
    (
        "Softmax",
        18,
        "<int64[1] a = {-1}>",
        "m = ReduceMax(x, a)  d = Sub(x, m)  e = Exp(d)  s = ReduceSum(e, a)  y = Div(e, s)",
        lambda v: np.exp(v - v.max(-1, keepdims=True))
        / np.exp(v - v.max(-1, keepdims=True)).sum(-1, keepdims=True),
    ),
    (
        "LogSoftmax",
        18,
        "",
        "s = Softmax(x)  y = Log(s)",
        lambda v: v - v.max(-1, keepdims=True)
        - np.log(np.exp(v - v.max(-1, keepdims=True)).sum(-1, keepdims=True)),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "opset", "constants", "body", "right"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS]
)
def test_parts_become_the_operator(
    operator: str, opset: int, constants: str, body: str, right: Callable[[Array], Array], run: Run
) -> None:
    header = f'<ir_version: {11 if opset > 23 else 10}, opset_import: ["" : {opset}]>'
    text = f"{header} g (float[2,9] x) => (float[2,9] y) {constants} {{ {body} }}"
    model = onnx.parser.parse_model(text)
    after = package.apply(model, target="generic").model
    assert [node.op_type for node in after.graph.node] == [operator]
    x = np.linspace(-4.5, 4.5, 18, dtype=np.float32).reshape(2, 9)
    np.testing.assert_allclose(
        run(after, {"x": x})[0], right(x.astype(np.float64)), rtol=2e-6, atol=2e-6
    )


NORM = """
    g (float[2,3,8] x) => (float[2,3,8] y)
    <int64[1] a = {{-1}}, float two = {{2}}, float e = {{0.00001}},
     float[8] w = {{1,2,3,4,5,6,7,8}}, float[8] b = {{8,7,6,5,4,3,2,1}}>
    {{ {mean} q = {square}  v = ReduceMean(q, a)  s = Add(e, v)  {divide}  {after} }}
"""
SQUARES = ("Pow(d, two)", "Mul(d, d)")
DIVIDES = (
    "r = Sqrt(s)  n = Div(d, r)",
    "r = Sqrt(s)  i = Reciprocal(r)  n = Mul(i, d)",
    "k = Pow(s, half)  n = Div(d, k)",
)
AFTER = {
    "bare": "y = Identity(n)",
    "scale": "y = Mul(w, n)",
    "both": "k1 = Mul(n, w)  y = Add(b, k1)",
}


@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("divide", DIVIDES)
@pytest.mark.parametrize("square", SQUARES)
def test_every_spelling_of_a_normalization(
    kind: str, after: str, divide: str, square: str, run: Run
) -> None:
    layer = kind == "LayerNormalization"
    mean = "m = ReduceMean(x, a)  d = Sub(x, m)" if layer else "d = Identity(x)"
    body = NORM.format(mean=mean, square=square, divide=divide, after=AFTER[after])
    body = body.replace("<int64[1] a", "<float half = {0.5}, int64[1] a")
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> {body}')
    done = package.apply(model, target="generic").model
    found = [node.op_type for node in done.graph.node]
    assert found == ([kind, "Add"] if after == "both" and not layer else [kind])
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    wide = x.astype(np.float64)
    deviation = wide - wide.mean(-1, keepdims=True) if layer else wide
    right = deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + 1e-5)
    right = right * (np.arange(1, 9) if after != "bare" else 1)
    right = right + (np.arange(8, 0, -1) if after == "both" else 0)
    np.testing.assert_allclose(run(done, {"x": x})[0], right, rtol=1e-5, atol=1e-5)


# --- reports of other tools --------------------------------------------------------------------


def test_a_scale_that_broadcasts_is_no_scale(run: Run) -> None:
    """onnx 8203: x is [1, 1], the scale [2]; the result is [1, 2]."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 23]>
        g (float[1,1] x) => (float[1,2] y)
        <int64[1] a = {-1}, float two = {2}, float e = {0.00001}, float[2] w = {2,3}>
        { q = Pow(x, two)  v = ReduceMean(q, a)  s = Add(v, e)  r = Sqrt(s)  n = Div(x, r)
          y = Mul(n, w) }
    """)
    for target in ("generic", "onnxruntime-cpu"):
        after = package.apply(model, target=target).model
        x = np.array([[3.0]], np.float32)
        right = 3 / np.sqrt(9 + 1e-5) * np.array([[2.0, 3.0]])
        np.testing.assert_allclose(run(after, {"x": x})[0], right, rtol=1e-6)


def test_gemm_takes_matrices_only(run: Run) -> None:
    """ORT 22512: a product of rank 3 does not become Gemm."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2,3,4] x, float[5] b) => (float[2,3,5] y) <float[4,5] w =
          {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20}>
        { m = MatMul(x, w)  y = Add(m, b) }
    """)
    after = package.apply(model, target="generic").model
    assert "Gemm" not in [node.op_type for node in after.graph.node]
    x, b = np.ones((2, 3, 4), np.float32), np.arange(5, dtype=np.float32)
    right = np.broadcast_to(np.array([34, 38, 42, 46, 50]) + b, (2, 3, 5))
    np.testing.assert_array_equal(run(after, {"x": x, "b": b})[0], right)


@pytest.mark.parametrize("target", ["generic", "onnxruntime-cpu"])
def test_a_transpose_that_moves_nothing_sets_no_flag(target: str, run: Run) -> None:
    """ORT 32228: perm [0, 1] before a product of square matrices."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2,2] x, float[2,2] z, float[2,2] c) => (float[2,2] y)
        { t = Transpose <perm = [0, 1]> (x)  m = MatMul(t, z)  y = Add(m, c) }
    """)
    after = package.apply(model, target=target).model
    x, z = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 8]], np.float32)
    got = run(after, {"x": x, "z": z, "c": np.zeros((2, 2), np.float32)})[0]
    np.testing.assert_array_equal(got, [[19, 22], [43, 50]])


@pytest.mark.parametrize("target", ["generic", "onnxruntime-cpu"])
def test_keys_permuted_otherwise_are_no_transpose(target: str, run: Run) -> None:
    """pytorch 195320: K permuted by (0, 2, 3, 1) is not K with its last two axes swapped."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 23]>
        g (float[1,4,4,4] q, float[1,4,4,4] k, float[1,4,4,4] v) => (float[1,4,4,4] y)
        <float s = {0.5}>
        { t = Transpose <perm = [0, 2, 3, 1]> (k)  m = MatMul(q, t)  n = Mul(m, s)
          p = Softmax(n)  y = MatMul(p, v) }
    """)
    after = package.apply(model, target=target).model
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 4, 4, 4)).astype(np.float32) for _ in range(3))
    scores = 0.5 * (q.astype(np.float64) @ k.transpose(0, 2, 3, 1).astype(np.float64))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    right = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(run(after, {"q": q, "k": k, "v": v})[0], right, rtol=0, atol=1e-5)


def test_an_output_inside_a_pattern_stays(rewrite: Rewrite) -> None:
    """ORT 4110: a value inside the pattern that is an output of the graph is a use."""
    found = rewrite(
        """
        g (float[2,4] x) => (float[2,4] y, float[2,4] s) { s = Sigmoid(x)  y = Mul(s, x) }
        """,
        "fusion",
        24,
    )
    x = np.array([[0, 1, -1, 2], [3, -3, 0.5, -0.5]], np.float32)
    y, s = found.run(x=x)
    np.testing.assert_allclose(s, 1 / (1 + np.exp(-x)), rtol=1e-6)
    np.testing.assert_allclose(y, x / (1 + np.exp(-x)), rtol=1e-6)


# --- groups and siblings -----------------------------------------------------------------------

CONV = """
    <ir_version: 10, opset_import: ["" : 18]>
    g (float[1,1,4,4] x, float[1,2,4,4] r) => (float[1,2,4,4] y)
    <float[2,1,1,1] w = {2,-3}, float[2] b = {1,5}>
    { c = Conv(x, w, b)  a = Add(r, c)  t = Tanh(a)  y = Mul(t, r) }
"""


def test_a_convolution_with_what_follows_is_one_group(run: Run) -> None:
    result = package.apply(onnx.parser.parse_model(CONV), target="host")
    model = result.model
    onnx.checker.check_model(model, full_check=True)
    assert result.stats["kernels_after"] == 1
    assert [node.domain for node in model.graph.node] == ["rewrite.host"]
    assert [node.op_type for node in model.functions[0].node] == ["Conv", "Add", "Tanh", "Mul"]
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4) / 8
    r = np.ones((1, 2, 4, 4), np.float32)
    a = np.concatenate([2 * x + 1, -3 * x + 5], 1).astype(np.float64) + r
    np.testing.assert_allclose(run(model, {"x": x, "r": r})[0], np.tanh(a) * r, rtol=1e-6)


def test_a_target_without_groups_gets_none() -> None:
    model = package.apply(onnx.parser.parse_model(CONV), target="onnxruntime-cpu").model
    assert not model.functions


def test_three_products_of_one_input_are_one(run: Run) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2,3,2] x) => (float[2,3,2] q, float[2,3,1] k, float[2,3,2] v)
        <float[2,2] a = {1,2,3,4}, float[2,1] b = {5,6}, float[2,2] c = {7,8,9,10}>
        { q = MatMul(x, a)  k = MatMul(x, b)  v = MatMul(x, c) }
    """)
    after = package.apply(model, target="generic").model
    assert sorted(node.op_type for node in after.graph.node) == ["MatMul", "Split"]
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    weights = (np.array([[1, 2], [3, 4]]), np.array([[5], [6]]), np.array([[7, 8], [9, 10]]))
    for got, w in zip(run(after, {"x": x}), weights, strict=True):
        np.testing.assert_array_equal(got, x @ w)
