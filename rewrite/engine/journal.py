"""What a run did, as frozen records: explain, coverage, ledger and report all read this.

In: calls of the engine while it works (`Log`). Out: `Journal`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rewrite.engine.ledger import Bound

if TYPE_CHECKING:
    from rewrite.engine.quantized_faults import QuantizationFault
    from rewrite.quant.certificate import Certificate

Reason = Literal["fixpoint", "limit_applications", "limit_time", "limit_growth", "cycle"]


@dataclass(frozen=True, slots=True)
class Applied:
    """One rule applied once. Nodes are named by their first output, which is unique in a graph."""

    rule: str
    phase: str
    bound: Bound
    graph: str
    roots: tuple[str, ...]
    removed: tuple[str, ...]  # operators matched
    added: tuple[str, ...]  # operators emitted
    branches: tuple[str, ...] = ()
    certificate: Certificate | None = None  # what `bound` stands on, where the rule is certified
    matched: tuple[str, ...] = ()  # the nodes of `removed`
    made: tuple[str, ...] = ()  # the nodes of `added`
    renamed: tuple[tuple[str, str], ...] = ()  # other nodes that took the name of a root: was, is


@dataclass(frozen=True, slots=True)
class Refused:
    """A step that was begun and rolled back, or not begun at all: the graph is as it was."""

    rule: str
    phase: str
    graph: str
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Folded:
    """A node whose outputs were computed; `bound`: how far a conforming runtime may differ."""

    operator: str
    graph: str
    outputs: tuple[str, ...]
    nbytes: int
    bound: Bound
    evidence: str


@dataclass(frozen=True, slots=True)
class Grouped:
    """A group outlined: `name` is the local function, `node` the call that stands for it."""

    name: str
    rule: str
    graph: str
    node: str
    nodes: tuple[str, ...]  # operators inside
    emitted: bool = False  # by a rule that is among those applied, too
    members: tuple[str, ...] = ()  # the nodes of `nodes` as they were named outside


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Count of one kind of tidying: `dead`, `common`, `duplicate`, `lifted`, `inlined`."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class Cycle:
    """Rules that undo each other, in the order they fired, and the values they fired at."""

    rules: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drifted:
    """A value of the main graph whose codes may be off, by how many of its own units; or the
    `reason` why nothing bounds it. Without a name: any value."""

    value: str
    error: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    reason: Reason
    rounds: int
    applications: int


@dataclass(frozen=True, slots=True)
class Journal:
    applied: tuple[Applied, ...]
    refused: tuple[Refused, ...]
    folded: tuple[Folded, ...]
    groups: tuple[Grouped, ...]
    cleaned: tuple[Cleaned, ...]
    cycles: tuple[Cycle, ...]
    stop: Stop
    seconds: Mapping[str, float]
    drift: tuple[Drifted, ...] = ()
    faults: tuple[QuantizationFault, ...] = ()  # before anything was rewritten

    def fired(self) -> dict[str, int]:
        """Rule -> number of applications, most frequent first, then by name."""
        counts: dict[str, int] = {}
        grouped = (g.rule for g in self.groups if not g.emitted)
        for rule in (*(a.rule for a in self.applied), *grouped):
            counts[rule] = counts.get(rule, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


@dataclass(slots=True)
class Log:
    """Collects records during a run. The same refusal met twice is kept once."""

    applied: list[Applied] = field(default_factory=list)
    folded: list[Folded] = field(default_factory=list)
    groups: list[Grouped] = field(default_factory=list)
    cycles: list[Cycle] = field(default_factory=list)
    _refused: dict[Refused, None] = field(default_factory=dict)
    _cleaned: dict[str, int] = field(default_factory=dict)

    def refuse(self, record: Refused) -> None:
        self._refused[record] = None

    def cycle(self, cycle: Cycle) -> None:
        """The same rules at other nodes are the same cycle."""
        if all(known.rules != cycle.rules for known in self.cycles):
            self.cycles.append(cycle)

    def clean(self, kind: str, count: int) -> None:
        if count:
            self._cleaned[kind] = self._cleaned.get(kind, 0) + count

    def close(
        self,
        stop: Stop,
        seconds: Mapping[str, float],
        drift: tuple[Drifted, ...] = (),
        faults: tuple[QuantizationFault, ...] = (),
    ) -> Journal:
        cleaned = tuple(Cleaned(kind, count) for kind, count in sorted(self._cleaned.items()))
        return Journal(
            applied=tuple(self.applied),
            refused=tuple(self._refused),
            folded=tuple(self.folded),
            groups=tuple(self.groups),
            cleaned=cleaned,
            cycles=tuple(self.cycles),
            stop=stop,
            seconds=dict(seconds),
            drift=drift,
            faults=faults,
        )
