"""Biases of quantized convolutions and products: from floats or another scale to int32.

In: biases, scales. Out: integers in units of x_s w_s, the error in steps of the output, faults.

A bias b becomes rint(b / (x_s w_s)); the error is at most half of x_s w_s, that is
x_s w_s / (2 y_s) steps of the output before its own rounding. Quotients are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from rewrite.quant.codes import Array, Floats, Ints
from rewrite.quant.requantize import INT32
from rewrite.quant.rounding import round_fraction


@dataclass(frozen=True, slots=True, eq=False)
class Bias:
    """One integer per channel. `error` is in units of x_s w_s (at most 1/2), exact to a float64.

    `saturated`: channels whose integer does not fit int32; they hold the nearest that does.
    """

    codes: Ints
    error: Floats
    saturated: tuple[int, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        return ("int32 bias out of range",) if self.saturated else ()

    def steps(self, x_scale: Array, w_scale: Array, y_scale: Array) -> Floats:
        """The error of each channel in steps of the output."""
        wide = (np.asarray(s).astype(np.float64).reshape(-1) for s in (x_scale, w_scale, y_scale))
        x, w, y = wide
        return np.asarray(self.error * (x * w / y))


def fold(bias: Array, x_scale: Array, w_scale: Array) -> Bias:
    """A float bias as integers (zero scales and NaN are faults of the parameters, not of these)."""
    channels = np.asarray(bias).reshape(-1)
    values = [Fraction(float(b)) for b in channels]
    return _rounded(values, _units(x_scale, w_scale, len(values)))


def repair(codes: Array, bias_scale: Array, x_scale: Array, w_scale: Array) -> Bias:
    """Integers in units of `bias_scale`, in units of x_s w_s."""
    channels = np.asarray(codes).reshape(-1)
    steps = np.broadcast_to(np.asarray(bias_scale).reshape(-1), channels.shape)
    values = [int(c) * Fraction(float(s)) for c, s in zip(channels, steps, strict=True)]
    return _rounded(values, _units(x_scale, w_scale, len(values)))


def _units(x_scale: Array, w_scale: Array, channels: int) -> list[Fraction]:
    x = Fraction(float(np.asarray(x_scale).reshape(-1)[0]))
    w = np.broadcast_to(np.asarray(w_scale).reshape(-1), (channels,))
    return [x * Fraction(float(s)) for s in w]


def _rounded(values: list[Fraction], units: list[Fraction]) -> Bias:
    quotients = [v / u for v, u in zip(values, units, strict=True)]
    wanted = [round_fraction(q) for q in quotients]
    kept = [min(max(k, INT32[0]), INT32[1]) for k in wanted]
    error = [float(abs(q - k)) for q, k in zip(quotients, kept, strict=True)]
    outside = tuple(i for i, (k, w) in enumerate(zip(kept, wanted, strict=True)) if k != w)
    return Bias(np.array(kept, np.int64), np.array(error, np.float64), outside)


def is_product(bias_scale: Array, x_scale: Array, w_scale: Array) -> bool:
    """Whether the scale is x_s w_s rounded to float32, for every channel."""
    with np.errstate(all="ignore"):
        product = np.asarray(x_scale).astype(np.float32) * np.asarray(w_scale).astype(np.float32)
    stated = np.asarray(bias_scale).astype(np.float32).reshape(-1)
    return bool(np.all(np.broadcast_to(product.reshape(-1), stated.shape) == stated)) if (
        product.size in (1, stated.size)
    ) else False  # fmt: skip


def mismatch(
    codes: Array, bias_scale: Array, x_scale: Array, w_scale: Array, y_scale: Array
) -> Floats:
    """|b| |b_s - x_s w_s| / y_s: the steps of output lost by reading b in units of x_s w_s."""
    channels = np.abs(np.asarray(codes).astype(np.float64).reshape(-1))
    units = _units(x_scale, w_scale, channels.size)
    stated = np.broadcast_to(np.asarray(bias_scale).reshape(-1), channels.shape)
    step = Fraction(float(np.asarray(y_scale).reshape(-1)[0]))
    off = [abs(Fraction(float(s)) - u) / step for s, u in zip(stated, units, strict=True)]
    return np.asarray(channels * np.array([float(o) for o in off]))
