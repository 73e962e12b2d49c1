"""Python's cyclic garbage collector, off while many objects are made that all stay.

In: nothing. Out: `paused`. With it on, making n nodes costs more than n times one node.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No cyclic garbage collection inside; afterwards as before."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
