"""Networks of known architectures with random weights.

In: sizes. Out: `ModelProto`s. Sources of the architectures: He et al. 2016 (table 1, 50 layers, the
stride in the 3x3 convolution), Devlin et al. 2019 (BERT base), Sandler et al. 2018 (table 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import TensorProto

from tests.runtime.models.blocks import (
    batch_norm,
    conv,
    conv_bn_relu,
    gelu,
    layer_norm,
    linear,
    self_attention,
)
from tests.runtime.models.builder import Graph


def resnet50(
    batch: int = 1, size: int = 224, classes: int = 1000, stages: tuple[int, ...] = (3, 4, 6, 3)
) -> onnx.ModelProto:
    g = Graph("resnet50", 50)
    x = g.input("image", [batch, 3, size, size])
    y = conv_bn_relu(g, x, 3, 64, 7, 2)
    y = g.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, blocks in enumerate(stages):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = _bottleneck(g, y, channels, width, stride, first=not block)
            channels = 4 * width
    y = g.op("Flatten", g.op("GlobalAveragePool", y))
    y = g.op(
        "Gemm", y, g.normal((classes, channels), channels**-0.5), g.normal((classes,), 0.1, "bias"),
        transB=1,
    )  # fmt: skip
    g.output(y, [batch, classes])
    return g.build()


def _bottleneck(g: Graph, x: str, inputs: int, width: int, stride: int, first: bool) -> str:
    y = conv_bn_relu(g, x, inputs, width, 1)
    y = conv_bn_relu(g, y, width, width, 3, stride)
    y = batch_norm(g, conv(g, y, width, 4 * width, 1), 4 * width, 0.3)
    short = batch_norm(g, conv(g, x, inputs, 4 * width, 1, stride), 4 * width) if first else x
    return g.op("Relu", g.op("Add", y, short))


# Expansion, channels, repeats, first stride.
_INVERTED = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


def mobilenet(batch: int = 1, size: int = 224, classes: int = 1000) -> onnx.ModelProto:
    """MobileNetV2: depthwise convolutions between pointwise ones."""
    g = Graph("mobilenet", 2)
    y = _conv_bn_relu6(g, g.input("image", [batch, 3, size, size]), 3, 32, 3, 2, 1)
    channels = 32
    for expansion, width, repeats, stride in _INVERTED:
        for block in range(repeats):
            y = _inverted(g, y, channels, width, expansion, 1 if block else stride)
            channels = width
    y = _conv_bn_relu6(g, y, channels, 1280, 1, 1, 1)
    y = g.op("Flatten", g.op("GlobalAveragePool", y))
    y = g.op("Gemm", y, g.normal((classes, 1280), 1280**-0.5), g.normal((classes,), 0.1), transB=1)
    g.output(y, [batch, classes])
    return g.build()


def _conv_bn_relu6(
    g: Graph, x: str, inputs: int, outputs: int, kernel: int, stride: int, groups: int
) -> str:
    y = batch_norm(g, conv(g, x, inputs, outputs, kernel, stride, groups), outputs)
    return g.op("Clip", y, g.scalar(0.0), g.scalar(6.0))


def _inverted(g: Graph, x: str, inputs: int, outputs: int, expansion: int, stride: int) -> str:
    wide = inputs * expansion
    y = x if expansion == 1 else _conv_bn_relu6(g, x, inputs, wide, 1, 1, 1)
    y = _conv_bn_relu6(g, y, wide, wide, 3, stride, wide)
    y = batch_norm(g, conv(g, y, wide, outputs, 1), outputs, 0.5)
    return g.op("Add", x, y) if stride == 1 and inputs == outputs else y


def bert(
    layers: int = 12,
    hidden: int = 768,
    count: int = 12,
    batch: int = 1,
    sequence: int = 128,
    words: int = 30522,
) -> onnx.ModelProto:
    """An encoder with the embeddings and the additive mask of BERT; the last hidden state."""
    g = Graph("bert", 12)
    shape = [batch, sequence]
    ids = g.input("input_ids", shape, TensorProto.INT64)
    mask = g.input("attention_mask", shape, TensorProto.INT64)
    kinds = g.input("token_type_ids", shape, TensorProto.INT64)
    bias = g.op("Cast", g.op("Unsqueeze", mask, g.constant(np.array([1, 2]))), to=TensorProto.FLOAT)
    bias = g.op("Mul", g.op("Sub", g.scalar(1.0), bias), g.scalar(-10000.0))
    x = g.op("Gather", g.normal((words, hidden), 1.0, "words"), ids)
    x = g.op("Add", x, g.op("Gather", g.normal((2, hidden), 0.3, "kinds"), kinds))
    x = g.op("Add", x, g.normal((1, sequence, hidden), 0.3, "places"))
    x = layer_norm(g, x, hidden)
    for _ in range(layers):
        x = layer_norm(g, g.op("Add", self_attention(g, x, hidden, count, bias), x), hidden)
        wide = gelu(g, linear(g, x, hidden, 4 * hidden))
        x = layer_norm(g, g.op("Add", linear(g, wide, 4 * hidden, hidden), x), hidden)
    g.output(x, [batch, sequence, hidden])
    return g.build()


def bert_feeds(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    """Words, a mask that hides the last eighth, two kinds of tokens."""
    rng = np.random.default_rng(seed)
    batch, sequence = (d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim)
    words = next(t.dims[0] for t in model.graph.initializer if t.name.startswith("words"))
    mask = np.ones((batch, sequence), np.int64)
    mask[:, sequence - sequence // 8 :] = 0
    return {
        "input_ids": rng.integers(0, words, (batch, sequence)),
        "attention_mask": mask,
        "token_type_ids": (np.arange(sequence) > sequence // 2)
        .astype(np.int64)[None]
        .repeat(batch, 0),
    }


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": resnet50,
    "mobilenet": mobilenet,
    "bert": bert,
}

# The same architectures small enough for the tests.
SMALL: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "resnet50": lambda: resnet50(size=64, classes=10, stages=(1, 1, 1, 1)),
    "mobilenet": lambda: mobilenet(size=64, classes=10),
    "bert": lambda: bert(layers=2, hidden=64, count=4, sequence=16, words=50),
}


def feeds_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    if model.graph.name == "bert":
        return bert_feeds(model, seed)
    (value,) = model.graph.input
    shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
    return {value.name: np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}
