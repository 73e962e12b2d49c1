"""Elements that tests run operators on: every kind of number of every element type."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  registers the narrow types with numpy
import numpy as np

from rewrite.ops.dtypes import BITS, integer_range, to_numpy
from rewrite.schema import DTYPES

# Zeros, infinities, NaN, ties, subnormal and large numbers.
SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -1.5, 1e-40, -1e-40,
    100.0, -100.0, 3e38, -3e38,
)  # fmt: skip
NUMERIC = tuple(d for d in DTYPES if d not in ("string", "c64", "c128"))


def as_type(numbers: object, dtype: str) -> np.ndarray:
    """Floats rounded to an element type."""
    wide = np.asarray(numbers, np.float64)
    with np.errstate(all="ignore"):
        return wide if dtype == "f64" else wide.astype(np.float32).astype(to_numpy(dtype))


def sample(dtype: str, count: int, seed: int = 0) -> np.ndarray:
    """Numbers of ordinary size; integers half from the whole range, half small ones."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if not is_integer(dtype):
        return as_type(rng.standard_normal(count) * 4, dtype)
    low, high = integer_range(dtype)
    wide = np.uint64 if dtype == "u64" else np.int64
    found = rng.integers(low, high, count, dtype=wide, endpoint=True)
    small = rng.integers(max(low, -9), min(high, 9), count - count // 2, endpoint=True)
    found[count // 2 :] = small.astype(wide)
    return found.astype(to_numpy(dtype))


def is_integer(dtype: str) -> bool:
    return dtype[0] in "su" and dtype != "string"


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every special number beside every other."""
    special = as_type(SPECIAL, dtype)
    return np.repeat(special, special.size), np.tile(special, special.size)


def everything(dtype: str) -> np.ndarray:
    """Every element of up to 16 bits; of wider types, numbers of all sizes and kinds."""
    rng = np.random.default_rng(1)
    if dtype == "bool":
        return np.array([False, True] * 5)
    if dtype in ("f32", "f64"):
        sizes = np.exp(rng.standard_normal(300) * 20) * rng.choice([-1, 1], 300)
        quarters = rng.integers(-300, 300, 300) / 4
        return as_type(np.concatenate([sizes, quarters, SPECIAL, _EDGES]), dtype)
    if BITS[dtype] <= 16 and not is_integer(dtype):
        store = np.uint16 if BITS[dtype] == 16 else np.uint8
        return np.arange(1 << BITS[dtype], dtype=store).view(to_numpy(dtype))
    if BITS[dtype] <= 16:
        low, high = integer_range(dtype)
        return np.arange(low, high + 1).astype(to_numpy(dtype))
    return sample(dtype, 500, 2)


# Around the largest and the least numbers of narrow types.
_EDGES = (
    448, 464, 465, 240, 248, 57344, 61440, 61441, 65504, 65519, 65520, 6, 7, 28, 30, 7.5, 7.75,
    2.0**-127, 1.5 * 2.0**-127, 2.0**-126, 2.0**127, 1.2 * 2.0**127, 2.0**-149, 1.1, 1.75, 2.0**-24,
    2.0**-25, 2.0**-9, 2.0**-10, 2.0**-16, 2.0**-17, 0.25, 0.0625,
)  # fmt: skip


def same(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same numbers: NaN is NaN, and -0 is not 0."""
    if expected.dtype.kind in "iub":
        return np.asarray(expected == found)
    with np.errstate(invalid="ignore"):  # signaling NaN
        a, b = expected.astype(np.float64), found.astype(np.float64)
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
