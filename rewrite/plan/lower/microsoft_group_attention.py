"""GroupQueryAttention of ONNX Runtime (com.microsoft), as its CPU kernel computes.

In: instances whose total length is known. Out: the past copied to where the present lies, new keys
and values behind it, turned by their positions, and a call of the attention kernel. How many keys
each batch has comes with the run.

Source: the operator text (ContribOperators.md); rewrite/ops/microsoft_attention_value.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rewrite.plan.lower.attention_call import TYPES, Scores, attend, by_heads
from rewrite.plan.lower.attention_rotary import Turn, rotate
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.rotate import BEHIND, GIVEN

DOMAIN = "com.microsoft"
Q, K, V, PAST_K, PAST_V, LENGTHS, TOTAL, COS, SIN = range(9)
_OTHERS = range(9, 17)  # operands of rare options


@refuses("GroupQueryAttention", domain=DOMAIN)
def group_query_attention_refusal(op: Instance) -> str | None:
    if any(op.has(i) for i in _OTHERS) or op.wants(3):
        return "GroupQueryAttention with positions, a bias, sinks or quantized keys"
    if op.integer("smooth_softmax", -1) > 0 or op.text("k_quant_type", "NONE") != "NONE":
        return "GroupQueryAttention with a smooth softmax or quantized keys"
    if op.integer("causal", 1) != 1 or op.integer("sliding_window_cache", 0):
        return "GroupQueryAttention that is not causal, or whose cache slides"
    if op.dtype(Q) not in TYPES or (op.has(PAST_K) and op.dtype(PAST_K) != op.dtype(Q)):
        return "GroupQueryAttention of several element types"
    if not op.is_known(TOTAL):
        return "GroupQueryAttention whose total length comes with the run"
    if op.integer("do_rotary", 0) and not (op.has(COS) and op.has(SIN)):
        return "GroupQueryAttention that turns without tables"
    return None


@lowers("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(low: Lowering, op: Instance) -> None:
    heads = op.integer("num_heads", 1)
    q, k, v = _by_heads(low, op, heads, op.integer("kv_num_heads", 1))
    totals = op.integers_at(TOTAL)
    assert totals is not None
    # Without a past, each batch begins at position 0, whatever its length.
    fresh = q.shape[2] == totals[0]
    lengths = None if fresh else low.rows(LENGTHS)
    turn = _turn(low, op, lengths)
    out_k, out_v = low.output(1), low.output(2)
    for past, whole in ((PAST_K, out_k), (PAST_V, out_v)):
        _keep(low, op, past, whole, lengths)
    append = replace(turn, append=True, positions=BEHIND if lengths else GIVEN)
    _put(low, k, out_k, append)
    _put(low, v, out_v, replace(append, cos=None, sin=None))
    if turn.cos is not None:
        turned = low.new(q.dtype, q.shape)
        _put(low, q, turned, turn)
        q = turned
    window = op.integer("local_window_size", -1)
    scores = Scores(
        scale=op.float32("scale", 0.0) or float(q.shape[3]) ** -0.5,
        lengths=lengths,
        extra=1,
        from_end=lengths is not None,
        left=window - 1 if window > 0 else None,
        right=0,
        softcap=op.float32("softcap", 0.0),
    )
    keys, values = (
        t.sliced((0, 0, 0, 0), (*t.shape[:2], totals[0], t.shape[3])) for t in (out_k, out_v)
    )
    attend(low, q, keys, values, by_heads(low.output(0), heads), scores)


def _by_heads(low: Lowering, op: Instance, heads: int, shared: int) -> tuple[Tensor, ...]:
    """Queries, keys and values, which may lie side by side in the first operand."""
    if op.has(K) and op.has(V):
        counts = (heads, shared, shared)
        return tuple(by_heads(low.view(i), n) for i, n in zip((Q, K, V), counts, strict=True))
    whole = low.view(Q)
    batch, sequence, hidden = whole.shape
    head = hidden // (heads + 2 * shared)
    found, start = [], 0
    for count in (heads, shared, shared):
        part = whole.sliced((0, 0, start), (batch, sequence, count * head))
        found.append(by_heads(part, count))
        start += count * head
    return tuple(found)


def _turn(low: Lowering, op: Instance, lengths: Tensor | None) -> Turn:
    """How queries and keys are turned, and where they stand."""
    tables = op.integer("do_rotary", 0) != 0
    return Turn(
        low.rows(COS) if tables else None,
        low.rows(SIN) if tables else None,
        GIVEN if lengths is None else BEHIND,
        lengths,
        extra=1,
        interleaved=op.integer("rotary_interleaved", 0) != 0,
    )


def _put(low: Lowering, x: Tensor, out: Tensor, turn: Turn) -> None:
    """Rows where they belong. Without lengths, row i of each batch stands at position i."""
    if turn.positions != GIVEN:
        rotate(low, x, out, turn)
        return
    batch, heads, rows, head = x.shape
    for b in range(batch):
        one = x.sliced((b, 0, 0, 0), (1, heads, rows, head))
        target = out.sliced((b, 0, 0, 0), (1, *out.shape[1:]))
        rotate(low, one, target, turn)


def _keep(low: Lowering, op: Instance, past: int, whole: Tensor, lengths: Tensor | None) -> None:
    """Old entries of the past, and zeros behind them."""
    room = op.shape(past)[2] if op.has(past) and lengths is not None else 0
    batch, heads, length, head = whole.shape
    if length > room:
        low.fill(whole.sliced((0, 0, room, 0), (batch, heads, length - room, head)), 0)
    if not room or lengths is None:
        return
    shape = (batch, heads, room, head)
    by_batch = lengths.reshaped((batch, 1, 1, 1))
    places = low.constant(np.arange(room, dtype=np.int32)).reshaped((1, 1, room, 1))
    assert by_batch is not None
    assert places is not None
    dtype, fresh = whole.dtype, op.shape(Q)[1]
    # Of lengths + 1 entries, the last `fresh` ones are new.
    steps = (
        Step("", "Add", (1, Constant("s32", 1 - fresh)), "s32"),
        Step("", "Less", (0, 3), "bool"),
        Step("", "Where", (4, 2, Constant(dtype, 0.0)), dtype),
    )
    operands = [places, by_batch, low.view(past)]
    low.pointwise(
        Body(("s32", "s32", dtype), steps, (5,)),
        [t.broadcast(shape) for t in operands],
        [whole.sliced((0, 0, 0, 0), shape)],
    )
