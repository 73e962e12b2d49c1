"""Values of further operators of ONNX Runtime's own (com.microsoft).

In: `Evaluation`. Out: arrays, None where a form is asked for that no CPU kernel takes.

Source: the operator texts (ContribOperators.md).
"""

from __future__ import annotations

import numpy as np

from rewrite.ops.call import Array, Arrays, Evaluation
from rewrite.ops.microsoft import DOMAIN
from rewrite.ops.pooling import max_pool_value
from rewrite.ops.recurrent_value import Cell, State, activations, directions_of, walk
from rewrite.ops.reduction import SUMMATION
from rewrite.ops.registry import value
from rewrite.ops.scalar import widen

# --- matrices ----------------------------------------------------------------------------------


@value("MatMulNBits", domain=DOMAIN, error=SUMMATION)
def matmul_nbits_value(e: Evaluation) -> Arrays | None:
    a, weights = e.array(0), dequantized_blocks(e)
    if weights is None:
        return None
    y = np.matmul(widen(a, False), weights.T)
    bias = e.optional(5)
    y = y if bias is None else y + widen(bias, False)
    return (y.astype(a.dtype),)


def dequantized_blocks(e: Evaluation) -> Array | None:
    """The weight of MatMulNBits, (N, K) in float64."""
    k, n = e.integer("K", 0), e.integer("N", 0)
    bits, block = e.integer("bits", 4), e.integer("block_size", 0)
    if e.optional(4) is not None or bits not in (2, 4, 8) or block < 1:
        return None
    blocks = -(-k // block)
    codes = unpacked(e.array(1).reshape(n, -1), bits)[:, : blocks * block]
    scales = widen(e.array(2).reshape(n, blocks), False)
    zero = e.optional(3)
    if zero is None:
        zeros = np.full((n, blocks), float(1 << (bits - 1)))
    elif zero.dtype == np.uint8:
        zeros = unpacked(zero.reshape(n, -1), bits)[:, :blocks].astype(np.float64)
    else:
        zeros = widen(zero.reshape(n, blocks), False)
    values = (codes.reshape(n, blocks, block) - zeros[..., None]) * scales[..., None]
    return np.asarray(values.reshape(n, blocks * block)[:, :k])


def unpacked(packed: Array, bits: int) -> Array:
    """Codes of a few bits, the first in the lowest bits of a byte."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return np.asarray(codes.reshape(*packed.shape[:-1], -1))


@value("Inverse", domain=DOMAIN, error=1e-4)
def inverse_value(e: Evaluation) -> Arrays:
    x = e.array(0)
    return (np.linalg.inv(widen(x, False).astype(np.float64)).astype(x.dtype),)


@value("Trilu", domain=DOMAIN)
def trilu_value(e: Evaluation) -> Arrays:
    x, k = e.array(0), e.integers_of(1) or (0,)
    keep = np.tri(x.shape[-2], x.shape[-1], k[0] - 1 if e.integer("upper", 1) else k[0], bool)
    keep = ~keep if e.integer("upper", 1) else keep
    return (np.where(keep, x, np.zeros((), x.dtype)),)


@value("ExpandDims", domain=DOMAIN)
def expand_dims_value(e: Evaluation) -> Arrays:
    return (np.expand_dims(e.array(0), int(e.array(1).reshape(-1)[0])),)


# --- recurrent ---------------------------------------------------------------------------------


@value("DynamicQuantizeLSTM", domain=DOMAIN, error=1e-2)
def dynamic_quantize_lstm_value(e: Evaluation) -> Arrays:
    """LSTM whose operand and hidden state are quantized to uint8 by their range: all steps of the
    operand at once, the hidden state at each step."""
    x, bias, peepholes, lengths = e.array(0), e.optional(3), e.optional(7), e.optional(4)
    steps, batch, _ = x.shape
    hidden, turns = e.integer("hidden_size", 0), directions_of(e)
    ends = np.full(batch, steps) if lengths is None else lengths.astype(np.int64)
    functions = activations(e, ("Sigmoid", "Tanh", "Tanh"), len(turns))
    y = np.zeros((steps, len(turns), batch, hidden))
    last: list[State] = []
    for d, backwards in enumerate(turns):
        b = np.zeros(8 * hidden) if bias is None else bias[d].astype(np.float64)
        peep = np.zeros(3 * hidden) if peepholes is None else peepholes[d].astype(np.float64)
        cell = Cell(functions[d], peep, e.integer("input_forget", 0) != 0)
        recurrence = _weight(e, 2, 10, 11, d)
        product = quantized_product(x.reshape(-1, x.shape[2]), *_weight(e, 1, 8, 9, d))
        given = product.reshape(steps, batch, -1) + b[: 4 * hidden] + b[4 * hidden :]

        def step(
            gates: Array, state: State, cell: Cell = cell, r: tuple[Array, Array] = recurrence
        ) -> State:
            return cell.step(gates + quantized_product(state[0].astype(np.float32), *r), state[1])

        before = tuple(
            np.zeros((batch, hidden)) if first is None else first[d].astype(np.float64)
            for first in (e.optional(5), e.optional(6))
        )
        last.append(walk(given, ends, backwards, before, step, y[:, d]))
    states = [np.stack([state[k] for state in last]) for k in range(2)]
    return tuple(a.astype(np.float32) for a in (y, *states))[: e.n_outputs]


def _weight(e: Evaluation, index: int, scale: int, zero: int, d: int) -> tuple[Array, Array]:
    """Codes without their zero point, and scales, of one direction."""
    codes = e.array(index)[d].astype(np.int64)
    zeros, scales = e.array(zero), e.array(scale)
    return (
        codes - (zeros[d] if zeros.ndim else zeros).astype(np.int64),
        (scales[d] if scales.ndim else scales).astype(np.float64),
    )


def quantized_product(x: Array, codes: Array, scales: Array) -> Array:
    """x, quantized as DynamicQuantizeLinear does it, times codes."""
    low, high = min(np.float32(x.min()), np.float32(0)), max(np.float32(x.max()), np.float32(0))
    scale = np.float32(1) if high == low else np.float32((high - low) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    left = np.clip(np.rint(x / scale) + zero, 0, 255) - zero
    return np.asarray(np.matmul(left.astype(np.int64), codes) * (float(scale) * scales))


# --- channels last -----------------------------------------------------------------------------


@value("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool_value(e: Evaluation) -> Arrays | None:
    x = np.moveaxis(e.array(0), -1, 1)
    found = max_pool_value(Evaluation(e.opset, [x], e.attributes, 1))
    return None if found is None else (np.moveaxis(found[0], 1, -1),)
