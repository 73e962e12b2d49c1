"""Values of recurrent layers, held against onnxruntime."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from rewrite.ops.evaluate import differs, evaluate
from rewrite.ops.recurrent_value import RECURRENT
from tests.ops.harness import Case, case, label, runtime_values

pytest.importorskip("onnxruntime")

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
PER_DIRECTION = {"RNN": 1, "GRU": 2, "LSTM": 3}


def layer(name: str, direction: str = "forward", bias: bool = True, lengths: bool = False,
          state: bool = False, peepholes: bool = False, **rest: Any) -> Case:  # fmt: skip
    """5 steps, a batch of 2, 3 inputs, 4 hidden."""
    n, g = (2 if direction == "bidirectional" else 1), GATES[name]
    operands: list[Any] = ["f32 5,2,3", f"f32 {n},{4 * g},3", f"f32 {n},{4 * g},4"]
    operands += [f"f32 {n},{8 * g}" if bias else None]
    operands += [np.array([5, 3], np.int32) if lengths else None]
    states = f"f32 {n},2,4" if state else None
    operands += [states, states] if name == "LSTM" else [states]
    if peepholes:
        operands.append(f"f32 {n},12")
    outputs = 3 if name == "LSTM" else 2
    if "activations" in rest:
        rest["activations"] = rest["activations"] * n
    return case(name, *operands, hidden_size=4, direction=direction, out=outputs, data=3, **rest)


DIRECTIONS = ("forward", "reverse", "bidirectional")
FUNCTIONS = ("Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh",
             "HardSigmoid", "Elu", "Softsign", "Softplus")  # fmt: skip
CASES = [
    *[layer(name, direction, bias, lengths, state)
      for name, direction, bias, lengths, state in itertools.product(
          GATES, DIRECTIONS, (True, False), (True, False), (True, False))],
    *[layer(name, direction, clip=0.7) for name in GATES for direction in DIRECTIONS],
    *[layer("RNN", activations=[f], activation_alpha=[0.3], activation_beta=[0.6])
      for f in FUNCTIONS],
    *[layer("LSTM", activations=["HardSigmoid", f, "ScaledTanh"], activation_alpha=[0.3, 0.4, 0.5],
            activation_beta=[0.6, 0.7, 0.8]) for f in ("Affine", "Tanh")],
    *[layer("GRU", direction, linear_before_reset=1) for direction in DIRECTIONS],
    *[layer("GRU", direction, activations=["Sigmoid", "Relu"]) for direction in DIRECTIONS],
    *[layer("LSTM", direction, peepholes=True, state=True) for direction in DIRECTIONS],
    layer("LSTM", input_forget=1),
    layer("LSTM", peepholes=True, clip=0.4),
]  # fmt: skip


@pytest.mark.parametrize("c", CASES, ids=[f"{k}-{label(c)}" for k, c in enumerate(CASES)])
def test_value(c: Case) -> None:
    expected = runtime_values(c, 14)
    assert expected is not None, "the runtime does not take the case"
    found = evaluate(c.domain, c.name, 14, c.inputs, c.attributes, c.n_outputs)
    assert found
    assert len(found) == len(expected) == c.n_outputs
    for mine, other in zip(found, expected, strict=True):
        assert differs(other, mine, RECURRENT) is None


@pytest.mark.parametrize("name", GATES)
def test_layout(name: str) -> None:
    """With layout 1 the batch comes first everywhere."""
    first = layer(name, "bidirectional", lengths=True, state=True)
    turned = [x.swapaxes(0, 1) if k in (0, 5, 6) and x is not None else x
              for k, x in enumerate(first.inputs)]  # fmt: skip
    given = dict(first.attributes)
    plain = evaluate("", name, 14, first.inputs, given, first.n_outputs)
    found = evaluate("", name, 14, turned, {**given, "layout": 1}, first.n_outputs)
    assert np.array_equal(found[0], plain[0].transpose(2, 0, 1, 3))
    for mine, other in zip(found[1:], plain[1:], strict=True):
        assert np.array_equal(mine, other.swapaxes(0, 1))
