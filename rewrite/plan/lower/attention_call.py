"""A call of the attention kernel.

In: tensors (batch, heads, rows, elements) with any strides, and how scores are made. Out: one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.plan.specs.attention import (
    FEW,
    Attention,
    FewQueries,
    Integers,
    accumulator,
    bits_of,
    blocks_of,
    scratch_of,
    scratch_of_few,
)
from rewrite.plan.tensor import Tensor

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

_MANY_HEADS = 8
HIDES = -1e4  # a number below this hides a key: scores are not looked at next to it
Array = np.ndarray[Any, np.dtype[Any]]

TYPES = frozenset({"f16", "bf16", "f32", "f64"})


@dataclass(frozen=True, slots=True)
class Scores:
    """What becomes of Q K^T before the softmax; see rewrite/plan/specs/attention.py.

    `mask` can be broadcast to (batch, heads, queries, keys); keys behind its last one are not seen.
    `left`, `right` None: no bound.
    """

    scale: float
    mask: Tensor | None = None
    lengths: Tensor | None = None
    extra: int = 0
    offset: int = 0
    from_end: bool = False
    left: int | None = None
    right: int | None = None
    softcap: float = 0.0
    empty_is_zero: bool = False


def attend(low: Lowering, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scores: Scores) -> None:
    """out = softmax(scores) v. Heads of q share those of k and v in groups of equal size."""
    batch, heads, queries, head = q.shape
    value = v.shape[3]
    if prod(out.shape) == 0:
        return
    q, k, v = (neighbours(low, t) for t in (q, k, v))
    mask, keys = _mask(low, scores.mask, q.shape, k.shape[2])
    by_query = mask is not None and mask.view.strides[2] != 0 and queries > 1
    spec = Attention(
        dtype=q.dtype,
        head=head,
        value=value,
        mask="" if mask is None else mask.dtype,
        mask_by_query=by_query or mask is None,
        left=scores.left is not None,
        right=scores.right is not None,
        lengths="" if scores.lengths is None else scores.lengths.dtype,
        from_end=scores.from_end,
        softcap=scores.softcap != 0,
        empty_is_zero=scores.empty_is_zero,
    )
    m = (0, 0, 0) if mask is None else _outer(mask)
    integers = Integers(
        heads, heads // k.shape[1], queries, keys, blocks_of(queries), scores.offset,
        scores.left or 0, scores.right or 0, scores.extra,
        *_outer(q), *_outer(k), *_outer(v), *_outer(out), *m,
        bits_of(scores.scale), bits_of(scores.softcap or 1.0),
    )  # fmt: skip
    operands = [t for t in (q, k, v, mask, scores.lengths, out) if t is not None]
    words: list[Tensor | int] = [*operands, *integers.words()]
    flops = 2 * batch * heads * queries * keys * (head + value)
    lanes = low.machine.lanes(accumulator(spec.dtype))
    if queries <= FEW and head % lanes == 0 and value % lanes == 0:
        few = FewQueries(spec)
        low.call(few, words, batch * heads, scratch=scratch_of_few(few, keys), flops=flops)
        return
    low.call(
        spec,
        words,
        batch * heads * blocks_of(queries),
        grain=_grain(batch * heads, blocks_of(queries)),
        scratch=scratch_of(spec, keys),
        flops=flops,
    )


def _grain(heads: int, blocks: int) -> int:
    """Each range of items copies keys and values again, so that it should be all of a head, unless
    there are few heads."""
    return blocks if heads >= _MANY_HEADS else max(1, blocks // 4)


def _outer(tensor: Tensor) -> tuple[int, int, int]:
    """The strides of batches, heads and rows."""
    b, h, i, _ = tensor.view.strides
    return b, h, i


def causal_offset(hidden: Array) -> int | None:
    """The offset with which key j is hidden from query i just where j > i + offset, if there is
    one that leaves every query a key. `hidden`: (…, queries, keys), the same for all heads."""
    if hidden.ndim < 2 or hidden.size == 0 or hidden.size != prod(hidden.shape[-2:]):
        return None
    plane = hidden.reshape(hidden.shape[-2:])
    seen = np.count_nonzero(~plane, axis=1)
    offset = int(seen[0]) - 1
    queries, keys = plane.shape
    wanted = np.arange(keys) > np.arange(queries)[:, None] + offset
    return offset if offset >= 0 and np.array_equal(plane, wanted) else None


def neighbours(low: Lowering, tensor: Tensor) -> Tensor:
    """The tensor with the elements of a row side by side, copied if need be."""
    if tensor.shape[-1] == 1 or tensor.view.strides[-1] == 1:
        return tensor
    return low.ordered(tensor, tuple(range(tensor.view.rank)))


def _mask(
    low: Lowering, mask: Tensor | None, q: tuple[int, ...], keys: int
) -> tuple[Tensor | None, int]:
    """The mask broadcast to (batch, heads, queries, its keys); how many keys are seen at most."""
    if mask is None:
        return None, keys
    seen = min(keys, mask.shape[-1])
    mask = mask.sliced((0,) * mask.view.rank, (*mask.shape[:-1], seen))
    wanted = mask.broadcast((*q[:3], seen))
    if seen > 1 and mask.view.strides[-1] != 1:
        mask = low.ordered(mask, tuple(range(mask.view.rank)))
        wanted = mask.broadcast((*q[:3], seen))
    return wanted, seen


def by_heads(tensor: Tensor, heads: int) -> Tensor:
    """(batch, sequence, heads * head) as (batch, heads, sequence, head), without copying."""
    batch, sequence, hidden = tensor.shape
    split = tensor.reshaped((batch, sequence, heads, hidden // heads))
    assert split is not None, "the last dimension can be split whatever its stride"
    return split.permuted((0, 2, 1, 3))
