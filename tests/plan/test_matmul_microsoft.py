"""Matrix products of ONNX Runtime's own operators, against onnxruntime and numpy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tests.plan.matmul_models import model, run

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(0)
F = np.float32


def node(name: str, inputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, inputs, ["y"], domain="com.microsoft", **attributes)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(F)


def check(
    one: onnx.NodeProto, arrays: dict[str, Array], const: Any = (), atol: float = 1e-4
) -> None:
    """As onnxruntime computes it, all optimizations off."""
    proto = model([one], arrays, ["y"], const)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    wanted = peer.run(None, {n: a for n, a in arrays.items() if n not in const})[0]
    (y,) = run([one], arrays, const)
    assert y.dtype == wanted.dtype
    assert y.shape == wanted.shape
    np.testing.assert_allclose(y.astype(F), wanted.astype(F), rtol=1e-4, atol=atol)


TURNS = list(itertools.product((0, 1), repeat=4))


@pytest.mark.parametrize("const", [(), ("b",), ("a", "b")])
def test_fused_matmul(const: tuple[str, ...]) -> None:
    for ta, tb, batch_a, batch_b in TURNS:
        rows = (7, 5) if ta else (5, 7)
        columns = (6, 7) if tb else (7, 6)
        a = normal(rows[0], 3, 4, rows[1]) if batch_a else normal(3, 4, *rows)
        b = normal(columns[0], 3, 4, columns[1]) if batch_b else normal(3, 4, *columns)
        attributes = {"transA": ta, "transB": tb, "transBatchA": batch_a, "transBatchB": batch_b}
        left, right = (np.moveaxis(x, 0, -2) if t else x for x, t in ((a, batch_a), (b, batch_b)))
        left = left.swapaxes(-1, -2) if ta else left
        right = right.swapaxes(-1, -2) if tb else right
        one = node("FusedMatMul", ["a", "b"], alpha=0.5, **attributes)
        (y,) = run([one], {"a": a, "b": b}, const)
        np.testing.assert_allclose(y, 0.5 * np.matmul(left, right), rtol=1e-4, atol=1e-5)


def test_transpose_matmul() -> None:
    a, b = normal(2, 7, 5), normal(2, 6, 7)
    check(node("FusedMatMul", ["a", "b"], transA=1, transB=1, alpha=2.0), {"a": a, "b": b})
    one = node("TransposeMatMul", ["a", "b"], transA=1, transB=1)
    (y,) = run([one], {"a": a, "b": b})
    np.testing.assert_allclose(y, np.matmul(a.swapaxes(1, 2), b.swapaxes(1, 2)), atol=1e-5)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", {}), ("Sigmoid", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.1}),
     ("HardSigmoid", {"activation_alpha": 0.2, "activation_beta": 0.5})],
)  # fmt: skip
def test_fused_gemm(activation: str, parameters: dict[str, float]) -> None:
    arrays = {"a": normal(9, 7), "b": normal(5, 7), "c": normal(5)}
    attributes = {"transB": 1, "activation": activation} | parameters
    for const in ((), ("b", "c")):
        check(node("FusedGemm", ["a", "b", "c"], **attributes), arrays, const)


def test_gemm_fast_gelu() -> None:
    arrays = {"a": normal(2, 9, 7), "b": normal(7, 5), "c": normal(5)}
    (y,) = run([node("GemmFastGelu", ["a", "b", "c"])], arrays, ("b", "c"))
    x = np.matmul(arrays["a"].astype(np.float64), arrays["b"]) + arrays["c"]
    exact = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(y, exact, atol=1e-5)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32])
def test_matmul_nbits(bits: int, block: int) -> None:
    n = 12
    for k, zeros, kind in itertools.product((32, 64), (False, True), (F, np.float16)):
        blocks = -(-k // block)
        arrays = {
            "a": normal(2, 9, k).astype(kind),
            "b": RNG.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8),
            "s": (RNG.random(n * blocks) * 0.1).astype(kind),
        }
        if zeros:
            size = n * -(-blocks * bits // 8)
            arrays["z"] = RNG.integers(0, 256, size).astype(np.uint8)
        one = node("MatMulNBits", list(arrays), K=k, N=n, bits=bits, block_size=block)
        check(one, arrays, [x for x in arrays if x != "a"], 0.05 if kind is not F else 2e-3)


def test_matmul_nbits_of_unknown_weights_is_left_to_the_reference() -> None:
    arrays = {"a": normal(9, 32), "b": np.zeros((4, 2, 8), np.uint8), "s": normal(8)}
    one = node("MatMulNBits", list(arrays), K=32, N=4, bits=4, block_size=16)
    with pytest.raises(Exception, match="RW804"):
        run([one], arrays)


@pytest.mark.parametrize("per_column", [False, True])
def test_dynamic_quantize_matmul(per_column: bool) -> None:
    """Codes of the left factor are those of DynamicQuantizeLinear."""
    size = (20,) if per_column else ()
    arrays = {
        "a": normal(2, 9, 17), "b": RNG.integers(-128, 128, (17, 20)).astype(np.int8),
        "s": np.asarray(RNG.random(size) * 0.1 + 0.01, F), "z": np.full(size, 3, np.int8),
        "c": normal(20),
    }  # fmt: skip
    for names in (list(arrays), ["a", "b", "s", "z"], ["a", "b", "s"]):
        given = {n: arrays[n] for n in names}
        check(node("DynamicQuantizeMatMul", names), given, [n for n in names if n != "a"], 1e-2)
