"""What is known of a rule after it was verified.

In: nothing. Out: `Counts`, `RuleResult`, and its diagnostic where the rule did not pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rewrite.audit.claims.counterexample import Counterexample
from rewrite.engine.ledger import Bound
from rewrite.errors import Diagnostic, Span
from rewrite.lang import ast
from rewrite.lang.pack import RulePack

# proved, sampled: passed. refuted: a counterexample. undecided: the budget ended first. silent: it
# fires on no instance. unrun: nothing runs the models on which it fires. crashed: a runtime ended
# the process again and again.
Status = Literal["proved", "sampled", "refuted", "undecided", "silent", "unrun", "crashed"]
PASSED: frozenset[Status] = frozenset({"proved", "sampled"})
CODES: dict[Status, str] = {
    "refuted": "RW730",
    "silent": "RW731",
    "undecided": "RW732",
    "crashed": "RW733",
    "unrun": "RW734",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """`instances`: models tried; `fired`: of those the rule applied to; `runs`: inputs they were
    compared on; `whole`: models that were run on all inputs there are; `outside`: runs that differ
    and that the claim does not speak of; `unrun`: models that nothing runs."""

    instances: int = 0
    fired: int = 0
    runs: int = 0
    whole: int = 0
    outside: int = 0
    unrun: int = 0
    targets: tuple[str, ...] = ()
    runtimes: tuple[str, ...] = ()


NOTHING = Counts()


@dataclass(frozen=True, slots=True)
class RuleResult:
    """`how`: the evidence in words; `crashes`: what ended a process, and on which instance."""

    pack: str
    rule: str
    claim: str
    status: Status
    how: str
    span: Span
    counts: Counts = NOTHING
    counterexample: Counterexample | None = field(default=None, repr=False)
    crashes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        pack: RulePack,
        rule: ast.Rule,
        status: Status,
        how: str,
        counts: Counts = NOTHING,
    ) -> RuleResult:
        """Of a rule of the pack, named after the pack that it is written in."""
        claim = "certified" if rule.claim.kind == "certified" else str(Bound.of(rule.claim))
        origin = pack.origins[rule.name].pack
        return cls(origin, rule.name, claim, status, how, rule.span, counts)

    @property
    def ok(self) -> bool:
        return self.status in PASSED

    def problem(self) -> Diagnostic | None:
        """Why the rule did not pass, at its place in the text."""
        code = CODES.get(self.status)
        if code is None:
            return None
        return Diagnostic(code, f"`{self.rule}` {self.how}", self.span, _HINTS[self.status])

    def to_json(self) -> dict[str, object]:
        counts = self.counts
        found: dict[str, object] = {
            "pack": self.pack,
            "rule": self.rule,
            "claim": self.claim,
            "status": self.status,
            "how": self.how,
            "code": CODES.get(self.status),
            "file": self.span.file,
            "line": self.span.line,
            "instances": counts.instances,
            "fired": counts.fired,
            "runs": counts.runs,
            "exhausted": counts.whole,
            "outside_the_claim": counts.outside,
            "not_run": counts.unrun,
            "targets": list(counts.targets),
            "runtimes": list(counts.runtimes),
            "crashes": list(self.crashes),
        }
        if self.counterexample is not None:
            example = self.counterexample
            found["counterexample"] = {
                "reason": example.reason,
                "runtime": example.runtime,
                "target": example.target,
                "source": example.source,
                "varied": list(example.varied),
                "nodes": example.size,
            }
        return found


_HINTS: dict[Status, str] = {
    "refuted": "the rule is wrong, lacks a condition, or claims too much",
    "silent": "write an example that fires; `rewrite test` says why one does not",
    "undecided": "give it more time with --seconds",
    "crashed": "a runtime ended the process on these models; reduce one and report it there",
    "unrun": "write an example whose operators and types a runtime takes",
}
