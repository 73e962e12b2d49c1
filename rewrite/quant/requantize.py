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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol

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

# How products are rounded; what else a target computes with codes follows from it.
Arithmetic = Literal[
    "rational", "float32", "half_up", "toward_zero", "half_up_then_away", "half_up_twice"
]
DOUBLING = ("half_up_then_away", "half_up_twice")


class Requantizer(Protocol):
    """One way from accumulators to codes."""

    @property
    def name(self) -> str: ...

    @property
    def arithmetic(self) -> Arithmetic: ...

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
    arithmetic: Arithmetic = "rational"

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
    arithmetic: Arithmetic = "float32"

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


def _left_shifted(acc: Array, shift: Array) -> Ints:
    """acc 2^(31 - shift) where that is a shift to the left, saturated to int32."""
    left = np.maximum(31 - shift, 0)
    return np.asarray(np.clip(np.asarray(acc, np.int64) << left, *INT32))


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """An integer multiplier and a shift; `pair` gives both for one ratio.

    half_up            (acc q + 2^(shift - 1)) >> shift in 64 bits
    toward_zero        acc q / 2^shift without the fraction
    half_up_then_away  SRDHM, then what is left of the shift, ties away from zero
    half_up_twice      SRDHM, then what is left of the shift, ties up
    """

    name: str
    pair: Callable[[Fraction], tuple[int, int]]
    arithmetic: Arithmetic

    def derive(self, ratio: Ratio) -> Fixed:
        found = ratios(ratio)
        pairs = [self.pair(r) for r in found.reshape(-1)]
        return Fixed(_each([q for q, _ in pairs], found), _each([s for _, s in pairs], found))

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self.derive(_same_rank(exact_ratio(x, w, y), x, w, y))

    def apply(
        self, acc: Array, factor: Factor, zero_point: int, low: int, high: int, axis: int = 0
    ) -> Ints:
        assert isinstance(factor, Fixed)
        q, shift = (_channels(a, acc, axis) for a in (factor.multiplier, factor.shift))
        if self.arithmetic in DOUBLING:
            high_word = srdhm(_left_shifted(acc, shift), q)
            rounded = half_away if self.arithmetic == "half_up_then_away" else half_up
            steps = rounded(high_word, np.maximum(shift - 31, 0))
        else:
            rounded = half_up if self.arithmetic == "half_up" else toward_zero
            steps = rounded(acc.astype(np.int64) * q, shift)
        return _finish(steps, zero_point, low, high)

    def domain(self, factor: Factor) -> tuple[int, int]:
        if self.arithmetic not in DOUBLING:
            return INT32
        assert isinstance(factor, Fixed)
        left = max(0, int(np.max(31 - factor.shift)))
        return INT32[0] >> left, INT32[1] >> left


@dataclass(frozen=True, slots=True)
class Rndnu(FixedPoint):
    """The ratio is one of float32 scales, computed in float32."""

    def derive_scales(self, x: Array, w: Array, y: Array) -> Fixed:
        return self.derive(_f32_ratio(x, w, y))


def _rndnu_pair(ratio: Fraction) -> tuple[int, int]:
    """The 24 bits of the ratio in float32, which has to be in [2^-32, 2^8)."""
    scale = float(_as_f32(np.array([float(ratio)]), ())[()])
    if not 2.0**-32 <= scale < 256:
        raise QuantError("ratio outside of [2^-32, 2^8)")
    mantissa, exponent = math.frexp(scale)
    return int(math.ldexp(mantissa, 24)), 24 - exponent


def _vela_pair(ratio: Fraction) -> tuple[int, int]:
    """Vela's quantise_scale; a shift that 6 bits do not hold gives (0, 16)."""
    mantissa, exponent = math.frexp(float(ratio))
    shift = 31 - exponent
    if not 0 <= shift < 64:
        return 0, 16
    return round_fraction(Fraction(mantissa) * (1 << 31), Rounding.HALF_AWAY), shift


def _hvx_pair(ratio: Fraction) -> tuple[int, int]:
    """The shift of vasr has 4 bits: ratios below 2^-16 get a smaller multiplier instead."""
    q, shift = quantize_multiplier(ratio)
    if shift <= 46:
        return q, shift
    return round_fraction(Fraction(float(ratio)) * (1 << 46), Rounding.HALF_AWAY), 46


# tflite_double: also CMSIS-NN. tflite_single: TFLITE_ and CMSIS_NN_USE_SINGLE_ROUNDING. rndnu:
# XNNPACK for Arm and scalar code. vela: Ethos-U, by one of its three rounding modes. hvx: vmpye and
# vmpyo:<<1:rnd:sat, then vasr:rnd:sat, whose saturation to 16 bits cannot be seen behind the clamp
# to 8-bit codes.
REQUANTIZERS: Mapping[str, Requantizer] = {
    requantizer.name: requantizer
    for requantizer in (
        OnnxQdq(),
        OrtX86(),
        FixedPoint("tflite_double", quantize_multiplier, "half_up_then_away"),
        FixedPoint("tflite_single", quantize_multiplier, "half_up"),
        Rndnu("rndnu", _rndnu_pair, "half_up"),
        FixedPoint("vela", _vela_pair, "half_up_then_away"),
        FixedPoint("vela_natural", _vela_pair, "half_up"),
        FixedPoint("vela_truncate", _vela_pair, "toward_zero"),
        FixedPoint("hvx", _hvx_pair, "half_up_twice"),
    )
}
