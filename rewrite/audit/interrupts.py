"""Ctrl-C reaches every process of the terminal; one of them has to tell it, and only once.

In: nothing. Out: processes that begin without a word about an interrupt, and end by one.

Python answers SIGINT with an exception, from its first moment on: a process that still imports its
modules would show where it was, and one that is just forking would lose it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def held() -> Iterator[None]:
    """Interrupts wait until the end of the block; in processes that start in it, for `ends`."""
    resource_tracker.ensure_running()  # when it starts, it lets interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ends() -> None:
    """In a process that `held` started: an interrupt, one that waits too, ends it at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
