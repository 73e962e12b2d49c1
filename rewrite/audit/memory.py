"""The memory that a process of ours may take, so that models from strangers do not take it all.

In: a number of bytes. Out: nothing; from then on what takes more fails in this process.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

MOST_BYTES = 6 << 30  # bytes of a process that works on one item after the other


def bound_memory(nbytes: int) -> None:
    """Bound the memory that is written to (mapped weights are not), and leave no core files.

    Where memory runs out all the same, the system is to end this process and not another one.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = nbytes if hard == resource.RLIM_INFINITY else min(nbytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # only Linux has this file, and not in every container
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
