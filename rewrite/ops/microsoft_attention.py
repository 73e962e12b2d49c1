"""ONNX Runtime's own attention operators (com.microsoft).

In: `Call`. Out: types. Lengths that depend on whether past and present share a buffer are left
open where the operands do not tell.
"""

from __future__ import annotations

from rewrite.ops import dims
from rewrite.ops.call import Call, Types
from rewrite.ops.microsoft import DOMAIN
from rewrite.ops.registry import op
from rewrite.schema import Dim, Shape, Type


@op("Attention", domain=DOMAIN, kind="attention")
def attention(call: Call) -> Types:
    """Projections to queries, keys and values, attention, and keys and values so far"""
    return _projected(call, call.dtype_of(0, 1, 2), past=4, shared=call.has(6))


@op("QAttention", domain=DOMAIN, kind="attention")
def quantized_attention(call: Call) -> Types:
    """Attention with quantized input and weights"""
    return _projected(call, call.dtype_of(2, 3, 4), past=8, shared=False)


def _projected(call: Call, dtype: str | None, past: int, shared: bool) -> Types:
    x = call.shape_of_rank(0, 3, "the operand of Attention")
    weights = call.shape_of_rank(1, 2, "the weights of Attention")
    batch, sequence = call.unknown(2) if x is None else x[:2]
    sizes = call.integers("qkv_hidden_sizes")
    hidden: Dim = call.fresh()
    if sizes:
        hidden = sizes[2]
    elif weights is not None:
        hidden = dims.quotient([weights[1]], [3])
    before = call.shape(past) if call.has(past) else None
    length: Dim = call.fresh()
    if before is not None and not shared and not call.integer("past_present_share_buffer", 0):
        length = dims.add(before[3], sequence)
    elif not call.has(past):
        length = sequence
    heads = call.integer("num_heads", 1)
    head: Dim = call.fresh() if sizes else dims.quotient([hidden], [heads])
    present = Type(dtype, (2, batch, heads, length, head))
    return (Type(dtype, (batch, sequence, hidden)), present)


@op("MultiHeadAttention", domain=DOMAIN, kind="attention")
def multi_head_attention(call: Call) -> Types:
    """Attention of queries, keys and values that are projected already"""
    dtype = call.dtype_of(0, 1, 2)
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    heads = call.integer("num_heads", 1)
    nothing = Type(dtype, None)
    if query is None or (call.has(1) and key is None) or (call.has(2) and value is None):
        return (nothing,) * 4
    hidden = _value_size(call, query, key, value)
    out = Type(dtype, (query[0], query[1], hidden))
    length = _key_length(query, key)
    if call.has(8) and call.has(6):  # past and present share a buffer
        return (out, call.type(6), call.type(7), nothing)
    total = length
    if call.has(6):
        past = call.shape(6)
        total = call.fresh() if past is None else dims.add(past[2], length)
    presents = [
        Type(dtype, (query[0], heads, total, _head_size(call, query if x is None else x, heads)))
        for x in (key, value)
    ]
    scores = Type(dtype, (query[0], heads, query[1], total))
    return (out, *presents, scores)


def _head_size(call: Call, shape: Shape, heads: int) -> Dim:
    """Elements of a key or value: (batch, sequence, heads * head), or a dimension of its own."""
    if len(shape) == 3:
        return dims.quotient([shape[2]], [heads])
    return shape[-1] if len(shape) > 3 else call.fresh()


def _value_size(call: Call, query: Shape, key: Shape | None, value: Shape | None) -> Dim:
    """The last size of the output: heads times the size of a value."""
    if len(query) == 5:
        return dims.mul(query[2], query[4])
    if value is not None:
        return value[2] if len(value) == 3 else dims.mul(value[1], value[3])
    if key is not None and len(key) == 5:
        return dims.mul(key[2], key[4])
    return call.fresh()


def _key_length(query: Shape, key: Shape | None) -> Dim:
    if key is None:
        return query[1]
    return key[2] if len(key) == 4 else key[1]


@op("GroupQueryAttention", domain=DOMAIN, kind="attention")
def group_query_attention(call: Call) -> Types:
    """Attention in which several query heads share a key and value head"""
    dtype = call.dtype_of(0, 1, 2)
    query = call.shape_of_rank(0, 3, "the query")
    heads, kv_heads = call.integer("num_heads", 1), call.integer("kv_num_heads", 1)
    batch, sequence, hidden = call.unknown(3) if query is None else query
    cache = call.dtype_of(3, 4) or dtype
    if call.has(1):
        head = dims.quotient([hidden], [heads])
    else:  # queries, keys and values packed along the last dimension
        head = dims.quotient([hidden], [heads + 2 * kv_heads])
        hidden = dims.mul(head, heads)
    present = Type(cache, (batch, kv_heads, _kept(call), head))
    return (Type(dtype, (batch, sequence, hidden)), present, present, Type(dtype, None))


def _kept(call: Call) -> Dim:
    """How many keys GroupQueryAttention gives: all of them, or as many as the past has room for."""
    total = call.integers_of(6)
    room = call.shape(3) if call.has(3) else (0, 0, 0, 0)
    if total is None or room is None or isinstance(room[2], str):
        return call.fresh()
    return max(total[0], room[2])


@op("RotaryEmbedding", domain=DOMAIN, kind="attention", shape_class="first")
def rotary_embedding(call: Call) -> Types:
    """Pairs of elements rotated by an angle that grows with the position"""
    return (call.type(0),)


@op("MoE", "QMoE", domain=DOMAIN, kind="attention", shape_class="first")
def mixture_of_experts(call: Call) -> Types:
    """Each token through some of several feed-forward layers"""
    return (call.type(0),)
