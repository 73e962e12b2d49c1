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
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from rewrite import files
from rewrite.codegen.compile import machine, to_object
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import generate, symbol_of
from rewrite.match import store
from rewrite.plan.spec import Spec

SUFFIX = ".object"
MOST_FILES = 20_000
MOST_BYTES = 1 << 30


@dataclass
class Counts:
    """What became of the kernels asked for."""

    loaded: int = 0  # found in this process
    read: int = 0  # from disk
    compiled: int = 0
    bytes: int = 0


@dataclass
class Objects:
    """Kernels of one instruction set in this process. Safe to use from several threads."""

    isa: Isa
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._jit: Any = None
        self._addresses: dict[str, int] = {}
        self._kept: list[Any] = []  # resource trackers: code lives as long as they do
        self._folder = _folder()

    def addresses(
        self, specs: Iterable[Spec], progress: Callable[[int], None] | None = None
    ) -> dict[Spec, int]:
        """The address of each spec's kernel; `progress` is told how many are still missing."""
        wanted = list(dict.fromkeys(specs))
        found: dict[Spec, int] = {}
        for done, spec in enumerate(wanted):
            found[spec] = self.address(spec)
            if progress is not None:
                progress(len(wanted) - done - 1)
        return found

    def address(self, spec: Spec) -> int:
        """Compiles where neither this process nor the disk has the code."""
        symbol = symbol_of(spec, self.isa)
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
        builder = llvm.JITLibraryBuilder().add_object_img(image).export_symbol(symbol)
        tracker = builder.add_current_process().link(self._jit, symbol)
        self._kept.append(tracker)
        address = self._addresses[symbol] = int(tracker[symbol])
        return address

    def _read(self, symbol: str) -> bytes | None:
        if self._folder is None:
            return None
        return store.read(self._folder / (symbol + SUFFIX))

    def _write(self, symbol: str, image: bytes) -> None:
        if self._folder is None:
            return
        payload = store.FORMAT + hashlib.sha256(image).digest() + image
        try:
            with files.whole(self._folder / (symbol + SUFFIX), 0o600) as stream:
                stream.write(payload)
        except OSError:  # a full or read-only disk: what is compiled works without being kept
            self._folder = None

    def tidy(self) -> None:
        """Drops the oldest objects where there are too many; asked once per session."""
        if self._folder is None:
            return
        try:
            found = [(e.stat(), e.path) for e in os.scandir(self._folder)]
        except OSError:
            return
        if len(found) <= MOST_FILES and sum(s.st_size for s, _ in found) <= MOST_BYTES:
            return
        found.sort(key=lambda pair: pair[0].st_mtime_ns)
        for _, path in found[: len(found) // 2]:
            Path(path).unlink(missing_ok=True)


def _folder() -> Path | None:
    if os.environ.get("REWRITE_CACHE") == "off":
        return None
    root = store.cache_folder()
    if isinstance(root, str):
        return None
    folder = root / "objects"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    return folder


_OBJECTS: dict[Isa, Objects] = {}
_LOCK = threading.Lock()


def objects_for(isa: Isa) -> Objects:
    """The kernels of this process for an instruction set."""
    with _LOCK:
        found = _OBJECTS.get(isa)
        if found is None:
            found = _OBJECTS[isa] = Objects(isa)
        return found
