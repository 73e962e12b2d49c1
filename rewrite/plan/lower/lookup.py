"""Calls of the lookup kernel.

In: codes of a byte, tables. Out: calls; the result lies as the codes do.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rewrite.plan.lowering import Lowering, Tensor
from rewrite.plan.specs.lookup import CHUNK, Lookup
from rewrite.plan.view import BYTES

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK = 64  # rows that a kernel takes together
_GRAIN = 4  # chunks, or as many elements in rows


def look_up(
    low: Lowering, x: Tensor, entries: Array, out: Tensor | None = None, axis: int = 1
) -> None:
    """`out` (output 0 unless given, which lies as x does) becomes entries[..., bits of x].

    Bits are read as unsigned. `entries` is [256], or [channels, 256] for a dimension of x.
    """
    if not x.view.dense:
        x = low.ordered(x, tuple(range(x.view.rank)))
    order = x.view.order
    out = out or low.output(0, order)
    count = x.view.size
    if count == 0:
        return
    table = low.constant(entries)
    width = BYTES[out.dtype]
    # Entries of a byte may take over the memory of their codes.
    overwrites = frozenset({2} if width == 1 else ())
    if entries.ndim == 1:
        chunks = -(-count // CHUNK)
        words: list[Tensor | int] = [x, table, out, count]
        low.call(Lookup(width), words, chunks, _GRAIN, overwrites=overwrites)
        return
    channels = x.shape[axis]
    behind = order[order.index(axis) + 1 :]
    inner = prod(x.shape[a] for a in behind)
    neighbours = inner == 1
    rows = count // (channels if neighbours else inner)
    grain = max(1, _GRAIN * CHUNK * rows // count)
    if neighbours:
        grain = -(-grain // _BLOCK) * _BLOCK
    low.call(
        Lookup(width, True, neighbours), [x, table, out, channels, inner], rows, grain,
        overwrites=overwrites,
    )  # fmt: skip
