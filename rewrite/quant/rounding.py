"""Rounding modes, the order of rounding and zero point, and exact rounding of quotients.

In: numbers that are exact (integers, fractions, unevaluated sums of floats). Out: integers.

A quotient is (hi + lo) / den, where hi + lo is exact as a pair of float64 (`two_sum`,
`two_product`) and den is a float64. Whether the quotient is below, at or above an integer k or a
tie k + 1/2 is the sign of 2 (hi + lo) - (2k + 1) den, which error-free transformations give
without error (Dekker 1971, Shewchuk 1997); where they leave a doubt, rationals decide. So every
rounding here is exact, for whole arrays at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from rewrite.quant.codes import Array, Floats, Ints

# Quotients are clipped to this: far outside of 16-bit codes and of any zero point.
LARGEST = 1 << 28
# Above what is lost where a quotient is not a normal number.
_TINY = 2.0**-1000


class Rounding(Enum):
    """How a number between two integers becomes one of them."""

    HALF_EVEN = "half_even"  # IEEE 754 roundTiesToEven: ONNX, rint, cvtps2dq
    HALF_UP = "half_up"  # floor(v + 1/2): gemmlowp's SRDHM, vasr:rnd, rndnu, srshl
    HALF_AWAY = "half_away"  # roundTiesToAway: gemmlowp's RoundingDivideByPOT, C's round()
    TOWARD_ZERO = "toward_zero"
    FLOOR = "floor"
    CEILING = "ceiling"


class Order(Enum):
    """Whether the zero point is added to the rounded number, or before rounding.

    With HALF_EVEN the two differ on every tie where the zero point is odd.
    """

    ROUND_THEN_ADD = "round_then_add"  # ONNX's text; onnxruntime's QuantizeLinear, QLinearConv
    ADD_THEN_ROUND = "add_then_round"  # onnxruntime's QLinearAdd, QLinearMul, QLinearAveragePool


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and its error: s + e == a + b exactly (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded product and its error: p + e == a * b exactly, while nothing underflows."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Floats) -> tuple[Floats, Floats]:
    """Two halves of 26 bits (Veltkamp)."""
    c = 134217729.0 * a  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


@dataclass(frozen=True, slots=True)
class Parts:
    """Where exact quotients lie: `floor`, and how the rest compares with 0 and with 1/2."""

    floor: Ints
    whole: Array  # bool: the quotient is the integer `floor`
    half: Array  # -1, 0, 1: below, at or above floor + 1/2


def quotient(hi: Floats, lo: Floats, den: Floats) -> Parts:
    """The parts of (hi + lo) / den, den > 0, clipped to `LARGEST` in magnitude; infinities too."""
    hi, lo, den = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in (hi, lo, den)))
    with np.errstate(over="ignore", invalid="ignore"):
        approx = hi / den
    clipped = ~(np.abs(approx) < LARGEST)
    if clipped.any():
        if np.isnan(approx).any():
            raise ValueError("NaN has no quotient")
        bound = np.copysign(float(LARGEST), approx) * den
        hi, lo = np.where(clipped, bound, hi), np.where(clipped, 0.0, lo)
        approx = np.where(clipped, np.copysign(float(LARGEST), approx), approx)
    floor = np.floor(approx)
    whole, half = np.zeros(approx.shape, bool), np.sign(approx - floor - 0.5).astype(np.int64)
    # approx is (|hi| + |lo|) / den times 2^-52 off, and by lo / den: only near a multiple of 1/2
    # does that matter.
    twice = 2 * approx
    off = 2.0**-48 * np.abs(twice) + 4 * np.abs(lo) / den + _TINY
    near = np.flatnonzero(np.abs(twice - np.rint(twice)) <= off)
    if near.size:
        few = (np.ravel(a)[near] for a in (hi, lo, den, floor))
        floor.flat[near], whole.flat[near], half.flat[near] = _located(*few)
    return Parts(floor.astype(np.int64), whole, half)


def _located(hi: Floats, lo: Floats, den: Floats, k: Floats) -> tuple[Floats, Array, Array]:
    """The parts of quotients, without doubt; `k` is off by one at most."""
    k = k - (_compare(hi, lo, k, den) < 0)
    k = k + (_compare(hi, lo, k + 1, den) >= 0)
    whole = np.asarray(_compare(hi, lo, k, den) == 0)
    return k, whole, _compare(2 * hi, 2 * lo, 2 * k + 1, den)


def _compare(hi: Floats, lo: Floats, k: Floats, den: Floats) -> Array:
    """The sign of hi + lo - k den, exact."""
    product, rest = two_product(k, den)
    d, d_error = two_sum(hi, -product)
    t, t_error = two_sum(lo, -rest)
    s, s_error = two_sum(d, t)
    sign = np.sign(s)
    small = np.abs(s_error) + np.abs(d_error) + np.abs(t_error)
    doubt = ((d_error != 0) | (t_error != 0)) & (np.abs(s) <= 2 * small)
    for i in np.flatnonzero(doubt):
        terms = (a.flat[i] for a in (s, s_error, d_error, t_error))
        total = sum((Fraction(float(x)) for x in terms), Fraction(0))
        sign.flat[i] = (total > 0) - (total < 0)
    return sign


def round_parts(
    parts: Parts, mode: Rounding, zero_point: Array | int = 0, order: Order = Order.ROUND_THEN_ADD
) -> Ints:
    """Rounded quotients plus zero point, not saturated."""
    zero = np.asarray(zero_point, np.int64)
    seen = parts.floor + zero if order is Order.ADD_THEN_ROUND else parts.floor
    up = _goes_up(seen, parts.whole, parts.half, mode)
    return np.asarray(parts.floor + zero + up, np.int64)


def _goes_up(floor: Ints, whole: Array, half: Array, mode: Rounding) -> Array:
    """Where the result is floor + 1."""
    if mode is Rounding.FLOOR:
        return np.zeros(np.shape(floor), bool)
    if mode is Rounding.CEILING:
        return ~whole
    if mode is Rounding.TOWARD_ZERO:
        return np.asarray(~whole & (floor < 0), bool)
    at_tie = half == 0
    if mode is Rounding.HALF_EVEN:
        return np.asarray((half > 0) | (at_tie & (floor % 2 != 0)))
    if mode is Rounding.HALF_AWAY:
        return np.asarray((half > 0) | (at_tie & (floor >= 0)))
    return np.asarray(half >= 0)


def round_ratio(
    numerator: Array, denominator: Array | int, mode: Rounding = Rounding.HALF_EVEN
) -> Array:
    """Integers / positive integers, rounded; any size when the arrays hold Python integers.

    For int64 arrays |numerator| and 2 * denominator have to stay below 2^62.
    """
    shape = np.broadcast_shapes(np.shape(numerator), np.shape(denominator))
    n, d = np.atleast_1d(numerator), np.atleast_1d(denominator)  # rank 0 would lose its type
    floor = n // d
    rest = n - floor * d
    twice = 2 * rest - d
    half = (twice > 0).astype(np.int8) - (twice < 0).astype(np.int8)
    up = _goes_up(floor, np.asarray(rest == 0, bool), half, mode)
    return np.asarray(np.where(up, floor + 1, floor).reshape(shape))


def round_fraction(value: Fraction, mode: Rounding = Rounding.HALF_EVEN) -> int:
    """One rational, rounded."""
    return int(round_ratio(np.array([value.numerator], object), value.denominator, mode)[0])
