"""Evidence that two ways to compute codes agree, or by how much they differ at most.

In: functions of codes, or two requantizers and their parameters. Out: `Certificate`.

exhausted   every operand was tried.
steps       both are monotone step functions of the accumulator: with the accumulators at which
            each reaches each code, every accumulator of int32 is known. Positions come from
            binary search; each is checked by its two neighbours.
bound       a number that was derived, with the operand that comes nearest to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from rewrite.quant.codes import Array, CodeType, Floats, Ints, every_code, values_of
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import Factor, Fixed, Ratio, Requantizer, Single

MOST_CASES = 1 << 26
_AROUND = 4  # accumulators on either side of a guess

Kind = Literal["exhausted", "steps", "bound"]


@dataclass(frozen=True, slots=True)
class Claim:
    """`exact`; `lsb`: at most `bound` codes apart; `approx`: at most `bound` output steps."""

    kind: Literal["exact", "lsb", "approx"]
    bound: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "exact" else f"{self.kind}({self.bound:g})"


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was compared and what came out.

    `witness`: operands with the largest difference; where there is none, None. `domain`: the
    accumulators that were covered (kind `steps`).
    """

    kind: Kind
    claim: Claim
    cases: int
    mismatches: int
    max_lsb: int
    witness: tuple[int | float, ...] | None = None
    domain: tuple[int, int] | None = None

    def supports(self, claim: Claim) -> bool:
        """Whether it is evidence for the claim."""
        if claim.kind == "exact":
            return self.claim.kind == "exact"
        return self.claim.bound <= claim.bound

    def __str__(self) -> str:
        text = f"{self.claim}: {self.kind}, {self.cases} cases, {self.mismatches} differ"
        return text if self.witness is None else f"{text}, at {self.witness} by {self.max_lsb}"


def _made(
    kind: Kind,
    cases: int,
    mismatches: int,
    most: int,
    witness: tuple[int | float, ...] | None,
    domain: tuple[int, int] | None = None,
) -> Certificate:
    claim = Claim("lsb", most) if mismatches else Claim("exact")
    return Certificate(kind, claim, cases, mismatches, most, witness, domain)


def bound(steps: float, witness: tuple[int | float, ...] | None = None) -> Certificate:
    """A derived bound in steps of the output."""
    if not np.isfinite(steps) or steps < 0:
        raise QuantError("bound is not a finite number of steps")
    return Certificate("bound", Claim("approx", steps), 0, 0, int(np.ceil(steps)), witness)


def ordinals(codes: Array, kind: CodeType) -> Ints:
    """Numbers that count codes in ascending order; differences are LSB (ulp of float codes)."""
    if kind.kind == "int":
        return codes.astype(np.int64)
    sign = 1 << (kind.bits - 1)
    pattern = codes.view(np.uint8).astype(np.int64) & (2 * sign - 1)
    return np.where(pattern >= sign, sign - pattern, pattern)


def exhaust_unary(
    f: Callable[[Array], Array], g: Callable[[Array], Array], code: CodeType, target: CodeType
) -> Certificate:
    """Two functions from codes to codes of `target`, at every code (not at NaN)."""
    codes = every_code(code)
    codes = codes[np.isfinite(values_of(codes))]
    return _compared((codes,), f(codes), g(codes), target)


def exhaust_binary(
    f: Callable[[Array, Array], Array],
    g: Callable[[Array, Array], Array],
    first: CodeType,
    second: CodeType,
    target: CodeType,
) -> Certificate:
    """Two functions of two operands, at every pair of codes; 8 bits: 65,536."""
    if first.count * second.count > MOST_CASES:
        raise QuantError(f"{first.count * second.count} pairs are too many")
    a, b = (x.reshape(-1) for x in _grid(every_code(first), every_code(second)))
    return _compared((a, b), f(a, b), g(a, b), target)


def _grid(a: Array, b: Array) -> tuple[Array, Array]:
    return np.repeat(a, len(b)), np.tile(b, len(a))


def _compared(operands: tuple[Array, ...], f: Array, g: Array, target: CodeType) -> Certificate:
    difference = np.abs(ordinals(f, target) - ordinals(g, target))
    worst = int(difference.argmax())
    most = int(difference[worst])
    at = tuple(_plain(values_of(x[worst : worst + 1])[0]) for x in operands) if most else None
    return _made("exhausted", difference.size, int((difference > 0).sum()), most, at)


def _plain(value: float) -> int | float:
    return int(value) if float(value).is_integer() else float(value)


# --- step functions ---------------------------------------------------------------------------


def steps(
    f: Callable[[Ints], Ints],
    domain: tuple[int, int],
    near: Callable[[Ints], Floats] | None = None,
) -> Ints:
    """Where a monotone function of accumulators rises: the first accumulator of each new code.

    For code c the least accumulator with f >= c; codes that are skipped repeat a position.
    `near` guesses the positions of codes; a guess that is off costs time and nothing else.
    `QuantError` if a neighbour contradicts that f is monotone.
    """
    first, last = domain
    ends = f(np.array([first, last], np.int64))
    wanted = np.arange(ends[0] + 1, ends[1] + 1)
    below = np.full(wanted.shape, first, np.int64)  # f(below) < wanted
    at = np.full(wanted.shape, last, np.int64)  # f(at) >= wanted
    if near is not None and wanted.size:
        guess = np.clip(near(wanted), first + _AROUND, last - _AROUND).astype(np.int64)
        for place in (guess - _AROUND, guess + _AROUND):
            place = np.clip(place, first, last)
            reached = f(place) >= wanted
            at = np.where(reached, np.minimum(at, place), at)
            below = np.where(reached, below, np.maximum(below, place))
    while wanted.size and (at - below).max() > 1:
        middle = (below + at) >> 1
        reached = f(middle) >= wanted
        at, below = np.where(reached, middle, at), np.where(reached, below, middle)
    if ends[1] < ends[0] or (f(at) < wanted).any() or (f(at - 1) >= wanted).any():
        raise QuantError("not a monotone function of the accumulator")
    return at


def compare_steps(
    f: Callable[[Ints], Ints],
    g: Callable[[Ints], Ints],
    domain: tuple[int, int],
    near: Callable[[Ints], Floats] | None = None,
) -> Certificate:
    """Two monotone step functions over every integer of the domain.

    Between two positions at which either rises both are constant, so their values there, times
    the distances, count every accumulator.
    """
    first, last = domain
    found = (steps(f, domain, near), steps(g, domain, near))
    starts = np.unique(np.concatenate(([first], *found)))
    lengths = np.diff(np.append(starts, last + 1))
    difference = np.abs(f(starts) - g(starts))
    most = int(difference.max())
    mismatches = int(lengths[difference > 0].sum())
    witness = None
    if most:
        candidates = starts[difference == most]
        witness = (int(candidates[np.abs(candidates).argmin()]),)
    return _made("steps", last - first + 1, mismatches, most, witness, domain)


def compare_requantizers(
    a: Requantizer,
    b: Requantizer,
    ratio: Ratio,
    zero_point: int,
    low: int,
    high: int,
    domain: tuple[int, int] | None = None,
) -> Certificate:
    """Two requantizers over the whole int32 range where both are defined (or in `domain`)."""
    factors = (a.derive(ratio), b.derive(ratio))
    return compare_factors(a, b, factors, zero_point, low, high, domain)


def compare_factors(
    a: Requantizer,
    b: Requantizer,
    factors: tuple[Factor, Factor],
    zero_point: int,
    low: int,
    high: int,
    domain: tuple[int, int] | None = None,
) -> Certificate:
    """The same for what each has derived already, for instance from scales.

    Several channels: the sums and the worst of all; the witness is (accumulator, channel) then.
    """
    found = []
    for x, y in zip(*_per_channel(*factors), strict=True):
        limits = [a.domain(x), b.domain(y), *([domain] if domain else [])]
        covered = (max(d[0] for d in limits), min(d[1] for d in limits))
        if covered[0] > covered[1]:
            raise QuantError("no accumulator is in the domain of both")
        f, g = (partial(_applied, r, v, zero_point, low, high) for r, v in ((a, x), (b, y)))
        near = partial(_position, _slope(x), zero_point)
        found.append(compare_steps(f, g, covered, near))
    return found[0] if len(found) == 1 else _joined(found)


def _applied(
    requantizer: Requantizer, factor: Factor, zero_point: int, low: int, high: int, acc: Ints
) -> Ints:
    return requantizer.apply(acc, factor, zero_point, low, high)


def _slope(factor: Factor) -> float:
    """The ratio that a factor stands for, roughly."""
    if isinstance(factor, Fixed):
        return float(np.ldexp(float(factor.multiplier), -int(factor.shift)))
    if isinstance(factor, Single):
        return float(factor.scale)
    return float(Fraction(int(factor.numerator[()]), int(factor.denominator[()])))


def _position(slope: float, zero_point: int, codes: Ints) -> Floats:
    """About where an exact requantizer reaches the codes; 0 for a ratio of 0."""
    found = (codes - zero_point - 0.5) / slope if slope else np.zeros(codes.shape)
    return np.asarray(np.ceil(found), np.float64)


def _per_channel(*factors: Factor) -> list[list[Factor]]:
    """Each channel's factor by itself; one for all is repeated."""
    split = [_split(f) for f in factors]
    most = max(len(s) for s in split)
    if any(len(s) not in (1, most) for s in split):
        raise QuantError("different numbers of channels")
    return [s * most if len(s) == 1 else s for s in split]


def _split(factor: Factor) -> list[Factor]:
    fields = [getattr(factor, name) for name in type(factor).__slots__]
    size = max(f.size for f in fields)
    flat = [np.broadcast_to(f.reshape(-1), (size,)) for f in fields]
    return [type(factor)(*(f[i : i + 1].reshape(()) for f in flat)) for i in range(size)]


def _joined(parts: list[Certificate]) -> Certificate:
    worst = max(range(len(parts)), key=lambda i: parts[i].max_lsb)
    at = parts[worst].witness
    limits = [p.domain for p in parts if p.domain is not None]
    return _made(
        "steps",
        sum(p.cases for p in parts),
        sum(p.mismatches for p in parts),
        parts[worst].max_lsb,
        None if at is None else (*at, worst),
        (max(d[0] for d in limits), min(d[1] for d in limits)),
    )
