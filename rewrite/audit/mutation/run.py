"""The mutation score of packs.

In: packs, targets. Out: `Score` of each pack: its mutants, what killed them, which survive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewrite.audit.cases.find import demand_rules
from rewrite.audit.coverage.report import Homes
from rewrite.audit.mutation.judge import Subject, Verdict, judge, lost
from rewrite.audit.mutation.mutants import is_shared
from rewrite.audit.mutation.survivors import explain, read
from rewrite.audit.workers import each
from rewrite.errors import Diagnostic
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.target.target import Target

SECONDS = 60.0  # that one mutant may take

Tell = Callable[[str, int, int], None]  # a rule, how many are done, how many are left


@dataclass(frozen=True, slots=True)
class Score:
    """Verdicts on the mutants of a pack's own rules; `because`: survivors that are explained."""

    pack: str
    verdicts: tuple[Verdict, ...]
    because: dict[tuple[str, str], str]
    stale: tuple[Diagnostic, ...]

    @property
    def counted(self) -> int:
        """Mutants that somebody could load."""
        return sum(verdict.counts for verdict in self.verdicts)

    @property
    def killed(self) -> int:
        return sum(verdict.is_killed for verdict in self.verdicts)

    @property
    def survivors(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.fate == "survives")

    @property
    def unexplained(self) -> tuple[Verdict, ...]:
        known = self.because
        return tuple(v for v in self.survivors if (v.rule, v.key) not in known)

    def by_fate(self) -> Counter[str]:
        return Counter(verdict.fate for verdict in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        return {
            "pack": self.pack,
            "mutants": self.counted,
            "killed": self.killed,
            "by": dict(sorted(self.by_fate().items())),
            "survivors": [
                {
                    "rule": v.rule,
                    "mutant": v.key,
                    "line": f"{v.span.file}:{v.span.line}:{v.span.column}",
                    "because": self.because.get((v.rule, v.key)),
                }
                for v in self.survivors
            ],
            "stale": [d.message for d in self.stale],
        }


def score(
    packs: Sequence[tuple[Path, RulePack]],
    targets: Sequence[Target],
    only: Sequence[str] = (),
    jobs: int = 1,
    tell: Tell | None = None,
) -> tuple[Score, ...]:
    """The score of each pack, over the rules that it writes itself. `only`: names of rules.

    Raises RW004, RW725.
    """
    known = [rule.name for _, pack in packs for rule in pack.rules if _is_own(pack, rule)]
    demand_rules(only, [pack for _, pack in packs], known)
    explained = [read(folder) for folder, _ in packs]
    subjects = list(_subjects(packs, targets, only))
    found: dict[int, list[Verdict]] = {number: [] for number in range(len(packs))}
    results = each([subject for _, subject in subjects], judge, lost, jobs, SECONDS)
    for done, ((number, subject), verdicts) in enumerate(zip(subjects, results, strict=True), 1):
        found[number] += verdicts
        if tell is not None:
            tell(subject.rule.name, done, len(subjects) - done)
    scores = []
    for number, (_, pack) in enumerate(packs):
        merged = _merged(pack, found[number])
        because, stale = explain(merged, explained[number], only)
        scores.append(Score(pack.name, merged, because, stale))
    return tuple(scores)


def _merged(pack: RulePack, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Mutants of a named pattern count once: some rule that uses it has to notice. Where rules of
    an extended pack use it, they count there, as in coverage.
    """
    rules = {rule.name: rule for rule in pack.rules}
    homes = Homes.of(pack)
    elsewhere = {d.name for d in homes.definitions if homes.is_shown_elsewhere(d, pack)}
    found: dict[tuple[object, ...], Verdict] = {}
    counts = Counter[tuple[object, ...]]()
    for verdict in verdicts:
        if not is_shared(rules[verdict.rule], verdict.span):
            found[verdict.rule, verdict.key] = verdict
            continue
        home = homes.at(verdict.span)
        if home is not None and home.name in elsewhere:
            continue
        # Not by the key: its words are those of the call's operands, which differ between rules.
        counts[verdict.rule, verdict.kind, verdict.span] += 1
        place = (verdict.kind, verdict.span, counts[verdict.rule, verdict.kind, verdict.span])
        known = found.get(place)
        if known is None or _RANK[verdict.fate] < _RANK[known.fate]:
            found[place] = replace(verdict, rule=home.name if home else "")
    return tuple(found.values())


_RANK = {"test": 0, "numbers": 1, "verify": 2, "fault": 3, "survives": 4, "refused": 5}


def _subjects(
    packs: Sequence[tuple[Path, RulePack]], targets: Sequence[Target], only: Sequence[str]
) -> Iterator[tuple[int, Subject]]:
    for number, (_, pack) in enumerate(packs):
        for rule in pack.rules:
            if _is_own(pack, rule) and (not only or rule.name in only):
                yield number, Subject(pack, rule, tuple(targets))


def _is_own(pack: RulePack, rule: ast.Rule) -> bool:
    return pack.origins[rule.name].pack == pack.name
