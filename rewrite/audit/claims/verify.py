"""Verification of one rule.

In: a pack, a rule, targets, a budget. Out: `RuleResult`.

Provers are asked first. Whatever they say, instances are made, and the claim is checked on each on
which the rule fires: a prover proves a model of the rule, and the engine applies the rule.
Deterministic by the seed of the budget, as long as its seconds do not run out. Within one instance
they are for the caller to keep, who is told (`Watch`) when what is done is to be over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rewrite.audit.claims.check import Checked, check
from rewrite.audit.claims.counterexample import Counterexample
from rewrite.audit.claims.proof import Proof, proofs
from rewrite.audit.claims.result import NOTHING, Counts, RuleResult, Status
from rewrite.audit.claims.shrink import shrink
from rewrite.audit.claims.smt.suggest import suggested
from rewrite.audit.claims.task import Doing, Watch
from rewrite.audit.instances.alone import Alone, targets_for
from rewrite.audit.instances.generate import Search, Tried
from rewrite.audit.instances.instance import Budget
from rewrite.audit.instances.seeds import examples
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.target.target import Target

_PROOF_SHARE = 0.5  # of the seconds, for provers; and again for instances that z3 suggests


def verify_rule(
    pack: RulePack,
    rule: ast.Rule,
    targets: Sequence[Target],
    budget: Budget,
    watch: Watch | None = None,
    skip: frozenset[int] = frozenset(),
) -> RuleResult:
    """All that is found out about one rule. `skip`: numbers of instances not to be run."""
    trial = _Trial(pack, rule, budget, watch or Watch(), skip)
    alones = _firing(pack, rule, targets)
    if not alones:
        return trial.silent()
    proved = proofs(alones[0].compiled, budget.seconds * _PROOF_SHARE)
    share = replace(
        budget,
        firing=max(1, budget.firing // len(alones)),
        most=max(1, budget.most // len(alones)),
        seconds=budget.seconds / len(alones),
    )
    for alone in alones:
        refuted = trial.on_target(alone, share, is_first=alone is alones[0])
        if refuted is not None:
            return refuted
    return trial.judged(proved) if trial.counts.fired else trial.silent()


def _firing(pack: RulePack, rule: ast.Rule, targets: Sequence[Target]) -> list[Alone]:
    """The rule on each target that matters and on which an example fires."""
    alones = [Alone.of(pack, rule, target) for target in targets_for(rule, targets)]
    models = [seed.model for seed in examples(pack, rule)]
    found = []
    for alone in alones:
        applied = (alone.apply(model) for model in models)
        if any(a is not None and a.after is not None for a in applied):
            found.append(alone)
    return found or alones[:1]


@dataclass(slots=True)
class _Trial:
    """A rule, and what is known of it so far."""

    pack: RulePack
    rule: ast.Rule
    budget: Budget
    watch: Watch
    skip: frozenset[int]
    counts: Counts = NOTHING
    late: bool = False
    reasons: list[str] = field(default_factory=list)

    def on_target(self, alone: Alone, share: Budget, is_first: bool) -> RuleResult | None:
        """The rule on one target; a result only where it is refuted."""
        self.counts = replace(self.counts, targets=(*self.counts.targets, alone.target.name))
        search = Search(self.pack, alone, share)
        for tried, end in self._instances(search, is_first):
            self.counts = replace(self.counts, instances=self.counts.instances + 1)
            if tried.applied.after is None or self.counts.instances in self.skip:
                continue
            checked = self._check(tried, end)
            self._count(checked)
            if checked.status == "broken":
                after = tried.applied.after
                found = Counterexample.seen(alone.rule.name, tried.instance, after, checked)
                return self._refuted(alone, found, tried)
        self.late = self.late or search.late
        return None

    def _instances(self, search: Search, is_first: bool) -> Iterator[tuple[Tried, float]]:
        """Those of the search, then what z3 suggests; and when to be done with each."""
        for tried in search.run():
            yield tried, search.end
        seconds = self.budget.seconds * _PROOF_SHARE
        for tried in suggested(search.alone, seconds) if is_first else ():
            yield tried, time.process_time() + seconds

    def _check(self, tried: Tried, end: float) -> Checked:
        instance, applied = tried.instance, tried.applied
        assert applied.after is not None

        def step(doing: str) -> None:
            self.watch.begins(Doing(self.counts.instances, str(instance), doing, end))

        try:
            return check(instance.model, applied.after, applied.bound, step)
        finally:
            self.watch.over()

    def _count(self, checked: Checked) -> None:
        is_unrun = checked.status == "unrun" or not checked.runs
        runtimes = self.counts.runtimes
        if is_unrun:
            self.reasons.append(checked.reason)
        elif checked.runtime not in runtimes:
            runtimes = (*runtimes, checked.runtime)
        self.counts = replace(
            self.counts,
            fired=self.counts.fired + 1,
            runs=self.counts.runs + checked.runs,
            whole=self.counts.whole + bool(checked.points),
            outside=self.counts.outside + checked.outside,
            unrun=self.counts.unrun + is_unrun,
            runtimes=runtimes,
        )

    # --- results -------------------------------------------------------------------------------

    def _refuted(self, alone: Alone, found: Counterexample, tried: Tried) -> RuleResult:
        """With the smallest counterexample; the one found stands where the search for it ends."""
        doing = Doing(
            self.counts.instances,
            str(tried.instance),
            "shrinking the counterexample",
            time.process_time() + self.budget.seconds,
            self._by(found),
        )
        self.watch.begins(doing)
        try:
            return self._by(shrink(alone, found))
        finally:
            self.watch.over()

    def _by(self, found: Counterexample) -> RuleResult:
        result = self._result("refuted", f"is refuted: {found.reason}")
        return replace(result, counterexample=found)

    def silent(self) -> RuleResult:
        return self._result("silent", "fires on no model that was tried")

    def judged(self, proved: Sequence[Proof]) -> RuleResult:
        """Of a rule that fired and was not refuted."""
        counts = self.counts
        if not counts.runs:
            reason = self.reasons[0] if self.reasons else "instances were left out"
            return self._result("unrun", f"cannot be run: {reason}")
        if self.late:
            over = f"{self.budget.seconds:g} s of processor time were over"
            seen = f"{counts.instances} instances, on {counts.fired} of which it fired"
            return self._result("undecided", f"is undecided: {over} after {seen}")
        sampled = self._sampled()
        if any(proof.values for proof in proved):
            return self._result("proved", f"{'; '.join(map(str, proved))}; {sampled}")
        how = "; ".join([sampled, *(f"proved: {proof}" for proof in proved)])
        return self._result("sampled", how)

    def _sampled(self) -> str:
        counts = self.counts
        parts = [f"{counts.fired - counts.unrun} instances, {counts.runs} runs"]
        if counts.whole:
            parts.append(f"{counts.whole} of them on every input there is")
        if self.rule.claim.kind == "certified":
            parts.append("each application has a certificate")
        if counts.outside:
            parts.append(f"{counts.outside} runs that the claim does not speak of")
        return ", ".join(parts)

    def _result(self, status: Status, how: str) -> RuleResult:
        return RuleResult.of(self.pack, self.rule, status, how, self.counts)
