"""Attention of ONNX.

In: instances. Out: keys and values so far in the outputs that hold them, and a call of the
attention kernel. Scores as an output are left to the operator's function body.
"""

from __future__ import annotations

from rewrite.plan.lower.attention_call import HIDES, TYPES, Scores, attend, by_heads, causal_offset
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses

Q, K, V, MASK, PAST_K, PAST_V, LENGTHS = range(7)
OUT, PRESENT_K, PRESENT_V, SCORES = range(4)


@refuses("Attention")
def attention_refusal(op: Instance) -> str | None:
    if op.wants(SCORES):
        return "Attention that gives its scores"
    if op.dtype(Q) not in TYPES or op.dtype(V) != op.dtype(Q) or op.dtype(K) != op.dtype(Q):
        return "Attention of several element types"
    if op.has(MASK):
        return _mask_refusal(op)
    return None


def _mask_refusal(op: Instance) -> str | None:
    if op.dtype(MASK) != "bool" and op.dtype(MASK) not in TYPES:
        return f"Attention with a mask of {op.dtype(MASK)}"
    rank = len(op.shape(MASK))
    if not 1 <= rank <= 4:
        return f"Attention with a mask of rank {rank}"
    return None


@lowers("Attention")
def attention(low: Lowering, op: Instance) -> None:
    q, k, v = (low.view(i) for i in (Q, K, V))
    if len(q.shape) == 3:
        q = by_heads(q, op.integer("q_num_heads", 1))
        k, v = (by_heads(t, op.integer("kv_num_heads", 1)) for t in (k, v))
    past = op.shape(PAST_K)[2] if op.has(PAST_K) else 0
    k = extended(low, k, PAST_K, PRESENT_K)
    v = extended(low, v, PAST_V, PRESENT_V)
    lengths = low.rows(LENGTHS) if op.has(LENGTHS) else None
    left, right = op.integer("left_window_size", -1), op.integer("right_window_size", -1)
    if op.integer("is_causal", 0):
        right = 0
    bounded = left >= 0 or right >= 0 or lengths is not None
    later = None if bounded else _later_keys(op, k.shape[2])
    if later is not None:
        past, right = later, 0
    scores = Scores(
        scale=op.number("scale", q.shape[3] ** -0.5),
        mask=low.view(MASK) if op.has(MASK) and later is None else None,
        lengths=lengths,
        offset=past,
        from_end=lengths is not None,
        left=left if left >= 0 else None,
        right=right if right >= 0 else None,
        softcap=op.number("softcap", 0.0),
        empty_is_zero=True,
    )
    attend(low, q, k, v, output_by_heads(low, q, v), scores)


def _later_keys(op: Instance, keys: int) -> int | None:
    """The offset of a known mask that hides later keys and does nothing else."""
    if not op.has(MASK) or op.shape(MASK)[-2:] != (op.shape(Q)[-2], keys):
        return None
    known = op.known(MASK)
    if known is None:
        return None
    if known.dtype == bool:
        return causal_offset(~known)
    hidden = known < HIDES
    return causal_offset(hidden) if not known[~hidden].any() else None


def output_by_heads(low: Lowering, q: Tensor, v: Tensor) -> Tensor:
    """Output 0 as (batch, heads, queries, value), heads side by side in memory."""
    if len(low.op.out_shape(OUT)) == 3:
        return by_heads(low.output(OUT), q.shape[1])
    return low.output(OUT, None if low.delivers(OUT) else (0, 2, 1, 3))


def extended(low: Lowering, fresh: Tensor, past: int, present: int) -> Tensor:
    """Past entries and new ones, in output `present` if somebody wants them together."""
    op = low.op
    if not op.has(past):
        if op.wants(present):
            low.copy(fresh, low.output(present))
        return fresh
    return joined(low, low.view(past), fresh, low.output(present))


def joined(low: Lowering, past: Tensor, fresh: Tensor, whole: Tensor) -> Tensor:
    """Past entries, then new ones, along the sequence of `whole`."""
    batch, heads, before, head = past.shape
    start = (0, 0, 0, 0)
    low.copy(past, whole.sliced(start, (batch, heads, before, head)))
    low.copy(fresh, whole.sliced((0, 0, before, 0), fresh.shape))
    return whole
