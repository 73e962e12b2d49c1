"""The factor of a requantizer for one group, and the evidence of how exact it makes it.

In: the name of a requantizer, the ratio of scales per channel, what codes are clamped to, the
largest accumulator. Out: a `Proof`: the factor, and a certificate of the body against the exact
rational, over every accumulator in range and all channels.

Both are monotone step functions. A channel agrees everywhere if, at each accumulator where the
exact code rises, the body has the new code, and just before it has not. Where it does not, a factor
close by may: the code at an accumulator is monotone in the factor too, so the factors that put all
steps of a channel right are an interval, and bisection finds one if there is any. There is none at
a tie that the body rounds another way. Where the requantizer rounds twice, a multiplier that needs
no shift behind it rounds once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from rewrite.quant.body import Body, Clamp
from rewrite.quant.certificate import Certificate, Claim
from rewrite.quant.codes import Array, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS, Factor, Fixed, Rational, Single
from rewrite.quant.rounding import round_ratio

_EXACT = REQUANTIZERS["onnx_qdq"]
_DOUBLING = 31
_NEAR = 1 << 12  # how far from the derived factor another is looked for, in its last place
_HUGE = 1 << 31  # steps; far outside of every code
_AT_ONCE = 1 << 22  # accumulators looked at together
_CLOSE = 32  # accumulators between a rise of the body and the exact one, mostly
_ROUNDS = 40  # of a bisection; the interval of accumulators has 32 bits

Codes = Callable[[Array, Factor], Ints]  # of accumulators [step, channel]


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
    factor, exact = base.derive(ratio), _EXACT.derive(ratio)
    assert isinstance(exact, Rational)
    first, last = body.domain(factor)
    if first > -bound or last < bound:
        raise QuantError("accumulators leave the range in which the requantizer is defined")

    def codes(acc: Array, f: Factor) -> Ints:
        return body.apply(acc, f, clamp.zero_point, clamp.low, clamp.high, 1)

    def exact_codes(acc: Array, f: Factor) -> Ints:
        assert isinstance(f, Rational)
        codes = np.clip(_rounded(acc, f) + clamp.zero_point, clamp.low, clamp.high)
        return np.asarray(codes, np.int64)

    search = _Search(codes, exact_codes, bound, base.arithmetic == "half_up_twice")
    near = _steps(ratio, clamp, bound)
    wrong = search.wrong(factor, exact, near)
    refined = 0
    if refine and wrong.any():
        factor, refined = search.refined(factor, exact, wrong, ratio, clamp)
        wrong = search.wrong(factor, exact, near)
    certificate = search.certificate(factor, exact, wrong, clamp, near)
    return Proof(name, factor, certificate, refined)


def _rounded(acc: Array, factor: Rational) -> Ints:
    """acc n / d [step, channel], half to even: in float64 except near ties, where in integers."""
    n, d = np.atleast_1d(factor.numerator), np.atleast_1d(factor.denominator)
    real = acc * (n / d).astype(np.float64)
    rounded = np.rint(np.clip(real, -_HUGE, _HUGE)).astype(np.int64)
    # Three roundings of 2^-53 of a number below 2^31 are less than 2^-20.
    near = (np.abs(real - np.floor(real) - 0.5) < 2.0**-20) & (np.abs(real) < _HUGE)
    if near.any():
        channel = np.nonzero(near)[1]
        over = acc[near].astype(object) * n[channel]
        rounded[near] = round_ratio(over, d[channel]).astype(np.int64)
    return np.asarray(rounded, np.int64)


def _steps(ratio: list[Fraction], clamp: Clamp, bound: int) -> Ints:
    """Accumulators [step, channel] where the exact code may rise, as float64 has them."""
    codes = np.arange(clamp.low - clamp.zero_point + 1, clamp.high - clamp.zero_point + 1)
    at = (codes[:, None] - 0.5) / np.array([float(r) for r in ratio])
    return np.asarray(np.clip(np.ceil(at), -bound, bound), np.int64)


@dataclass(frozen=True, slots=True)
class _Search:
    body: Codes
    exact: Codes
    bound: int
    one_rounding: bool

    def neighbours(self, near: Ints) -> Ints:
        """Around each step, two before to one after: rounding in float64 does not matter."""
        around = near[None] + np.arange(-2, 2)[:, None, None]
        flat = around.reshape(-1, near.shape[1])
        ends = np.array([[-self.bound], [self.bound]]).repeat(near.shape[1], 1)
        return np.asarray(np.clip(np.concatenate([flat, ends]), -self.bound, self.bound))

    def wrong(self, factor: Factor, exact: Factor, near: Ints) -> Array:
        """Channels in which the body differs from the exact code next to some step."""
        channels = near.shape[1]
        at_once = max(1, _AT_ONCE // max(1, 4 * near.shape[0]))
        found = []
        for start in range(0, channels, at_once):
            some = np.arange(start, min(start + at_once, channels))
            acc = self.neighbours(near[:, some])
            made, wanted = (
                self.body(acc, _taken(factor, some)),
                self.exact(acc, _taken(exact, some)),
            )
            found.append((made != wanted).any(0))
        return np.concatenate(found)

    def refined(
        self, factor: Factor, exact: Factor, wrong: Array, ratio: list[Fraction], clamp: Clamp
    ) -> tuple[Factor, int]:
        """Other factors for the wrong channels, where there are exact ones nearby."""
        chosen = np.flatnonzero(wrong)
        some = [ratio[i] for i in chosen]
        acc = self.neighbours(_steps(some, clamp, self.bound))
        wanted = self.exact(acc, _taken(exact, chosen))
        nominal = self.nominal(_taken(factor, chosen), some)
        low, high = (np.full(chosen.size, end, np.int64) for end in (-_NEAR, _NEAR))
        found = np.full(chosen.size, _NEAR + 1, np.int64)
        open_ = np.arange(chosen.size)
        while open_.size:
            middle = (low[open_] + high[open_]) // 2
            at, goal = acc[:, open_], wanted[:, open_]
            made = self.body(at, _moved(_taken(nominal, open_), middle))
            small = ((made < goal) & (at > 0) | (made > goal) & (at < 0)).any(0)
            large = ((made > goal) & (at > 0) | (made < goal) & (at < 0)).any(0)
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

    def certificate(
        self, factor: Factor, exact: Factor, wrong: Array, clamp: Clamp, near: Ints
    ) -> Certificate:
        cases = near.shape[1] * (2 * self.bound + 1)
        domain = (-self.bound, self.bound)
        chosen = np.flatnonzero(wrong)
        if not chosen.size:
            return Certificate("steps", Claim("exact"), cases, 0, 0, None, domain)
        f, g = _taken(factor, chosen), _taken(exact, chosen)
        near = near[:, chosen]
        rises = [self._rises(codes, x, clamp, near)
                 for codes, x in ((self.body, f), (self.exact, g))]  # fmt: skip
        starts = np.sort(np.concatenate([np.full((1, chosen.size), -self.bound), *rises]), 0)
        lengths = np.diff(starts, axis=0, append=np.full((1, chosen.size), self.bound + 1))
        difference = np.abs(self.body(starts, f) - self.exact(starts, g)) * (lengths > 0)
        most = int(difference.max())
        places = np.argwhere(difference == most)
        step, channel = min(map(tuple, places), key=lambda at: abs(int(starts[at])))
        witness = (int(starts[step, channel]), int(chosen[channel]))
        differing = int(lengths[difference > 0].sum())
        return Certificate("steps", Claim("lsb", most), cases, differing, most, witness, domain)

    def _around(self, codes: Codes, factor: Factor, wanted: Ints, near: Ints) -> tuple[Ints, Ints]:
        """Accumulators before and at each rise: close ones, where it is near the exact one."""
        low, high = (np.clip(near + d, -self.bound, self.bound) for d in (-_CLOSE, _CLOSE))
        before, after = codes(low, factor) < wanted, codes(high, factor) >= wanted
        below = np.where(before, low, -self.bound - 1)
        return below, np.where(after, high, self.bound + 1)

    def _rises(self, codes: Codes, factor: Factor, clamp: Clamp, near: Ints) -> Ints:
        """The first accumulator of each code; one past the range for codes that are not reached."""
        wanted = np.arange(clamp.low + 1, clamp.high + 1)[:, None].repeat(near.shape[1], 1)
        below, at = self._around(codes, factor, wanted, near)
        for _ in range(_ROUNDS):
            open_ = at - below > 1
            if not open_.any():
                break
            middle = np.clip((below + at) >> 1, -self.bound, self.bound)
            reached = codes(middle, factor) >= wanted
            at = np.where(open_ & reached, middle, at)
            below = np.where(open_ & ~reached, middle, below)
        return np.minimum(at, self.bound)


def _taken(factor: Factor, chosen: Ints) -> Factor:
    """The factors of some channels."""
    fields = {n: getattr(factor, n) for n in type(factor).__slots__}
    return type(factor)(**{n: np.atleast_1d(v)[chosen] for n, v in fields.items()})


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
