"""Diagnostics: what went wrong, where, and what to do about it.

In: nothing. Out: `Span`, `Diagnostic` and the one exception that carries them, `RewriteError`.
Every layer reports through these; only the command line prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

_WIDEST = 160  # characters of a row that are shown
_UNSHOWN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of text in a file. Lines and columns count from 1; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that explains the first one."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem. `code` (RWnnn) has a page in docs/errors and never changes its meaning."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    labels: tuple[Label, ...] = ()
    subject: str | None = None  # the model, node or pack it is about, where there is no text span

    def headline(self) -> str:
        """`place: error[CODE]: message`, the first line of every report."""
        place = self.subject or ""
        if self.span is not None:
            place = f"{self.span.file}:{self.span.line}:{self.span.column}"
        head = f"error[{self.code}]: {self.message}"
        return visible(f"{place}: {head}" if place else head)


class RewriteError(Exception):
    """Raised at the end of a stage with every problem that the stage found.

    Not a frozen dataclass: whoever re-raises an exception (contextlib does) sets its traceback.
    """

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__(diagnostics)
        self.diagnostics = diagnostics
        for hint in dict.fromkeys(d.hint for d in diagnostics if d.hint):
            self.add_note(visible(f"hint: {hint}"))  # tracebacks end with it

    def __str__(self) -> str:
        return "\n".join(d.headline() for d in self.diagnostics)


def error(
    code: str,
    message: str,
    span: Span | None = None,
    hint: str | None = None,
    labels: Iterable[Label] = (),
    subject: str | None = None,
) -> RewriteError:
    """A `RewriteError` of one diagnostic."""
    return RewriteError((Diagnostic(code, message, span, hint, tuple(labels), subject),))


@dataclass
class Collector:
    """Gathers diagnostics through a stage; `raise_if_any` ends it."""

    found: list[Diagnostic] = field(default_factory=list)

    def add(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        hint: str | None = None,
        labels: Iterable[Label] = (),
    ) -> None:
        self.found.append(Diagnostic(code, message, span, hint, tuple(labels)))

    def raise_if_any(self) -> None:
        if self.found:
            ordered = sorted(self.found, key=_position)
            raise RewriteError(tuple(ordered))


def collected(items: Iterable[Item], make: Callable[[Item], Made]) -> list[Made]:
    """What is made of each item. Raises `RewriteError` with all that is wrong with any, once."""
    problems = Collector()
    made: list[Made] = []
    for item in items:
        try:
            made.append(make(item))
        except RewriteError as problem:
            problems.found += problem.diagnostics
    problems.found[:] = dict.fromkeys(problems.found)  # of a pack that several extend
    problems.raise_if_any()
    return made


def _position(diagnostic: Diagnostic) -> tuple[str, int, int, str]:
    span = diagnostic.span
    if span is None:
        return ("", 0, 0, diagnostic.code)
    return (span.file, span.line, span.column, diagnostic.code)


def render(diagnostic: Diagnostic, source: str | None = None) -> str:
    """The whole report: headline, the line of text with a caret, labels, hint."""
    lines = [diagnostic.headline()]
    if diagnostic.span is not None and source is not None:
        lines += _caret(diagnostic.span, source)
    for label in diagnostic.labels:
        place = f"{label.span.file}:{label.span.line}:{label.span.column}"
        lines.append(visible(f"  note: {place}: {label.text}"))
    if diagnostic.hint:
        lines.append(visible(f"  hint: {diagnostic.hint}"))
    return "\n".join(lines)


def visible(text: str) -> str:
    """The text as one line that a terminal shows and does not obey: names in models are free."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _caret(span: Span, source: str) -> list[str]:
    rows = source.split("\n")
    if not 1 <= span.line <= len(rows):
        return []
    row = rows[span.line - 1]
    last = span.end_column - 1 if span.end_line == span.line else len(row)
    at, width = span.column - 1, max(1, last - span.column + 1)
    start, stop = _window(len(row), at)
    indent = "".join("\t" if c == "\t" else " " * _columns(c) for c in row[start:at])
    carets = "^" * max(1, sum(map(_columns, row[at : min(at + width, stop)])))
    part = row[start:stop]
    shown = "".join(
        c if c == "\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in part
    )
    return [f"{span.line:5d} | {shown}", " " * 5 + " | " + indent + carets]


def _window(length: int, column: int) -> tuple[int, int]:
    """The part of a long row that is shown."""
    if length <= _WIDEST:
        return 0, length
    start = max(0, min(column - _WIDEST // 3, length - _WIDEST))
    return start, start + _WIDEST


def _columns(character: str) -> int:
    """How many columns of a terminal the character takes."""
    if character.isascii():
        return 1
    from unicodedata import combining, east_asian_width

    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
