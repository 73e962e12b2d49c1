"""One network, the same numbers, written in every form that quantized models come in.

`build(form)` gives a model. The network: convolution with Relu, MaxPool, depthwise convolution with
a clamp, residual addition, mean over the plane, a dense layer, a logistic function. Scales are the
same in all forms; in `s8s8` every zero point of an activation is 128 less.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIZE, CLASSES = 6, 9, 5


@dataclass(frozen=True)
class Form:
    """How the network is written."""

    name: str
    operators: str = "qdq"  # qdq | qoperator
    signed: bool = False  # activations s8 instead of u8
    opset: int = 13
    shared: bool = False  # equal parameters are one initializer
    hidden: str = ""  # what stands before operands: "" | identity | cast | constant


FORMS = (
    Form("qdq_u8s8"),
    Form("qdq_s8s8", signed=True),
    Form("qdq_opset_21", opset=21),
    Form("qoperator", operators="qoperator"),
    Form("qoperator_s8s8", operators="qoperator", signed=True),
    Form("shared", shared=True),
    Form("identity", hidden="identity"),
    Form("cast", hidden="cast"),
    Form("constant", hidden="constant"),
    Form("constant_opset_21_s8s8", hidden="constant", opset=21, signed=True),
)

# name -> (scale, zero point as u8)
ACTIVATIONS = {
    "x": (0.0231, 121), "c1": (0.0317, 0), "c2": (0.0274, 96), "sum": (0.0393, 67),
    "mean": (0.0123, 31), "dense": (0.0471, 140), "out": (1 / 256, 0),
}  # fmt: skip


@dataclass
class _Writer:
    form: Form
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: dict[str, onnx.TensorProto] = field(default_factory=dict)
    made: int = 0

    def fresh(self, hint: str) -> str:
        self.made += 1
        return f"{hint}_{self.made}"

    def node(
        self, op: str, inputs: list[str], output: str | None = None, **attributes: object
    ) -> str:
        out = output or self.fresh(op.lower())
        domain = attributes.pop("domain", "")
        self.nodes.append(helper.make_node(op, inputs, [out], domain=domain, **attributes))
        return out

    def constant(self, array: np.ndarray, hint: str) -> str:
        """A constant as the form has it: its own or a shared one, plain, or behind something."""
        name = (
            f"{hint}_{array.tobytes().hex()[:16]}_{array.size}"
            if self.form.shared
            else self.fresh(hint)
        )
        if self.form.hidden == "cast" and array.dtype != np.int32 and array.dtype != np.int64:
            wide = array.astype(np.float64 if array.dtype == np.float32 else np.int32)
            stored = self.fresh(name)
            self.tensors[stored] = numpy_helper.from_array(wide, stored)
            return self.node(
                "Cast", [stored], name, to=helper.np_dtype_to_tensor_dtype(array.dtype)
            )
        if self.form.hidden == "constant":
            return self.node("Constant", [], name, value=numpy_helper.from_array(array, ""))
        self.tensors[name] = numpy_helper.from_array(array, name)
        return self.hide(name)

    def hide(self, value: str) -> str:
        return self.node("Identity", [value]) if self.form.hidden == "identity" else value

    # --- parameters

    def codes_type(self) -> type[np.generic]:
        return np.int8 if self.form.signed else np.uint8

    def parameters(self, activation: str) -> tuple[str, str]:
        scale, zero = ACTIVATIONS[activation]
        zero = zero - 128 if self.form.signed else zero
        return (
            self.constant(np.array(scale, np.float32), f"{activation}_scale"),
            self.constant(np.array(zero, self.codes_type()), f"{activation}_zero"),
        )

    def quantize(self, value: str, activation: str, output: str | None = None) -> str:
        return self.hide(self.node("QuantizeLinear", [value, *self.parameters(activation)], output))

    def dequantize(self, codes: str, activation: str) -> str:
        return self.hide(self.node("DequantizeLinear", [codes, *self.parameters(activation)]))

    def weight(self, array: np.ndarray, scale: float, hint: str) -> str:
        """Weights as numbers: dequantized, or (behind a cast) multiplied."""
        codes = self.constant(array, hint)
        if self.form.hidden == "cast":
            number = self.node("Cast", [codes], to=TensorProto.FLOAT)
            return self.node("Mul", [number, self.constant(np.array(scale, np.float32), "scale")])
        zero = self.constant(np.array(0, np.int8), "zero")
        return self.node(
            "DequantizeLinear", [codes, self.constant(np.array(scale, np.float32), "scale"), zero]
        )

    def bias(self, array: np.ndarray, scale: np.float32, hint: str) -> str:
        return self.node(
            "DequantizeLinear",
            [self.constant(array, hint), self.constant(np.array(scale, np.float32), "scale")],
        )


def _numbers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)

    def weights(*shape: int) -> np.ndarray:
        return np.clip(np.rint(rng.normal(0, 40, shape)), -127, 127).astype(np.int8)

    return {
        "w1": weights(CHANNELS, 3, 3, 3), "b1": rng.integers(-900, 900, CHANNELS).astype(np.int32),
        "w2": weights(CHANNELS, 1, 3, 3), "b2": rng.integers(-500, 500, CHANNELS).astype(np.int32),
        "w3": weights(CHANNELS, CLASSES), "b3": rng.integers(-700, 700, CLASSES).astype(np.int32),
    }  # fmt: skip


WEIGHT_SCALES = {"w1": 0.0041, "w2": 0.0077, "w3": 0.0093}


def build(form: Form) -> onnx.ModelProto:
    """The model; input `image` of numbers, outputs `scores` and the codes before the mean."""
    w = _Writer(form)
    x = w.quantize("image", "x")
    body = _qdq if form.operators == "qdq" else _qoperator
    scores, total = body(w, x, _numbers())
    outputs = [
        helper.make_tensor_value_info(scores, TensorProto.FLOAT, [1, CLASSES]),
        helper.make_tensor_value_info(
            total, TensorProto.INT8 if form.signed else TensorProto.UINT8, [1, CHANNELS, 5, 5]
        ),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])
    graph = helper.make_graph(w.nodes, form.name, [image], outputs, list(w.tensors.values()))
    opsets = [helper.make_opsetid("", form.opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8 if form.opset < 21 else 10
    return model


def _scale(activation: str, weight: str) -> np.float32:
    return np.float32(ACTIVATIONS[activation][0]) * np.float32(WEIGHT_SCALES[weight])


def _qdq(w: _Writer, x: str, n: dict[str, np.ndarray]) -> tuple[str, str]:
    def layer(op: str, codes: str, at: str, i: int, **attributes: object) -> str:
        operands = [
            w.dequantize(codes, at),
            w.weight(n[f"w{i}"], WEIGHT_SCALES[f"w{i}"], f"w{i}"),
            w.bias(n[f"b{i}"], _scale(at, f"w{i}"), f"b{i}"),
        ]
        return w.node(op, operands, **attributes)

    relu = w.node("Relu", [layer("Conv", x, "x", 1, pads=[1, 1, 1, 1], kernel_shape=[3, 3])])
    c1 = w.quantize(relu, "c1")
    pooled = w.node(
        "MaxPool", [w.dequantize(c1, "c1")], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]
    )
    p1 = w.quantize(pooled, "c1")
    deep = layer("Conv", p1, "c1", 2, pads=[1, 1, 1, 1], kernel_shape=[3, 3], group=CHANNELS)
    low, high = (w.constant(np.array(v, np.float32), "bound") for v in (-1.1, 2.2))
    c2 = w.quantize(w.node("Clip", [deep, low, high]), "c2")
    w.quantize(w.node("Add", [w.dequantize(p1, "c1"), w.dequantize(c2, "c2")]), "sum", "total")
    mean = w.quantize(w.node("GlobalAveragePool", [w.dequantize("total", "sum")]), "mean")
    flat = w.quantize(w.node("Flatten", [w.dequantize(mean, "mean")]), "mean")
    dense = w.quantize(layer("Gemm", flat, "mean", 3), "dense")
    out = w.quantize(w.node("Sigmoid", [w.dequantize(dense, "dense")]), "out")
    return w.node("DequantizeLinear", [out, *w.parameters("out")], "scores"), "total"


def _qoperator(w: _Writer, x: str, n: dict[str, np.ndarray]) -> tuple[str, str]:
    def layer(op: str, codes: str, at: str, i: int, to: str, **attributes: object) -> str:
        weight = [
            w.constant(n[f"w{i}"], f"w{i}"),
            w.constant(np.array(WEIGHT_SCALES[f"w{i}"], np.float32), "scale"),
            w.constant(np.array(0, np.int8), "zero"),
        ]
        bias, outs = w.constant(n[f"b{i}"], f"b{i}"), w.parameters(to)
        tail = [*outs, bias] if op == "QLinearConv" else [bias, *outs]
        return w.node(op, [codes, *w.parameters(at), *weight, *tail], **attributes)

    c1 = layer("QLinearConv", x, "x", 1, "c1", pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    p1 = w.node("MaxPool", [c1], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1])
    deep = layer(
        "QLinearConv", p1, "c1", 2, "c2", pads=[1, 1, 1, 1], kernel_shape=[3, 3], group=CHANNELS
    )
    scale, zero = ACTIVATIONS["c2"]
    zero = zero - 128 if w.form.signed else zero
    low, high = (
        w.constant(
            np.array(np.rint(np.float32(v) / np.float32(scale)) + zero, w.codes_type()), "bound"
        )
        for v in (-1.1, 2.2)
    )
    c2 = w.node("Clip", [deep, low, high])
    microsoft = {"domain": "com.microsoft"}
    pair = [p1, *w.parameters("c1"), c2, *w.parameters("c2"), *w.parameters("sum")]
    total = w.node("QLinearAdd", pair, "total", **microsoft)
    mean = w.node(
        "QLinearGlobalAveragePool",
        [total, *w.parameters("sum"), *w.parameters("mean")],
        channels_last=0,
        **microsoft,
    )
    flat = w.node("Flatten", [mean])
    dense = layer("QGemm", flat, "mean", 3, "dense", **microsoft)
    out = w.node(
        "QLinearSigmoid", [dense, *w.parameters("dense"), *w.parameters("out")], **microsoft
    )
    return w.node("DequantizeLinear", [out, *w.parameters("out")], "scores"), "total"
