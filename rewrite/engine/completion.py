"""Types that ONNX's own inference leaves vague, from the operator declarations.

In: a value whose type is asked for. Out: types of it and of what it is computed from, in
`Facts`. Asked for only where something is missing, so that a model with complete types pays
nothing.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.engine.inference import node_types
from rewrite.engine.refused import RefusedError
from rewrite.engine.sizes import merged
from rewrite.engine.upstream import operands_first
from rewrite.graph.facts import Facts
from rewrite.graph.types import is_vague
from rewrite.schema import UNKNOWN, Type


class Completer:
    """Fills in missing types; each node is tried once."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._tried: set[ir.Node] = set()

    def __call__(self, value: ir.Value) -> None:
        facts = self.facts
        facts.complete = None  # nodes are gathered here, operands first, and not by recursion
        try:
            ordered = operands_first(value, self._untried)
            self._tried.update(ordered)
            for node in ordered:
                self._complete(node)
        finally:
            facts.complete = self

    def refine(self) -> list[ir.Value]:
        """Infer vague types once more, after a rewriting; the values of which more is known now."""
        if not self._tried:
            return []  # nothing was vague
        facts = self.facts
        facts.complete = None
        try:
            found: list[ir.Value] = []
            for graph in facts.graphs():
                for node in graph:
                    if any(is_vague(facts.type(output)) for output in node.outputs):
                        found += self._complete(node)
            return found
        finally:
            facts.complete = self

    def _untried(self, value: ir.Value) -> ir.Node | None:
        """The node that computes a value whose type is vague, where it was not tried yet."""
        node = value.producer()
        if node is None or node in self._tried or not is_vague(self.facts.type(value)):
            return None
        return node

    def _complete(self, node: ir.Node) -> list[ir.Value]:
        """Set what is known better now; the values that it concerns."""
        facts = self.facts
        improved: list[ir.Value] = []
        try:
            types = self._branches(node) or node_types(facts, node, facts.operands(node))
        except RefusedError:
            types = (UNKNOWN,) * len(node.outputs)
        for output, found in zip(node.outputs, types, strict=True):
            known = facts.type(output)
            better = merged(known, found)
            if better != known:
                facts.set_type(output, better)
                improved.append(output)
        return improved

    def _branches(self, node: ir.Node) -> tuple[Type, ...]:
        """What both branches of an If give; empty for other operators."""
        if node.op_type != "If" or node.domain != "":
            return ()
        branches = [a.value for a in node.attributes.values() if a.type == ir.AttributeType.GRAPH]
        rows = [tuple(self._inner(v) for v in branch.outputs) for branch in branches]
        if len(rows) != 2 or any(len(row) != len(node.outputs) for row in rows):
            return ()
        return tuple(_common(a, b) for a, b in zip(*rows, strict=True))

    def _inner(self, value: ir.Value) -> Type:
        """The type of an output of a branch; graphs nest less deep than calls may."""
        if is_vague(self.facts.type(value)):
            self(value)
            self.facts.complete = None
        return self.facts.type(value)


def _common(a: Type, b: Type) -> Type:
    """The type where it is the same in both."""
    dtype = a.dtype if a.dtype == b.dtype else None
    return Type(dtype, a.shape if a.shape == b.shape else None)
