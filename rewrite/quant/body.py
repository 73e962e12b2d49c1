"""Requantization written once, over steps that numpy, a graph or a machine can take.

In: an accumulator as some kind of value, the factor that a requantizer derived, what the code is
clamped to. Out: the code as the same kind of value. `Arrays` takes the steps on numpy arrays, which
gives the value that a certificate compares; a builder of nodes takes them in standard operators,
which gives the body of a group. Both run this one text, so that what was proved is what is written.

Integers are s64. A shift to the right with rounding half up is floor((x m + h) / 2^s), and standard
operators divide toward zero; so a multiple of 2^s that makes the dividend positive is added before
and taken off afterwards. `bound` limits |acc|: from it follows that no product leaves 63 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from rewrite.quant.codes import Array, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import (
    DOUBLING,
    REQUANTIZERS,
    Arithmetic,
    Factor,
    Fixed,
    Ratio,
    Requantizer,
    Single,
)

W = TypeVar("W")
V = TypeVar("V")
_LIMIT = 1 << 63
_DOUBLING = 31  # bits of a saturating rounding doubling high multiply

Spread = Callable[[Array], Array]  # per-channel numbers in a shape that broadcasts with `acc`


class Steps(Protocol[W]):
    """The operations that a body is made of; constants are numpy arrays of the type at hand."""

    def cast(self, x: W, dtype: str) -> W: ...
    def add(self, x: W, y: W | Array) -> W: ...
    def multiply(self, x: W, y: W | Array) -> W: ...
    def divide(self, x: W, y: W | Array) -> W:
        """Integers: toward zero."""
        ...

    def sign(self, x: W) -> W: ...
    def clip(self, x: W, low: Array, high: Array) -> W: ...
    def round(self, x: W) -> W:
        """Half to even."""
        ...


@dataclass(frozen=True, slots=True)
class Clamp:
    """Codes lie in [low, high] and have the element type; all integers."""

    zero_point: int
    low: int
    high: int
    dtype: str


def has_body(name: str) -> bool:
    """Whether the requantizer can be written in integers of 64 bits or in float32."""
    return name in REQUANTIZERS and REQUANTIZERS[name].arithmetic != "rational"


def requantize(
    steps: Steps[W], name: str, acc: W, factor: Factor, clamp: Clamp, bound: int, spread: Spread
) -> W:
    """The body of the requantizer `name`; `QuantError` where 63 bits are not enough."""
    if isinstance(factor, Single):
        return _in_float(steps, acc, factor, clamp, spread)
    if not isinstance(factor, Fixed):
        raise QuantError(f"{name} has no body in integers of 64 bits")
    number = Number(steps, steps.cast(acc, "s64"), bound, spread)
    multiplier, shift = _objects(factor.multiplier), _objects(factor.shift)
    arithmetic = REQUANTIZERS[name].arithmetic
    if arithmetic in DOUBLING:
        number.doubled(multiplier, shift, away=arithmetic == "half_up_then_away")
    elif arithmetic == "toward_zero":
        number.toward_zero(multiplier, shift)
    else:
        number.half_up(multiplier, shift)
    return number.code(clamp)


def _in_float(steps: Steps[W], acc: W, factor: Single, clamp: Clamp, spread: Spread) -> W:
    """float32: multiply, clamp, round half to even, add zero point."""
    return clamped_float(steps, steps.multiply(steps.cast(acc, "f32"), spread(factor.scale)), clamp)


def clamped_float(steps: Steps[W], x: W, clamp: Clamp) -> W:
    """The code of a float32 number of steps."""
    low, high = (np.float32(b - clamp.zero_point) for b in (clamp.low, clamp.high))
    x = steps.round(steps.clip(x, np.asarray(low), np.asarray(high)))
    if clamp.zero_point:
        x = steps.add(x, np.asarray(clamp.zero_point, np.float32))
    return steps.cast(x, clamp.dtype)


def _objects(values: Ints) -> Array:
    """Python integers, so that nothing wraps before it is checked."""
    return np.asarray(values).astype(object)


class Number(Generic[V]):
    """An integer on its way: the value, how large it can be, and a constant yet to be added."""

    def __init__(self, steps: Steps[V], value: V, bound: int, spread: Spread) -> None:
        self.steps, self.value, self.bound, self.spread = steps, value, bound, spread
        self.pending: Array = np.asarray(0, object)

    def doubled(self, multiplier: Array, shift: Array, away: bool = True) -> None:
        """A rounding doubling high multiply, then what is left of the shift."""
        left = np.maximum(_DOUBLING - shift, 0)
        self.half_up(multiplier << left, np.full_like(shift, _DOUBLING))
        rest = np.maximum(shift - _DOUBLING, 0)
        if rest.any():
            rounded = self.half_away if away else self.half_up
            rounded(np.full_like(rest, 1), rest)

    def half_up(self, multiplier: Array, shift: Array) -> None:
        """floor((x multiplier + 2^(shift - 1)) / 2^shift)."""
        self._settle()
        multiplier, shift = _common(multiplier, shift, self.bound)
        divisor = 1 << shift
        half = divisor // 2
        # The least multiple of the divisor that is not below bound * multiplier.
        offset = -(-self.bound * multiplier // divisor) * divisor
        _demand_fit(self.bound * multiplier + offset + half, divisor)
        value = self._times(multiplier)
        value = self._plus(value, offset + half)
        self.value = self._over(value, divisor)
        self.pending = -(offset // divisor)
        self._scaled(multiplier, divisor)

    def half_away(self, multiplier: Array, shift: Array) -> None:
        """x multiplier / 2^shift, ties away from zero."""
        self._settle()
        half = (1 << shift) // 2
        value = self._times(multiplier)
        if half.any():
            sign = self.steps.sign(value)
            value = self.steps.add(value, self.steps.multiply(sign, self._ints(half)))
        self.value = self._over(value, 1 << shift)
        self._scaled(multiplier, 1 << shift)

    def toward_zero(self, multiplier: Array, shift: Array) -> None:
        """x multiplier / 2^shift without the fraction."""
        self._settle()
        _demand_fit(self.bound * multiplier, 1 << shift)
        self.value = self._over(self._times(multiplier), 1 << shift)
        self._scaled(multiplier, 1 << shift)

    def code(self, clamp: Clamp) -> V:
        self.pending = self.pending + clamp.zero_point
        self._settle()
        low, high = (np.asarray(b, np.int64) for b in (clamp.low, clamp.high))
        return self.steps.cast(self.steps.clip(self.value, low, high), clamp.dtype)

    def settled(self) -> V:
        """The value with what was to be added."""
        self._settle()
        return self.value

    def _scaled(self, multiplier: Array, divisor: Array) -> None:
        self.bound = int(np.max(-(-self.bound * multiplier // divisor))) + 1

    def _settle(self) -> None:
        self.value = self._plus(self.value, self.pending)
        self.pending = np.asarray(0, object)

    def _ints(self, values: Array) -> Array:
        """As s64, one number where all channels have the same."""
        flat = np.asarray(values, object).reshape(-1)
        if all(item == flat[0] for item in flat):
            return np.asarray(int(flat[0]), np.int64)
        return self.spread(np.array([int(item) for item in flat], np.int64))

    def _times(self, factor: Array) -> V:
        if _all(factor, 1):
            return self.value
        return self.steps.multiply(self.value, self._ints(factor))

    def _plus(self, value: V, term: Array) -> V:
        return value if _all(term, 0) else self.steps.add(value, self._ints(term))

    def _over(self, value: V, divisor: Array) -> V:
        return value if _all(divisor, 1) else self.steps.divide(value, self._ints(divisor))


def _demand_fit(*numbers: Array) -> None:
    if any((np.asarray(n, object) >= _LIMIT).any() for n in numbers):
        raise QuantError("a product of the requantization does not fit 64 bits")


def _all(values: Array, number: int) -> bool:
    return bool((np.asarray(values, object) == number).all())


def _common(multiplier: Array, shift: Array, bound: int) -> tuple[Array, Array]:
    """The same fractions over one power of two, where their products still fit 62 bits."""
    most = int(np.max(shift))
    wider = multiplier << (most - shift)
    if int(np.max(wider)) * bound >= _LIMIT // 4 or most > 60:
        return multiplier, shift
    return np.asarray(wider, object), np.full_like(shift, most)


class Arrays:
    """The steps on numpy arrays."""

    _TYPES: dict[str, type[np.generic]] = {  # noqa: RUF012 - a constant
        "s64": np.int64, "f32": np.float32, "u8": np.uint8, "s8": np.int8,
        "u16": np.uint16, "s16": np.int16, "s32": np.int32,
    }  # fmt: skip

    def cast(self, x: Array, dtype: str) -> Array:
        return np.asarray(x).astype(self._TYPES[dtype])

    def add(self, x: Array, y: Array) -> Array:
        return np.asarray(x + y)

    def multiply(self, x: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.asarray(x * y)

    def divide(self, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return np.asarray(x / y)
        return np.asarray(np.sign(x) * (np.abs(x) // y))

    def sign(self, x: Array) -> Array:
        return np.asarray(np.sign(x))

    def clip(self, x: Array, low: Array, high: Array) -> Array:
        return np.asarray(np.clip(x, low, high))

    def round(self, x: Array) -> Array:
        return np.asarray(np.rint(x))


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a requantizer, as a requantizer: for accumulators of at most `bound`."""

    base: Requantizer
    bound: int

    @property
    def name(self) -> str:
        return f"{self.base.name}_body"

    @property
    def arithmetic(self) -> Arithmetic:
        return self.base.arithmetic

    def derive(self, ratio: Ratio) -> Factor:
        return self.base.derive(ratio)

    def derive_scales(self, x: Array, w: Array, y: Array) -> Factor:
        return self.base.derive_scales(x, w, y)

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        def spread(values: Array) -> Array:
            if values.size == 1:
                return values.reshape(())
            return values.reshape([values.size if i == axis else 1 for i in range(acc.ndim)])

        clamp = Clamp(zero_point, low, high, "s32")
        arrays: Any = Arrays()
        made = requantize(arrays, self.base.name, acc, factor, clamp, self.bound, spread)
        return np.asarray(made, np.int64)

    def domain(self, factor: Factor) -> tuple[int, int]:
        low, high = self.base.domain(factor)
        return max(low, -self.bound), min(high, self.bound)
