"""Attention of ai.onnx: Attention, RotaryEmbedding, LinearAttention.

In: `Call`. Out: types. Tensors are (batch, heads, sequence, head) or (batch, sequence, heads *
head).
"""

from __future__ import annotations

from rewrite.ops import dims
from rewrite.ops.call import Call, Types
from rewrite.ops.registry import op
from rewrite.schema import Dim, Shape, Type


@op("Attention", kind="attention")
def attention(call: Call) -> Types:
    """softmax(scale Q K^T + mask) V, and the keys and values so far"""
    q, k, v = call.type(0), call.type(1), call.type(2)
    present_k, present_v = Type(k.dtype or q.dtype, None), Type(v.dtype, None)
    scores = Type(q.dtype, None)
    if q.shape is None or k.shape is None or v.shape is None:
        return (Type(q.dtype, None), present_k, present_v, scores)
    q_heads, kv_heads = call.integer("q_num_heads", 0), call.integer("kv_num_heads", 0)
    four_k = _four(call, k.shape, kv_heads)
    four_v = _four(call, v.shape, kv_heads)
    four_q = _four(call, q.shape, q_heads)
    if four_q is None or four_k is None or four_v is None:
        return (Type(q.dtype, None), present_k, present_v, scores)
    total_k, total_v = _extended(call, four_k, 4), _extended(call, four_v, 5)
    if len(q.shape) == 4:
        out: Shape = (*four_q[:3], four_v[3])
    else:
        out = (q.shape[0], q.shape[1], dims.mul(q_heads, four_v[3]))
    return (
        Type(q.dtype, out),
        Type(k.dtype or q.dtype, total_k),
        Type(v.dtype, total_v),
        Type(q.dtype, (*four_q[:3], total_k[2])),
    )


def _four(call: Call, shape: Shape, heads: int) -> Shape | None:
    """(batch, heads, sequence, head)"""
    if len(shape) == 4:
        return shape
    if len(shape) != 3:
        call.fail(f"an operand of Attention of rank {len(shape)}")
    if heads <= 0:
        return None
    return (shape[0], heads, shape[1], dims.quotient([shape[2]], [heads]))


def _extended(call: Call, shape: Shape, past: int) -> Shape:
    """Past and new entries along the sequence."""
    if not call.has(past):
        return shape
    before = call.shape(past)
    length: Dim = call.fresh() if before is None else dims.add(before[2], shape[2])
    return (*shape[:2], length, shape[3])


@op("RotaryEmbedding", kind="attention", shape_class="first")
def rotary_embedding(call: Call) -> Types:
    """Pairs of elements rotated by an angle that grows with the position"""
    return (call.type(0),)


@op("LinearAttention", kind="attention")
def linear_attention(call: Call) -> Types:
    """A recurrent form of attention, and its state"""
    q, k, v = (call.shape_of_rank(i, 3, "an operand of LinearAttention") for i in range(3))
    dtype = call.dtype_of(0, 1, 2)
    heads, kv_heads = call.integer("q_num_heads", 1), call.integer("kv_num_heads", 1)
    key: Dim = call.fresh() if k is None else dims.quotient([k[2]], [kv_heads])
    head: Dim = call.fresh() if v is None else dims.quotient([v[2]], [kv_heads])
    batch: Dim = call.fresh() if q is None else q[0]
    sequence: Dim = call.fresh() if q is None else q[1]
    state = call.type(3).dtype or dtype
    return (
        Type(dtype, (batch, sequence, dims.mul(head, heads))),
        Type(state, (batch, kv_heads, key, head)),
    )
