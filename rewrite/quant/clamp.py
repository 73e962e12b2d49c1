"""Relu, Clip and HardTanh in front of QuantizeLinear, as bounds on codes.

In: the bounds of the activation, the parameters of QuantizeLinear. Out: the least and the largest
code, per tensor or per channel, and whether the activation does nothing.

    Q(min(max(x, a), b)) = min(max(Q(x), Q(a)), Q(b))

because Q is monotone for a positive scale, whatever it rounds by; so the bounds are Q's own values
at a and b, and no zero point needs to lie at the end of the range. If both are the ends of the
type, the activation can be dropped; Relu, when the zero point is the least code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rewrite.quant.affine import quantize, quantize_exact
from rewrite.quant.codes import Array, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.params import QuantParams
from rewrite.quant.rounding import Rounding


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Codes in [low, high]: int64, rank 0 or one element per channel.

    `agree`: a division in float32 and an exact one give the same bounds. Where they do not, a
    rewrite is exact to one of the two only.
    """

    low: Ints
    high: Ints
    agree: bool


def bounds(
    a: float | None,
    b: float | None,
    params: QuantParams,
    exact: bool = False,
    rounding: Rounding = Rounding.HALF_EVEN,
) -> Bounds:
    """The codes that x clipped to [a, b] can have; None: no bound. (Relu: 0, None.)

    a and b are numbers of x's type, float32. `exact`: bounds for the rational x / scale instead of
    the float32 quotient. `rounding` other than half to even implies `exact` (HALF_AWAY: TensorFlow
    Lite's activation ranges).
    """
    if params.code.kind != "int" or params.code.bits > 16:
        raise QuantError(f"codes of type {params.code.name}")
    if params.block is not None:
        raise QuantError("blocked parameters")
    if any(v is not None and np.isnan(v) for v in (a, b)):
        raise QuantError("NaN bound")
    low, low_exact = _code_of(-np.inf if a is None else a, params, rounding)
    high, high_exact = _code_of(np.inf if b is None else b, params, rounding)
    agree = np.array_equal(low, low_exact) and np.array_equal(high, high_exact)
    if exact or rounding is not Rounding.HALF_EVEN:
        low, high = low_exact, high_exact
    return Bounds(np.minimum(low, high), high, agree)  # Clip gives b where a > b


def _code_of(bound: float, params: QuantParams, rounding: Rounding) -> tuple[Ints, Ints]:
    """The bound's code by float32 division and by exact division, per channel."""
    channels = np.full(params.scale.size, bound, np.float32)
    flat = _on_axis_zero(params)
    in_floats = quantize(channels, flat).astype(np.int64)
    exactly = quantize_exact(channels, flat, rounding).astype(np.int64)
    shape = () if params.axis is None else channels.shape
    return in_floats.reshape(shape), exactly.reshape(shape)


def _on_axis_zero(params: QuantParams) -> QuantParams:
    zeros = np.broadcast_to(params.zero_point.reshape(-1), (params.scale.size,))
    return QuantParams(params.code, params.scale.reshape(-1), zeros, 0, None)


def redundant(a: float | None, b: float | None, params: QuantParams) -> bool:
    """Whether QuantizeLinear cuts off at least what the activation does, in both arithmetics."""
    found = [bounds(a, b, params, exact) for exact in (False, True)]
    code = params.code
    return all(bool((f.low == code.low).all() and (f.high == code.high).all()) for f in found)


def clamp(codes: Array, limits: Bounds, axis: int | None = None) -> Array:
    """Codes clamped, in their own type; `axis` holds the channels of vector bounds."""
    low, high = limits.low, limits.high
    if low.ndim and axis is not None:
        sizes = [1] * codes.ndim
        sizes[axis] = low.size
        low, high = low.reshape(sizes), high.reshape(sizes)
    return np.minimum(np.maximum(codes.astype(np.int64), low), high).astype(codes.dtype)


def interval(params: QuantParams) -> tuple[Array, Array]:
    """The least and the largest value that codes stand for, in the scale's shape; exact."""
    zeros, scales = params.zeros, params.scales
    return (params.code.low - zeros) * scales, (params.code.high - zeros) * scales
