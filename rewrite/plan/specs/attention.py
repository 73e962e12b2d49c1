"""Attention as a kernel: softmax(scale Q K^T + mask) V for all heads of a batch.

In: nothing. Out: `Attention`, its integer words, and the memory that it needs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields

from rewrite.plan.spec import Spec
from rewrite.plan.view import BYTES

ROWS = 32  # query rows of one work item
FEW = 3  # queries that are worked on one by one
_WIDEST = 64  # elements of the widest panel into which codegen packs values
_KEYS = 16  # keys are packed in blocks of this many at most


@dataclass(frozen=True, slots=True)
class Attention(Spec):
    """O[b, h, i] = sum over j of p[b, h, i, j] V[b, h / group, j], p the softmax over j of

        score = scale (Q[b, h, i] . K[b, h / group, j])          softcap tanh(score / softcap)
                + mask[b, h, i, j]                               if there is a mask
        and -inf unless left <= j - (i + offset) <= right and j < lengths[b] + extra

    With `from_end`, the last query stands at the last key: offset is lengths[b] + extra - queries.
    Everything is computed in float32, or in float64 where `dtype` is f64; the output is rounded.
    Elements of one row of Q, K, V, O and of the mask are neighbours.

    Words: Q, K, V, mask if there is one, lengths if there are any, O; then `Integers` in its order.
    Items: (batch, head, block of ROWS queries), the last one fastest.
    """

    dtype: str
    head: int  # elements of a query and of a key
    value: int  # elements of a value
    mask: str = ""  # element type: bool (false: -inf), or a float that is added
    mask_by_query: bool = True  # whether its rows differ
    left: bool = False
    right: bool = False
    lengths: str = ""  # s32 or s64: how many keys each batch has
    from_end: bool = False
    softcap: bool = False
    empty_is_zero: bool = False  # a query without any key gives zeros; otherwise NaN


@dataclass(frozen=True, slots=True)
class FewQueries(Spec):
    """The same for a few queries: keys and values are read once, from where they lie.

    Elements of a query, key and value are whole vectors of the machine. Items: (batch, head).
    """

    base: Attention


@dataclass(frozen=True, slots=True)
class Integers:
    """What code needs not know. Strides in elements; `b`, `h`, `i`: batch, head, row."""

    heads: int  # of queries
    group: int  # query heads that share a key and value head
    queries: int
    keys: int
    blocks: int  # of ROWS queries in each head
    offset: int
    left: int
    right: int
    extra: int
    q_b: int
    q_h: int
    q_i: int
    k_b: int
    k_h: int
    k_i: int
    v_b: int
    v_h: int
    v_i: int
    o_b: int
    o_h: int
    o_i: int
    m_b: int
    m_h: int
    m_i: int
    scale: int  # the bits of a float64
    softcap: int

    def words(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]


INTEGERS = tuple(field.name for field in fields(Integers))


def bits_of(number: float) -> int:
    """The bits of a float64 as a signed word."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def blocks_of(queries: int) -> int:
    return -(-queries // ROWS)


def accumulator(dtype: str) -> str:
    """The type that elements are widened to."""
    return "f64" if dtype == "f64" else "f32"


def regions(spec: Attention, rows: int, width: int) -> tuple[int, int]:
    """Bytes per key of the packed K, V and scores; bytes that do not depend on the keys.

    `rows`: of queries; `width`: to a multiple of which the elements of a value are padded.
    """
    size = BYTES[accumulator(spec.dtype)]
    padded = -(-spec.value // width) * width
    per_key = size * (spec.head + padded + rows)
    fixed = size * (rows * spec.head + 4 * rows + padded) + 16 * 64
    return per_key, fixed


def scratch_of_few(spec: FewQueries, keys: int) -> int:
    """The scores of one query."""
    return BYTES[accumulator(spec.base.dtype)] * (keys + _WIDEST) + 64


def scratch_of(spec: Attention, keys: int) -> int:
    """Bytes of scratch for `keys` keys, on any machine."""
    per_key, fixed = regions(spec, ROWS, _WIDEST)
    return per_key * (keys + 2 * _KEYS) + fixed
