"""Findings mended in the text.

In: the text of a file, the edits of its findings. Out: the text with them made, and whether the
pack still loads. Edits that touch text which another one changes are left for the next run.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from rewrite import resources
from rewrite.audit.lint.finding import Edit, Finding
from rewrite.errors import Span
from rewrite.lang.pack import load_pack
from rewrite.lang.text import position
from rewrite.match.vocabulary import vocabulary

_LEADING = re.compile(r",\s*\Z")
_TRAILING = re.compile(r",\s*")


def fixed(texts: Mapping[str, str], findings: Iterable[Finding]) -> dict[str, str]:
    """File -> new text, of the files that change. All edits of a finding are made, or none."""
    taken: dict[str, list[tuple[int, int, str]]] = {}
    for finding in findings:
        wanted = [(e.span.file, *_placed(texts[e.span.file], e)) for e in finding.edits]
        if any(_touches(taken.get(file, ()), start, end) for file, start, end, _ in wanted):
            continue
        for file, start, end, text in wanted:
            taken.setdefault(file, []).append((start, end, text))
    return {file: _edited(texts[file], edits) for file, edits in taken.items()}


def check_loads(texts: Mapping[str, str]) -> None:
    """Raises `RewriteError` where a pack whose own files have these texts does not load."""
    home = Path(next(iter(texts))).parent
    with tempfile.TemporaryDirectory(prefix="rewrite-") as place:
        copy = Path(place) / home.resolve().name
        copy.mkdir()
        for file, text in texts.items():
            (copy / Path(file).name).write_text(text, encoding="utf-8")
        load_pack(copy, vocabulary(), [home.resolve().parent, resources.folder("rules")])


def _placed(text: str, edit: Edit) -> tuple[int, int, str]:
    start = offset(text, edit.span.line, edit.span.column)
    end = offset(text, edit.span.end_line, edit.span.end_column)
    return start, end, edit.text


def _touches(taken: Iterable[tuple[int, int, str]], start: int, end: int) -> bool:
    return any(a < end and start < b for a, b, _ in taken)


def _edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def offset(text: str, line: int, column: int) -> int:
    """Where a line and a column, both from 1, lie in the text."""
    start = 0
    for _ in range(line - 1):
        start = text.index("\n", start) + 1
    return start + column - 1


def line_of(span: Span) -> Span:
    """The whole line that a span begins on, its end included."""
    return Span(span.file, span.line, 1, span.line + 1, 1)


def within(text: str, span: Span, expression: str, last: bool = False) -> Span:
    """Where the first (last) match of a regular expression lies in a span; else the span."""
    start = offset(text, span.line, span.column)
    end = offset(text, span.end_line, span.end_column)
    places = [m.span() for m in re.compile(expression).finditer(text, start, end)]
    if not places:
        return span
    start, end = places[-1 if last else 0]
    return Span(span.file, *position(text, start), *position(text, end))


def without_item(text: str, span: Span) -> Span | None:
    """The item of a list together with the comma before it, or else the one behind it.

    None where it has neither: it is the only one.
    """
    start = offset(text, span.line, span.column)
    end = offset(text, span.end_line, span.end_column)
    before = _LEADING.search(text[:start])
    if before is not None:
        return Span(span.file, *position(text, before.start()), span.end_line, span.end_column)
    behind = _TRAILING.match(text, end)
    if behind is None:
        return None
    return Span(span.file, span.line, span.column, *position(text, behind.end()))
