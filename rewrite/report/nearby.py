"""Near misses: rules that did not apply, and the one test that kept each from it.

In: the rewritten model, its matcher and target. Out: `Nearby`. A rule is asked at a number of nodes
that it may be anchored at; what counts is a node where exactly one test does not hold. All that is
bounded in steps, so that the same model gives the same page; the bound in time is for rules that
are slow beyond measure.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from rewrite.audit.explain.words import would
from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of
from rewrite.lang.vocabulary import PHASES
from rewrite.match.matcher import Matcher
from rewrite.match.near import Near, Violation, near
from rewrite.match.rule import CompiledRule
from rewrite.target.target import Target

MOST_ANCHORS = 32  # nodes that one rule is asked at
MOST_ASKED = 6000  # pairs of a rule and a node
MOST_RULES = 12  # of a phase, those with the largest matched part first
_SECONDS = 10.0  # of this process: what else the machine does changes nothing
# Codes of parts of a pattern that are nothing like what is there.
_PARTS = frozenset(
    {"operator", "output", "graph", "operands", "absent", "bag", "chain", "siblings"}
)
_SETS = 2  # of violations that an anchor is told about; the first counts


@dataclass(slots=True)
class Reason:
    """A test that did not hold, and the nodes where it was the only one."""

    code: str
    would: str  # what would have to be different, as told at the first node
    nodes: list[ir.Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NearRule:
    """`matched`: how many nodes of the pattern were found, at most."""

    rule: CompiledRule
    matched: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Nearby:
    """`cut`: what was not looked at, in words; "" where all was."""

    rules: tuple[NearRule, ...]
    cut: str


def nearby(facts: Facts, matcher: Matcher, target: Target) -> Nearby:
    """The rules of each phase that come closest to matching somewhere."""
    anchors = _anchors(facts)
    end = time.process_time() + _SECONDS
    found: list[NearRule] = []
    asked, cut = 0, ""
    for phase in PHASES:
        close = []
        for rule in matcher.rules(phase):
            nodes = [n for a in sorted(rule.anchors) for n in anchors.get(a, ())][:MOST_ANCHORS]
            if asked + len(nodes) > MOST_ASKED:
                cut = f"Cut after {asked} pairs of a rule and a node."
                break
            if time.process_time() > end:
                cut = f"Cut after {_SECONDS:.0f} seconds."
                break
            asked += len(nodes)
            one = _near_rule(rule, nodes, facts, target)
            if one is not None:
                close.append(one)
        close.sort(key=lambda one: (-one.matched, -sum(len(r.nodes) for r in one.reasons)))
        found += close[:MOST_RULES]
    return Nearby(tuple(found), cut)


def _anchors(facts: Facts) -> dict[tuple[str, str], list[ir.Node]]:
    """Nodes of the graph and its subgraphs by operator; kernels are left as they are."""
    found: dict[tuple[str, str], list[ir.Node]] = {}
    main = facts.model.graph
    for graph in facts.graphs():
        if facts.root(graph) is main:
            for node in nodes_of(graph):
                found.setdefault((node.domain, node.op_type), []).append(node)
    return found


def _near_rule(
    rule: CompiledRule, nodes: Iterable[ir.Node], facts: Facts, target: Target
) -> NearRule | None:
    reasons: dict[str, Reason] = {}
    matched = 0
    with np.errstate(all="ignore"):
        for node, one in _single(rule, nodes, facts, target):
            violation: Violation = one.violations[0]
            reason = reasons.get(violation.key)
            if reason is None:
                reason = Reason(violation.code, would(rule, one, violation))
                reasons[violation.key] = reason
            reason.nodes.append(node)
            matched = max(matched, len(one.nodes))
    if not reasons:
        return None
    ordered = sorted(reasons.values(), key=lambda reason: -len(reason.nodes))
    return NearRule(rule, matched, tuple(ordered))


def _single(
    rule: CompiledRule, nodes: Iterable[ir.Node], facts: Facts, target: Target
) -> Iterator[tuple[ir.Node, Near]]:
    """Where one test is missing. A single node without the operators around it is not near."""
    for node in nodes:
        for one in near(rule, node, facts, target, 1, _SETS)[:1]:
            if len(one.violations) != 1:
                continue
            if one.violations[0].code not in _PARTS or len(one.nodes) > 1:
                yield node, one
