"""Compiled packs kept on disk, so that rule text is parsed once.

In: pack names or folders, a target. Out: `Matcher`, from the user's cache folder where it holds
these packs as compiled by this very program, else compiled and put there.

A cached file is code. It is used only from a folder that belongs to this user and that nobody else
may enter, and only if it is a regular file of this user; it is written whole or not at all, and
carries a hash, so that a damaged one is not used. Anything that is wrong with it only means that
the packs are compiled again; `Cached.state` says what happened.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rewrite.lang.pack import fingerprint, load_packs
from rewrite.match.codegen import Program
from rewrite.match.matcher import Entry, Matcher, compile_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

FORMAT = b"rewrite-match-1\n"
MOST_FILES = 32
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Cached:
    """`state`: `read`, `written`, or why neither."""

    matcher: Matcher
    state: str


def open_packs(
    packs: Iterable[str | Path], search: Sequence[Path], target: Target | None = None
) -> Cached:
    """The matcher of these packs, compiled now or earlier."""
    wanted, known = tuple(packs), vocabulary()
    key = _key(wanted, search, fingerprint(wanted, known, search))
    folder = cache_folder()
    if isinstance(folder, str):
        return Cached(Matcher(compile_pack(load_packs(wanted, known, search)), target), folder)
    file = folder / f"{key}.match"
    entries = read(file)
    if entries is not None:
        return Cached(Matcher(entries, target), "read")
    entries = compile_pack(load_packs(wanted, known, search))
    return Cached(Matcher(entries, target), write(file, entries))


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


def _key(packs: Sequence[str | Path], search: Sequence[Path], digest: str) -> str:
    """Names everything that the compiled form depends on."""
    total = hashlib.sha256(FORMAT)
    places = [str(Path(p).absolute()) for p in search]
    parts = [digest, *map(str, packs), *places, sys.version, sys.implementation.cache_tag or ""]
    parts.append(str(vocabulary().newest_opset))
    for part in (*parts, *_own_files()):
        total.update(len(part).to_bytes(8, "big") + part.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _own_files() -> Iterable[str]:
    """The program itself: the files that take part in compiling, by size and time of change."""
    package = Path(__file__).parents[1]
    layers = (sorted((package / layer).rglob("*")) for layer in ("lang", "match", "ops"))
    for path in (package / "schema.py", *chain.from_iterable(layers)):
        if path.suffix in (".py", ".lark", ".json"):
            status = path.stat()
            yield f"{path.relative_to(package)} {status.st_size} {status.st_mtime_ns}"


# --- files ---------------------------------------------------------------------------------------


def read(file: Path) -> tuple[Entry, ...] | None:
    """What the file holds; None where there is none that can be trusted."""
    data = _read_own(file)
    head = len(FORMAT) + hashlib.sha256().digest_size
    if data is None or data[: len(FORMAT)] != FORMAT:
        return None
    if hashlib.sha256(data[head:]).digest() != data[len(FORMAT) : head]:
        return None
    try:
        rows = pickle.loads(data[head:])  # a file of this user, checked above
        return tuple(_thaw(row) for row in rows)
    except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, TypeError, ValueError):
        return None  # written by another version under the same key: compile again


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


def write(file: Path, entries: Sequence[Entry]) -> str:
    """Keep the entries, whole or not at all; `written`, or why not."""
    payload = pickle.dumps([_freeze(entry) for entry in entries], protocol=5)
    data = FORMAT + hashlib.sha256(payload).digest() + payload
    if len(data) > MOST_BYTES:
        return "the packs are too large to be kept"
    try:
        _tidy(file.parent)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-")
    except OSError as problem:
        return f"not written: {problem}"
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).replace(file)
    except OSError as problem:
        Path(name).unlink(missing_ok=True)
        return f"not written: {problem}"
    return "written"


def _tidy(folder: Path) -> None:
    """Drop the oldest files, so that the folder stays small."""
    files = [p for p in folder.iterdir() if p.suffix == ".match" or p.name.startswith(".new-")]
    by_age = sorted(files, key=lambda p: (p.stat().st_mtime_ns, p.name))
    for path in by_age[: max(0, len(by_age) - MOST_FILES + 1)]:
        path.unlink(missing_ok=True)


Row = tuple[object, object, object]


def _freeze(entry: Entry) -> Row:
    program = entry.program
    if isinstance(program, Program):
        plain = (marshal.dumps(program.code), program.constants, program.searches)
        return entry.rule, plain, entry.prefilter
    return entry.rule, program, entry.prefilter


def _thaw(row: Row) -> Entry:
    rule, program, prefilter = row
    if isinstance(program, tuple):
        code, *rest = program
        program = Program(marshal.loads(code), *rest)
    return Entry(rule, program, prefilter)  # type: ignore[arg-type]
