"""Forms of operators that the random cases leave out, against onnxruntime.

Ranks, automatic padding, ceil_mode, channels last, blocks, narrow integers, 8-bit floats.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewrite.quant.cause import accumulation_error, near_tie
from rewrite.quant.codes import values_of
from rewrite.quant.reference import Arithmetic, evaluate
from rewrite.quant.rounding import Order
from tests.quant.runtime import run, run_model

MICROSOFT = "com.microsoft"
BEFORE = Arithmetic(order=Order.ADD_THEN_ROUND)
F32 = np.float32


@pytest.mark.parametrize(
    ("shape", "weights", "attributes"),
    [
        ((2, 3, 11), (4, 3, 3), {"strides": [2], "pads": [1, 0]}),
        ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 0]}),
        ((1, 2, 7, 8), (2, 2, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        ((1, 2, 7, 8), (2, 2, 3, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
        ((1, 2, 7, 8), (2, 2, 3, 2), {"auto_pad": "VALID", "strides": [2, 2]}),
        ((1, 6, 5, 5), (6, 1, 3, 3), {"group": 6, "pads": [1, 1, 1, 1]}),
        ((1, 6, 5, 5), (12, 1, 3, 3), {"group": 6}),
        ((1, 1, 9, 9), (1, 1, 2, 2), {"dilations": [3, 2], "kernel_shape": [2, 2]}),
    ],
)
def test_convolutions(shape, weights, attributes):
    rng = np.random.default_rng(121)
    x, w = rng.integers(0, 256, shape).astype(np.uint8), rng.integers(-60, 60, weights)
    w = w.astype(np.int8)
    zeros = np.uint8(119), np.int8(0)
    (ours,) = evaluate("", "ConvInteger", [x, w, *zeros], attributes)
    (theirs,) = run("", "ConvInteger", [x, w, *zeros], attributes, constant=(1, 2, 3))
    assert ours.dtype == theirs.dtype
    assert np.array_equal(ours, theirs)
    w_s = rng.uniform(0.01, 0.02, len(w)).astype(F32)
    operands = [x, F32(0.02), zeros[0], w, w_s, np.zeros(len(w), np.int8), F32(0.5), np.uint8(7)]
    (ours,) = evaluate("", "QLinearConv", operands, attributes)
    (theirs,) = run("", "QLinearConv", operands, attributes, constant=range(1, 8))
    assert np.array_equal(ours, theirs)


def test_convolution_with_channels_last():
    rng = np.random.default_rng(122)
    x = rng.integers(0, 256, (1, 5, 6, 4)).astype(np.uint8)
    w = rng.integers(-60, 60, (3, 4, 3, 2)).astype(np.int8)
    operands = [x, F32(0.02), np.uint8(9), w, F32(0.01), np.int8(0), F32(0.5), np.uint8(7)]
    attributes = {"channels_last": 1, "pads": [1, 0, 1, 0]}
    (ours,) = evaluate(MICROSOFT, "QLinearConv", operands, attributes)
    (theirs,) = run(MICROSOFT, "QLinearConv", operands, attributes, constant=range(1, 8))
    assert ours.shape == theirs.shape == (1, 5, 5, 3)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "ceil_mode": 1}),
        ((1, 2, 7, 8), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1,
                        "strides": [3, 2]}),
        ((1, 2, 7, 8), {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        # a window of ceil_mode that would start behind the operand
        ((1, 2, 4, 4), {"kernel_shape": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1,
                        "strides": [4, 4]}),
        ((1, 2, 9), {"kernel_shape": [4], "strides": [2], "pads": [2, 1]}),
        ((1, 2, 4, 5, 6), {"kernel_shape": [2, 2, 3]}),
        ((2, 7, 8, 3), {"kernel_shape": [3, 3], "channels_last": 1, "pads": [1, 1, 1, 1],
                        "count_include_pad": 1}),
    ],
)  # fmt: skip
def test_average_pools(shape, attributes):
    """onnxruntime adds the zero point before it rounds; scales that make no ties."""
    x = np.random.default_rng(123).integers(0, 256, shape).astype(np.uint8)
    operands = [x, F32(0.0371), np.uint8(100), F32(0.0217), np.uint8(31)]
    (ours,) = evaluate(MICROSOFT, "QLinearAveragePool", operands, attributes, BEFORE)
    (theirs,) = run(MICROSOFT, "QLinearAveragePool", operands, attributes, constant=(1, 2, 3, 4))
    assert ours.shape == theirs.shape
    assert np.array_equal(ours, theirs)


def test_global_averages_with_channels_last():
    x = np.random.default_rng(124).integers(0, 256, (2, 3, 4, 5)).astype(np.uint8)
    operands = [x, F32(0.0371), np.uint8(100), F32(0.0217), np.uint8(31)]
    for attributes in ({}, {"channels_last": 1}):
        found = [
            f(MICROSOFT, "QLinearGlobalAveragePool", operands, attributes)[0]
            for f in (evaluate, lambda *a: run(*a, constant=(1, 2, 3, 4)))
        ]
        assert found[0].shape == found[1].shape
        assert np.array_equal(*found)


def test_matrices_of_any_rank():
    rng = np.random.default_rng(125)
    a = rng.integers(0, 256, (2, 1, 3, 4)).astype(np.uint8)
    b = rng.integers(-60, 60, (5, 4, 2)).astype(np.int8)
    (ours,) = evaluate("", "MatMulInteger", [a, b, np.uint8(3), np.int8(0)], {})
    (theirs,) = run("", "MatMulInteger", [a, b, np.uint8(3), np.int8(0)], {}, constant=(2, 3))
    assert ours.shape == (2, 5, 3, 2)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4, np.int8, np.uint16])
def test_blocks(kind):
    """DequantizeLinear of blocks along both axes of a matrix, and QuantizeLinear back."""
    rng = np.random.default_rng(126)
    limits = (-8, 8) if kind is ml_dtypes.int4 else (0, 16)
    codes = rng.integers(*limits, (8, 6)).astype(kind)
    for axis, block in ((0, 4), (1, 3), (0, 2)):
        shape = [8, 6]
        shape[axis] //= block
        scale = rng.uniform(0.1, 2, shape).astype(F32)
        zero = rng.integers(*limits, shape).astype(kind)
        attributes = {"axis": axis, "block_size": block}
        (values,) = evaluate("", "DequantizeLinear", [codes, scale, zero], attributes)
        (theirs,) = run(
            "", "DequantizeLinear", [codes, scale, zero], attributes, constant=(0, 1, 2)
        )
        assert np.array_equal(values, theirs)
        (back,) = evaluate("", "QuantizeLinear", [values, scale, zero], attributes)
        assert np.array_equal(back, codes)


@pytest.mark.parametrize(
    "kind",
    [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
     ml_dtypes.float8_e5m2fnuz],
)  # fmt: skip
@pytest.mark.parametrize("saturate", [0, 1])
def test_float8(kind, saturate):
    rng = np.random.default_rng(127)
    x = np.concatenate([rng.normal(0, 1, 200), 10.0 ** rng.uniform(-6, 6, 200), [0.0]]).astype(F32)
    parameters = [F32(0.37), np.zeros((), kind)]
    (codes,) = evaluate("", "QuantizeLinear", [x, *parameters], {"saturate": saturate})
    (ours,) = evaluate("", "DequantizeLinear", [codes, *parameters], {})
    theirs = there_and_back(x, parameters, saturate)
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.isfinite(ours).all() == bool(saturate)


def there_and_back(x, parameters, saturate):
    """QuantizeLinear, DequantizeLinear in onnxruntime, which gives no 8-bit floats to numpy."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], saturate=saturate),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = [
        numpy_helper.from_array(np.asarray(p), n) for p, n in zip(parameters, "sz", strict=True)
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)], constants,
    )  # fmt: skip
    imports = [helper.make_opsetid("", 19)]
    return run_model(helper.make_model(graph, opset_imports=imports, ir_version=9), {"x": x})[0]


def test_half_precision_scales():
    """Float16: onnxruntime's codes are those of a division in float32."""
    rng = np.random.default_rng(128)
    x = rng.normal(0, 4, 2000).astype(np.float16)
    operands = [x, np.float16(0.0371), np.uint8(100)]
    (ours,) = evaluate("", "QuantizeLinear", operands, {})
    (theirs,) = run("", "QuantizeLinear", operands, {}, constant=(1, 2))
    quotient = x.astype(np.float64) / float(np.float16(0.0371))
    differ = ours != theirs
    assert near_tie(
        quotient, accumulation_error(np.abs(quotient), 2) + 2.0**-11 * np.abs(quotient)
    )[differ].all()
    (values,) = evaluate("", "DequantizeLinear", [ours, np.float16(0.0371), np.uint8(100)], {})
    (there,) = run("", "DequantizeLinear", [ours, np.float16(0.0371), np.uint8(100)], {},
                   constant=(1, 2))  # fmt: skip
    assert np.array_equal(values_of(values), values_of(there))
