"""Files in the user's cache folder, trusted only where nobody else can have written them.

In: a key and bytes. Out: the bytes again, in a later run.

What is kept is code. It is used only from a folder that belongs to this user and that nobody else
may enter, and only from a regular file of this user; files are written whole or not at all, and
carry a hash, so that a damaged one is not used. Whatever is wrong only means that nothing is kept.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from rewrite import files

FORMAT = b"rewrite-match-3\n"
MOST_FILES = 32
MOST_BYTES = 64 << 20
SUFFIX = ".match"


def cache_folder() -> Path | str:
    """The folder, made if need be; in words why there is none."""
    if not hasattr(os, "geteuid"):
        return "this system has no owners of files"
    base = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
        folder = root / "rewrite"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except (OSError, RuntimeError) as problem:
        return f"no cache folder: {problem}"
    private = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o077 == 0
    if not private or found.st_uid != os.geteuid():
        return f"{folder} is open to others"
    return folder


def read(file: Path) -> bytes | None:
    """What was written; None where there is nothing that can be trusted."""
    data = _read_own(file)
    head = len(FORMAT) + hashlib.sha256().digest_size
    if data is None or data[: len(FORMAT)] != FORMAT:
        return None
    payload = memoryview(data)[head:]
    if hashlib.sha256(payload).digest() != data[len(FORMAT) : head]:
        return None
    return bytes(payload)


def _read_own(file: Path) -> bytes | None:
    """The bytes of a regular file that belongs to this user and that only this user may write."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    found = os.fstat(handle)
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    if not own or found.st_mode & 0o022 or found.st_size > MOST_BYTES:
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as stream:
        return stream.read()


def write(file: Path, payload: bytes) -> str:
    """Keep the bytes, whole or not at all; `written`, or why not."""
    data = FORMAT + hashlib.sha256(payload).digest() + payload
    if len(data) > MOST_BYTES:
        return "there is too much to be kept"
    try:
        _tidy(file.parent)
        with files.whole(file, 0o600) as stream:
            stream.write(data)
    except OSError as problem:
        return f"not written: {problem}"
    return "written"


def _tidy(folder: Path) -> None:
    """Drop the oldest files, so that the folder stays small."""
    ours = (p for p in folder.iterdir() if p.suffix == SUFFIX or p.name.startswith(files.PART))
    by_age = sorted(ours, key=lambda p: (p.stat().st_mtime_ns, p.name))
    for path in by_age[: max(0, len(by_age) - MOST_FILES + 1)]:
        path.unlink(missing_ok=True)
