"""Models of ONNX Runtime's tests about weights: biases in float, weights in float, and signed
weights where pairs of products saturate 16 bits.

Out: builders in `builders_core.FACTS`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.quantized.builders_contraction import variants
from tests.quantized.builders_core import Case, Counts, Graph, fact

SETTINGS = {"strides": [1, 1], "dilations": [1, 1]}


def _conv_fused(strict: bool, weights_are_codes: bool) -> Iterator[Case]:
    for opset, contrib, label in variants((18, 19, 21)):
        g = Graph(opset, contrib)
        if weights_are_codes:
            x = g.dq(g.input((1, 24, 32, 32), "u8"), 0.07, 0, "u8")
            weight = g.weights((24, 1, 3, 3), "u8")
            weight = g.dq(weight, [0.05] * 24, [0] * 24, "u8", axis=0)
            extra: dict[str, object] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
            last = (0.14, 127, "u8")
        else:
            x = g.dq(g.input((1, 24, 27, 27), "u8"), 0.014, 127, "u8")
            weight = g.weights((24, 1, 5, 5), "f32")
            extra = {"kernel_shape": [5, 5], "strides": [2, 2]}
            last = (0.014, 127, "u8")
        bias = g.weights((24,), "f32")
        y = g.node("Conv", x, weight, bias, **{**SETTINGS, "group": 24, **extra})
        g.out(g.q(y, *last))
        yield Case(label, g, ({"Q": 0, "DQ": 0, "QLinearConv": 1},), strict)


@fact("WeightBiasQuantization_Conv_Bias")
def conv_bias() -> Iterator[Case]:
    return _conv_fused(strict=False, weights_are_codes=True)


@fact("WeightBiasQuantization_Conv_Weight_Bias")
def conv_weight_bias() -> Iterator[Case]:
    return _conv_fused(strict=True, weights_are_codes=False)


@fact("WeightBiasQuantization_ConvWithReLU")
def conv_relu() -> Iterator[Case]:
    for opset, contrib, label in variants((18, 19)):
        g = Graph(opset, contrib)
        x = g.qdq(g.input((1, 3, 8, 8)), 0.018, 127, "u8")
        y = g.node("Relu", g.node("Conv", x, g.weights((4, 3, 3, 3), "f32")))
        g.out(g.qdq(y, 0.018, 0, "u8"))
        yield Case(label, g, ({"Q": 3, "DQ": 3, "Conv": 1, "Relu": 1},), strict=True)


@fact("WeightBiasQuantization_SkipIfOutputNotQuantized")
def conv_float_output() -> Iterator[Case]:
    for reshaped in (0, 1):
        for opset, contrib, label in variants((18, 19)):
            g = Graph(opset, contrib)
            x = g.dq(g.input((1, 3, 8, 8), "u8"), 0.014, 127, "u8")
            y = g.node("Conv", x, g.weights((4, 3, 3, 3), "f32"), g.weights((4,), "f32"))
            g.out(g.node("Reshape", y, g.shape(1, -1)) if reshaped else y)
            counts = {"DQ": 1, "Conv": 1, "Q": 0, "Reshape": reshaped}
            yield Case(f"{reshaped}, {label}", g, (counts,))


def _conv_transpose(per_channel: bool) -> Iterator[Case]:
    """Without a kernel for codes a bias in float is as good as one that is dequantized."""
    for opset, contrib, label in variants((18, 19)):
        g = Graph(opset, contrib)
        x = g.dq(g.input((1, 3, 4, 4), "u8"), 0.014, 127, "u8")
        operands = [x]
        if per_channel:
            weight = g.weights((3, 4, 3, 3), "s8")
            scales = np.linspace(0.001, 0.004, 4)
            operands += [g.dq(weight, scales, [0] * 4, "s8", axis=1), g.weights((4,), "f32")]
        else:
            operands.append(g.weights((3, 3, 3, 3), "f32"))
        y = g.node("ConvTranspose", *operands, kernel_shape=[3, 3], **SETTINGS)
        g.out(g.q(y, 0.014, 127, "u8"))
        counts = {"Q": 1, "DQ": 3 if per_channel else 2, "ConvTranspose": 1}
        yield Case(label, g, (counts,), strict=not per_channel)


@fact("WeightBiasQuantization_ConvTranspose_Weight")
def conv_transpose_weight() -> Iterator[Case]:
    return _conv_transpose(per_channel=False)


@fact("WeightBiasQuantization_ConvTransposePerChannelWeight")
def conv_transpose_per_channel() -> Iterator[Case]:
    return _conv_transpose(per_channel=True)


def _gemm(codes: bool, bias: bool) -> Iterator[Case]:
    for opset, contrib, label in variants((18, 19, 21)):
        g = Graph(opset, contrib)
        zp = 0 if codes else 127
        operands = [g.dq(g.input((1, 32), "u8"), 0.001, zp, "u8")]
        if codes:
            operands.append(g.dq(g.weights((16, 32), "u8"), 0.26, 0, "u8"))
        else:
            operands.append(g.weights((16, 32) if bias else (32, 16), "f32"))
        if bias:
            operands.append(g.weights((16,), "f32"))
        y = g.node("Gemm", *operands, transB=int(bias))
        g.out(g.q(y, 0.144, 69 if codes else 127, "u8"))
        yield Case(label, g, ({"Q": 0, "DQ": 0, "ms.QGemm": 1},), strict=not codes)


@fact("WeightBiasQuantization_Gemm_Bias")
def gemm_bias() -> Iterator[Case]:
    return _gemm(codes=True, bias=True)


@fact("WeightBiasQuantization_Gemm_Weight")
def gemm_weight() -> Iterator[Case]:
    return _gemm(codes=False, bias=False)


@fact("WeightBiasQuantization_Gemm_Weight_Bias")
def gemm_weight_bias() -> Iterator[Case]:
    return _gemm(codes=False, bias=True)


@fact("WeightBiasQuantization_Gemm_HandleNegativeDqAxis")
def gemm_negative_axis() -> Iterator[Case]:
    for opset, contrib, label in variants((18, 19, 21)):
        g = Graph(opset, contrib)
        x = g.dq(g.input((2, 16), "u8"), 0.01, 120, "u8")
        scales = np.linspace(0.01, 0.03, 8)
        weight = g.dq(g.weights((16, 8), "s8", -64, 63), scales, [0] * 8, "s8", axis=-1)
        g.out(g.q(g.node("Gemm", x, weight, g.weights((8,), "f32")), 0.1, 128, "u8"))
        yield Case(label, g, ({"Q": 1, "DQ": 3},))


# --- signed weights: the same numbers as with unsigned ones, which no pair saturates --------------


def _signed(g: Graph, codes: np.ndarray, signed: bool) -> str:
    if signed:
        return g.const((codes ^ 0x80).astype(np.uint8).view(np.int8), "s8")
    return g.const(codes, "u8")


def _codes(g: Graph, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    return g.random.integers(low, high + 1, shape).astype(np.uint8)


def _twins(make: object, name: str, step: float | None = None) -> Iterator[Case]:
    graphs = []
    for signed in (True, False):
        g = Graph(12)
        make(g, signed)  # type: ignore[operator]
        graphs.append(g)
    expected: tuple[Counts, ...] = ({"saturating": 0},)
    yield Case(name, graphs[0], expected, twin=graphs[1], step=step)


@fact("CPU_U8S8_Precision_Tests.MatMulIntegerToFloat")
def precise_matmul() -> Iterator[Case]:
    def make(g: Graph, signed: bool) -> None:
        a = g.input((4, 128), "u8", 240, 255)
        b = _signed(g, _codes(g, (128, 128), 240, 255), signed)
        scale = g.const(g.random.uniform(0.01, 0.1, 128))  # theirs have both signs
        zero = _signed(g, _codes(g, (128,), 240, 250), signed)
        bias = g.const(g.random.uniform(-0.1, 0.1, 128))
        operands = (a, b, g.const([0.03]), scale, g.const([245], "u8"), zero, bias)
        g.out(g.node("MatMulIntegerToFloat", *operands, domain="com.microsoft"))

    yield from _twins(make, "large codes")


@fact("CPU_U8S8_Precision_Tests.DynamicQuantizeMatMul")
def precise_dynamic() -> Iterator[Case]:
    def make(g: Graph, signed: bool) -> None:
        a = g.input((4, 128))
        b = _signed(g, _codes(g, (128, 128), 240, 255), signed)
        scale = g.const(g.random.uniform(0.01, 0.1, 128))  # theirs have both signs
        zero = _signed(g, _codes(g, (128,), 240, 250), signed)
        bias = g.const(g.random.uniform(-0.1, 0.1, 128))
        g.out(g.node("DynamicQuantizeMatMul", a, b, scale, zero, bias, domain="com.microsoft"))

    yield from _twins(make, "large codes")


@fact("CPU_U8S8_Precision_Tests.QLinearMatMul")
def precise_qlinear_matmul() -> Iterator[Case]:
    def make(g: Graph, signed: bool) -> None:
        a = g.input((4, 128), "u8", 240, 255)
        b = _signed(g, _codes(g, (128, 32), 240, 255), signed)
        zero = _signed(g, np.asarray(130, np.uint8), signed)
        first = (a, g.const(0.01), g.const(113, "u8"))
        second = (b, g.const(0.0002), zero)
        g.out(g.node("QLinearMatMul", *first, *second, g.const(0.01), g.const(128, "u8")))

    yield from _twins(make, "large codes")


@fact("CPU_U8S8_Precision_Tests.QLinearConv")
def precise_qlinear_conv() -> Iterator[Case]:
    def make(g: Graph, signed: bool) -> None:
        x = g.input((1, 24, 9, 9), "u8", 240, 255)
        w = _signed(g, _codes(g, (16, 24, 3, 3), 240, 255), signed)
        zero = _signed(g, np.asarray(130, np.uint8), signed)
        first = (x, g.const(0.01), g.const(113, "u8"))
        second = (w, g.const(0.0002), zero)
        g.out(g.node("QLinearConv", *first, *second, g.const(0.01), g.const(128, "u8")))

    yield from _twins(make, "large codes")


@fact("CPU_U8S8_Precision_Tests.DynamicQuantizeLSTM")
def precise_lstm() -> Iterator[Case]:
    def make(g: Graph, signed: bool) -> None:
        x, hidden = g.input((3, 1, 64)), 16
        w, r = (_codes(g, (1, n, 4 * hidden), 240, 255) for n in (64, hidden))
        zeros = [_signed(g, _codes(g, (1,), 244, 246), signed) for _ in range(2)]
        operands = (x, _signed(g, w, signed), _signed(g, r, signed), "", "", "", "", "")
        scales = [g.const([0.01]), zeros[0], g.const([0.01]), zeros[1]]
        y = g.several(
            "DynamicQuantizeLSTM", *operands, *scales, n=1, domain="com.microsoft",
            hidden_size=hidden,
        )  # fmt: skip
        g.out(*y)

    yield from _twins(make, "large codes", step=1e-6)
