"""Why the codes of two implementations differ: a named cause for every element, or none.

In: both codes, the exact quotients behind them, what other arithmetics give. Out: `Differences`.

A disagreement has a cause if the other arithmetic is known and gives the very code (the zero point
before rounding; float32 products; pair sums that saturate), or if the exact quotient lies so near
to a tie that the errors of a float32 evaluation, bounded by the caller, can cross it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from rewrite.quant.codes import Array, Floats

FLOAT32_UNIT = 2.0**-24  # half a unit in the last place of 1, relative


class Cause(Enum):
    """What makes codes differ."""

    TIE_ORDER = "zero point added before rounding"
    TIE_MODE = "ties rounded by another mode"
    FLOAT32 = "float32 rounding"
    SATURATION = "16-bit pair sums saturate"
    OVERFLOW = "int32 overflow"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """`counts` of causes among differing elements, in the order of `Cause`; `max_lsb` overall.

    `histogram`: difference in codes (theirs - ours) -> elements, without 0. `first_unknown`: the
    flat index of the first element without a cause.
    """

    elements: int
    counts: Mapping[Cause, int]
    histogram: Mapping[int, int]
    max_lsb: int
    first_unknown: int | None

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def explain(
    ours: Array,
    theirs: Array,
    alternatives: Sequence[tuple[Cause, Array]] = (),
    near_tie: npt.NDArray[np.bool_] | None = None,
) -> Differences:
    """Each differing element gets the first alternative that gives their code; else, where
    `near_tie` and the codes are neighbours, FLOAT32; else UNKNOWN."""
    a, b = ours.astype(np.int64).reshape(-1), theirs.astype(np.int64).reshape(-1)
    difference = b - a
    open_ = difference != 0
    counts: dict[Cause, int] = {}
    for cause, codes in alternatives:
        hit = open_ & (codes.astype(np.int64).reshape(-1) == b)
        counts[cause] = counts.get(cause, 0) + int(hit.sum())
        open_ = open_ & ~hit
    if near_tie is not None:
        hit = open_ & near_tie.reshape(-1) & (np.abs(difference) == 1)
        counts[Cause.FLOAT32] = counts.get(Cause.FLOAT32, 0) + int(hit.sum())
        open_ = open_ & ~hit
    counts[Cause.UNKNOWN] = int(open_.sum())
    values, found = np.unique(difference[difference != 0], return_counts=True)
    return Differences(
        a.size,
        {c: counts[c] for c in Cause if counts.get(c)},
        {int(v): int(n) for v, n in zip(values, found, strict=True)},
        int(np.abs(difference).max(initial=0)),
        int(np.flatnonzero(open_)[0]) if open_.any() else None,
    )


def near_tie(quotients: Floats, error: Floats | float) -> npt.NDArray[np.bool_]:
    """Where quotient + error can lie on the other side of a tie; both in steps of the output."""
    distance = np.abs(quotients - (np.floor(quotients) + 0.5))
    return np.asarray(distance <= error, np.bool_)


def accumulation_error(magnitude: Floats | float, operations: int) -> Floats | float:
    """Error of so many float32 operations on numbers of this magnitude (Higham's gamma_n)."""
    n = operations * FLOAT32_UNIT
    return magnitude * (n / (1 - n))
