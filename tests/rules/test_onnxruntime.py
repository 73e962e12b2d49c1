"""The pack `onnxruntime`: fused operators give what the parts gave, in ONNX Runtime itself.

Right values come from numpy in float64. Every model passes the ONNX checker and holds no function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import rewrite as package

Run = Callable[..., list[np.ndarray]]
Array = np.ndarray[Any, Any]
TARGET = "onnxruntime-cpu"


def applied(text: str, opset: int = 16) -> tuple[onnx.ModelProto, list[str]]:
    """The model for the target, and its operators."""
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>'
    model = package.apply(parser.parse_model(f"{header} {text}"), target=TARGET).model
    onnx.checker.check_model(model, full_check=True)
    assert not model.functions
    return model, sorted(node.op_type for node in model.graph.node)


def sample(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- convolutions ------------------------------------------------------------------------------

ACTIVATIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "Relu": ("y = Relu(v)", lambda v: np.maximum(v, 0)),
    "Sigmoid": ("y = Sigmoid(v)", lambda v: 1 / (1 + np.exp(-v))),
    "Tanh": ("y = Tanh(v)", np.tanh),
    "LeakyRelu": ("y = LeakyRelu <alpha = 0.3> (v)", lambda v: np.where(v > 0, v, 0.3 * v)),
    "Clip": ("y = Clip(v, lo, hi)", lambda v: np.clip(v, -1, 0.5)),
    "HardSigmoid": (
        "y = HardSigmoid <alpha = 0.2, beta = 0.4> (v)",
        lambda v: np.clip(0.2 * v + 0.4, 0, 1),
    ),
    "HardSwish": ("y = HardSwish(v)", lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
    "parts": (
        "a = Add(v, three)  c = Clip(a, zero, six)  m = Mul(v, c)  y = Div(m, six)",
        lambda v: v * np.clip(v / 6 + 0.5, 0, 1),
    ),
}


@pytest.mark.parametrize("residual", [False, True], ids=["plain", "residual"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_convolution_residual_and_activation_are_one_kernel(
    name: str, residual: bool, run: Run
) -> None:
    body, right = ACTIVATIONS[name]
    head = "k = Conv(x, w)  v = Add(r, k)" if residual else "v = Conv(x, w)  u = Neg(r)"
    model, operators = applied(f"""
        g (float[1,2,5,5] x, float[1,3,5,5] r) => (float[1,3,5,5] y)
        <float[3,2,1,1] w = {{1,-2,3,-4,0.5,-0.25}}, float lo = {{-1}}, float hi = {{0.5}},
         float three = {{3}}, float zero = {{0}}, float six = {{6}}>
        {{ {head} {body} }}
    """)
    assert operators == ["FusedConv"]
    x, r = sample(1, 2, 5, 5), sample(1, 3, 5, 5, seed=1)
    weights = np.array([[1, -2], [3, -4], [0.5, -0.25]])
    value = np.einsum("oc,nchw->nohw", weights, x.astype(np.float64)) + (r if residual else 0)
    feeds = {"x": x, "r": r}
    np.testing.assert_allclose(run(model, feeds)[0], right(value), rtol=1e-5, atol=1e-5)


def test_a_residual_that_broadcasts_is_not_fused(run: Run) -> None:
    model, operators = applied("""
        g (float[1,2,4,4] x, float[1,1,4,4] r) => (float[1,3,4,4] y)
        <float[3,2,1,1] w = {1,-2,3,-4,0.5,-0.25}> { c = Conv(x, w)  s = Add(c, r)  y = Relu(s) }
    """)
    assert operators == ["Add", "Conv", "Relu"]
    x, r = sample(1, 2, 4, 4), sample(1, 1, 4, 4, seed=1)
    weights = np.array([[1, -2], [3, -4], [0.5, -0.25]])
    value = np.einsum("oc,nchw->nohw", weights, x.astype(np.float64)) + r
    got = run(model, {"x": x, "r": r})[0]
    np.testing.assert_allclose(got, np.maximum(value, 0), rtol=1e-5, atol=1e-5)


# --- products ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("perm", "shape"),
    [((0, 1, 3, 2), (2, 3, 5, 4)), ((1, 2, 0, 3), (4, 2, 3, 5)), ((1, 2, 3, 0), (5, 2, 3, 4))],
    ids=["last", "batch", "both"],
)
def test_transposes_are_flags_of_the_product(
    perm: tuple[int, ...], shape: tuple[int, ...], run: Run
) -> None:
    """The operand in its order before the transpose; the product from numpy."""
    sizes = ",".join(str(n) for n in shape)
    order = ", ".join(str(p) for p in perm)
    moved = tuple(shape[p] for p in perm)
    z_shape = (*moved[:-2], moved[-1], 6)
    model, operators = applied(
        f"""
        g (float[{sizes}] x, float[{",".join(str(n) for n in z_shape)}] z) => (float[] y)
        {{ t = Transpose <perm = [{order}]> (x)  y = MatMul(t, z) }}
    """.replace("float[] y", f"float[{','.join(str(n) for n in (*moved[:-1], 6))}] y")
    )
    assert operators == ["FusedMatMul"]
    x, z = sample(*shape), sample(*z_shape, seed=1)
    right = x.transpose(perm).astype(np.float64) @ z
    np.testing.assert_allclose(run(model, {"x": x, "z": z})[0], right, rtol=1e-5, atol=1e-5)


def test_scales_of_operands_and_result_are_one_alpha(run: Run) -> None:
    model, operators = applied("""
        g (float[2,3,4] x, float[2,4,5] z) => (float[2,3,5] y)
        <float a = {0.5}, float[1] b = {4}, float[1,1,1] c = {3}>
        { p = Mul(x, a)  q = Div(z, b)  m = MatMul(p, q)  y = Mul(c, m) }
    """)
    assert operators == ["FusedMatMul"]
    x, z = sample(2, 3, 4), sample(2, 4, 5, seed=1)
    right = 0.375 * (x.astype(np.float64) @ z)
    np.testing.assert_allclose(run(model, {"x": x, "z": z})[0], right, rtol=1e-5, atol=1e-6)


def test_integers_keep_their_product(run: Run) -> None:
    model, operators = applied("""
        g (int64[2,3,4] x, int64[2,5,4] z) => (int64[2,3,5] y)
        { t = Transpose <perm = [0, 2, 1]> (z)  y = MatMul(x, t) }
    """)
    assert operators == ["MatMul", "Transpose"]
    x, z = np.arange(24).reshape(2, 3, 4), np.arange(40).reshape(2, 5, 4)
    np.testing.assert_array_equal(run(model, {"x": x, "z": z})[0], x @ z.transpose(0, 2, 1))


def test_gemm_and_activation_are_one_kernel(run: Run) -> None:
    model, operators = applied("""
        g (float[3,2] x) => (float[3,2] y) <float[2,2] w = {1,2,3,4}, float[2] b = {-1,1}>
        { m = MatMul(x, w)  s = Add(m, b)  y = LeakyRelu <alpha = 0.2> (s) }
    """)
    assert operators == ["FusedGemm"]
    x = sample(3, 2)
    value = x.astype(np.float64) @ [[1, 2], [3, 4]] + [-1, 1]
    right = np.where(value > 0, value, 0.2 * value)
    np.testing.assert_allclose(run(model, {"x": x})[0], right, rtol=1e-5, atol=1e-6)


# --- activations -------------------------------------------------------------------------------


def test_bias_and_gelu_are_one_kernel(run: Run) -> None:
    model, operators = applied("""
        g (float[2,3,4] x) => (float[2,3,4] y)
        <float[4] b = {1,-1,0.5,0}, float h = {0.5}, float o = {1}, float r = {1.4142135}>
        { v = Add(x, b)  d = Div(v, r)  e = Erf(d)  p = Add(e, o)  m = Mul(v, h)  y = Mul(m, p) }
    """)
    assert operators == ["BiasGelu"]
    x = sample(2, 3, 4)
    value = x.astype(np.float64) + np.array([1, -1, 0.5, 0])
    right = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))(value)
    np.testing.assert_allclose(run(model, {"x": x})[0], right, rtol=0, atol=3e-6)


@pytest.mark.parametrize("dtype", ["float", "float16"])
def test_silu_and_its_scaled_kin(dtype: str, run: Run) -> None:
    number = "1.75" if dtype == "float" else str(int(np.float16(1.75).view(np.uint16)))
    model, operators = applied(f"""
        g ({dtype}[2,9] x) => ({dtype}[2,9] y, {dtype}[2,9] z) <{dtype} a = {{{number}}}>
        {{ s = Sigmoid(x)  y = Mul(x, s)  m = Mul(a, x)  t = Sigmoid(m)  z = Mul(t, x) }}
    """)
    assert operators == ["QuickGelu", "QuickGelu"]
    x = np.linspace(-4, 4, 18).reshape(2, 9).astype("float32" if dtype == "float" else dtype)
    wide = x.astype(np.float64)
    bound = 1e-6 if dtype == "float" else 4e-3
    for got, alpha in zip(run(model, {"x": x}), (1, 1.75), strict=True):
        right = wide / (1 + np.exp(-alpha * wide))
        np.testing.assert_allclose(got.astype(np.float64), right, rtol=bound, atol=bound)


# --- normalizations ----------------------------------------------------------------------------

PARTS = """
    m = ReduceMean <axes = [-1]> (t)  d = Sub(t, m)  q = Pow(d, two)
    v = ReduceMean <axes = [-1]> (q)  s = Add(v, e)  r = Sqrt(s)  n = Div(d, r)
    k = Mul(n, w)  y = Add(k, b)
"""
NORM_CONSTANTS = """
    <float two = {2}, float e = {0.00001}, float[4] w = {1,2,3,4}, float[4] b = {4,3,2,1},
     float[4] c = {0.5,0.25,-1,2}>
"""


def _layer_norm(value: Array) -> Array:
    deviation = value - value.mean(-1, keepdims=True)
    normal = deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + 1e-5)
    return np.asarray(normal * [1, 2, 3, 4] + [4, 3, 2, 1])


@pytest.mark.parametrize(
    ("head", "count"),
    [("t = Identity(x)", 1), ("t = Add(x, z)", 1), ("p = Add(x, c)  t = Add(z, p)", 1)],
    ids=["plain", "residual", "bias"],
)
def test_a_layer_norm_in_parts_before_opset_17(head: str, count: int, run: Run) -> None:
    model, operators = applied(
        f"g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y) {NORM_CONSTANTS} "
        f"{{ {head} u = Neg(z) {PARTS} }}",
        opset=13,
    )
    assert operators == ["SkipLayerNormalization"] * count
    x, z = sample(2, 3, 4), sample(2, 3, 4, seed=1)
    value = x.astype(np.float64)
    if "z" in head:
        value = value + z
    if "c" in head:
        value = value + np.array([0.5, 0.25, -1, 2])
    got = run(model, {"x": x, "z": z})[0]
    np.testing.assert_allclose(got, _layer_norm(value), rtol=2e-5, atol=2e-5)


def test_a_residual_sum_used_again_comes_out_of_the_kernel(run: Run) -> None:
    model, operators = applied(
        f"""
        g (float[2,3,4] x, float[2,3,4] z) => (float[2,3,4] y, float[2,3,4] a) {NORM_CONSTANTS}
        {{ t = Add(x, z)  y = LayerNormalization <epsilon = 0.00001> (t, w, b)  a = Abs(t) }}
        """,
        opset=17,
    )
    assert operators == ["Abs", "SkipLayerNormalization"]
    x, z = sample(2, 3, 4), sample(2, 3, 4, seed=1)
    y, a = run(model, {"x": x, "z": z})
    total = x.astype(np.float64) + z
    np.testing.assert_allclose(y, _layer_norm(total), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(a, np.abs(total), rtol=1e-6, atol=1e-6)


def test_a_root_mean_square_norm_of_heads(run: Run) -> None:
    """Rank 4, as queries and keys have: no skip form, one kernel nevertheless."""
    model, operators = applied(
        """
        g (float[1,2,3,4] x) => (float[1,2,3,4] y)
        <float two = {2}, float e = {0.00001}, float[4] w = {1,2,3,4}>
        { q = Pow(x, two)  v = ReduceMean <axes = [-1]> (q)  s = Add(v, e)  r = Sqrt(s)
          n = Div(x, r)  y = Mul(w, n) }
        """,
        opset=13,
    )
    assert operators == ["BranchwiseRMSNorm"]
    x = sample(1, 2, 3, 4)
    wide = x.astype(np.float64)
    right = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * [1, 2, 3, 4]
    np.testing.assert_allclose(run(model, {"x": x})[0], right, rtol=1e-5, atol=1e-6)


# --- attention ---------------------------------------------------------------------------------


def test_attention_from_split_heads_is_one_kernel(run: Run) -> None:
    model, operators = applied("""
        g (float[2,3,4] q, float[2,5,4] k, float[2,5,4] v, float[2,1,3,5] mask) => (float[2,3,4] y)
        <float s = {0.70710678}, int64[4] h = {0,0,2,2}, int64[3] j = {0,0,4}>
        { qr = Reshape(q, h)  qt = Transpose <perm = [0,2,1,3]> (qr)
          kr = Reshape(k, h)  kt = Transpose <perm = [0,2,3,1]> (kr)
          vr = Reshape(v, h)  vt = Transpose <perm = [0,2,1,3]> (vr)
          m = MatMul(qt, kt)  n = Mul(m, s)  a = Add(mask, n)  p = Softmax <axis = 3> (a)
          o = MatMul(p, vt)  t = Transpose <perm = [0,2,1,3]> (o)  y = Reshape(t, j) }
    """)
    assert operators == ["MultiHeadAttention"]
    q, k, v = sample(2, 3, 4), sample(2, 5, 4, seed=1), sample(2, 5, 4, seed=2)
    mask = sample(2, 1, 3, 5, seed=3)
    heads = [a.reshape(2, -1, 2, 2).transpose(0, 2, 1, 3).astype(np.float64) for a in (q, k, v)]
    scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / math.sqrt(2) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    out = weights / weights.sum(-1, keepdims=True) @ heads[2]
    right = out.transpose(0, 2, 1, 3).reshape(2, 3, 4)
    got = run(model, {"q": q, "k": k, "v": v, "mask": mask})[0]
    np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)


def test_embeddings_and_their_norm_are_one_kernel(run: Run) -> None:
    rng = np.random.default_rng(0)
    tables = [np.round(rng.standard_normal((6, 4)), 3) for _ in range(3)]
    texts = [",".join(str(v) for v in table.ravel()) for table in tables]
    model, operators = applied(
        f"""
        g (int64[B,S] ids, int64[B,S] kinds) => (float[B,S,4] y)
        <float[6,4] tw = {{{texts[0]}}},
         float[6,4] tp = {{{texts[1]}}},
         float[6,4] ts = {{{texts[2]}}},
         float[4] w = {{1,2,3,4}}, float[4] b = {{4,3,2,1}}, int64 zero = {{0}}, int64 one = {{1}},
         int64[1] front = {{0}}>
        {{ x = Gather(tw, ids)  sh = Shape(ids)  n = Gather(sh, one)  r = Range(zero, n, one)
           u = Unsqueeze(r, front)  e = Expand(u, sh)  p = Gather(tp, e)  a = Add(x, p)
           z = Gather(ts, kinds)  t = Add(a, z)
           y = LayerNormalization <epsilon = 0.00001> (t, w, b) }}
        """,
        opset=17,
    )
    assert operators == ["Cast", "Cast", "EmbedLayerNormalization"]
    ids, kinds = np.array([[0, 5, 2], [3, 1, 4]]), np.array([[0, 0, 1], [1, 0, 1]])
    total = tables[0][ids] + tables[1][np.arange(3)] + tables[2][kinds]
    got = run(model, {"ids": ids, "kinds": kinds})[0]
    np.testing.assert_allclose(got, _layer_norm(total), rtol=2e-5, atol=2e-5)


# --- quantized ---------------------------------------------------------------------------------


def test_a_dynamically_quantized_product_is_one_kernel(run: Run) -> None:
    text = """
        g (float[2,4] x) => (float[2,3] y)
        <int8[4,3] w = {1,2,3,4,5,6,-7,8,9,10,-11,12}, float t = {0.1}, float[3] b = {1,2,3}>
        { q, s, z = DynamicQuantizeLinear(x)  m = MatMulInteger(q, w, z)  c = Cast <to = 1> (m)
          k = Mul(s, t)  n = Mul(c, k)  y = Add(n, b) }
    """
    model, operators = applied(text)
    assert operators == ["DynamicQuantizeMatMul"]
    x = np.array([[0.0, 0.5, -1.0, 1.0], [2.0, -2.0, 0.25, 0.75]], np.float32)
    # DynamicQuantizeLinear-11: the range with 0, in 255 steps, halves to even.
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    step = np.float32((high - low) / 255)
    zero = np.clip(np.rint(-low / step), 0, 255)
    codes = np.clip(np.rint(x / step) + zero, 0, 255)
    weights = np.array([1, 2, 3, 4, 5, 6, -7, 8, 9, 10, -11, 12]).reshape(4, 3)
    right = (codes - zero) @ weights * float(step) * 0.1 + [1, 2, 3]
    np.testing.assert_allclose(run(model, {"x": x})[0], right, rtol=1e-5, atol=1e-6)
