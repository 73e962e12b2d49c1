"""Arithmetic on float constants that is not done yet.

In: arrays of floats that numpy itself widens (float16, float32, float64). Out: the elements in
float64 (`wide`), or each rounded once to where it is stored (`store`): then numpy widens, computes
and rounds piece by piece, and float64 of the whole is never in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite.ops.call import Array

_BUFFER = 512  # elements of a piece: three of float64 stay in a cache of the first level


@contextmanager
def _by_pieces() -> Iterator[None]:
    """Numpy converts in pieces of `_BUFFER` elements, which takes half the time of its own 8192;
    nobody is warned of what is not finite."""
    before = np.setbufsize(_BUFFER)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        np.setbufsize(before)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An operator on two arrays, broadcast to `shape`."""

    function: np.ufunc
    left: Array
    right: Array
    shape: tuple[int, ...]

    def wide(self) -> Array:
        with _by_pieces():
            return np.asarray(self.function(self.left, self.right, dtype=np.float64))

    def store(self, out: Array) -> None:
        with _by_pieces():
            self.function(self.left, self.right, out=out, dtype=np.float64, casting="unsafe")


@dataclass(frozen=True, slots=True)
class Joined:
    """Parts one after the other along an axis. They fit together."""

    parts: tuple[Array | Arithmetic | Joined, ...]
    axis: int

    @property
    def shape(self) -> tuple[int, ...]:
        sizes = list(self.parts[0].shape)
        sizes[self.axis] = sum(part.shape[self.axis] for part in self.parts)
        return tuple(sizes)

    def wide(self) -> Array:
        whole = np.empty(self.shape, np.float64)
        self.store(whole)
        return whole

    def store(self, out: Array) -> None:
        begin = 0
        for part in self.parts:
            end = begin + part.shape[self.axis]
            place = out[(slice(None),) * self.axis + (slice(begin, end),)]
            if isinstance(part, np.ndarray):
                with np.errstate(all="ignore"):
                    np.copyto(place, part, casting="unsafe")
            else:
                part.store(place)
            begin = end


Deferred = Arithmetic | Joined


def stored(late: Deferred, target: np.dtype[Any]) -> Array | None:
    """The elements in a float type of numpy; None where it is no such type, or where an element
    is not finite and may have overflowed."""
    if not is_native(target):
        return None
    found = np.empty(late.shape, target)
    late.store(found)
    return found if not found.size or _finite(found) else None


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether it is a float type of numpy's own."""
    return dtype.kind == "f" and dtype.isnative and dtype.itemsize <= 8


def _finite(array: Array) -> bool:
    """The least and the largest are NaN if any element is."""
    return bool(np.isfinite(np.min(array)) and np.isfinite(np.max(array)))
