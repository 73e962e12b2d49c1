"""Two packs, or the packs of two targets, compared rule by rule.

In: two `RulePack`s. Out: a dictionary: rules added, removed, changed, and in what.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rewrite.engine.ledger import Bound
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, added
from rewrite.lang.printer import print_condition

Report = dict[str, Any]


def compare(before: RulePack, after: RulePack) -> Report:
    """Rules that one side has and the other lacks, and those that are not the same."""
    old, new = ({rule.name: rule for rule in pack.rules} for pack in (before, after))
    changed = {name: _changes(before, after, old[name], new[name]) for name in old if name in new}
    return {
        "kind": "packs",
        "before": before.name,
        "after": after.name,
        "rules": [len(old), len(new)],
        "added": {name: claim(rule) for name, rule in new.items() if name not in old},
        "removed": {name: claim(rule) for name, rule in old.items() if name not in new},
        "changed": {name: changes for name, changes in changed.items() if changes},
    }


def same(report: Report) -> bool:
    """Whether the rules are the same."""
    return not (report["added"] or report["removed"] or report["changed"])


def claim(rule: ast.Rule) -> str:
    """What the rule promises, in words."""
    return "certified" if rule.claim.kind == "certified" else str(Bound.of(rule.claim))


def _changes(before: RulePack, after: RulePack, old: ast.Rule, new: ast.Rule) -> Report:
    """Part -> what it was and is."""
    found: Report = {}
    parts: dict[str, list[object]] = {
        "claim": [claim(old), claim(new)],
        "phase": [old.phase, new.phase],
        "opset": [list(old.opset), list(new.opset)],
        "over": [list(old.over), list(new.over)],
    }
    found.update({key: pair for key, pair in parts.items() if pair[0] != pair[1]})
    refined = [list(map(print_condition, added(p.files, old.name))) for p in (before, after)]
    if refined[0] != refined[1]:
        found["refined"] = refined
    if _parts(old) != _parts(new) or _text(before, old) != _text(after, new):
        found["text"] = [_place(old), _place(new)]
    return found


def _parts(rule: ast.Rule) -> tuple[object, ...]:
    """What a rule does, as far as trees compare: places in the text do not count."""
    return (rule.match, rule.emit, rule.group, rule.doc, len(rule.examples))


def _text(pack: RulePack, rule: ast.Rule) -> str:
    """The rule as written, blanks apart."""
    text = pack.texts.get(rule.span.file)
    if text is None:
        text = Path(rule.span.file).read_text(encoding="utf-8")
    rows = text.splitlines()[rule.span.line - 1 : rule.span.end_line]
    return " ".join(" ".join(rows).split())


def _place(rule: ast.Rule) -> str:
    return f"{rule.span.file}:{rule.span.line}"
