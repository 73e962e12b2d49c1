"""Values of further operators of ONNX Runtime's own (com.microsoft).

In: `Evaluation`. Out: arrays, None where a form is asked for that no CPU kernel takes.

Source: the operator texts (ContribOperators.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rewrite.ops.call import Array, Arrays, Evaluation
from rewrite.ops.microsoft import DOMAIN
from rewrite.ops.pooling import max_pool_value
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
def dynamic_quantize_lstm_value(e: Evaluation) -> Arrays | None:
    """LSTM whose operand and hidden state are quantized to uint8 by their range: all steps of the
    operand at once, the hidden state at each step."""
    names = e.attributes.get("activations")
    if names or e.attributes.get("clip") or e.integer("input_forget", 0):
        return None
    x = e.array(0).astype(np.float32)
    steps, batch, _ = x.shape
    hidden = e.integer("hidden_size", 0)
    turn = e.text("direction", "forward")
    lengths = e.optional(4)
    ends = np.full(batch, steps) if lengths is None else lengths
    directions = 2 if turn == "bidirectional" else 1
    y = np.zeros((steps, directions, batch, hidden), np.float32)
    last = np.zeros((2, directions, batch, hidden), np.float32)
    for d in range(directions):
        backwards = turn == "reverse" or d == 1
        for index in range(batch if lengths is not None and backwards else 1):
            rows = slice(index, index + 1) if lengths is not None and backwards else slice(None)
            order = list(range(steps))
            if backwards:
                order = list(range(int(ends[rows][0]) - 1, -1, -1))
            _direction(e, d, x, rows, order, ends, y, last)
    outputs: Sequence[Array] = (y, last[0], last[1])
    return tuple(outputs[: e.n_outputs])


def _direction(
    e: Evaluation,
    d: int,
    x: Array,
    rows: slice,
    order: list[int],
    ends: Array,
    y: Array,
    last: Array,
) -> None:
    """Runs one direction over the steps of `order` for some rows of the batch."""
    bias = e.optional(3)
    hidden = y.shape[-1]
    b = np.zeros(8 * hidden) if bias is None else bias[d].astype(np.float64)
    peep = e.optional(7)
    p = np.zeros(3 * hidden) if peep is None else peep[d].astype(np.float64)
    first_h, first_c = e.optional(5), e.optional(6)
    h = np.zeros(y[0, 0].shape) if first_h is None else first_h[d].astype(np.float64)
    c = np.zeros(h.shape) if first_c is None else first_c[d].astype(np.float64)
    h, c = h[rows].copy(), c[rows].copy()
    weight = _weight(e, 1, 8, 9, d)
    recurrence = _weight(e, 2, 10, 11, d)
    given = quantized_product(x.reshape(-1, x.shape[2]), *weight).reshape(*x.shape[:2], -1)
    for t in order:
        gates = given[t, rows] + quantized_product(h.astype(np.float32), *recurrence)
        i, o, f, g = np.split(gates + b[: 4 * hidden] + b[4 * hidden :], 4, axis=-1)
        i = _sigmoid(i + p[:hidden] * c)
        f = _sigmoid(f + p[2 * hidden :] * c)
        new_c = f * c + i * np.tanh(g)
        o = _sigmoid(o + p[hidden : 2 * hidden] * new_c)
        live = (t < ends[rows])[:, None]
        c = np.where(live, new_c, c)
        h = np.where(live, o * np.tanh(new_c), h)
        y[t, d, rows] = np.where(live, h, 0.0)
    last[0, d, rows], last[1, d, rows] = h, c


def _weight(e: Evaluation, index: int, scale: int, zero: int, d: int) -> tuple[Array, Array]:
    """Codes without their zero point, and scales, of one direction."""
    codes = e.array(index)[d].astype(np.int64)
    zeros = e.array(zero)[d] if e.array(zero).ndim else e.array(zero)
    scales = e.array(scale)[d] if e.array(scale).ndim else e.array(scale)
    return codes - zeros.astype(np.int64), scales.astype(np.float64)


def quantized_product(x: Array, codes: Array, scales: Array) -> Array:
    """x, quantized as DynamicQuantizeLinear does it, times codes."""
    low, high = min(np.float32(x.min()), np.float32(0)), max(np.float32(x.max()), np.float32(0))
    scale = np.float32(1) if high == low else np.float32((high - low) / np.float32(255))
    zero = np.clip(np.rint(-low / scale), 0, 255)
    left = np.clip(np.rint(x / scale) + zero, 0, 255) - zero
    return np.asarray(np.matmul(left.astype(np.int64), codes) * (float(scale) * scales))


def _sigmoid(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


# --- channels last -----------------------------------------------------------------------------


@value("NhwcMaxPool", domain=DOMAIN)
def nhwc_max_pool_value(e: Evaluation) -> Arrays | None:
    x = np.moveaxis(e.array(0), -1, 1)
    found = max_pool_value(Evaluation(e.opset, [x], e.attributes, 1))
    return None if found is None else (np.moveaxis(found[0], 1, -1),)
