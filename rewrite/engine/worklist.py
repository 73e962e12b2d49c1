"""Which nodes to look at next.

In: nodes and values that changed. Out: the next node, each once per change, in an order that
depends only on the graph: seeds in topological order, and before the rest what a rewrite made.

Changes are numbered. What may depend on a changed value is found when a list has run empty, in one
walk for all changes, and only what was last looked at before the change is looked at again: in the
first pass over a graph, nodes behind a change come after it anyway.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import onnx_ir as ir

_MOST_USES = 64
_QUEUED = sys.maxsize  # later than any change


class Worklist:
    """A queue with membership: first in, first out for seeds, last in, first out for changes."""

    __slots__ = ("_fresh", "_queue", "_seen", "change")

    def __init__(self) -> None:
        self.change = 0  # the number of the last change
        self._queue: deque[ir.Node] = deque()
        self._fresh: list[ir.Node] = []
        # The last change before a node was looked at, or _QUEUED. Never iterated.
        self._seen: dict[ir.Node, int] = {}

    def seed(self, nodes: Iterable[ir.Node]) -> None:
        seen = self._seen
        new = {node: _QUEUED for node in nodes if seen.get(node) != _QUEUED}
        seen.update(new)
        self._queue.extend(new)

    def note(self, node: ir.Node) -> None:
        """Remember a changed node; `take_noted` puts those noted before all others."""
        seen = self._seen
        if seen.get(node) != _QUEUED:
            seen[node] = _QUEUED
            self._fresh.append(node)

    def take_noted(self) -> None:
        """The first noted comes out first."""
        if self._fresh:
            self._queue.extendleft(reversed(self._fresh))
            self._fresh.clear()

    def pop(self) -> ir.Node | None:
        """The next node that is still in a graph."""
        queue, seen = self._queue, self._seen
        while queue:
            node = queue.popleft()
            seen[node] = self.change
            if node._graph is not None:
                return node
        return None

    def __len__(self) -> int:
        return len(self._queue)


class Dispatch:
    """Worklists of several phases, each of which takes nodes of some operators only."""

    def __init__(self, takers: Sequence[tuple[Worklist, Mapping[str, int]]]) -> None:
        """Worklists with the names of the operators they take (of whatever domain), and how far
        from a node of that name a change may matter to it."""
        by_name: dict[str, list[tuple[Worklist, int]]] = {}
        for work, reach in takers:
            for name, radius in reach.items():
                by_name.setdefault(name, []).append((work, radius))
        self._by_name = {name: tuple(entries) for name, entries in by_name.items()}
        self._works = tuple(work for work, _ in takers)
        self._radius = max((r for _, reach in takers for r in reach.values()), default=0)
        self._change = 0
        self._pending: dict[ir.Value, int] = {}  # changed values and the number of the change

    def seed(self, nodes: Iterable[ir.Node]) -> None:
        by_name = self._by_name
        seeds: dict[Worklist, list[ir.Node]] = {work: [] for work in self._works}
        for node in nodes:
            for work, _ in by_name.get(node._op_type, ()):
                seeds[work].append(node)
        for work, wanted in seeds.items():
            work.seed(wanted)

    def changed(self, new: Iterable[ir.Node], values: Iterable[ir.Value]) -> None:
        """Put new nodes before all others; what depends on changed values waits for `settle`."""
        by_name = self._by_name
        for node in new:
            for work, _ in by_name.get(node._op_type, ()):
                if work._seen.get(node) != _QUEUED:
                    work.note(node)
        change = self._change = self._change + 1
        for work in self._works:
            work.change = change
            if work._fresh:
                work.take_noted()
        for value in values:
            self._pending[value] = change

    def settle(self) -> bool:
        """Put what may depend on values changed since the last time on the lists it concerns.

        False where nothing was changed.
        """
        if not self._pending:
            return False
        by_name = self._by_name
        for distance, nodes in enumerate(_levels(self._pending, self._radius), 1):
            for node, change in nodes.items():
                for work, reach in by_name.get(node._op_type, ()):
                    if distance <= reach and work._seen.get(node, _QUEUED) < change:
                        work.note(node)
        for work in self._works:
            work.take_noted()
        self._pending.clear()
        return True


def _levels(values: Mapping[ir.Value, int], depth: int) -> list[dict[ir.Node, int]]:
    """The users of `values`, then their users, up to `depth` steps, with the latest change each.

    A match anchored at one of these may see what changed, no other can. Values with very many
    uses are followed only `_MOST_USES` wide.
    """
    found: dict[ir.Node, int] = {}
    levels: list[dict[ir.Node, int]] = []
    for _ in range(depth):
        nodes: dict[ir.Node, int] = {}
        for value, change in values.items():
            uses = value._uses
            for node, _index in uses if len(uses) <= _MOST_USES else islice(uses, _MOST_USES):
                if found.get(node, 0) < change:
                    found[node] = nodes[node] = change
        if not nodes:
            break
        levels.append(nodes)
        values = {output: change for node, change in nodes.items() for output in node._outputs}
    return levels
