"""Removing what nothing needs: nodes, and initializers without users.

In: a model's `Facts`. Out: the nodes removed. ONNX operators have no side effects; a node of a
domain that nobody describes might have one, so it stays unless a rule replaced it by name.
Inputs and outputs of the model, of subgraphs and of functions stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.graph.names import holds_graph, subgraphs
from rewrite.graph.uses import nodes_of, release, take_out
from rewrite.schema import DESCRIBED_DOMAINS


def sweep(facts: Facts, nodes: Iterable[ir.Node]) -> tuple[ir.Node, ...]:
    """Remove those of `nodes` that nothing needs, then what only they needed, and so on."""
    pending = list(nodes)[::-1]
    named = frozenset(pending)
    removed: dict[ir.Node, None] = {}
    inside: list[ir.Node] = []
    while pending:
        node = pending.pop()
        if node in removed or node._graph is None or not is_unused(node):
            continue
        if node not in named and not _is_pure(facts, node):
            continue
        removed[node] = None
        facts.order.drop(node)
        for output in node._outputs:
            facts.forget(output)
        freed = release(node)
        if holds_graph(node):
            inner = _nodes_inside(node)
            inside += inner
            freed += (value for n in inner for value in release(n))
        for value in freed:
            producer = value._producer
            if producer is not None:
                facts.freed[value] = None
                if not value._uses:
                    pending.append(producer)
            elif not value._uses:
                drop_initializer(facts, value)
    take_out((*removed, *inside))
    return tuple(removed)


def _nodes_inside(node: ir.Node) -> list[ir.Node]:
    """All nodes of the graphs inside a node."""
    found: list[ir.Node] = []
    pending = [node]
    while pending:
        inner = [n for graph in subgraphs(pending.pop()) for n in graph]
        found += inner
        pending += inner
    return found


def is_unused(node: ir.Node) -> bool:
    """Whether no output of the node is used or is an output of the graph."""
    for output in node._outputs:  # noqa: SIM110 - asked of every node: a generator doubles the cost
        if output._uses or output._is_graph_output:
            return False
    return True


def _is_pure(facts: Facts, node: ir.Node) -> bool:
    if node._domain in DESCRIBED_DOMAINS:
        return True
    return node.op_identifier() in facts.model.functions


def drop_initializer(facts: Facts, value: ir.Value) -> bool:
    """Remove an initializer that has no users and that no signature names."""
    if not value.is_initializer() or value._uses or value.name in facts.kept:
        return False
    if value.is_graph_input() or value.is_graph_output():
        return False
    graph = value.graph
    if graph is None or value.name is None:
        return False
    del graph.initializers[value.name]
    facts.forget(value)
    return True


def remove_dead(facts: Facts) -> tuple[ir.Node, ...]:
    """Remove every unused node and initializer of the model. Linear."""
    removed: list[ir.Node] = []
    everything = facts.graphs()
    for graph in everything:
        unused = [n for n in reversed(nodes_of(graph)) if is_unused(n) and _is_pure(facts, n)]
        removed += sweep(facts, unused)
    for graph in everything:
        for value in list(graph.initializers.values()):
            drop_initializer(facts, value)
    return tuple(removed)
