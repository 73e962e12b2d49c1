"""The obligation of every application: each root keeps its element type and shape.

In: a match, and each root with its new value. Out: None where it is shown, else the reason.

Two proofs are tried, the cheap one first:
  1. both types are known and equal (names of sizes that are equal are equal sizes);
  2. relational: the matched nodes and the new ones are inferred again over the same operands, and
     give the same type, whatever the model declares about the root. An operand of unknown rank
     gets a token for its shape (rewrite/ops/opaque.py) that shape-keeping operators carry along.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from rewrite.engine.inference import node_types
from rewrite.engine.refused import RefusedError
from rewrite.graph.facts import Facts
from rewrite.ops import opaque
from rewrite.schema import Type


def unmet(
    facts: Facts,
    matched: Sequence[ir.Node],
    roots: Sequence[tuple[ir.Value, ir.Value]],
    new_nodes: Sequence[ir.Node],
) -> str | None:
    """The first root for which nothing shows that it keeps its type, in words."""
    proof: _Relational | None = None
    for old, new in roots:
        before, after = facts.type(old), facts.type(new)
        if before == after and _known(before):
            continue
        if proof is None:
            proof = _Relational(facts, matched, new_nodes)
        reason = proof.unmet(old, new)
        if reason is not None:
            return reason
    return None


def _known(type_: Type) -> bool:
    return type_.dtype is not None and type_.shape is not None


class _Relational:
    """Old and new outputs inferred over the same operands."""

    def __init__(
        self, facts: Facts, matched: Sequence[ir.Node], new_nodes: Sequence[ir.Node]
    ) -> None:
        self.facts = facts
        self.inside = frozenset(matched) | frozenset(new_nodes)
        self.types: dict[ir.Value, Type] = {}

    def unmet(self, old: ir.Value, new: ir.Value) -> str | None:
        before, after = self.type(old), self.type(new)
        declared = self.facts.type(old)
        dtype = declared.dtype if before.dtype is None else before.dtype
        if dtype is None or dtype != after.dtype:
            return _differs(old, "element type", dtype, after.dtype)
        if after.shape is not None and after.shape in (before.shape, declared.shape):
            return None
        shape = declared.shape if before.shape is None else before.shape
        return _differs(old, "shape", shape, after.shape)

    def type(self, value: ir.Value) -> Type:
        """The value's type by inference alone inside the match, by what is known outside."""
        for node in self._upstream(value):
            operands = self.facts.operands(node)
            try:
                types = node_types(self.facts, node, operands, self._operand)
            except RefusedError:
                types = tuple(self.facts.type(output) for output in node.outputs)
            self.types.update(zip(node.outputs, types, strict=True))
        return self._operand(value)

    def _operand(self, value: ir.Value) -> Type:
        found = self.types.get(value)
        if found is None:
            found = self.facts.type(value)
            if found.shape is None:
                found = Type(found.dtype, opaque.opaque(f"v{len(self.types)}"))
            self.types[value] = found
        return found

    def _upstream(self, value: ir.Value) -> list[ir.Node]:
        """Nodes inside, operands first, that `value` is computed by and that have no type yet."""
        ordered: list[ir.Node] = []
        seen: set[ir.Node] = set()
        pending: list[tuple[ir.Node, bool]] = [(n, False) for n in self._producer(value)]
        while pending:
            node, ready = pending.pop()
            if ready:
                ordered.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            pending.append((node, True))
            for operand in node.inputs:
                if operand is not None:
                    pending.extend((n, False) for n in self._producer(operand))
        return ordered

    def _producer(self, value: ir.Value) -> tuple[ir.Node, ...]:
        """The node inside that computes the value, where it has no type yet."""
        node = value.producer()
        if node is None or node not in self.inside or value in self.types:
            return ()
        return (node,)


def _differs(old: ir.Value, what: str, before: object, after: object) -> str:
    name = f"'{old.name}'"
    if before is None or (isinstance(before, tuple) and opaque.is_opaque(before)):
        return f"the {what} of {name} is not known, and that of its replacement not shown equal"
    if after is None or (isinstance(after, tuple) and opaque.is_opaque(after)):
        return f"the {what} of what replaces {name} is not known"
    return f"the {what} of {name} would become {_text(after)}; it is {_text(before)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(str(dim) for dim in value) + "]"
    return str(value)
