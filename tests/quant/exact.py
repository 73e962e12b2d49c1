"""Exact arithmetic once more, element by element, in Python's integers and fractions.

Written apart from `rewrite.quant`, which it is to judge: nothing here is imported from there.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import lcm

import numpy as np

RANGES = {
    "uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767),
    "uint4": (0, 15), "int4": (-8, 7), "uint2": (0, 3), "int2": (-2, 1),
}  # fmt: skip


def rational(x):
    return Fraction(float(x))


def rounded(n, d, mode, offset=0):
    """The integer next to n / d; ties by mode. `offset` is added before a tie is broken."""
    q, r = divmod(n, d)
    if mode == "floor":
        return q
    if mode == "ceiling":
        return q + (r > 0)
    if mode == "toward_zero":
        return q + (r > 0 and n < 0)
    if 2 * r != d:
        return q + (2 * r > d)
    if mode == "half_even":
        return q + (q + offset) % 2
    if mode == "half_up":
        return q + 1
    assert mode == "half_away"
    return q + (Fraction(n, d) + offset > 0)


def code(n, d, zero, limits, before=False, mode="half_even"):
    """Saturated code of n / d. `before`: the zero point is added before rounding."""
    steps = rounded(n, d, mode, zero if before else 0)
    return min(max(steps + zero, limits[0]), limits[1])


def to_float(value, digits, least, most):
    """A rational rounded to a float of so many digits; exponents of its normal numbers."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - digits + 1)
    steps = size / unit
    kept = rounded(steps.numerator, steps.denominator, "half_even") * unit
    if kept >= Fraction(2) ** (most + 1):
        return float("inf") if value > 0 else float("-inf")
    return float(kept if value > 0 else -kept)


def f32(value):
    return to_float(Fraction(value), 24, -126, 127)


def f16(value):
    return to_float(Fraction(value), 11, -14, 15)


def limits_of(array):
    return RANGES[array.dtype.name]


def integer(x):
    return int(np.asarray(x).reshape(-1)[0])


def common(*coefficients):
    """Fractions as integers over one denominator."""
    d = lcm(*(c.denominator for c in coefficients))
    return [int(c * d) for c in coefficients], d


# --- operators: operands as ONNX orders them, arrays in, nested Python lists or arrays out ------


def linear_combination(terms, y_scale, zero, limits, before, shape):
    """round(sum of steps * scale / y_scale) + zero for arrays of steps."""
    coefficients, d = common(*(rational(s) / rational(y_scale) for _, s in terms))
    flat = [np.broadcast_to(x, shape).reshape(-1).tolist() for x, _ in terms]
    if len(flat) == 1:
        (c,) = coefficients
        found = [code(x * c, d, zero, limits, before) for x in flat[0]]
    else:
        c, e = coefficients
        found = [code(x * c + y * e, d, zero, limits, before) for x, y in zip(*flat, strict=True)]
    return np.array(found).reshape(shape)


def steps(x, zero):
    return x.astype(np.int64) - integer(zero)


def add(inputs, attributes, before):
    a, a_s, za, b, b_s, zb, y_s, zy = inputs
    shape = np.broadcast_shapes(a.shape, b.shape)
    terms = [(steps(a, za), a_s), (steps(b, zb), b_s)]
    return linear_combination(terms, y_s, integer(zy), limits_of(a), before, shape)


def mul(inputs, attributes, before):
    a, a_s, za, b, b_s, zb, y_s, zy = inputs
    shape = np.broadcast_shapes(a.shape, b.shape)
    product_ = steps(a, za) * steps(b, zb)
    scale = rational(a_s) * rational(b_s)
    (c,), d = common(scale / rational(y_s))
    z, limits = integer(zy), limits_of(a)
    found = [code(x * c, d, z, limits, before) for x in product_.reshape(-1).tolist()]
    return np.array(found).reshape(shape)


def leaky_relu(inputs, attributes, before):
    x, x_s, zx, y_s, zy = inputs
    alpha = Fraction(float(np.float32(attributes["alpha"])))
    ratio = rational(x_s) / rational(y_s)
    (c, e), d = common(ratio, ratio * alpha)
    z, limits = integer(zy), limits_of(x)
    found = [
        code(v * (c if v >= 0 else e), d, z, limits, before)
        for v in steps(x, zx).reshape(-1).tolist()
    ]
    return np.array(found).reshape(x.shape)


def concat(inputs, attributes, before):
    y_s, zy, *rest = inputs
    parts = [
        linear_combination([(steps(x, z), s)], y_s, integer(zy), limits_of(x), before, x.shape)
        for x, s, z in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    ]
    return np.concatenate(parts, attributes["axis"])


def where(inputs, attributes, before):
    condition, x, x_s, zx, y, y_s, zy, o_s, zo = inputs
    a, b = (
        linear_combination([(steps(v, z), s)], o_s, integer(zo), limits_of(v), before, v.shape)
        for v, s, z in ((x, x_s, zx), (y, y_s, zy))
    )
    return np.array([p if c else q for c, p, q in np.broadcast(condition, a, b)]).reshape(
        np.broadcast_shapes(condition.shape, a.shape, b.shape)
    )


def mean_codes(totals, counts, x_s, y_s, zero, limits, before):
    ratio = rational(x_s) / rational(y_s)
    return [
        code(t * ratio.numerator, ratio.denominator * n, zero, limits, before)
        for t, n in zip(totals, counts, strict=True)
    ]


def average_pool(inputs, attributes, before):
    x, x_s, _, y_s, zy = inputs
    totals, counts, shape = pool_totals(inputs, attributes)
    found = mean_codes(totals, counts, x_s, y_s, integer(zy), limits_of(x), before)
    return np.array(found).reshape(shape)


def pool_totals(inputs, attributes):
    """Sums and counts of each window; NCHW, no ceil_mode."""
    x, _, zx = inputs[:3]
    values = steps(x, zx)
    rank = x.ndim - 2
    kernel = attributes["kernel_shape"]
    strides = attributes.get("strides", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    with_border = attributes.get("count_include_pad", 0)
    sizes = [
        (x.shape[2 + i] + pads[i] + pads[rank + i] - kernel[i]) // strides[i] + 1
        for i in range(rank)
    ]
    totals, counts = [], []
    for lead in product(*map(range, (*x.shape[:2], *sizes))):
        total = count = 0
        for at in product(*map(range, kernel)):
            where_ = [
                o * s - p + k for o, s, p, k in zip(lead[2:], strides, pads, at, strict=False)
            ]
            if all(0 <= w < n for w, n in zip(where_, x.shape[2:], strict=True)):
                total += int(values[(*lead[:2], *where_)])
                count += 1
            elif with_border:
                count += 1
        totals.append(total)
        counts.append(count)
    return totals, counts, (*x.shape[:2], *sizes)


def reduce_mean(inputs, attributes, before):
    x, x_s, zx, y_s, zy = inputs
    axes = attributes.get("axes", tuple(range(2, x.ndim)))
    totals = steps(x, zx).sum(tuple(axes), keepdims=bool(attributes.get("keepdims", 1)))
    count = int(np.prod([x.shape[a] for a in axes]))
    flat = totals.reshape(-1).tolist()
    found = mean_codes(flat, [count] * len(flat), x_s, y_s, integer(zy), limits_of(x), before)
    return np.array(found).reshape(totals.shape)


def conv_sums(x, zx, w, zw, bias, attributes):
    """[N, M, ...] sums as nested Python integers in a flat list, and the shape."""
    rank, group = x.ndim - 2, attributes.get("group", 1)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * 2 * rank)
    kernel = w.shape[2:]
    sizes = [
        (x.shape[2 + i] + pads[i] + pads[rank + i] - (kernel[i] - 1) * dilations[i] - 1)
        // strides[i] + 1
        for i in range(rank)
    ]  # fmt: skip
    left, inner = steps(x, zx), w.shape[1]
    zeros = np.broadcast_to(np.asarray(zw).reshape(-1), (len(w),))
    right = [(w[m].astype(np.int64) - int(zeros[m])) for m in range(len(w))]
    found = []
    for n, m, *out in product(range(len(x)), range(len(w)), *map(range, sizes)):
        first = m // (len(w) // group) * inner
        total = 0 if bias is None else int(bias[m])
        for at in product(*map(range, kernel)):
            spot = [o * s - p + k * d for o, s, p, k, d in
                    zip(out, strides, pads, at, dilations, strict=False)]  # fmt: skip
            if all(0 <= v < size for v, size in zip(spot, x.shape[2:], strict=True)):
                under = left[(n, slice(first, first + inner), *spot)].tolist()
                here = right[m][(slice(None), *at)].tolist()
                total += sum(a * b for a, b in zip(under, here, strict=True))
        found.append(total)
    return found, (len(x), len(w), *sizes)


def conv_integer(inputs, attributes, before):
    x, w, zx, zw = inputs
    found, shape = conv_sums(x, zx, w, zw, None, attributes)
    return np.array(found).reshape(shape)


def qlinear_conv(inputs, attributes, before):
    x, x_s, zx, w, w_s, zw, y_s, zy, bias = inputs
    found, shape = conv_sums(x, zx, w, zw, bias, attributes)
    ratios = [rational(x_s) * rational(s) / rational(y_s) for s in w_s.reshape(-1)]
    ratios *= len(w) if len(ratios) == 1 else 1
    per_channel = [r for r in ratios for _ in range(int(np.prod(shape[2:])))] * shape[0]
    z, limits = integer(zy), RANGES[np.asarray(zy).dtype.name]
    codes = [
        code(t * r.numerator, r.denominator, z, limits, before)
        for t, r in zip(found, per_channel, strict=True)
    ]
    return np.array(codes).reshape(shape)


def product_sums(a, za, b, zb):
    """a [M, K], za one or [M]; b [K, N], zb one or [N]."""
    rows = np.broadcast_to(np.asarray(za).reshape(-1), (len(a),)).tolist()
    columns = np.broadcast_to(np.asarray(zb).reshape(-1), (b.shape[1],)).tolist()
    left = [[v - z for v in row] for row, z in zip(a.tolist(), rows, strict=True)]
    right = [[v - z for v in col] for col, z in zip(b.T.tolist(), columns, strict=True)]
    return [[sum(p * q for p, q in zip(r, c, strict=True)) for c in right] for r in left]


def matmul_integer(inputs, attributes, before):
    a, b, za, zb = inputs
    return np.array(product_sums(a, za, b, zb))


def _scaled(sums, a_s, b_s, y_s, zero, limits, before, extra=1):
    rows = np.broadcast_to(np.asarray(a_s).reshape(-1), (len(sums),))
    columns = np.broadcast_to(np.asarray(b_s).reshape(-1), (len(sums[0]),))
    found = []
    for row, r_s in zip(sums, rows, strict=True):
        ratios = [rational(r_s) * rational(c_s) * extra / rational(y_s) for c_s in columns]
        found.append([
            code(t * q.numerator, q.denominator, zero, limits, before)
            for t, q in zip(row, ratios, strict=True)
        ])  # fmt: skip
    return np.array(found)


def qlinear_matmul(inputs, attributes, before):
    a, a_s, za, b, b_s, zb, y_s, zy = inputs
    sums = product_sums(a, za, b, zb)
    return _scaled(sums, a_s, b_s, y_s, integer(zy), limits_of(np.asarray(zy)), before)


def _gemm_sums(inputs, attributes):
    a, _, za, b, _, zb, c = inputs[:7]
    a = a.T if attributes.get("transA") else a
    b = b.T if attributes.get("transB") else b
    sums = product_sums(a, za, b, zb)
    extra = np.zeros((1, 1), int) if c is None else np.atleast_2d(c)
    extra = np.broadcast_to(extra, (len(sums), len(sums[0]))).tolist()
    return [[p + q for p, q in zip(r, s, strict=True)] for r, s in zip(sums, extra, strict=True)]


def qgemm(inputs, attributes, before):
    sums = _gemm_sums(inputs, attributes)
    a_s, b_s = inputs[1], inputs[4]
    alpha = Fraction(float(np.float32(attributes.get("alpha", 1.0))))
    if len(inputs) < 8:
        columns = np.broadcast_to(np.asarray(b_s).reshape(-1), (len(sums[0]),))
        scales = [alpha * rational(a_s) * rational(s) for s in columns]
        return np.array([[f32(t * s) for t, s in zip(r, scales, strict=True)] for r in sums])
    y_s, zy = inputs[7:]
    limits = limits_of(np.asarray(zy))
    return _scaled(sums, a_s, b_s, y_s, integer(zy), limits, before, alpha)


def matmul_integer_to_float(inputs, attributes, before):
    a, b, a_s, b_s, za, zb, bias = inputs
    sums = product_sums(a, za, b, zb)
    columns = np.broadcast_to(np.asarray(b_s).reshape(-1), (len(sums[0]),))
    scales = [rational(a_s) * rational(s) for s in columns]
    shift = [0] * len(scales) if bias is None else [rational(v) for v in bias]
    return np.array([
        [f32(t * s + c) for t, s, c in zip(row, scales, shift, strict=True)] for row in sums
    ])  # fmt: skip


def dynamic_range(x):
    """u8 codes, scale, zero point: every step of the text rounded to float32."""
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = f32(Fraction(f32(Fraction(high) - Fraction(low))) / 255)
    zero = f32(-Fraction(low) / Fraction(scale))
    zero = min(max(round(Fraction(zero)), 0), 255)
    ratio = [f32(rational(v) / Fraction(scale)) for v in x.reshape(-1)]
    codes = [min(max(round(Fraction(r)) + zero, 0), 255) for r in ratio]
    return np.array(codes).reshape(x.shape), scale, zero


def dynamic_quantize_linear(inputs, attributes, before):
    return dynamic_range(inputs[0])


def dynamic_quantize_matmul(inputs, attributes, before):
    x, b, b_s, zb, bias = inputs
    codes, scale, zero = dynamic_range(x)
    operands = [codes, b, np.float32(scale), b_s, zero, zb, bias]
    return matmul_integer_to_float(operands, attributes, before)


def quantize_linear(inputs, attributes, before):
    """QuantizeLinear per tensor or per axis, quotients rounded to float32."""
    x, s, z = inputs
    s, z = _spread(s, x, attributes), _spread(z, x, attributes)
    limits = limits_of(z)
    found = []
    for v, step, zero in zip(x.flat, s.flat, z.flat, strict=True):
        ratio = Fraction(f32(rational(v) / rational(step)))
        found.append(code(ratio.numerator, ratio.denominator, int(zero), limits))
    return np.array(found).reshape(x.shape)


def quantize_exact(inputs, attributes, before):
    x, s, z = inputs
    s, z = _spread(s, x, attributes), _spread(z, x, attributes)
    limits = limits_of(z)
    found = []
    for v, step, zero in zip(x.flat, s.flat, z.flat, strict=True):
        ratio = rational(v) / rational(step)
        found.append(code(ratio.numerator, ratio.denominator, int(zero), limits, before))
    return np.array(found).reshape(x.shape)


def dequantize_linear(inputs, attributes, before):
    x, s, z = inputs
    s, z = _spread(s, x, attributes), _spread(z, x, attributes)
    flat = zip(x.flat, s.flat, z.flat, strict=True)
    return np.array([f32((int(v) - int(zero)) * rational(step)) for v, step, zero in flat]).reshape(
        x.shape
    )


def _spread(p, x, attributes):
    p = np.asarray(p)
    block = attributes.get("block_size", 0)
    if block:
        axis = attributes["axis"]
        rows = [np.take(p, i // block, axis) for i in range(x.shape[axis])]
        return np.stack(rows, axis)
    if p.size == 1:
        return np.broadcast_to(p.reshape(()), x.shape)
    sizes = [1] * x.ndim
    sizes[attributes["axis"]] = p.size
    return np.broadcast_to(p.reshape(sizes), x.shape)
