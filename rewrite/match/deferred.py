"""Arithmetic on float constants that is not done yet.

In: arrays of floats that numpy itself widens (float16, float32, float64). Out: the elements in
float64 (`wide`), or each rounded once to where it is stored (`store`): then numpy widens, computes
and rounds piece by piece, and float64 of the whole is never in memory. `ends` are the least and the
largest of the elements that would be stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rewrite.ops.call import Array

MANY = 1 << 16  # elements from which on it pays to compute them only when they are stored
_PIECE = 1 << 16  # elements that are looked at together
_SMALL = 1 << 6  # elements of an array that is compared by content
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

    @property
    def key(self) -> Hashable:
        return self.function.__name__, _key(self.left), _key(self.right), self.shape

    def arrays(self) -> Iterator[Array]:
        yield from (self.left, self.right)

    def ends(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        if self._is_monotone():
            first = Arithmetic(self.function, _ends_of(self.left), _ends_of(self.right), (2,))
            return _span(first, dtype)
        found = [_span(piece, dtype) for piece in self._pieces()]
        # numpy's, as they keep NaN.
        return float(np.min([low for low, _ in found])), float(np.max([high for _, high in found]))

    def _is_monotone(self) -> bool:
        """Whether the ends of the result follow from those of an operand: the other is one number,
        and rounding keeps the order."""
        if self.function in (np.multiply, np.add, np.subtract):
            return 1 in (self.left.size, self.right.size)
        return self.function is np.divide and self.right.size == 1

    def _pieces(self) -> Iterator[Arithmetic]:
        """The same for at most `_PIECE` elements at a time."""
        if prod(self.shape) <= _PIECE:
            yield self
            return
        left, right = (np.broadcast_to(side, self.shape) for side in (self.left, self.right))
        axis = next(k for k, n in enumerate(self.shape) if n > 1)
        rows = max(1, _PIECE // prod(self.shape[axis + 1 :]))
        for begin in range(0, self.shape[axis], rows):
            cut = (slice(None),) * axis + (slice(begin, begin + rows),)
            part = left[cut]
            yield from Arithmetic(self.function, part, right[cut], part.shape)._pieces()


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
        """In float64; in their own type where none is computed."""
        types = {part.dtype for part in self.parts if isinstance(part, np.ndarray)}
        plain = all(isinstance(part, np.ndarray) for part in self.parts) and len(types) == 1
        whole = np.empty(self.shape, types.pop() if plain else np.float64)
        self.store(whole)
        return whole

    @property
    def key(self) -> Hashable:
        parts = [_key(p) if isinstance(p, np.ndarray) else p.key for p in self.parts]
        return "join", self.axis, tuple(parts)

    def arrays(self) -> Iterator[Array]:
        for part in self.parts:
            yield from (part,) if isinstance(part, np.ndarray) else part.arrays()

    def ends(self, dtype: np.dtype[Any]) -> tuple[float, float]:
        found = [ends(part, dtype) for part in self.parts if prod(part.shape)]
        return float(np.min([low for low, _ in found])), float(np.max([high for _, high in found]))

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


def ends(late: Array | Deferred, dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest element as they are stored in a float type of numpy's own; NaN
    where one is NaN. There is one at least."""
    if not isinstance(late, np.ndarray):
        return late.ends(dtype)
    low, high = (float(end) for end in _ends_of(late).astype(dtype))
    return low, high


def _ends_of(array: Array) -> Array:
    return np.array([np.min(array), np.max(array)])


def _span(late: Deferred, dtype: np.dtype[Any]) -> tuple[float, float]:
    found = np.empty(late.shape, dtype)
    late.store(found)
    return float(np.min(found)), float(np.max(found))


def _key(array: Array) -> Hashable:
    """Equal keys, equal arrays, as long as both are there."""
    if array.size <= _SMALL:
        return array.dtype.str, array.shape, array.tobytes()
    place = array.__array_interface__["data"][0]
    return array.dtype.str, array.shape, array.strides, place


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether it is a float type of numpy's own."""
    return dtype.kind == "f" and dtype.isnative and dtype.itemsize <= 8


def _finite(array: Array) -> bool:
    """The least and the largest are NaN if any element is."""
    return bool(np.isfinite(np.min(array)) and np.isfinite(np.max(array)))
