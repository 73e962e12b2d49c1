"""Whether a mutant is noticed, and by what.

In: a pack, one of its rules, targets. Out: a `Verdict` for each mutant of the rule.

First the tests of the rule say whether it fires where it must not, or does not where it must; then
what tests that fire make is compared by its numbers; last, its claim is checked on the instances
that `verify` makes of the right rule. What the checks of the language refuse is no mutant: nobody
could load it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal

import onnx

from rewrite.audit.cases import find
from rewrite.audit.cases.case import RuleTest
from rewrite.audit.cases.run import RuleRunner, models_of
from rewrite.audit.claims.check import check
from rewrite.audit.instances.alone import Alone, targets_for
from rewrite.audit.instances.generate import Search
from rewrite.audit.instances.instance import Budget, Instance
from rewrite.audit.mutation.looked import Looked
from rewrite.audit.mutation.mutants import Mutant, mutants
from rewrite.errors import Collector, RewriteError, Span
from rewrite.lang import ast
from rewrite.lang.check import check_rules
from rewrite.lang.pack import RulePack
from rewrite.match.items import tests_of
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


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A test that the right rule passes. `made`: the bytes of what it makes; `looked`: its
    model; `place`: of the one thing that keeps the rule from matching, where the test says it."""

    test: RuleTest
    made: bytes
    looked: Looked
    place: Span | None


@dataclass(frozen=True, slots=True, eq=False)
class _Tried:
    """An instance, and the bytes of what the right rule makes of it."""

    instance: Instance
    made: bytes
    looked: Looked


class _Judging:
    """The tests and instances of one rule, for all of its mutants."""

    def __init__(self, subject: Subject) -> None:
        self.pack = subject.pack
        self.rule = subject.rule
        self.targets = targets_for(subject.rule, subject.targets)
        self.right = RuleRunner(self.pack, self.rule, self.targets, numbers=False)
        self.held: dict[str, bool] = {}  # test -> whether its numbers hold for the right rule
        self.tests = self._tests()

    def _tests(self) -> list[_Known]:
        """A test that the right rule fails says nothing about a wrong one."""
        places = {t.key: t.span for t in tests_of(self.right.entries[0].rule).every}
        models = {model.name: model.proto for model in models_of(self.pack, self.rule)}
        known = []
        for test in find.tests_of(self.pack, self.rule):
            outcome, after = self.right.run_and_show(test)
            if outcome.finding is None:
                place = places.get(str(test.case.because)) if test.case else None
                known.append(_Known(test, _bytes(after), Looked.at(models[test.name]), place))
        return known

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
        return self._by_tests(mutant, runner) or self._by_instances(runner) or ("survives", "")

    def _refused(self, rule: ast.Rule) -> str:
        """What the checks of the language say against the rule."""
        errors = Collector()
        ranges = {rule.name: self.pack.origins[rule.name].opset}
        check_rules([rule], (), vocabulary(), ranges, errors)
        return errors.found[0].message if errors.found else ""

    # --- tests ---------------------------------------------------------------------------------

    def _by_tests(self, mutant: Mutant, runner: RuleRunner) -> tuple[Fate, str] | None:
        """The first test that the mutant fails; what takes long is asked last."""
        differing, silent = list[_Known](), list[_Known]()
        for known in sorted(self.tests, key=lambda k: _order(k, mutant)):
            matchers = runner.matchers_for(known.test)
            if not known.test.fires and not any(known.looked.may_apply(m) for _, m in matchers):
                silent.append(known)
                continue
            outcome, after = runner.run_and_show(known.test)
            if outcome.finding is not None:
                return "test", known.test.name
            if _bytes(after) != known.made:
                differing.append(known)
        for known in silent:  # the reason may be another one
            if known.test.case is not None and runner.run(known.test).finding is not None:
                return "test", known.test.name
        runner.numbers = True
        for known in differing:
            if runner.run(known.test).finding is not None and self._numbers_hold(known.test):
                return "numbers", known.test.name
        return None

    def _numbers_hold(self, test: RuleTest) -> bool:
        """Whether the right rule passes the test with all that it says."""
        if test.name not in self.held:
            self.right.numbers = True
            self.held[test.name] = self.right.run(test).finding is None
        return self.held[test.name]

    # --- instances -----------------------------------------------------------------------------

    def _by_instances(self, runner: RuleRunner) -> tuple[Fate, str] | None:
        """The first instance of which the mutant makes what its claim does not allow."""
        for target in self.targets:
            alone = Alone.compiled_as(runner.rule, runner.entries, target)
            for one in self._instances[target.name]:
                if not one.made and not one.looked.may_apply(alone.matcher):
                    continue
                applied = alone.apply(one.instance.model)
                if applied is None or applied.after is None or _bytes(applied.after) == one.made:
                    continue
                checked = check(one.instance.model, applied.after, applied.bound)
                if checked.status == "broken":
                    return "verify", checked.reason
        return None

    @cached_property
    def _instances(self) -> dict[str, list[_Tried]]:
        """By target, the instances of the right rule with what it makes of each."""
        found: dict[str, list[_Tried]] = {}
        for target in self.targets:
            alone = Alone.of(self.pack, self.rule, target)
            found[target.name] = [
                _Tried(x.instance, _bytes(x.applied.after), Looked.at(x.instance.model))
                for x in Search(self.pack, alone, BUDGET).run()
            ]
        return found


def _order(known: _Known, mutant: Mutant) -> tuple[bool, bool]:
    """Tests that show what was changed, then those on which the rule must not fire."""
    shows = known.place is not None and _meet(known.place, mutant.span)
    return not shows, known.test.fires


def _meet(one: Span, other: Span) -> bool:
    first, second = sorted((one, other), key=lambda s: (s.line, s.column))
    behind = (first.end_line, first.end_column) <= (second.line, second.column)
    return one.file == other.file and not behind


def _bytes(model: onnx.ModelProto | None) -> bytes:
    """The bytes of what a rule made; empty where it did not apply."""
    if model is None:
        return b""
    made: bytes = model.SerializeToString(deterministic=True)
    return made
