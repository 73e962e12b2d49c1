"""The coverage of a pack, rule by rule, in several processes.

In: a `RulePack`, its folder, targets. Out: `Measured` of each rule, in the order of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from rewrite.audit.cases.case import TestModel
from rewrite.audit.cases.find import demand_rules, open_pack
from rewrite.audit.cases.run import models_of
from rewrite.audit.coverage.item import Item
from rewrite.audit.coverage.items import FALSE, TRUE, items_of
from rewrite.audit.coverage.measure import Measure
from rewrite.audit.coverage.report import Measured, PackCoverage, Test, gather
from rewrite.audit.workers import each
from rewrite.errors import collected, error
from rewrite.lang import ast
from rewrite.lang.pack import RulePack, added
from rewrite.match.items import tests_of
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target

Task = TypeVar("Task")
Result = TypeVar("Result")
SECONDS = 300.0  # for one rule

Tell = Callable[[str, int, int], None]  # a rule, how many are done, how many are left


@dataclass(frozen=True, slots=True)
class Job:
    """A pack and what it is measured with, as names, so that a process can load it."""

    folder: Path
    search: tuple[Path, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleOf:
    """A rule of a pack."""

    job: Job
    rule: str

    def __str__(self) -> str:
        return f"{self.job.folder.name}: {self.rule}"


def measure(
    jobs: Sequence[Job], only: Sequence[str] = (), processes: int = 1, tell: Tell | None = None
) -> dict[Job, tuple[Measured, ...]]:
    """Every rule of packs. Raises `RewriteError` where one, a target or a test is unreadable.

    `only`: names of rules. What other rules show of their named patterns is then not looked at.
    """
    collected(jobs, loaded)  # raises here what it has to say, and not in a process
    tasks = [RuleOf(job, name) for job in jobs for name in _names(job)]
    demand_rules(only, [loaded(job)[0] for job in jobs], [task.rule for task in tasks])
    if only:
        tasks = [task for task in tasks if task.rule in only]
    found: dict[Job, list[Measured]] = {job: [] for job in jobs}
    for count, measured in enumerate(in_processes(measure_rule, tasks, processes), 1):
        found[tasks[count - 1].job].append(measured)
        if tell is not None:
            tell(measured.rule, count, len(tasks) - count)
    return {job: tuple(measured) for job, measured in found.items()}


def gathered(measured: Mapping[Job, Sequence[Measured]]) -> tuple[PackCoverage, ...]:
    """The reports of packs."""
    return tuple(gather(loaded(job)[0], found) for job, found in measured.items())


def _names(job: Job) -> list[str]:
    return [rule.name for rule in rules_of(loaded(job)[0])]


def in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], processes: int, seconds: float = SECONDS
) -> Iterator[Result]:
    """The results in the order of the tasks; in this process, where `processes` is 1.

    Raises RW720 where a process ends before its time, or takes more than `seconds`.
    """
    if processes <= 1:
        yield from map(work, tasks)
        return

    def one(task: Task, skip: int) -> Iterator[Result | str]:
        if not skip:
            yield work(task)

    def lost(_: Task, __: int, how: str) -> Result | str:
        return how

    for task, (found,) in zip(tasks, each(tasks, one, lost, processes, seconds), strict=True):
        if isinstance(found, str):
            raise error(
                "RW720", f"the rule cannot be measured: its process {found}", subject=str(task)
            )
        yield found


def rules_of(pack: RulePack) -> tuple[ast.Rule, ...]:
    """The rules that the pack writes, and those of other packs that it refines."""
    return tuple(
        rule
        for rule in pack.rules
        if pack.origins[rule.name].pack == pack.name or added(pack.own_files, rule.name)
    )


@cache
def loaded(job: Job) -> tuple[RulePack, tuple[Target, ...]]:
    """The pack and the targets, once in each process."""
    pack = open_pack(job.folder, job.search)
    return pack, tuple(load_target(name, vocabulary()) for name in job.targets)


def measure_rule(task: RuleOf) -> Measured:
    """All tests of one rule."""
    pack, targets = loaded(task.job)
    rule = next(r for r in pack.rules if r.name == task.rule)
    measure = Measure(pack, rule, targets, vocabulary())
    items = items_in(pack, rule, measure)
    tests = [_test(measure, model) for model in models_of(pack, rule)]
    shown = frozenset[str]().union(*(test.keys for test in tests))
    tests += _of_lower_rules(measure, {f"over:{n}" for n in rule.over} - shown)
    return Measured(rule.name, rule.span, items, tuple(tests))


def items_in(pack: RulePack, rule: ast.Rule, measure: Measure) -> tuple[Item, ...]:
    """The items of a rule that count for the pack: of a rule refined, what the pack adds."""
    own = pack.origins[rule.name].pack == pack.name
    if own:
        return items_of(measure.compiled, pack.texts, vocabulary())
    places = {where.span for where in added(pack.own_files, rule.name)}
    conditions = [step for step in rule.steps if isinstance(step, ast.Where)]
    numbers = [f"where:{n}" for n, where in enumerate(conditions, 1) if where.span in places]
    tests = [t for t in tests_of(measure.compiled).every if t.key.partition(".")[0] in numbers]
    return tuple(
        Item("override", f"{test.key}={value}", test.span, test.words)
        for test in tests
        for value in (TRUE, FALSE)
    )


def _test(measure: Measure, model: TestModel) -> Test:
    seen = measure.model(model.proto, model.target)
    return Test(model.name, model.fires, seen.keys)


def _of_lower_rules(measure: Measure, wanted: set[str]) -> Iterator[Test]:
    """Tests of rules that this one is `over`, for what its own do not show."""
    for lower in measure.lower:
        if f"over:{lower.name}" not in wanted:
            continue
        for model in models_of(measure.pack, lower.rule):
            seen = _test(measure, replace(model, name=f"{lower.name}: {model.name}"))
            shown = seen.keys & {f"over:{lower.name}"}
            if shown:
                yield Test(seen.name, False, shown)
                break
