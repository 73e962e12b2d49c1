"""DynamicQuantizeLSTM: an LSTM whose matrix products have operands quantized by their range.

In: `Step`. Out: `Real`s in float64. The input is quantized over the whole sequence, the hidden
state at each step, both to u8; weights are [directions, K, 4 hidden], gates in the order i o f c:

    i, o, f = sigmoid(x W + h R + b)    c' = f c + i tanh(x W + h R + b)    h' = o tanh(c')
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.audit.oracle import integers
from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle.contraction import matmul
from rewrite.audit.oracle.quantize import dequantized, dynamically
from rewrite.audit.oracle.real import Real, known, lift
from rewrite.audit.oracle.run_floats import ALLOWANCE
from rewrite.audit.oracle.step import OracleError, Step, Values, operator
from rewrite.audit.oracle.terms import magnitude
from rewrite.quant.codes import Array, Floats


@operator("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantize_lstm(step: Step) -> Values:
    _refuse(step)
    x = step.real(0)
    length, batch = x.shape[0], x.shape[1]
    hidden = step.integer("hidden_size", 0) or step.array(2).shape[1]
    directions = step.array(1).shape[0]
    outputs, last_h, last_c = [], [], []
    for d in range(directions):
        turned = step.text("direction", "forward") == "reverse" or d == 1
        h = _state(step, 5, d, (batch, hidden))
        c = _state(step, 6, d, (batch, hidden))
        y, h, c = _one_way(step, _projected(step, x, d), d, (h, c), turned)
        outputs.append(y)
        last_h.append(h)
        last_c.append(c)
    stacked = np.stack(outputs, axis=1).reshape(length, directions, batch, hidden)
    found = (stacked, np.stack(last_h), np.stack(last_c))
    return tuple(known(a, ALLOWANCE * max(magnitude(a), 1.0), np.float32) for a in found)


def _refuse(step: Step) -> None:
    defaults = (None, ("Sigmoid", "Tanh", "Tanh"), ("Sigmoid", "Tanh", "Tanh") * 2)
    given: Any = step.attributes.get("activations")
    names = tuple(n.decode() if isinstance(n, bytes) else n for n in given) if given else None
    odd = {
        "other activations": names not in defaults,
        "a clip": step.number("clip", 0.0) > 0.0,
        "coupled gates": step.integer("input_forget", 0) != 0,
        "peepholes": step.has(7),
        "sequences of several lengths": step.has(4) and _several(step),
    }
    for what, found in odd.items():
        if found:
            raise OracleError(f"a quantized LSTM with {what}")


def _several(step: Step) -> bool:
    return bool(np.any(step.array(4) != step.real(0).shape[0]))


def _state(step: Step, index: int, direction: int, shape: tuple[int, ...]) -> Floats:
    return step.real(index).floats[direction] if step.has(index) else np.zeros(shape)


def _product(step: Step, x: Real, index: int, scale: int, direction: int) -> Floats:
    """x, quantized by its range, times the quantized weight of one direction."""
    codes, width, zero = dynamically(step, x, told=False)
    own = step.array(scale)[direction]
    offset = step.optional(scale + 1)
    shift = None if offset is None else offset[direction]
    w = integers.shifted(step.array(index)[direction], shift)
    weight = reals.multiply(Real(w.terms, 0.0, np.float32), lift(np.asarray(own)))
    return matmul(dequantized(codes, width, zero), weight).floats


def _projected(step: Step, x: Real, direction: int) -> Floats:
    """x W + b, for all steps at once."""
    y = _product(step, x, 1, 8, direction)
    if step.has(3):
        bias = step.real(3).floats[direction]
        half = bias.shape[0] // 2
        y = y + bias[:half] + bias[half:]
    return y


def _one_way(
    step: Step, inputs: Floats, direction: int, state: tuple[Floats, Floats], turned: bool
) -> tuple[Floats, Floats, Floats]:
    """The hidden states of all steps, and the last state."""
    h, c = state
    rows = np.empty((inputs.shape[0], *h.shape))
    order = range(inputs.shape[0])
    for t in reversed(order) if turned else order:
        gates = inputs[t] + _product(step, known(h, 0.0, np.float32), 2, 10, direction)
        i, o, f, g = np.split(gates, 4, axis=-1)
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        rows[t] = h
    return rows, h, c


def _sigmoid(x: Array) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))
