"""Verification of packs.

In: folders of packs, names of rules and targets, a budget, a number of processes. Out: a
`RuleResult` for each rule, in the order of packs and text.

A rule is verified in the pack that it is written in, and in those that refine it. Where a pack
given has no rule of its own and is the only one, the rules that it extends are verified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rewrite import resources
from rewrite.audit.cases.find import demand_rules, open_pack
from rewrite.audit.claims.pool import verified
from rewrite.audit.claims.result import RuleResult
from rewrite.audit.claims.task import Ended, Failed, Task
from rewrite.audit.instances.instance import Budget
from rewrite.errors import collected
from rewrite.lang import ast
from rewrite.lang.pack import RulePack


@dataclass(frozen=True, slots=True)
class Unit:
    """A rule to be verified, with the pack that it is verified in."""

    folder: Path
    pack: RulePack
    rule: ast.Rule


def units(folders: Sequence[Path], only: Sequence[str]) -> tuple[Unit, ...]:
    """The rules of the packs; `only` those named, if any are.

    Raises `RewriteError`: all that is wrong with any of the packs, or RW004 for an unknown name.
    """
    search = [resources.folder("rules")]
    packs = collected(folders, lambda folder: (folder, open_pack(folder, search)))
    read = [pack for _, pack in packs]
    demand_rules(only, read, [rule.name for pack in read for rule in pack.rules])
    found: dict[tuple[str, str], Unit] = {}
    for folder, pack in packs:
        for rule in _chosen(pack, only, alone=len(packs) == 1):
            found.setdefault(_key(pack, rule), Unit(folder, pack, rule))
    return tuple(found.values())


def _chosen(pack: RulePack, only: Sequence[str], alone: bool) -> Iterator[ast.Rule]:
    own = [r for r in pack.rules if _is_own(pack, r)]
    for rule in pack.rules if only or (alone and not own) else own:
        if not only or rule.name in only:
            yield rule


def _is_own(pack: RulePack, rule: ast.Rule) -> bool:
    return pack.origins[rule.name].pack == pack.name or rule.name in _refined(pack)


def _refined(pack: RulePack) -> frozenset[str]:
    """Rules to which the pack itself adds conditions."""
    folder = pack.files[-1].path.rpartition("/")[0] if pack.files else ""
    own = (f for f in pack.files if f.path.rpartition("/")[0] == folder)
    return frozenset(r.rule for file in own for r in file.tree.refinements)


def _key(pack: RulePack, rule: ast.Rule) -> tuple[str, str]:
    """The same rule with the same conditions is verified once."""
    origin = pack.origins[rule.name].pack
    return (pack.name if rule.name in _refined(pack) else origin, rule.name)


def verify(
    chosen: Sequence[Unit],
    targets: Sequence[str],
    budget: Budget,
    jobs: int,
    tell: Callable[[int, int], None] = lambda done, left: None,
) -> Iterator[RuleResult]:
    """The results, in order. Raises RuntimeError where verification itself is at fault."""
    search = str(resources.folder("rules"))
    tasks = [
        Task(number, str(unit.folder), search, unit.rule.name, tuple(targets), budget)
        for number, unit in enumerate(chosen)
    ]
    for task, result, crashes in verified(tasks, jobs, tell):
        unit = chosen[task.number]
        if isinstance(result, Failed):
            raise RuntimeError(f"the verification of {task.rule} failed: {result.text}")
        if isinstance(result, Ended):
            result = RuleResult.of(unit.pack, unit.rule, result.status, result.how)
        yield replace(result, crashes=crashes)
