"""By how much a rewritten model may differ from the original, and on what evidence.

In: records of a `Journal`. Out: `Bound` (one promise), `Ledger` (all of them and their sum).
Classes are ordered exact < lsb < equal < approx; a sum has the class of its weakest part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

from rewrite.engine import evidence

if TYPE_CHECKING:
    from rewrite.engine.journal import Journal
    from rewrite.lang.ast import Claim

Class = Literal["exact", "lsb", "equal", "approx"]
CLASSES: tuple[Class, ...] = ("exact", "lsb", "equal", "approx")
_CLAIMED = "claimed by the rule, tested on its examples"
_RANK: Mapping[str, int] = {name: rank for rank, name in enumerate(CLASSES)}


@dataclass(frozen=True, slots=True)
class Bound:
    """`exact`; `lsb` n steps; `equal` relative error rtol; `approx` absolute error atol besides."""

    kind: Class = "exact"
    lsb: int = 0
    rtol: float = 0.0
    atol: float = 0.0

    @classmethod
    def of(cls, claim: Claim) -> Bound:
        """What a rule promises. One that is `certified` promises nothing before it is applied."""
        if claim.kind == "certified":
            return cls("lsb")
        return cls(claim.kind, claim.lsb, claim.rtol, claim.atol)

    def __add__(self, other: Bound) -> Bound:
        """Errors of independent steps add at worst (conditioning is measured by `verify`)."""
        kind = self.kind if _RANK[self.kind] >= _RANK[other.kind] else other.kind
        return Bound(kind, self.lsb + other.lsb, self.rtol + other.rtol, self.atol + other.atol)

    def times(self, count: int) -> Bound:
        return Bound(self.kind, self.lsb * count, self.rtol * count, self.atol * count)

    def within(self, limit: str) -> bool:
        """Whether a promise of this class may be used under `--max-class limit`."""
        if self.kind == "lsb" and self.lsb == 0:  # the same codes, in the real-number meaning
            return True
        return _RANK[self.kind] <= _RANK[limit]

    def __str__(self) -> str:
        parts = []
        if self.lsb or self.kind == "lsb":
            parts.append(f"{self.lsb}" if self.kind == "lsb" else f"lsb={self.lsb}")
        if self.rtol or self.kind == "equal":
            parts.append(f"rtol={self.rtol:.3g}")
        if self.atol or self.kind == "approx":
            parts.append(f"atol={self.atol:.3g}")
        return f"{self.kind}({', '.join(parts)})" if parts else self.kind


EXACT = Bound()


@dataclass(frozen=True, slots=True)
class Entry:
    """`count` uses of one rule with one bound each."""

    rule: str
    bound: Bound
    count: int
    evidence: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """`outputs`: by how many steps codes of an output may be off, where rules before it are exact
    to some steps and others make more of that; None where nothing bounds it."""

    entries: tuple[Entry, ...] = ()
    outputs: tuple[tuple[str, int | None], ...] = ()

    @property
    def total(self) -> Bound:
        total = EXACT
        for entry in self.entries:
            total = total + entry.bound.times(entry.count)
        return total

    @classmethod
    def of(cls, journal: Journal) -> Self:
        """Entries in the order of first use, so that the same run gives the same text."""
        proved = evidence.summed((a.rule, a.certificate) for a in journal.applied if a.certificate)
        uses: list[tuple[str, Bound, str]] = [
            (a.rule, a.bound, proved.get(evidence.key(a.rule, a.certificate), _CLAIMED))
            for a in journal.applied
        ]
        unchanged = [group.rule for group in journal.groups if not group.emitted]
        uses += [(rule, EXACT, "nodes outlined unchanged") for rule in unchanged]
        uses += [(f"constant folding of {f.operator}", f.bound, f.evidence) for f in journal.folded]
        return cls(_count(uses))

    def to_json(self) -> dict[str, object]:
        return {
            "class": self.total.kind,
            "total": str(self.total),
            "rtol": self.total.rtol,
            "atol": self.total.atol,
            "lsb": self.total.lsb,
            "entries": [
                {
                    "rule": entry.rule,
                    "claim": str(entry.bound),
                    "count": entry.count,
                    "evidence": entry.evidence,
                }
                for entry in self.entries
            ],
        }

    def text(self) -> str:
        """The form kept in a model's `rewrite.ledger` property."""
        return json.dumps(self.to_json(), sort_keys=True)


def _count(uses: Iterable[tuple[str, Bound, str]]) -> tuple[Entry, ...]:
    counts: dict[tuple[str, Bound, str], int] = {}
    for use in uses:
        counts[use] = counts.get(use, 0) + 1
    return tuple(
        Entry(rule, bound, count, evidence) for (rule, bound, evidence), count in counts.items()
    )
