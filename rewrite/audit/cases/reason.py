"""Why a rule does not fire on a model, in codes that a test can name.

In: a `CompiledRule`, a model, the `Journal` of its run. Out: `Reason`s, the best first: where an
application was refused that; else the tests of the smallest sets that keep the rule from matching
at any node; where it is nothing like the pattern anywhere, the attempt that got furthest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx
import onnx_ir as ir

from rewrite.audit.explain.reasons import OF_RUNS
from rewrite.audit.explain.reasons import REASONS as EXPLAINED
from rewrite.engine.journal import Journal
from rewrite.graph import io
from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of
from rewrite.match import interpreter
from rewrite.match.items import tests_of
from rewrite.match.near import Near, near
from rewrite.match.rule import CompiledRule, Match, Mismatch
from rewrite.target.target import Target

REFUSED = "refused"
MOST_TOLD = 3  # in one message
# docs/language.md says what they mean. The last two are told of the furthest attempt only.
REASONS = (*(code for code in EXPLAINED if code not in OF_RUNS), "root", "steps")


@dataclass(frozen=True, slots=True)
class Reason:
    """`key` names the test in its rule, mostly by the code, `words` is the text of the test;
    both are "" where it is no test."""

    code: str
    key: str
    words: str
    text: str

    def says(self, because: str) -> bool:
        """Whether these are words of the reason, or the key of its test."""
        return because == self.key or because in self.text or because in self.words

    def __str__(self) -> str:
        named = self.key.partition(":")[0] == self.code
        where = self.key if named else ", ".join(filter(None, (self.code, self.key)))
        return f"{self.text} ({where})"


def reasons(
    rule: CompiledRule, model: onnx.ModelProto, target: Target, journal: Journal
) -> tuple[Reason, ...]:
    """Each reason once."""
    if journal.refused:
        found = [Reason(REFUSED, "", "", refused.reason) for refused in journal.refused]
        return tuple(dict.fromkeys(found))
    words = {test.key: test.words for test in tests_of(rule).every}
    facts = io.load(model).facts
    smallest = _smallest(rule, facts, target)
    if smallest:
        each = (violation for one in smallest for violation in one.violations)
        found = [
            Reason(v.code, v.key, words.get(v.key, ""), f"at {v.subject}: {v.reason}") for v in each
        ]
        return tuple(dict.fromkeys(found))
    return (_furthest(rule, facts, target),)


def listed(found: Sequence[Reason]) -> str:
    """The first of them, for a message."""
    return "; ".join(map(str, found[:MOST_TOLD]))


def _smallest(rule: CompiledRule, facts: Facts, target: Target) -> list[Near]:
    """The near matches with the fewest violations, of all nodes."""
    nearest = (near(rule, node, facts, target) for node in _nodes(facts))
    found = [one for some in nearest for one in some if one.violations]
    least = min((len(one.violations) for one in found), default=0)
    return [one for one in found if len(one.violations) == least]


def _furthest(rule: CompiledRule, facts: Facts, target: Target) -> Reason:
    """The attempt that found most of the pattern."""
    best: Mismatch | None = None
    for node in _nodes(facts):
        found = interpreter.match(rule, node, facts, target)
        if isinstance(found, Match):
            return Reason(REFUSED, "", "", "it matches, but the engine does not apply it")
        if best is None or _reached(found) > _reached(best):
            best = found
    if best is None:
        return Reason("operator", "", "", "the model has no nodes")
    text = f"at {best.subject}: {best.reason}" if best.subject else best.reason
    return Reason(best.code, "", "", text)


def _reached(mismatch: Mismatch) -> tuple[bool, int]:
    """How far an attempt got: at an anchor of the rule at all, then nodes found."""
    return mismatch.code != "operator", mismatch.matched


def _nodes(facts: Facts) -> Iterator[ir.Node]:
    return (node for graph in facts.graphs() for node in nodes_of(graph))
