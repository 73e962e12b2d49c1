"""Types that ONNX's own inference does not find, from the operator declarations.

In: a value whose type is asked for. Out: types of it and of what it is computed from, in `Facts`.
`Facts`. Asked for only where something is missing, so that a model with complete types pays
nothing.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.engine.inference import node_types
from rewrite.engine.refused import RefusedError
from rewrite.graph.facts import Facts
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
            for node in self._gather(value):
                self._complete(node)
        finally:
            facts.complete = self

    def _gather(self, value: ir.Value) -> list[ir.Node]:
        """The untried nodes of incomplete type that `value` is computed by, operands first."""
        ordered: list[ir.Node] = []
        pending: list[tuple[ir.Node, bool]] = [(node, False) for node in self._open(value)]
        while pending:
            node, ready = pending.pop()
            if ready:
                ordered.append(node)
            elif node not in self._tried:
                self._tried.add(node)
                pending.append((node, True))
                for operand in node.inputs:
                    if operand is not None:
                        pending.extend((n, False) for n in self._open(operand))
        return ordered

    def _open(self, value: ir.Value) -> tuple[ir.Node, ...]:
        node = value.producer()
        if node is None or node in self._tried or _is_complete(self.facts.type(value)):
            return ()
        return (node,)

    def _complete(self, node: ir.Node) -> None:
        facts = self.facts
        try:
            types = node_types(facts, node, facts.operands(node))
        except RefusedError:
            types = (UNKNOWN,) * len(node.outputs)
        for output, found in zip(node.outputs, types, strict=True):
            known = facts.type(output)
            dtype = found.dtype if known.dtype is None else known.dtype
            shape = found.shape if known.shape is None else known.shape
            if (dtype, shape) != (known.dtype, known.shape):
                facts.set_type(output, Type(dtype, shape))


def _is_complete(type_: Type) -> bool:
    return type_.dtype is not None and type_.shape is not None
