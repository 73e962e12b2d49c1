"""Arrays for results.

In: shapes and types. Out: new arrays. Memory of large results comes back when the last array over
it is gone, and is used again: fresh pages cost more than many a kernel that fills them (each is
zeroed by the system when it is first written to).
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Collection, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from rewrite.errors import error
from rewrite.runtime.profile import size as told

Array = np.ndarray[Any, np.dtype[Any]]

POOLED = 1 << 18  # bytes: smaller results are the allocator's
MOST_KEPT = 1 << 28  # bytes that wait to be used again
_ALIGN = 64


class Outputs:
    """Makes arrays, and keeps the memory of those that are gone. Safe to use from threads."""

    def __init__(self) -> None:
        self._free: dict[int, list[Array]] = {}
        self._kept = 0
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of any content. Raises RW811 where there is not so much memory."""
        count = prod(shape) * dtype.itemsize
        if count < POOLED:
            return np.empty(shape, dtype)
        check_memory(count)
        block = self._take(count)
        lease = _lease_type(block.nbytes).from_buffer(block)
        weakref.finalize(lease, self._back, block).atexit = False
        return np.frombuffer(lease, dtype, prod(shape)).reshape(shape)

    def _take(self, count: int) -> Array:
        with self._lock:
            waiting = self._free.get(count)
            if waiting:
                self._kept -= count
                return waiting.pop()
        raw = np.empty(count + _ALIGN, np.uint8)
        start = -raw.__array_interface__["data"][0] % _ALIGN
        return raw[start : start + count]

    def _back(self, block: Array) -> None:
        with self._lock:
            if self._kept + block.nbytes <= MOST_KEPT:
                self._free.setdefault(block.nbytes, []).append(block)
                self._kept += block.nbytes

    def clear(self) -> None:
        """Gives back what is kept."""
        with self._lock:
            self._free.clear()
            self._kept = 0


def separated(
    results: Sequence[Any], values: Sequence[Any], places: Collection[Array]
) -> list[Any]:
    """The results, each in memory of its own: a graph may give what it was given, or one value
    twice. `values`: what it was given; `places`: arrays that it was asked to write to."""
    owners: set[int] = set()
    for value in values:
        _note_owners(value, owners)
    left = {id(array) for array in places} if places else ()
    return [value if id(value) in left else _separate(value, owners) for value in results]


def _separate(value: Any, owners: set[int]) -> Any:
    """A copy of what lies in memory that has an owner already; it has one then."""
    if isinstance(value, list):
        return [_separate(item, owners) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    owner = _owner(value)
    made = value.copy() if owner in owners else value
    owners.add(owner)
    return made


def _note_owners(value: Any, owners: set[int]) -> None:
    if isinstance(value, list):
        for item in value:
            _note_owners(item, owners)
    elif isinstance(value, np.ndarray):
        owners.add(_owner(value))


def _owner(array: Array) -> int:
    """The identity of the array that an array is a view of, or its own."""
    base = array.base
    while isinstance(base, np.ndarray):
        array, base = base, base.base
    return id(array)


@cache
def _lease_type(count: int) -> Any:
    return ctypes.c_char * count


@cache
def physical_memory() -> int:
    """Bytes of this machine's memory."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a system of this kind
        return 1 << 62


def check_memory(count: int) -> None:
    """Raises RW811 for more than the machine has: the system would grant it and end us later."""
    if count > physical_memory():
        have = told(physical_memory())
        message = f"{told(count)} are needed at once, this machine has {have}"
        raise error("RW811", message, hint="give smaller inputs")
