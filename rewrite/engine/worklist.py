"""Which nodes to look at next.

In: nodes that changed. Out: the next node, each once per change, in an order that depends only on
the graph: seeds in topological order, and before the rest what a rewrite touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

import onnx_ir as ir

_MOST_USES = 64


class Worklist:
    """A queue with membership: first in, first out for seeds, last in, first out for changes."""

    __slots__ = ("_fresh", "_members", "_queue", "_radius", "radius")

    def __init__(self, radius: int = 0) -> None:
        """`radius`: how far from a change its nodes may depend on it.

        Before the first node is taken every seed is still to come: only new nodes are news.
        """
        self.radius = 0
        self._radius = radius
        self._queue: deque[ir.Node] = deque()
        self._members: set[ir.Node] = set()  # asked for membership only, never iterated
        self._fresh: list[ir.Node] = []

    def seed(self, nodes: Iterable[ir.Node]) -> None:
        members, append = self._members, self._queue.append
        for node in nodes:
            if node not in members:
                members.add(node)
                append(node)

    def note(self, node: ir.Node) -> None:
        """Remember a changed node; `take_noted` puts those noted before all others."""
        if node not in self._members:
            self._members.add(node)
            self._fresh.append(node)

    def take_noted(self) -> None:
        """The first noted comes out first."""
        if self._fresh:
            self._queue.extendleft(reversed(self._fresh))
            self._fresh.clear()

    def pop(self) -> ir.Node | None:
        """The next node that is still in a graph."""
        self.radius = self._radius
        queue, members = self._queue, self._members
        while queue:
            node = queue.popleft()
            members.discard(node)
            if node.graph is not None:
                return node
        return None

    def __len__(self) -> int:
        return len(self._queue)


class Dispatch:
    """Worklists of several phases, each of which takes nodes of some operators only."""

    def __init__(self, takers: Iterable[tuple[Worklist, Iterable[str]]]) -> None:
        """Worklists with the names of the operators they take (of whatever domain)."""
        by_name: dict[str, list[Worklist]] = {}
        for work, names in takers:
            for name in names:
                by_name.setdefault(name, []).append(work)
        self._by_name = {name: tuple(works) for name, works in by_name.items()}
        works = {id(w): w for group in self._by_name.values() for w in group}
        self._works = tuple(works.values())

    def seed(self, nodes: Iterable[ir.Node]) -> None:
        by_name = self._by_name
        for node in nodes:
            for work in by_name.get(node.op_type, ()):
                work.seed((node,))

    def changed(self, new: Iterable[ir.Node], values: Sequence[ir.Value]) -> None:
        """Put changed nodes, and what may depend on changed values, on the lists they concern."""
        by_name = self._by_name
        radius = max((work.radius for work in self._works), default=0)
        for distance, nodes in enumerate(_levels(new, values, radius)):
            for node in nodes:
                for work in by_name.get(node.op_type, ()):
                    if distance <= work.radius:
                        work.note(node)
        for work in self._works:
            work.take_noted()


def _levels(
    new: Iterable[ir.Node], values: Sequence[ir.Value], depth: int
) -> list[Iterable[ir.Node]]:
    """`new`, then the users of `values`, then their users, and so on up to `depth` steps.

    A match anchored at one of these may see what changed, no other can. Values with very many
    uses are followed only `_MOST_USES` wide.
    """
    first = dict.fromkeys(new)
    found = set(first)  # asked for membership only
    levels: list[Iterable[ir.Node]] = [first]
    for _ in range(depth):
        nodes: list[ir.Node] = []
        for value in values:
            uses = value._uses  # uses() copies all of them
            for node, _index in uses if len(uses) <= _MOST_USES else islice(uses, _MOST_USES):
                if node not in found:
                    found.add(node)
                    nodes.append(node)
        if not nodes:
            break
        levels.append(nodes)
        values = [output for node in nodes for output in node.outputs]
    return levels
