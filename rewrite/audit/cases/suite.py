"""All tests of several packs: chosen, run in several processes, in the order of the text.

In: `RulePack`s, targets, what is wanted. Out: `Unit`s, a rule with its tests each, and their
`Outcome`s. A rule that several packs have is run once, in the pack that writes it; where a pack
refines it, or has cases of its own for it, those are run there as well.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from rewrite.audit.cases.case import Finding, Outcome, RuleTest
from rewrite.audit.cases.find import folders_of, target_of, tests_of
from rewrite.audit.cases.run import RuleRunner
from rewrite.audit.cases.select import Wanted
from rewrite.errors import Diagnostic, error
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.target.target import Target

_FEW = 8  # rules for which no process is started


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
        own = None if self.targets is None else target_of(test)
        return own is None or self.targets is None or own.name in self.targets


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
        folder = folders_of(pack)[-1]
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
    folder = folders_of(pack)[-1]
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
    folder = folders_of(unit.pack)[-1]
    return any(
        refinement.rule == unit.rule.name
        for file in unit.pack.files
        if Path(file.path).parent == folder
        for refinement in file.tree.refinements
    )


# --- running ------------------------------------------------------------------------------------


@contextmanager
def running(
    chosen: Sequence[Unit], targets: Sequence[Target], jobs: int
) -> Iterator[Iterator[list[Outcome]]]:
    """The outcomes of each unit, in order. Processes start on entry, and know all that we know."""
    if jobs <= 1 or len(chosen) < _FEW:
        yield (run_unit(unit, targets) for unit in chosen)
        return
    start: Callable[..., None] = _Work.begin
    with ProcessPoolExecutor(jobs, get_context("fork"), start, (chosen, targets)) as pool:
        found = pool.map(_run_numbered, range(len(chosen)), chunksize=4)
        try:
            yield _unbroken(found)
        finally:
            pool.shutdown(cancel_futures=True)


def _unbroken(found: Iterator[list[Outcome]]) -> Iterator[list[Outcome]]:
    try:
        yield from found
    except BrokenProcessPool:
        message = "a process died while it ran tests"
        hint = "run with `-j 1` to see at which test"
        raise error("RW705", message, hint=hint) from None


class _Work:
    """What a process is to do; set once, when it starts."""

    chosen: Sequence[Unit] = ()
    targets: Sequence[Target] = ()

    @classmethod
    def begin(cls, chosen: Sequence[Unit], targets: Sequence[Target]) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started us will end us
        cls.chosen, cls.targets = chosen, targets


def _run_numbered(number: int) -> list[Outcome]:
    return run_unit(_Work.chosen[number], _Work.targets)


def run_unit(unit: Unit, targets: Sequence[Target]) -> list[Outcome]:
    """The outcomes of the tests; one more where the rule has not both kinds of them."""
    runner = RuleRunner(unit.pack, unit.rule, targets)
    found = [runner.run(test) for test in unit.tests]
    lack = lacking(unit.rule, found) if unit.whole else None
    if lack is not None:
        found.append(lack)
    return found


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
