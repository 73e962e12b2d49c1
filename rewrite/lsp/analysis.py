"""What is wrong with the files of a pack, or with a target, as they stand in an editor.

In: the path of a file, the texts of files that are open. Out: `Analysis`: diagnostics by file, the
pack where it loads.

The loader reads files, so that what is open is laid over a copy of the pack's folder, in a folder
that lives no longer than the analysis; places are given in the files themselves.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rewrite import resources
from rewrite.audit.cases.find import cases_of
from rewrite.errors import Diagnostic, RewriteError, Span
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

MANIFEST = "pack.yaml"
_READ = ("*.rules", "*.cases.yaml", MANIFEST)
MOST_FILES = 400  # of one pack
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Analysis:
    """`found`: diagnostics by path. `files`: every file that was looked at, in order."""

    found: Mapping[Path, tuple[Diagnostic, ...]]
    files: tuple[Path, ...]
    pack: RulePack | None = None


def pack_folder(path: Path) -> Path | None:
    """The folder of the pack that a file belongs to; None where it is in none."""
    return path.parent if (path.parent / MANIFEST).is_file() else None


def analyse(path: Path, texts: Mapping[Path, str]) -> Analysis:
    """What is wrong with the pack of a rule file, or with a target file."""
    folder = pack_folder(path)
    if folder is not None:
        return _pack(folder, texts)
    if path.suffix in (".yaml", ".yml") and not path.name.endswith(".cases.yaml"):
        return _target(path, texts)
    return Analysis({}, (path,))


@contextmanager
def copied(folder: Path, texts: Mapping[Path, str]) -> Iterator[Path]:
    """A copy of the pack's folder with the texts laid over it."""
    with tempfile.TemporaryDirectory(prefix="rewrite-lsp-") as place:
        copy = Path(place) / folder.name
        copy.mkdir()
        for file in files_of(folder):
            (copy / file.name).write_bytes(_bytes(file, texts))
        yield copy


def _bytes(file: Path, texts: Mapping[Path, str]) -> bytes:
    """What is open, else what is stored."""
    text = texts.get(file)
    return file.read_bytes() if text is None else text.encode("utf-8", "replace")


def files_of(folder: Path) -> tuple[Path, ...]:
    """The files of a pack that are read, within bounds."""
    found = [path for pattern in _READ for path in sorted(folder.glob(pattern)) if path.is_file()]
    size, kept = 0, []
    for path in found[:MOST_FILES]:
        size += path.stat().st_size
        if size > MOST_BYTES:
            break
        kept.append(path)
    return tuple(kept)


def _pack(folder: Path, texts: Mapping[Path, str]) -> Analysis:
    problems: list[Diagnostic] = []
    pack: RulePack | None = None
    with copied(folder, texts) as copy:
        try:
            pack = load_pack(copy, vocabulary(), [resources.folder("rules")])
            cases_of(pack)
        except RewriteError as problem:
            problems = [moved(d, copy, folder) for d in problem.diagnostics]
        if pack is not None:
            pack = _at_home(pack, copy, folder)
    return Analysis(_by_file(problems, folder / MANIFEST), files_of(folder), pack)


def _target(path: Path, texts: Mapping[Path, str]) -> Analysis:
    """A target file, which may extend others beside it: it is read under another name there."""
    problems: list[Diagnostic] = []
    with tempfile.TemporaryDirectory(prefix="rewrite-lsp-") as place:
        copy = Path(place) / path.name
        for other in sorted(path.parent.glob("*.y*ml"))[:MOST_FILES]:
            if other != path and other.is_file() and other.stat().st_size < MOST_BYTES:
                (Path(place) / other.name).write_bytes(other.read_bytes())
        for manifest in sorted(path.parent.glob(f"*/{MANIFEST}"))[:MOST_FILES]:
            (Path(place) / manifest.parent.name).mkdir()
            (Path(place) / manifest.parent.name / MANIFEST).write_bytes(b"")
        copy.write_bytes(_bytes(path, texts))
        try:
            load_target(copy, vocabulary())
        except RewriteError as problem:
            problems = [moved(d, Path(place), path.parent) for d in problem.diagnostics]
    return Analysis(_by_file(problems, path), (path,))


def moved(diagnostic: Diagnostic, copy: Path, home: Path) -> Diagnostic:
    """The diagnostic with its places in the files themselves."""
    span = None if diagnostic.span is None else _home(diagnostic.span, copy, home)
    labels = tuple(
        replace(label, span=_home(label.span, copy, home)) for label in diagnostic.labels
    )
    return replace(diagnostic, span=span, labels=labels)


def _home(span: Span, copy: Path, home: Path) -> Span:
    path = Path(span.file)
    if path.parent != copy:
        return span
    return replace(span, file=str(home / path.name))


def _at_home(pack: RulePack, copy: Path, home: Path) -> RulePack:
    """The pack with the origins of its rules in the files themselves; trees keep their places."""
    origins = {
        name: replace(origin, file=str(home / Path(origin.file).name))
        if Path(origin.file).parent == copy
        else origin
        for name, origin in pack.origins.items()
    }
    return replace(pack, origins=origins)


def _by_file(problems: list[Diagnostic], other: Path) -> dict[Path, tuple[Diagnostic, ...]]:
    found: dict[Path, list[Diagnostic]] = {}
    for problem in problems:
        path = other if problem.span is None else Path(problem.span.file)
        found.setdefault(path, []).append(problem)
    return {path: tuple(rows) for path, rows in found.items()}
