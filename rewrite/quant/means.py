"""Means over a number of codes that only the run knows: global pooling of planes of any size.

In: the ratio of scales, the sum of codes less their zero points, the count. Out: the code, as
steps (`body.Steps`). With the multiplier m / 2^s nearest to the ratio the code is
floor((2 sum m + D) / 2 D) for D = count 2^s; the dividend is kept positive by a multiple of 2 D, as
in `body`. In float32 it is sum ratio / count, half to even.

The number before rounding is off by less than 2^-16 of a step (2^-13 in float32), so that codes are
at most one step from the exact ones, and only next to ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.quant.body import Clamp, Steps, W, clamped_float
from rewrite.quant.faults import QuantError
from rewrite.quant.requantize import REQUANTIZERS

_BITS = 26  # of the multiplier
_MOST_SHIFT = 34
MOST_COUNT = 1 << 23  # so many codes of 8 bits have a sum of 32 bits
_MOST_RATIO = 1 << 8


@dataclass(frozen=True, slots=True)
class Mean:
    """`multiplier` is a float where `shift` is None."""

    multiplier: int | float
    shift: int | None
    offset: int = 0  # steps added while dividing


def derive_mean(name: str, ratio: Fraction) -> Mean:
    """What the kernel holds, for codes of 8 bits; `QuantError` where the ratio is too large."""
    if not 0 < ratio < _MOST_RATIO:
        raise QuantError("the ratio of scales is not between 0 and 256")
    if REQUANTIZERS[name].arithmetic == "float32":
        return Mean(float(np.float32(float(ratio))), None)
    shift = 0
    while ratio * (1 << (shift + 1)) < 1 << _BITS and shift < _MOST_SHIFT:
        shift += 1
    return Mean(round(ratio * (1 << shift)), shift, int(256 * ratio) + 2)


def mean_body(steps: Steps[W], plan: Mean, total: W, count: W, clamp: Clamp) -> W:
    """`total` is s32, `count` s64 of one element, at most `MOST_COUNT`."""
    if plan.shift is None:
        scaled = steps.multiply(steps.cast(total, "f32"), np.asarray(plan.multiplier, np.float32))
        return clamped_float(steps, steps.divide(scaled, steps.cast(count, "f32")), clamp)
    double = steps.multiply(count, _s64(2 << plan.shift))
    product = steps.multiply(steps.cast(total, "s64"), _s64(2 * int(plan.multiplier)))
    # D + offset 2 D, so that the dividend is positive.
    lift = steps.multiply(count, _s64((1 << plan.shift) * (2 * plan.offset + 1)))
    quotient = steps.divide(steps.add(product, lift), double)
    code = steps.add(quotient, _s64(clamp.zero_point - plan.offset))
    return steps.cast(steps.clip(code, _s64(clamp.low), _s64(clamp.high)), clamp.dtype)


def _s64(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.asarray(value, np.int64)
