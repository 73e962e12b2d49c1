"""Step functions of an accumulator, as the accumulators at which they rise.

In: ratios of scales, what codes are clamped to, the largest accumulator. Out: where the exact code
rises, [code, channel]; samples of accumulators that decide whether another step function is the
same; how far apart two are.

Code c of acc r + zero point, half to even, is reached at the least integer acc with
acc r >= c - zero point - 1/2, without equality where the tie goes to the even code below.
Rises lie in [-bound, bound + 1]: those before the range at its first accumulator, those behind it
at the one after its last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.quant.body import Clamp
from rewrite.quant.codes import Array, Ints

# Three roundings of float64 are less than this, of a number relative to it.
_DOUBT = 2.0**-50
# acc and acc * scale rounded to float32 are less than 2^-22.9 of the product off.
_MARGIN = 2.0**-21
_LEAST, _MOST = 2.0**-1000, 2.0**1000  # around every bound of a factor


def exact_rises(ratio: Sequence[Fraction], clamp: Clamp, bound: int) -> Ints:
    """The first accumulator of each code above `clamp.low`: in float64, near integers exact."""
    steps = np.arange(clamp.low + 1, clamp.high + 1) - clamp.zero_point
    with np.errstate(divide="ignore", over="ignore"):
        at = (steps - 0.5)[:, None] / np.array([float(r) for r in ratio])
    np.clip(at, -bound - 0.5, bound + 0.5, out=at)
    above = np.ceil(at)
    at -= above  # in (-1, 0]
    doubt = _DOUBT * (bound + 1)
    step, channel = np.nonzero((at >= -doubt) | (at <= doubt - 1))
    rises = np.asarray(above.astype(np.int64))
    if step.size:
        n = np.array([2 * r.numerator for r in ratio], object)[channel]
        d = np.array([r.denominator for r in ratio], object)[channel]
        over = (2 * steps[step].astype(object) - 1) * d
        floor = over // n
        tie_to_it = (floor * n == over) & (steps[step] % 2 == 0)
        rises[step, channel] = np.clip(floor + 1 - tie_to_it, -bound, bound + 1)
    return rises


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """At accumulators [sample, channel]: a code, and whether the exact code is at least that.

    `lower`: the sample is a lower bound of the factor, by which a larger magnitude comes out; else
    an upper one. `valid`: the accumulator is in the range. `code`, `reached`, `lower` may be the
    same for all channels, [sample, 1].
    """

    acc: Ints
    code: Ints
    reached: Array
    lower: Array
    valid: Array

    def of(self, channels: Ints) -> Samples:
        """Those of some channels."""
        parts = (self.acc, self.code, self.reached, self.lower, self.valid)
        return Samples(*(a if a.shape[1] == 1 else a[:, channels] for a in parts))

    def critical(self, zero_point: int) -> Samples:
        """Those that decide for factors in float32: all others hold where these do.

        A sample bounds the real factor by (code - zero point - 1/2) / acc. Where one that is
        `_MARGIN` looser than the tightest does not hold, the tightest does not, whatever the
        roundings of acc and of the product do.
        """
        half = len(self.acc) // 2
        with np.errstate(divide="ignore"):
            limit = (self.code - (zero_point + 0.5)) / self.acc
        np.abs(limit, out=limit)
        low, high = limit[:half], limit[half:]
        np.copyto(low, 0.0, where=~self.valid[:half])
        highest = low.max(0, initial=_LEAST) * (1 - _MARGIN)
        lowest = high.min(0, initial=_MOST) * (1 + _MARGIN)
        rows = packed(np.concatenate([low >= highest, high <= lowest]))
        acc, valid = (np.take_along_axis(a, rows, 0) for a in (self.acc, self.valid))
        return Samples(acc, self.code[rows, 0], self.reached[rows, 0], self.lower[rows, 0], valid)


def samples(rises: Ints, clamp: Clamp, bound: int) -> Samples:
    """At each rise and just before it: who has the codes there has them everywhere.

    First those that are lower bounds: the rise itself of codes above that of 0, else the place
    before. Then the others, which all are in the range: what begins behind it is not reached at
    its end, what begins before it is reached at its start.
    """
    code = np.arange(clamp.low + 1, clamp.high + 1)[:, None]
    positive = code > clamp.zero_point
    acc = np.concatenate([rises - ~positive, rises - positive])
    valid = np.ones(acc.shape, bool)
    valid[: len(rises)] = np.abs(acc[: len(rises)]) <= bound
    lower = np.arange(len(acc))[:, None] < len(rises)
    reached = np.concatenate([positive, ~positive])
    return Samples(acc, np.concatenate([code, code]), reached, lower, valid)


def packed(mask: Array) -> Ints:
    """Rows [place, channel] of what is set in each channel; row 0 where a channel has fewer."""
    channel, row = np.nonzero(mask.T)
    counts = np.bincount(channel, minlength=mask.shape[1])
    place = np.arange(row.size) - (np.cumsum(counts) - counts)[channel]
    rows = np.zeros((max(int(counts.max(initial=0)), min(1, len(mask))), mask.shape[1]), np.int64)
    rows[place, channel] = row
    return rows


@dataclass(frozen=True, slots=True)
class Apart:
    """How far two step functions are apart.

    `differing`: accumulators with different codes, of all channels. `most`: codes. `place`: of the
    accumulator where they are `most` apart, what it is chosen by, least first: its magnitude, the
    rises before it, its channel; and itself.
    """

    differing: int = 0
    most: int = 0
    place: tuple[int, int, int, int] | None = None

    @property
    def witness(self) -> tuple[int, int] | None:
        """(accumulator, channel)"""
        return None if self.place is None else (self.place[3], self.place[2])


def apart(made: Ints, exact: Ints, bound: int, channels: Ints) -> Apart:
    """Step functions given by their rises; `channels` are the numbers of the columns."""
    step, column = np.nonzero(made != exact)
    if not step.size:
        return Apart()
    at = np.concatenate([made[step, column], exact[step, column]])
    column = np.concatenate([column, column])
    change = np.repeat([1, -1], step.size)
    order = np.lexsort((at, column))
    at, column, change = at[order], column[order], change[order]
    # Every channel's changes add up to 0, so that none reaches into the next one.
    difference = np.abs(np.cumsum(change))
    lengths = np.append(np.where(np.diff(column) == 0, np.diff(at), 0), 0)
    difference[lengths == 0] = 0
    most = int(difference.max(initial=0))
    worst = np.flatnonzero(difference == most)
    near = np.abs(at[worst])
    places = [
        (abs(int(at[i])), _rank(made, exact, bound, at[i], column[i]), int(channels[column[i]]),
         int(at[i]))
        for i in worst[near == near.min()]
    ]  # fmt: skip
    differing = int(lengths[difference > 0].sum())
    return Apart(differing, most, min(places, default=None))


def _rank(made: Ints, exact: Ints, bound: int, at: int, column: int) -> int:
    """How many rises of both are not behind an accumulator."""
    rises = np.concatenate([made[:, column], exact[:, column]])
    return int((np.minimum(rises, bound) <= at).sum())


def joined(parts: Sequence[Apart]) -> Apart:
    """Of several groups of channels."""
    most = max((p.most for p in parts), default=0)
    places = [p.place for p in parts if p.most == most and p.place is not None]
    return Apart(sum(p.differing for p in parts), most, min(places, default=None))
