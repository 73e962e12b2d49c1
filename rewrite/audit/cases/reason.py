"""Why a rule does not fire on a model, in codes that a test can name.

In: a `CompiledRule`, a model, the `Journal` of its run. Out: `Reason`s, the best first: where an
application was refused that; else the tests of the smallest sets that keep the rule from matching
at any node; where it is nothing like the pattern anywhere, the attempt that got furthest.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from rewrite.audit.whynot import furthest
from rewrite.engine.journal import Journal
from rewrite.graph import io
from rewrite.match.items import tests_of
from rewrite.match.near import Near, near
from rewrite.match.rule import CompiledRule, Match
from rewrite.target.target import Target

REFUSED = "refused"
# docs/language.md says what they mean.
REASONS = (
    "operator", "output", "operands", "absent", "present", "same", "const", "overridable", "dtype",
    "shape", "literal", "attribute", "bag", "chain", "siblings", "uses", "graph", "root", "guard",
    "where", "unknown", "opset", "steps", REFUSED,
)  # fmt: skip


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
    smallest = _smallest(rule, model, target)
    if smallest:
        each = (violation for one in smallest for violation in one.violations)
        found = [
            Reason(v.code, v.key, words.get(v.key, ""), f"at {v.subject}: {v.reason}") for v in each
        ]
        return tuple(dict.fromkeys(found))
    best = furthest(model, rule, target)
    if isinstance(best, Match):
        return (Reason(REFUSED, "", "", "it matches, but the engine does not apply it"),)
    if best is None:
        return (Reason("operator", "", "", "the model has no nodes"),)
    text = f"at {best.subject}: {best.reason}" if best.subject else best.reason
    return (Reason(best.code, "", "", text),)


def _smallest(rule: CompiledRule, model: onnx.ModelProto, target: Target) -> list[Near]:
    """The near matches with the fewest violations, of all nodes."""
    loaded = io.load(model)
    found = [
        one
        for graph in loaded.facts.graphs()
        for node in graph
        for one in near(rule, node, loaded.facts, target)
        if one.violations
    ]
    least = min((len(one.violations) for one in found), default=0)
    return [one for one in found if len(one.violations) == least]
