"""Whether a mutant is noticed, and by what.

In: a pack, one of its rules, targets. Out: a `Verdict` for each mutant of the rule.

First the tests of the rule say whether it fires where it must not, or does not where it must; then
what tests that fire make is compared by its numbers; last, its claim is checked on the instances
that `verify` makes of the right rule. What the checks of the language refuse is no mutant: nobody
could load it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal

from rewrite.audit.cases.case import RuleTest
from rewrite.audit.cases.run import RuleRunner
from rewrite.audit.claims.refute import refute
from rewrite.audit.instances.alone import Alone, Applied, targets_for
from rewrite.audit.instances.generate import Search
from rewrite.audit.instances.instance import Budget, Instance
from rewrite.audit.mutation.mutants import Mutant, mutants
from rewrite.errors import Collector, RewriteError, Span
from rewrite.lang import ast
from rewrite.lang.check import check_rules
from rewrite.lang.pack import RulePack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

Fate = Literal["refused", "test", "numbers", "verify", "fault", "survives"]
KILLED = ("test", "numbers", "verify", "fault")

# Of the instances on which mutants are tried: the rule's own examples come first.
BUDGET = Budget(firing=20, most=80, seconds=6.0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`fate`: `refused` by the language, killed by something, or it survives. `by`: the test that
    noticed it, or what is wrong with it."""

    rule: str
    key: str
    kind: str
    span: Span
    fate: Fate
    by: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is one that somebody could load."""
        return self.fate != "refused"

    @property
    def is_killed(self) -> bool:
        return self.fate in KILLED


@dataclass(frozen=True, slots=True)
class Subject:
    """A rule whose mutants are judged."""

    pack: RulePack
    rule: ast.Rule
    targets: tuple[Target, ...]


def judge(subject: Subject, skip: int) -> Iterator[Verdict]:
    """The verdicts on the mutants of a rule, in order, the first `skip` left out."""
    judging = _Judging(subject)
    for mutant in islice(mutants(subject.rule), skip, None):
        yield judging.verdict(mutant)


def lost(subject: Subject, number: int, how: str) -> Verdict:
    """The verdict on a mutant at which a process ended: it has been noticed."""
    mutant = next(islice(mutants(subject.rule), number, None), None)
    if mutant is None:  # it ended after its work was done
        return Verdict(subject.rule.name, "", "", subject.rule.span, "refused", how)
    return Verdict(subject.rule.name, mutant.key, mutant.kind, mutant.span, "fault", how)


class _Judging:
    """The tests and instances of one rule, for all of its mutants."""

    def __init__(self, subject: Subject) -> None:
        self.pack = subject.pack
        self.rule = subject.rule
        self.targets = targets_for(subject.rule, subject.targets)
        right = RuleRunner(self.pack, self.rule, self.targets)
        # A test that the right rule fails says nothing about a wrong one.
        tests = [o.test for o in right.outcomes() if o.finding is None]
        self.tests: tuple[RuleTest, ...] = tuple(sorted(tests, key=lambda test: test.fires))

    def verdict(self, mutant: Mutant) -> Verdict:
        fate, by = self._fate(mutant)
        return Verdict(self.rule.name, mutant.key, mutant.kind, mutant.span, fate, by)

    def _fate(self, mutant: Mutant) -> tuple[Fate, str]:
        refused = self._refused(mutant.rule)
        if refused:
            return "refused", refused
        try:
            runner = RuleRunner(self.pack, mutant.rule, self.targets, numbers=False)
        except RewriteError as problem:
            return "refused", problem.diagnostics[0].message
        by = _noticed(runner, self.tests)
        if by:
            return "test", by
        runner.numbers = True
        by = _noticed(runner, [test for test in self.tests if test.fires])
        if by:
            return "numbers", by
        for target in self.targets:
            found = refute(self.pack, mutant.rule, (target,), self._differing(mutant.rule, target))
            if found is not None:
                return "verify", found.reason
        return "survives", ""

    def _differing(self, rule: ast.Rule, target: Target) -> list[Instance]:
        """The instances of which the mutant makes something else than the right rule does."""
        alone = Alone.of(self.pack, rule, target)
        tried = self._instances[target.name]
        return [one.instance for one in tried if _made(alone.apply(one.instance.model)) != one.made]

    def _refused(self, rule: ast.Rule) -> str:
        """What the checks of the language say against the rule."""
        errors = Collector()
        ranges = {rule.name: self.pack.origins[rule.name].opset}
        check_rules([rule], (), vocabulary(), ranges, errors)
        return errors.found[0].message if errors.found else ""

    @cached_property
    def _instances(self) -> dict[str, list[_Tried]]:
        """By target, the instances of the right rule with what it makes of each."""
        found: dict[str, list[_Tried]] = {}
        for target in self.targets:
            alone = Alone.of(self.pack, self.rule, target)
            instances = Search(self.pack, alone, BUDGET).run()
            found[target.name] = [_Tried(x.instance, _made(x.applied)) for x in instances]
        return found


@dataclass(frozen=True, slots=True)
class _Tried:
    """An instance, and the bytes of what the right rule makes of it."""

    instance: Instance
    made: bytes


def _made(applied: Applied | None) -> bytes:
    """The bytes of the model that a rule made; empty where it did not apply."""
    if applied is None or applied.after is None:
        return b""
    made: bytes = applied.after.SerializeToString(deterministic=True)
    return made


def _noticed(runner: RuleRunner, tests: Sequence[RuleTest]) -> str:
    """The first test that the mutant fails."""
    for test in tests:
        if runner.run(test).finding is not None:
            return test.name
    return ""
