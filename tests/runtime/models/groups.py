"""The groups of operators whose fusion is measured, each as a model of its own.

In: sizes. Out: `ModelProto`s, and which of them memory bounds: those whose operands do not fit into
the caches and whose arithmetic per byte is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tests.runtime.models.blocks import (
    conv_bn_relu,
    gelu,
    layer_norm_written_out,
    scaled_dot_product,
    silu,
)
from tests.runtime.models.builder import Graph


@dataclass(frozen=True)
class Group:
    """`make(scale)`: the model; sizes shrink with a scale below 1."""

    name: str
    make: Callable[[float], onnx.ModelProto]
    memory_bound: bool


def _rows(g: Graph, scale: float, rows: int, columns: int, *names: str) -> tuple[list[str], int]:
    rows = max(2, int(rows * scale))
    return [g.input(name, [rows, columns]) for name in names], rows


def residual_layer_norm(scale: float = 1.0) -> onnx.ModelProto:
    """LayerNormalization, written out, of a sum"""
    g = Graph("residual_layer_norm", 1, opset=16)
    (x, skip), rows = _rows(g, scale, 8192, 1024, "x", "skip")
    total = g.op("Add", x, skip)
    y = layer_norm_written_out(g, total, 1024)
    g.output(y, [rows, 1024])
    return g.build()


def bias_gelu(scale: float = 1.0) -> onnx.ModelProto:
    g = Graph("bias_gelu", 2)
    (x,), rows = _rows(g, scale, 4096, 3072, "x")
    y = gelu(g, g.op("Add", x, g.normal((3072,), 0.5, "bias")))
    g.output(y, [rows, 3072])
    return g.build()


def swiglu(scale: float = 1.0) -> onnx.ModelProto:
    """silu(a) b, the two halves of one product"""
    g = Graph("swiglu", 3)
    (x,), rows = _rows(g, scale, 4096, 5632, "x")
    left = g.op("Split", x, outputs=2, axis=-1)
    y = g.op("Mul", silu(g, left), f"{left}.1")
    g.output(y, [rows, 2816])
    return g.build()


def pointwise_chain(scale: float = 1.0) -> onnx.ModelProto:
    """Eight operators, one after the other"""
    g = Graph("pointwise_chain", 4)
    (x,), rows = _rows(g, scale, 8192, 1024, "x")
    y = g.op("Mul", x, g.scalar(0.5))
    y = g.op("Add", y, g.normal((1024,), 0.5, "bias"))
    y = g.op("Relu", y)
    y = g.op("Sub", y, g.scalar(0.25))
    y = g.op("Abs", y)
    y = g.op("Sqrt", y)
    y = g.op("Min", y, g.scalar(3.0))
    y = g.op("Neg", y)
    g.output(y, [rows, 1024])
    return g.build()


def attention(scale: float = 1.0) -> onnx.ModelProto:
    """Scaled dot products of 12 heads"""
    g = Graph("attention", 5)
    length = max(8, int(1024 * scale))
    shape = [1, 12, length, 64]
    q, k, v = (g.input(name, shape) for name in "qkv")
    g.output(scaled_dot_product(g, q, k, v, 64, None), shape)
    return g.build()


def convolution(scale: float = 1.0) -> onnx.ModelProto:
    """Conv, BatchNormalization, Relu"""
    g = Graph("conv_bn_relu", 6)
    size = max(7, int(112 * scale))
    x = g.input("x", [1, 32, size, size])
    g.output(conv_bn_relu(g, x, 32, 64, 1), [1, 64, size, size])
    return g.build()


GROUPS = (
    Group("residual + LayerNormalization", residual_layer_norm, True),
    Group("bias + GELU", bias_gelu, True),
    Group("SwiGLU", swiglu, True),
    Group("8 pointwise operators", pointwise_chain, True),
    Group("attention", attention, False),
    Group("Conv, BatchNormalization, Relu", convolution, False),
)


def feeds_of(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.standard_normal(
            [d.dim_value for d in value.type.tensor_type.shape.dim], np.float32
        )
        for value in model.graph.input
    }
