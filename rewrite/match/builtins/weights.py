"""Biases and weights of quantized products: integers in the units of the accumulator.

In: constants. Out: integers as constants, errors in steps of the output.

The accumulator of a product counts in units of x_s w_s. A bias of b becomes rint(b / (x_s w_s)),
and is read back in units of the float32 nearest to x_s w_s, which is what a scale can say.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from rewrite.match.builtins.registry import builtin
from rewrite.match.values import Tensor, Unknown, integer_range
from rewrite.quant import bias
from rewrite.quant.codes import Array

_ONE = np.ones((), np.float64)


def _channels(b: Tensor, *others: Tensor) -> None:
    """Refuse biases and scales that are not one number, or one for each channel."""
    size = b.size
    if size == 0 or max(b.shape, default=1) != size:
        raise Unknown("the bias is not a vector")
    for other in others:
        if other.size not in (1, size):
            raise Unknown("there are not as many scales as biases")
        numbers = other.reals()
        if not (np.isfinite(numbers) & (numbers > 0)).all():
            raise Unknown("a scale is not a positive number")
    if not np.isfinite(b.reals()).all():
        raise Unknown("the bias is not finite")


def _folded(b: Tensor, unit: Tensor, scale: Tensor | None) -> bias.Bias:
    """A bias, or codes of one in units of `scale`, in other units."""
    _channels(b, unit, *([] if scale is None else [scale]))
    if scale is None:
        found = bias.fold(b.array, _ONE, unit.reals())
    else:
        found = bias.repair(b.array, scale.reals(), _ONE, unit.reals())
    if found.faults:
        raise Unknown("; ".join(found.faults))
    return found


@builtin
def bias_codes(b: Tensor, unit: Tensor, scale: Tensor | None = None) -> Tensor:
    """The bias in units of the accumulator, as s32: exact quotients, rounded half to even.

    `scale` is that of the bias, where it is codes already.
    """
    codes = _folded(b, unit, scale).codes
    return Tensor(np.asarray(codes.reshape(b.shape)), "s32")


@builtin
def bias_error(b: Tensor, unit: Tensor, step: Tensor, scale: Tensor | None = None) -> float:
    """By how many steps of the output `bias_codes` changes the bias at most."""
    codes = _folded(b, unit, scale).codes
    values = _values(b.array.reshape(-1), None if scale is None else scale.array.reshape(-1))
    units = np.broadcast_to(unit.reals().reshape(-1), codes.shape)
    least = Fraction(float(step.reals().min()))
    if least <= 0:
        raise Unknown("a scale is not a positive number")
    worst = Fraction(0)
    for value, code, one in zip(values, codes.tolist(), units.tolist(), strict=True):
        stated = Fraction(float(np.float32(one)))  # as the scale of the new codes says it
        worst = max(worst, abs(value - code * stated))
    return float(worst / least)


def _values(b: Array, scale: Array | None) -> list[Fraction]:
    if scale is None:
        return [Fraction(float(v)) for v in b]
    scales = np.broadcast_to(scale, b.shape)
    return [int(c) * Fraction(float(s)) for c, s in zip(b, scales, strict=True)]


@builtin
def is_product(scale: Tensor, x_scale: Tensor, w_scale: Tensor) -> bool:
    """Whether a scale is the product of two others, rounded to float32, for every channel."""
    return bias.is_product(scale.array, x_scale.array, w_scale.array)


@builtin
def turned(w: Tensor, zero: Tensor, factor: Tensor) -> Tensor:
    """Codes of weights for a factor per index of the first axis that goes into their scales.

    Where it is negative they are reflected at their zero point, where it is 0 they are that.
    """
    if w.array.dtype.kind != "i" or w.ndim == 0 or w.dtype is None:
        raise Unknown("weights are not codes")
    shape = (-1,) + (1,) * (w.ndim - 1)
    sign = np.sign(factor.reals()).astype(np.int64).reshape(shape)
    middle = zero.array.astype(np.int64).reshape(shape)
    found = middle + sign * (w.array - middle)
    low, high = integer_range(w.dtype)
    if found.size and not low <= int(found.min()) <= int(found.max()) <= high:
        raise Unknown(f"reflected weights leave {w.dtype}")
    return Tensor(found, w.dtype)


@builtin
def only_axis(v: Tensor, rank: int) -> int:
    """The axis of a tensor of that rank along which a constant that meets it differs; no other."""
    if v.ndim > rank:
        raise Unknown("the constant has more axes")
    sizes = (1,) * (rank - v.ndim) + v.shape
    found = [k for k, size in enumerate(sizes) if size != 1]
    if len(found) != 1:
        raise Unknown("the constant does not differ along one axis")
    return found[0]


@builtin
def per_row(v: Tensor, size: int) -> Tensor:
    """A constant of one element, or of that many, as a vector of that many."""
    if v.size not in (1, size):
        raise Unknown(f"the constant has {v.size} elements, not {size}")
    return Tensor(np.array(np.broadcast_to(v.elements.reshape(-1), (size,))), v.dtype)
