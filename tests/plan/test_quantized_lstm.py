"""Quantization by range, and LSTM around it, against onnxruntime and values in float64.

Tolerance of the LSTM: a state whose quotient lies next to a tie may round to the other code, which
changes a gate by one step of the state times a weight (2/255 at most); short sequences seldom meet
one, so that nearly all outputs agree to the precision of float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rewrite.codegen.isa import Isa
from rewrite.ops.evaluate import evaluate
from tests.codegen.harness import isas
from tests.plan.matmul_models import model, run

Array = np.ndarray[Any, np.dtype[Any]]
MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")


# --- DynamicQuantizeLinear -----------------------------------------------------------------------


def node() -> onnx.NodeProto:
    return helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])


@MACHINES
@pytest.mark.parametrize("size", [1, 3, 64, 1000, 40_001])
def test_ranges(size: int, isa: Isa) -> None:
    rng = np.random.default_rng(size)
    for low, high in ((-3, 5), (1, 4), (-4, -1)):
        x = rng.uniform(low, high, (size,)).astype(np.float32)
        want = ReferenceEvaluator(model([node()], {"x": x}, ["y", "s", "z"])).run(None, {"x": x})
        for found, wanted in zip(run([node()], {"x": x}, isa=isa), want, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_zeros_have_scale_one() -> None:
    """As onnxruntime has it; the reference evaluator divides by zero."""
    y, s, z = run([node()], {"x": np.zeros((2, 3), np.float32)})
    assert s == 1
    assert z == 0
    assert not y.any()


def test_a_transposed_operand() -> None:
    x = np.random.default_rng(1).standard_normal((5, 7)).astype(np.float32)
    turn = helper.make_node("Transpose", ["x"], ["t"])
    after = helper.make_node("DynamicQuantizeLinear", ["t"], ["y", "s", "z"])
    found = run([turn, after], {"x": x})
    want = run([node()], {"x": np.ascontiguousarray(x.T)})
    for a, b in zip(found, want, strict=True):
        np.testing.assert_array_equal(a, b)


# --- DynamicQuantizeLSTM -------------------------------------------------------------------------

NAMES = ["x", "w", "r", "b", "", "h", "c", "p", "ws", "wz", "rs", "rz"]


def arrays_of(
    steps: int = 6, batch: int = 1, size: int = 13, hidden: int = 21, directions: int = 2,
    unsigned: bool = False, by_column: bool = False,
) -> dict[str, Array]:  # fmt: skip
    rng = np.random.default_rng(hidden)
    kind: Any = np.uint8 if unsigned else np.int8
    low, high = (0, 256) if unsigned else (-128, 128)
    rows = 4 * hidden
    scales = (directions, rows) if by_column else (directions,)

    def floats(*shape: int, most: float = 1.0) -> Array:
        return rng.uniform(-most, most, shape).astype(np.float32)

    return {
        "x": floats(steps, batch, size),
        "w": rng.integers(low, high, (directions, size, rows)).astype(kind),
        "r": rng.integers(low, high, (directions, hidden, rows)).astype(kind),
        "b": floats(directions, 2 * rows, most=0.5),
        "h": floats(directions, batch, hidden),
        "c": floats(directions, batch, hidden),
        "p": floats(directions, 3 * hidden),
        "ws": rng.uniform(0.5, 1.5, scales).astype(np.float32) / 256,
        "wz": np.full(scales, 128 if unsigned else 0, kind),
        "rs": rng.uniform(0.5, 1.5, scales).astype(np.float32) / 256,
        "rz": np.full(scales, 128 if unsigned else 0, kind),
    }


def lstm(arrays: dict[str, Array], **attributes: Any) -> onnx.NodeProto:
    directions, hidden = arrays["r"].shape[:2]
    if directions == 2:
        attributes["direction"] = "bidirectional"
    return helper.make_node(
        "DynamicQuantizeLSTM", [n if n in arrays else "" for n in NAMES], ["y", "yh", "yc"],
        domain="com.microsoft", hidden_size=hidden, **attributes,
    )  # fmt: skip


def near(found: list[Array], want: list[Array]) -> None:
    for x, y in zip(found, want, strict=True):
        assert x.shape == y.shape
        apart = np.abs(x.astype(np.float64) - y)
        assert apart.max() < 2e-2
        assert np.mean(apart < 2e-5) > 0.97


WEIGHTS = ["w", "r", "ws", "wz", "rs", "rz"]


@MACHINES
@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("by_column", [False, True])
def test_lstm(by_column: bool, unsigned: bool, isa: Isa) -> None:
    arrays = arrays_of(unsigned=unsigned, by_column=by_column)
    given = lstm(arrays)
    inputs = [arrays.get(n) for n in NAMES]
    attributes = {a.name: helper.get_attribute_value(a) for a in given.attribute}
    want = evaluate("com.microsoft", "DynamicQuantizeLSTM", 1, inputs, attributes, 3)
    assert want is not None
    near(run([given], arrays, WEIGHTS, isa), list(want))


@pytest.mark.parametrize("hidden", [16, 32, 5])
@pytest.mark.parametrize("batch", [1, 3])
def test_lstm_is_that_of_onnxruntime(batch: int, hidden: int) -> None:
    ort = pytest.importorskip("onnxruntime")
    arrays = arrays_of(batch=batch, hidden=hidden)
    del arrays["p"]
    proto = model([lstm(arrays)], arrays, ["y", "yh", "yc"], WEIGHTS)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # with more, each thread quantizes its rows on their own
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    want = session.run(None, {n: a for n, a in arrays.items() if n not in WEIGHTS})
    near(run([lstm(arrays)], arrays, WEIGHTS), want)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_lstm_in_one_direction_with_few_operands(direction: str) -> None:
    arrays = arrays_of(directions=1, batch=2)
    for name in "bhcp":
        del arrays[name]
    given = lstm(arrays, direction=direction)
    inputs = [arrays.get(n) for n in NAMES]
    want = evaluate(
        "com.microsoft", "DynamicQuantizeLSTM", 1, inputs,
        {"direction": direction, "hidden_size": 21}, 3,
    )  # fmt: skip
    assert want is not None
    near(run([given], arrays, WEIGHTS), list(want))
