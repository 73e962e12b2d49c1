"""RotaryEmbedding of ONNX and of ONNX Runtime, and what GroupQueryAttention does of it.

In: instances, tensors (batch, heads, rows, head). Out: calls of the kernel `Rotate`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from rewrite.plan.lower.attention_call import TYPES, by_heads, neighbours
from rewrite.plan.lowering import Instance, Lowering, Tensor, lowers, refuses
from rewrite.plan.specs.rotate import BEHIND, EACH, FIRST, GIVEN, Integers, Rotate

MICROSOFT = "com.microsoft"
_GRAIN = 1 << 13  # elements


@dataclass(frozen=True, slots=True)
class Turn:
    """Tables of cosines and sines (rows of pairs), and where positions come from."""

    cos: Tensor | None
    sin: Tensor | None
    positions: str = GIVEN
    ids: Tensor | None = None
    extra: int = 0
    interleaved: bool = False
    append: bool = False


def rotate(low: Lowering, x: Tensor, out: Tensor, turn: Turn) -> None:
    """out[b, h, i] = x[b, h, i], turned."""
    batch, heads, rows, head = x.shape
    if prod(x.shape) == 0:
        return
    x = neighbours(low, x)
    pairs = 0 if turn.cos is None else turn.cos.shape[-1]
    spec = Rotate(
        x.dtype, head, pairs, turn.interleaved and pairs > 0, turn.positions,
        "" if turn.ids is None else turn.ids.dtype, turn.append,
    )  # fmt: skip
    xs, os = x.view.strides, out.view.strides
    angles = 0 if turn.cos is None else turn.cos.view.size // max(pairs, 1)
    integers = Integers(
        heads, rows, xs[0], xs[1], xs[2], os[0], os[1], os[2], angles, out.shape[2], turn.extra
    )
    operands = [t for t in (x, turn.cos, turn.sin, turn.ids, out) if t is not None]
    low.call(
        spec, [*operands, *integers.words()], batch * rows,
        grain=max(1, _GRAIN // (heads * head)), flops=3 * x.view.size,
    )  # fmt: skip


def _refusal(op: Instance, cos: int, positions: int) -> str | None:
    if op.dtype(0) not in TYPES or op.dtype(cos) != op.dtype(0):
        return f"RotaryEmbedding of {op.dtype(0)}"
    if op.has(positions) and op.dtype(positions) not in ("s32", "s64"):
        return "RotaryEmbedding with positions that are not integers"
    return None


def _operand(low: Lowering, op: Instance) -> tuple[Tensor, Tensor]:
    """The operand and the output by heads."""
    x = low.view(0)
    if len(x.shape) == 4:
        order = x.view.order if x.view.dense and x.view.order[-1] == 3 else None
        return x, low.output(0, order)
    heads = op.integer("num_heads", 0)
    return by_heads(x, heads), by_heads(low.output(0), heads)


@refuses("RotaryEmbedding")
def rotary_refusal(op: Instance) -> str | None:
    if len(op.shape(0)) == 3 and not op.integer("num_heads", 0):
        return "RotaryEmbedding without the number of heads"
    pairs, head = op.shape(1)[-1], _head(op)
    partial = op.integer("rotary_embedding_dim", 0)
    if (
        2 * pairs > head
        or (partial and partial != 2 * pairs)
        or (not partial and 2 * pairs != head)
    ):
        return "RotaryEmbedding with tables of another width"
    return _refusal(op, 1, 3)


def _head(op: Instance) -> int:
    shape = op.shape(0)
    return shape[3] if len(shape) == 4 else shape[2] // max(op.integer("num_heads", 0), 1)


@lowers("RotaryEmbedding")
def rotary_embedding(low: Lowering, op: Instance) -> None:
    x, out = _operand(low, op)
    ids = low.rows(3) if op.has(3) else None
    turn = Turn(
        low.rows(1), low.rows(2), EACH if ids is not None else GIVEN, ids,
        interleaved=op.integer("interleaved", 0) != 0,
    )  # fmt: skip
    rotate(low, x, out, turn)


@refuses("RotaryEmbedding", domain=MICROSOFT)
def microsoft_refusal(op: Instance) -> str | None:
    if op.integer("is_packed_batching", 0) or op.number("scale", 1.0) != 1.0:
        return "RotaryEmbedding of packed batches, or scaled"
    shape, pairs = op.shape(0), op.shape(2)[-1]
    if len(shape) == 3 and not op.integer("num_heads", 0) and shape[2] % (2 * pairs):
        return "RotaryEmbedding without the number of heads"
    return _refusal(op, 2, 1)


@lowers("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary_embedding(low: Lowering, op: Instance) -> None:
    x, out = low.view(0), low.output(0)
    if len(x.shape) == 3:
        heads = op.integer("num_heads", 0) or x.shape[2] // (2 * op.shape(2)[-1])
        x, out = by_heads(x, heads), by_heads(out, heads)
    ids = low.rows(1)
    turn = Turn(
        low.rows(2), low.rows(3), FIRST if ids.view.size == 1 else EACH, ids,
        interleaved=op.integer("interleaved", 0) != 0,
    )  # fmt: skip
    rotate(low, x, out, turn)


__all__ = ["BEHIND", "Turn", "rotate"]
