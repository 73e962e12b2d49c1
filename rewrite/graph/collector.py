"""Python's cyclic garbage collector, off while many objects are made that all stay.

In: nothing. Out: `paused`. With it on, making n nodes costs more than n times one node.

Switched on again, the collector would look at once at everything made meanwhile. Freezing and
unfreezing moves all of it to the oldest generation, which is looked at when that has grown by a
quarter. Who goes on running behind it, as a session does, may have the garbage of very many
objects (rules parsed, kernels generated: megabytes) collected: what was there before stays frozen
meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 75_000  # objects made, from which on their garbage is worth looking for


@contextmanager
def paused(collects: bool = False) -> Iterator[None]:
    """No cyclic garbage collection inside; afterwards as before.

    `collects`: if very many objects were made, their garbage is collected at the end.
    """
    was_on = gc.isenabled()
    gc.disable()
    ours = was_on and gc.get_freeze_count() == 0  # else somebody else's frozen objects would thaw
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            if collects and gc.get_count()[0] > MANY:
                gc.collect()
            gc.freeze()
            gc.unfreeze()
        if was_on:
            gc.enable()
