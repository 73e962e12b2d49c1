"""Where the elements of a resized axis come from.

In: sizes, scales and attributes of Resize. Out: tables of places and weights, one row for each
place of the result. Interpolation is separable, so that every axis has its own table.

With x the place in the input that a place of the output stands for, f = ceil(x) - 1 and
r = x - f in (0, 1], the taps are f + start, f + start + 1, …; places outside are moved to the edge.
Cubic weights: R. Keys, Cubic convolution interpolation for digital image processing, 1981.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis to be resized: sizes, scale, and the part of the input that is looked at."""

    size: int
    result: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Method:
    """The attributes of Resize that concern each axis by itself."""

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


def coordinates(axis: Axis, kind: str) -> Array:
    """The place in the input of each place of the result.

    In float32 and in this order, as runtimes compute them: which neighbour is the nearest hangs on
    the last bit where a place lies in the middle (scale 1.3 has no exact value).
    """
    one, half = np.float32(1), np.float32(0.5)
    y = np.arange(axis.result, dtype=np.float32)
    scale, size = np.float32(axis.scale), np.float32(axis.size)
    whole = scale * size  # the size of the result before it was rounded
    last = size - one
    if kind == "align_corners":
        return np.zeros_like(y) if whole == 1 else y * last / (whole - one)
    if kind == "asymmetric":
        return y / scale
    if kind == "tf_half_pixel_for_nn":  # of opset 11 alone
        return (y + half) / scale
    if kind == "tf_crop_and_resize":
        low, high = (np.float32(r) for r in axis.roi)
        if axis.result == 1:
            return np.full_like(y, (low + high) * last * half)
        return low * last + y * (high - low) * last / (np.float32(axis.result) - one)
    if kind == "pytorch_half_pixel" and whole == 1:
        return np.full_like(y, -half)
    offset = np.float32(0)
    if kind == "half_pixel_symmetric":
        offset = size * half * (one - np.float32(axis.result) / whole)
    return offset + (y + half) / scale - half


def outside(axis: Axis, x: Array, kind: str) -> Array:
    """Which places take the extrapolation value."""
    if kind != "tf_crop_and_resize":
        return np.zeros(x.shape, bool)
    return (x < 0) | (x > axis.size - 1)


def nearest(axis: Axis, method: Method) -> Array:
    """The one place of each; -1 where there is none."""
    x = coordinates(axis, method.coordinates)
    rounded = {
        "round_prefer_floor": np.ceil(x - 0.5),
        "round_prefer_ceil": np.floor(x + 0.5),
        "floor": np.floor(x),
        "ceil": np.ceil(x),
    }[method.nearest]
    places = np.clip(rounded, 0, axis.size - 1).astype(np.int64)
    return np.where(outside(axis, x, method.coordinates), -1, places)


def taps(axis: Axis, method: Method) -> tuple[Array, Array]:
    """Places [result, taps], -1 where there are none, and weights in float64."""
    x = coordinates(axis, method.coordinates).astype(np.float64)
    floor = np.ceil(x) - 1
    ratio = x - floor
    start, weights = _weights(ratio, axis.scale, method)
    places = floor[:, None].astype(np.int64) + start + np.arange(weights.shape[1])
    if method.exclude_outside:
        weights = np.where((places < 0) | (places >= axis.size), 0.0, weights)
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    places = np.clip(places, 0, axis.size - 1)
    places, weights = _without_idle(places, weights)
    places[outside(axis, x, method.coordinates)] = -1
    return places, weights


def _weights(ratio: Array, scale: float, method: Method) -> tuple[int, Array]:
    """The first tap relative to f, and the weights of all."""
    stretch = min(scale, 1.0) if method.antialias else 1.0
    reach = 2 if method.mode == "cubic" else 1
    start = int(np.floor(-reach / stretch)) + 1
    count = 2 - 2 * start
    distance = np.abs(start + np.arange(count) - ratio[:, None]) * stretch
    if method.mode == "cubic":
        weights = _cubic(distance, method.cubic)
    else:
        weights = np.clip(1 - distance, 0, 1)
    if method.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return start, weights


def _cubic(d: Array, a: float) -> Array:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _without_idle(places: Array, weights: Array) -> tuple[Array, Array]:
    """A tap without weight reads the place of the heaviest one and takes half of its weight: an
    infinity beside the place must not become NaN. Taps that nobody uses are dropped."""
    used = (weights != 0).any(axis=0)
    if used.any():
        places, weights = places[:, used], weights[:, used]
    places, weights = places.copy(), weights.copy()
    rows = np.arange(len(places))
    heaviest = np.argmax(np.abs(weights), axis=1)
    for t in range(weights.shape[1]):
        idle = (weights[:, t] == 0) & (heaviest != t)
        at, heavy = rows[idle], heaviest[idle]
        places[at, t] = places[at, heavy]
        half = weights[at, heavy] / 2
        weights[at, t] = half
        weights[at, heavy] = half
    return places, weights


def spread(places: Array, weights: Array, inner: int) -> tuple[Array, Array]:
    """The tables of an axis and the few elements behind each of its places, as one dimension."""
    if inner == 1:
        return places, weights
    wide = places[:, None] * inner + np.arange(inner)[:, None]
    return wide.reshape(-1, places.shape[1]), np.repeat(weights, inner, axis=0)


def blocks(
    places: Array, weights: Array, size: int, lanes: int
) -> tuple[Array, Array, Array] | None:
    """Tables of ResizeLookup: starts, choices, weights; None where a block needs neighbours that
    lie too far from each other."""
    count = len(places)
    if count < lanes or size < 2 * lanes or (places < 0).any():
        return None
    firsts = np.minimum(np.arange(0, count, lanes), count - lanes)
    rows = firsts[:, None] + np.arange(lanes)
    chosen = places[rows].transpose(0, 2, 1)
    starts = np.minimum(chosen.min(axis=(1, 2)), size - 2 * lanes)
    choices = chosen - starts[:, None, None]
    if choices.max() >= 2 * lanes:
        return None
    weight = weights[rows].transpose(0, 2, 1)
    return (
        starts.astype(np.int64),
        np.ascontiguousarray(choices, np.int32),
        np.ascontiguousarray(weight, np.float32),
    )
