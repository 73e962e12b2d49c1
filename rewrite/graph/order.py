"""The order of nodes in a graph, and where new nodes may go without a cycle.

In: a graph and the nodes to add. Out: exact positions that can be compared in constant time, a
`Place` for new nodes, and a stable topological sort.

A label is a tuple of numbers; labels compare like positions in the list. A node put behind node P
gets P's label and a suffix that no node behind P has yet, so nothing else is renumbered.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import onnx_ir as ir

from rewrite.graph.names import holds_graph, subgraphs
from rewrite.graph.uses import nodes_of, put_after

Label = tuple[int, ...]
LONGEST_LABEL = 64  # then the graph is numbered anew: 31 edits in a row at one place


class Order:
    """Labels of the nodes of all graphs of a model, made when first asked for."""

    def __init__(self) -> None:
        self._labels: dict[ir.Graph, dict[ir.Node, Label]] = {}
        self._inserted: dict[ir.Node, int] = {}

    def label(self, graph: ir.Graph, node: ir.Node) -> Label:
        """The position of a node among the nodes of its graph."""
        labels = self._labels.get(graph)
        label = None if labels is None else labels.get(node)
        return self._number(graph)[node] if label is None else label

    def _number(self, graph: ir.Graph) -> dict[ir.Node, Label]:
        labels: dict[ir.Node, Label] = {node: (i,) for i, node in enumerate(nodes_of(graph))}
        self._labels[graph] = labels
        return labels

    def insert_after(self, graph: ir.Graph, anchor: ir.Node, nodes: Sequence[ir.Node]) -> None:
        """Put nodes (new ones, or ones of this graph) right behind `anchor`, in their order."""
        label = self.label(graph, anchor)
        labels = self._labels[graph]
        put_after(graph, anchor, nodes)
        if len(label) + 2 > LONGEST_LABEL:
            del self._labels[graph]
            return
        turn = self._inserted[anchor] = self._inserted.get(anchor, 0) - 1
        for i, node in enumerate(nodes):
            labels[node] = (*label, turn, i)

    def drop(self, node: ir.Node) -> None:
        """Forget a node that was removed."""
        self._inserted.pop(node, None)
        graph = node._graph
        labels = None if graph is None else self._labels.get(graph)
        if labels is not None:
            labels.pop(node, None)

    def forget(self, graph: ir.Graph) -> None:
        """Forget a graph whose nodes were moved by others."""
        self._labels.pop(graph, None)


class Place(NamedTuple):
    """Where new nodes go: behind `anchor` (None: there are none), and then `moved` behind them."""

    anchor: ir.Node | None
    moved: tuple[ir.Node, ...] = ()


ParentOf = Callable[[ir.Graph], ir.Node | None]


def reads(node: ir.Node) -> list[ir.Value]:
    """The values a node needs: its inputs, and what its subgraphs use."""
    if not holds_graph(node):
        return [value for value in node._inputs if value is not None]
    found: list[ir.Value] = []
    pending = [node]
    while pending:
        current = pending.pop()
        found += (value for value in current.inputs if value is not None)
        for graph in subgraphs(current):
            pending.extend(graph)
            found.extend(graph.outputs)
    return found


def plan(
    order: Order,
    graph: ir.Graph,
    parent_of: ParentOf,
    roots: Sequence[tuple[ir.Value, ir.Value]],
    nodes: Sequence[ir.Node],
    needed: Sequence[ir.Node],
) -> Place | None:
    """The place for `nodes` when each old value of `roots` gives way to its new value.

    None where that would make a cycle. New nodes go behind the last old one, or behind the last
    node of the graph that they need (`needed`; without new nodes, that the new values come from);
    whatever needs a replaced value and comes before is moved behind them.
    """
    last, label = _latest(order, graph, needed)
    old = [producer for value, _ in roots if (producer := value._producer) is not None]
    if label <= min([order.label(graph, node) for node in old], default=label):
        # Users of replaced values come behind those: none comes before what is needed.
        if not nodes:
            return Place(last)
        if len(old) == 1:
            return Place(old[0])
    if nodes:
        last, label = _latest(order, graph, (*needed, *old))
    behind = _downstream(order, graph, parent_of, roots, frozenset(nodes), label)
    if any(node in behind for node in needed):
        return None
    moved = sorted(behind, key=lambda node: order.label(graph, node))
    return Place(last, tuple(moved))


def _latest(
    order: Order, graph: ir.Graph, nodes: Sequence[ir.Node]
) -> tuple[ir.Node | None, Label]:
    """The last of some nodes of a graph; None, with a label before all others, of no nodes."""
    found: ir.Node | None = None
    latest: Label = ()
    for node in nodes:
        label = order.label(graph, node)
        if label > latest:
            found, latest = node, label
    return found, latest


def _downstream(
    order: Order,
    graph: ir.Graph,
    parent_of: ParentOf,
    roots: Sequence[tuple[ir.Value, ir.Value]],
    new: frozenset[ir.Node],
    limit: Label,
) -> dict[ir.Node, None]:
    """The nodes up to `limit` that will need the replaced values, directly or not."""
    found: dict[ir.Node, None] = {}
    pending = [usage.node for value, _ in roots for usage in value.uses()]
    while pending:
        node = _lift(graph, parent_of, pending.pop())
        if node is None or node in found or node in new or order.label(graph, node) > limit:
            continue
        found[node] = None
        pending.extend(usage.node for output in node.outputs for usage in output.uses())
    return found


def _lift(graph: ir.Graph, parent_of: ParentOf, node: ir.Node) -> ir.Node | None:
    """The node itself, or the node of `graph` around it; None where there is none."""
    current: ir.Node | None = node
    while current is not None and current.graph is not graph:
        inner = current.graph
        current = None if inner is None else parent_of(inner)
    return current


def sort(graph: ir.Graph) -> bool:
    """Sort one graph topologically, stable; False (and nothing done) where it has a cycle.

    Subgraphs are not sorted, but what they use counts as used by the node that holds them.
    """
    nodes = list(graph)
    position = {node: i for i, node in enumerate(nodes)}
    waiting = [0] * len(nodes)
    users: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        producers = {
            position[p]
            for value in reads(node)
            if (p := value.producer()) is not None and p in position
        }
        waiting[i] = len(producers)
        for first in sorted(producers):
            users[first].append(i)
    ready = [i for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    sequence: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        sequence.append(i)
        for user in users[i]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, user)
    if len(sequence) != len(nodes):
        return False
    if sequence != list(range(len(nodes))):
        graph.extend(nodes[i] for i in sequence)
    return True
