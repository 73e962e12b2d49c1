"""The oracle against others: `rewrite.quant.reference` on codes, ONNX's evaluator on floats.

The reference of `rewrite.quant` computes one operator at a time in rationals, and was written
apart from the oracle. ONNX's evaluator is right on operators that only move or select floats.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.run import Oracle
from rewrite.quant.reference import OPERATORS, evaluate

MS = "com.microsoft"
RNG = np.random.default_rng(11)


def u8(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def s8(*shape):
    return RNG.integers(-128, 128, shape).astype(np.int8)


def f(*values):
    return np.array(values, np.float32) if len(values) > 1 else np.float32(values[0])


def z(value):
    return np.uint8(value)


CASES = {
    "conv": ("", "QLinearConv", [
        u8(1, 4, 6, 6), f(0.02), z(9), s8(4, 2, 3, 3), f(0.01, 0.02, 0.003, 0.04),
        np.zeros(4, np.int8), f(0.05), z(101), RNG.integers(-999, 999, 4).astype(np.int32),
    ], {"group": 2, "pads": [1, 0, 1, 0], "strides": [1, 2]}),
    "matmul": ("", "QLinearMatMul", [
        u8(3, 7), f(0.1), z(1), u8(7, 5), f(0.3), z(77), f(3.7), z(255),
    ], {}),
    "add": (MS, "QLinearAdd", [u8(999), f(0.25), z(0), u8(999), f(0.25), z(0), f(0.5), z(1)], {}),
    "mul": (MS, "QLinearMul", [u8(999), f(0.1), z(3), u8(999), f(0.2), z(5), f(0.7), z(1)], {}),
    "sigmoid": (MS, "QLinearSigmoid", [u8(256), f(0.05), z(128), f(1 / 256), z(0)], {}),
    "leaky": (MS, "QLinearLeakyRelu", [u8(256), f(0.05), z(128), f(0.04), z(99)], {"alpha": 0.1}),
    "softmax": (MS, "QLinearSoftmax", [u8(4, 9), f(0.1), z(128), f(1 / 256), z(0)],
                {"axis": -1, "opset": 13}),
    "average": (MS, "QLinearAveragePool", [u8(1, 2, 5, 5), f(0.25), z(1), f(0.25), z(1)],
                {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}),
    "global": (MS, "QLinearGlobalAveragePool", [u8(2, 3, 4, 4), f(0.25), z(1), f(0.2), z(3)], {}),
    "mean": (MS, "QLinearReduceMean", [u8(3, 4, 5), f(0.25), z(1), f(0.2), z(3)], {"axes": [1]}),
    "where": (MS, "QLinearWhere", [
        RNG.integers(0, 2, 99).astype(bool), u8(99), f(0.1), z(1), u8(99), f(0.2), z(2), f(0.15),
        z(3),
    ], {}),
    "concat": (MS, "QLinearConcat", [
        f(0.15), z(3), u8(2, 3), f(0.1), z(1), u8(2, 4), f(0.2), z(2),
    ], {"axis": 1}),
    "gemm": (MS, "QGemm", [
        u8(3, 7), f(0.1), z(1), s8(5, 7), f(0.1, 0.2, 0.3, 0.4, 0.5), np.zeros(5, np.int8),
        RNG.integers(-99, 99, 5).astype(np.int32), f(4.0), z(120),
    ], {"transB": 1, "alpha": 1.0}),
    "conv_integer": ("", "ConvInteger", [u8(1, 3, 5, 5), u8(2, 3, 2, 2), z(7), z(200)],
                     {"pads": [1, 1, 1, 1]}),
    "matmul_integer": ("", "MatMulInteger", [u8(3, 8), s8(8, 4), z(9), np.int8(-3)], {}),
    "to_float": (MS, "MatMulIntegerToFloat", [u8(3, 8), s8(8, 4), f(0.1), f(0.2), z(9)], {}),
}  # fmt: skip


def outcome(domain, op, inputs, attributes, outputs=1):
    names = [f"x{k}" for k in range(len(inputs))]
    results = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in zip(names, inputs, strict=True)],
    )
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(MS, 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    found = Oracle(proto).run({}).outputs
    return proto, [v.rounded() if isinstance(v, Real) else v for v in found.values()]


@pytest.mark.parametrize("name", CASES)
def test_operators_on_codes(name):
    domain, op, inputs, attributes = CASES[name]
    assert (domain, op) in OPERATORS
    wanted = evaluate(domain, op, [np.asarray(x) for x in inputs], attributes)
    assert wanted is not None
    _, found = outcome(domain, op, inputs, attributes)
    assert found[0].dtype == wanted[0].dtype
    assert np.array_equal(found[0], wanted[0])


X = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
MOVES = {
    "transpose": ("Transpose", [X], {"perm": [2, 0, 3, 1]}, 1),
    "slice": ("Slice", [X, np.array([3, -1]), np.array([0, -6]), np.array([2, 3]),
                        np.array([-1, -2])], {}, 1),
    "gather": ("Gather", [X, np.array([[2, 0], [-1, 1]])], {"axis": 1}, 1),
    "split": ("Split", [X, np.array([1, 3])], {"axis": 2}, 2),
    "depth": ("DepthToSpace", [X[:, :1].repeat(4, 1)], {"blocksize": 2}, 1),
    "tile": ("Tile", [X, np.array([1, 2, 1, 3])], {}, 1),
    "expand": ("Expand", [X[:, :1], np.array([2, 3, 4, 5])], {}, 1),
    "pad": ("Pad", [X, np.array([0, 0, 1, 2, 0, 0, 0, 1])], {"mode": "reflect"}, 1),
    "resize": ("Resize", [X, np.zeros(0, np.float32), np.array([1, 1, 2, 1.5], np.float32)],
               {"mode": "nearest", "nearest_mode": "floor",
                "coordinate_transformation_mode": "asymmetric"}, 1),
    "max_pool": ("MaxPool", [X], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, 1),
    "reduce_max": ("ReduceMax", [X, np.array([1, -1])], {"keepdims": 0}, 1),
    "top_k": ("TopK", [X, np.array([2])], {"axis": 1}, 2),
    "clip": ("Clip", [X, np.float32(-0.5), np.float32(0.25)], {}, 1),
    "where": ("Where", [X > 0, X, np.float32(7)], {}, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_operators_that_move_floats(name):
    op, inputs, attributes, outputs = MOVES[name]
    proto, found = outcome("", op, inputs, attributes, outputs)
    for mine, theirs in zip(found, ReferenceEvaluator(proto).run(None, {}), strict=True):
        assert np.array_equal(mine, theirs)
