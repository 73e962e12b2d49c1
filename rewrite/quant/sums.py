"""Sums of two codes with scales of their own, as targets add them; one text for proof and graph.

In: the ratios of both scales to that of the sum, the codes less their zero points. Out: a `Sum`
(what the kernel holds), the code as steps (`body.Steps`), and a certificate over all pairs.

float      float(a) ra + float(b) rb in float32, half to even.
weighted   (a ma + b mb + 2^(s - 1)) >> s with integers of at most 22 bits: no step between.
shared     TensorFlow Lite and CMSIS-NN: both shifted left by 20 (15 for 16-bit codes), multiplied
           to a common scale, added, multiplied to the scale of the sum; each rounds twice.

Sources: TensorFlow Lite kernels/add.cc and internal/reference/add.h; CMSIS-NN
arm_elementwise_add_s8.c; onnxruntime qladd.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from rewrite.quant.body import Arrays, Clamp, Number, Steps, W, clamped_float
from rewrite.quant.certificate import Certificate, exhaust_binary
from rewrite.quant.certificate import bound as derived
from rewrite.quant.codes import Array, CodeType
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS, Arithmetic, quantize_multiplier
from rewrite.quant.rounding import Rounding, round_ratio

Kind = Literal["float", "weighted", "shared"]

_KINDS: dict[Arithmetic, Kind] = {
    "float32": "float", "half_up_then_away": "shared", "half_up_twice": "weighted",
    "half_up": "weighted",
}  # fmt: skip
_WEIGHT_BITS = 22  # 255 * 2^22 * 2 stays below 2^31
_SHARED_SHIFT = {8: 20, 16: 15}


@dataclass(frozen=True, slots=True)
class Sum:
    """`multipliers` and `shifts`: of a, of b, and (`shared`) of the sum; floats where `float`."""

    kind: Kind
    multipliers: tuple[int | float, ...]
    shifts: tuple[int, ...]
    left: int = 0


def derive_sum(name: str, a: Fraction, b: Fraction, y: Fraction, bits: int) -> Sum:
    """From the three scales; `QuantError` where the target has no way to add them."""
    kind = _KINDS.get(REQUANTIZERS[name].arithmetic)
    if kind is None:
        raise QuantError(f"{name} has no sum of codes")
    if kind == "float":
        return Sum(kind, tuple(float(np.float32(float(s / y))) for s in (a, b)), ())
    if kind == "weighted":
        return _weighted(a / y, b / y)
    left = _SHARED_SHIFT[bits]
    twice = 2 * max(a, b)
    pairs = [quantize_multiplier(r) for r in (a / twice, b / twice, twice / ((1 << left) * y))]
    if pairs[2][1] < 31:
        raise QuantError("the scale of the sum is too small for that of its operands")
    return Sum(kind, tuple(q for q, _ in pairs), tuple(s for _, s in pairs), left)


def _weighted(a: Fraction, b: Fraction) -> Sum:
    largest = max(a, b)
    if largest >= 1 << _WEIGHT_BITS:
        raise QuantError("the scale of the sum is too small for that of its operands")
    shift = 0
    while largest * (1 << (shift + 1)) < 1 << _WEIGHT_BITS and shift < 40:
        shift += 1
    return Sum("weighted", (round(a * (1 << shift)), round(b * (1 << shift))), (shift,))


def sum_body(steps: Steps[W], plan: Sum, a: W, b: W, clamp: Clamp, most: int) -> W:
    """The code of the sum; `a` and `b` are s32, less their zero points, at most `most`."""
    if plan.kind == "float":
        scaled = [
            steps.multiply(steps.cast(x, "f32"), np.asarray(m, np.float32))
            for x, m in zip((a, b), plan.multipliers, strict=True)
        ]
        return clamped_float(steps, steps.add(*scaled), clamp)
    wide = [steps.cast(x, "s64") for x in (a, b)]
    if plan.kind == "weighted":
        parts = [_times(steps, x, int(m)) for x, m in zip(wide, plan.multipliers, strict=True)]
        limit = most * int(sum(plan.multipliers))
        number = Number(steps, steps.add(*parts), limit, _as_is)
        number.half_up(_one(1), _one(plan.shifts[0]))
        return number.code(clamp)
    shifted = [_shared(steps, x, plan, i, most) for i, x in enumerate(wide)]
    number = Number(steps, steps.add(*shifted), most << (plan.left + 1), _as_is)
    number.doubled(_one(plan.multipliers[2]), _one(plan.shifts[2]))
    return number.code(clamp)


def _times(steps: Steps[W], x: W, factor: int) -> W:
    return steps.multiply(x, np.asarray(factor, np.int64))


def _shared(steps: Steps[W], x: W, plan: Sum, place: int, most: int) -> W:
    """An operand at the common scale; its ratio is at most 1/2."""
    number = Number(steps, _times(steps, x, 1 << plan.left), most << plan.left, _as_is)
    number.doubled(_one(plan.multipliers[place]), _one(plan.shifts[place]))
    return number.settled()


def _one(value: int | float) -> Array:
    return np.array([int(value)], object)


def _as_is(values: Array) -> Array:
    return values.reshape(())


def prove_sum(
    plan: Sum,
    scales: tuple[Fraction, Fraction, Fraction],
    zeros: tuple[int, int],
    clamp: Clamp,
    codes: tuple[CodeType, CodeType, CodeType],
) -> Certificate:
    """The body against the exact sum, for every pair of codes of 8 bits.

    16 bits: what was derived is the distance of the body's number from the exact one, in steps.
    """
    a, b, y = scales
    if codes[0].bits > 8 or codes[1].bits > 8:
        return derived(1.0)
    steps: Any = Arrays()
    most = max(c.count for c in codes[:2])

    def body(first: Array, second: Array) -> Array:
        less = [x.astype(np.int32) - z for x, z in zip((first, second), zeros, strict=True)]
        return np.asarray(sum_body(steps, plan, less[0], less[1], clamp, most))

    ratios = (a / y, b / y)

    def exact(first: Array, second: Array) -> Array:
        less = [x.astype(np.int64) - z for x, z in zip((first, second), zeros, strict=True)]
        rounded = _exact(less[0], less[1], ratios) + clamp.zero_point
        return np.asarray(np.clip(rounded, clamp.low, clamp.high).astype(codes[2].dtype))

    return exhaust_binary(body, exact, codes[0], codes[1], codes[2])


def _exact(a: Array, b: Array, ratios: tuple[Fraction, Fraction]) -> Array:
    """a ra + b rb rounded half to even: in float64 except near ties, where in integers."""
    real = a * float(ratios[0]) + b * float(ratios[1])
    if np.abs(real).max(initial=0.0) > 1 << 40:
        raise QuantError("the scale of the sum is too small for that of its operands")
    rounded = np.rint(real).astype(np.int64)
    # float64 is off by less than 2^-50 of the largest term; 2^-8 of a step is far more than that.
    near = np.abs(np.abs(real - np.floor(real)) - 0.5) < 2.0**-8
    if near.any():
        under = ratios[0].denominator * ratios[1].denominator
        times = [int(r * under) for r in ratios]
        over = a[near].astype(object) * times[0] + b[near].astype(object) * times[1]
        rounded[near] = round_ratio(over, under, Rounding.HALF_EVEN).astype(np.int64)
    return rounded
