"""The whole of a lint run.

In: folders of packs, which codes are wanted. Out: `Report`: findings in text order, those of
comments that suppress included. Raises `RewriteError` where a pack does not load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rewrite.audit.lint import suppress
from rewrite.audit.lint.finding import Finding
from rewrite.audit.lint.registry import Check, checks
from rewrite.audit.lint.subject import Subject, open_pack
from rewrite.audit.workers import each
from rewrite.errors import RewriteError

SECONDS = 3600.0  # for one pack
Tell = Callable[[str, int, int], None]  # a pack, how many are done, how many are left


@dataclass(frozen=True, slots=True)
class PackReport:
    """`texts`: file -> text, of the pack's own files."""

    pack: str
    findings: tuple[Finding, ...]
    texts: dict[str, str]


def wanted(select: Sequence[str], ignore: Sequence[str]) -> tuple[Check, ...]:
    """The checks whose code begins with one of `select` (all without) and with none of `ignore`."""
    chosen = [c for c in checks() if not select or c.code.startswith(tuple(select))]
    return tuple(c for c in chosen if not (ignore and c.code.startswith(tuple(ignore))))


def lint(
    folders: Sequence[Path], chosen: Sequence[Check], jobs: int = 1, tell: Tell | None = None
) -> list[PackReport]:
    """A report for each pack, in the order given."""
    one = partial(_lint_one, beside=tuple(folders), codes=tuple(c.code for c in chosen))
    found: list[PackReport] = []
    if jobs <= 1 or len(folders) < 2:
        results: Iterable[PackReport] = map(one, folders)
        return _gather(results, folders, found, tell)
    return _gather(_in_processes(one, folders, jobs), folders, found, tell)


def _in_processes(
    one: Callable[[Path], PackReport], folders: Sequence[Path], jobs: int
) -> Iterator[PackReport]:
    """Raises RuntimeError where a process ends before its time."""

    def work(folder: Path, skip: int) -> Iterator[PackReport | RewriteError | str]:
        if skip:
            return
        try:
            yield one(folder)
        except RewriteError as problem:
            yield problem

    def lost(folder: Path, _: int, how: str) -> PackReport | RewriteError | str:
        return f"the process that looked at {folder} {how}"

    for (found,) in each(folders, work, lost, jobs, SECONDS):
        if isinstance(found, RewriteError):
            raise found
        if isinstance(found, str):
            raise RuntimeError(found)
        yield found


def _gather(
    results: Iterable[PackReport],
    folders: Sequence[Path],
    found: list[PackReport],
    tell: Tell | None,
) -> list[PackReport]:
    for report in results:
        found.append(report)
        if tell is not None:
            tell(report.pack, len(found), len(folders) - len(found))
    return found


def _lint_one(folder: Path, beside: tuple[Path, ...], codes: tuple[str, ...]) -> PackReport:
    return lint_pack(open_pack(folder, beside), [c for c in checks() if c.code in codes])


def lint_pack(subject: Subject, chosen: Sequence[Check]) -> PackReport:
    """All that the checks find in the pack's own files, less what comments allow."""
    texts = {file.path: file.text for file in (*subject.source.files, subject.source.yaml)}
    found = [f for check in chosen if not check.last for f in check.run(subject)]
    found = [f for f in found if f.span.file in texts]
    found = list({(f.code, f.span, f.message): f for f in found}.values())
    subject.checked = frozenset(check.code for check in chosen)
    left = suppress.apply(found, subject.comments)
    left += [f for check in chosen if check.last for f in check.run(subject)]
    return PackReport(subject.pack.name, tuple(sorted(left, key=lambda f: f.place)), texts)
