"""`emit ... group y as Name { attributes }`: what was emitted becomes one call of a function.

In: a match and what its application has built, in no graph yet. Out: the call, in the place of the
nodes that the new value of the root is made of; or `RefusedError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.engine.attributes import free
from rewrite.engine.emit import Builder
from rewrite.engine.refused import RefusedError
from rewrite.graph.nodes import Refused
from rewrite.graph.outline import Enclosed, enclose
from rewrite.match.expr import Closure, compile_expr
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.values import is_graph_value
from rewrite.target.target import Target


@dataclass(frozen=True, slots=True)
class EmittedGroup:
    """The `group` of one rule, its attributes as functions of the match."""

    value: str
    name: str
    attributes: tuple[tuple[str, Closure], ...]

    @classmethod
    def of(cls, rule: CompiledRule) -> EmittedGroup | None:
        """None where the rule emits no group."""
        group = rule.group
        if group is None or not rule.emit:
            return None
        attributes = tuple((a.name, compile_expr(a.value)) for a in group.attributes)
        return cls(group.value, group.name, attributes)

    def enclose(
        self,
        match: Match,
        builder: Builder,
        pairs: list[tuple[ir.Value, ir.Value]],
        target: Target,
    ) -> Enclosed:
        """Changes the nodes of the builder and the new value in `pairs`."""
        if not target.groups:
            raise RefusedError(f"target {target.name} takes no groups")
        root = match.env[self.value]
        place = next(i for i, (old, _) in enumerate(pairs) if old is root)
        output = pairs[place][1]
        nodes = _makers(output, builder.nodes)
        if not nodes:
            raise RefusedError(f"nothing is computed for '{self.value}': there is no group")
        if any(new is not output and new.producer() in nodes for _, new in pairs):
            raise RefusedError("a value inside of the group is used outside of it")
        made = enclose(
            builder.facts,
            builder.graph,
            nodes,
            output,
            target.domain,
            self.name,
            self._attributes(builder),
            match.rule.name,
            match.nodes,
        )
        if isinstance(made, Refused):
            raise RefusedError(made.reason)
        inside = frozenset(nodes)
        builder.nodes = [*(n for n in builder.nodes if n not in inside), made.call]
        new = made.call.outputs[0]
        pairs[:] = [(old, new if value is output else value) for old, value in pairs]
        return made

    def _attributes(self, builder: Builder) -> list[ir.Attr]:
        found: list[ir.Attr] = []
        for name, compute in self.attributes:
            value = compute(builder.env)
            if is_graph_value(value):
                value = builder.env.tensor(value)
            if value is not None:
                found.append(free(name, value))
        return found


def _makers(output: ir.Value, nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """The new nodes that a value is made of, operands first as they were built."""
    needed = {output}
    found: list[ir.Node] = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            found.append(node)
            needed.update(value for value in node.inputs if value is not None)
    return found[::-1]
