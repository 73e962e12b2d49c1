"""Machine code of kernels: compiled once, kept on disk, loaded into this process.

In: specs, an `Isa`. Out: addresses. Objects are kept in the user's cache folder under a name that
digests the spec, the instruction set, the generators' text and the compiler's version
(`codegen.kernel.symbol_of`). Files are written whole; one that is damaged, not ours or not readable
is compiled again; where nothing can be kept, everything still works.

`REWRITE_CACHE=off` keeps nothing on disk.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from rewrite import files
from rewrite.codegen.compile import machine, to_object
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import generate, symbol_of
from rewrite.match import store
from rewrite.plan.spec import Spec
from rewrite.runtime.forks import renew_after_fork

SUFFIX = ".object"
MOST_FILES = 5_000  # of some 10 kB: what a hundred models need
MOST_FAILURES = 3  # of writing, after which it is not tried again


@dataclass
class Counts:
    """What became of the kernels asked for."""

    loaded: int = 0  # found in this process
    read: int = 0  # from disk
    compiled: int = 0
    bytes: int = 0


class Objects:
    """Kernels of one instruction set in this process. Safe to use from several threads.

    Code lives as long as this does: addresses are used by plans, and nobody counts them.
    """

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self.counts = Counts()
        self._jit: Any = None
        self._addresses: dict[str, int] = {}
        self._kept: list[Any] = []  # resource trackers: code lives as long as they do
        self._links = 0
        self._folder = _folder()
        self._failures = 0
        self._tidied = False
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        self._lock = threading.Lock()

    def addresses(
        self, specs: Iterable[Spec], progress: Callable[[int], None] | None = None
    ) -> list[int]:
        """The address of each spec's kernel; `progress` is told how many kernels are missing.

        Specs are told apart by their text, not by `==`: -0.0 equals 0.0, 1 equals True.
        """
        named = [(spec, symbol_of(spec, self.isa)) for spec in specs]
        missing = {symbol: spec for spec, symbol in named if symbol not in self._addresses}
        for done, (symbol, spec) in enumerate(missing.items()):
            if progress is not None:
                progress(len(missing) - done)
            self._kernel(spec, symbol)
        if progress is not None and missing:
            progress(0)
        return [self._kernel(spec, symbol) for spec, symbol in named]

    def address(self, spec: Spec) -> int:
        """Compiles where neither this process nor the disk has the code."""
        return self._kernel(spec, symbol_of(spec, self.isa))

    def _kernel(self, spec: Spec, symbol: str) -> int:
        return self.load(symbol, lambda: to_object(generate(spec, self.isa, symbol), self.isa))

    def load(self, symbol: str, make: Callable[[], bytes]) -> int:
        """The address of a symbol of an object that is found under its name, or made."""
        with self._lock:
            found = self._addresses.get(symbol)
            if found is not None:
                self.counts.loaded += 1
                return found
            image = self._read(symbol)
            if image is None:
                image = make()
                self.counts.compiled += 1
                self._write(symbol, image)
            else:
                self.counts.read += 1
            self.counts.bytes += len(image)
            return self._link(symbol, image)

    def _link(self, symbol: str, image: bytes) -> int:
        if self._jit is None:
            self._jit = llvm.create_lljit_compiler(machine(self.isa, True))
        # A library's name is used once, even where the linking of it was interrupted.
        self._links += 1
        builder = llvm.JITLibraryBuilder().add_object_img(image).export_symbol(symbol)
        tracker = builder.add_current_process().link(self._jit, f"{self._links}_{symbol}")
        self._kept.append(tracker)
        address = self._addresses[symbol] = int(tracker[symbol])
        return address

    def _read(self, symbol: str) -> bytes | None:
        """The object of a file that is whole, this user's, and about this very symbol."""
        if self._folder is None:
            return None
        found = store.read(self._folder / (symbol + SUFFIX))
        head = _head(symbol)
        return found[len(head) :] if found is not None and found.startswith(head) else None

    def _write(self, symbol: str, image: bytes) -> None:
        if self._folder is None or self._failures == MOST_FAILURES:
            return
        payload = _head(symbol) + image
        self._tidy()
        try:
            with files.whole(self._folder / (symbol + SUFFIX), 0o600) as stream:
                stream.write(store.FORMAT + hashlib.sha256(payload).digest() + payload)
        except OSError:  # a full or read-only disk: what is compiled works without being kept
            self._failures += 1

    def _tidy(self) -> None:
        """Drops the older half where there are too many; before the first one is written."""
        if self._folder is None or self._tidied:
            return
        self._tidied = True
        try:
            if sum(1 for _ in os.scandir(self._folder)) <= MOST_FILES:
                return
            by_age = sorted(
                (e.stat(follow_symlinks=False).st_mtime_ns, e.path)
                for e in os.scandir(self._folder)
            )
            for _, path in by_age[: len(by_age) // 2]:
                Path(path).unlink(missing_ok=True)
        except OSError:  # another process tidies, or nothing may be removed here
            return


def _head(symbol: str) -> bytes:
    return symbol.encode() + b"\n"


def _folder() -> Path | None:
    """The folder of objects, which nobody else may write to; None: nothing is kept."""
    if os.environ.get("REWRITE_CACHE") == "off":
        return None
    root = store.cache_folder()
    if isinstance(root, str):
        return None
    folder = root / "objects"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(found.st_mode) and found.st_mode & 0o022 == 0
    return folder if private and found.st_uid == os.geteuid() else None


_OBJECTS: dict[Isa, Objects] = {}
_LOCK = threading.Lock()


def objects_for(isa: Isa) -> Objects:
    """The kernels of this process for an instruction set."""
    with _LOCK:
        found = _OBJECTS.get(isa)
        if found is None:
            found = _OBJECTS[isa] = Objects(isa)
        return found
