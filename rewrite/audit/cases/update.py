"""What tests expect, written into files of cases.

In: `Outcome`s; the text of a file, what is to stand in which case. Out: the new text. Only the
values of `after` and `rejects` change; every other byte stays, comments too. Graphs are written as
block literals: YAML's own form for text that a person reads line by line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from rewrite.audit.cases.case import Outcome
from rewrite.audit.cases.tree import compose, span_of
from rewrite.errors import Diagnostic


@dataclass(frozen=True, slots=True)
class Change:
    """`value` is to be the value of `key` in the case that begins at a place, from 1."""

    line: int
    column: int
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class _Edit:
    """New text for the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def changes_of(outcomes: Iterable[Outcome], folder: Path) -> dict[str, list[Change]]:
    """File -> what the outcomes propose; only of files in the folder."""
    found: dict[str, dict[Change, None]] = {}
    for outcome in outcomes:
        case = outcome.test.case
        if outcome.finding is None or case is None or Path(case.span.file).parent != folder:
            continue
        changes = found.setdefault(case.span.file, {})
        for key, value in outcome.finding.proposed:
            changes[Change(case.span.line, case.span.column, key, value)] = None
    return {file: list(changes) for file, changes in found.items() if changes}


def updated(text: str, file: str, changes: Sequence[Change]) -> tuple[str, list[Diagnostic]]:
    """The text with the changes made, and those that cannot be made in place (RW717)."""
    root = compose(text, file)
    assert isinstance(root, yaml.SequenceNode)  # it has been read before
    cases = {(n.start_mark.line + 1, n.start_mark.column + 1): n for n in root.value}
    edits: list[_Edit] = []
    refused: list[Diagnostic] = []
    places = Counter((change.line, change.column, change.key) for change in changes)
    for change in changes:
        case = cases[change.line, change.column]
        if places[change.line, change.column, change.key] > 1:
            message = f"the opsets of the case do not agree about `{change.key}`"
            span = span_of(case, file)
            hint = "write a case for each form that it takes"
            refused.append(Diagnostic("RW717", message, span, hint))
        elif case.flow_style:
            span = span_of(case, file)
            message = f"`{change.key}` cannot be written into a case in braces"
            refused.append(Diagnostic("RW717", message, span, "write one `key: value` per line"))
        else:
            edits += _edits(text, case, change)
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text, refused


def _edits(text: str, case: yaml.MappingNode, change: Change) -> Iterator[_Edit]:
    key, value = next((k, v) for k, v in case.value if k.value == change.key)
    if change.key == "after":
        yield _literal(text, key, value, change.value)
    else:
        start, end = value.start_mark.index, value.end_mark.index
        gap = " " if start == end else ""  # nothing is written behind the colon
        yield _Edit(start, end, gap + change.value)


def _literal(text: str, key: yaml.Node, value: yaml.Node, graph: str) -> _Edit:
    """The graph as a block literal; what stands behind the value in its first line stays."""
    start, end = value.start_mark.index, value.end_mark.index
    end = start + len(text[start:end].rstrip())
    if isinstance(value, yaml.ScalarNode) and value.style in ("|", ">"):
        header = text[start:].split(maxsplit=1)[0]
        behind = start + len(header)
        stop = max(_line_end(text, end), _line_end(text, start))
        rest = text[behind : _line_end(text, start)]
    else:
        stop = _line_end(text, end)
        rest = text[end:stop]
    newline = "\r\n" if "\r\n" in text else "\n"
    pad = " " * (key.start_mark.column + 2)
    rows = "".join(f"{newline}{pad}{row}" for row in graph.splitlines())
    gap = " " if start == end else ""
    return _Edit(start, stop, f"{gap}|{rest}{rows}")


def _line_end(text: str, offset: int) -> int:
    """Where the line ends, before its line end."""
    found = text.find("\n", offset)
    found = len(text) if found < 0 else found
    return found - 1 if text[found - 1 : found] == "\r" and found > offset else found
