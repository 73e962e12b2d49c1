"""Random calls of every quantized operator, with many ties, ends of ranges and odd zero points.

`CASES` maps an operator to a generator of calls and to its independent value in `exact`.
"""

from __future__ import annotations

import numpy as np

from tests.quant import exact

MICROSOFT = "com.microsoft"
TYPES = (np.uint8, np.int8)
WIDE = (np.uint8, np.int8, np.uint16, np.int16)


def scale(rng, size=None):
    """A power of two, a short number, or any float32 in [1e-4, 10]."""
    kind = rng.integers(3)
    shape = () if size is None else (size,)
    if kind == 0:
        return np.asarray(2.0 ** rng.integers(-8, 3, shape), np.float32)
    if kind == 1:
        return np.asarray(rng.integers(1, 40, shape) / 32, np.float32)
    return np.asarray(10.0 ** rng.uniform(-4, 1, shape), np.float32)


def zero(rng, kind):
    info = np.iinfo(kind)
    return np.asarray(rng.choice([info.min, info.max, rng.integers(info.min, info.max + 1)]), kind)


def codes(rng, kind, shape):
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max + 1, shape)
    edge = rng.random(shape) < 0.05
    return np.where(edge, rng.choice([info.min, info.max], shape), x).astype(kind)


def pick(rng, kinds=TYPES):
    return kinds[rng.integers(len(kinds))]


def binary(rng, size):
    kind = pick(rng)
    a, b = codes(rng, kind, (size, 1)), codes(rng, kind, (size, 8))
    if rng.random() < 0.5:
        a = codes(rng, kind, (size, 8))
    return [a, scale(rng), zero(rng, kind), b, scale(rng), zero(rng, kind),
            scale(rng), zero(rng, kind)], {}  # fmt: skip


def unary(rng, size):
    kind = pick(rng)
    operands = [codes(rng, kind, (size * 8,)), scale(rng), zero(rng, kind), scale(rng)]
    return [*operands, zero(rng, kind)], {"alpha": float(rng.choice([0.25, 0.01, 0.5, 1.5]))}


def concat(rng, size):
    kind = pick(rng)
    parts = [p for n in (1, 2) for p in (codes(rng, kind, (n, size * 3)), scale(rng),
                                         zero(rng, kind))]  # fmt: skip
    return [scale(rng), zero(rng, kind), *parts], {"axis": 0}


def where(rng, size):
    kind = pick(rng)
    sides = [p for n in (1, 3) for p in (codes(rng, kind, (n, size * 3)), scale(rng),
                                         zero(rng, kind))]  # fmt: skip
    return [rng.random((3, size * 3)) < 0.5, *sides, scale(rng), zero(rng, kind)], {}


def pool(rng, size):
    kind = pick(rng)
    x = codes(rng, kind, (2, max(1, size // 8), 5, 6))
    kernel = [int(rng.integers(1, 4)), int(rng.integers(1, 4))]
    attributes = {
        "kernel_shape": kernel,
        "strides": [int(v) for v in rng.integers(1, 3, 2)],
        "pads": [int(rng.integers(0, k)) for k in kernel * 2],
        "count_include_pad": int(rng.integers(2)),
    }
    return [x, scale(rng), zero(rng, kind), scale(rng), zero(rng, kind)], attributes


def global_pool(rng, size):
    kind = pick(rng)
    x = codes(rng, kind, (4, size, 3, int(rng.integers(1, 4))))
    return [x, scale(rng), zero(rng, kind), scale(rng), zero(rng, kind)], {}


def mean(rng, size):
    kind = pick(rng)
    x = codes(rng, kind, (4, size, int(rng.integers(1, 9))))
    operands = [x, scale(rng), zero(rng, kind), scale(rng), zero(rng, kind)]
    return operands, {"axes": [2], "keepdims": int(rng.integers(2))}


def conv_operands(rng, size):
    kind, weight = pick(rng), pick(rng)
    group = int(rng.choice([1, 2]))
    x = codes(rng, kind, (1, 2 * group, max(3, size // 8), 5))
    w = codes(rng, weight, (2 * group, 2, int(rng.integers(1, 4)), int(rng.integers(1, 3))))
    attributes = {
        "group": group,
        "strides": [1, int(rng.integers(1, 3))],
        "dilations": [1, int(rng.integers(1, 3))],
        "pads": [int(v) for v in rng.integers(0, 2, 4)],
    }
    per_channel = bool(rng.random() < 0.5)
    zw = zero(rng, weight)
    if per_channel:
        zw = np.array([zero(rng, weight) for _ in range(len(w))], weight)
    return x, zero(rng, kind), w, zw, attributes, per_channel


def conv_integer(rng, size):
    x, zx, w, zw, attributes, _ = conv_operands(rng, size)
    return [x, w, zx, zw], attributes


def qlinear_conv(rng, size):
    x, zx, w, zw, attributes, per_channel = conv_operands(rng, size)
    w_s = scale(rng, len(w)) if per_channel else scale(rng)
    bias = rng.integers(-5000, 5000, len(w)).astype(np.int32) if rng.random() < 0.7 else None
    y_s = np.asarray(float(scale(rng)) * 100, np.float32)
    return [x, scale(rng), zx, w, w_s, zw, y_s, zero(rng, x.dtype.type), bias], attributes


def matrices(rng, size):
    kind, weight = pick(rng), pick(rng)
    k = int(rng.integers(1, 12))
    a, b = codes(rng, kind, (size, k)), codes(rng, weight, (k, 7))
    return a, zero(rng, kind), b, zero(rng, weight)


def matmul_integer(rng, size):
    a, za, b, zb = matrices(rng, size)
    if rng.random() < 0.4:
        zb = codes(rng, b.dtype.type, (b.shape[1],))
    return [a, b, za, zb], {}


def qlinear_matmul(rng, size):
    a, za, b, zb = matrices(rng, size)
    b_s = scale(rng, b.shape[1]) if rng.random() < 0.4 else scale(rng)
    zb = np.broadcast_to(zb, b_s.shape).copy()
    y_s = np.asarray(float(scale(rng)) * 50, np.float32)
    return [a, scale(rng), za, b, b_s, zb, y_s, zero(rng, a.dtype.type)], {}


def qgemm(rng, size):
    a, za, b, zb = matrices(rng, size)
    attributes = {"alpha": float(rng.choice([1.0, 1.0, 0.5, 0.3])),
                  "transA": int(rng.integers(2)), "transB": int(rng.integers(2))}  # fmt: skip
    c = rng.integers(-5000, 5000, b.shape[1]).astype(np.int32) if rng.random() < 0.7 else None
    a = a.T.copy() if attributes["transA"] else a
    b = b.T.copy() if attributes["transB"] else b
    operands = [a, scale(rng), za, b, scale(rng), zb, c]
    if rng.random() < 0.7:
        y_s = np.asarray(float(scale(rng)) * 50, np.float32)
        operands += [y_s, zero(rng, a.dtype.type)]
    return operands, attributes


def matmul_integer_to_float(rng, size):
    a, za, b, zb = matrices(rng, size)
    bias = rng.normal(0, 10, b.shape[1]).astype(np.float32) if rng.random() < 0.5 else None
    b_s = scale(rng, b.shape[1]) if rng.random() < 0.4 else scale(rng)
    zb = np.broadcast_to(zb, b_s.shape).copy()
    return [a, b, scale(rng), b_s, za, zb, bias], {}


def reals(rng, shape, step):
    """Values around multiples and half multiples of a step, and any others."""
    halves = rng.integers(-600, 600, shape) * (float(step) / 2)
    return np.where(rng.random(shape) < 0.5, halves, rng.normal(0, 40 * float(step), shape)).astype(
        np.float32
    )


def dynamic_quantize_linear(rng, size):
    return [reals(rng, (size * 8,), scale(rng)) + np.float32(rng.normal())], {}


def dynamic_quantize_matmul(rng, size):
    _, _, b, zb = matrices(rng, 1)
    x = reals(rng, (size, len(b)), scale(rng)) + np.float32(rng.normal())
    return [x, b, scale(rng), zb, None], {}


def quantize_linear(rng, size):
    kind = pick(rng, WIDE)
    s = scale(rng, 4) if rng.random() < 0.5 else scale(rng)
    z = np.array([zero(rng, kind) for _ in range(s.size)], kind).reshape(s.shape)
    return [reals(rng, (size, 4), s.reshape(-1)[0]), s, z], {"axis": 1}


def dequantize_linear(rng, size):
    kind = pick(rng, WIDE)
    s = scale(rng, 4) if rng.random() < 0.5 else scale(rng)
    z = np.array([zero(rng, kind) for _ in range(s.size)], kind).reshape(s.shape)
    return [codes(rng, kind, (size, 4)), s, z], {"axis": 1}


# (domain, name) -> generator of (operands, attributes), independent value
CASES = {
    ("", "QuantizeLinear"): (quantize_linear, exact.quantize_linear),
    ("", "DequantizeLinear"): (dequantize_linear, exact.dequantize_linear),
    ("", "DynamicQuantizeLinear"): (dynamic_quantize_linear, exact.dynamic_quantize_linear),
    ("", "QLinearConv"): (qlinear_conv, exact.qlinear_conv),
    ("", "QLinearMatMul"): (qlinear_matmul, exact.qlinear_matmul),
    ("", "ConvInteger"): (conv_integer, exact.conv_integer),
    ("", "MatMulInteger"): (matmul_integer, exact.matmul_integer),
    (MICROSOFT, "QLinearAdd"): (binary, exact.add),
    (MICROSOFT, "QLinearMul"): (binary, exact.mul),
    (MICROSOFT, "QLinearLeakyRelu"): (unary, exact.leaky_relu),
    (MICROSOFT, "QLinearConcat"): (concat, exact.concat),
    (MICROSOFT, "QLinearWhere"): (where, exact.where),
    (MICROSOFT, "QLinearAveragePool"): (pool, exact.average_pool),
    (MICROSOFT, "QLinearGlobalAveragePool"): (global_pool, exact.reduce_mean),
    (MICROSOFT, "QLinearReduceMean"): (mean, exact.reduce_mean),
    (MICROSOFT, "QGemm"): (qgemm, exact.qgemm),
    (MICROSOFT, "MatMulIntegerToFloat"): (matmul_integer_to_float, exact.matmul_integer_to_float),
    (MICROSOFT, "DynamicQuantizeMatMul"): (dynamic_quantize_matmul, exact.dynamic_quantize_matmul),
}


def calls(operator, count, seed, size):
    """So many calls of an operator: (operands, attributes)."""
    rng = np.random.default_rng([seed, *operator[1].encode()])
    generate = CASES[operator][0]
    return [generate(rng, size) for _ in range(count)]
