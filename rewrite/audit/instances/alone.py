"""One rule, alone, on one model.

In: a pack, one of its rules, a target. Out: `Alone`, which applies the rule to models: `Applied`.
Nothing else is done to the model: no folding, no tidying, no other rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import onnx

from rewrite.audit.examples import asks_target
from rewrite.engine import driver
from rewrite.engine.journal import Journal
from rewrite.engine.ledger import Bound, Ledger
from rewrite.engine.limits import Limits, Options
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.match import matcher as matching
from rewrite.match.rule import CompiledRule
from rewrite.target.target import Target

SECONDS = 10.0  # one model is small
_LIMITS = Limits(seconds=SECONDS)
_OPTIONS = Options(fold=False, tidy=False)


@dataclass(frozen=True, slots=True)
class Applied:
    """`after` None: the rule did not apply, and `reason` says what refused it, if anything did.

    `bound`: what the applications promise together.
    """

    after: onnx.ModelProto | None
    bound: Bound
    count: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Alone:
    """A rule with a matcher that knows no other one."""

    rule: ast.Rule
    compiled: CompiledRule
    matcher: matching.Matcher
    target: Target

    @classmethod
    def of(cls, pack: RulePack, rule: ast.Rule, target: Target) -> Alone:
        """Raises `RewriteError` (RW270) where the rule cannot be compiled."""
        only = replace(pack, rules=(replace(rule, over=()),))
        return cls.compiled_as(rule, matching.compile_pack(only), target)

    @classmethod
    def compiled_as(
        cls, rule: ast.Rule, entries: Sequence[matching.Entry], target: Target
    ) -> Alone:
        """The one entry that the rule was compiled to."""
        (entry,) = entries
        return cls(rule, entry.rule, matching.Matcher(entries, target), target)

    def apply(self, model: onnx.ModelProto) -> Applied | None:
        """The rule applied wherever it matches; None where the model cannot be read."""
        try:
            loaded = io.load(model)
        except RewriteError:
            return None
        journal = driver.run(loaded, self.matcher, self.target, _LIMITS, _OPTIONS)
        count = len(journal.applied) + len(journal.groups)
        if not count:
            reason = journal.refused[0].reason if journal.refused else ""
            return Applied(None, Bound(), 0, reason)
        return Applied(io.to_proto(loaded), self._bound(journal), count)

    def _bound(self, journal: Journal) -> Bound:
        total = Bound.of(self.rule.claim)
        if self.rule.claim.kind == "certified":  # each application says what it promises
            return Ledger.of(journal).total
        applied = sum(record.rule == self.rule.name for record in journal.applied)
        return total.times(max(1, applied))


def targets_for(rule: ast.Rule, targets: Iterable[Target]) -> tuple[Target, ...]:
    """The targets that make a difference to the rule: the first, where it does not ask."""
    found = tuple(targets)
    return found if asks_target(rule) else found[:1]
