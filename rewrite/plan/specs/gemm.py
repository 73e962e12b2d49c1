"""Kernels of matrix products.

In: nothing. Out: frozen specs, and the row schedule that their words carry. Sizes and strides are
words, so that one piece of code multiplies matrices of all sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from rewrite.plan.spec import Body, Spec


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of the epilogue: `stride` is from one column to the next, 0 or 1."""

    dtype: str
    stride: int


@dataclass(frozen=True, slots=True)
class Gemm(Spec):
    """out = body(init + a @ b, operands...), for a batch of matrices.

    `a` lies in rows without gaps between the neighbours in K. `right` says how `b` lies: in
    `panels` of `columns` columns, [K / group][columns][group], the last one padded; as it is in
    `rows`, neighbours in N without gaps; or in `columns`, neighbours in K without gaps: there tiles
    are one row high, and both factors are of type `total`.
    `form` says how products are added up (rewrite/codegen/product.py); `total` is the element type
    of the sums, `heights` the numbers of rows that a tile can have. `body` takes the sum as
    value 0.

    Words; strides and offsets are in elements, K is in steps of `group`:
      0 a, 1 b, 2 init: of type `total`, one row of whole panels
      3 table of offsets, s64[batches][3 + operands]: of a, b, out, each operand
      4 scalars: numbers that the body takes behind its operands, in 8 bytes each
      then the operands, then out
      then N, K, row stride of a, panel stride of b, row stride of out, panel stride of init,
      then the rows: height of tiles, how many of them, heights of the tail (four bits each),
      tiles in all, tiles per block, then the stride of b's rows, or of its columns,
      then the row stride of each operand.
    Items: batches * tiles of rows * panels, in blocks of rows, panel by panel.
    Scratch: one tile of sums, and where b lies in rows, one panel of it.
    """

    form: str
    a: str
    b: str
    total: str
    out: str
    columns: int
    heights: tuple[int, ...]
    right: str = "panels"
    body: Body | None = None
    operands: tuple[Operand, ...] = ()
    scalars: tuple[str, ...] = ()  # element types


@dataclass(frozen=True, slots=True)
class RowSchedule:
    """`whole` tiles of `height` rows, then one tile of each height of `tail`."""

    height: int
    whole: int
    tail: tuple[int, ...]

    @property
    def tiles(self) -> int:
        return self.whole + len(self.tail)

    @property
    def code(self) -> int:
        """The heights of the tail, four bits each, the first one lowest."""
        return sum(h << (4 * i) for i, h in enumerate(self.tail))


@cache
def row_schedule(rows: int, heights: Sequence[int], highest: int | None = None) -> RowSchedule:
    """Tiles that cover `rows` rows: as few small ones as possible.

    A tile of h rows takes about max(h, 4) units of time: small ones wait for the panel.
    """
    usable = tuple(h for h in heights if highest is None or h <= highest)
    tallest = max(usable)
    whole = rows // tallest
    best: tuple[int, int, int, tuple[int, ...]] | None = None
    for fewer in range(min(whole, 2) + 1):
        tail = _cover(rows - (whole - fewer) * tallest, usable)
        cost = (whole - fewer) * tallest + sum(max(h, 4) for h in tail)
        found = (cost, len(tail), fewer, tail)
        best = found if best is None or found < best else best
    assert best is not None
    return RowSchedule(tallest, whole - best[2], best[3])


@cache
def _cover(rows: int, heights: tuple[int, ...]) -> tuple[int, ...]:
    """Heights that add up to `rows` at the least cost, the highest first."""
    cost: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    for n in range(1, rows + 1):
        cost.append(min(
            (cost[n - h][0] + max(h, 4), cost[n - h][1] + 1, (*cost[n - h][2], h))
            for h in heights if h <= n
        ))  # fmt: skip
    return tuple(sorted(cost[rows][2], reverse=True))


@dataclass(frozen=True, slots=True)
class PackPanels(Spec):
    """Panels (rewrite/plan/packing.py) of matrices that are not known before the run.

    `bytes` per element; each element is xored with `flip`. `neighbours`: in which dimension ("n",
    "k" or neither) they are neighbours in memory.

    Words: 0 source, 1 table of offsets s64[batches][2] (source, panels), 2 panels, 3 N, 4 K,
    5 stride in K, 6 stride in N. Items: batches * panels of a matrix.
    """

    bytes: int
    columns: int
    group: int = 1
    flip: int = 0
    neighbours: str = ""
