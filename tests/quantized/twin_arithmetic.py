"""Requantization as the kernels' sources have it, in plain int64 and float32; nothing of `rewrite`.

In: exact sums, what a group's attributes say. Out: codes, as int64. Shifts are to the right, as in
the attributes; the sources below count 31 less that, to the left.

ort_x86        onnxruntime, MLAS: float32 product, clamped, rounded half to even, zero point added
tflite_double  CMSIS-NN, arm_nn_requantize: arm_nn_doubling_high_mult, arm_nn_divide_by_power_of_two
vela           Ethos-U, rounding TFL: the same two steps in gemmlowp's words
vela_natural   Ethos-U, rounding NATURAL: one rounding, half up
hvx            Hexagon HVX reference: vmpyewuh, vmpyowh.rnd.sacc, vasr:rnd:sat
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

Array = np.ndarray
MOST = (1 << 31) - 1


def _in_32_bits(x: Array) -> Array:
    assert (np.abs(x) <= MOST).all(), "the kernel's own 32-bit register would wrap"
    return x


def _quotient(x: Array, divisor: int) -> Array:
    """Division as C has it: toward zero."""
    return np.where(x >= 0, x // divisor, -(-x // divisor))


def cmsis(acc: Array, multiplier: Array, shift: Array) -> Array:
    """arm_nn_requantize without CMSIS_NN_USE_SINGLE_ROUNDING."""
    left, right = np.maximum(31 - shift, 0), np.maximum(shift - 31, 0)
    value = _in_32_bits(acc << left)
    nudge = np.where((value < 0) ^ (multiplier < 0), 1 - (1 << 30), 1 << 30)
    high = _quotient(value * multiplier + nudge, 1 << 31)
    mask = (1 << right) - 1
    threshold = (mask >> 1) + (high >> right < 0)
    return (high >> right) + ((high & mask) > threshold)


def gemmlowp(acc: Array, multiplier: Array, shift: Array) -> Array:
    """SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT by magnitudes."""
    left, right = np.maximum(31 - shift, 0), np.maximum(shift - 31, 0)
    product = _in_32_bits(acc << left) * multiplier
    high = np.minimum((product + (1 << 30)) >> 31, MOST)
    half = (1 << right) >> 1
    return np.sign(high) * ((np.abs(high) + half) >> right)


def natural(acc: Array, multiplier: Array, shift: Array) -> Array:
    """(acc m + 2^(s - 1)) >> s."""
    return (acc * multiplier + (1 << shift >> 1)) >> shift


def hvx(acc: Array, multiplier: Array, shift: Array) -> Array:
    """vmpye (low half, unsigned), vmpyo added (high half, doubled, rounded), vasr."""
    left, right = np.maximum(31 - shift, 0), np.maximum(shift - 31, 0)
    value = _in_32_bits(acc << left)
    even = (value * (multiplier & 0xFFFF)) >> 16
    odd = value * (multiplier >> 16) + even
    high = np.clip(((odd >> 14) + 1) >> 1, -MOST - 1, MOST)
    return np.where(right > 0, (high + ((1 << right) >> 1)) >> right, high)


FIXED: dict[str, Callable[[Array, Array, Array], Array]] = {
    "tflite_double": cmsis, "vela": gemmlowp, "vela_natural": natural, "hvx": hvx,
}  # fmt: skip


def float32(acc: Array, scale: Array, zero: int, low: int, high: int) -> Array:
    """MlasRequantizeOutput."""
    scaled = acc.astype(np.float32) * scale.astype(np.float32)
    clamped = np.clip(scaled, np.float32(low - zero), np.float32(high - zero))
    return np.rint(clamped).astype(np.int64) + zero


def along(values: list[int] | list[float], axis: int, rank: int) -> Array:
    """One number, or one per channel, to be met with sums."""
    array = np.array(values)
    sizes = [1] * rank
    if array.size > 1:
        sizes[axis] = array.size
    return array.reshape(sizes)


def codes(acc: Array, given: dict, axis: int) -> Array:
    """The codes of exact sums, as the attributes of the group say."""
    zero, low, high = (int(given[n]) for n in ("output_zero_point", "low", "high"))
    multiplier = along(given["multiplier"], axis, acc.ndim)
    if given["requantizer"] == "ort_x86":
        assert given["shift"] == [0]
        return float32(acc, multiplier, zero, low, high)
    shift = along(given["shift"], axis, acc.ndim)
    return np.clip(FIXED[given["requantizer"]](acc, multiplier, shift) + zero, low, high)


def nearest(acc: Array, ratio: list[Fraction], zero: int, low: int, high: int, axis: int) -> Array:
    """The exact codes: acc · ratio in rational numbers, half to even."""
    rank = acc.ndim
    over = along([r.numerator for r in ratio], axis, rank).astype(object)
    under = along([r.denominator for r in ratio], axis, rank).astype(object)
    return np.clip(half_even(acc.astype(object) * over, under) + zero, low, high).astype(np.int64)


def half_even(over: Array, under: Array) -> Array:
    """over / under of Python's integers, half to even."""
    floor = over // under
    rest = 2 * (over - floor * under) - under
    return floor + ((rest > 0) | ((rest == 0) & (floor % 2 == 1)))


# --- sums of codes


def added(a: Array, b: Array, given: dict) -> Array:
    """a and b less their zero points, added as `arithmetic` says."""
    zero, low, high = (int(given[n]) for n in ("output_zero_point", "low", "high"))
    kind, m, s = given["arithmetic"], given["multiplier"], given["shift"]
    if kind == "ort_x86_float":
        # One float32 product for each, their sum in float32.
        one, two = (x.astype(np.float32) * np.float32(f) for x, f in zip((a, b), m, strict=True))
        clamped = np.clip(one + two, np.float32(low - zero), np.float32(high - zero))
        return np.rint(clamped).astype(np.int64) + zero
    if kind == "hvx_weighted":
        return np.clip(((a * m[0] + b * m[1] + (1 << s[0] >> 1)) >> s[0]) + zero, low, high)
    assert kind in ("tflite_double_shared", "vela_shared")
    # arm_elementwise_add_s8: left_shift 20, three arm_nn_requantize.
    parts = [cmsis(x << 20, np.int64(m[i]), np.int64(s[i])) for i, x in enumerate((a, b))]
    total = cmsis(parts[0] + parts[1], np.int64(m[2]), np.int64(s[2]))
    return np.clip(total + zero, low, high)


def nearest_sum(
    a: Array, b: Array, ratios: tuple[Fraction, Fraction], zero: int, low: int, high: int
) -> Array:
    """The exact codes of a · ratios[0] + b · ratios[1]."""
    under = ratios[0].denominator * ratios[1].denominator
    first, second = (int(r * under) for r in ratios)
    over = a.astype(object) * first + b.astype(object) * second
    return np.clip(half_even(over, under) + zero, low, high).astype(np.int64)


# --- contractions


def convolve(
    x: Array, w: Array, strides: list[int], pads: list[int], dilations: list[int], group: int = 1
) -> Array:
    """Sums of products of numbers less their zero points; any number of spatial axes."""
    n = len(strides)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:n], pads[n:], strict=True)])
    sizes = [
        (x.shape[2 + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1
        for i in range(n)
    ]
    inner, outer = x.shape[1] // group, w.shape[0] // group
    total = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
    for at in np.ndindex(*w.shape[2:]):
        window = tuple(
            slice(at[i] * dilations[i], at[i] * dilations[i] + (sizes[i] - 1) * strides[i] + 1,
                  strides[i])
            for i in range(n)
        )  # fmt: skip
        for g in range(group):
            part = x[(slice(None), slice(g * inner, (g + 1) * inner), *window)]
            rows = w[(slice(g * outer, (g + 1) * outer), slice(None), *at)]
            total[:, g * outer : (g + 1) * outer] += np.einsum("oc,nc...->no...", rows, part)
    return total


def transposed(x: Array, w: Array, strides: list[int], pads: list[int]) -> Array:
    """Each number of `x` adds a window; pads are cut off at the end."""
    n = len(strides)
    full = [(x.shape[2 + i] - 1) * strides[i] + w.shape[2 + i] for i in range(n)]
    total = np.zeros((x.shape[0], w.shape[1], *full), np.int64)
    for at in np.ndindex(*x.shape[2:]):
        window = tuple(slice(at[i] * strides[i], at[i] * strides[i] + w.shape[2 + i])
                       for i in range(n))  # fmt: skip
        total[(slice(None), slice(None), *window)] += np.einsum(
            "nc,co...->no...", x[(slice(None), slice(None), *at)], w
        )
    cut = tuple(slice(pads[i], full[i] - pads[n + i]) for i in range(n))
    return total[(slice(None), slice(None), *cut)]
