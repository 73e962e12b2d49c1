"""The exact oracle against onnxruntime: every disagreement has a named cause.

TIE_ORDER: the code that the zero point before rounding gives. OVERFLOW: a
quotient from 2^31 on has the wrong sign there. FLOAT32: for accumulators the code of
float32 requantization; for elementwise operators a quotient nearer to a tie than the errors of a
float32 evaluation. SATURATION: pair sums of vpmaddubsw, only on CPUs without VNNI. Anything else
fails. REWRITE_QUANT_CALLS multiplies the number of calls.
"""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest

from rewrite.quant.accumulator import saturating_pairs
from rewrite.quant.affine import dequantize, quantize
from rewrite.quant.cause import Cause, accumulation_error, explain, near_tie
from rewrite.quant.params import quant_params
from rewrite.quant.reference import Arithmetic, evaluate
from rewrite.quant.requantize import REQUANTIZERS
from rewrite.quant.rounding import Order
from tests.quant.cases import CASES, calls
from tests.quant.exact import pool_totals
from tests.quant.runtime import run

MICROSOFT = "com.microsoft"
CALLS = 40 * int(os.environ.get("REWRITE_QUANT_CALLS", "1"))
BEFORE = Arithmetic(order=Order.ADD_THEN_ROUND)
X86 = Arithmetic(requantizer=REQUANTIZERS["ort_x86"])

# Attributes that an operator has; the cases carry those of their whole family.
ATTRIBUTES = {
    "QLinearLeakyRelu": {"alpha"}, "QLinearConcat": {"axis"}, "QuantizeLinear": {"axis"},
    "DequantizeLinear": {"axis"}, "QGemm": {"alpha", "transA", "transB"},
    "QLinearAveragePool": {"kernel_shape", "strides", "pads", "count_include_pad"},
    "QLinearConv": {"group", "strides", "dilations", "pads"},
    "ConvInteger": {"group", "strides", "dilations", "pads"},
}  # fmt: skip
FIRST_OPERANDS = {"QLinearAdd": (0, 3), "QLinearMul": (0, 3), "QLinearWhere": (0, 1, 4),
                  "QLinearConcat": (2, 5), "QLinearMatMul": (0, 3)}  # fmt: skip


def runs_there(name, operands, count):
    """Whether onnxruntime has a kernel: it lacks s8 by u8, and weight zero points per channel."""
    weight = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3, "MatMulIntegerToFloat": 1}
    if name in weight and (operands[0].dtype, operands[weight[name]].dtype) == (np.int8, np.uint8):
        return False
    if name == "ConvInteger":
        return operands[3].size == 1
    if name == "QLinearGlobalAveragePool":  # "parameter out of computation range"
        return float(operands[1]) / float(operands[3]) / count < 256
    return True


def call_both(operator, operands, attributes):
    name = operator[1]
    attributes = {k: v for k, v in attributes.items() if k in ATTRIBUTES.get(name, ())}
    ours = evaluate(*operator, operands, attributes)
    free = FIRST_OPERANDS.get(name, (0,))
    constant = [i for i in range(len(operands)) if i not in free]
    return attributes, ours, run(*operator, operands, attributes, len(ours), constant=constant)


def float_error(operator, operands, attributes):
    """Exact quotients in steps of the output, and how far float32 evaluation may be off them.

    Magnitudes are those of the terms before they cancel: codes up to 255 from the zero point.
    """
    name = operator[1]
    exactly = [np.asarray(x, np.float64) for x in operands]
    if name in ("QLinearAdd", "QLinearMul"):
        a, a_s, za, b, b_s, zb, y_s, zy = exactly
        if name == "QLinearAdd":
            value = ((a - za) * a_s + (b - zb) * b_s) / y_s
            most = 512 * (a_s + b_s) / y_s
        else:
            value = (a - za) * (b - zb) * a_s * b_s / y_s
            most = np.abs(value)
        return value, accumulation_error(most + np.abs(zy), 8)
    x, x_s, zx, y_s, zy = exactly
    axes = (2, 3)
    if name == "QLinearAveragePool":
        totals, counts, shape = pool_totals(operands, attributes)
        value = np.array(totals).reshape(shape) * x_s / (np.array(counts).reshape(shape) * y_s)
        return value, accumulation_error(512 * x_s / y_s + np.abs(zy), 24)
    value = (x - zx).mean(axes, keepdims=True) * x_s / y_s
    return value, accumulation_error(512 * x_s / y_s + np.abs(zy), 8)


def leaky_relu_in_floats(operands, attributes):
    """DequantizeLinear, LeakyRelu and QuantizeLinear, each in float32: the runtime's table."""
    x, x_s, zx, y_s, zy = operands
    kind = x.dtype.name.replace("uint", "u").replace("int", "s")
    values = dequantize(x, quant_params(kind, x_s, zx))
    slope = np.float32(attributes["alpha"])
    return quantize(np.where(values >= 0, values, slope * values), quant_params(kind, y_s, zy))


def causes(operator, count, seed, size):
    """Elements compared, and why codes differ, over random calls."""
    name, elements, counts = operator[1], 0, {}
    for operands, given in calls(operator, count, seed, size):
        window = int(np.prod(operands[0].shape[2:]))
        if not runs_there(name, operands, window):
            continue
        attributes, (ours, *_), (theirs, *_) = call_both(operator, operands, given)
        if ours.dtype.kind == "f":
            continue
        alternatives, doubtful = [], None
        if name in ("QLinearConv", "QLinearMatMul", "QGemm"):
            alternatives.append((Cause.FLOAT32, evaluate(*operator, operands, attributes, X86)[0]))
        elif name == "QLinearLeakyRelu":
            alternatives.append((Cause.FLOAT32, leaky_relu_in_floats(operands, attributes)))
        elif name in ("QLinearAdd", "QLinearMul", "QLinearAveragePool", "QLinearGlobalAveragePool"):
            (before,) = evaluate(*operator, operands, attributes, BEFORE)
            alternatives.append((Cause.TIE_ORDER, before))
            value, error = float_error(operator, operands, attributes)
            value = np.broadcast_to(value, ours.shape)
            doubtful = near_tie(value, error)
            wrong_end = np.where(value >= 2.0**31 * (1 - 1e-6), np.iinfo(ours.dtype).min, ours)
            alternatives.append((Cause.OVERFLOW, wrong_end))
        found = explain(ours, theirs, alternatives, doubtful)
        elements += found.elements
        for cause, number in found.counts.items():
            counts[cause] = counts.get(cause, 0) + number
    return elements, counts


NO_KERNEL = ("QLinearReduceMean",)  # for CPUs
FLOATS = ("MatMulIntegerToFloat", "DynamicQuantizeMatMul", "DequantizeLinear")
INTEGERS = [o for o in CASES if o[1] not in (*NO_KERNEL, *FLOATS)]


@pytest.mark.parametrize("operator", INTEGERS, ids=lambda o: o[1])
def test_every_disagreement_has_a_cause(operator):
    name = operator[1]
    elements, counts = causes(operator, CALLS, 91, 24)
    assert elements > 500
    assert counts.get(Cause.UNKNOWN, 0) == 0, counts
    if name in ("QLinearAdd", "QLinearMul"):
        assert counts[Cause.TIE_ORDER] > 0  # ties with odd zero points are among the cases
        assert sum(counts.values()) < elements / 50
    if name in ("QLinearConcat", "QLinearWhere", "MatMulInteger",
                "ConvInteger", "QuantizeLinear"):  # fmt: skip
        assert counts == {}


@pytest.mark.parametrize("name", ["DequantizeLinear", "DynamicQuantizeLinear"])
def test_floats_that_are_equal(name):
    """Each step of the text rounds to float32 on both sides: the same bits."""
    for operands, given in calls(("", name), CALLS, 92, 24):
        _, ours, theirs = call_both(("", name), operands, given)
        for a, b in zip(ours, theirs, strict=True):
            assert np.array_equal(a, b)


def test_products_without_an_output_scale():
    """QGemm's float32 output: scale and product are rounded there, the result once here."""
    for operands, given in calls((MICROSOFT, "QGemm"), CALLS, 91, 24):
        if len(operands) > 7 or not runs_there("QGemm", operands, 1):
            continue
        _, (ours,), (theirs,) = call_both((MICROSOFT, "QGemm"), operands, given)
        assert (np.abs(ours - theirs) <= accumulation_error(np.abs(ours), 5)).all()


@pytest.mark.parametrize("name", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_floats_within_their_operations(name):
    """Three roundings there (scale, product, bias), one here: float32 rounding, bounded."""
    for operands, given in calls((MICROSOFT, name), CALLS, 93, 24):
        if not runs_there(name, operands, 1):
            continue
        _, (ours,), (theirs,) = call_both((MICROSOFT, name), operands, given)
        bias = operands[6] if len(operands) > 6 and operands[6] is not None else np.float32(0)
        magnitude = np.abs(ours.astype(np.float64)) + 2 * np.abs(bias.astype(np.float64))
        assert (np.abs(ours - theirs) <= accumulation_error(magnitude, 5)).all()


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_sigmoid_and_softmax(kind):
    """Tables there, real numbers rounded once here: the same codes, at softmax's usual scale."""
    rng = np.random.default_rng(94)
    info = np.iinfo(kind)
    for name in ("QLinearSigmoid", "QLinearSoftmax"):
        attributes = {} if name == "QLinearSigmoid" else {"axis": 1, "opset": 13}
        for _ in range(12):
            x = rng.integers(info.min, info.max + 1, (16, 8)).astype(kind)
            scale = np.float32(rng.uniform(0.01, 0.2))
            zero = np.asarray(rng.integers(info.min, info.max + 1), kind)
            operands = [x, scale, zero, np.float32(1 / 256), np.asarray(info.min, kind)]
            (ours,) = evaluate(MICROSOFT, name, operands, attributes)
            (theirs,) = run(MICROSOFT, name, operands, attributes, constant=(1, 2, 3, 4))
            assert np.array_equal(ours, theirs)


def test_quotients_beyond_int32_take_the_wrong_end():
    """cvtps2dq makes INT_MIN of numbers from 2^31 on: the least code instead of the largest."""
    x, one = np.array([1, 100, 127], np.int8), np.float32(1)
    zero, tiny = np.int8(0), np.float32(127.0**2 / 2.0**31)
    operands = [x, one, zero, x, one, zero, np.nextafter(tiny, np.float32(0)), zero]
    (ours,) = evaluate(MICROSOFT, "QLinearMul", operands, {})
    assert ours.tolist() == [127, 127, 127]
    (theirs,) = run(MICROSOFT, "QLinearMul", operands, {}, constant=(1, 2, 4, 5, 6, 7))
    assert theirs.tolist() in ([127, 127, -128], [127, 127, 127])  # x86, Arm
    found = explain(ours, theirs, [(Cause.OVERFLOW, np.array([127, 127, -128]))])
    assert found.first_unknown is None


def differs(n, scale):
    """Whether n * scale in float32 rounds to another integer than the exact product."""
    return round(n * Fraction(float(scale))) != round(Fraction(float(np.float32(n) * scale)))


def test_float32_requantization_is_seen():
    """Accumulators where float32 makes another code: the runtime's is that of ort_x86."""
    a_s, b_s, y_s = np.float32(0.0037), np.float32(1), np.float32(1)
    acc = next(n for n in range(1000, 30_000) if differs(n, a_s))
    k = -(-acc // 200)
    a = np.full((1, k), 200, np.uint8)
    a[0, -1] = acc - 200 * (k - 1)
    b = np.ones((k, 1), np.int8)
    operands = [a, a_s, np.uint8(0), b, b_s, np.int8(0), y_s, np.uint8(0)]
    (ours,), (theirs,) = (
        evaluate("", "QLinearMatMul", operands, {}),
        run("", "QLinearMatMul", operands, {}, constant=(1, 2, 4, 5, 6, 7)),
    )
    other = evaluate("", "QLinearMatMul", operands, {}, X86)[0]
    found = explain(ours, theirs, [(Cause.FLOAT32, other)])
    assert found.counts == {Cause.FLOAT32: 1}
    assert found.histogram in ({1: 1}, {-1: 1})


def test_saturation_is_exact_or_that_of_pairs():
    """MatMulInteger u8 by s8 at the ends: exact with VNNI, else sums of saturated pairs."""
    rng = np.random.default_rng(95)
    a = rng.choice([0, 200, 255], (6, 64)).astype(np.uint8)
    b = rng.choice([-128, -127, 0, 127], (64, 5)).astype(np.int8)
    operands = [a, b, np.uint8(0), np.int8(0)]
    (ours,), (theirs,) = (
        evaluate("", "MatMulInteger", operands, {}),
        run("", "MatMulInteger", operands, {}, constant=(1, 2, 3)),
    )
    saturated = saturating_pairs(a[:, None, :], b.T[None])
    assert np.array_equal(ours, a.astype(np.int64) @ b.astype(np.int64))
    found = explain(ours, theirs, [(Cause.SATURATION, saturated)])
    assert found.counts.get(Cause.UNKNOWN, 0) == 0
    assert found.first_unknown is None


def test_unknown_causes_are_counted():
    ours, theirs = np.array([1, 2, 3, 4]), np.array([1, 5, 4, 4])
    found = explain(ours, theirs, [(Cause.TIE_ORDER, np.array([0, 0, 4, 0]))])
    assert found.counts == {Cause.TIE_ORDER: 1, Cause.UNKNOWN: 1}
    assert (found.max_lsb, found.first_unknown, found.total) == (3, 1, 2)
    assert found.histogram == {1: 1, 3: 1}
