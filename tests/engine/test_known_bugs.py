"""Kinds of fault that public trackers report of other rewriters: here each gives the right value.

Every case states what the model computes (by the ONNX specification, in numpy, or in plain
numbers), checks that the original does so in onnxruntime without optimization, and then that every
rewritten form does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

import rewrite

TARGETS = ("generic", "onnxruntime-cpu", "hexagon")


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    feeds: dict[str, np.ndarray]
    expected: Callable[..., Any]  # of the feeds, by name; one array or a tuple of them
    opset: int = 18
    rtol: float = 0.0  # 1e-6: a few roundings of float32; 1e-5: sums of some twenty products
    overridden: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # initializers too long for text


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def conv(x: np.ndarray, w: np.ndarray, group: int = 1) -> np.ndarray:
    """Stride 1, no padding, by the definition."""
    n, _, height, width = x.shape
    out, per_group, kh, kw = w.shape
    y = np.zeros((n, out, height - kh + 1, width - kw + 1))
    for o in range(out):
        first = o // (out // group) * per_group
        for i in range(y.shape[2]):
            for j in range(y.shape[3]):
                window = x[:, first : first + per_group, i : i + kh, j : j + kw].astype(float)
                y[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3))
    return y


def batch_norm(
    x: np.ndarray, g: Any, b: Any, m: Any, v: Any, eps: float = 1e-5, axis: int = 1
) -> np.ndarray:
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    g, b, m, v = (np.reshape(np.asarray(t, float), shape) for t in (g, b, m, v))
    return (x - m) / np.sqrt(v + eps) * g + b


X23 = f32(2, 3)
A33, B33 = f32(3, 3, seed=1), f32(3, 3, seed=2)
WIDE = f32(1, 8, 3, 3, seed=3)

CASES = [
    # A pair of rules must not leave a value without its producer.
    *(
        Case(
            f"identity chain through {name}",
            f"g (float[2,3] x) => (float[2,3] y) <float one = {{1}}, float zero = {{0}}> "
            f"{{ mid = {op} k = Div(one, one) w = Mul(mid, k) y = Add(w, zero) }}",
            {"x": X23},
            lambda x: x,
        )
        for name, op in [
            ("Identity", "Identity(x)"),
            ("Dropout", "Dropout(x)"),
            ("Cast", "Cast<to = 1>(x)"),
        ]
    ),
    Case(
        "Relu and Clip in float64",
        "g (double[4] x) => (double[4] y) <double lo = {-1}, double hi = {1}> "
        "{ r = Relu(x) y = Clip(r, lo, hi) }",
        {"x": np.array([-2.0, -0.5, 0.25, 3.0])},
        lambda x: np.clip(x, 0, 1),
    ),
    Case(
        "a scale that makes an RMS normalization wider",
        "g (float[1,1] x) => (float[1,2] y) "
        "<float two = {2}, float eps = {0.01}, int64[1] last = {-1}, float[2] scale = {3, 5}> "
        "{ p = Pow(x, two) m = ReduceMean(p, last) e = Add(m, eps) s = Sqrt(e) d = Div(x, s) "
        "  y = Mul(d, scale) }",
        {"x": np.float32([[2.0]])},
        lambda x: x / np.sqrt(x * x + np.float32(0.01)) * np.float32([3, 5]),
        rtol=1e-6,
    ),
    Case(
        "two quantization pairs of different steps",
        "g (float[1] x) => (float[1] y) "
        "<float s = {0.1}, uint8 z = {0}, float t = {0.07}, uint8 w = {100}> "
        "{ a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) "
        "  c = QuantizeLinear(b, t, w) y = DequantizeLinear(c, t, w) }",
        {"x": np.float32([0.28])},
        lambda x: np.float32([4]) * np.float32(0.07),  # 0.28 -> 3 -> 0.3 -> 104 -> 0.28
        rtol=1e-6,
    ),
    Case(
        "a Transpose that moves nothing, square",
        "g (float[3,3] a, float[3,3] b, float[3] c) => (float[3,3] y) "
        "{ t = Transpose<perm = [0, 1]>(a) m = MatMul(t, b) y = Add(m, c) }",
        {"a": A33, "b": B33, "c": f32(3)},
        lambda a, b, c: a @ b + c,
        rtol=1e-5,
    ),
    Case(
        "a Transpose that moves nothing, oblong",
        "g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y) "
        "{ t = Transpose<perm = [0, 1]>(a) m = MatMul(t, b) y = Add(m, c) }",
        {"a": X23, "b": f32(3, 4), "c": f32(4)},
        lambda a, b, c: a @ b + c,
        rtol=1e-5,
    ),
    Case(
        "allowzero of the second Reshape",
        "g (float[0,6,2] x) => (float[0,0,3] y) <int64[3] s = {3,2,-1}, int64[3] t = {0,0,3}> "
        "{ a = Reshape(x, s) y = Reshape<allowzero = 1>(a, t) }",
        {"x": np.zeros((0, 6, 2), np.float32)},
        lambda x: np.zeros((0, 0, 3), np.float32),
    ),
    Case(
        "a signed DequantizeLinear without zero point before Reshape",
        "g (int8[2] x) => (float[2,1] y) <float s = {0.01}, int64[2] t = {2,1}> "
        "{ d = DequantizeLinear(x, s) y = Reshape(d, t) }",
        {"x": np.int8([-30, 40])},
        lambda x: (x.astype(np.float32) * np.float32(0.01)).reshape(2, 1),
        opset=21,
        rtol=1e-6,
    ),
    Case(
        "Relu before a symmetric quantization",
        "g (float[4] x) => (int8[4] y) <float s = {0.5}, int8 z = {0}> "
        "{ r = Relu(x) y = QuantizeLinear(r, s, z) }",
        {"x": np.float32([-3, -0.5, 0.5, 100])},
        lambda x: np.int8([0, 0, 1, 127]),
    ),
    Case(
        "a 1×1 convolution in groups and a constant that varies in space",
        "g (float[1,8,3,3] x) => (float[1,8,3,3] y) <float[8,2,1,1] w, float[1,8,3,3] k> "
        "{ c = Conv<group = 4>(x, w) y = Add(c, k) }",
        {"x": WIDE},
        lambda x: conv(x, f32(8, 2, 1, 1, seed=4), 4) + f32(1, 8, 3, 3, seed=5),
        rtol=1e-5,
        overridden={"w": f32(8, 2, 1, 1, seed=4), "k": f32(1, 8, 3, 3, seed=5)},
    ),
    Case(
        "MatMul of rank 3 and BatchNormalization",
        "g (float[2,3,4] x) => (float[2,3,5] y) "
        "<float[4,5] w, float[3] g1 = {1,2,3}, float[3] b = {4,5,6}, float[3] m = {1,0,1}, "
        "float[3] v = {1,4,9}> { c = MatMul(x, w) y = BatchNormalization(c, g1, b, m, v) }",
        {"x": f32(2, 3, 4)},
        lambda x: batch_norm(x @ f32(4, 5, seed=6), [1, 2, 3], [4, 5, 6], [1, 0, 1], [1, 4, 9]),
        rtol=1e-5,
        overridden={"w": f32(4, 5, seed=6)},
    ),
    Case(
        "a factor that gives a scalar its rank",
        "g (float x, float[1] z) => (float y) <float[1] ones = {1}> "
        "{ a = Mul(x, ones) y = MatMul(a, z) }",
        {"x": np.array(3.0, np.float32), "z": np.float32([4])},
        lambda x, z: np.array(12.0, np.float32),
    ),
    Case(
        "a Cast to integers and back truncates",
        "g (float[4] x) => (float[4] y) { a = Cast<to = 6>(x) y = Cast<to = 1>(a) }",
        {"x": np.float32([1.7, -1.7, 0.5, 3.0])},
        lambda x: np.float32([1, -1, 0, 3]),
    ),
    Case(
        "a matched value that is an output",
        "g (float[2,3] x) => (float[2,3] s, float[2,3] y) { s = Sigmoid(x) y = Mul(x, s) }",
        {"x": X23},
        lambda x: (1 / (1 + np.exp(-x)), x / (1 + np.exp(-x))),
        rtol=1e-5,
    ),
    Case(
        "a product that is an output before its bias",
        "g (float[2,3] x) => (float[2,3] m, float[2,3] y) <float[3,3] w, float[3] b = {1,2,3}> "
        "{ m = MatMul(x, w) y = Add(m, b) }",
        {"x": X23},
        lambda x: (x @ A33, x @ A33 + np.float32([1, 2, 3])),
        rtol=1e-5,
        overridden={"w": A33},
    ),
    Case(
        "beta of the Gemm before a BatchNormalization",
        "g (float[2,3] x) => (float[2,3] y) <float[3,3] w, float[3] c = {1,2,3}, "
        "float[3] g1 = {1,2,3}, float[3] b = {4,5,6}, float[3] m = {1,0,1}, float[3] v = {1,4,9}> "
        "{ a = Gemm<beta = 2.0>(x, w, c) y = BatchNormalization(a, g1, b, m, v) }",
        {"x": X23},
        lambda x: batch_norm(
            x @ A33 + 2 * np.float32([1, 2, 3]), [1, 2, 3], [4, 5, 6], [1, 0, 1], [1, 4, 9]
        ),
        rtol=1e-5,
        overridden={"w": A33},
    ),
    Case(
        "a negative Pad before a convolution",
        "g (float[1,1,5,5] x) => (float[1,1,2,2] y) "
        "<int64[8] p = {0,0,-1,0,0,0,0,-1}, float[1,1,3,3] w> { a = Pad(x, p) y = Conv(a, w) }",
        {"x": f32(1, 1, 5, 5)},
        lambda x: conv(x[:, :, 1:, :-1], f32(1, 1, 3, 3, seed=7)),
        rtol=1e-5,
        overridden={"w": f32(1, 1, 3, 3, seed=7)},
    ),
    Case(
        "the first Reshape decides what a 0 copies",
        "g (float[2,3,4] x) => (float[6,4] y) <int64[2] s = {6,4}, int64[2] t = {0,-1}> "
        "{ a = Reshape(x, s) y = Reshape(a, t) }",
        {"x": f32(2, 3, 4)},
        lambda x: x.reshape(6, 4),
    ),
    Case(
        "Pad before a convolution with auto_pad",
        "g (float[1,1,4,4] x) => (float[1,1,4,4] y) "
        "<int64[8] p = {0,0,1,1,0,0,1,1}, float[1,1,3,3] w> "
        '{ a = Pad(x, p) y = Conv<auto_pad = "VALID">(a, w) }',
        {"x": f32(1, 1, 4, 4)},
        lambda x: conv(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), f32(1, 1, 3, 3, seed=7)),
        rtol=1e-5,
        overridden={"w": f32(1, 1, 3, 3, seed=7)},
    ),
    Case(
        "keys that are permuted but not transposed",
        "g (float[1,4,4,4] q, float[1,4,4,4] k, float[1,4,4,4] v) => (float[1,4,4,4] y) "
        "<float s = {0.5}> { t = Transpose<perm = [0,2,3,1]>(k) m = MatMul(q, t) n = Mul(m, s) "
        "  p = Softmax<axis = -1>(n) y = MatMul(p, v) }",
        {"q": f32(1, 4, 4, 4), "k": f32(1, 4, 4, 4, seed=1), "v": f32(1, 4, 4, 4, seed=2)},
        lambda q, k, v: softmax(q @ k.transpose(0, 2, 3, 1) * 0.5) @ v,
        opset=23,
        rtol=1e-5,
    ),
    Case(
        "a narrowing of a multiple of 256",
        "g (uint8[3] x) => (uint8[3] y) <int32 k = {256}> "
        "{ a = Cast<to = 6>(x) b = Mul(a, k) y = Cast<to = 2>(b) }",
        {"x": np.uint8([7, 0, 255])},
        lambda x: np.uint8([0, 0, 0]),
    ),
    # Seen on other optimizers.
    Case(
        "Relu of a Clip below zero",
        "g (float[4] x) => (float[4] y) <float lo = {-3}, float hi = {-1}> "
        "{ a = Clip(x, lo, hi) y = Relu(a) }",
        {"x": np.float32([-5, -2, 0, 4])},
        lambda x: np.float32([0, 0, 0, 0]),
    ),
    Case(
        "Min of Max with a constant of higher rank",
        "g (float[3] x) => (float[1,3] y) <float[1,1] lo = {0}, float hi = {1}> "
        "{ a = Max(x, lo) y = Min(a, hi) }",
        {"x": np.float32([-1, 0.5, 2])},
        lambda x: np.float32([[0, 0.5, 1]]),
    ),
    Case(
        "a convolution times a vector along the width",
        "g (float[1,3,5,5] x) => (float[1,3,3,3] y) <float[3,3,3,3] w, float[3] k = {1,10,100}> "
        "{ c = Conv(x, w) y = Mul(c, k) }",
        {"x": f32(1, 3, 5, 5)},
        lambda x: conv(x, f32(3, 3, 3, 3, seed=8)) * np.float32([1, 10, 100]),
        rtol=1e-5,
        overridden={"w": f32(3, 3, 3, 3, seed=8)},
    ),
]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def build(case: Case, parse_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """The model; constants that are too long for text are declared there and filled in here."""
    text = case.text
    model = _parse(text, case, parse_model)
    onnx.checker.check_model(model)
    return model


def _parse(text: str, case: Case, parse_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    for name, array in case.overridden.items():
        declared = f"float[{','.join(map(str, array.shape))}] {name}"
        assert declared in text
        numbers = ",".join(repr(float(v)) for v in array.reshape(-1))
        text = text.replace(declared, f"{declared} = {{{numbers}}}", 1)
    return parse_model(text, case.opset)


def check(found: list[np.ndarray], case: Case) -> None:
    expected = case.expected(**case.feeds)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == np.shape(want)
        scale = np.abs(want).max() if np.size(want) else 0
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.rtol * scale)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_right_values(case, target, parse_model, outputs):
    model = build(case, parse_model)
    check(outputs(model, **case.feeds), case)
    result = rewrite.apply(model, target=target)
    onnx.checker.check_model(result.model)
    check(outputs(result.model, **case.feeds), case)


# --- what is not one value ---------------------------------------------------------------------

LOOP = """
<ir_version: 10, opset_import: ["" : 18]>
g (int64 n, float[2] x) => (float[2] y) <bool yes = {1}> {
  y = Loop (n, yes, x) <
    body = b (int64 i, bool c, float[2] s) => (bool go, float[2] t) {
      one = Constant<value_float = 1.0>()
      go = Constant<value = bool {1}>()
      t = Add(s, one)
    }
  >
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_the_outputs_of_a_loop_body_stay(target, parse_model, outputs):
    result = rewrite.apply(parse_model(LOOP), target=target)
    (loop,) = (node for node in result.model.graph.node if node.op_type == "Loop")
    assert len(loop.attribute[0].g.output) == 2
    (y,) = outputs(result.model, n=np.int64(3), x=np.float32([1, 2]))
    np.testing.assert_array_equal(y, [4, 5])


BRANCH = """
<ir_version: 10, opset_import: ["" : 18]>
g (bool c, float[1,2] x) => (float[2] y) {
  y = If (c) <
    then_branch = t () => (float[2] p) <float[2] p = {5, 6}> { },
    else_branch = e () => (float[2] q) <int64[1] ax = {0}> { q = Squeeze(x, ax) }
  >
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_the_outputs_of_a_branch_stay(target, parse_model, outputs):
    result = rewrite.apply(parse_model(BRANCH), target=target)
    x = np.float32([[1, 2]])
    np.testing.assert_array_equal(outputs(result.model, c=True, x=x)[0], [5, 6])
    np.testing.assert_array_equal(outputs(result.model, c=False, x=x)[0], [1, 2])


@pytest.mark.parametrize("taken", [0, 1])
@pytest.mark.parametrize("target", TARGETS)
def test_a_constant_branch_keeps_its_initializers(target, taken, parse_model, outputs):
    text = BRANCH.replace("bool c, ", "").replace(
        "(float[2] y) {", f"(float[2] y) <bool c = {{{taken}}}> {{"
    )
    result = rewrite.apply(parse_model(text), target=target)
    assert all(node.op_type != "If" for node in result.model.graph.node)
    (y,) = outputs(result.model, x=np.float32([[1, 2]]))
    np.testing.assert_array_equal(y, [5, 6] if taken else [1, 2])


@pytest.mark.parametrize("target", TARGETS)
def test_an_order_that_overflow_destroys_is_not_called_exact(target, parse_model, outputs):
    """exp(100) and exp(200) are both infinite in float32: ArgMax of the tie is the first."""
    model = parse_model(
        "g (float[1,3] x) => (int64[1] y) { e = Exp(x) y = ArgMax<axis = 1, keepdims = 0>(e) }"
    )
    x = np.float32([[100, 200, 50]])
    assert outputs(model, x=x)[0].tolist() == [0]
    result = rewrite.apply(model, target=target)
    assert outputs(result.model, x=x)[0].tolist() == [0] or result.ledger.total.kind != "exact"
    exact = rewrite.apply(model, target=target, max_class="exact")
    assert outputs(exact.model, x=x)[0].tolist() == [0]


@pytest.mark.parametrize("target", TARGETS)
def test_batch_normalization_in_training_is_not_folded(target, parse_model, outputs):
    """In training mode the statistics are those of the batch, not the stored ones."""
    text = (
        "g (float[2,1,4,4] x) => (float[2,2,2,2] y) <float[2,1,3,3] w, float[2] g1 = {1,2}, "
        "float[2] b = {3,4}, float[2] m = {9,9}, float[2] v = {7,7}> "
        "{ c = Conv(x, w) y, rm, rv = BatchNormalization<training_mode = 1>(c, g1, b, m, v) }"
    )
    weights = f32(2, 1, 3, 3, seed=9)
    case = Case("", text, {"x": f32(2, 1, 4, 4)}, lambda x: None, overridden={"w": weights})
    model = build(case, parse_model)
    x = case.feeds["x"]
    c = conv(x, weights)
    mean, variance = c.mean(axis=(0, 2, 3)), c.var(axis=(0, 2, 3))
    wanted = batch_norm(c, [1, 2], [3, 4], mean, variance)
    result = rewrite.apply(model, target=target)
    for each in (model, result.model):
        np.testing.assert_allclose(outputs(each, x=x)[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_an_unknown_element_type_stops_nothing(target, parse_model):
    model = parse_model(
        '<ir_version: 10, opset_import: ["" : 18, "own" : 1]> '
        "g (float[2] x) => (float[2] y) <float a = {0}, float b = {1}, float c = {2}> "
        "{ u = own.Op(x) v = Clip(u, a, c) w = Clip(v, a, b) y = own.Op(w) }"
    )
    result = rewrite.apply(model, target=target)
    bounds = [node for node in result.model.graph.node if node.op_type == "Clip"]
    assert 1 <= len(bounds) <= 2
