"""How large the sums of products become, from constant weights alone.

In: weights as integers, the channel axis, the range of activation codes, zero points. Out: exact
bounds per output channel, and whether an instruction's narrower sums can overflow.

For activations in [a_low, a_high] and one weight w, a product lies between the two ends; a sum
lies between the sums of ends, and both are reached. Everything is in int64: |w| < 2^16, |a| < 2^17
and K < 2^28 cannot overflow it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rewrite.quant.codes import Array, Ints

INT16 = (-(1 << 15), (1 << 15) - 1)
INT32 = (-(1 << 31), (1 << 31) - 1)
FLOAT32_EXACT = 1 << 24  # integers up to this are float32 numbers


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Per channel: the least and largest sum, and the largest magnitude of any partial sum."""

    low: Ints
    high: Ints
    partial: Ints

    @property
    def fits_int32(self) -> npt.NDArray[np.bool_]:
        """The sum is an int32; additions that wrap on the way do no harm."""
        return (self.low >= INT32[0]) & (self.high <= INT32[1])

    @property
    def never_overflows(self) -> npt.NDArray[np.bool_]:
        """No partial sum in any order leaves int32: safe where additions saturate too."""
        return self.partial <= INT32[1]

    @property
    def float32_exact(self) -> npt.NDArray[np.bool_]:
        """The sum converts to float32 without rounding."""
        return np.maximum(-self.low, self.high) <= FLOAT32_EXACT

    @property
    def float32_sums_exact(self) -> npt.NDArray[np.bool_]:
        """Even summing in float32, in any order, is exact."""
        return self.partial <= FLOAT32_EXACT

    @property
    def bits(self) -> Ints:
        """Width of the two's complement integer that holds the sum."""
        most = np.maximum(np.maximum(self.high, -self.low - 1), 0)
        return np.array([int(v).bit_length() + 1 for v in most], np.int64)


def by_channel(weights: Array, axis: int = 0) -> Ints:
    """Weights as [channels, K]: K in the order of the remaining axes."""
    moved = np.moveaxis(np.asarray(weights), axis, 0).astype(np.int64)
    return moved.reshape(moved.shape[0], -1)


def sums(
    weights: Array,
    a_low: int,
    a_high: int,
    a_zero: int = 0,
    w_zero: Array | int = 0,
    bias: Array | None = None,
    axis: int = 0,
) -> Sums:
    """Bounds of bias + sum of (a - a_zero) (w - w_zero) for a in [a_low, a_high]."""
    w = by_channel(weights, axis) - np.asarray(w_zero, np.int64).reshape(-1, 1)
    low, high = a_low - a_zero, a_high - a_zero
    extra = np.zeros(len(w), np.int64) if bias is None else np.asarray(bias, np.int64).reshape(-1)
    # What weights of each sign add up to says it all: (a - a_zero) w is least where a is lowest
    # for w > 0, highest for w < 0; partial sums leave out what has the other sign.
    positive = np.maximum(w, 0).sum(1)
    negative = w.sum(1) - positive
    least, most = positive * low + negative * high, positive * high + negative * low
    below, above = min(low, 0), max(high, 0)
    down = positive * below + negative * above + np.minimum(extra, 0)
    up = positive * above + negative * below + np.maximum(extra, 0)
    return Sums(least + extra, most + extra, np.maximum(-down, up))


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sums of neighbours in K, [channels, groups], in 16 bits."""

    low: Ints
    high: Ints
    size: int  # elements of K per group; the last group may be shorter

    @property
    def safe(self) -> npt.NDArray[np.bool_]:
        """Per group: no activation in the range makes the sum leave int16."""
        return (self.low >= INT16[0]) & (self.high <= INT16[1])

    @property
    def safe_channels(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.safe.all(1), np.bool_)

    @property
    def unsafe_count(self) -> int:
        return int((~self.safe).sum())


def group_sums(weights: Array, size: int, a_low: int = 0, a_high: int = 255, axis: int = 0,
               order: Ints | None = None) -> GroupSums:  # fmt: skip
    """Sums of `size` neighbouring products of raw codes (no zero points: those come later).

    vpmaddubsw adds pairs and saturates to int16: size 2. vdmpybus adds pairs, and its
    accumulating form 2 n of them, modulo 2^16: the final sum of the group decides, so size is
    2 n. `order` is a permutation of K that both operands get.
    """
    w = by_channel(weights, axis)
    if order is not None:
        w = w[:, order]
    w = np.pad(w, ((0, 0), (0, -w.shape[1] % size))).reshape(w.shape[0], -1, size)
    least, most = np.minimum(w * a_low, w * a_high), np.maximum(w * a_low, w * a_high)
    return GroupSums(least.sum(2), most.sum(2), size)


def pair_sums(weights: Array, a_low: int = 0, a_high: int = 255, axis: int = 0,
              order: Ints | None = None) -> GroupSums:  # fmt: skip
    """The s16 pair sums of vpmaddubsw: u8 activations, s8 weights, K paired in order.

    For the whole range 0..255: safe exactly where the positive weights of a pair add up to 128 at
    most and so do the negative ones.
    """
    return group_sums(weights, 2, a_low, a_high, axis, order)


def longest_run(weights: Array, a_low: int = 0, a_high: int = 255, axis: int = 0,
                unit: int = 2) -> Ints:  # fmt: skip
    """Per channel: how many elements of K, a multiple of `unit`, may be added up in 16 bits.

    0 where not even `unit` of them fit; all of K (rounded up) where nothing overflows.
    """
    channels, k = by_channel(weights, axis).shape
    found = np.zeros(channels, np.int64)
    for size in range(unit, k + unit, unit):
        safe = group_sums(weights, size, a_low, a_high, axis).safe_channels
        found[safe & (found == size - unit)] = size
        if not safe.any():
            break
    return found


def saturating_pairs(a: Array, w: Array) -> Ints:
    """What vpmaddubsw makes of rows: codes a [..., K] by weights w [..., K], summed in int32.

    The model of the instruction, to tell its saturation from other differences.
    """
    product = np.asarray(a, np.int64) * np.asarray(w, np.int64)
    odd = product.shape[-1] % 2
    padded = np.pad(product, [(0, 0)] * (product.ndim - 1) + [(0, odd)])
    pairs = padded.reshape(*padded.shape[:-1], -1, 2).sum(-1)
    return np.asarray(np.clip(pairs, *INT16).sum(-1), np.int64)
