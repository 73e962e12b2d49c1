"""Rows whose pairs of elements are turned by the angle of their position, as a kernel.

In: nothing. Out: `Rotate` and its integer words.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rewrite.plan.spec import Spec

# Where the position of row i of batch b comes from.
GIVEN = "given"  # angles are given for each row: position b rows + i
EACH = "each"  # ids[b, i]
FIRST = "first"  # ids[0] + i
BEHIND = "behind"  # ids[b] + extra - rows + i: the rows are the last ones of so many


@dataclass(frozen=True, slots=True)
class Rotate(Spec):
    """out[b, h, i] is x[b, h, i] with (u, v) of each pair turned to (c u - s v, s u + c v).

    c and s are row `position` of the tables of cosines and sines. A pair is elements j and
    `pairs` + j, or 2 j and 2 j + 1 where `interleaved`; elements behind the pairs stay. With no
    pairs rows are copied, and there are no tables. With `append`, row i goes to row `position`.

    Words: x, cosines, sines, ids where positions are not GIVEN, out; then `Integers`.
    Items: (batch, row). A position that no table or no row of the output has is a fault.
    """

    dtype: str
    head: int
    pairs: int
    interleaved: bool
    positions: str
    ids: str = ""  # s32 or s64
    append: bool = False


@dataclass(frozen=True, slots=True)
class Integers:
    """Strides in elements; `angles`, `places`: rows of the tables and, with `append`, of out."""

    heads: int
    rows: int
    x_b: int
    x_h: int
    x_i: int
    o_b: int
    o_h: int
    o_i: int
    angles: int
    places: int
    extra: int

    def words(self) -> list[int]:
        return [getattr(self, field.name) for field in fields(self)]


INTEGERS = tuple(field.name for field in fields(Integers))
