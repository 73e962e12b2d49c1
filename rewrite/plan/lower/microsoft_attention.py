"""Attention and MultiHeadAttention of ONNX Runtime (com.microsoft), as its CPU kernels compute.

In: instances. Out: the projection as a matrix product, keys and values so far, masks as numbers
that are added to scores, and a call of the attention kernel.

Source: the operator texts (ContribOperators.md); rewrite/ops/microsoft_attention_value.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rewrite.plan.lower.attention import joined
from rewrite.plan.lower.attention_call import Scores, attend, by_heads
from rewrite.plan.lower.matmul_product import Right, multiply, plain
from rewrite.plan.lower.matmul_tail import Tail
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.spec import Body, Constant, Step

DOMAIN = "com.microsoft"
Array = np.ndarray[Any, np.dtype[Any]]

_TYPES = frozenset({"f16", "f32", "bf16"})
_OPSET = 22


# --- masks -------------------------------------------------------------------------------------


def mask_refusal(op: Instance, index: int, batch: int, keys: int) -> str | None:
    """Whether a mask of integers has one of the forms that CPU kernels take."""
    if not op.has(index):
        return None
    shape = op.shape(index)
    if len(shape) == 1 and shape[0] in (batch, 2 * batch):
        return None
    if (len(shape) == 2 and shape == (batch, keys)) or len(shape) == 3:
        return None
    return f"{op.name} with a mask of shape {list(shape)}"


def additive_mask(
    low: Lowering, index: int, batch: int, keys: int, filtered: float
) -> Tensor | None:
    """What a mask of integers adds to scores: (batch, 1, 1 or queries, keys) in float32."""
    if not low.op.has(index):
        return None
    mask = low.rows(index)
    if len(mask.shape) == 1:
        return _by_place(low, mask, batch, keys, filtered)
    made = low.new("f32", mask.shape)
    dtype = mask.dtype
    steps = (
        Step("", "LessOrEqual", (0, Constant(dtype, 0)), "bool"),
        Step("", "Where", (1, Constant("f32", filtered), Constant("f32", 0.0)), "f32"),
    )
    low.pointwise(Body((dtype,), steps, (2,)), [mask], [made])
    shape = (*mask.shape[:1], 1, *(mask.shape[1:] if len(mask.shape) == 3 else (1, keys)))
    return _reshaped(made, shape)


def _by_place(low: Lowering, mask: Tensor, batch: int, keys: int, filtered: float) -> Tensor:
    """Keys of each batch from a start, which may be given behind all ends, to an end."""
    dtype = mask.dtype
    made = low.new("f32", (batch, keys))
    numpy = np.int32 if dtype == "s32" else np.int64
    places = low.constant(np.arange(keys, dtype=numpy)).broadcast((batch, keys))
    ends = _column(mask, 0, batch, keys)
    steps = [Step("", "GreaterOrEqual", (0, 1), "bool")]
    operands = [places, ends]
    if mask.shape[0] == 2 * batch:
        operands.append(_column(mask, batch, batch, keys))
        steps = [
            Step("", "GreaterOrEqual", (0, 1), "bool"),
            Step("", "Less", (0, 2), "bool"),
            Step("", "Or", (3, 4), "bool"),
        ]
    count = len(operands)
    steps.append(
        Step(
            "", "Where",
            (count + len(steps) - 1, Constant("f32", filtered), Constant("f32", 0.0)), "f32",
        )
    )  # fmt: skip
    body = Body((dtype,) * count, tuple(steps), (count + len(steps) - 1,))
    low.pointwise(body, operands, [made])
    return _reshaped(made, (batch, 1, 1, keys))


def _column(mask: Tensor, start: int, batch: int, keys: int) -> Tensor:
    part = _reshaped(mask.sliced((start,), (batch,)), (batch, 1))
    return part.broadcast((batch, keys))


def with_bias(low: Lowering, mask: Tensor | None, index: int) -> Tensor | None:
    """The mask plus operand `index`, which is added to scores."""
    if not low.op.has(index):
        return mask
    bias = low.view(index)
    if mask is None:
        return bias
    shape = tuple(int(n) for n in np.broadcast_shapes(mask.shape, bias.shape))
    total = low.new("f32", shape)
    steps = [Step("", "Cast", (1,), "f32", (("saturate", 1),), _OPSET)]
    if bias.dtype == "f32":
        steps = []
    steps.append(Step("", "Add", (0, 1 + len(steps)), "f32"))
    body = Body(("f32", bias.dtype), tuple(steps), (1 + len(steps),))
    low.pointwise(body, [mask.broadcast(shape), bias.broadcast(shape)], [total])
    return total


def _reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    found = tensor.reshaped(shape)
    assert found is not None, f"{tensor.shape} is not {shape} without copying"
    return found


def _scores(op: Instance, head: int, mask: Tensor | None, past: int) -> Scores:
    return Scores(
        scale=op.float32("scale", 0.0) or float(head) ** -0.5,
        mask=mask,
        offset=past,
        right=0 if op.integer("unidirectional", 0) else None,
    )


# --- Attention ---------------------------------------------------------------------------------


def hidden_sizes(op: Instance, total: int) -> tuple[int, ...]:
    """The widths of queries, keys and values side by side."""
    return op.integers("qkv_hidden_sizes") or (total // 3,) * 3


@refuses("Attention", domain=DOMAIN)
def attention_refusal(op: Instance) -> str | None:
    if op.dtype(0) not in _TYPES or op.integer("do_rotary", 0):
        return "Attention with rotary positions, or of this element type"
    if op.integer("past_present_share_buffer", 0) or op.has(6):
        return "Attention whose past and present share a buffer"
    q_size, k_size, v_size = hidden_sizes(op, op.shape(1)[1])
    if q_size != k_size or ((op.has(4) or op.wants(1)) and k_size != v_size):
        return "Attention with keys and values of different sizes in one tensor"
    batch, sequence, _ = op.shape(0)
    past = op.shape(4)[3] if op.has(4) else 0
    return mask_refusal(op, 3, batch, past + sequence)


@lowers("Attention", domain=DOMAIN)
def attention(low: Lowering, op: Instance) -> None:
    batch, sequence, _ = op.shape(0)
    projected = _project(low, op, (batch, sequence, op.shape(1)[1]))
    attend_projected(low, projected, mask=3, past=4, bias=5)


def attend_projected(low: Lowering, projected: Tensor, mask: int, past: int, bias: int) -> None:
    """Attention of queries, keys and values side by side; which operands are the others."""
    op = low.op
    heads = op.integer("num_heads", 1)
    batch, sequence, total = projected.shape
    parts, start = [], 0
    for size in hidden_sizes(op, total):
        part = projected.sliced((0, 0, start), (batch, sequence, size))
        parts.append(by_heads(part, heads))
        start += size
    before = op.shape(past)[3] if op.has(past) else 0
    q, k, v = parts[0], *_present(low, op, past, parts[1], parts[2])
    filtered = op.float32("mask_filter_value", -10000.0)
    added = additive_mask(low, mask, batch, before + sequence, filtered)
    added = with_bias(low, added, bias)
    attend(low, q, k, v, by_heads(low.output(), heads), _scores(op, q.shape[3], added, before))


def _project(low: Lowering, op: Instance, shape: tuple[int, ...]) -> Tensor:
    """x W + bias"""
    out = low.new(op.dtype(0), shape)
    scheme = plain(op.dtype(1))
    known = op.known(2) if op.has(2) else None
    bias = None if known is None else known.reshape(-1).astype(np.float32)
    right = (
        Right(op.shape(1), None, 1, "projection", lambda w: w) if low.is_known(1)
        else Right(op.shape(1), low.view(1))
    )  # fmt: skip
    tail = Tail(scheme.total, op.dtype(0), inner=True)
    multiply(low, low.view(0), right, out, tail, scheme, bias)
    if not op.has(2) or known is not None:
        return out
    return _sum(low, out, low.view(2).broadcast(shape))


def _sum(low: Lowering, x: Tensor, y: Tensor) -> Tensor:
    total = low.new(x.dtype, x.shape)
    body = Body((x.dtype, y.dtype), (Step("", "Add", (0, 1), x.dtype),), (2,))
    low.pointwise(body, [x, y], [total])
    return total


def _present(low: Lowering, op: Instance, past: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values with those of the past, in output 1 (2, batch, heads, sequence, head)."""
    if not op.has(past) and not op.wants(1):
        return k, v
    whole = low.output(1)
    halves = [_half(whole, i) for i in range(2)]
    if not op.has(past):
        for fresh, half in zip((k, v), halves, strict=True):
            low.copy(fresh, half)
        return k, v
    before = low.view(past)
    found = [
        joined(low, _half(before, i), fresh, half)
        for i, (fresh, half) in enumerate(zip((k, v), halves, strict=True))
    ]
    return found[0], found[1]


def _half(tensor: Tensor, index: int) -> Tensor:
    _, *shape = tensor.shape
    part = tensor.sliced((index, 0, 0, 0, 0), (1, *shape))
    return _reshaped(part, tuple(shape))


# --- MultiHeadAttention ------------------------------------------------------------------------

QUERY, KEY, VALUE, BIAS, PADDING, EXTRA, PAST_K, PAST_V, PAST_LENGTH = range(9)
SCORES = 3  # the output


@refuses("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention_refusal(op: Instance) -> str | None:
    if op.dtype(QUERY) not in _TYPES or len(op.shape(QUERY)) != 3:
        return "MultiHeadAttention of packed operands, or of this element type"
    if not (op.has(KEY) and op.has(VALUE)):
        return "MultiHeadAttention without keys and values"
    if op.wants(SCORES) and (op.has(PADDING) or op.has(EXTRA)):
        return "MultiHeadAttention that gives its scores and has a mask"
    if op.has(PAST_LENGTH) and op.has(PAST_K):
        return "MultiHeadAttention whose past and present share a buffer"
    if any(len(op.shape(i)) not in (3, 4) for i in (KEY, VALUE)):
        return "MultiHeadAttention of packed keys and values"
    return mask_refusal(op, PADDING, op.shape(QUERY)[0], _keys(op))


def _keys(op: Instance) -> int:
    fresh = op.shape(KEY)[2 if len(op.shape(KEY)) == 4 else 1]
    return fresh + (op.shape(PAST_K)[2] if op.has(PAST_K) else 0)


@lowers("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(low: Lowering, op: Instance) -> None:
    heads = op.integer("num_heads", 1)
    q, k, v = (_operand(low, op, i, heads) for i in (QUERY, KEY, VALUE))
    past = op.shape(PAST_K)[2] if op.has(PAST_K) else 0
    k = _so_far(low, op, k, PAST_K, 1)
    v = _so_far(low, op, v, PAST_V, 2)
    filtered = op.float32("mask_filter_value", -10000.0)
    mask = additive_mask(low, PADDING, q.shape[0], k.shape[2], filtered)
    mask = with_bias(low, mask, EXTRA)
    scores = _scores(op, q.shape[3], mask, past)
    attend(low, q, k, v, by_heads(low.output(), heads), scores)
    if op.wants(SCORES):
        _give_scores(low, q, k, scores.scale)


def _give_scores(low: Lowering, q: Tensor, k: Tensor, scale: float) -> None:
    """Output 3: scale Q K^T."""
    scheme = plain(q.dtype)
    tail = Tail(scheme.total, q.dtype, inner=True)
    tail.then("Mul", Constant(scheme.total, scale))
    turned = k.permuted((0, 1, 3, 2))
    multiply(low, q, Right(turned.shape, turned), low.output(SCORES), tail, scheme)


def _operand(low: Lowering, op: Instance, index: int, heads: int) -> Tensor:
    """An operand by heads, plus its part of the bias."""
    tensor = low.view(index)
    if len(tensor.shape) == 4:  # by heads already: keys and values of an encoder, without bias
        return tensor
    if op.has(BIAS):
        start = sum(_width(op, i) for i in range(QUERY, index))
        bias = low.view(BIAS).sliced((start,), (tensor.shape[2],)).broadcast(tensor.shape)
        tensor = _sum(low, tensor, bias)
    return by_heads(tensor, heads)


def _width(op: Instance, index: int) -> int:
    shape = op.shape(index)
    return shape[2] if len(shape) == 3 else shape[1] * shape[3]


def _so_far(low: Lowering, op: Instance, fresh: Tensor, past: int, present: int) -> Tensor:
    if op.has(past):
        return joined(low, low.view(past), fresh, low.output(present))
    if op.wants(present):
        low.copy(fresh, low.output(present))
    return fresh
