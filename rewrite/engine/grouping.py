"""The `group` phase: matched nodes become calls of local functions in the target's domain.

In: the graph at its fixpoint. Out: groups in the journal. Anchors are looked at from the last node
to the first, so that of two groups that overlap the longer chain, which ends later, is made. Rules
that emit what they group are applied as in other phases.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from rewrite.engine.journal import Grouped, Log, Refused
from rewrite.engine.ledger import EXACT
from rewrite.engine.quantized_drift import Drift
from rewrite.graph.facts import Facts
from rewrite.graph.outline import Enclosed, Outlined, outline
from rewrite.graph.uses import nodes_of
from rewrite.lang.vocabulary import PHASES
from rewrite.match.matcher import Matcher
from rewrite.match.rule import Match
from rewrite.target.target import Target

GROUP = PHASES[-1]

# Phase, anchor, match: applied, or refused in the journal.
Attempt = Callable[[str, ir.Node, Match], bool]


def group_bodies(facts: Facts, target: Target) -> set[ir.Graph]:
    """The bodies of groups that an earlier run made for this target."""
    functions = facts.model.functions.values()
    return {f.graph for f in functions if f.domain == target.domain}


def emitted(group: Enclosed, rule: str, graph: str) -> Grouped:
    """The record of a group that a rule emitted."""
    name, node = group.function.name, str(group.call.outputs[0].name)
    operators = tuple([inside.op_type for inside in group.nodes])
    return Grouped(name, rule, graph, node, operators, emitted=True)


class Grouper:
    """Makes the groups of one model, where the target allows local functions."""

    def __init__(
        self,
        facts: Facts,
        matcher: Matcher,
        target: Target,
        log: Log,
        attempt: Attempt,
        drift: Drift,
    ) -> None:
        self.facts = facts
        self.matcher = matcher
        self.target = target
        self.log = log
        self.attempt = attempt
        self.drift = drift

    def run(self) -> None:
        rules = self.matcher.rules(GROUP)
        if not rules or not self.target.groups:
            return
        anchors = frozenset(a for rule in rules for a in rule.anchors)
        made = group_bodies(self.facts, self.target)
        for graph in self.facts.graphs():
            if self.facts.root(graph) in made:
                continue
            for node in reversed(nodes_of(graph)):
                if node._graph is graph and (node._domain, node._op_type) in anchors:
                    self._visit(graph, node)

    def _visit(self, graph: ir.Graph, node: ir.Node) -> None:
        anchor = str(node.outputs[0].name)
        match = self.matcher.match(GROUP, node, self.facts)
        while match is not None:
            if match.rule.emit:
                if self.attempt(GROUP, node, match):
                    return
                match = self.matcher.match(GROUP, node, self.facts, match.rule)
                continue
            made = self._outline(graph, match)
            if isinstance(made, Outlined):
                return
            name = match.rule.name
            self.log.refuse(Refused(name, GROUP, str(graph.name or ""), anchor, made))
            match = self.matcher.match(GROUP, node, self.facts, match.rule)

    def _outline(self, graph: ir.Graph, match: Match) -> Outlined | str:
        rule = match.rule
        group = rule.group
        assert group is not None  # the rule emits nothing
        root = match.env[group.value]
        assert isinstance(root, ir.Value)
        leaving = self.drift.leaving(match.nodes, (root,))
        names = {node: str(node.outputs[0].name) for node in match.nodes}
        made = outline(
            self.facts, graph, match.nodes, (root,), self.target.domain, group.name, rule.name
        )
        if not isinstance(made, Outlined):
            return made.reason
        self.drift.settle(leaving, made.call.outputs, rule.name, EXACT)
        # Runtimes inline functions: what a body calls has to be known to the model as well.
        self.facts.model.graph.opset_imports.setdefault(self.target.domain, 1)
        name, node = made.function.name, str(made.call.outputs[0].name)
        operators = tuple([inside.op_type for inside in made.nodes])
        members = tuple([names[inside] for inside in made.nodes])
        self.log.groups.append(
            Grouped(name, rule.name, str(graph.name or ""), node, operators, members=members)
        )
        return made
