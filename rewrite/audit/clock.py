"""The processor time of a process of ours, for work that does not look at clocks itself.

In: when the work is to be over. Out: nothing; a process that is still at it a little later is ended
by the system, and its exit code says so. Native code, and models without an end, stop no other way.
"""

from __future__ import annotations

import signal
import time

GRACE = 1.0  # seconds for what does look at clocks to end by itself


def end_at(seconds: float) -> None:
    """End this process where `time.process_time` is `GRACE` beyond this, unless told otherwise."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends a process, whatever it is at
    left = max(0.0, seconds - time.process_time())
    signal.setitimer(signal.ITIMER_PROF, left + GRACE)


def go_on() -> None:
    """The work is over, and the process may go on."""
    signal.setitimer(signal.ITIMER_PROF, 0.0)


def ran_out(exitcode: int | None) -> bool:
    """Whether a process ended because its time was over."""
    return exitcode == -signal.SIGPROF
