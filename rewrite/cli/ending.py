"""A command that is asked to end goes through every `finally`, as with Ctrl-C.

In: SIGTERM, and SIGHUP of a terminal that closes. Out: the exit status 128 + the signal's number;
processes that were started are ended, and what was half written is gone.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_ASKED = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def in_order() -> None:
    """From now on. Signals that the caller has ignored (`nohup`) stay ignored."""
    for number in _ASKED:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave)


def at_once() -> None:
    """From now on, Ctrl-C too: for a process that waits where Python sees no signal."""
    for number in (signal.SIGINT, *_ASKED):
        signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _: FrameType | None) -> None:
    for each in _ASKED:  # `timeout` sends it twice, and the second would cut short what is cleared
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)
