"""Exact values of onnxruntime's quantized averages (com.microsoft).

In: `Call`. Out: arrays.

    y = round(x_s sum (x - zx) / (count y_s)) + zy

The border of a pool counts zero points; count_include_pad decides whether `count` counts them.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rewrite.quant.codes import Array, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.reference.call import Arrays, Call, integer_code, rounded
from rewrite.quant.reference.contraction import Window, window
from rewrite.quant.rounding import two_product


def _mean(call: Call, total: Ints, count: Array, like: Array, scale: int) -> Array:
    """Codes of total x_s / (count y_s); the parameters start at operand `scale`."""
    x_s = call.one(call.scale(1), "scale")
    y_s = call.one(call.scale(scale), "output scale")
    code = call.output_code(scale + 1, integer_code(call, like))
    found = call.optional(scale + 1)
    zero = np.zeros((), np.int64) if found is None else found.astype(np.int64)
    hi, lo = two_product(total.astype(np.float64), np.asarray(x_s))
    den = np.asarray(count * y_s)  # exact: counts are below 2^29
    return rounded(call, hi, lo, den, call.one(zero, "zero point"), code)


def _steps(call: Call) -> tuple[Array, Ints]:
    x = call.array(0)
    return x, x.astype(np.int64) - call.one(call.zero(2, x), "zero point")


def qlinear_average_pool(call: Call) -> Arrays:
    x, steps = _steps(call)
    last = call.integer("channels_last", 0) != 0
    kernel = call.integers("kernel_shape")
    if kernel is None:
        raise QuantError("QLinearAveragePool without kernel_shape")
    steps = np.moveaxis(steps, -1, 1) if last else steps
    shape = window(call, steps.shape[2:], kernel)
    padded = shape.pad(steps)
    total = np.zeros((*steps.shape[:2], *shape.sizes), np.int64)
    for at in shape.positions():
        total += shape.under(padded, at)
    count = _counts(shape, steps.shape[2:], call.integer("count_include_pad", 0) != 0)
    y = _mean(call, total, count, x, 3)
    return (np.moveaxis(y, 1, -1) if last else y,)


def _counts(shape: Window, spatial: tuple[int, ...], with_border: bool) -> Ints:
    """How many elements each window averages; what lies behind the border never counts."""
    inside = np.ones(spatial, np.int64)
    if with_border:
        width = list(zip(shape.before, shape.after, strict=True))
        inside = np.pad(inside, width, constant_values=1)
        bare = Window(shape.kernel, shape.strides, shape.dilations, (0,) * len(spatial),
                      (0,) * len(spatial), shape.sizes)  # fmt: skip
        padded = bare.pad(inside)
    else:
        padded = shape.pad(inside)
    total = np.zeros(shape.sizes, np.int64)
    for at in shape.positions():
        total += shape.under(padded, at)
    return total


def qlinear_global_average_pool(call: Call) -> Arrays:
    x, steps = _steps(call)
    last = call.integer("channels_last", 0) != 0
    axes = tuple(range(1, x.ndim - 1) if last else range(2, x.ndim))
    count = np.asarray(prod(x.shape[a] for a in axes))
    return (_mean(call, steps.sum(axes, keepdims=True), count, x, 3),)


def qlinear_reduce_mean(call: Call) -> Arrays:
    """The parameters of the output are operands 3 and 4, as in the pools."""
    x, steps = _steps(call)
    axes = call.integers("axes")
    chosen = tuple(a % x.ndim for a in axes) if axes is not None else tuple(range(x.ndim))
    keep = call.integer("keepdims", 1) != 0
    count = np.asarray(prod(x.shape[a] for a in chosen))
    return (_mean(call, np.asarray(steps.sum(chosen, keepdims=keep)), count, x, 3),)
