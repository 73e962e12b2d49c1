"""What a person is told about problems.

In: a `RewriteError`. Out: its messages, each with the line of text that it is about, and the page
that explains it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from rewrite import resources
from rewrite.errors import Diagnostic, RewriteError, render, visible

# What a pack may not make us read is not shown either: files that lead out of it, no files.
_NOT_READ = frozenset({"RW301", "RW314", "RW315"})
_LONGEST = 4 << 20  # bytes of text that a line is shown of


def told(problem: RewriteError) -> Iterator[str]:
    """One text per diagnostic; the last of each code ends with the place of its page.

    Those about no text, as the faults of a broken model, come in numbers: the first tells enough.
    """
    placed = [d for d in problem.diagnostics if d.span is not None]
    others = [d for d in problem.diagnostics if d.span is None]
    if len(others) > 1:
        message = f"{others[0].message} (and {len(others) - 1} more)"
        others = [dataclasses.replace(others[0], message=message)]
    shown = placed + others
    last = {diagnostic.code: index for index, diagnostic in enumerate(shown)}
    for index, diagnostic in enumerate(shown):
        text = render(diagnostic, source_of(diagnostic))
        yield "\n".join(
            [text, *(pages([diagnostic.code]) if last[diagnostic.code] == index else ())]
        )


def pages(codes: Iterable[str]) -> Iterator[str]:
    """Where the pages of these codes lie; nothing of those that were not installed."""
    for code in codes:
        path = resources.page(code)
        if path is not None:
            yield visible(f"  page: {nearby(path)}")


def nearby(path: Path) -> Path:
    """The shortest way to write the path."""
    try:
        return path.relative_to(Path.cwd())
    except (ValueError, OSError):  # it lies elsewhere; the folder where we stand is gone
        return path


def source_of(diagnostic: Diagnostic) -> str | None:
    """The text that a diagnostic points into; None where it is not a file that can be read."""
    if diagnostic.span is None or diagnostic.code in _NOT_READ:
        return None
    return text_of(diagnostic.span.file)


def text_of(file: str) -> str | None:
    """The text of a file; None where it cannot be read, is too long or a link that leads away."""
    try:
        path = Path(file)
        if not path.resolve().is_relative_to(path.parent.resolve()):
            return None  # a link that leads out of a pack: what it leads to is not ours to show
        if not path.is_file() or path.stat().st_size > _LONGEST:  # a pipe would keep us waiting
            return None
        return path.read_text(encoding="utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError, ValueError):
        return None
