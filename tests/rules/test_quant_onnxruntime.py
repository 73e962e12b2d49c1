"""The pack `quant-onnxruntime`: kernels of ONNX Runtime against integers and rationals.

Right values are computed here from the meaning of a quantized model: (c - z) s is a real number,
what lies between is real arithmetic (integers scaled, float64), and QuantizeLinear rounds half to
even and saturates. A kernel may be one step off. Processors with VNNI cannot show saturation, so
for weights beside u8 data it is looked for in the model itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rewrite as package

Array = np.ndarray[Any, Any]
Run = Callable[..., list[Array]]
TARGET = "onnxruntime-cpu"
KINDS = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8)}
PAIRS = [(x, w) for x in KINDS for w in KINDS]
S, U = np.float32(0.0371), np.float32(0.0113)


class Net:
    """A quantized model under construction: constants, nodes, inputs of codes."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.held: list[onnx.TensorProto] = []
        self.inputs: dict[str, Array] = {}

    def const(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, op: str, *operands: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        return name

    def dq(self, codes: Array, scale: Any, zero: Any, given: bool = False, **more: Any) -> str:
        """Dequantized codes, which are an input (`given`) or a constant."""
        if given:
            name = f"x{len(self.inputs)}"
            self.inputs[name] = codes
        else:
            name = self.const(codes)
        zeros = self.const(zero, codes.dtype)
        return self.node("DequantizeLinear", name, self.const(scale, np.float32), zeros, **more)

    def q(self, value: str, scale: Any, zero: Any, dtype: np.dtype[Any]) -> str:
        parameters = self.const(scale, np.float32), self.const(zero, dtype)
        return self.node("QuantizeLinear", value, *parameters)

    def model(self, output: str, dtype: int) -> onnx.ModelProto:
        kind = helper.np_dtype_to_tensor_dtype
        inputs = [
            helper.make_tensor_value_info(k, kind(v.dtype), v.shape) for k, v in self.inputs.items()
        ]
        result = helper.make_tensor_value_info(output, dtype, None)
        graph = helper.make_graph(self.nodes, "net", inputs, [result], self.held)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8
        )
        return onnx.shape_inference.infer_shapes(made)


def lowered(net: Net, output: str, dtype: int, run: Run) -> tuple[list[str], Array]:
    """Operators for the target, and the output; no weights that saturate."""
    model = package.apply(net.model(output, dtype), target=TARGET).model
    onnx.checker.check_model(model)
    assert not model.functions
    _saturates_nowhere(model)
    return [node.op_type for node in model.graph.node], run(model, net.inputs)[0]


WEIGHTS = {"QLinearConv": (0, 3), "QLinearMatMul": (0, 3), "QGemm": (0, 3)} | {
    "MatMulIntegerToFloat": (0, 1)
}


def _saturates_nowhere(model: onnx.ModelProto) -> None:
    """255 a + 255 b for any two weights of a channel is a 16-bit number."""
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kinds = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    for node in model.graph.node:
        if node.op_type not in WEIGHTS:
            continue
        data, place = WEIGHTS[node.op_type]
        weights = held.get(node.input[place])
        if weights is None or kinds.get(node.input[data]) != TensorProto.UINT8:
            continue
        turned = any(a.name == "transB" and a.i for a in node.attribute)
        rows = weights if node.op_type == "QLinearConv" or turned else np.moveaxis(weights, -1, 0)
        for row in rows.reshape(rows.shape[0], -1).astype(int):
            if weights.dtype == np.int8 and row.size > 1:
                low, high = np.sort(row)[:2], np.sort(row)[-2:]
                assert np.maximum(high, 0).sum() * 255 <= 32767
                assert np.minimum(low, 0).sum() * 255 >= -32768


def coded(real: Any, scale: Any, zero: int, dtype: np.dtype[Any]) -> Array:
    """The codes of real numbers."""
    info = np.iinfo(dtype)
    steps = np.rint(np.asarray(real) / float(scale)) + zero
    return np.asarray(np.clip(steps, info.min, info.max)).astype(np.int64)


def within_one(ours: Array, right: Array) -> None:
    assert ours.shape == right.shape
    assert np.abs(ours.astype(np.int64) - right).max() <= 1


def codes(kind: str, shape: tuple[int, ...], seed: int, style: str = "random") -> Array:
    """All kinds of codes, or the largest and least alone."""
    info = np.iinfo(KINDS[kind])
    rng = np.random.default_rng(seed)
    if style == "random":
        return rng.integers(info.min, info.max + 1, shape).astype(KINDS[kind])
    return rng.choice([info.min, info.max], shape).astype(KINDS[kind])


# --- contractions -------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [10, 13, 21])
@pytest.mark.parametrize("style", ["random", "extreme"])
@pytest.mark.parametrize(("x", "w"), PAIRS)
def test_convolution(x: str, w: str, style: str, opset: int, run: Run) -> None:
    """Odd zero points, a bias in the accumulator's units, scales per channel from opset 13 on."""
    net, dtype = Net(opset), KINDS[x]
    data, kernel = codes(x, (1, 3, 6, 6), 1, style), codes(w, (4, 3, 3, 3), 2, style)
    xz, wz = (7, 0) if w == "s8" else (7, 131)
    vector = opset >= 13
    ws = U * np.array([1, 0.5, 2, 0.25], np.float32) if vector else U
    bias = np.array([1000, -2000, 3, 0], np.int32)
    along: dict[str, Any] = {"axis": 0} if vector else {}
    zeros = [wz] * 4 if vector else wz
    a = net.dq(data, S, xz, given=True)
    k = net.dq(kernel, ws, zeros, **along)
    bs = np.float32(S) * np.asarray(ws, np.float32)
    b = net.dq(bias, bs, np.zeros(np.shape(bs), np.int32), **along)
    real = _conv(data.astype(np.int64) - xz, kernel.astype(np.int64) - wz)
    real = (real + bias[:, None, None]) * (float(S) * np.asarray(ws, float).reshape(-1, 1, 1))
    step, zero = np.float32(np.abs(real).max() / 90), 3
    y = net.q(net.node("Conv", a, k, b, pads=[1, 1, 1, 1]), step, zero, dtype)
    operators, ours = lowered(net, y, helper.np_dtype_to_tensor_dtype(dtype), run)
    assert operators == ["QLinearConv"]
    within_one(ours, coded(real, step, zero, dtype))


def _conv(x: Array, w: Array) -> Array:
    """A 3 by 3 convolution with pads of 1: the pads stand for 0."""
    x = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    total = np.zeros((x.shape[0], w.shape[0], x.shape[2] - 2, x.shape[3] - 2), np.int64)
    for i, j in itertools.product(range(3), range(3)):
        patch = x[:, :, i : i + total.shape[2], j : j + total.shape[3]]
        total += np.einsum("nchw,oc->nohw", patch, w[:, :, i, j])
    return total


@pytest.mark.parametrize("to", ["codes", "float"])
@pytest.mark.parametrize("style", ["random", "extreme"])
@pytest.mark.parametrize(("x", "w"), PAIRS)
def test_product(x: str, w: str, style: str, to: str, run: Run) -> None:
    net, dtype = Net(21), KINDS[x]
    data, matrix = codes(x, (2, 5, 48), 3, style), codes(w, (48, 7), 4, style)
    ws, wz = U * np.arange(1, 8, dtype=np.float32), codes(w, (7,), 5)
    a = net.dq(data, S, 9, given=True)
    product = net.node("MatMul", a, net.dq(matrix, ws, wz, axis=1))
    sums = (data.astype(np.int64) - 9) @ (matrix.astype(np.int64) - wz.astype(np.int64))
    real = sums * (float(S) * ws.astype(float))
    if to == "float":
        operators, ours = lowered(net, product, TensorProto.FLOAT, run)
        assert operators == ["MatMulIntegerToFloat"]
        np.testing.assert_allclose(ours, real, rtol=1e-6, atol=1e-6 * np.abs(real).max())
        return
    step = np.float32(np.abs(real).max() / 100)
    y = net.q(product, step, 1, dtype)
    operators, ours = lowered(net, y, helper.np_dtype_to_tensor_dtype(dtype), run)
    assert operators == ["QLinearMatMul"]
    within_one(ours, coded(real, step, 1, dtype))


@pytest.mark.parametrize(("x", "w"), PAIRS)
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_gemm(x: str, w: str, alpha: float, run: Run) -> None:
    """alpha multiplies the product alone (ORT#28130): it is part of the units of the bias."""
    net, dtype = Net(18), KINDS[x]
    data, matrix = codes(x, (3, 32), 6), codes(w, (5, 32), 7, "extreme")
    bias = np.array([50000, -70000, 7, 0, 1], np.int32)
    unit = np.float32(alpha * float(S) * float(U))
    operands = net.dq(data, S, 9, given=True), net.dq(matrix, U, 5), net.dq(bias, unit, 0)
    sums = (data.astype(np.int64) - 9) @ (matrix.astype(np.int64) - 5).T
    real = alpha * float(S) * float(U) * sums + float(unit) * bias
    step = np.float32(np.abs(real).max() / 100)
    y = net.q(net.node("Gemm", *operands, alpha=alpha, transB=1), step, 1, dtype)
    operators, ours = lowered(net, y, helper.np_dtype_to_tensor_dtype(dtype), run)
    assert operators == ["QGemm"]
    within_one(ours, coded(real, step, 1, dtype))


@pytest.mark.parametrize("factor", [1.009, 1.5, 4.0])
def test_bias_in_other_units(factor: float, run: Run) -> None:
    """ORT#24711: whatever becomes of the bias, it is b b_s and not b x_s w_s."""
    net = Net(18)
    data, kernel = codes("u8", (1, 2, 6, 6), 8), np.full((2, 2, 3, 3), 3, np.int8)
    bias, unit = np.array([5000, -5000], np.int32), np.float32(float(S) * float(U) * factor)
    operands = net.dq(data, S, 7, given=True), net.dq(kernel, U, 0), net.dq(bias, unit, 0)
    sums = _conv(data.astype(np.int64) - 7, kernel.astype(np.int64))
    real = sums * float(S) * float(U) + (bias * float(unit))[:, None, None]
    step = np.float32(np.abs(real).max() / 100)
    y = net.q(net.node("Conv", *operands, pads=[1, 1, 1, 1]), step, 128, KINDS["u8"])
    _, ours = lowered(net, y, TensorProto.UINT8, run)
    within_one(ours, coded(real, step, 128, KINDS["u8"]))


def test_products_of_two_results(run: Run) -> None:
    """Attention: no operand is constant."""
    net = Net(18)
    a, b = codes("s8", (2, 4, 16), 9), codes("s8", (2, 16, 4), 10, "extreme")
    product = net.node("MatMul", net.dq(a, S, 9, given=True), net.dq(b, U, -3, given=True))
    real = (a.astype(np.int64) - 9) @ (b.astype(np.int64) + 3) * (float(S) * float(U))
    step = np.float32(np.abs(real).max() / 100)
    operators, ours = lowered(net, net.q(product, step, 1, KINDS["s8"]), TensorProto.INT8, run)
    assert operators == ["QLinearMatMul"]
    within_one(ours, coded(real, step, 1, KINDS["s8"]))


def test_pair_that_saturates(run: Run) -> None:
    """ORT#16105: u8 [210, 198, 234] by s8 [-81, -80, 127] is -3132; two of them are -32,850."""
    net = Net(18)
    data, column = np.array([[210, 198, 234]], np.uint8), np.array([[-81], [-80], [127]], np.int8)
    product = net.node("MatMul", net.dq(data, 0.01, 0, given=True), net.dq(column, 0.01, 0))
    y = net.q(product, 0.01, 128, KINDS["u8"])
    operators, ours = lowered(net, y, TensorProto.UINT8, run)
    assert operators == ["QLinearMatMul"]
    assert abs(int(ours[0, 0]) - 97) <= 1  # 128 + rint(-31.32)


@pytest.mark.parametrize("bad", [-0.01, 0.0, float("nan"), 1e-40])
def test_bad_scales_are_left_alone(bad: float) -> None:
    net = Net(18)
    a = net.dq(codes("u8", (2, 4), 1), bad, 3, given=True)
    p = net.node("MatMul", a, net.dq(codes("s8", (4, 2), 1), U, 0))
    model = net.model(net.q(p, S, 1, KINDS["u8"]), TensorProto.UINT8)
    after = package.apply(model, target=TARGET).model
    assert "QLinearMatMul" not in [node.op_type for node in after.graph.node]


# --- elementwise --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize(
    "scales", [(0.25, 0.25, 0.5), (0.1, 0.1, 0.2), (0.05, 0.07, 0.11), (3.0, 0.001, 0.02)]
)
def test_all_pairs(kind: str, op: str, scales: tuple[float, ...], run: Run) -> None:
    """65,536 pairs, ties among them, an odd zero point of the result."""
    net, dtype = Net(13), KINDS[kind]
    info = np.iinfo(dtype)
    line = np.arange(info.min, info.max + 1).astype(dtype)
    a, b = line.reshape(-1, 1), line.reshape(1, -1)
    s, t, u = (float(np.float32(v)) for v in scales)
    value = net.node(op, net.dq(a, s, 3, given=True), net.dq(b, t, -5 % 128, given=True))
    y = net.q(value, u, 1, dtype)
    operators, ours = lowered(net, y, helper.np_dtype_to_tensor_dtype(dtype), run)
    assert operators == [f"QLinear{op}"]
    p, q = (a.astype(float) - 3) * s, (b.astype(float) - (-5 % 128)) * t
    within_one(ours, coded(p + q if op == "Add" else p * q, u, 1, dtype))


UNARY: dict[str, tuple[dict[str, float], Callable[[Array], Array]]] = {
    "Sigmoid": ({}, lambda v: 1 / (1 + np.exp(-v))),
    "LeakyRelu": ({"alpha": 0.3}, lambda v: np.where(v > 0, v, float(np.float32(0.3)) * v)),
}


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("op", UNARY)
def test_all_codes(kind: str, op: str, run: Run) -> None:
    net, dtype = Net(18), KINDS[kind]
    attributes, function = UNARY[op]
    info = np.iinfo(dtype)
    line = np.arange(info.min, info.max + 1).astype(dtype)
    s, u = np.float32(0.061), np.float32(0.0047 if op == "Sigmoid" else 0.05)
    y = net.q(net.node(op, net.dq(line, s, 11, given=True), **attributes), u, 1, dtype)
    operators, ours = lowered(net, y, helper.np_dtype_to_tensor_dtype(dtype), run)
    assert operators == [f"QLinear{op}"]
    within_one(ours, coded(function((line.astype(float) - 11) * float(s)), u, 1, dtype))


@pytest.mark.parametrize("opset", [11, 13, 21])
@pytest.mark.parametrize(("kind", "zero"), [("u8", 0), ("u8", 3), ("s8", -128), ("s8", 0)])
@pytest.mark.parametrize("step", [1 / 256, 1 / 255, 0.0078])
def test_softmax(kind: str, zero: int, step: float, opset: int, run: Run) -> None:
    """ORT#29727 among them: one probability near 1, at 1/256 with the zero point -128."""
    net, dtype = Net(opset), KINDS[kind]
    data = codes(kind, (64, 8), 11)
    data[0], data[0, 0] = np.iinfo(dtype).min, np.iinfo(dtype).max
    y = net.q(net.node("Softmax", net.dq(data, 0.1, 3, given=True), axis=1), step, zero, dtype)
    operators, ours = lowered(net, y, helper.np_dtype_to_tensor_dtype(dtype), run)
    assert operators == ["QLinearSoftmax"]
    real = np.exp((data.astype(float) - data.astype(float).max(1, keepdims=True)) * 0.1)
    right = real / real.sum(1, keepdims=True)
    within_one(ours, coded(right, float(np.float32(step)), zero, dtype))


@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("counted", [0, 1])
def test_average_pool(kind: str, counted: int, run: Run) -> None:
    """Pads stand for 0, whose code is the zero point; ties with an odd one."""
    net, dtype = Net(18), KINDS[kind]
    data = codes(kind, (1, 2, 6, 6), 12)
    attributes = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": counted}
    value = net.node("AveragePool", net.dq(data, 0.25, 3, given=True), **attributes)
    operators, ours = lowered(
        net, net.q(value, 0.25, 1, dtype), helper.np_dtype_to_tensor_dtype(dtype), run
    )
    assert operators == ["QLinearAveragePool"]
    spread = np.pad((data.astype(float) - 3) * 0.25, [(0, 0), (0, 0), (1, 1), (1, 1)])
    ones = np.pad(np.ones(data.shape), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = [(slice(i, i + 7), slice(j, j + 7)) for i in (0, 1) for j in (0, 1)]
    total = sum(spread[:, :, h, w] for h, w in windows)
    number = 4 if counted else sum(ones[:, :, h, w] for h, w in windows)
    within_one(ours, coded(total / number, 0.25, 1, dtype))


@pytest.mark.parametrize("op", ["GlobalAveragePool", "ReduceMean"])
def test_global_average(op: str, run: Run) -> None:
    net = Net(18)
    data = codes("s8", (2, 3, 5, 7), 13)
    a = net.dq(data, 0.25, 3, given=True)
    axes = [net.const([2, 3], np.int64)] if op == "ReduceMean" else []
    operators, ours = lowered(
        net, net.q(net.node(op, a, *axes), 0.1, 1, KINDS["s8"]), TensorProto.INT8, run
    )
    assert operators == ["QLinearGlobalAveragePool"]
    real = ((data.astype(float) - 3) * 0.25).mean((2, 3), keepdims=True)
    within_one(ours, coded(real, float(np.float32(0.1)), 1, KINDS["s8"]))


def test_join_and_choice(run: Run) -> None:
    net = Net(18)
    a, b = codes("u8", (3, 4), 14), codes("u8", (3, 4), 15)
    net.inputs["c"] = np.random.default_rng(1).random((3, 8)) < 0.5
    p, q = net.dq(a, 0.25, 3, given=True), net.dq(b, 0.07, 200, given=True)
    left = net.q(net.node("Concat", p, q, axis=1), 0.11, 5, KINDS["u8"])
    scale, zero = net.const(0.11, np.float32), net.const(5, np.uint8)
    d = net.node("DequantizeLinear", left, scale, zero)
    e = net.dq(np.arange(8, dtype=np.uint8), 2.0, 1)
    y = net.q(net.node("Where", "c", d, e), 0.2, 77, KINDS["u8"])
    operators, ours = lowered(net, y, TensorProto.UINT8, run)
    assert operators == ["QLinearConcat", "QLinearWhere"]
    joined = np.concatenate(
        [(a.astype(float) - 3) * 0.25, (b.astype(float) - 200) * float(np.float32(0.07))], 1
    )
    step = float(np.float32(0.11))
    joined = (coded(joined, step, 5, KINDS["u8"]) - 5) * step
    chosen = np.where(net.inputs["c"], joined, (np.arange(8) - 1) * 2.0)
    # A step of the sum inside is half a step of the result.
    within_one(ours, coded(chosen, float(np.float32(0.2)), 77, KINDS["u8"]))


# --- weights in blocks --------------------------------------------------------------------------


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("block", [16, 32, 128])
def test_blocks(signed: bool, block: int, run: Run) -> None:
    """Float32 data stay float32: one rounding of each term and sum."""
    net, rng = Net(21), np.random.default_rng(16)
    low = -8 if signed else 0
    k, n = 256, 5
    w = rng.integers(low, low + 16, (k, n)).astype(np.int8)
    z = rng.integers(low, low + 16, (k // block, n)).astype(np.int8)
    s = rng.uniform(0.01, 0.1, (k // block, n)).astype(np.float32)
    kind = TensorProto.INT4 if signed else TensorProto.UINT4
    for name, array in (("w", w), ("z", z)):
        net.held.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist()))
    x = rng.standard_normal((3, k)).astype(np.float32)
    net.inputs["x"] = x
    d = net.node("DequantizeLinear", "w", net.const(s), "z", axis=0, block_size=block)
    operators, ours = lowered(net, net.node("MatMul", "x", d), TensorProto.FLOAT, run)
    assert operators == ["MatMulNBits"]
    weights = (w.astype(float) - np.repeat(z, block, 0)) * np.repeat(s, block, 0).astype(float)
    right = x.astype(float) @ weights
    bound = k * np.finfo(np.float32).eps * (np.abs(x).astype(float) @ np.abs(weights)).max()
    assert np.abs(ours - right).max() <= bound


# --- whole graphs -------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [12, 18])
def test_result_of_the_other_sign_before_movement(opset: int, run: Run) -> None:
    """Conv of s8 codes, pooled, transposed, quantized as u8: one kernel, no codes moved by 128."""
    net = Net(opset)
    data, kernel = codes("s8", (1, 3, 6, 6), 17), codes("s8", (4, 3, 3, 3), 18)
    a = net.dq(data, S, 7, given=True)
    c = net.node("Conv", a, net.dq(kernel, U, 0), pads=[1, 1, 1, 1])
    m = net.node("MaxPool", c, kernel_shape=[2, 2], strides=[2, 2])
    t = net.node("Transpose", m, perm=[0, 2, 3, 1])
    real = _conv(data.astype(np.int64) - 7, kernel.astype(np.int64)) * (float(S) * float(U))
    step = np.float32(np.abs(real).max() / 100)
    y = net.q(t, step, 135, KINDS["u8"])
    r = net.node("DequantizeLinear", y, net.const(step), net.const(135, np.uint8))
    operators, ours = lowered(net, r, TensorProto.FLOAT, run)
    assert operators == ["QLinearConv", "MaxPool", "Transpose", "DequantizeLinear"]
    pooled = real.reshape(1, 4, 3, 2, 3, 2).max((3, 5)).transpose(0, 2, 3, 1)
    right = (coded(pooled, float(step), 135, KINDS["u8"]) - 135) * float(step)
    assert np.abs(ours - right).max() <= float(step) * 1.001
