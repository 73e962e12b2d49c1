"""Names that no value and no node of the model has yet.

In: a model and hints. Out: fresh names; the same hints in the same order give the same names.
Names are unique over the whole model, subgraphs and functions included, so that a value can move
from one graph to another.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from rewrite.graph.uses import nodes_of

_GRAPH, _GRAPHS = ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS


class Names:
    """The names in use, read from the model at the first request."""

    def __init__(self, model: ir.Model, reserved: frozenset[str] = frozenset()) -> None:
        self._model = model
        self._reserved = reserved
        self._used: set[str] | None = None
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """`hint` itself where it is free, else `hint_1`, `hint_2` ..."""
        used = self._used
        if used is None:
            used = self._used = set(self._reserved)
            used.update(_all_names(self._model))
        hint = hint or "value"
        name = hint
        number = self._next.get(hint, 0)
        while name in used:
            number += 1
            name = f"{hint}_{number}"
        self._next[hint] = number
        used.add(name)
        return name


def _all_names(model: ir.Model) -> list[str]:
    found: list[str | None] = []
    roots = [model.graph, *(function.graph for function in model.functions.values())]
    while roots:
        graph = roots.pop()
        found += graph.initializers
        found += [value.name for value in graph.inputs]
        for node in nodes_of(graph):
            found.append(node._name)
            found += [output._name for output in node._outputs]
            if node._attributes.data:
                roots.extend(subgraphs(node))
    return [name or "" for name in found]


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """The graphs directly inside a node, in the order of its attributes."""
    for attribute in node.attributes.data.values():
        kind = attribute.type
        if kind is _GRAPH and not attribute.is_ref():
            yield attribute.value
        elif kind is _GRAPHS and not attribute.is_ref():
            yield from attribute.value


def holds_graph(node: ir.Node) -> bool:
    """Whether a node has graphs inside."""
    attributes = node._attributes.data
    if not attributes:
        return False
    for attribute in attributes.values():  # noqa: SIM110 - twice as fast as any()
        if attribute.type in (_GRAPH, _GRAPHS):
            return True
    return False
