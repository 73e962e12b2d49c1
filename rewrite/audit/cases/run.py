"""The tests of one rule, run.

In: a `RulePack`, a rule of it (or a variant of one), targets. Out: one `Outcome` per test, in the
order of the text; the models of the tests.

Only the rule is applied, its matcher built once. `fires`: the rule applies, the result is valid
ONNX, and its outputs agree with those of the original within the claim. `rejects`: the rule does
not apply. Where a pack refines a rule of another one, tests that fire without the added conditions
may no longer do so. What a case expects besides is held against the same application.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import onnx

from rewrite.audit.cases.agree import DisagreeError, agree
from rewrite.audit.cases.case import Finding, Outcome, RuleTest, TestModel
from rewrite.audit.cases.expect import (
    FailedError,
    check_count,
    check_end,
    check_graph,
    check_reason,
)
from rewrite.audit.cases.find import target_of, tests_of
from rewrite.audit.cases.numbers import NumbersError, check_numbers
from rewrite.audit.cases.reason import Reason, listed, reasons
from rewrite.audit.examples import UnreadableError, asks_target, model_of, opset_of
from rewrite.audit.runtimes import patience
from rewrite.engine import driver
from rewrite.engine.journal import Journal
from rewrite.engine.ledger import Bound, Ledger
from rewrite.engine.limits import Options
from rewrite.errors import Diagnostic, RewriteError
from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, added
from rewrite.match import matcher as matching
from rewrite.target.target import Target

MOST_SECONDS = 20.0  # of one run of a model
Matchers = Sequence[tuple[Target, matching.Matcher]]


def models_of(pack: RulePack, rule: ast.Rule) -> Iterator[TestModel]:
    """The model of every test of a rule, in the order of the text.

    Texts that are no valid model are left out: the tests fail on them.
    """
    for test in tests_of(pack, rule):
        opset = _opset(pack, rule, test)
        try:
            model = model_of(test.text, opset)
        except UnreadableError:
            continue
        opset = next((i.version for i in model.opset_import if not i.domain), opset)
        yield TestModel(test.name, test.fires, model, opset, target_of(test))


def _opset(pack: RulePack, rule: ast.Rule, test: RuleTest) -> int:
    """The opset of a model that does not give one."""
    return opset_of(pack, rule) if test.opset is None else test.opset


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a model under a target; `loaded` is rewritten where the rule fired."""

    loaded: LoadedModel
    journal: Journal
    target: Target
    fired: bool


class RuleRunner:
    """One rule under one or several targets. `rule` may be a variant of the pack's of that name.

    Targets after the first matter only to rules that ask about the target. Without `numbers` no
    model is run, and no result is checked by ONNX. Raises `RewriteError` where the rule cannot be
    compiled.
    """

    def __init__(
        self, pack: RulePack, rule: ast.Rule, targets: Sequence[Target], numbers: bool = True
    ) -> None:
        self.pack = pack
        self.rule = rule
        self.numbers = numbers
        self.targets = tuple(targets if asks_target(rule) else targets[:1])
        alone = replace(pack, rules=(replace(rule, over=()),))
        self.entries = matching.compile_pack(alone)
        self._matchers: dict[str, matching.Matcher] = {}

    def matchers_for(
        self, test: RuleTest, entries: Sequence[matching.Entry] | None = None
    ) -> Matchers:
        """Of the rule (or of `entries`) under the target that the test names, else under all."""
        only = target_of(test)
        targets = self.targets if only is None else (only,)
        if entries is not None:
            return tuple((target, matching.Matcher(entries, target)) for target in targets)
        for target in targets:
            if target.name not in self._matchers:
                self._matchers[target.name] = matching.Matcher(self.entries, target)
        return tuple((target, self._matchers[target.name]) for target in targets)

    @cached_property
    def written(self) -> Sequence[matching.Entry]:
        """The rule without what `refine` added to it; nothing where it did not.

        Of a variant of the rule some of that may be missing: a condition is known by its place.
        """
        places = {where.span for where in added(self.pack.files, self.rule.name)}
        if not places:
            return ()
        steps = tuple(step for step in self.rule.steps if step.span not in places)
        rules = (replace(self.rule, steps=steps, over=()),)
        return matching.compile_pack(replace(self.pack, rules=rules))

    def outcomes(self) -> Iterator[Outcome]:
        """All tests of the rule. Raises `RewriteError` where files of cases have faults."""
        return map(self.run, tests_of(self.pack, self.rule))

    def run(self, test: RuleTest) -> Outcome:
        """One test; what does not hold is the `problem` of the outcome."""
        return self.run_and_show(test)[0]

    def run_and_show(self, test: RuleTest) -> tuple[Outcome, onnx.ModelProto | None]:
        """One test, and what the rule makes of its model; None where it does not fire."""
        start = time.process_time()
        one = _One(self, test)
        finding = None
        token = patience.set(MOST_SECONDS)
        try:
            one.run()
        except FailedError as failed:
            finding = failed.finding
        finally:
            patience.reset(token)
        seconds = time.process_time() - start
        outcome = Outcome(test, finding, one.runtime, one.refined, seconds)
        return outcome, one.after


class _One:
    """One test, on its way."""

    def __init__(self, runner: RuleRunner, test: RuleTest) -> None:
        self.runner = runner
        self.rule = runner.rule
        self.test = test
        self.opset = _opset(runner.pack, runner.rule, test)
        self.runtime = ""
        self.refined = False
        self.applied: Applied | None = None  # where the rule fires

    @cached_property
    def after(self) -> onnx.ModelProto | None:
        """What the rule makes of the model."""
        return None if self.applied is None else io.to_proto(self.applied.loaded)

    def run(self) -> None:
        before = self._model()
        matchers = self.runner.matchers_for(self.test)
        tried = []
        for target, matcher in matchers:
            applied = self._apply(before, target, matcher)
            if not applied.fired:
                tried.append(applied)
                continue
            self.applied = applied
            if self.test.fires:
                self._fired(before, applied)
                return
            self._fail("RW703", f"`{self.rule.name}` fires, and must not")
        if self.test.fires:
            self._silent(before, tried)
        elif self.test.case is not None:
            check_reason(self.test.case, self._reasons(before, tried))

    def _silent(self, before: onnx.ModelProto, tried: Sequence[Applied]) -> None:
        """A rule that should fire and does not: only conditions that a pack has added may do so."""
        written = self.runner.written
        self.refined = bool(written) and any(
            self._apply(before, t, m).fired for t, m in self.runner.matchers_for(self.test, written)
        )
        if self.refined:
            return
        told = listed(self._reasons(before, tried))
        self._fail("RW702", f"`{self.rule.name}` does not fire: {told}")

    def _reasons(self, before: onnx.ModelProto, tried: Sequence[Applied]) -> tuple[Reason, ...]:
        rule = self.runner.entries[0].rule
        each = (reasons(rule, before, one.target, one.journal) for one in tried)
        return tuple(dict.fromkeys(reason for found in each for reason in found))

    def _fail(self, code: str, message: str) -> None:
        raise FailedError(Finding(Diagnostic(code, message, self.test.span)))

    def _model(self) -> onnx.ModelProto:
        try:
            return model_of(self.test.text, self.opset)
        except UnreadableError as problem:
            raise self._invalid(str(problem)) from None

    def _invalid(self, words: str) -> FailedError:
        case = self.test.case
        place = self.test.span if case is None else case.place("before")
        what = "the example" if case is None else "`before`"
        message = f"{what} is not a valid model: {words}"
        return FailedError(Finding(Diagnostic("RW701", message, place)))

    def _apply(self, before: onnx.ModelProto, target: Target, matcher: matching.Matcher) -> Applied:
        try:
            loaded = io.load(before)
        except RewriteError as problem:
            raise self._invalid(str(problem)) from None
        journal = driver.run(loaded, matcher, target, options=Options(fold=False, tidy=False))
        fired = bool(journal.applied or journal.groups)
        return Applied(loaded, journal, target, fired)

    def _fired(self, before: onnx.ModelProto, applied: Applied) -> None:
        check_end(self.test, applied.journal)
        case = self.test.case
        if case is None and not self.runner.numbers:
            return
        after = self.after
        assert after is not None
        if case is not None:
            check_count(case, applied.journal)
            check_graph(case, after, self.opset)
        if self.runner.numbers:
            self._check_numbers(before, after, applied)

    def _check_numbers(
        self, before: onnx.ModelProto, after: onnx.ModelProto, applied: Applied
    ) -> None:
        bound = Bound.of(self.rule.claim)
        if self.rule.claim.kind == "certified":  # then each application says what it promises
            bound = Ledger.of(applied.journal).total
        try:
            self.runtime = agree(before, after, bound)
            if self.test.case is not None and self.test.case.outputs is not None:
                check_numbers(self.test.case, before, after, bound)
        except DisagreeError as found:
            self._fail(found.code, found.message)
        except NumbersError as found:
            assert self.test.case is not None
            place = self.test.case.place(found.key)
            raise FailedError(Finding(Diagnostic(found.code, found.message, place))) from None
