"""The factor of a requantizer for one group, and the evidence of how exact it makes it.

In: the name of a requantizer, the ratio of scales per channel, what codes are clamped to, the
largest accumulator. Out: a `Proof`: the factor, and a certificate of the body against the exact
rational, over every accumulator in range and all channels.

Both are monotone step functions. Where the exact code rises is an integer that rationals give. A
channel agrees everywhere if, at each such accumulator, the body has the new code, and just before
it has not. Where it does not, a factor close by may: the code at an accumulator is monotone in the
factor too, so the factors that put all steps of a channel right are an interval, and bisection
finds one if there is any. There is none at a tie that the body rounds another way. Where the
requantizer rounds twice, a multiplier that needs no shift behind it rounds once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from rewrite.quant.body import Body, Clamp
from rewrite.quant.certificate import Certificate, Claim
from rewrite.quant.codes import Array, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS, Factor, Fixed, Single
from rewrite.quant.rises import Apart, Samples, apart, exact_rises, joined, packed, samples

_DOUBLING = 31
_NEAR = 1 << 12  # how far from the derived factor another is looked for, in its last place
_AT_ONCE = 1 << 17  # accumulators looked at together: what stays in a cache
_CLOSE = 32  # accumulators between a rise of the body and the exact one, mostly
_ROUNDS = 40  # of a bisection; the interval of accumulators has 32 bits


@dataclass(frozen=True, slots=True)
class Proof:
    """`factor`: one, or one for each channel. `refined`: channels with a factor nearby instead."""

    name: str
    factor: Factor
    certificate: Certificate
    refined: int = 0


def prove(
    name: str, ratio: list[Fraction], clamp: Clamp, bound: int, refine: bool = False
) -> Proof:
    """`QuantError` for ratios that the requantizer does not take.

    `ratio`: one per channel. `bound`: of |accumulator|. `refine`: look for exact factors.
    """
    base = REQUANTIZERS[name]
    body = Body(base, bound)
    factor = base.derive(ratio)
    first, last = body.domain(factor)
    if first > -bound or last < bound:
        raise QuantError("accumulators leave the range in which the requantizer is defined")
    search = _Search(body, clamp, base.arithmetic == "half_up_twice", refine)
    at_once = max(1, _AT_ONCE // max(1, clamp.high - clamp.low))
    starts = range(0, len(ratio), at_once)
    parts = [search.part(factor, ratio, i, min(i + at_once, len(ratio))) for i in starts]
    total = joined([p.apart for p in parts])
    certificate = Certificate(
        "steps",
        Claim("lsb", total.most) if total.differing else Claim("exact"),
        len(ratio) * (2 * bound + 1),
        total.differing,
        total.most,
        total.witness,
        (-bound, bound),
    )
    refined = sum(p.refined for p in parts)
    return Proof(name, _together([p.factor for p in parts]), certificate, refined)


@dataclass(frozen=True, slots=True)
class _Part:
    """The proof of some of the channels."""

    factor: Factor
    refined: int
    apart: Apart


@dataclass(frozen=True, slots=True)
class _Search:
    body: Body
    clamp: Clamp
    one_rounding: bool
    refine: bool

    def part(self, factor: Factor, ratio: list[Fraction], first: int, end: int) -> _Part:
        """The proof of the channels in [first, end)."""
        channels, bound, refined = np.arange(first, end), self.body.bound, 0
        factor, ratio = _taken(factor, channels), ratio[first:end]
        exact = exact_rises(ratio, self.clamp, bound)
        limits = samples(exact, self.clamp, bound)
        if isinstance(factor, Single):
            limits = limits.critical(self.clamp.zero_point)
        wrong = self.wrong(factor, limits)
        if self.refine and wrong.any():
            factor, refined = self.refined(factor, limits, wrong, ratio)
            wrong = self.wrong(factor, limits)
        chosen = np.flatnonzero(wrong)
        if not chosen.size:
            return _Part(factor, refined, Apart())
        exact = exact[:, chosen]
        made = self.rises(_taken(factor, chosen), exact)
        return _Part(factor, refined, apart(made, exact, bound, channels[chosen]))

    def reached(self, acc: Ints, factor: Factor, code: Ints) -> Array:
        """Whether the body has at least that code at accumulators [sample, channel]."""
        clamp = self.clamp
        made = self.body.apply(acc, factor, clamp.zero_point, clamp.low, clamp.high, 1)
        return np.asarray(made >= code, bool)

    def sides(self, factor: Factor, limits: Samples) -> tuple[Array, Array]:
        """Channels whose factor is too small for some sample, and too large for one."""
        acc = np.where(limits.valid, limits.acc, 0)
        wrong = (self.reached(acc, factor, limits.code) != limits.reached) & limits.valid
        return (wrong & limits.lower).any(0), (wrong & ~limits.lower).any(0)

    def wrong(self, factor: Factor, limits: Samples) -> Array:
        """Channels in which the body differs from the exact code at some accumulator."""
        small, large = self.sides(factor, limits)
        return np.asarray(small | large, bool)

    def refined(
        self, factor: Factor, limits: Samples, wrong: Array, ratio: list[Fraction]
    ) -> tuple[Factor, int]:
        """Other factors for the wrong channels, where there are exact ones nearby."""
        chosen = np.flatnonzero(wrong)
        limits = limits.of(chosen)
        nominal = self.nominal(_taken(factor, chosen), [ratio[i] for i in chosen])
        low, high = (np.full(chosen.size, end, np.int64) for end in (-_NEAR, _NEAR))
        found = np.full(chosen.size, _NEAR + 1, np.int64)
        open_ = np.arange(chosen.size)
        while open_.size:
            middle = (low[open_] + high[open_]) // 2
            moved = _moved(_taken(nominal, open_), middle)
            small, large = self.sides(moved, limits.of(open_))
            found[open_] = np.where(~small & ~large, middle, found[open_])
            low[open_] = np.where(small, middle + 1, low[open_])
            high[open_] = np.where(large, middle - 1, high[open_])
            # Where it is too small at one step and too large at another, no factor is right.
            open_ = open_[(small ^ large) & (low[open_] <= high[open_])]
        good = found <= _NEAR
        kept = good | self.one_rounding  # one rounding is nearer, even where it is not exact
        moved = _moved(nominal, np.where(good, found, 0))
        return _put(factor, chosen[kept], moved, kept), int(good.sum())

    def nominal(self, factor: Factor, ratio: list[Fraction]) -> Factor:
        """Where to look: with one rounding instead of two, if the requantizer can do that."""
        if not self.one_rounding or not isinstance(factor, Fixed):
            return factor
        whole = [round(r * (1 << _DOUBLING)) for r in ratio]
        if max(whole) >> _DOUBLING:
            return factor
        multiplier = np.array(whole, np.int64)
        return Fixed(multiplier, np.full(len(ratio), _DOUBLING, np.int64))

    def rises(self, factor: Factor, exact: Ints) -> Ints:
        """The first accumulator of each code, looked for around those of the exact code."""
        bound = self.body.bound
        code = np.arange(self.clamp.low + 1, self.clamp.high + 1)[:, None].repeat(exact.shape[1], 1)
        at, before = (np.clip(exact - d, -bound, bound) for d in (0, 1))
        late = (exact <= bound) & ~self.reached(at, factor, code)
        early = (exact > -bound) & self.reached(before, factor, code)
        rows = packed(late | early)
        late, early = (np.take_along_axis(a, rows, 0) for a in (late, early))
        start, code = (np.take_along_axis(a, rows, 0) for a in (exact, code))
        # Below, the code is not reached; at `at` it is. Both may lie just outside of the range.
        below, at = self._around(late, early, start, code, factor)
        for _ in range(_ROUNDS):
            open_ = at - below > 1
            if not open_.any():
                break
            middle = np.clip((below + at) >> 1, -bound, bound)
            reached = self.reached(middle, factor, code)
            at = np.where(open_ & reached, middle, at)
            below = np.where(open_ & ~reached, middle, below)
        found = exact.copy()
        np.put_along_axis(found, rows, at, 0)
        return found

    def _around(
        self, late: Array, early: Array, exact: Ints, code: Ints, factor: Factor
    ) -> tuple[Ints, Ints]:
        """Accumulators before and at each rise: close ones, where it is near the exact one."""
        bound = self.body.bound
        low, high = (np.clip(exact + d, -bound, bound) for d in (-_CLOSE, _CLOSE))
        before = np.where(self.reached(low, factor, code), -bound - 1, low)
        after = np.where(self.reached(high, factor, code), high, bound + 1)
        below = np.where(late, exact, np.where(early, before, exact - 1))
        return below, np.where(late, after, np.where(early, exact - 1, exact))


def _taken(factor: Factor, chosen: Ints) -> Factor:
    """The factors of some channels."""
    fields = {n: getattr(factor, n) for n in type(factor).__slots__}
    return type(factor)(**{n: np.atleast_1d(v)[chosen] for n, v in fields.items()})


def _together(factors: list[Factor]) -> Factor:
    """The factors of all channels from those of some at a time."""
    kind = type(factors[0])
    return kind(**{n: np.concatenate([getattr(f, n) for f in factors]) for n in kind.__slots__})


def _moved(factor: Factor, by: Ints) -> Factor:
    """Factors so many units of their last place away."""
    if isinstance(factor, Fixed):
        return replace(factor, multiplier=np.maximum(factor.multiplier + by, 1))
    assert isinstance(factor, Single)
    bits = factor.scale.astype(np.float32).view(np.int32).astype(np.int64) + by
    return Single(np.maximum(bits, 1 << 23).astype(np.int32).view(np.float32))


def _put(factor: Factor, chosen: Ints, other: Factor, good: Array) -> Factor:
    """The factor with those of some channels replaced."""
    made = {}
    for name in type(factor).__slots__:
        values = np.array(np.atleast_1d(getattr(factor, name)))
        values[chosen] = getattr(other, name)[good]
        made[name] = values
    return type(factor)(**made)
