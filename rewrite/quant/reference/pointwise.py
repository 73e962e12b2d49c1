"""Exact values of onnxruntime's quantized elementwise operators (com.microsoft).

In: `Call`. Out: arrays. Every result is the exact rational (for Sigmoid and Softmax: real) number,
rounded once; the order of rounding and zero point is the call's.

    QLinearAdd   ((a - za) a_s + (b - zb) b_s) / y_s
    QLinearMul   (a - za) (b - zb) a_s b_s / y_s
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from rewrite.quant.codes import Array, CodeType, Floats, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.reference.call import Arrays, Call, integer_code, rounded
from rewrite.quant.rounding import round_fraction, two_product, two_sum

_DIGITS = 60
_NONE = np.zeros(())


def _operand(call: Call, codes: int, scale: int, zero: int) -> tuple[Ints, Floats]:
    """Steps from the zero point, and the scale; both per tensor."""
    x = call.array(codes)
    integer_code(call, x)
    shift = call.one(call.zero(zero, x), "zero point")
    return x.astype(np.int64) - shift, call.one(call.scale(scale), "scale")


def _output(call: Call, scale: int, zero: int, like: Array) -> tuple[Floats, Array, CodeType]:
    code = call.output_code(zero, integer_code(call, like))
    found = call.optional(zero)
    shift = np.zeros((), np.int64) if found is None else found.astype(np.int64)
    return call.one(call.scale(scale), "output scale"), call.one(shift, "zero point"), code


def qlinear_add(call: Call) -> Arrays:
    (a, a_s), (b, b_s) = _operand(call, 0, 1, 2), _operand(call, 3, 4, 5)
    y_s, zero, code = _output(call, 6, 7, call.array(0))
    hi, lo = two_sum(a * a_s, b * b_s)  # each product has at most 41 digits
    return (rounded(call, hi, lo, y_s, zero, code),)


def qlinear_mul(call: Call) -> Arrays:
    (a, a_s), (b, b_s) = _operand(call, 0, 1, 2), _operand(call, 3, 4, 5)
    y_s, zero, code = _output(call, 6, 7, call.array(0))
    hi, lo = two_product((a * b).astype(np.float64), np.asarray(a_s * b_s))
    return (rounded(call, hi, lo, y_s, zero, code),)


def qlinear_leaky_relu(call: Call) -> Arrays:
    x, x_s = _operand(call, 0, 1, 2)
    y_s, zero, code = _output(call, 3, 4, call.array(0))
    alpha = np.float64(np.float32(call.number("alpha", 0.01)))
    slope = np.where(x < 0, alpha, 1.0)
    hi, lo = two_product(x * x_s, slope)
    return (rounded(call, hi, lo, y_s, zero, code),)


def qlinear_concat(call: Call) -> Arrays:
    """Operands: output scale, output zero point, then (x, scale, zero point) of each part."""
    count = (len(call.inputs) - 2) // 3
    if count < 1:
        raise QuantError("QLinearConcat of nothing")
    parts = []
    for i in range(count):
        x, x_s = _operand(call, 2 + 3 * i, 3 + 3 * i, 4 + 3 * i)
        y_s, zero, code = _output(call, 0, 1, call.array(2))
        parts.append(rounded(call, x * x_s, _NONE, y_s, zero, code))
    return (np.concatenate(parts, call.integer("axis", 0)),)


def qlinear_where(call: Call) -> Arrays:
    condition = call.array(0).astype(bool)
    y_s, zero, code = _output(call, 7, 8, call.array(1))
    sides = []
    for start in (1, 4):
        x, x_s = _operand(call, start, start + 1, start + 2)
        sides.append(rounded(call, x * x_s, _NONE, y_s, zero, code))
    chosen: Array = np.where(condition, sides[0].astype(np.int64), sides[1].astype(np.int64))
    return (chosen.astype(code.dtype),)


def qlinear_sigmoid(call: Call) -> Arrays:
    """1 / (1 + exp(-x)); the code of each step is computed once."""
    x, x_s = _operand(call, 0, 1, 2)
    y_s, zero, code = _output(call, 3, 4, call.array(0))
    steps, where = np.unique(x, return_inverse=True)
    with np.errstate(over="ignore"):
        values = 1 / (1 + np.exp(-(steps * x_s)))
    codes = rounded(call, values, _NONE, y_s, zero, code)
    for i in _doubtful(values / y_s):
        exact = _sigmoid(int(steps[i]), float(x_s)) / Fraction(float(y_s))
        codes[i] = _code_of(call, exact, int(zero), code)
    return (codes[where].reshape(x.shape),)


def _doubtful(quotients: Floats) -> Ints:
    """Where an error of 2^-44 could change the rounding."""
    twice = 2 * quotients
    return np.flatnonzero(np.abs(twice - np.rint(twice)) <= np.abs(twice) * 2.0**-44)


def _sigmoid(step: int, scale: float) -> Fraction:
    """60 digits, which are further from a tie than their error; exactly 1/2 at 0."""
    if step == 0:
        return Fraction(1, 2)
    with localcontext() as context:
        context.prec = _DIGITS
        return Fraction(1 / (1 + (-step * Decimal(scale)).exp()))


def _code_of(call: Call, quotient: Fraction, zero: int, code: CodeType) -> int:
    how = call.arithmetic
    before = zero if how.order.value == "add_then_round" else 0
    value = round_fraction(quotient + before, how.rounding) - before + zero
    return min(max(value, code.low), code.high)


def qlinear_softmax(call: Call) -> Arrays:
    """exp(x_s x) / sum exp(x_s x) along the axis; before opset 13 along all from the axis on."""
    x, x_s = _operand(call, 0, 1, 2)
    y_s, zero, code = _output(call, 3, 4, call.array(0))
    axis = call.integer("axis", -1 if call.integer("opset", 13) >= 13 else 1) % x.ndim
    if call.integer("opset", 13) < 13:
        rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
        codes = _softmax_rows(call, rows, float(x_s), float(y_s), int(zero), code)
        return (codes.reshape(x.shape),)
    moved = np.moveaxis(x, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    codes = _softmax_rows(call, rows, float(x_s), float(y_s), int(zero), code)
    return (np.moveaxis(codes.reshape(moved.shape), -1, axis),)


def _softmax_rows(
    call: Call, rows: Ints, x_s: float, y_s: float, zero: int, code: CodeType
) -> Array:
    shifted = rows - rows.max(1, keepdims=True)
    powers = np.exp(shifted * x_s)
    values = powers / powers.sum(1, keepdims=True)
    codes = rounded(call, values, _NONE, np.asarray(y_s), np.asarray(zero), code)
    # The sum of n terms in float64 is off by n 2^-53 at most, well below 2^-44 for n < 500.
    twice = 2 * values / y_s
    slack = 2.0**-44 * max(1, rows.shape[1] / 256)
    for r, i in np.argwhere(np.abs(twice - np.rint(twice)) <= twice * slack):
        exact = _softmax(shifted[r], int(i), x_s) / Fraction(y_s)
        codes[r, i] = _code_of(call, exact, zero, code)
    return codes


def _softmax(steps: Ints, i: int, scale: float) -> Fraction:
    if not steps.any():
        return Fraction(1, len(steps))
    with localcontext() as context:
        context.prec = _DIGITS
        unit = Decimal(scale)
        distinct, counts = np.unique(steps, return_counts=True)
        powers = [(int(s) * unit).exp() for s in distinct]
        total = sum((int(n) * p for n, p in zip(counts, powers, strict=True)), Decimal(0))
        return Fraction((int(steps[i]) * unit).exp() / total)
