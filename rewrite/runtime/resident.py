"""What a process keeps in memory without needing it: given back to the system.

In: nothing. Out: a smaller resident size. Both are advice: whatever is given back comes again when
it is touched, from the heap's own pages or from the file of a library. On other systems than Linux
with glibc nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

_DONTNEED = 4  # MADV_DONTNEED of Linux
_MAPS = Path("/proc/self/maps")


def give_back() -> None:
    """Pages of the heap that are free, and the compiler's code, which runs only while compiling."""
    if not sys.platform.startswith("linux"):
        return
    library = _library()
    trim = getattr(library, "malloc_trim", None)
    if trim is not None:
        trim(0)
    for start, size in _code_of("libllvmlite"):
        library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), _DONTNEED)


@cache
def _library() -> Any:
    return ctypes.CDLL(None)


@cache
def _code_of(name: str) -> tuple[tuple[int, int], ...]:
    """Where a library's code lies: mapped from its file, executable, never written to."""
    found = []
    try:
        lines = _MAPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    for line in lines:
        parts = line.split(maxsplit=5)
        if len(parts) == 6 and parts[1] == "r-xp" and name in Path(parts[5]).name:
            start, end = (int(part, 16) for part in parts[0].split("-"))
            found.append((start, end - start))
    return tuple(found)
