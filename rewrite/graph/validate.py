"""Whether a rewritten model is still a model.

In: a `LoadedModel` after edits. Out: nothing, or a `RewriteError` with what is wrong: that is a
fault of this tool or of a rule.

Names: in the file values are known by name only, so wherever a value is used its name must lead to
that very value. Types and everything else: the ONNX checker and shape inference decide, on a copy
without large tensor data. What was tolerated when the model was loaded is tolerated again.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from rewrite.errors import Diagnostic, RewriteError
from rewrite.graph import checks, collector, infer, stubs
from rewrite.graph.model import LoadedModel
from rewrite.graph.names import subgraphs

MOST_PROBLEMS = 20

Visible = dict[str, ir.Value]


def check_graph(loaded: LoadedModel, types: bool = True) -> None:
    """Raise RW515 where the model is not valid. `types`: also run shape inference."""
    with collector.paused():
        found = list(problems(loaded.model)) or list(_verdicts(loaded, types))
    if found:
        start = "the rewritten model is not valid"
        raise RewriteError(
            tuple(
                Diagnostic("RW515", f"{start}: {text}", subject=loaded.source)
                for text in found[:MOST_PROBLEMS]
            )
        )


def _verdicts(loaded: LoadedModel, types: bool) -> Iterator[str]:
    for_inference, for_checker = stubs.small_forms(loaded)
    op_types = frozenset(node.op_type for graph in loaded.facts.graphs() for node in graph)
    verdict = checks.verdict(for_checker, op_types)
    if not verdict.accepted:
        yield verdict.message
    if types and not any(infer.MISFIT in note for note in loaded.notes):
        complaint = infer.complaint(for_inference, op_types)
        if complaint is not None:
            yield complaint


def problems(model: ir.Model) -> Iterator[str]:
    """Every place where a name does not lead to the value that is meant."""
    roots = [(model.graph, "the main graph")]
    roots += [(f.graph, f"function {f.domain}:{f.name}") for f in model.functions.values()]
    for graph, where in roots:
        yield from _Scope(graph, {}, where).check()


class _Scope:
    """One graph. `visible` has the values of the graphs around it, and is the same when done."""

    def __init__(self, graph: ir.Graph, visible: Visible, where: str) -> None:
        self._graph = graph
        self._visible = visible
        self._where = where
        self._own: set[str | None] = set()
        self._hidden: list[tuple[str, ir.Value | None]] = []
        self._found: list[str] = []

    def check(self) -> list[str]:
        graph = self._graph
        for value in graph.inputs:
            self._define(value)
        for value in graph.initializers.values():
            if value.const_value is None:
                self._found.append(f"initializer '{value.name}' of {self._where} has no value")
            if not value.is_graph_input():
                self._define(value)
        for node in graph:
            self._node(node)
        for value in graph.outputs:
            if value.name not in self._own or self._visible[value.name or ""] is not value:
                self._found.append(f"output '{value.name}' of {self._where} is not computed in it")
        for name, before in reversed(self._hidden):
            if before is None:
                del self._visible[name]
            else:
                self._visible[name] = before
        return self._found

    def _define(self, value: ir.Value) -> None:
        name = value.name
        if not name:
            self._found.append(f"a value of {self._where} has no name")
            return
        if name in self._own:
            self._found.append(f"'{name}' has two definitions in {self._where}")
        self._own.add(name)
        self._hidden.append((name, self._visible.get(name)))
        self._visible[name] = value

    def _node(self, node: ir.Node) -> None:
        if node.graph is not self._graph:
            self._found.append(f"node '{node.name}' of {self._where} belongs to another graph")
        visible = self._visible
        for value in node.inputs:
            if value is not None and visible.get(value.name or "") is not value:
                self._misused(node, value)
        if node.attributes.data:
            for inner in subgraphs(node):
                self._found += _Scope(inner, visible, f"graph '{inner.name}'").check()
        for value in node.outputs:
            if value.name:
                self._define(value)

    def _misused(self, node: ir.Node, value: ir.Value) -> None:
        kind = "another value" if value.name in self._visible else "not defined"
        what = f"node '{node.name}' ({node.op_type}) in {self._where} uses '{value.name}'"
        self._found.append(f"{what}, which is {kind} there")
