"""Requantization: from an accumulator to a code, bit for bit as each implementation does it.

In: accumulators (integers of up to 32 bits), the ratio of scales x_s w_s / y_s, a zero point, the
least and the largest code. Out: codes in int64.

Each requantizer derives from the ratio what its kernel holds (`Fixed`, `Single`, `Rational`; one
for all channels or one each) and applies it in int64, so no intermediate of 33 or 63 bits wraps.
Every map is monotone in the accumulator: conversion, multiplication by a positive constant,
rounding and clamping all are. `domain` is where the C code or the hardware is defined; outside of
it, where int32 would overflow, values saturate here, which keeps the maps monotone.

Sources: ONNX QLinearConv, QLinearMatMul; onnxruntime mlas/lib/quantize.cpp MlasRequantizeOutput;
TensorFlow Lite kernels/internal/common.h, quantization_util.cc; CMSIS-NN arm_nnsupportfunctions.h;
XNNPACK qs8 rndnu; Arm Vela scaling.py, the Ethos-U rounding modes; Hexagon HVX reference manual.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rewrite.quant.codes import Array, Floats, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.rounding import (
    Order,
    Rounding,
    quotient,
    round_fraction,
    round_parts,
    round_ratio,
    two_product,
)

INT32 = (-(1 << 31), (1 << 31) - 1)

Ratio = Fraction | float | Sequence[Fraction] | Sequence[float] | npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """ratio ~ multiplier 2^-shift. Arrays of rank 0, or of rank 1 with one element per channel.

    TensorFlow Lite's own shift, positive to the left, is 31 - shift.
    """

    multiplier: Ints
    shift: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Single:
    """The ratio in float32."""

    scale: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Rational:
    """The ratio itself, numerators and denominators as Python integers."""

    numerator: Array
    denominator: Array


Factor = Fixed | Single | Rational


class Requantizer(Protocol):
    """One way from accumulators to codes."""

    @property
    def name(self) -> str: ...

    def derive(self, ratio: Ratio) -> Factor:
        """What the kernel holds for the ratio; `QuantError` for one that it does not take."""

    def derive_scales(self, x: Array, w: Array, y: Array) -> Factor:
        """The same from the scales, in the arithmetic in which the runtime computes the ratio."""

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        """Codes in [low, high]. `axis` of `acc` holds the channels of per-channel factors."""

    def domain(self, factor: Factor) -> tuple[int, int]:
        """The accumulators for which every channel is defined."""


def exact_ratio(x: Array, w: Array, y: Array) -> list[Fraction]:
    """x_s w_s / y_s per channel, as rationals."""
    sizes = np.broadcast_shapes(np.shape(x), np.shape(w), np.shape(y))
    spread = (np.broadcast_to(np.asarray(a), sizes).reshape(-1) for a in (x, w, y))
    return [_fraction(a) * _fraction(b) / _fraction(c) for a, b, c in zip(*spread, strict=True)]


def _fraction(value: object) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(float(value))  # type: ignore[arg-type]


def ratios(ratio: Ratio) -> Array:
    """The ratios as an object array of `Fraction`, rank 0 or 1; `QuantError` unless positive."""
    given = np.asarray(ratio, object)
    one, items = given.ndim == 0, list(given.reshape(-1))
    if not items:
        raise QuantError("no ratio")
    if not all(isinstance(r, Fraction) or math.isfinite(r) for r in items):
        raise QuantError("ratio is not finite")
    out = np.empty(len(items), object)
    out[:] = [_fraction(r) for r in items]
    if any(r <= 0 for r in out):
        raise QuantError("ratio is not positive")
    return out.reshape(()) if one else out


def _each(found: Sequence[int], like: Array) -> Ints:
    return np.array(found, np.int64).reshape(like.shape)


def _channels(values: Array, acc: Array, axis: int) -> Array:
    """Per-channel values in a shape that broadcasts with the accumulators."""
    if values.ndim == 0 or values.size == 1:
        return values.reshape(())
    sizes = [1] * acc.ndim
    sizes[axis] = values.size
    return values.reshape(sizes)


def _finish(steps: Array, zero_point: int, low: int, high: int) -> Ints:
    return np.asarray(np.clip(steps + zero_point, low, high), np.int64)


# --- exact ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OnnxQdq:
    """The rational acc x_s w_s / y_s, half to even, then the zero point: the text of ONNX."""

    name: str = "onnx_qdq"

    def derive(self, ratio: Ratio) -> Rational:
        found = ratios(ratio)
        n, d = np.empty(found.shape, object), np.empty(found.shape, object)
        for i, r in np.ndenumerate(found):
            n[i], d[i] = r.numerator, r.denominator
        return Rational(n, d)

    def derive_scales(self, x: Array, w: Array, y: Array) -> Rational:
        return self.derive(_same_rank(exact_ratio(x, w, y), x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Rational)
        n, d = _channels(factor.numerator, acc, axis), _channels(factor.denominator, acc, axis)
        return rational_codes(acc, n, d, zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return INT32


def rational_codes(
    acc: Array,
    numerator: Array,
    denominator: Array,
    zero_point: Array | int,
    low: int,
    high: int,
    rounding: Rounding = Rounding.HALF_EVEN,
    order: Order = Order.ROUND_THEN_ADD,
) -> Ints:
    """Codes of acc numerator / denominator; the arrays hold Python integers and broadcast."""
    if _are_floats(numerator) and _are_floats(denominator):
        hi, lo = two_product(acc.astype(np.float64), numerator.astype(np.float64))
        parts = quotient(hi, lo, denominator.astype(np.float64))
        codes = round_parts(parts, rounding, zero_point, order)
        return np.asarray(np.clip(codes, low, high), np.int64)
    shift = np.asarray(zero_point).astype(object)
    n = np.asarray(acc).astype(object) * numerator
    if order is Order.ADD_THEN_ROUND:
        n, shift = n + shift * denominator, np.zeros((), object)
    codes = round_ratio(np.asarray(n), denominator, rounding) + shift
    return np.asarray(np.clip(codes, low, high)).astype(np.int64)


def _same_rank(found: list[Fraction], *scales: Array) -> Fraction | list[Fraction]:
    """One ratio where all scales are scalars."""
    return found[0] if all(np.ndim(s) == 0 for s in scales) else found


def _are_floats(integers: Array) -> bool:
    """Whether float64 holds the integers, with room for products by accumulators."""
    return all(abs(i) < 1 << 900 and int(float(i)) == i for i in integers.reshape(-1))


# --- float32 ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrtX86:
    """float(acc) * scale, clamped to [low - zp, high - zp], half to even, then the zero point."""

    name: str = "ort_x86"

    def derive(self, ratio: Ratio) -> Single:
        found = ratios(ratio)
        return Single(_as_f32(np.array([float(r) for r in found.reshape(-1)]), found.shape))

    def derive_scales(self, x: Array, w: Array, y: Array) -> Single:
        """x_s * w_s / y_s, both steps in float32."""
        return Single(_f32_ratio(x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Single)
        scale = _channels(factor.scale, acc, axis)
        with np.errstate(over="ignore"):
            product = acc.astype(np.float32) * scale
        clamped = np.clip(product, np.float32(low - zero_point), np.float32(high - zero_point))
        return _finish(np.rint(clamped).astype(np.int64), zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return INT32


def _as_f32(values: Floats, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore", under="ignore"):
        found = values.astype(np.float32).reshape(shape)
    if not np.isfinite(found).all() or (found < np.finfo(np.float32).tiny).any():
        raise QuantError("ratio outside of float32")
    return np.asarray(found)


def _f32_ratio(x: Array, w: Array, y: Array) -> npt.NDArray[np.float32]:
    x, w, y = (np.asarray(a).astype(np.float32) for a in (x, w, y))
    with np.errstate(all="ignore"):
        found = np.asarray(x * w / y, np.float32)
    return _as_f32(found.astype(np.float64), found.shape)


# --- fixed point ------------------------------------------------------------------------------


def srdhm(a: Array, b: Array) -> Ints:
    """Saturating rounding doubling high multiply: a b / 2^31, half up; INT_MIN^2 -> INT_MAX.

    gemmlowp's SaturatingRoundingDoublingHighMul, VQRDMULH, and vmpye + vmpyo:<<1:rnd:sat.
    """
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.minimum(half_up(product, 31), INT32[1])


def half_up(x: Array, bits: Array | int) -> Ints:
    """floor(x / 2^bits + 1/2) without a wider intermediate; bits >= 0."""
    n = np.asarray(bits, np.int64)
    return np.where(n == 0, x, ((x >> np.maximum(n - 1, 0)) + 1) >> 1)


def half_away(x: Array, bits: Array | int) -> Ints:
    """gemmlowp's RoundingDivideByPOT: x / 2^bits, ties away from zero; bits >= 0."""
    return np.asarray(np.sign(x) * half_up(np.abs(x), bits), np.int64)


def toward_zero(x: Array, bits: Array | int) -> Ints:
    """x / 2^bits without the fraction."""
    return np.asarray(np.sign(x) * (np.abs(x) >> np.asarray(bits, np.int64)), np.int64)


def quantize_multiplier(ratio: Fraction) -> tuple[int, int]:
    """TensorFlow Lite's QuantizeMultiplier: (q31, shift to the right), q31 in [2^30, 2^31).

    The ratio is a double there; that of float32 scales is rounded once, by its division.
    """
    mantissa, exponent = math.frexp(float(ratio))
    q = round_fraction(Fraction(mantissa) * (1 << 31), Rounding.HALF_AWAY)
    if q == 1 << 31:
        q, exponent = q // 2, exponent + 1
    if exponent < -31:
        return 0, 31
    if exponent > 30:
        raise QuantError("ratio is not below 2^30")
    return q, 31 - exponent


def _q31(ratio: Ratio) -> Fixed:
    found = ratios(ratio)
    pairs = [quantize_multiplier(r) for r in found.reshape(-1)]
    return Fixed(_each([q for q, _ in pairs], found), _each([s for _, s in pairs], found))


def _left_shifted(acc: Array, shift: Array) -> Ints:
    """acc 2^(31 - shift) where that is a shift to the left, saturated to int32."""
    left = np.maximum(31 - shift, 0)
    return np.asarray(np.clip(np.asarray(acc, np.int64) << left, *INT32))


def _left_domain(factor: Factor) -> tuple[int, int]:
    assert isinstance(factor, Fixed)
    left = max(0, int(np.max(31 - factor.shift)))
    return INT32[0] >> left, INT32[1] >> left


@dataclass(frozen=True, slots=True)
class TfliteDouble:
    """SRDHM (half up), then RoundingDivideByPOT (half away): TensorFlow Lite and CMSIS-NN."""

    name: str = "tflite_double"

    def derive(self, ratio: Ratio) -> Fixed:
        return _q31(ratio)

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self.derive(_same_rank(exact_ratio(x, w, y), x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Fixed)
        q, shift = (_channels(a, acc, axis) for a in (factor.multiplier, factor.shift))
        doubled = srdhm(_left_shifted(acc, shift), q)
        return _finish(half_away(doubled, np.maximum(shift - 31, 0)), zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return _left_domain(factor)


@dataclass(frozen=True, slots=True)
class TfliteSingle:
    """(acc q + 2^(shift - 1)) >> shift in 64 bits: TFLITE_ and CMSIS_NN_USE_SINGLE_ROUNDING."""

    name: str = "tflite_single"

    def derive(self, ratio: Ratio) -> Fixed:
        return _q31(ratio)

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self.derive(_same_rank(exact_ratio(x, w, y), x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Fixed)
        q, shift = (_channels(a, acc, axis) for a in (factor.multiplier, factor.shift))
        return _finish(half_up(acc.astype(np.int64) * q, shift), zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return INT32


@dataclass(frozen=True, slots=True)
class Rndnu:
    """A multiplier of 24 bits, half up in 64 bits: XNNPACK's rndnu for Arm and scalar code."""

    name: str = "rndnu"

    def derive(self, ratio: Ratio) -> Fixed:
        """The mantissa of the ratio in float32, which has to be in [2^-32, 2^8)."""
        found = ratios(ratio)
        return self._of_f32(_as_f32(np.array([float(r) for r in found.flat]), found.shape))

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self._of_f32(_f32_ratio(x, w, y))

    def _of_f32(self, scale: npt.NDArray[np.float32]) -> Fixed:
        if (scale < 2.0**-32).any() or (scale >= 256).any():
            raise QuantError("ratio outside of [2^-32, 2^8)")
        mantissa, exponent = np.frexp(scale)
        return Fixed(
            np.asarray(np.ldexp(mantissa, 24), np.int64), np.asarray(24 - exponent, np.int64)
        )

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Fixed)
        q, shift = (_channels(a, acc, axis) for a in (factor.multiplier, factor.shift))
        return _finish(half_up(acc.astype(np.int64) * q, shift), zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return INT32


@dataclass(frozen=True, slots=True)
class Vela:
    """A multiplier of 31 bits and a shift of 6: Ethos-U, by one of its three rounding modes.

    tfl: SRDHM, then half away; natural: half up; truncate: toward zero.
    """

    name: str = "vela"
    rounding: str = "tfl"

    def derive(self, ratio: Ratio) -> Fixed:
        """Vela's quantise_scale; a shift that 6 bits do not hold gives (0, 16)."""
        found = ratios(ratio)
        pairs = [_vela_pair(r) for r in found.reshape(-1)]
        return Fixed(_each([q for q, _ in pairs], found), _each([s for _, s in pairs], found))

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self.derive(_same_rank(exact_ratio(x, w, y), x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Fixed)
        q, shift = (_channels(a, acc, axis) for a in (factor.multiplier, factor.shift))
        if self.rounding == "tfl":
            doubled = srdhm(_left_shifted(acc, shift), q)
            steps = half_away(doubled, np.maximum(shift - 31, 0))
        else:
            rounded = half_up if self.rounding == "natural" else toward_zero
            steps = rounded(acc.astype(np.int64) * q, shift)
        return _finish(steps, zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return _left_domain(factor) if self.rounding == "tfl" else INT32


def _vela_pair(ratio: Fraction) -> tuple[int, int]:
    mantissa, exponent = math.frexp(float(ratio))
    shift = 31 - exponent
    if not 0 <= shift < 64:
        return 0, 16
    return round_fraction(Fraction(mantissa) * (1 << 31), Rounding.HALF_AWAY), shift


@dataclass(frozen=True, slots=True)
class Hvx:
    """vmpye + vmpyo:<<1:rnd:sat, then vasr:rnd:sat: SRDHM, then half up.

    The shift of vasr has 4 bits: ratios below 2^-16 get a smaller multiplier instead. Its
    saturation to 16 bits cannot be seen behind the clamp to 8-bit codes.
    """

    name: str = "hvx"

    def derive(self, ratio: Ratio) -> Fixed:
        found = ratios(ratio)
        pairs = [_hvx_pair(r) for r in found.reshape(-1)]
        return Fixed(_each([q for q, _ in pairs], found), _each([s for _, s in pairs], found))

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self.derive(_same_rank(exact_ratio(x, w, y), x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Fixed)
        q, shift = (_channels(a, acc, axis) for a in (factor.multiplier, factor.shift))
        high_word = srdhm(_left_shifted(acc, shift), q)
        return _finish(half_up(high_word, np.maximum(shift - 31, 0)), zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        return _left_domain(factor)


def _hvx_pair(ratio: Fraction) -> tuple[int, int]:
    q, shift = quantize_multiplier(ratio)
    if shift <= 46:
        return q, shift
    return round_fraction(Fraction(float(ratio)) * (1 << 46), Rounding.HALF_AWAY), 46


REQUANTIZERS: Mapping[str, Requantizer] = {
    "onnx_qdq": OnnxQdq(),
    "ort_x86": OrtX86(),
    "tflite_double": TfliteDouble(),
    "tflite_single": TfliteSingle(),
    "rndnu": Rndnu(),
    "vela": Vela(),
    "vela_natural": Vela("vela_natural", "natural"),
    "vela_truncate": Vela("vela_truncate", "truncate"),
    "hvx": Hvx(),
}
