"""Values of ONNX Runtime's own attention operators (com.microsoft), as its CPU provider computes.

In: `Evaluation`. Out: arrays, None where a form is asked for that no CPU kernel takes. Sums are in
float64 and rounded once.

Source: the operator texts (ContribOperators.md). What a mask adds to a score: `mask_filter_value`
(-10000) where the mask is 0, the same again where a later position is hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.ops.call import Array, Arrays, Evaluation
from rewrite.ops.elementwise import ACTIVATION
from rewrite.ops.microsoft import DOMAIN
from rewrite.ops.normalization import NORMALIZATION, standardize
from rewrite.ops.registry import value
from rewrite.ops.scalar import widen

# --- the common part ---------------------------------------------------------------------------


def attend(q: Array, k: Array, v: Array, scale: float, bias: Array, cap: float = 0.0) -> Array:
    """softmax(scale Q K^T + bias) V on (batch, heads, sequence, head)."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
    if cap > 0:
        scores = np.tanh(scores / cap) * cap
    scores = scores + bias
    with np.errstate(all="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return np.asarray(np.matmul(weights, v))


def split_heads(x: Array, heads: int) -> Array:
    """(batch, sequence, hidden) as (batch, heads, sequence, head)."""
    batch, sequence, hidden = x.shape
    return x.reshape(batch, sequence, heads, hidden // heads).transpose(0, 2, 1, 3)


def merge_heads(x: Array) -> Array:
    batch, heads, sequence, head = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, sequence, heads * head)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sequences: of the queries, and of all keys; keys before the first query."""

    batch: int
    queries: int
    keys: int
    past: int


def additive(mask: Array | None, sizes: Sizes, filtered: float, causal: bool) -> Array | None:
    """What is added to scores, (batch, 1, queries, keys); None for a form that is not taken."""
    found = np.zeros((sizes.batch, 1, sizes.queries, sizes.keys))
    if mask is not None:
        hidden = _hidden(mask, sizes)
        if hidden is None:
            return None
        found = found + np.where(hidden, filtered, 0.0)
    if causal:
        later = np.arange(sizes.keys) > sizes.past + np.arange(sizes.queries)[:, None]
        found = np.where(later, np.float64(np.finfo(np.float32).min), found)
    return found


def _hidden(mask: Array, sizes: Sizes) -> Array | None:
    """Which keys a mask hides, broadcast to (batch, 1, queries, keys)."""
    if mask.ndim == 1 and len(mask) in (sizes.batch, 2 * sizes.batch):
        places = np.arange(sizes.keys)
        hidden = places >= mask[: sizes.batch, None]
        if len(mask) == 2 * sizes.batch:
            hidden = hidden | (places < mask[sizes.batch :, None])
        return np.asarray(hidden[:, None, None])
    if mask.ndim == 2 and mask.shape[1] == 1 < sizes.keys:
        return np.zeros((1, 1, 1, 1), np.bool_)  # a mask of one column says: none
    if mask.ndim == 2 and mask.shape == (sizes.batch, sizes.keys):
        return np.asarray(mask[:, None, None] <= 0)
    if mask.ndim == 3:
        return np.asarray(mask[:, None] <= 0)
    return None


def _scale(e: Evaluation, head: int) -> float:
    return e.float32("scale", 0.0) or float(1 / np.sqrt(np.float64(head)))


# --- Attention ---------------------------------------------------------------------------------


@value("Attention", domain=DOMAIN, error=ACTIVATION)
def attention_value(e: Evaluation) -> Arrays | None:
    x, weights, bias = widen(e.array(0), False), widen(e.array(1), False), e.optional(2)
    projected = np.matmul(x, weights)
    if bias is not None:
        projected = projected + widen(bias, False)
    return _attended(e, projected, e.optional(3), e.optional(4), e.optional(5))


def _attended(
    e: Evaluation, projected: Array, mask: Array | None, past: Array | None, extra: Array | None
) -> Arrays | None:
    """Outputs of Attention from queries, keys and values side by side."""
    heads, total = e.integer("num_heads", 1), projected.shape[2]
    if e.integer("do_rotary", 0) or e.integer("past_present_share_buffer", 0):
        return None
    q_size, k_size, _ = e.integers("qkv_hidden_sizes") or (total // 3,) * 3
    q, k, v = (
        split_heads(part, heads) for part in np.split(projected, [q_size, q_size + k_size], axis=2)
    )
    before = 0
    if past is not None:
        before = past.shape[3]
        k = np.concatenate([widen(past[0], False), k], axis=2)
        v = np.concatenate([widen(past[1], False), v], axis=2)
    sizes = Sizes(len(q), q.shape[2], k.shape[2], before)
    filtered = e.float32("mask_filter_value", -10000.0)
    bias = additive(mask, sizes, filtered, e.integer("unidirectional", 0) != 0)
    if bias is None:
        return None
    if extra is not None:
        bias = bias + widen(extra, False)
    dtype = e.array(0).dtype if e.array(0).dtype.kind == "f" else np.dtype(np.float32)
    y = merge_heads(attend(q, k, v, _scale(e, q.shape[3]), bias)).astype(dtype)
    if e.n_outputs == 1:
        return (y,)
    return (y, np.stack([k, v]).astype(dtype)) if k.shape == v.shape else None


@value("QAttention", domain=DOMAIN, error=ACTIVATION)
def quantized_attention_value(e: Evaluation) -> Arrays | None:
    x, weights, bias = e.array(0), e.array(1), e.array(2)
    left = x.astype(np.int64) - _zero(e.optional(6))
    right = weights.astype(np.int64) - _zero(e.optional(7))
    scales = e.array(3).astype(np.float64) * e.array(4).astype(np.float64)
    projected = np.matmul(left, right) * scales + bias.astype(np.float64)
    return _attended(e, projected, e.optional(5), e.optional(8), None)


def _zero(zero_point: Array | None) -> Array:
    return np.zeros((), np.int64) if zero_point is None else zero_point.astype(np.int64)


# --- MultiHeadAttention ------------------------------------------------------------------------


@value("MultiHeadAttention", domain=DOMAIN, error=ACTIVATION)
def multi_head_attention_value(e: Evaluation) -> Arrays | None:
    q, k, v = e.array(0), e.optional(1), e.optional(2)
    heads = e.integer("num_heads", 1)
    masked = e.optional(4) is not None or e.optional(5) is not None
    if q.ndim != 3 or k is None or v is None or (e.n_outputs > 3 and masked):
        return None
    parts = [widen(x, False) for x in (q, k, v)]
    parts = _biased(parts, e.optional(3))
    q4, k4, v4 = (split_heads(x, heads) if x.ndim == 3 else x for x in parts)
    present, seen, before = _so_far(e, k4, v4)
    sizes = Sizes(len(q4), q4.shape[2], seen[0].shape[2], before)
    filtered = e.float32("mask_filter_value", -10000.0)
    bias = additive(e.optional(4), sizes, filtered, e.integer("unidirectional", 0) != 0)
    if bias is None:
        return None
    extra = e.optional(5)
    if extra is not None:
        bias = bias + widen(extra, False)
    scale = _scale(e, q4.shape[3])
    y = merge_heads(attend(q4, *seen, scale, bias))
    scores = np.matmul(q4, np.swapaxes(seen[0], -1, -2)) * scale
    return tuple(a.astype(q.dtype) for a in (y, *present, scores)[: e.n_outputs])


def _so_far(
    e: Evaluation, k: Array, v: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array], int]:
    """Keys and values that are kept, those that are looked at, and how many are of the past."""
    past = [e.optional(i) for i in (6, 7)]
    if past[0] is None or past[1] is None:
        return (k, v), (k, v), 0
    wide = [widen(x, False) for x in past if x is not None]
    length = e.optional(8)
    if length is None:
        k, v = (np.concatenate([x, y], axis=2) for x, y in zip(wide, (k, v), strict=True))
        return (k, v), (k, v), wide[0].shape[2]
    # Past and present share a buffer: new entries stand behind `before` old ones.
    before, count = int(length.reshape(-1)[0]), k.shape[2]
    kept = []
    for x, y in zip(wide, (k, v), strict=True):
        whole = x.copy()
        whole[:, :, before : before + count] = y
        kept.append(whole)
    seen = [_by_beams(x, e.optional(9), before)[:, :, : before + count] for x in kept]
    return (kept[0], kept[1]), (seen[0], seen[1]), before


def _by_beams(x: Array, places: Array | None, before: int) -> Array:
    """Old entries of the beam that `places` (batch, beam, position) says."""
    if places is None:
        return x
    beams = places.shape[1]
    rows = np.arange(len(x))
    found = x.copy()
    for t in range(before):
        of = rows // beams * beams + places[rows // beams, rows % beams, t]
        found[:, :, t] = x[of, :, t]
    return found


def _biased(parts: list[Array], bias: Array | None) -> list[Array]:
    """Each of queries, keys and values plus its part of the bias (keys by heads have none)."""
    if bias is None:
        return parts
    wide, at = widen(bias, False), 0
    found = []
    for x in parts:
        hidden = x.shape[2] if x.ndim == 3 else x.shape[1] * x.shape[3]
        part = wide[at : at + hidden]
        at += hidden
        found.append(x + part if x.ndim == 3 else x)
    return found


# --- GroupQueryAttention -----------------------------------------------------------------------


@value("GroupQueryAttention", domain=DOMAIN, error=ACTIVATION)
def group_query_attention_value(e: Evaluation) -> Arrays | None:
    if any(e.optional(i) is not None for i in range(9, 14)) or e.n_outputs > 3:
        return None
    if e.integer("smooth_softmax", 0) > 0 or e.integer("k_quant_type", 0):
        return None
    q, k, v = _grouped(e)
    lengths, total = e.array(5).reshape(-1) + 1, int(e.array(6).reshape(-1)[0])
    sequence = q.shape[2]
    past_k, past_v = e.optional(3), e.optional(4)
    room = 0 if past_k is None else past_k.shape[2]
    shape = (*k.shape[:2], max(room, total), k.shape[3])
    keys, values, y = np.zeros(shape), np.zeros(shape), np.zeros(q.shape)
    for b, length in enumerate(int(n) for n in lengths):
        before = 0 if sequence == total else length - sequence
        places = before + np.arange(sequence)
        rotated = [_rotated(e, x[b : b + 1], places[None]) for x in (q, k)]
        if past_k is not None and past_v is not None:
            keys[b, :, :before] = past_k[b, :, :before]
            values[b, :, :before] = past_v[b, :, :before]
        keys[b, :, before : before + sequence] = rotated[1][0]
        values[b, :, before : before + sequence] = v[b]
        end = before + sequence
        y[b] = _grouped_attend(e, rotated[0], keys[b, :, :end], values[b, :, :end], places)
    dtype = e.array(0).dtype
    return tuple(a.astype(dtype) for a in (merge_heads(y), keys, values)[: e.n_outputs])


def _grouped(e: Evaluation) -> tuple[Array, Array, Array]:
    """Queries, keys and values by heads; they may lie side by side in the first operand."""
    heads, shared = e.integer("num_heads", 1), e.integer("kv_num_heads", 1)
    q, k, v = widen(e.array(0), False), e.optional(1), e.optional(2)
    if k is None or v is None:
        head = q.shape[2] // (heads + 2 * shared)
        q, k, v = np.split(q, [heads * head, (heads + shared) * head], axis=2)
    return (
        split_heads(q, heads),
        split_heads(widen(k, False), shared),
        split_heads(widen(v, False), shared),
    )


def _grouped_attend(e: Evaluation, q: Array, k: Array, v: Array, places: Array) -> Array:
    group = q.shape[1] // k.shape[0]
    seen = np.arange(k.shape[1])
    hidden = seen > places[:, None]
    window = e.integer("local_window_size", -1)
    if window > 0:
        hidden = hidden | (seen <= places[:, None] - window)
    bias = np.where(hidden, -np.inf, 0.0)[None, None]
    k, v = np.repeat(k, group, axis=0)[None], np.repeat(v, group, axis=0)[None]
    y = attend(q, k, v, _scale(e, q.shape[3]), bias, e.float32("softcap", 0.0))
    return np.asarray(y[0])


# --- RotaryEmbedding ---------------------------------------------------------------------------


def _rotated(e: Evaluation, x: Array, places: Array) -> Array:
    """Queries or keys of GroupQueryAttention turned by their positions, if it is asked for."""
    if not e.integer("do_rotary", 0):
        return x
    cos, sin = widen(e.array(7), False)[places], widen(e.array(8), False)[places]
    return rotate(x, cos, sin, e.integer("rotary_interleaved", 0) != 0)


def rotate(x: Array, cos: Array, sin: Array, interleaved: bool) -> Array:
    """Pairs (a, b) become (a cos - b sin, a sin + b cos); what lies behind the pairs stays.

    x: (batch, heads, sequence, head); cos and sin: (batch, sequence, pairs).
    """
    pairs = cos.shape[-1]
    cos, sin = cos[:, None], sin[:, None]
    turned, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
        both = np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(turned.shape)
    else:
        a, b = turned[..., :pairs], turned[..., pairs:]
        both = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    return np.concatenate([both, rest], axis=-1)


@value("RotaryEmbedding", domain=DOMAIN, error=ACTIVATION)
def rotary_embedding_value(e: Evaluation) -> Arrays | None:
    x, places, cos = e.array(0), e.array(1), widen(e.array(2), False)
    sin = widen(e.array(3), False)
    if e.integer("is_packed_batching", 0):
        return None
    wide = widen(x, False)
    if x.ndim == 3:
        partial = e.integer("rotary_embedding_dim", 0)
        heads = e.integer("num_heads", 0)
        if partial and not heads:
            return None
        wide = split_heads(wide, heads or x.shape[2] // (2 * cos.shape[1]))
    batch, _, sequence, _ = wide.shape
    if places.size == 1:
        places = places.reshape(()) + np.broadcast_to(np.arange(sequence), (batch, sequence))
    scale = e.float32("scale", 1.0)
    if scale != 1.0:
        return None
    y = rotate(wide, cos[places], sin[places], e.integer("interleaved", 0) != 0)
    y = merge_heads(y) if x.ndim == 3 else y
    return (y.astype(x.dtype),)


# --- EmbedLayerNormalization -------------------------------------------------------------------


@value("EmbedLayerNormalization", domain=DOMAIN, error=NORMALIZATION)
def embed_layer_normalization_value(e: Evaluation) -> Arrays | None:
    ids, segments, mask = e.array(0), e.optional(1), e.optional(7)
    words, places, kinds = e.array(2), e.array(3), e.optional(4)
    given = e.optional(8)
    positions = np.arange(ids.shape[1])[None] if given is None else given
    if any(np.any((x < 0) | (x >= len(t))) for x, t in ((ids, words), (positions, places))):
        return None
    total = widen(words, False)[ids] + widen(places, False)[positions]
    if segments is not None and kinds is not None:
        total = total + widen(kinds, False)[segments]
    epsilon = e.float32("epsilon", 1e-12)
    gamma, beta = widen(e.array(5), False), widen(e.array(6), False)
    y = standardize(total, (2,), epsilon) * gamma + beta
    lengths = np.zeros(len(ids), np.int32) if mask is None else _lengths(mask)
    outputs = (y.astype(words.dtype), lengths, total.astype(words.dtype))
    return outputs[: e.n_outputs]


def _lengths(mask: Array) -> Array:
    """How many of the mask are 1, which are taken to stand in front."""
    return np.asarray(mask.sum(axis=1), np.int32)
