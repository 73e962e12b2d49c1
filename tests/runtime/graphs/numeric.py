"""Operators that sum, normalize, multiply matrices, convolve, sort."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.runtime.graphs.maker import MOST, Maker, Value

SINGLE = ("f32", "f64")


def reduce(m: Maker) -> Value | None:
    """Over some or all dimensions; of none of no elements, whose result is not defined for all."""
    x = m.pick(lambda v: v.size > 0 and (v.dtype in SINGLE or v.dtype in ("s64", "s32")))
    if x is None:
        return None
    names = ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"]
    names += [
        "ReduceMean",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSumExp",
    ] * x.floating
    name = m.choose(names)
    axes = [a for a in range(x.rank) if m.flag()]
    keep = m.number(0, 1)
    reduced = axes or list(range(x.rank))
    count = int(np.prod([x.shape[a] for a in reduced], dtype=np.int64))
    if x.floating:
        x = m.tame(x, 1.5 if name == "ReduceProd" else 16.0)
        if name == "ReduceProd" and count > 12:
            name = "ReduceSum"
    given = [m.constant(np.array(axes, np.int64))] if axes else []
    made = m.node(name, [x, *given], keepdims=keep)
    shape = [1 if a in reduced else n for a, n in enumerate(x.shape)]
    if not keep:
        shape = [n for a, n in enumerate(x.shape) if a not in reduced]
    exact = not x.floating or (x.exact and name in ("ReduceMax", "ReduceMin"))
    limit = x.limit if exact and x.floating else 256.0 * count + 200
    return m.add(made, x.dtype, shape, exact, limit)


def arg(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.size > 0 and v.rank >= 1 and v.exact and v.dtype in ("f32", "s32", "u8"))
    if x is None:
        return None
    axis = m.number(0, x.rank - 1)
    name = m.choose(("ArgMax", "ArgMin"))
    keep = m.number(0, 1)
    made = m.node(name, [x], axis=axis, keepdims=keep, select_last_index=m.number(0, 1))
    shape = [*x.shape[:axis], *([1] if keep else []), *x.shape[axis + 1 :]]
    return m.add(made, "s64", shape, True, 2.0**31)


def topk(m: Maker) -> Value | None:
    x = m.pick(
        lambda v: v.size > 0 and v.rank >= 1 and v.exact and v.dtype in ("f32", "s64", "f64", "s32")
    )
    if x is None:
        return None
    axis = m.number(0, x.rank - 1)
    k = m.number(0, x.shape[axis])
    given = m.constant(np.array([k], np.int64))
    values, places = m.many("TopK", [x, given], 2, axis=axis, largest=m.number(0, 1))
    shape = [*x.shape[:axis], k, *x.shape[axis + 1 :]]
    m.add(values, x.dtype, shape, True, x.limit)
    return m.add(places, "s64", shape, True, 2.0**31)


def cumulate(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and v.dtype in ("f32", "f64", "s64", "s32"))
    if x is None:
        return None
    axis = m.number(0, x.rank - 1)
    x = m.tame(x, 16.0)
    name = m.node("CumSum", [x, m.constant(np.array(axis, np.int64))], exclusive=m.number(0, 1),
                  reverse=m.number(0, 1))  # fmt: skip
    return m.add(name, x.dtype, x.shape, not x.floating, x.limit * max(x.shape[axis], 1))


def soft(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.size > 0 and v.rank >= 1 and v.dtype in SINGLE)
    if x is None:
        return None
    x = m.tame(x, 16.0)
    name = m.choose(("Softmax", "LogSoftmax"))
    made = m.node(name, [x], axis=m.number(-x.rank, x.rank - 1))
    return m.add(made, x.dtype, x.shape, False, 40.0)


def normalize(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.size > 0 and v.rank >= 2 and v.shape[-1] > 1 and v.dtype == "f32")
    if x is None:
        return None
    x = m.tame(x, 64.0)
    scale, bias = m.filled("f32", x.shape[-1:]), m.filled("f32", x.shape[-1:])
    name = m.choose(("LayerNormalization", "RMSNormalization"))
    given = [x, scale, bias] if name == "LayerNormalization" else [x, scale]
    # A large epsilon: rows that are nearly constant would blow up differences of rounding.
    made = m.node(name, given, axis=-1, epsilon=0.5)
    return m.add(made, x.dtype, x.shape, False, 64.0 * x.shape[-1])


def batch_normalize(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 3 and v.size > 0 and v.dtype == "f32")
    if x is None:
        return None
    x = m.tame(x, 64.0)
    scale, bias, mean = (m.filled("f32", (x.shape[1],)) for _ in range(3))
    variance = m.constant(np.full(x.shape[1], 1.5, np.float32))
    made = m.node("BatchNormalization", [x, scale, bias, mean, variance])
    return m.add(made, x.dtype, x.shape, False, 500.0)


def matmul(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank >= 1 and v.dtype in ("f32", "f64", "s32", "f16"))
    if x is None:
        return None
    x = m.tame(x, 16.0)
    k, n = x.shape[-1], m.choose((3, 1, 8, 17, 0))
    vector = m.flag() and x.rank >= 2
    other = m.filled(x.dtype, (k,) if vector else (k, n))
    made = m.node("MatMul", [x, other])
    shape = [*x.shape[:-1], *([] if vector else [n])]
    limit = 64.0 * max(k, 1) + 1
    return m.add(made, x.dtype, shape, not x.floating, min(limit, MOST.get(x.dtype, limit)))


def matmul_both(m: Maker) -> Value | None:
    """Two values, one of them turned so that they fit."""
    x = m.pick(lambda v: v.rank >= 2 and v.dtype == "f32")
    if x is None:
        return None
    x = m.tame(x, 8.0)
    turned = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    y = Value(m.node("Transpose", [x], perm=turned), x.dtype, (), x.exact)
    made = m.node("MatMul", [x, y])
    shape = [*x.shape[:-1], x.shape[-2]]
    return m.add(made, x.dtype, shape, False, 64.0 * max(x.shape[-1], 1) + 1)


def gemm(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank == 2 and v.dtype in SINGLE)
    if x is None:
        return None
    x = m.tame(x, 16.0)
    ta, tb = m.number(0, 1), m.number(0, 1)
    rows, k = x.shape[::-1] if ta else x.shape
    n = m.choose((4, 1, 9))
    w = m.filled(x.dtype, (n, k) if tb else (k, n))
    c = m.filled(x.dtype, m.choose(((n,), (1, n), (rows, 1), ()))) if m.flag() else None
    made = m.node("Gemm", [x, w, c], transA=ta, transB=tb, alpha=0.5, beta=2.0)
    return m.add(made, x.dtype, (rows, n), False, 64.0 * max(k, 1) + 8)


def conv(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank in (3, 4) and v.size > 0 and v.dtype == "f32")
    if x is None:
        return None
    x = m.tame(x, 16.0)
    spatial = x.rank - 2
    channels = x.shape[1]
    groups = channels if m.flag() else 1
    filters = groups * m.choose((1, 2))
    kernel = [m.choose((1, 2, 3)) for _ in range(spatial)]
    stride, dilation = m.choose((1, 2)), m.choose((1, 2))
    pads = [m.choose((0, 1)) for _ in range(2 * spatial)]
    shape = [x.shape[0], filters]
    for a in range(spatial):
        reach = dilation * (kernel[a] - 1) + 1
        length = (x.shape[2 + a] + pads[a] + pads[spatial + a] - reach) // stride + 1
        if x.shape[2 + a] + pads[a] + pads[spatial + a] < reach:
            return None
        shape.append(length)
    w = m.filled("f32", (filters, channels // groups, *kernel))
    given: list[Any] = [x, w, m.filled("f32", (filters,)) if m.flag() else None]
    made = m.node("Conv", given, group=groups, strides=[stride] * spatial, pads=pads,
                  dilations=[dilation] * spatial, kernel_shape=kernel)  # fmt: skip
    return m.add(made, "f32", shape, False, 64.0 * channels * 9 + 4)


def pool(m: Maker) -> Value | None:
    x = m.pick(lambda v: v.rank in (3, 4) and v.size > 0 and v.dtype == "f32")
    if x is None:
        return None
    spatial = x.rank - 2
    if m.flag():
        made = m.node("GlobalAveragePool", [x])
        return m.add(made, "f32", [*x.shape[:2], *[1] * spatial], False, x.limit)
    kernel, stride = m.choose((2, 1, 3)), m.choose((1, 2))
    if min(x.shape[2:]) < kernel:
        return None
    name = m.choose(("MaxPool", "AveragePool"))
    made = m.node(name, [x], kernel_shape=[kernel] * spatial, strides=[stride] * spatial)
    shape = [*x.shape[:2], *((n - kernel) // stride + 1 for n in x.shape[2:])]
    return m.add(made, "f32", shape, x.exact and name == "MaxPool", x.limit)


FAMILY = (reduce, matmul, soft, normalize, arg, topk, cumulate, matmul_both, gemm, conv, pool,
          batch_normalize)  # fmt: skip
