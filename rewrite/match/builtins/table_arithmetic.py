"""Real numbers for tables: float64 with a bound on what was rounded, and rationals.

In: the steps of scalar bodies (`rewrite.ops.scalar.Builder`). Out: numbers, codes, truth values.

`Bounded` computes in float64 and keeps, per element, how far off the number may be; where the
answer to a question (which code is nearest, which number is less) hangs on that, the element is in
`doubt`. `Rational` gives the same answers without a doubt, a thousand times slower: it is asked
about those elements only. Other functions than + - * / and comparisons are computed in float64 in
both, and their float64 results count as exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.match.values import Unknown
from rewrite.ops.scalar import NumpyBuilder
from rewrite.quant.codes import Array, CodeType, Floats, Ints
from rewrite.quant.rounding import Rounding, quotient, round_parts, two_product, two_sum

# Steps that lose nothing in rationals, or answer a question.
EXACT_STEPS = frozenset(
    {"add", "sub", "mul", "div", "min", "max", "neg", "abs", "sign", "floor", "ceil", "rint",
     "less", "less_equal", "equal", "is_nan", "select", "logical_and", "logical_or",
     "logical_not"}
)  # fmt: skip

# Of the error of an error: each is the result of a few roundings.
_SLACK = 1 + 2.0**-40


@dataclass(frozen=True, slots=True)
class Number:
    """Elements `x`, each off by at most `err`."""

    x: Floats
    err: Floats


class Bounded:
    """float64 with bounds, for `size` elements."""

    def __init__(self, size: int) -> None:
        self.doubt = np.zeros(size, bool)

    # --- to and from numbers

    def lift(self, x: Any) -> Number:
        """Floats as they are. A number of a body means the float32 that a runtime has there."""
        if isinstance(x, Number):
            return x
        wide = np.float64(np.float32(x)) if isinstance(x, float | int) else x.astype(np.float64)
        return Number(np.asarray(wide), np.zeros(()))

    def product(self, steps: Ints, scale: Floats) -> Number:
        """17 bits times 24 bits: exact."""
        return self.mul(self.lift(steps), Number(scale, np.zeros(())))

    def nearest(self, x: Number, scale: Floats, zero: Ints, code: CodeType) -> Array:
        """saturate(rint(x / scale) + zero)"""
        if np.isnan(x.x).any():
            raise Unknown("NaN has no code")
        found = quotient(x.x, np.zeros(()), scale)
        ratio = np.clip(x.x / scale, -(2.0**40), 2.0**40)
        off = np.abs(ratio - np.floor(ratio) - 0.5)
        inside = (ratio + zero > code.low - 2.0) & (ratio + zero < code.high + 2.0)
        self._doubt(inside & (off <= x.err / scale + 2.0**-50 * np.abs(ratio)) & (x.err > 0))
        rounded = round_parts(found, Rounding.HALF_EVEN, zero)
        return np.clip(rounded, code.low, code.high).astype(code.dtype)

    def truncated(self, x: Number) -> Floats:
        self._doubt((np.abs(x.x - np.rint(x.x)) <= x.err) & (x.err > 0))
        return np.trunc(x.x)

    def floats(self, x: Number) -> Floats:
        return x.x

    def nonzero(self, x: Number) -> Array:
        self._doubt((np.abs(x.x) <= x.err) & (x.err > 0))
        return np.asarray(x.x != 0)

    def _doubt(self, where: Array) -> None:
        self.doubt |= where

    # --- steps

    def add(self, x: Any, y: Any) -> Number:
        a, b = self.lift(x), self.lift(y)
        total, rest = two_sum(a.x, b.x)
        return _bounded(total, a.err + b.err + np.abs(rest))

    def sub(self, x: Any, y: Any) -> Number:
        return self.add(x, self.neg(self.lift(y)))

    def mul(self, x: Any, y: Any) -> Number:
        a, b = self.lift(x), self.lift(y)
        product, rest = two_product(a.x, b.x)
        carried = np.abs(a.x) * b.err + np.abs(b.x) * a.err + a.err * b.err
        return _bounded(product, carried + np.abs(rest))

    def div(self, x: Any, y: Any) -> Number:
        a, b = self.lift(x), self.lift(y)
        least = np.abs(b.x) - b.err
        if not (least > 0).all():
            raise Unknown("a division by zero")
        ratio = a.x / b.x
        product, rest = two_product(ratio, b.x)
        lost = np.abs((a.x - product) - rest)
        return _bounded(ratio, (a.err + np.abs(ratio) * b.err + lost) / least)

    def min(self, x: Any, y: Any) -> Number:
        a, b = self.lift(x), self.lift(y)
        return Number(np.minimum(a.x, b.x), np.maximum(a.err, b.err))

    def max(self, x: Any, y: Any) -> Number:
        a, b = self.lift(x), self.lift(y)
        return Number(np.maximum(a.x, b.x), np.maximum(a.err, b.err))

    def neg(self, x: Number) -> Number:
        return Number(-x.x, x.err)

    def abs(self, x: Number) -> Number:
        return Number(np.abs(x.x), x.err)

    def sign(self, x: Number) -> Number:
        self.nonzero(x)
        return self.lift(np.sign(x.x))

    def floor(self, x: Number) -> Number:
        self.truncated(x)
        return self.lift(np.floor(x.x))

    def ceil(self, x: Number) -> Number:
        self.truncated(x)
        return self.lift(np.ceil(x.x))

    def rint(self, x: Number) -> Number:
        off = np.abs(x.x - np.floor(x.x) - 0.5)
        self._doubt((off <= x.err) & (x.err > 0))
        return self.lift(np.rint(x.x))

    def less(self, x: Any, y: Any) -> Array:
        return np.asarray(self._compared(x, y) < 0)

    def less_equal(self, x: Any, y: Any) -> Array:
        return np.asarray(self._compared(x, y) <= 0)

    def equal(self, x: Any, y: Any) -> Array:
        return np.asarray(self._compared(x, y) == 0)

    def _compared(self, x: Any, y: Any) -> Floats:
        a, b = self.lift(x), self.lift(y)
        difference = np.where(a.x == b.x, 0.0, a.x - b.x)  # of equal infinities too
        err = a.err + b.err
        self._doubt((np.abs(difference) <= err) & (err > 0))
        return difference

    def is_nan(self, x: Number) -> Array:
        return np.isnan(x.x)

    def select(self, condition: Array, x: Any, y: Any) -> Number:
        a, b = self.lift(x), self.lift(y)
        return Number(np.where(condition, a.x, b.x), np.where(condition, a.err, b.err))

    logical_and = staticmethod(np.logical_and)
    logical_or = staticmethod(np.logical_or)
    logical_not = staticmethod(np.logical_not)


def _bounded(x: Floats, err: Floats) -> Number:
    """Infinities are what they are, and what is above float64 is treated as one."""
    return Number(x, np.where(np.isfinite(x), err * _SLACK, 0.0))


# --- rationals ----------------------------------------------------------------------------------


def _each(function: Callable[[Any], Any]) -> Callable[[Any], Array]:
    vectorized = np.frompyfunc(function, 1, 1)

    def apply(x: Any) -> Array:
        return np.asarray(vectorized(x), object)

    return apply


def _fraction(x: Any) -> Any:
    """A rational; infinities stay floats, which compare with rationals."""
    if isinstance(x, Fraction):
        return x
    plain = float(x) if isinstance(x, float | np.floating) else int(x)
    return Fraction(plain) if math.isfinite(plain) else plain


def _code(ratio: Any, code: CodeType) -> int:
    if isinstance(ratio, Fraction):
        return round(ratio)  # half to even
    return code.high << 20 if ratio > 0 else -code.high << 20


class Rational:
    """The same steps on arrays of `Fraction`."""

    def lift(self, x: Any) -> Array:
        if isinstance(x, float | int):
            return np.asarray(_fraction(float(np.float32(x))), object)
        held = np.asarray(x)
        return held if held.dtype == object else _each(_fraction)(held)

    def product(self, steps: Ints, scale: Floats) -> Array:
        return self.mul(self.lift(steps), self.lift(np.asarray(scale)))

    def nearest(self, x: Array, scale: Floats, zero: Ints, code: CodeType) -> Array:
        ratio = self.div(x, self.lift(np.asarray(scale)))
        steps = _each(lambda v: _code(v, code))(ratio) + zero
        return np.clip(steps, code.low, code.high).astype(np.int64).astype(code.dtype)

    def truncated(self, x: Array) -> Floats:
        return np.asarray(_each(math.trunc)(x)).astype(np.float64)

    def floats(self, x: Array) -> Floats:
        return x.astype(np.float64)

    def nonzero(self, x: Array) -> Array:
        return np.asarray(x != 0, bool)

    def add(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) + self.lift(y), object)

    def sub(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) - self.lift(y), object)

    def mul(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) * self.lift(y), object)

    def div(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) / self.lift(y), object)

    def min(self, x: Any, y: Any) -> Array:
        return np.asarray(np.minimum(self.lift(x), self.lift(y)), object)

    def max(self, x: Any, y: Any) -> Array:
        return np.asarray(np.maximum(self.lift(x), self.lift(y)), object)

    def neg(self, x: Array) -> Array:
        return np.asarray(-x, object)

    def abs(self, x: Array) -> Array:
        return np.asarray(np.abs(x), object)

    def sign(self, x: Array) -> Array:
        return _each(lambda v: Fraction((v > 0) - (v < 0)))(x)

    def floor(self, x: Array) -> Array:
        return _each(lambda v: Fraction(math.floor(v)))(x)

    def ceil(self, x: Array) -> Array:
        return _each(lambda v: Fraction(math.ceil(v)))(x)

    def rint(self, x: Array) -> Array:
        return _each(lambda v: Fraction(round(v)))(x)

    def less(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) < self.lift(y), bool)

    def less_equal(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) <= self.lift(y), bool)

    def equal(self, x: Any, y: Any) -> Array:
        return np.asarray(self.lift(x) == self.lift(y), bool)

    def is_nan(self, x: Array) -> Array:
        return np.asarray(x != x, bool)

    def select(self, condition: Array, x: Any, y: Any) -> Array:
        return np.asarray(np.where(condition, self.lift(x), self.lift(y)), object)

    logical_and = staticmethod(np.logical_and)
    logical_or = staticmethod(np.logical_or)
    logical_not = staticmethod(np.logical_not)


Arithmetic = Bounded | Rational
FLOATS = NumpyBuilder()
