"""Memory that kernels work in: aligned blocks, addresses of arrays, constants kept once.

In: sizes, numpy arrays. Out: arrays whose data begins at a multiple of `ALIGNMENT` bytes,
addresses.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from functools import cache
from typing import Any

import numpy as np

from rewrite.errors import error

ALIGNMENT = 64  # of a line of the cache, and of the widest vectors
_LARGE = 1 << 20  # bytes of a constant that is not copied to be aligned
Array = np.ndarray[Any, Any]


def address_of(array: Array) -> int:
    """Where the first element lies."""
    return int(array.__array_interface__["data"][0])


def aligned(count: int) -> Array:
    """`count` bytes, not written yet."""
    try:
        raw = np.empty(count + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise error(
            "RW823",
            f"{count:,} bytes are needed to run this model, more than the system gives",
            hint="smaller inputs (a smaller batch) need less",
        ) from None
    skip = -address_of(raw) % ALIGNMENT
    return raw[skip : skip + count]


def words(count: int) -> Array:
    """`count` 8-byte words, all 0."""
    made = aligned(8 * count).view(np.int64)
    made[...] = 0
    return made


@cache
def data_header() -> int | None:
    """How far behind the start of an array object the pointer to its data stands.

    `PyArrayObject_fields` of numpy's binary interface begins with the header of every Python
    object and this pointer; CPython's `id` is the object's address. Following them costs a
    twentieth of asking the array. None where that is not so (another implementation of Python).
    """
    header = int(object.__basicsize__)
    for sample in (np.zeros(3, np.float32), np.zeros((2, 5), np.int8)[1:, 2:], np.zeros(())):
        try:
            found = ctypes.c_ssize_t.from_address(id(sample) + header).value
        except ValueError:
            return None
        if found != address_of(sample):
            return None
    return header


class Constants:
    """Aligned copies of constant arrays, one per array however many plans use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copies: dict[int, tuple[weakref.ref[Array], weakref.ref[Array]]] = {}

    def place(self, array: Array) -> Array:
        """The array itself where it may stay, else its copy. Row-major, aligned.

        A large one stays where it is if its elements are aligned: kernels take inputs like that.
        """
        needed = ALIGNMENT if array.nbytes < _LARGE else array.itemsize
        if array.flags.c_contiguous and address_of(array) % needed == 0:
            return array
        with self._lock:
            kept = self._copies.get(id(array))
            if kept is not None and kept[0]() is array:
                found = kept[1]()
                if found is not None:
                    return found
            copy = aligned(array.nbytes).view(array.dtype).reshape(array.shape)
            copy[...] = array
            self._forget_dead()
            self._copies[id(array)] = (weakref.ref(array), weakref.ref(copy))
            return copy

    def _forget_dead(self) -> None:
        pairs = self._copies.items()
        dead = [key for key, (array, copy) in pairs if array() is None or copy() is None]
        for key in dead:
            del self._copies[key]
