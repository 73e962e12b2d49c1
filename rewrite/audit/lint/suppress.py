"""Findings that an author wants: `# lint: allow RW903: because ...` on the line above.

In: the text of a rule file, findings. Out: the findings left, the comments without a reason or with
a code that is none, and those that suppress nothing.

A comment concerns what begins on the next line that is no comment. Where a rule, a pattern or a
`refine` begins there, it concerns all of that; else what the line is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rewrite.audit.lint.finding import Finding
from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.comments import Comment, find_comments

_COMMENT = re.compile(r"#\s*lint\s*:\s*(?P<rest>.*)")
_ALLOW = re.compile(r"allow\s+(?P<codes>RW\d+(?:\s*,\s*RW\d+)*)\s*(?::\s*(?P<reason>.*))?")
_WORD = re.compile(r"\w\w")


@dataclass
class Suppression:
    """One comment. `codes` is empty where it is not of the form; `used` those it suppressed."""

    span: Span
    codes: tuple[str, ...]
    reason: str
    alone: bool
    lines: range  # where the findings that it concerns begin
    used: set[str] = field(default_factory=set)


def suppressions(text: str, tree: ast.RuleFile) -> tuple[Suppression, ...]:
    """Those of one file, in text order."""
    rows = text.split("\n")
    items = {n.span.line: n for n in (*tree.patterns, *tree.rules, *tree.refinements)}
    return tuple(
        _suppression(comment, match["rest"], tree.span.file, rows, items)
        for comment in find_comments(text)
        if (match := _COMMENT.fullmatch(comment.text)) is not None
    )


def _suppression(
    comment: Comment, rest: str, file: str, rows: Sequence[str], items: dict[int, ast.Node]
) -> Suppression:
    match = _ALLOW.fullmatch(rest.strip())
    codes = () if match is None else tuple(re.findall(r"RW\d+", match["codes"]))
    reason = "" if match is None else (match["reason"] or "").strip()
    line, column = comment.line, comment.column
    span = Span(file, line, column, line, column + len(comment.text))
    return Suppression(span, codes, reason, comment.alone, _concerned(comment, rows, items))


def _concerned(comment: Comment, rows: Sequence[str], items: dict[int, ast.Node]) -> range:
    line = comment.line
    if comment.alone:
        line += 1
        while line <= len(rows) and rows[line - 1].lstrip().startswith("#"):
            line += 1
    item = items.get(line)
    return range(line, line + 1 if item is None else item.span.end_line + 1)


def has_reason(suppression: Suppression) -> bool:
    return _WORD.search(suppression.reason) is not None


def apply(findings: Iterable[Finding], comments: Sequence[Suppression]) -> list[Finding]:
    """The findings that no comment with a reason allows; `used` of the comments is filled."""
    left: list[Finding] = []
    for finding in findings:
        allowing = [c for c in comments if _allows(c, finding)]
        for comment in allowing:
            comment.used.add(finding.code)
        if not any(has_reason(c) for c in allowing):
            left.append(finding)
    return left


def _allows(comment: Suppression, finding: Finding) -> bool:
    same_file = comment.span.file == finding.span.file
    return same_file and finding.code in comment.codes and finding.span.line in comment.lines
