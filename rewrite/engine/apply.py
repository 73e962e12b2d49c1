"""One application of one rule, as a transaction.

In: a `Match` and the model's `Facts`. Out: the graph rewritten (`Done`), or the graph exactly as
it was and the reason (`RefusedError`). Build the new nodes; show the obligation of every root;
enclose them in a function where the rule says so; replace; remove what is then unused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import onnx_ir as ir

from rewrite.engine.emit import Builder, Statement, compile_emit
from rewrite.engine.emitted_group import EmittedGroup
from rewrite.engine.obligation import unmet
from rewrite.engine.refused import RefusedError
from rewrite.engine.sizes import merged
from rewrite.graph import edit
from rewrite.graph.facts import Facts
from rewrite.graph.outline import Enclosed
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.values import Unknown, is_graph_value
from rewrite.target.target import Target

# Called with the new nodes after all checks and before the graph is touched; may refuse.
Approve = Callable[[Sequence[ir.Node]], None]


@dataclass(frozen=True, slots=True)
class Done:
    """What an application made and what went with it."""

    added: tuple[ir.Node, ...]
    removed: tuple[ir.Node, ...]
    roots: tuple[ir.Value, ...]  # the new values
    nbytes: int  # of the constants made
    group: Enclosed | None = None
    renamed: tuple[tuple[str, str], ...] = ()  # see journal.Applied


@dataclass(slots=True)
class Applier:
    """Applies matches to the model of `facts`."""

    facts: Facts
    target: Target
    _groups: dict[CompiledRule, EmittedGroup | None] = field(default_factory=dict)
    _compiled: dict[CompiledRule, tuple[Statement, ...]] = field(default_factory=dict)

    def apply(self, match: Match, approve: Approve) -> Done:
        graph = match.nodes[0].graph
        if graph is None:
            raise RefusedError("the match is no longer in a graph")
        builder = Builder(self.facts, graph, match.scope, match.rule.name)
        try:
            builder.run(self._statements(match.rule))
            pairs = self._roots(match, builder)
            reason = unmet(self.facts, match.nodes, pairs, builder.nodes)
            if reason is not None:
                raise RefusedError(reason)
            self._share_types(pairs)
            enclosed = self._enclosed(match, builder, pairs)
            approve(builder.nodes)
            names = [new.name for _, new in pairs]
            done = edit.replace(self.facts, graph, pairs, builder.nodes, match.nodes)
            if isinstance(done, edit.Refused):
                raise RefusedError(done.reason)
        except Unknown as unknown:
            edit.discard(builder.nodes)
            raise RefusedError(unknown.reason) from unknown
        except RefusedError:
            edit.discard(builder.nodes)
            raise
        if enclosed is not None:
            enclosed.keep(self.facts)
        removed = done.finish()
        roots = tuple(new for _, new in pairs)
        renamed = _renamed(names, roots, done.new_nodes)
        return Done(done.new_nodes, removed, roots, builder.nbytes, enclosed, renamed)

    def _enclosed(
        self, match: Match, builder: Builder, pairs: list[tuple[ir.Value, ir.Value]]
    ) -> Enclosed | None:
        """The group of the rule, its call in place of its nodes and of the value that it gives."""
        rule = match.rule
        if rule not in self._groups:
            self._groups[rule] = EmittedGroup.of(rule)
        group = self._groups[rule]
        return None if group is None else group.enclose(match, builder, pairs, self.target)

    def _share_types(self, pairs: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """What was known about a root is true of what replaces it: their types are equal."""
        for old, new in pairs:
            before, after = self.facts.type(old), self.facts.type(new)
            if before != after:
                self.facts.set_type(new, merged(before, after))

    def _statements(self, rule: CompiledRule) -> tuple[Statement, ...]:
        found = self._compiled.get(rule)
        if found is None:
            found = self._compiled[rule] = compile_emit(rule.emit)
        return found

    def _roots(self, match: Match, builder: Builder) -> list[tuple[ir.Value, ir.Value]]:
        """Each root with its new value; the roots of a list one by one."""
        pairs: list[tuple[ir.Value, ir.Value]] = []
        for name in match.rule.roots:
            old, new = match.env[name], builder.results[name]
            if not isinstance(old, tuple):
                pairs.append(self._pair(builder, name, old, new))
                continue
            if not isinstance(new, tuple) or len(new) != len(old):
                raise RefusedError(f"'{name}' has {len(old)} values, its replacement has not")
            pairs += [self._pair(builder, name, a, b) for a, b in zip(old, new, strict=True)]
        return pairs

    def _pair(
        self, builder: Builder, name: str, old: object, new: object
    ) -> tuple[ir.Value, ir.Value]:
        """A root and its new value; a computed constant becomes one of the root's type."""
        root = cast(ir.Value, old)
        if new is None:
            raise RefusedError(f"'{name}' would be replaced by an absent operand")
        if new is root:
            raise RefusedError(f"'{name}' would be replaced by itself")
        if not is_graph_value(new):
            new = builder.constant(new, self.facts.type(root).dtype, name)
        return root, new


def _renamed(
    names: Sequence[str | None], roots: Sequence[ir.Value], made: Sequence[ir.Node]
) -> tuple[tuple[str, str], ...]:
    """Values that nodes computed before and that took the name of a root: `names` were theirs."""
    if all(root._name == name for root, name in zip(roots, names, strict=True)):
        return ()
    return tuple(
        (str(name), str(root.name))
        for root, name in zip(roots, names, strict=True)
        if root.name != name and root._producer is not None and root._producer not in made
    )
