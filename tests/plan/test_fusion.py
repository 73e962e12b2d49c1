"""Which operators become one kernel: the plan's labels, and results against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from rewrite.graph import io
from rewrite.runtime.session import Options, Session


def labels(text: str, feeds: dict[str, np.ndarray], opset: int = 18) -> list[str]:
    """Labels of the kernels of the fused plan, whose results are compared with onnxruntime's."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]>\n{text}')
    with Session(io.load(model), Options(fuse=True)) as session:
        found = session.run(feeds)
        judge = onnxruntime.InferenceSession(
            model.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        for a, b in zip(judge.run(None, feeds), found.values(), strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-5, atol=2e-6, strict=True)
        return [call.label for plan in session.plan for call in plan.calls]


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32)


def test_a_chain_is_one_kernel():
    text = """g (float[3,5] x, float[5] b) => (float[3,5] y)
    { a = Add(x, b) c = Relu(a) d = Mul(c, b) y = Tanh(d) }"""
    assert labels(text, {"x": f32(3, 5), "b": f32(5)}) == ["Add+Relu+Mul+Tanh"]


def test_a_value_used_twice_within_is_computed_once():
    text = """g (float[3,5] x, float[5] b) => (float[3,5] y)
    { a = Add(x, b) s = Sigmoid(a) y = Mul(a, s) }"""
    assert labels(text, {"x": f32(3, 5), "b": f32(5)}) == ["Add+Sigmoid+Mul"]


def test_a_value_needed_outside_ends_a_kernel():
    text = """g (float[3,5] x) => (float[3,5] a, float[3,5] y)
    { a = Exp(x) b = Relu(a) y = Neg(b) }"""
    assert labels(text, {"x": f32(3, 5)}) == ["Exp", "Relu+Neg"]


def test_broadcasting_up_ends_a_kernel():
    text = """g (float[1,5] x, float[3,5] z) => (float[3,5] y)
    { a = Exp(x) b = Relu(a) y = Add(b, z) }"""
    assert labels(text, {"x": f32(1, 5), "z": f32(3, 5)}) == ["Exp+Relu", "Add"]


def test_a_product_takes_its_tail():
    text = """g (float[4,6] x, float[6,8] w, float[8] b, float[4,8] r) => (float[4,8] y)
    { m = MatMul(x, w) a = Add(m, b) s = Add(a, r) y = Relu(s) }"""
    feeds = {"x": f32(4, 6), "w": f32(6, 8), "b": f32(8), "r": f32(4, 8)}
    assert labels(text, feeds) == ["MatMul+Add+Add+Relu"]


def test_a_tail_may_use_the_product_twice():
    text = """g (float[4,6] x, float[6,8] w) => (float[4,8] y)
    { m = MatMul(x, w) s = Sigmoid(m) y = Mul(m, s) }"""
    assert labels(text, {"x": f32(4, 6), "w": f32(6, 8)}) == ["MatMul+Sigmoid+Mul"]


def test_an_operand_that_comes_later_is_waited_for():
    text = """g (float[4,6] x, float[6,8] w, float[8] b) => (float[4,8] y)
    { m = MatMul(x, w) e = Exp(b) t = Neg(e) y = Add(m, t) }"""
    found = labels(text, {"x": f32(4, 6), "w": f32(6, 8), "b": f32(8)})
    assert found == ["Exp+Neg", "MatMul+Add"]


def test_a_normalization_takes_in_what_comes_before():
    text = """g (float[4,8] x, float[4,8] r, float[8] s, float[8] b) => (float[4,8] y, float[4,8] a)
    { a = Add(x, r) y = LayerNormalization(a, s, b) }"""
    feeds = {"x": f32(4, 8), "r": f32(4, 8), "s": f32(8), "b": f32(8)}
    assert labels(text, feeds) == ["Add+LayerNormalization"]


def test_a_value_used_before_the_normalization_stays_apart():
    text = """g (float[4,8] x, float[4,8] r, float[8] s, float[8,8] w) => (float[4,8] y)
    { a = Add(x, r) m = MatMul(a, w) n = Softmax(m) t = LayerNormalization(a, s) y = Add(n, t) }"""
    feeds = {"x": f32(4, 8), "r": f32(4, 8), "s": f32(8), "w": f32(8, 8)}
    found = labels(text, feeds)
    assert found[0] == "Add"


def test_two_branches_that_meet_are_one_kernel():
    text = """g (float[3,5] x, float[3,5] z) => (float[3,5] y)
    { a = Exp(x) b = Tanh(z) y = Add(a, b) }"""
    assert labels(text, {"x": f32(3, 5), "z": f32(3, 5)}) in (
        ["Exp+Tanh+Add"], ["Tanh+Exp+Add"],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs_compute_the_same_fused(seed):
    """Pointwise operators, products and reductions in random order over shared values."""
    rng = np.random.default_rng(seed)
    names, lines = ["x", "z"], []
    for k in range(int(rng.integers(5, 25))):
        kind = rng.integers(0, 8)
        a, b = (names[int(rng.integers(max(0, len(names) - 6), len(names)))] for _ in range(2))
        body = (
            f"Add({a}, {b})", f"Mul({a}, {b})", f"Tanh({a})", f"Sub({a}, {b})",
            f"MatMul({a}, {b})", f"Softmax({a})", f"Sigmoid({a})", f"LayerNormalization({a}, one)",
        )[kind]  # fmt: skip
        lines.append(f"v{k} = {body}")
        names.append(f"v{k}")
    used = [f"v{k}" for k in range(len(lines)) if rng.random() < 0.2] + [names[-1]]
    outputs = list(dict.fromkeys(used))
    ends = " ".join(f"o{i} = Identity({name})" for i, name in enumerate(outputs))
    declared = ", ".join(f"float[6,6] o{i}" for i in range(len(outputs)))
    head = f"g (float[6,6] x, float[6,6] z, float[6] one) => ({declared})"
    text = f"{head} {{ {' '.join(lines)} {ends} }}"
    feeds = {"x": f32(6, 6), "z": f32(6, 6) / 2, "one": np.ones(6, np.float32)}
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{text}')
    onnx.checker.check_model(model)
    with Session(io.load(model), Options(fuse=False)) as plain:
        wanted = plain.run(feeds)
        kernels = len(plain.plan[0].calls)
    with Session(io.load(model), Options(fuse=True)) as fused:
        found = fused.run(feeds)
        assert len(fused.plan[0].calls) <= kernels
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-3)
