"""Real numbers as sums of exact terms, with a bound on what was rounded on the way.

In: terms. Out: `Real`: value = sum of terms, off by at most `err`. While nothing but sums, products
and selections were computed, `err` is 0 and every question (which sign, which integer is nearest)
has an exact answer. Functions such as Sigmoid are computed in float64 and add to `err`; a question
whose answer hangs on it is counted as undecided and answered for the number at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.terms import ONE, Term
from rewrite.quant.codes import Array, Floats, Ints, values_of

EPS = 2.0**-52
MOST_TERMS = 6

Broadcast = tuple[int, ...]


@dataclass(slots=True)
class Doubts:
    """How many answers of one run hung on the rounding of float64."""

    undecided: int = 0


class Real:
    """A tensor of real numbers. `dtype` is the element type that the model gives it."""

    __slots__ = ("_floats", "dtype", "err", "terms")

    def __init__(self, terms: Sequence[Term], err: float = 0.0, dtype: Any = np.float32) -> None:
        self.terms = tuple(terms)
        self.err = err
        self.dtype = np.dtype(dtype)
        self._floats: Floats | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        if len(self.terms) == 1:
            return self.terms[0].x.shape
        return np.broadcast_shapes(*(t.x.shape for t in self.terms))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def floats(self) -> Floats:
        """The numbers in float64; see `slack`."""
        if self._floats is None:
            total = self.terms[0].floats()
            with np.errstate(all="ignore"):
                for term in self.terms[1:]:
                    total = total + term.floats()
            self._floats = np.asarray(total)
        return self._floats

    @property
    def slack(self) -> float:
        """By how much `floats` may be off: what was lost before, and in adding the terms up."""
        if len(self.terms) == 1 and self.terms[0].table == ONE:
            return self.err
        return self.err + (len(self.terms) + 2) * EPS * sum(t.largest() for t in self.terms)

    @property
    def largest(self) -> float:
        return sum(t.largest() for t in self.terms)

    @property
    def whole(self) -> list[Term]:
        """The terms, each of the shape of the tensor; sums may have some that broadcast."""
        shape = self.shape
        return [widened(t, shape) for t in self.terms]

    @property
    def single(self) -> Term | None:
        """The only term, if it is exact."""
        return self.terms[0] if len(self.terms) == 1 and self.terms[0].exact else None

    @property
    def plain(self) -> Array | None:
        """The numbers in the model's element type, if that has all of them exactly."""
        term = self.single
        if term is None or self.err:
            return None
        if term.table != ONE and not (term.x == 1.0).all():
            return None  # products; numbers that are given have the factor 1
        if any(Fraction(float(f)) != f for f in term.table):
            return None
        array = self.rounded()
        return array if np.array_equal(values_of(array), self.floats, equal_nan=True) else None

    def moved(self, move: exact.Move) -> Real:
        """Elements rearranged; see `terms.moved`."""
        return Real([exact.moved(t, move) for t in self.whole], self.err, self.dtype)

    def rounded(self) -> Array:
        """The numbers in the model's element type."""
        with np.errstate(all="ignore"):
            return np.asarray(self.floats.astype(self.dtype))


def lift(value: Real | Array) -> Real:
    """A real tensor; of a float array its numbers, of integers themselves."""
    if isinstance(value, Real):
        return value
    if value.dtype.kind in "iub":
        return Real([exact.integers(value)], dtype=value.dtype)
    term = exact.floats(value)
    return Real([term], 0.0, value.dtype)


def known(x: Floats, err: float, dtype: Any) -> Real:
    """Numbers computed in float64."""
    return Real([exact.inexact(x)], err, dtype)


def widened(term: Term, shape: Broadcast) -> Term:
    """The term broadcast to a shape."""
    if term.x.shape == shape:
        return term
    x, index = np.broadcast_to(term.x, shape), term.index
    if index is not None:
        index = index.reshape((1,) * (len(shape) - index.ndim) + index.shape)
    return Term(x, term.table, index, term.grid, term.bound)


def total(parts: Sequence[Term], err: float, dtype: Any) -> Real:
    """The sum of terms; those with one scale become one, and too many become floats."""
    np.broadcast_shapes(*(part.x.shape for part in parts))  # raises where they do not fit
    found: list[Term] = []
    for part in parts:
        for k, other in enumerate(found):
            sum_ = exact.merged(other, part)
            if sum_ is not None:
                found[k] = sum_
                break
        else:
            found.append(part)
    real = Real(found, err, dtype)
    mixed = any(not t.exact for t in found) and len(found) > 1
    return collapsed(real) if mixed or len(found) > MOST_TERMS else real


def collapsed(real: Real) -> Real:
    """The same in float64, with what that loses in `err`."""
    if len(real.terms) == 1 and real.terms[0].table == ONE:
        return real
    return known(real.floats, real.slack, real.dtype)


# --- arithmetic -------------------------------------------------------------------------------


def add(a: Real, b: Real) -> Real:
    return total([*a.terms, *b.terms], a.err + b.err, a.dtype)


def negate(a: Real) -> Real:
    return Real([exact.scaled(t, Fraction(-1)) for t in a.terms], a.err, a.dtype)


def subtract(a: Real, b: Real) -> Real:
    return add(a, negate(b))


def multiply(a: Real, b: Real) -> Real:
    err = a.err * b.largest + b.err * a.largest + a.err * b.err
    products = [exact.product(s, t) for s in a.terms for t in b.terms]
    kept = [p for p in products if p is not None]
    if len(kept) == len(products) <= MOST_TERMS:
        return total(kept, err, a.dtype)
    with np.errstate(all="ignore"):
        x = np.asarray(a.floats * b.floats)
    err = a.slack * b.largest + b.slack * a.largest + EPS * exact.magnitude(x)
    return known(x, err, a.dtype)


def reciprocal(b: Real) -> Real | None:
    """1 / b, where it is a few rationals; None elsewhere."""
    term = b.single
    if term is None or b.err or term.x.size == 0 or not np.all(term.x):
        return None
    if any(f == 0 for f in term.table):
        return None
    if np.all(term.x == term.x.reshape(-1)[0]):
        step = Fraction(float(term.x.reshape(-1)[0]))
        table = tuple(1 / (f * step) for f in term.table)
        return Real([Term(np.ones(term.x.shape), table, term.index, 0, 1.0)], 0.0, b.dtype)
    if term.x.size > 1024:
        return None
    sums, index = exact.exact_values([term], np.arange(term.x.size), term.x.shape)
    table = tuple(1 / f for f in sums)
    places = index.reshape(term.x.shape).astype(np.int32)
    return Real([exact.compact(Term(np.ones(term.x.shape), table, places, 0, 1.0))], 0.0, b.dtype)


def divide(a: Real, b: Real) -> Real:
    inverse = reciprocal(b)
    if inverse is not None:
        return multiply(a, inverse)
    with np.errstate(all="ignore"):
        x = np.asarray(a.floats / b.floats)
        least = float(np.min(np.abs(b.floats))) if b.size else 1.0
    top = exact.magnitude(x)
    err = (a.slack + top * b.slack) / least if least else np.inf
    return known(x, err + EPS * top if np.isfinite(err) else 0.0, a.dtype)


# --- questions --------------------------------------------------------------------------------


def signs(real: Real, doubts: Doubts) -> Ints:
    """-1, 0 or 1 for each number; NaN counts as 0."""
    x = real.floats
    sign = np.nan_to_num(np.sign(x)).astype(np.int64)
    term = real.single
    if term is not None and len(real.terms) == 1:
        if real.err:
            doubts.undecided += int((np.abs(x) <= real.err).sum())
        return sign
    slack = real.slack
    doubt = np.abs(x) <= slack
    if slack and doubt.any() and all(t.exact for t in real.terms):
        where = np.flatnonzero(doubt)
        sums, inverse = exact.exact_values(real.terms, where, real.shape)
        found = np.array([(f > 0) - (f < 0) for f in sums], np.int64)
        sign = sign.copy()
        sign.reshape(-1)[where] = found[inverse]
    if real.err:
        doubts.undecided += int((np.abs(x) <= real.err).sum())
    return sign


def nearest(real: Real, step: Term, low: float, high: float, doubts: Doubts) -> Floats:
    """The integers nearest to real / step, ties to even, exact within [low, high] and beyond."""
    return _integers(real, step, (low, high), half=True, doubts=doubts)


def truncated(real: Real, doubts: Doubts) -> Floats:
    """The integers next to the numbers, toward zero."""
    one = Term(np.ones(()), ONE, None, 0, 1.0)
    return _integers(real, one, (-(2.0**62), 2.0**62), half=False, doubts=doubts)


def _integers(
    real: Real, step: Term, limits: tuple[float, float], half: bool, doubts: Doubts
) -> Floats:
    with np.errstate(all="ignore"):
        widths = step.floats()
        q = np.asarray(real.floats / widths)
        found = np.rint(q) if half else np.trunc(q)
        edge = np.abs(q - np.floor(q) - 0.5) if half else np.abs(q - np.rint(q))
        # q itself is rounded, and so are the scales.
        room = real.slack / np.abs(widths) + 4 * EPS * np.abs(q)
        risk = real.err / np.abs(widths)
        inside = (q > limits[0] - 1) & (q < limits[1] + 1)
        doubt = (edge <= room) & inside
    if real.err:
        doubts.undecided += int(((edge <= risk) & inside).sum())
    same = len(real.terms) == 1 and real.terms[0].table == step.table == ONE  # q is not rounded
    if same or not doubt.any():
        return np.asarray(found)
    where = np.flatnonzero(doubt)
    sums, inverse = exact.exact_values(real.terms, where, q.shape)
    places = np.broadcast_to(exact.full_index(step), q.shape).reshape(-1)[where]
    factors = np.broadcast_to(step.x, q.shape).reshape(-1)[where]
    first, which = exact.distinct([inverse, places, factors])
    answers = [
        _integer(sums[inverse[k]] / (step.table[places[k]] * Fraction(float(factors[k]))), half)
        for k in first
    ]
    settled = np.array(found, np.float64)
    settled.reshape(-1)[where] = np.array(answers, np.float64)[which]
    return settled


def _integer(value: Fraction, half: bool) -> int:
    return round(value) if half else int(value)  # Python rounds ties to even, int toward zero


def values_as_real(array: Array, dtype: Any = None) -> Real:
    """Every number of an array exactly, however many there are."""
    wide = values_of(array)
    grid = exact.grid_of(wide)
    term = (
        exact.inexact(wide) if grid is None else Term(wide, ONE, None, grid, exact.magnitude(wide))
    )
    return Real([term], 0.0, array.dtype if dtype is None else dtype)
