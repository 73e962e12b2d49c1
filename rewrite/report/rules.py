"""What a page tells about rules.

In: compiled rules. Out: `Told`: name, claim, place and text. The text is that of the rule's file;
where it can no longer be read the page says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rewrite.engine.ledger import Bound
from rewrite.match.rule import CompiledRule
from rewrite.told import text_of

_NOT_THERE = "The file of this rule cannot be read."


@dataclass(frozen=True, slots=True)
class Told:
    """One rule; `place` is the file without the folders around its pack, and the line."""

    name: str
    phase: str
    claim: str
    doc: str
    place: str
    text: str


def told(rules: Iterable[CompiledRule]) -> list[Told]:
    """What the page says about each rule."""
    files: dict[str, list[str]] = {}
    found = []
    for rule in rules:
        span, claim = rule.rule.span, rule.claim
        kind = "certified" if claim.kind == "certified" else str(Bound.of(claim))
        if span.file not in files:
            files[span.file] = (text_of(span.file) or "").split("\n")
        rows = files[span.file]
        text = "\n".join(rows[span.line - 1 : span.end_line]) or _NOT_THERE
        place = f"{'/'.join(Path(span.file).parts[-2:])}:{span.line}"
        doc = " ".join(rule.rule.doc.split())
        found.append(Told(rule.name, rule.phase, kind, doc, place, text))
    return found
