"""Which nodes became which, and by what rule.

In: the pictures before and after, the journal. Out: `Provenance`: for every node before, what
became of it; for every node after, where it comes from; and the applications between them.

The journal names nodes by graph and first output, and a name goes from node to node: the record
that made it last counts. A node that no rule touched is the one of the same name and operator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from rewrite.engine.journal import Applied, Grouped, Journal
from rewrite.report.picture import Cell, Picture

# `constant`: it is an initializer now. `gone`: unused, equal to another node, or inlined.
Fate = Literal["kept", "rewritten", "folded", "constant", "gone"]
Source = Literal["kept", "made", "moved"]  # `moved`: not made by a rule, but not where it was
MOST_ORIGINS = 64  # nodes before that one node after is told to come from

Key = tuple[str, str]


@dataclass(slots=True)
class Application:
    """One use of a rule: cells of the picture before that went in, those after that came out."""

    rule: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    before: tuple[int, ...]
    after: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Provenance:
    """`application` holds a number of `applications` by cell, for those that a rule touched."""

    applications: list[Application] = field(default_factory=list)
    fates: dict[int, Fate] = field(default_factory=dict)
    taken_by: dict[int, int] = field(default_factory=dict)  # cell before -> application
    sources: dict[int, Source] = field(default_factory=dict)
    made_by: dict[int, int] = field(default_factory=dict)  # cell after -> application
    origins: dict[int, tuple[int, ...]] = field(default_factory=dict)  # cell after -> cells before


def trace(before: Picture, after: Picture, journal: Journal) -> Provenance:
    """Follow every node through the run."""
    tracing = _Tracing(before)
    for record in journal.applied:
        tracing.apply(record)
    for group in journal.groups:
        if not group.emitted:
            tracing.group(group)
    tracing.arrive(after)
    folded = {(f.graph, name) for f in journal.folded for name in f.outputs}
    tracing.settle(before, folded)
    return tracing.found


class _Tracing:
    def __init__(self, before: Picture) -> None:
        self.found = Provenance()
        self.before = before
        self.origin: dict[Key, tuple[int, ...]] = {}
        self.maker: dict[Key, int] = {}
        self.groups: dict[Key, int] = {}
        self.by_name: dict[tuple[str, str, str], int] = {}
        self.kept: set[int] = set()
        for number, cell in _nodes(before):
            self.origin[cell.key] = (*self.origin.get(cell.key, ()), number)
            if cell.node is not None and cell.node.name:
                self.by_name.setdefault((cell.key[0], cell.node.name, cell.node.op_type), number)

    # --- forward -------------------------------------------------------------------------------

    def apply(self, record: Applied) -> None:
        number = self._record(
            record.rule, record.removed, record.added, record.graph, record.matched
        )
        sources = self.found.applications[number].before
        for name in record.made:
            self.origin[record.graph, name] = sources
            self.maker[record.graph, name] = number
        for was, name in record.renamed:
            old, new = (record.graph, was), (record.graph, name)
            self.origin[new] = self.origin.get(old, ())
            self.maker.pop(new, None)
            if old in self.maker:
                self.maker[new] = self.maker[old]

    def group(self, record: Grouped) -> None:
        """Its nodes stay what they are, inside."""
        added = (record.name,)
        self.groups[record.graph, record.node] = self._record(
            record.rule, record.nodes, added, record.graph, record.members
        )

    def _record(
        self,
        rule: str,
        removed: tuple[str, ...],
        added: tuple[str, ...],
        graph: str,
        matched: Iterable[str],
    ) -> int:
        number = len(self.found.applications)
        sources: dict[int, None] = {}
        for name in matched:
            key = (graph, name)
            cells = self.origin.get(key, ())
            sources.update(dict.fromkeys(cells))
            if key not in self.maker:
                for cell in cells:
                    self.found.taken_by.setdefault(cell, number)
        first = tuple(sources)[:MOST_ORIGINS]
        self.found.applications.append(Application(rule, removed, added, first))
        return number

    # --- the picture after ---------------------------------------------------------------------

    def arrive(self, after: Picture) -> None:
        """Where each node after comes from."""
        found = self.found
        for number, cell in _nodes(after):
            maker = self.groups.get(cell.key) if cell.kind == "group" else None
            if maker is None:
                maker = self.maker.get(cell.key)
            if maker is not None:
                found.sources[number] = "made"
                found.made_by[number] = maker
                found.origins[number] = found.applications[maker].before
                found.applications[maker].after.append(number)
                continue
            origin = self._same(cell)
            found.sources[number] = "moved" if origin is None else "kept"
            if origin is not None:
                found.origins[number] = (origin,)
                self.kept.add(origin)

    def _same(self, cell: Cell) -> int | None:
        """The node before that this one is, still: of the same first output, else of its name."""
        assert cell.node is not None
        operator = cell.node.op_identifier()
        for number in self.origin.get(cell.key, ()):
            node = self.before.cells[number].node
            if node is not None and node.op_identifier() == operator and number not in self.kept:
                return number
        name = cell.node.name or ""
        named = self.by_name.get((cell.key[0], name, cell.node.op_type))
        return None if named in self.kept else named

    # --- the picture before --------------------------------------------------------------------

    def settle(self, before: Picture, folded: set[Key]) -> None:
        """What became of each node before."""
        for number, cell in _nodes(before):
            self.found.fates[number] = self._fate(number, cell, folded)

    def _fate(self, number: int, cell: Cell, folded: set[Key]) -> Fate:
        if number in self.kept:
            return "kept"
        if number in self.found.taken_by:
            return "rewritten"
        if cell.key in folded:
            return "folded"
        return "constant" if cell.kind == "constant" else "gone"


def _nodes(picture: Picture) -> Iterable[tuple[int, Cell]]:
    """Cells that stand for a node."""
    return ((number, cell) for number, cell in enumerate(picture.cells) if cell.node is not None)
