"""Known values in the forms that kernels want, made once and shared by all plans of a session.

In: an array, a key, a function. Out: the array made. Safe to use from several threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from rewrite.graph.tensors import ComputedTensor, give_back_pages
from rewrite.plan.machine import PLAIN, Machine
from rewrite.plan.program import Content

Array = np.ndarray[Any, np.dtype[Any]]


ALIGNMENT = 64  # bytes: a line of the cache, and the widest vector
_AS_THEY_ARE = "as they are"  # the form of elements that no kernel wants in another one


def room(shape: Sequence[int], dtype: Any) -> Array:
    """Memory for an array from a multiple of `ALIGNMENT` on."""
    nbytes = prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    skip = -raw.__array_interface__["data"][0] % ALIGNMENT
    found: Array = raw[skip : skip + nbytes].view(dtype)
    return found.reshape(shape)


def aligned(array: Array) -> Array:
    """The array in row-major order from a multiple of `ALIGNMENT` on: copied once, or as it is."""
    if array.flags.c_contiguous and array.__array_interface__["data"][0] % ALIGNMENT == 0:
        return array
    made = room(array.shape, array.dtype)
    np.copyto(made, array)
    return made


class Weights:
    """Arrays by the identity of what they were made from, which is kept alive for that.

    `machine`: what they are laid out for.
    """

    def __init__(self, machine: Machine = PLAIN) -> None:
        self.machine = machine
        self._made: dict[tuple[int, object], Array] = {}
        self._sources: dict[int, Content] = {}
        self._lock = threading.Lock()

    def keep(self, content: Content) -> None:
        self._sources[id(content)] = content

    def packed(self, content: Content, key: object, make: Callable[[Array], Array]) -> Array:
        """`make` of the elements; the same object for the same content and key.

        Elements that are computed are let go: few kernels want them in a second form.
        """
        with self._lock:
            found = self._made.get((id(content), key))
            if found is None:
                self.keep(content)
                array = content.numpy() if isinstance(content, ComputedTensor) else content
                found = self._made[id(content), key] = aligned(make(array))
                if isinstance(content, ComputedTensor):
                    content.drop()
                else:  # pages are not left to add up to a second copy of all weights
                    give_back_pages(content)
            return found

    def elements(self, content: Content) -> Array:
        """The elements as they are; computed ones the same array for all plans, kept."""
        if not isinstance(content, ComputedTensor):
            return content
        with self._lock:
            found = self._made.get((id(content), _AS_THEY_ARE))
            if found is None:
                self.keep(content)
                found = room(content.recipe.shape, content.dtype.numpy())
                content.store(found)
                self._made[id(content), _AS_THEY_ARE] = found
            return found

    def clear(self) -> None:
        self._made.clear()
        self._sources.clear()
