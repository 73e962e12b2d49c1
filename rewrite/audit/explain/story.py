"""A model before and after its rewriting, and what became of each node.

In: a model, a target, packs. Out: `Story`. The model is loaded twice: as it was, and rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.engine import driver
from rewrite.engine.completion import Completer
from rewrite.engine.grouping import group_bodies
from rewrite.engine.journal import Journal
from rewrite.engine.limits import Limits, Options
from rewrite.graph import collector, io
from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel
from rewrite.graph.uses import nodes_of
from rewrite.match.matcher import Matcher
from rewrite.match.rule import CompiledRule
from rewrite.target.target import Target


@dataclass(frozen=True, slots=True)
class Fate:
    """What happened to a node. `code` is a reason code; `by` the rule that took it."""

    code: str
    by: str = ""
    with_: tuple[str, ...] = ()  # nodes taken by the same application


@dataclass(frozen=True, slots=True)
class State:
    """A model at one time. `name`: `original` or `rewritten`."""

    name: str
    loaded: LoadedModel
    closed: frozenset[object] = frozenset()  # bodies of groups: no rule looks inside
    places: dict[str, ir.Node] = field(default_factory=dict)  # by name of node and of outputs

    @property
    def facts(self) -> Facts:
        return self.loaded.facts

    def nodes(self) -> Iterator[ir.Node]:
        for graph in self.facts.graphs():
            if graph not in self.closed:
                yield from nodes_of(graph)


@dataclass(frozen=True, slots=True)
class Story:
    """The model as it was, as it is after the rules of a target, and what they did."""

    target: Target
    rules: tuple[CompiledRule, ...]
    before: State
    after: State
    journal: Journal

    def rule(self, name: str) -> CompiledRule | None:
        return next((rule for rule in self.rules if rule.name == name), None)

    def fate(self, node: ir.Node) -> Fate | None:
        """What happened to a node of the model as it was; None where it is still there."""
        name = str(node.outputs[0].name)
        for applied in self.journal.applied:
            if name in applied.matched:
                return Fate("taken", applied.rule, _others(applied.matched, name))
        for group in self.journal.groups:
            if name in group.members:
                return Fate("taken", group.rule, _others(group.members, name))
        if any(name in folded.outputs for folded in self.journal.folded):
            return Fate("folded")
        here = self.after.places.get(name)
        if here is None or here.op_type != node.op_type:
            return Fate("removed")
        return None

    def refusals(self, rule: str, node: ir.Node) -> tuple[str, ...]:
        """Why the engine refused to apply the rule at the node."""
        name = str(node.outputs[0].name)
        found = (r.reason for r in self.journal.refused if r.rule == rule and r.node == name)
        return tuple(dict.fromkeys(found))


def tell(
    model: io.Source,
    target: Target,
    matcher: Matcher,
    max_class: str,
    limits: Limits | None = None,
) -> Story:
    """Load the model, rewrite a second copy of it, and keep both."""
    with collector.paused():
        before, after = io.load(model), io.load(model)
        before.facts.complete = Completer(before.facts)
        options = Options(max_class=max_class)
        journal = driver.run(after, matcher, target, limits, options)
    rules = tuple(entry.rule for entry in matcher.entries)
    states = (_state("original", before, target), _state("rewritten", after, target))
    return Story(target, rules, *states, journal)


def _state(name: str, loaded: LoadedModel, target: Target) -> State:
    state = State(name, loaded, frozenset(group_bodies(loaded.facts, target)))
    for node in state.nodes():
        names = [node.name, *(value.name for value in node.outputs)]
        for word in names:
            if word:
                state.places.setdefault(word, node)
    return state


def _others(nodes: Sequence[str], name: str) -> tuple[str, ...]:
    return tuple(other for other in nodes if other != name)
