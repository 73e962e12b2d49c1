"""The files of rule packs: found, read within bounds, put in order.

In: pack names or folders, and the folders in which names are looked up. Out: `PackSource`s, those
that a pack extends before it, and the digest of all text read. Nothing outside of a pack's folder
is read: links that lead out are refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rewrite.errors import Collector, Span
from rewrite.lang.limits import FILE_CHARACTERS, PACK_CHARACTERS, PACK_FILES, PACKS
from rewrite.lang.manifest import NAME, Manifest, read_manifest
from rewrite.lang.text import normalize
from rewrite.lang.words import suggestion

MANIFEST = "pack.yaml"


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of a pack: its path as shown to people, and its text with `\\n` line ends."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class PackSource:
    """One pack before its rules are parsed. `extends` are the folders, resolved."""

    folder: Path
    manifest: Manifest
    yaml: TextFile
    files: tuple[TextFile, ...]
    extends: tuple[Path, ...]


def find_sources(
    packs: Iterable[str | Path], search: Sequence[Path], newest_opset: int, errors: Collector
) -> tuple[PackSource, ...]:
    """The packs and all that they extend, each once, those extended first."""
    finder = _Finder(tuple(search), newest_opset, errors)
    for pack in packs:
        folder = _entry(pack, search, errors)
        if folder is not None:
            finder.visit(folder, None)
    return tuple(source for source in finder.found.values() if source is not None)


def digest(sources: Iterable[PackSource]) -> str:
    """A hash of every text that was read, and of the order they were read in."""
    total = hashlib.sha256()
    for source in sources:
        for file in (source.yaml, *source.files):
            name, text = Path(file.path).name.encode(), file.text.encode()
            total.update(b"%d %s %d\n" % (len(name), name, len(text)))
            total.update(text)
    return total.hexdigest()


def fingerprint(packs: Iterable[str | Path], search: Sequence[Path], newest_opset: int) -> str:
    """The `digest` of the packs and all that they extend, without parsing any rule."""
    errors = Collector()
    sources = find_sources(packs, search, newest_opset, errors)
    errors.raise_if_any()
    return digest(sources)


def _entry(pack: str | Path, search: Sequence[Path], errors: Collector) -> Path | None:
    """A name is looked up; a path, or a string that cannot be a name, is a folder."""
    if isinstance(pack, Path) or NAME.fullmatch(pack) is None:
        return Path(pack)
    for place in search:
        if _has_pack(place / pack):
            return place / pack
    errors.add("RW306", f"there is no pack `{pack}`", None, _pack_hint(pack, search))
    return None


def _pack_hint(name: str, search: Sequence[Path]) -> str | None:
    known = [p.parent.name for place in search for p in sorted(place.glob(f"*/{MANIFEST}"))]
    close = suggestion(name, known)
    return close or (f"the packs found are {', '.join(known)}" if known else None)


@dataclass
class _Finder:
    search: tuple[Path, ...]
    newest_opset: int
    errors: Collector
    found: dict[Path, PackSource | None] = field(default_factory=dict)
    open: list[tuple[Path, str]] = field(default_factory=list)  # being visited, with their names
    characters: int = 0
    files: int = 0

    def visit(self, folder: Path, asked: Span | None) -> Path | None:
        """Read the pack in a folder and those it extends."""
        resolved = _resolved(folder)
        if resolved is None:
            self.errors.add("RW301", f"`{folder}` cannot be the folder of a pack", asked)
            return None
        if resolved in self.found:
            return resolved
        if len(self.found) + len(self.open) >= PACKS:
            self.errors.add("RW315", f"more than {PACKS} packs are loaded together", asked)
            return None
        if not _holds((folder / MANIFEST).is_file):
            span = asked or Span(str(folder / MANIFEST), 1, 1, 1, 1)
            hint = None if _holds(folder.is_dir) else _pack_hint(str(folder), self.search)
            self.errors.add("RW301", _no_pack(folder), span, hint)
            return None
        yaml = self._read(folder / MANIFEST, resolved)
        if yaml is None:
            return None
        manifest = read_manifest(yaml.text, yaml.path, self.newest_opset, self.errors)
        if manifest is None:
            return None
        self.open.append((resolved, manifest.name))
        extends = self._extended(folder, manifest)
        self.open.pop()
        files = tuple(f for f in self._rule_files(folder, resolved) if f is not None)
        if not files and not extends and not self.errors.found:
            hint = "rules stand in files of the folder that end in `.rules`"
            self.errors.add(
                "RW301", f"the pack `{manifest.name}` has no rules", manifest.span, hint
            )
        self.found[resolved] = PackSource(resolved, manifest, yaml, files, extends)
        return resolved

    def _extended(self, folder: Path, manifest: Manifest) -> tuple[Path, ...]:
        found: list[Path] = []
        for wanted in manifest.extends:
            places = (folder.parent, *self.search)
            at = next((p / wanted.name for p in places if _has_pack(p / wanted.name)), None)
            if at is None:
                hint = _pack_hint(wanted.name, places)
                self.errors.add("RW306", f"there is no pack `{wanted.name}`", wanted.span, hint)
                continue
            loop = [name for path, name in self.open if path == at.resolve()]
            if loop:
                message = f"the pack `{manifest.name}` extends `{wanted.name}`, which extends it"
                self.errors.add("RW307", message, wanted.span, "remove one of the two")
                continue
            resolved = self.visit(at, wanted.span)
            if resolved is not None:
                found.append(resolved)
        return tuple(found)

    def _rule_files(self, folder: Path, resolved: Path) -> list[TextFile | None]:
        here = Span(str(folder / MANIFEST), 1, 1, 1, 1)
        try:
            paths = sorted(p for p in folder.iterdir() if p.suffix == ".rules")
        except OSError as problem:
            self.errors.add("RW301", f"`{folder}` cannot be read: {problem.strerror}", here)
            return []
        self.files += len(paths)
        if self.files > PACK_FILES:
            self.errors.add("RW315", f"the packs have more than {PACK_FILES} files", here)
            return []
        return [self._read(path, resolved) for path in paths]

    def _read(self, path: Path, resolved: Path) -> TextFile | None:
        span = Span(str(path), 1, 1, 1, 1)
        place = _resolved(path)
        if place is None or not place.is_relative_to(resolved):
            hint = "copy the file into the pack"
            self.errors.add("RW314", f"`{path.name}` leads out of the pack's folder", span, hint)
            return None
        if not _holds(path.is_file):
            self.errors.add("RW301", f"`{path.name}` is not a file", span)
            return None
        size = path.stat().st_size
        self.characters += size
        if size > 4 * FILE_CHARACTERS or self.characters > PACK_CHARACTERS:
            self.errors.add("RW315", f"`{path.name}` is too large to be read", span)
            return None
        return self._decode(path, span)

    def _decode(self, path: Path, span: Span) -> TextFile | None:
        try:
            raw = path.read_bytes()
        except OSError as problem:
            self.errors.add("RW301", f"`{path.name}` cannot be read: {problem.strerror}", span)
            return None
        try:
            return TextFile(str(path), normalize(raw.decode("utf-8")))
        except UnicodeDecodeError as problem:
            line = raw.count(b"\n", 0, problem.start) + 1
            here = Span(span.file, line, 1, line, 1)
            self.errors.add("RW112", "the file is not UTF-8 text", here, "save it as UTF-8")
            return None


def _has_pack(folder: Path) -> bool:
    return _holds((folder / MANIFEST).is_file)


def _holds(question: Callable[[], bool]) -> bool:
    """No, where the system does not let us ask."""
    try:
        return question()
    except OSError:
        return False


def _resolved(path: Path) -> Path | None:
    """Where the path leads; None where it cannot be followed (a circle of links, a NUL)."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return None


def _no_pack(folder: Path) -> str:
    if not _holds(folder.exists):
        return f"there is no folder `{folder}`"
    if not _holds(folder.is_dir):
        return f"`{folder}` is a file; a rule pack is a folder with a {MANIFEST}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"`{folder}` cannot be read: Permission denied"
    return f"`{folder}` is not a pack: it has no {MANIFEST}"
