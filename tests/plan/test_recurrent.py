"""Recurrent operators through sessions, against onnxruntime and the reference evaluator.

Tolerance: states are below 1 and sums of at most 40 products, in float32 on both sides: 1e-6 in
one step. Weights are small enough for errors not to grow from step to step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rewrite.codegen.isa import Isa
from rewrite.graph import io
from rewrite.runtime.session import Options, Session
from tests.codegen.harness import isas
from tests.plan.matmul_models import model, run

Array = np.ndarray[Any, np.dtype[Any]]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
KINDS = list(GATES)
CONSTANTS = pytest.mark.parametrize("const", [True, False], ids=["known", "unknown"])


def arrays_of(
    kind: str, steps: int = 5, batch: int = 3, size: int = 7, hidden: int = 21,
    directions: int = 2, by_batch: bool = False, dtype: Any = np.float32,
) -> dict[str, Array]:  # fmt: skip
    rng = np.random.default_rng(1)
    rows = GATES[kind] * hidden

    def make(*shape: int, most: float = 0.4) -> Array:
        return rng.uniform(-most, most, shape).astype(dtype)

    state = (batch, directions, hidden) if by_batch else (directions, batch, hidden)
    found = {
        "x": make(*((batch, steps, size) if by_batch else (steps, batch, size)), most=1.0),
        "w": make(directions, rows, size),
        "r": make(directions, rows, hidden),
        "b": make(directions, 2 * rows),
        "n": np.array([steps, 2, 4, 1][:batch], np.int32),
        "h": make(*state),
        "c": make(*state),
        "p": make(directions, 3 * hidden),
    }
    if kind != "LSTM":
        del found["c"], found["p"]
    return found


def node_of(
    kind: str, arrays: dict[str, Array], absent: str = "", outputs: int = 0, **attributes: Any
) -> onnx.NodeProto:
    names = ["" if n in absent else n for n in arrays]
    while not names[-1]:
        names.pop()
    given = ["y", "yh", "yc"][: outputs or (3 if kind == "LSTM" else 2)]
    directions, _, hidden = arrays["r"].shape
    if directions == 2:
        attributes["direction"] = "bidirectional"
    return helper.make_node(kind, names, given, hidden_size=hidden, **attributes)


def present(node: onnx.NodeProto, arrays: dict[str, Array]) -> dict[str, Array]:
    return {n: a for n, a in arrays.items() if n in node.input}


def by_onnxruntime(node: onnx.NodeProto, arrays: dict[str, Array]) -> list[Array]:
    ort = pytest.importorskip("onnxruntime")
    proto = model([node], arrays, list(node.output))
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, arrays))


def check(
    node: onnx.NodeProto, arrays: dict[str, Array], const: bool = False, isa: Isa | None = None,
    tolerance: float = 5e-6,
) -> None:  # fmt: skip
    arrays = present(node, arrays)
    names = [n for n in arrays if const and n in "wrbp"]
    found = run([node], arrays, names, isa)
    for x, y in zip(found, by_onnxruntime(node, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)


@CONSTANTS
@pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
@pytest.mark.parametrize("kind", KINDS)
def test_every_operand(kind: str, isa: Isa, const: bool) -> None:
    arrays = arrays_of(kind)
    check(node_of(kind, arrays), arrays, const, isa)


@CONSTANTS
@pytest.mark.parametrize("hidden", [16, 40, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_few_operands(kind: str, hidden: int, const: bool) -> None:
    arrays = arrays_of(kind, hidden=hidden, directions=1, batch=1)
    check(node_of(kind, arrays, "bnhcp", outputs=1), arrays, const)


@pytest.mark.parametrize("kind", KINDS)
def test_backwards(kind: str) -> None:
    arrays = arrays_of(kind, directions=1, batch=4)
    check(node_of(kind, arrays, direction="reverse"), arrays)


@CONSTANTS
def test_gru_that_resets_the_product(const: bool) -> None:
    arrays = arrays_of("GRU")
    check(node_of("GRU", arrays, linear_before_reset=1), arrays, const)
    check(node_of("GRU", arrays, "b", linear_before_reset=1), arrays, const)


@pytest.mark.parametrize("kind", KINDS)
def test_clip(kind: str) -> None:
    arrays = arrays_of(kind)
    check(node_of(kind, arrays, clip=0.2), arrays)


def test_activations_of_two_directions() -> None:
    arrays = arrays_of("LSTM")
    names = ["HardSigmoid", "Tanh", "Softsign", "Sigmoid", "Relu", "ScaledTanh"]
    node = node_of(
        "LSTM", arrays, activations=names,
        activation_alpha=[0.3, 0.8], activation_beta=[0.4, 0.9],
    )  # fmt: skip
    check(node, arrays)


def test_an_activation_with_its_default() -> None:
    arrays = arrays_of("RNN", directions=1)
    check(node_of("RNN", arrays, activations=["LeakyRelu"]), arrays)


@pytest.mark.parametrize("name", ["Affine", "ThresholdedRelu", "Elu"])
def test_activations_with_parameters(name: str) -> None:
    arrays = arrays_of("RNN", directions=1)
    node = node_of("RNN", arrays, activations=[name], activation_alpha=[0.4], activation_beta=[0.1])
    check(node, arrays)


def test_only_the_last_states_are_wanted() -> None:
    arrays = arrays_of("LSTM")
    node = node_of("LSTM", arrays)
    whole = by_onnxruntime(node, arrays)
    node.output[0] = ""
    for x, y in zip(run([node], arrays), whole[1:], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=5e-6)


@CONSTANTS
@pytest.mark.parametrize("kind", KINDS)
def test_layout_by_batch(kind: str, const: bool) -> None:
    """The reference evaluator has this layout for one direction only."""
    arrays = arrays_of(kind, directions=1, by_batch=True)
    node = node_of(kind, arrays, "nhcp", layout=1)
    arrays = present(node, arrays)
    want = ReferenceEvaluator(model([node], arrays, list(node.output))).run(None, arrays)
    for x, y in zip(run([node], arrays, "wrb" if const else ""), want, strict=False):
        np.testing.assert_allclose(x, y.reshape(x.shape), rtol=0, atol=5e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_types(kind: str, dtype: Any) -> None:
    """Both sides of float16 are given the same numbers; only the output is rounded."""
    arrays = arrays_of(kind, dtype=dtype)
    node = node_of(kind, arrays, "n")
    arrays = present(node, arrays)
    wide = {n: a.astype(np.float32) for n, a in arrays.items()}
    tolerance = 5e-6 if dtype == np.float64 else 1e-3
    for x, y in zip(run([node], arrays, "wrb"), by_onnxruntime(node, wide), strict=True):
        assert x.dtype == dtype
        np.testing.assert_allclose(x.astype(np.float64), y, rtol=0, atol=tolerance)


def test_two_threads_give_the_same() -> None:
    arrays = arrays_of("GRU", batch=4, steps=9)
    node = node_of("GRU", arrays, "n")
    arrays = present(node, arrays)
    one, two = (run([node], arrays, "wrb", threads=n) for n in (1, 2))
    for x, y in zip(one, two, strict=True):
        np.testing.assert_array_equal(x, y)


def test_threads_get_as_many_rows_as_are_worked_on_at_once() -> None:
    arrays = arrays_of("LSTM", batch=9, steps=4)
    node = node_of("LSTM", arrays, "n")
    arrays = present(node, arrays)
    proto = model([node], arrays, list(node.output), "wrbp")
    with Session(io.load(proto), Options(threads=3, strict=True)) as session:
        found = list(session.run({n: a for n, a in arrays.items() if n not in "wrbp"}).values())
        calls = [c for plan in session.plan for c in plan.calls if hasattr(c.spec, "gates")]
    assert [call.grain for call in calls] == [call.spec.rows for call in calls]
    assert min(call.grain for call in calls) > 1
    for x, y in zip(found, by_onnxruntime(node, arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=5e-6)


def test_no_steps() -> None:
    arrays = arrays_of("LSTM", steps=0)
    node = node_of("LSTM", arrays, "n")
    y, y_h, y_c = run([node], present(node, arrays))
    assert y.shape == (0, 2, 3, 21)
    np.testing.assert_array_equal(y_h, arrays["h"])
    np.testing.assert_array_equal(y_c, arrays["c"])


def test_unknown_activations_are_refused() -> None:
    arrays = arrays_of("RNN", directions=1)
    node = node_of("RNN", arrays, "bnh", activations=["Square"])
    proto = model([node], present(node, arrays), ["y"])
    with (
        pytest.raises(Exception, match="RW8"),
        Session(io.load(proto), Options(strict=True)) as session,
    ):
        session.run(present(node, arrays))
