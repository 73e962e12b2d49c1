"""All rules of a pack, ready to be asked node by node.

In: a `RulePack`, a `Target`. Out: `Matcher`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.errors import error
from rewrite.graph.facts import Facts
from rewrite.lang.pack import RulePack
from rewrite.match import interpreter
from rewrite.match.form import Operator
from rewrite.match.pattern import compile_rule
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.vocabulary import vocabulary
from rewrite.target.target import Target

Index = Mapping[Operator, tuple[CompiledRule, ...]]


@dataclass(frozen=True)
class Matcher:
    """Rules by phase, in the order in which they are tried."""

    phases: Mapping[str, tuple[CompiledRule, ...]]
    target: Target | None
    _index: Mapping[str, Index] = field(repr=False)

    def rules(self, phase: str) -> tuple[CompiledRule, ...]:
        """The rules of a phase, in the order in which they are tried."""
        return self.phases.get(phase, ())

    def match(self, phase: str, node: ir.Node, facts: Facts) -> Match | None:
        """The first match of a rule of the phase with this anchor."""
        for rule in self._index[phase].get((node.domain, node.op_type), ()):
            found = interpreter.match(rule, node, facts, self.target)
            if isinstance(found, Match):
                return found
        return None


def build(pack: RulePack, target: Target | None = None) -> Matcher:
    """The matcher of a pack for a target."""
    known = vocabulary()
    rules = [compile_rule(rule, known, pack.opset) for rule in pack.rules]
    return assemble(rules, target)


def assemble(rules: Sequence[CompiledRule], target: Target | None) -> Matcher:
    """The matcher of rules given in the order of packs and text."""
    phases = {phase: order([r for r in rules if r.phase == phase]) for phase in vocabulary().phases}
    index = {phase: _index(phased) for phase, phased in phases.items()}
    return Matcher(phases, target, index)


def _index(rules: Sequence[CompiledRule]) -> Index:
    found: dict[Operator, list[CompiledRule]] = {}
    for rule in rules:
        for operator in sorted(rule.anchors):
            found.setdefault(operator, []).append(rule)
    return {operator: tuple(group) for operator, group in found.items()}


def order(rules: Sequence[CompiledRule]) -> tuple[CompiledRule, ...]:
    """`over` first, then more pattern nodes, then as given."""
    named = {rule.name: rule for rule in rules}
    by_size = sorted(rules, key=lambda r: -r.size)
    done: dict[str, CompiledRule] = {}
    above: dict[str, list[str]] = {rule.name: [] for rule in rules}
    for rule in by_size:
        for lower in rule.over:
            if lower in above:
                above[lower].append(rule.name)

    def place(rule: CompiledRule, path: tuple[str, ...]) -> None:
        if rule.name in done:
            return
        if rule.name in path:
            circle = " over ".join((*path[path.index(rule.name) :], rule.name))
            raise error("RW316", f"rules are ordered in a circle: {circle}", rule.rule.span)
        for upper in above[rule.name]:
            place(named[upper], (*path, rule.name))
        done[rule.name] = rule

    for rule in by_size:
        place(rule, ())
    return tuple(done.values())
