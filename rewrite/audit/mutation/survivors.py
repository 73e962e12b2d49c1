"""Mutants that nothing kills, and why that is right: `survivors.yaml` beside the rules of a pack.

In: the folder of a pack, verdicts. Out: explanations by rule and key; those that explain nothing.

The file is a list of `{rule: R, mutant: KEY, because: WORDS}`; `mutant` may end in `*` and then
stands for all whose keys begin so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from rewrite.audit.cases.find import text_of
from rewrite.audit.cases.tree import compose, span_of
from rewrite.audit.mutation.judge import Verdict
from rewrite.errors import Collector, Diagnostic, Span

FILE = "survivors.yaml"
_KEYS = ("rule", "mutant", "because")


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a mutant of a rule is no fault of the tests."""

    rule: str
    mutant: str
    because: str
    span: Span

    def covers(self, verdict: Verdict) -> bool:
        """Whether it is about this mutant."""
        if verdict.rule != self.rule:
            return False
        if self.mutant.endswith("*"):
            return verdict.key.startswith(self.mutant[:-1])
        return verdict.key == self.mutant


def read(folder: Path) -> tuple[Explained, ...]:
    """The explanations of a pack. Raises RW725 for what is no list of them, RW709."""
    path = folder / FILE
    if not os.path.lexists(path):
        return ()
    errors = Collector()
    found: list[Explained] = []
    text = text_of(path)
    root = text if isinstance(text, Diagnostic) else compose(text, str(path))
    if isinstance(root, Diagnostic):
        errors.found.append(root)
    elif root is not None and not isinstance(root, yaml.SequenceNode):
        errors.add("RW725", "a list of explanations is expected here", span_of(root, str(path)))
    elif root is not None:
        found = [x for x in (_entry(n, str(path), errors) for n in root.value) if x is not None]
    errors.raise_if_any()
    return tuple(found)


def _entry(node: yaml.Node, file: str, errors: Collector) -> Explained | None:
    span = span_of(node, file)
    hint = "{rule: R, mutant: KEY, because: WORDS}"
    if not isinstance(node, yaml.MappingNode):
        errors.add("RW725", "an explanation is expected here", span, hint)
        return None
    words: dict[str, str] = {}
    for key, value in node.value:
        name = str(key.value)
        if name not in _KEYS or name in words:
            errors.add("RW725", f"`{name}` is not expected here", span_of(key, file), hint)
        elif not isinstance(value, yaml.ScalarNode) or not str(value.value).strip():
            errors.add("RW725", f"`{name}` takes a text", span_of(value, file), hint)
        else:
            words[name] = " ".join(str(value.value).split())
    missing = [name for name in _KEYS if name not in words]
    if missing:
        errors.add("RW725", f"the explanation lacks `{missing[0]}`", span, hint)
        return None
    return Explained(words["rule"], words["mutant"], words["because"], span)


def explain(
    verdicts: Iterable[Verdict], explained: Iterable[Explained], only: Iterable[str] = ()
) -> tuple[dict[tuple[str, str], str], tuple[Diagnostic, ...]]:
    """Survivors -> why they may; RW726 for explanations that no survivor needs.

    `only`: the rules that were looked at, where not all were.
    """
    survivors = [verdict for verdict in verdicts if verdict.fate == "survives"]
    looked_at = frozenset(only)
    found: dict[tuple[str, str], str] = {}
    stale: list[Diagnostic] = []
    for one in explained:
        if looked_at and one.rule not in looked_at:
            continue
        covered = [verdict for verdict in survivors if one.covers(verdict)]
        found.update({(verdict.rule, verdict.key): one.because for verdict in covered})
        if not covered:
            message = f"no mutant `{one.mutant}` of `{one.rule}` survives"
            stale.append(Diagnostic("RW726", message, one.span, "take the explanation out"))
    return found, tuple(stale)
