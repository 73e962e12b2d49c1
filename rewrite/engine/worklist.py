"""Which nodes to look at next.

In: nodes that changed. Out: the next node, each once per change, in an order that depends only on
the graph: seeds in topological order (or its reverse), then, before the rest, what a rewrite
touched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from itertools import islice

import onnx_ir as ir

Operator = tuple[str, str]


class Worklist:
    """A queue with membership: first in, first out for seeds, last in, first out for changes."""

    __slots__ = ("_members", "_operators", "_queue")

    def __init__(self, operators: Container[Operator] | None) -> None:
        """Only nodes of these operators are kept; None: every node."""
        self._operators = operators
        self._queue: deque[ir.Node] = deque()
        self._members: set[ir.Node] = set()  # asked for membership only, never iterated

    def seed(self, nodes: Iterable[ir.Node]) -> None:
        for node in nodes:
            if node not in self._members and self._takes(node):
                self._members.add(node)
                self._queue.append(node)

    def push(self, nodes: Iterable[ir.Node]) -> None:
        """Put changed nodes before all others; the first of them comes out first."""
        fresh = []
        for node in nodes:
            if node not in self._members and self._takes(node):
                self._members.add(node)
                fresh.append(node)
        self._queue.extendleft(reversed(fresh))

    def pop(self) -> ir.Node | None:
        """The next node that is still in a graph."""
        while self._queue:
            node = self._queue.popleft()
            self._members.discard(node)
            if node.graph is not None:
                return node
        return None

    def __len__(self) -> int:
        return len(self._queue)

    def _takes(self, node: ir.Node) -> bool:
        operators = self._operators
        return operators is None or (node.domain, node.op_type) in operators


def affected(new: Iterable[ir.Node], values: Iterable[ir.Value], depth: int) -> list[ir.Node]:
    """`new` and the consumers of `values`, and theirs, up to `depth` steps away, nearest first.

    A match anchored at one of these may see what changed; no other can. Values with very many
    uses are followed only `_MOST_USES` wide: the round that follows each change of the graph by
    common subexpressions looks at all nodes again.
    """
    found: dict[ir.Node, None] = dict.fromkeys(new)
    level: list[ir.Value] = list(values)
    for _ in range(depth):
        nodes: dict[ir.Node, None] = {}
        for value in level:
            for node, _index in islice(value._uses, _MOST_USES):  # uses() copies all of them
                if node not in found:
                    found[node] = None
                    nodes[node] = None
        if not nodes:
            break
        level = [output for node in nodes for output in node.outputs]
    return list(found)


_MOST_USES = 64
