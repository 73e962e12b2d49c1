"""QAttention of ONNX Runtime (com.microsoft): Attention whose projection is a product of codes.

In: instances whose weights are known. Out: the product as numbers, then as Attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.plan.lower.matmul_bytes import scheme_of
from rewrite.plan.lower.matmul_product import Right, multiply
from rewrite.plan.lower.microsoft_attention import DOMAIN, attend_projected, mask_refusal
from rewrite.plan.lower.quantized_product import centered, needs_nine_bits, scaled_sums
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses

Array = np.ndarray[Any, np.dtype[Any]]
X, W, BIAS, X_SCALE, W_SCALE, MASK, X_ZERO, W_ZERO, PAST = range(9)
_NO_OPERAND = 99


@refuses("QAttention", domain=DOMAIN)
def quantized_attention_refusal(op: Instance) -> str | None:
    known = (W, BIAS, W_SCALE, *((W_ZERO,) if op.has(W_ZERO) else ()))
    if any(not op.is_known(i) for i in known):
        return "QAttention whose weights are not known"
    if op.integer("do_rotary", 0) or op.integer("past_present_share_buffer", 0):
        return "QAttention with rotary positions, or whose past and present share a buffer"
    if op.dtype(X_SCALE) != "f32" or any(op.dtype(i) not in ("u8", "s8") for i in (X, W)):
        return f"QAttention of {op.dtype(X)}"
    weights = op.known(W)
    assert weights is not None
    if needs_nine_bits(weights, op.known(W_ZERO)):
        return "QAttention whose weights need nine bits"
    batch, sequence, _ = op.shape(X)
    past = op.shape(PAST)[3] if op.has(PAST) else 0
    return mask_refusal(op, MASK, batch, past + sequence)


@lowers("QAttention", domain=DOMAIN)
def quantized_attention(low: Lowering, op: Instance) -> None:
    attend_projected(low, _project(low, op), MASK, PAST, _NO_OPERAND)


def _project(low: Lowering, op: Instance) -> Tensor:
    """(x - z) (W - w) s scales + bias"""
    weights, zeros, scales = op.known(W), op.known(W_ZERO), op.known(W_SCALE)
    bias = op.known(BIAS)
    assert weights is not None
    assert scales is not None
    assert bias is not None

    def form(codes: Array) -> Array:
        return centered(codes, zeros).astype(np.int8)

    matrix = low.weights.packed(weights, "centered", form)
    depth, width = matrix.shape
    scheme = scheme_of(low.machine, op.dtype(X), "s8", matrix, np.zeros(1, np.int64))
    out = low.new("f32", (*op.shape(X)[:2], width))
    sums = low.constant(matrix.sum(0, dtype=np.int32))
    factors = low.constant(np.broadcast_to(scales.reshape(-1), (width,)).astype(np.float32))
    zero = low.view(X_ZERO) if op.has(X_ZERO) else low.constant(_nothing(op.dtype(X)))
    tail = scaled_sums(out, sums, factors, scheme, low.view(X_SCALE), zero)
    tail.then("Add", tail.operand(low.constant(bias.astype(np.float32)).broadcast(out.shape)),
              dtype="f32")  # fmt: skip
    right = Right((depth, width), None, W, "centered", form)
    multiply(low, low.view(X), right, out, tail, scheme)
    return out


def _nothing(dtype: str) -> Array:
    return np.zeros(1, np.uint8 if dtype == "u8" else np.int8)
