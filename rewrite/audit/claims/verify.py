"""Verification of one rule.

In: a pack, a rule, targets, a budget. Out: `RuleResult`.

Provers are asked first. Whatever they say, instances are made, and the claim is checked on each on
which the rule fires: a prover proves a model of the rule, and the engine applies the rule.
Deterministic by the seed of the budget, as long as its seconds do not run out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from rewrite.audit.claims.check import Checked, check
from rewrite.audit.claims.proof import Proof, proofs
from rewrite.audit.claims.refute import counterexample
from rewrite.audit.claims.result import RuleResult, Status
from rewrite.audit.claims.shrink import shrink
from rewrite.audit.claims.smt.suggest import suggested
from rewrite.audit.instances.alone import Alone, targets_for
from rewrite.audit.instances.generate import Search, Tried
from rewrite.audit.instances.instance import Budget
from rewrite.audit.instances.seeds import examples
from rewrite.engine.ledger import Bound
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.target.target import Target

# Told the number of an instance, what it is and what is about to be done with it.
Watch = Callable[[int, str, str], None]
_PROOF_SHARE = 0.5  # of the seconds, for provers


@dataclass(slots=True)
class _Tally:
    instances: int = 0
    fired: int = 0
    runs: int = 0
    whole: int = 0
    outside: int = 0
    unrun: int = 0
    late: bool = False
    reasons: list[str] = field(default_factory=list)
    runtimes: list[str] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    def add(self, checked: Checked) -> None:
        self.fired += 1
        self.runs += checked.runs
        self.whole += bool(checked.points)
        self.outside += checked.outside
        if checked.status == "unrun" or not checked.runs:
            self.unrun += 1
            self.reasons.append(checked.reason)
        elif checked.runtime not in self.runtimes:
            self.runtimes.append(checked.runtime)


def verify_rule(
    pack: RulePack,
    rule: ast.Rule,
    targets: Sequence[Target],
    budget: Budget,
    watch: Watch = lambda number, instance, doing: None,
    skip: frozenset[int] = frozenset(),
) -> RuleResult:
    """All that is found out about one rule. `skip`: numbers of instances not to be run."""
    tally = _Tally()
    empty = _result(pack, rule, tally, "silent", "fires on no model that was tried")
    alones = _firing(pack, rule, targets)
    if not alones:
        return empty
    proved = proofs(alones[0].compiled, budget.seconds * _PROOF_SHARE)
    share = replace(
        budget,
        firing=max(1, budget.firing // len(alones)),
        most=max(1, budget.most // len(alones)),
        seconds=budget.seconds / len(alones),
    )
    for alone in alones:
        more = suggested(alone, budget.seconds * _PROOF_SHARE) if alone is alones[0] else ()
        broken = _on_target(pack, alone, share, tally, watch, skip, more)
        if broken is not None:
            return broken
    if not tally.fired:
        return empty
    return _judged(pack, rule, tally, proved, budget)


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


def _on_target(
    pack: RulePack,
    alone: Alone,
    budget: Budget,
    tally: _Tally,
    watch: Watch,
    skip: frozenset[int],
    more: Iterable[Tried],
) -> RuleResult | None:
    """The rule on one target, `more` after its instances; a result only where it is refuted."""
    tally.targets.append(alone.target.name)
    search = Search(pack, alone, budget)
    for tried in chain(search.run(), more):
        tally.instances += 1
        if tried.applied.after is None or tally.instances in skip:
            continue
        checked = _check(tried, tally.instances, watch)
        tally.add(checked)
        if checked.status == "broken":
            found = counterexample(alone, tried.instance, tried.applied, checked)
            watch(tally.instances, str(tried.instance), "shrinking the counterexample")
            smallest = shrink(alone, found)
            result = _result(pack, alone.rule, tally, "refuted", f"is refuted: {smallest.reason}")
            return replace(result, counterexample=smallest)
    tally.late = tally.late or search.late
    return None


def _check(tried: Tried, number: int, watch: Watch) -> Checked:
    instance, applied = tried.instance, tried.applied
    assert applied.after is not None

    def step(doing: str) -> None:
        watch(number, str(instance), doing)

    return check(instance.model, applied.after, applied.bound, step)


def _judged(
    pack: RulePack, rule: ast.Rule, tally: _Tally, proved: Sequence[Proof], budget: Budget
) -> RuleResult:
    if not tally.runs:
        reason = tally.reasons[0] if tally.reasons else "instances were left out"
        return _result(pack, rule, tally, "unrun", f"cannot be run: {reason}")
    if tally.late:
        seen = f"{tally.instances} instances, on {tally.fired} of which it fired"
        how = f"is undecided: {budget.seconds:g} s of processor time were over after {seen}"
        return _result(pack, rule, tally, "undecided", how)
    sampled = _sampled(rule, tally)
    if any(proof.values for proof in proved):
        how = "; ".join(map(str, proved))
        return _result(pack, rule, tally, "proved", f"{how}; {sampled}")
    how = "; ".join([sampled, *(f"proved: {proof}" for proof in proved)])
    return _result(pack, rule, tally, "sampled", how)


def _sampled(rule: ast.Rule, tally: _Tally) -> str:
    parts = [f"{tally.fired - tally.unrun} instances, {tally.runs} runs"]
    if tally.whole:
        parts.append(f"{tally.whole} of them on every input there is")
    if rule.claim.kind == "certified":
        parts.append("each application has a certificate")
    if tally.outside:
        parts.append(f"{tally.outside} runs that the claim does not speak of")
    return ", ".join(parts)


def _result(pack: RulePack, rule: ast.Rule, tally: _Tally, status: Status, how: str) -> RuleResult:
    return RuleResult(
        pack=pack.origins[rule.name].pack,
        rule=rule.name,
        claim="certified" if rule.claim.kind == "certified" else str(Bound.of(rule.claim)),
        status=status,
        how=how,
        span=rule.span,
        instances=tally.instances,
        fired=tally.fired,
        runs=tally.runs,
        whole=tally.whole,
        outside=tally.outside,
        unrun=tally.unrun,
        targets=tuple(tally.targets),
        runtimes=tuple(tally.runtimes),
    )
