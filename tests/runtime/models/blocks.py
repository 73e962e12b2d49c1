"""Parts that networks share, in the form in which exporters write them.

In: a `Graph` and the names of values. Out: the name of the result.
"""

from __future__ import annotations

import numpy as np

from tests.runtime.models.builder import Graph


def linear(g: Graph, x: str, inputs: int, outputs: int) -> str:
    """x W + b"""
    product = g.op("MatMul", x, g.normal((inputs, outputs), inputs**-0.5))
    return g.op("Add", product, g.normal((outputs,), 0.02, "bias"))


def layer_norm(g: Graph, x: str, size: int) -> str:
    return g.op(
        "LayerNormalization", x, g.near_one(size), g.normal((size,), 0.02, "bias"), axis=-1,
        epsilon=1e-5,
    )  # fmt: skip


def layer_norm_written_out(g: Graph, x: str, size: int) -> str:
    """LayerNormalization before opset 17, as PyTorch's exporter writes it"""
    centred = g.op("Sub", x, g.op("ReduceMean", x, axes=[-1]))
    squares = g.op("Pow", centred, g.scalar(2.0))
    variance = g.op("Add", g.op("ReduceMean", squares, axes=[-1]), g.scalar(1e-5))
    y = g.op("Div", centred, g.op("Sqrt", variance))
    return g.op("Add", g.op("Mul", y, g.near_one(size)), g.normal((size,), 0.02, "bias"))


def gelu(g: Graph, x: str) -> str:
    """x/2 (1 + erf(x / sqrt 2)) as PyTorch's exporter writes it"""
    inner = g.op("Erf", g.op("Div", x, g.scalar(np.sqrt(2.0))))
    return g.op("Mul", g.op("Mul", x, g.op("Add", inner, g.scalar(1.0))), g.scalar(0.5))


def silu(g: Graph, x: str) -> str:
    return g.op("Mul", x, g.op("Sigmoid", x))


def heads(g: Graph, x: str, count: int, size: int) -> str:
    """(batch, sequence, hidden) as (batch, heads, sequence, head)"""
    apart = g.op("Reshape", x, g.constant(np.array([0, 0, count, size]), "shape"))
    return g.op("Transpose", apart, perm=[0, 2, 1, 3])


def scaled_dot_product(g: Graph, q: str, k: str, v: str, head: int, mask: str | None) -> str:
    """softmax(Q K^T / sqrt(head) + mask) V"""
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = g.op("Div", scores, g.scalar(np.sqrt(head)))
    if mask is not None:
        scores = g.op("Add", scores, mask)
    return g.op("MatMul", g.op("Softmax", scores, axis=-1), v)


def self_attention(g: Graph, x: str, hidden: int, count: int, mask: str | None) -> str:
    """Projections, attention, and the projection back"""
    head = hidden // count
    q, k, v = (heads(g, linear(g, x, hidden, hidden), count, head) for _ in range(3))
    mixed = scaled_dot_product(g, q, k, v, head, mask)
    joined = g.op("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = g.op("Reshape", joined, g.constant(np.array([0, 0, hidden]), "shape"))
    return linear(g, joined, hidden, hidden)


def conv(
    g: Graph, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> str:
    """Conv without a bias, padded to keep the size at stride 1"""
    fan = inputs // groups * kernel * kernel
    weight = g.normal((outputs, inputs // groups, kernel, kernel), (2.0 / fan) ** 0.5)
    half = kernel // 2
    return g.op(
        "Conv", x, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[half] * 4,
        group=groups,
    )  # fmt: skip


def batch_norm(g: Graph, x: str, channels: int, scale: float = 1.0) -> str:
    """BatchNormalization; `scale` below 1 keeps the sum of many residuals small"""
    weights = (
        g.constant(g.rng.uniform(0.8, 1.2, channels).astype(np.float32) * np.float32(scale), "g"),
        g.normal((channels,), 0.1, "bias"),
        g.normal((channels,), 0.1, "mean"),
        g.constant(g.rng.uniform(0.8, 1.2, channels).astype(np.float32), "variance"),
    )
    return g.op("BatchNormalization", x, *weights, epsilon=1e-5)


def conv_bn_relu(
    g: Graph, x: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> str:
    return g.op("Relu", batch_norm(g, conv(g, x, inputs, outputs, kernel, stride, groups), outputs))
