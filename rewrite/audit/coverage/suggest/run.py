"""Proposals for what the tests of packs do not show.

In: what was measured of each rule. Out: `Suggested`: cases, doubts, what nothing was found for.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rewrite.audit.cases.find import cases_of
from rewrite.audit.cases.run import models_of
from rewrite.audit.coverage.item import Item
from rewrite.audit.coverage.measure import Measure
from rewrite.audit.coverage.report import Homes, Identity, Measured, identity
from rewrite.audit.coverage.run import Job, RuleOf, in_processes, items_in, loaded
from rewrite.audit.coverage.suggest.combine import choose
from rewrite.audit.coverage.suggest.propose import Doubt, Proposal, propose
from rewrite.audit.coverage.suggest.search import SECONDS, Search
from rewrite.match.vocabulary import vocabulary

_MOST_SECONDS = 1800.0  # for one rule, on a machine that is busy
_CALLERS = 2  # of a named pattern that are asked to show what is missing of it


@dataclass(frozen=True, slots=True)
class Suggested:
    """Of one rule. `left`: items that no proposal shows."""

    pack: str
    file: str  # of the rule
    rule: str
    proposals: tuple[Proposal, ...]
    doubts: tuple[Doubt, ...]
    left: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Task(RuleOf):
    """A rule, and the keys of its items that are to be shown."""

    keys: frozenset[str]


def suggest(
    measured: Mapping[Job, Sequence[Measured]],
    processes: int = 1,
    tell: Callable[[str, int, int], None] | None = None,
) -> tuple[Suggested, ...]:
    """Cases for every rule that something is missing of, in the order of packs and text."""
    asked = [task for job, found in measured.items() for task in tasks(job, found)]
    found: list[Suggested] = []
    for task, one in zip(
        asked, in_processes(suggest_rule, asked, processes, _MOST_SECONDS), strict=True
    ):
        found.append(one)
        if tell is not None:
            tell(task.rule, len(found), len(asked) - len(found))
    return tuple(_once(measured, asked, found))


def tasks(job: Job, measured: Sequence[Measured]) -> list[Task]:
    """One task for each rule. What is missing of a named pattern is asked of few of its callers."""
    homes = Homes.of(loaded(job)[0])
    shown: set[Identity] = set()
    for one in measured:
        keys = one.keys
        shown |= {identity(i) for i in one.items if i.key in keys and homes.at(i.place) is not None}
    asked: dict[Identity, int] = {}
    found = []
    for one in measured:
        wanted = set()
        for item in one.items:
            if item.unreachable or item.key in one.keys:
                continue
            if homes.at(item.place) is not None:
                place = identity(item)
                asked[place] = asked.get(place, 0) + 1
                if place in shown or asked[place] > _CALLERS:
                    continue
            wanted.add(item.key)
        if wanted:
            found.append(Task(job, one.rule, frozenset(wanted)))
    return found


def suggest_rule(task: Task) -> Suggested:
    """Cases for one rule."""
    pack, targets = loaded(task.job)
    rule = next(r for r in pack.rules if r.name == task.rule)
    measure = Measure(pack, rule, targets, vocabulary())
    wanted = {i.key: i for i in items_in(pack, rule, measure) if i.key in task.keys}
    search = Search(measure, wanted, SECONDS)
    search.run(list(models_of(pack, rule)))
    found = choose(search)
    taken = {case.name for case in cases_of(pack) if case.rule == rule.name}
    proposals, doubts = propose(pack, rule, found, frozenset(wanted), taken)
    shown = {key for proposal in proposals for key in proposal.keys}
    left = tuple(item for key, item in wanted.items() if key not in shown)
    gc.collect()  # graphs are cyclic, and thousands were looked at
    file = pack.origins[rule.name].file
    return Suggested(pack.name, file, rule.name, tuple(proposals), tuple(doubts), left)


def _once(
    measured: Mapping[Job, Sequence[Measured]], asked: Sequence[Task], found: Sequence[Suggested]
) -> list[Suggested]:
    """Without proposals for what a rule before shows of a named pattern."""
    items = {(job, one.rule): one.items for job, rules in measured.items() for one in rules}
    homes = {job: Homes.of(loaded(job)[0]) for job in measured}
    shown: set[Identity] = set()
    kept = []
    for task, one in zip(asked, found, strict=True):
        home = homes[task.job]
        places = {i.key: identity(i) for i in items[task.job, task.rule] if home.at(i.place)}
        proposals = []
        for proposal in one.proposals:
            keys = tuple(k for k in proposal.keys if places.get(k) not in shown)
            if keys:
                proposals.append(replace(proposal, keys=keys))
                shown |= {places[k] for k in keys if k in places}
        left = tuple(item for item in one.left if places.get(item.key) not in shown)
        kept.append(replace(one, proposals=tuple(proposals), left=left))
    return kept
