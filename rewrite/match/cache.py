"""Compiled packs and targets kept on disk, so that rule text and YAML are parsed once.

In: pack names or folders, a target's name. Out: `Matcher` and `Target`, from the user's cache
folder (store.py) where it holds them as this very program made them, else made and put there.
Compilers and parsers are loaded only then. `Cached.state` says what happened.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from rewrite.graph import collector
from rewrite.lang.sources import fingerprint
from rewrite.match import store
from rewrite.match.matcher import Entry, Matcher
from rewrite.ops.schemas import edition, newest_opset
from rewrite.target.target import Target

T = TypeVar("T")

# What unpickling may raise where another version wrote the file under the same key.
_STALE = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, TypeError, ValueError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cached:
    """`state`: `read`, `written`, or why neither."""

    matcher: Matcher
    state: str


def open_packs(
    packs: Iterable[str | Path],
    search: Sequence[Path],
    target: Target | None = None,
    digest: str | None = None,
) -> Cached:
    """The matcher of these packs, compiled now or earlier. `digest`: their fingerprint."""
    wanted = tuple(packs)
    digest = fingerprint(wanted, search, newest_opset()) if digest is None else digest
    places = [str(Path(p).absolute()) for p in search]

    def compiled() -> tuple[Entry, ...]:
        from rewrite.lang.pack import load_packs
        from rewrite.match.matcher import compile_pack
        from rewrite.match.vocabulary import vocabulary

        return compile_pack(load_packs(wanted, vocabulary(), search))

    entries, state = _kept(("packs", digest, *map(str, wanted), *places), compiled)
    return Cached(Matcher(entries, target), state)


def open_target(name: str, shipped: Mapping[str, Path]) -> Target:
    """A shipped target, read now or earlier."""

    def loaded() -> Target:
        from rewrite.match.vocabulary import vocabulary
        from rewrite.target.load import load_target

        return load_target(name, vocabulary())

    files = (f"{path} {_state(path.stat())}" for path in shipped.values())
    return _kept(("target", name, *files), loaded)[0]


def _kept(parts: Sequence[str], make: Callable[[], T]) -> tuple[T, str]:
    """What was kept under this key, else what is made, and put there; and which of the two."""
    folder = store.cache_folder()
    if isinstance(folder, str):
        return make(), folder
    file = folder / f"{_key(parts)}{store.SUFFIX}"
    found = _unpickled(store.read(file))
    if found is not None:
        return found, "read"
    with collector.paused():  # compiling makes trees of many nodes
        made = make()
    return made, store.write(file, pickle.dumps(made, protocol=5))


def _unpickled(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return pickle.loads(data)  # a file of this user, see store.py
    except _STALE:
        return None


def _key(parts: Sequence[str]) -> str:
    """Names everything that what is kept depends on."""
    total = hashlib.sha256(store.FORMAT)
    around = (sys.version, sys.implementation.cache_tag or "", edition())
    for part in (*parts, *around, *_own_files()):
        total.update(len(part).to_bytes(8, "big") + part.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


@cache
def _own_files() -> tuple[str, ...]:
    """The program itself: the files that take part in compiling, by size and time of change."""
    package = Path(__file__).parents[1]
    found = [f"schema.py {_state((package / 'schema.py').stat())}"]
    for layer in ("lang", "target", "match", "ops"):
        found += sorted(_files_below(str(package / layer), layer))
    return tuple(found)


def _files_below(folder: str, name: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".lark", ".json")):
                yield f"{name}/{entry.name} {_state(entry.stat())}"
            elif entry.is_dir():
                yield from _files_below(entry.path, f"{name}/{entry.name}")


def _state(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns}"
