"""Wrong rewrites that were reported of other tools, as tests of the right value.

Each expected value is computed by numpy, or follows from the ONNX text of the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rewrite.graph import io

Rewrite = Callable[..., Any]


def test_identity_and_add_zero_meet(rewrite: Rewrite) -> None:
    """Two rules remove neighbours; the value between them must not dangle."""
    found = rewrite("""
        g (float[3] x) => (float[3] y) <float one = {1}, float zero = {0}>
        { mid = Identity(x)  k = Div(one, one)  w = Mul(mid, k)  y = Add(w, zero) }
    """)
    x = np.array([1, -2, 3], np.float32)
    np.testing.assert_array_equal(found.run(x=x)[0], x)


def test_relu_and_clip_in_double(rewrite: Rewrite) -> None:
    found = rewrite("""
        g (double[5] x) => (double[5] y)
        <double l = {-1}, double h = {1}> { r = Relu(x)  y = Clip(r, l, h) }
    """)
    x = np.array([-2, -0.5, 0, 0.5, 2])
    np.testing.assert_array_equal(found.run(x=x)[0], np.clip(x, 0, 1))
    assert found.ops == ["Clip"]


def test_zero_in_a_reshape_copies_from_its_own_input(rewrite: Rewrite) -> None:
    found = rewrite("""
        g (float[2,3,4] x) => (float[6,4] y) <int64[2] s = {6,4}, int64[2] t = {0,-1}>
        { r = Reshape(x, s)  y = Reshape(r, t) }
    """)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(found.run(x=x)[0], x.reshape(6, 4))


def test_allowzero_survives(rewrite: Rewrite) -> None:
    found = rewrite("""
        g (float[0,6,2] x) => (float[0,0,3] y) <int64[3] s = {3,2,-1}, int64[3] t = {0,0,3}>
        { r = Reshape(x, s)  y = Reshape <allowzero = 1> (r, t) }
    """)
    assert found.run(x=np.zeros((0, 6, 2), np.float32))[0].shape == (0, 0, 3)


def test_one_by_one_convolution_with_groups_and_a_whole_tensor_added(
    rewrite: Rewrite, run: Callable[..., Any]
) -> None:
    """A constant of shape [1, 8, 4, 4] is not a bias."""
    random = np.random.default_rng(0)
    w = ",".join(map(str, random.normal(size=16).round(3)))
    c = ",".join(map(str, random.normal(size=128).round(3)))
    found = rewrite(f"""
        g (float[1,8,4,4] x) => (float[1,8,4,4] y)
        <float[8,2,1,1] W = {{{w}}}, float[1,8,4,4] c = {{{c}}}>
        {{ v = Conv <group = 4> (x, W)  y = Add(v, c) }}
    """)
    x = random.normal(size=(1, 8, 4, 4)).astype(np.float32)
    np.testing.assert_allclose(found.run(x=x)[0], run(found.before, {"x": x})[0], atol=1e-6)
    assert found.ops == ["Conv", "Add"]


def test_batch_norm_after_a_batched_product(rewrite: Rewrite) -> None:
    """Rank 3: no Gemm, and the channels are axis 1."""
    found = rewrite("""
        g (float[2,3,4] x) => (float[2,3,3] y)
        <float[4,3] W = {1,2,3,4,5,6,7,8,9,1,2,3}, float[3] g1 = {1,2,3}, float[3] v = {1,2,3}>
        { p = MatMul(x, W)  y = BatchNormalization(p, g1, g1, g1, v) }
    """)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    w = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], np.float64).reshape(4, 3)
    g = np.array([1.0, 2, 3])[:, None]
    right = (x @ w - g) * g / np.sqrt(g + 1e-5) + g
    np.testing.assert_allclose(found.run(x=x)[0], right, rtol=1e-4, atol=1e-4)
    assert "Gemm" not in found.ops


def test_ones_that_raise_the_rank(rewrite: Rewrite) -> None:
    """x of rank 0 times ones of shape [1] has rank 1; MatMul needs that."""
    found = rewrite("""
        g (float x) => (float[3] y)
        <float[1,3] W = {1,2,3}, float[1] one = {1}> { p = Mul(x, one)  y = MatMul(p, W) }
    """)
    np.testing.assert_array_equal(found.run(x=np.float32(2))[0], [2, 4, 6])
    assert found.ops == ["Mul", "MatMul"]


def test_a_cast_that_truncates_stays(rewrite: Rewrite) -> None:
    found = rewrite("""
        g (float[3] x) => (float[3] y) { i = Cast <to = 6> (x)  y = Cast <to = 1> (i) }
    """)
    np.testing.assert_array_equal(
        found.run(x=np.array([1.5, -1.5, 0.9], np.float32))[0], [1, -1, 0]
    )
    assert found.ops == ["Cast", "Cast"]


def test_beta_of_a_gemm_counts_once(rewrite: Rewrite) -> None:
    """W s, (beta C - m) s + b, and beta 1."""
    found = rewrite("""
        g (float[2,2] x) => (float[2,3] y)
        <float[2,3] W = {1,2,3,4,5,6}, float[3] C = {1,2,3}, float[3] k = {2,3,4},
         float[3] v = {1,4,9}>
        { p = Gemm <beta = 2.0> (x, W, C)  y = BatchNormalization <epsilon = 0.0> (p, k, k, k, v) }
    """)
    x = np.array([[1, 2], [3, 4]], np.float32)
    w = np.array([[1, 2, 3], [4, 5, 6.0]])
    k = np.array([2, 3, 4.0])
    right = (x @ w + 2 * np.array([1, 2, 3]) - k) * k / np.array([1, 2, 3]) + k
    np.testing.assert_allclose(found.run(x=x)[0], right, rtol=1e-6)
    assert found.ops == ["Gemm"]
    assert all(a.f == 1 for a in found.model.graph.node[0].attribute if a.name == "beta")


@pytest.mark.parametrize("pads", ["{0,0,-1,0,0,0}", "{0,0,1,0,0,-1}"])
def test_negative_pads_stay(rewrite: Rewrite, pads: str) -> None:
    found = rewrite(f"""
        g (float[1,1,5] x) => (float[1,1,N] y)
        <int64[6] p = {pads}, float[1,1,2] W = {{1,2}}> {{ i = Pad(x, p)  y = Conv(i, W) }}
    """)
    assert found.ops == ["Pad", "Conv"]


def test_pads_replace_auto_pad(rewrite: Rewrite) -> None:
    """auto_pad VALID would ignore the pads that the Pad became."""
    found = rewrite("""
        g (float[1,1,3] x) => (float[1,1,4] y) <int64[6] p = {0,0,1,0,0,1}, float[1,1,2] W = {1,10}>
        { i = Pad(x, p)  y = Conv <auto_pad = "VALID"> (i, W) }
    """)
    x = np.array([[[1, 2, 3]]], np.float32)
    np.testing.assert_array_equal(found.run(x=x)[0], [[[10, 21, 32, 3]]])
    assert found.ops == ["Conv"]


def test_relu_of_a_clip_below_zero(rewrite: Rewrite) -> None:
    """relu(clip(x, -3, -1)) is 0 everywhere, not -1."""
    found = rewrite("""
        g (float[5] x) => (float[5] y)
        <float l = {-3}, float h = {-1}> { c = Clip(x, l, h)  y = Relu(c) }
    """)
    np.testing.assert_array_equal(
        found.run(x=np.linspace(-5, 5, 5, dtype=np.float32))[0], np.zeros(5)
    )


def test_bounds_that_raise_the_rank(rewrite: Rewrite) -> None:
    """min(max(x:[3], [1,1]), ...) has shape [1,3]; Clip would give [3]."""
    found = rewrite("""
        g (float[3] x) => (float[1,3] y)
        <float[1,1] l = {-1}, float h = {1}> { m = Max(x, l)  y = Min(m, h) }
    """)
    x = np.array([-2, 0, 2], np.float32)
    np.testing.assert_array_equal(found.run(x=x)[0], [[-1, 0, 1]])


def test_batch_norm_that_trains_stays(rewrite: Rewrite) -> None:
    found = rewrite("""
        g (float[2,1,2] x) => (float[2,1,2] y) <float[1,1,1] W = {2}, float[1] k = {1}>
        { c = Conv(x, W)  y, m, v = BatchNormalization <training_mode = 1> (c, k, k, k, k) }
    """)
    assert found.ops == ["Conv", "BatchNormalization"]


def test_clips_without_shape_information(rewrite: Rewrite) -> None:
    """Nothing between them has a declared type."""
    found = rewrite("""
        g (float[N] x) => (float[N] y)
        <float l = {-1}, float h = {1}> { a = Clip(x, l)  y = Clip(a, , h) }
    """)
    np.testing.assert_array_equal(found.run(x=np.array([-2, 0, 2], np.float32))[0], [-1, 0, 1])
    assert found.ops == ["Clip"]


def test_three_that_are_columns_and_not_channels(rewrite: Rewrite, run: Callable[..., Any]) -> None:
    """[3] next to [1,3,3,3] varies along the last axis."""
    found = rewrite("""
        g (float[1,3,3,3] x) => (float[1,3,3,3] y)
        <float[3,3,1,1] W = {1,2,3,4,5,6,7,8,9}, float[3] k = {1,10,100}>
        { c = Conv(x, W)  y = Mul(c, k) }
    """)
    x = np.random.default_rng(0).normal(size=(1, 3, 3, 3)).astype(np.float32)
    np.testing.assert_allclose(found.run(x=x)[0], run(found.before, {"x": x})[0], rtol=1e-6)
    assert found.ops == ["Conv", "Mul"]


def test_a_value_that_is_also_an_output(rewrite: Rewrite) -> None:
    """A graph output is a use."""
    found = rewrite("""
        g (float[1,2,4] x) => (float[1,2,4] y, float[1,2,4] c)
        <float[2,2,1] W = {1,2,3,4}, float k = {3}>
        { c = Conv(x, W)  y = Mul(c, k) }
    """)
    assert found.ops == ["Conv", "Mul"]


def test_a_default_that_a_caller_may_override(rewrite: Rewrite) -> None:
    """From IR version 4 on an initializer that is an input is only a default."""
    text = "g (float[2] x, float z = {0}) => (float[2] y) { a = Abs(x)  s = Add(a, z)  y = Neg(s) }"
    assert rewrite(text).ops == ["Abs", "Add", "Neg"]


def test_the_input_model_is_untouched(rewrite: Rewrite) -> None:
    found = rewrite("""
        g (float[2] x) => (float[2] y) { a = Abs(x)  i = Identity(a)  y = Neg(i) }
    """)
    assert [node.op_type for node in found.before.graph.node] == ["Abs", "Identity", "Neg"]
    assert io.load(found.before).model is not None
