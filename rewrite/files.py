"""Files written whole or not at all.

In: a path, what is to stand there. Out: the file. What is written goes into a new file in the same
folder, which then takes the name: whoever reads sees the old file or the new one, and where
something goes wrong the old one stays and nothing is left over.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PART = ".rewrite-part-"  # how names of files begin that are not finished


@contextmanager
def whole(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """A stream whose bytes are the file `path` from the end of the `with` block on.

    Permissions are `mode`, else those of the file that stands there, else those of any new file.
    Where a link is to be followed, the caller resolves it. A file that may not be written is not
    replaced, though the folder would allow it. Raises OSError.
    """
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    temporary = path.with_name(f"{PART}{os.getpid()}-{os.urandom(4).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    handle = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        if mode is None and path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
