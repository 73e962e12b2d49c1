"""Ctrl-C reaches every process of the terminal; one of them has to tell it, and only once.

In: nothing. Out: processes that begin without a word about an interrupt, and end by one.

Python answers SIGINT with an exception, from its first moment on: a process that still imports its
modules would show where it was, and one that is just forking would lose it. The command line does
the same with SIGTERM and SIGHUP (`rewrite.cli.ending`), which a process of ours is not to inherit.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


@contextmanager
def held() -> Iterator[None]:
    """These signals wait until the end of the block; in processes that start in it, for `ends`."""
    resource_tracker.ensure_running()  # when it starts, it lets interrupts through again
    with _told_afterwards():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _told_afterwards() -> Iterator[None]:
    """Handlers run after the block: a signal that this thread blocks may reach one of native code,
    and Python calls the handler in its main thread all the same."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: dict[int, None] = {}

    def note(number: int, _: FrameType | None) -> None:
        came[number] = None

    before = {n: h for n in sorted(ENDING) if callable(h := signal.getsignal(n))}
    for number in before:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def ends() -> None:
    """In a process that `held` started: such a signal, one that waits too, ends it at once.

    What was ignored stays so: `nohup` asks for that.
    """
    for number in sorted(ENDING):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
