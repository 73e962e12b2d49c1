"""Weights stored as codes, and integer products that are scaled at run time.

What a model of weights means is computed here from its integers; what it gives, by onnxruntime.
Integer products are compared with int64 arithmetic at the extreme codes, where kernels that add
pairs of products in 16 bits saturate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(7)
CODES = {"uint8": np.uint8, "int8": np.int8}


def _model(
    nodes: list[onnx.NodeProto],
    held: dict[str, np.ndarray],
    inputs: list[onnx.ValueInfoProto],
    output: onnx.ValueInfoProto,
    opset: int = 18,
) -> onnx.ModelProto:
    initializers = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def _stored(w: np.ndarray, s: np.ndarray, z: np.ndarray | None) -> onnx.ModelProto:
    """MatMul(x, (Cast(w) - z) s)"""
    rows, columns = w.shape
    held = {"w": w, "s": s} if z is None else {"w": w, "s": s, "z": z}
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT)]
    if z is not None:
        nodes.append(helper.make_node("Sub", ["c", "z"], ["d"]))
    nodes.append(helper.make_node("Mul", ["s", "c" if z is None else "d"], ["k"]))
    nodes.append(helper.make_node("MatMul", ["x", "k"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, rows])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])
    return _model(nodes, held, [x], y)


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("shape", [(), (1,), (24,), (16, 1)])
@pytest.mark.parametrize("shifted", [False, True])
def test_stored_weights(
    rewrite: Callable[..., Any], dtype: str, shape: tuple[int, ...], shifted: bool
) -> None:
    """Every element is (code - zero point) scale, rounded once; the identity shows them all."""
    info = np.iinfo(CODES[dtype])
    w = RNG.integers(info.min, info.max + 1, (16, 24)).astype(dtype)
    s = RNG.uniform(0.001, 0.1, shape).astype(np.float32)
    z = RNG.integers(info.min, info.max + 1, shape).astype(np.float32) if shifted else None
    found = rewrite(_stored(w, s, z), "quant-weights")
    assert found.ops == ["DequantizeLinear", "MatMul"]
    (got,) = found.run(x=np.eye(16, dtype=np.float32))
    wanted = (w.astype(np.int64) - (0 if z is None else z)).astype(np.float32) * s
    np.testing.assert_array_equal(got, wanted)


def test_weights_stay_codes_when_the_rule_does_not_fit(rewrite: Callable[..., Any]) -> None:
    """A scale for each element is no quantization; nothing is folded into floats either."""
    w = RNG.integers(-128, 128, (16, 24)).astype(np.int8)
    found = rewrite(
        _stored(w, RNG.uniform(0.1, 1, (16, 24)).astype(np.float32), None), "quant-weights"
    )
    assert found.ops == ["Cast", "Mul", "MatMul"]


@pytest.mark.parametrize("bad", [0.0, -0.1, float("inf"), float("nan"), 1e-40])
def test_bad_scales_are_left_alone(rewrite: Callable[..., Any], bad: float) -> None:
    w = RNG.integers(-128, 128, (16, 24)).astype(np.int8)
    for s in (np.array(bad, np.float32), np.array([0.1] * 23 + [bad], np.float32)):
        found = rewrite(_stored(w, s, None), "quant-weights")
        assert found.ops == ["Cast", "Mul", "MatMul"]


def test_zero_points_that_are_no_codes_are_left_alone(rewrite: Callable[..., Any]) -> None:
    w = RNG.integers(0, 256, (16, 24)).astype(np.uint8)
    s = np.array(0.1, np.float32)
    for z in (0.5, -1.0, 256.0, float("nan")):
        found = rewrite(_stored(w, s, np.array(z, np.float32)), "quant-weights")
        assert found.ops == ["Cast", "Sub", "Mul", "MatMul"], z


@pytest.mark.parametrize("blocks", [2, 3, 4])
def test_blocks(rewrite: Callable[..., Any], blocks: int) -> None:
    """[N, blocks, L] codes, a scale for each block, reshaped to [N, K]."""
    n, length = 16, 8
    w = RNG.integers(0, 256, (n, blocks, length)).astype(np.uint8)
    s = RNG.uniform(0.001, 0.1, (n, blocks, 1)).astype(np.float32)
    z = RNG.integers(0, 256, (n, blocks, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Sub", ["c", "z"], ["d"]),
        helper.make_node("Mul", ["d", "s"], ["p"]),
        helper.make_node("Reshape", ["p", "t"], ["k"]),
        helper.make_node("MatMul", ["x", "k"], ["y"]),
    ]
    to = np.array([n, blocks * length], np.int64)
    held: dict[str, np.ndarray] = {"w": w, "s": s, "z": z, "t": to}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, n])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, blocks * length])
    found = rewrite(_model(nodes, held, [x], y, opset=21), "quant-weights")
    assert found.ops == ["DequantizeLinear", "MatMul"]
    (got,) = found.run(x=np.eye(n, dtype=np.float32))
    wanted = ((w.astype(np.float32) - z) * s).reshape(n, -1)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("a", CODES)
@pytest.mark.parametrize("b", CODES)
def test_integer_products_at_the_ends(rewrite: Callable[..., Any], a: str, b: str) -> None:
    """255 times 127, 64 of them: 2,072,640, in every kernel. Zero points at the ends, too."""
    low, high = np.iinfo(a).min, np.iinfo(a).max
    w = np.array([np.iinfo(b).max, np.iinfo(b).min] * 6).reshape(1, 12).repeat(64, 0).astype(b)
    az = np.array(low + 42, a)
    bz = np.array(np.iinfo(b).min + 102, b)
    nodes = [helper.make_node("MatMulInteger", ["x", "w", "az", "bz"], ["y"])]
    x = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(a)), [2, 64])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [2, 12])
    found = rewrite(_model(nodes, {"w": w, "az": az, "bz": bz}, [x], y), "quant-weights")
    assert found.rules == ([] if a == b else ["weights_of_one_signedness"])
    codes = np.stack([np.full(64, high), np.resize([low, high], 64)]).astype(a)
    (got,) = found.run(x=codes)
    wanted = (codes.astype(np.int64) - int(az)) @ (w.astype(np.int64) - int(bz))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("a", CODES)
def test_integer_convolutions_at_the_ends(rewrite: Callable[..., Any], a: str) -> None:
    """A border is padded with the zero point of the data: shifted weights change nothing there."""
    b = "int8" if a == "uint8" else "uint8"
    low, high = np.iinfo(a).min, np.iinfo(a).max
    w = np.resize([np.iinfo(b).max, np.iinfo(b).min, np.iinfo(b).max], (2, 4, 3, 3)).astype(b)
    az = np.array(low + 3, a)
    nodes = [helper.make_node("ConvInteger", ["x", "w", "az"], ["y"], pads=[1, 1, 1, 1])]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(a))
    x = helper.make_tensor_value_info("x", kind, [1, 4, 5, 5])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, [1, 2, 5, 5])
    found = rewrite(_model(nodes, {"w": w, "az": az}, [x], y), "quant-weights")
    assert found.rules == ["weights_of_one_signedness"]
    codes = np.resize([high, low, high, high], (1, 4, 5, 5)).astype(a)
    (got,) = found.run(x=codes)
    padded = np.pad(codes.astype(np.int64) - int(az), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64))
    np.testing.assert_array_equal(got, wanted)


def test_a_dynamic_product_is_one_group(rewrite: Callable[..., Any]) -> None:
    """Quantized at run time, multiplied, scaled, biased; signed weights."""
    w = RNG.integers(-127, 128, (32, 12)).astype(np.int8)
    t, bias = np.array(0.013, np.float32), RNG.standard_normal(12).astype(np.float32)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["m"]),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "t"], ["st"]),
        helper.make_node("Mul", ["c", "st"], ["p"]),
        helper.make_node("Add", ["p", "bias"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 32])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 12])
    model = _model(nodes, {"w": w, "t": t, "bias": bias}, [x], y)
    found = rewrite(model, "quant-weights")
    assert found.ops == ["DynamicQuantizeLinear", "Mul", "QDynamic"]
    given = RNG.standard_normal((4, 32)).astype(np.float32)
    (got,) = found.run(x=given)
    scale = np.float32((max(given.max(), 0) - min(given.min(), 0)) / np.float32(255))
    zero = np.rint(-min(given.min(), 0) / scale)
    codes = np.clip(np.rint(given / scale) + zero, 0, 255).astype(np.int64)
    sums = (codes - int(zero)) @ w.astype(np.int64)
    np.testing.assert_array_equal(got, sums.astype(np.float32) * (scale * t) + bias)
