"""All tests of several packs: chosen, run in several processes, in the order of the text.

In: `RulePack`s, targets, what is wanted. Out: `Unit`s, a rule with its tests each, and their
`Outcome`s. A rule that several packs have is run once, in the pack that writes it; where a pack
refines it, or has cases of its own for it, those are run there as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rewrite.audit.cases.case import Finding, Outcome, RuleTest
from rewrite.audit.cases.find import target_of, tests_of
from rewrite.audit.cases.run import RuleRunner
from rewrite.audit.cases.select import Wanted
from rewrite.audit.runtimes import has_onnxruntime, import_onnxruntime
from rewrite.audit.workers import each
from rewrite.errors import Diagnostic, RewriteError
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, added
from rewrite.target.target import Target

_TOGETHER = 4  # rules that are tested in one process
_SECONDS = 300.0  # that one test may take


@dataclass(frozen=True, slots=True)
class Unit:
    """The tests of a rule that are run; `whole`: all that the rule has."""

    pack: RulePack
    rule: ast.Rule
    tests: tuple[RuleTest, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """`rules` None: all. `targets`: names; None: cases may be for any target."""

    rules: frozenset[str] | None = None
    expression: Wanted | None = None
    targets: frozenset[str] | None = None

    def takes(self, pack: RulePack, test: RuleTest) -> bool:
        """Whether the test is to be run."""
        if self.rules is not None and test.rule not in self.rules:
            return False
        if self.expression is not None and not self.expression(name_of(pack, test)):
            return False
        if self.targets is None:
            return True
        own = target_of(test)
        return own is None or own.name in self.targets


def name_of(pack: RulePack, test: RuleTest) -> str:
    """What a test is called among those of several packs."""
    return f"{pack.name}::{test.rule}::{test.name}"


def units(packs: Sequence[RulePack], selection: Selection) -> tuple[list[Unit], int]:
    """The rules with tests that are wanted, and how many tests are not."""
    found: list[Unit] = []
    left = 0
    for pack, rule, tests, whole in _once(packs):
        chosen = tuple(test for test in tests if selection.takes(pack, test))
        left += len(tests) - len(chosen)
        if chosen:
            found.append(Unit(pack, rule, chosen, whole and len(chosen) == len(tests)))
    return found, left


def _once(
    packs: Sequence[RulePack],
) -> Iterator[tuple[RulePack, ast.Rule, tuple[RuleTest, ...], bool]]:
    """Every rule of every pack, with the tests that are not run elsewhere; whether these are all
    that it has."""
    seen: dict[tuple[Path, str], list[ast.Rule]] = {}
    for pack in packs:
        for rule in pack.rules:
            if pack.origins[rule.name].pack == pack.name:
                seen.setdefault(_origin(pack, rule), []).append(rule)
    for pack in packs:
        folder = pack.folders[-1]
        for rule in pack.rules:
            tests, whole = tests_of(pack, rule), True
            if pack.origins[rule.name].pack != pack.name:
                same = seen.setdefault(_origin(pack, rule), [])
                if rule in same:
                    whole = False
                    tests = tuple(t for t in tests if Path(t.span.file).parent == folder)
                same.append(rule)
            yield pack, rule, tests, whole


def _origin(pack: RulePack, rule: ast.Rule) -> tuple[Path, str]:
    return Path(pack.origins[rule.name].file).resolve(), rule.name


def own_units(pack: RulePack, selection: Selection) -> list[Unit]:
    """What a pack itself says: its rules, those that it refines, and its cases for others."""
    folder = pack.folders[-1]
    found: list[Unit] = []
    for unit in units([pack], selection)[0]:
        rule = unit.rule
        if pack.origins[rule.name].pack == pack.name or is_refined(unit):
            found.append(unit)
            continue
        beside = tuple(t for t in unit.tests if Path(t.span.file).parent == folder)
        if beside:
            found.append(Unit(pack, rule, beside, whole=False))
    return found


def is_refined(unit: Unit) -> bool:
    """Whether the pack itself adds conditions to the rule."""
    return bool(added(unit.pack.own_files, unit.rule.name))


# --- running ------------------------------------------------------------------------------------


def running(
    chosen: Sequence[Unit], targets: Sequence[Target], jobs: int
) -> Iterator[list[Outcome]]:
    """The outcomes of each unit, in order.

    Models are run in processes of their own: where a runtime takes one with it, or the memory is
    not enough, the test fails that it happened at. Raises `RewriteError` where a rule cannot be
    compiled.
    """
    if has_onnxruntime():
        import_onnxruntime()  # once, and not in every process

    def work(part: tuple[Unit, ...], skip: int) -> Iterator[_Result]:
        return _results(part, targets, skip)

    parts = [tuple(chosen[n : n + _TOGETHER]) for n in range(0, len(chosen), _TOGETHER)]
    for part, found in zip(parts, each(parts, work, _lost, jobs, _SECONDS), strict=True):
        results = iter(found)
        for unit in part:
            yield _whole(unit, list(islice(results, len(unit.tests))))


_Result = Outcome | RewriteError


def _results(part: Sequence[Unit], targets: Sequence[Target], skip: int) -> Iterator[_Result]:
    """In the process: the outcome of each test, those before `skip` left out."""
    for unit in part:
        left = unit.tests[skip:]
        skip = max(0, skip - len(unit.tests))
        if not left:
            continue
        try:
            runner = RuleRunner(unit.pack, unit.rule, targets)
        except RewriteError as problem:
            yield from (problem for _ in left)
            continue
        yield from map(runner.run, left)


def _lost(part: Sequence[Unit], number: int, how: str) -> _Result:
    """The outcome of the test that a process ended at."""
    test = [test for unit in part for test in unit.tests][number]
    message = f"the test cannot be run (its process: {how})"
    return Outcome(test, Finding(Diagnostic("RW705", message, test.span)))


def _whole(unit: Unit, results: Sequence[_Result]) -> list[Outcome]:
    """The outcomes of the tests; one more where the rule has not both kinds of them."""
    found: list[Outcome] = []
    for result in results:
        if isinstance(result, RewriteError):
            raise result
        found.append(result)
    lack = lacking(unit.rule, found) if unit.whole else None
    return found if lack is None else [*found, lack]


def lacking(rule: ast.Rule, outcomes: Sequence[Outcome]) -> Outcome | None:
    """That the rule has no test that fires, or none that rejects."""
    fires = any(o.test.fires and not o.refined for o in outcomes)
    rejects = any(not o.test.fires for o in outcomes)
    if fires and rejects:
        return None
    which = "rejects" if fires else "fires"
    message = f"the rule `{rule.name}` has no test that {which}"
    hint = f"add an example, or a case for `{rule.name}` beside the pack's rules"
    if not fires and any(o.refined for o in outcomes):
        message += ": the conditions that are added to it exclude them all"
    test = RuleTest(rule.name, which, fires, "", rule.span)
    return Outcome(test, Finding(Diagnostic("RW718", message, rule.span, hint)))
