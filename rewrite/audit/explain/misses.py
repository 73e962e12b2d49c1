"""Near misses: rules at nodes, with the smallest sets of what would have to be different.

In: a `Story`, a rule, a node. Out: `Miss` and `Grouped` records, nearest first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.audit.explain.story import State, Story
from rewrite.audit.explain.words import node_words, would
from rewrite.errors import Span
from rewrite.graph.uses import uses_of
from rewrite.match import interpreter
from rewrite.match.near import Near, near
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.structure import operator_words

MOST_ANCHORS = 64  # that one node may be part of a match at
FAR = 6  # violations that are looked for where one node is asked about


@dataclass(frozen=True, slots=True)
class Reason:
    """One fact that would have to change. `would`: what it would have to be, in words."""

    code: str
    key: str
    reason: str
    would: str
    subject: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class Miss:
    """A rule at an anchor. No reasons: it matches there.

    `matched`: the operators of the pattern that were found; `size`: how many it has.
    `others`: further sets of reasons of the same size.
    """

    rule: str
    anchor: str
    node: str
    state: str
    reasons: tuple[Reason, ...]
    matched: tuple[str, ...]
    size: int
    others: tuple[tuple[Reason, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Grouped:
    """Near misses of one rule that have the same reasons."""

    miss: Miss
    nodes: tuple[str, ...]


def at_node(story: Story, rule: CompiledRule, node: ir.Node, state: State, most: int = FAR) -> Miss:
    """The rule at the anchor at which the node comes closest to being part of a match."""
    best: Miss | None = None
    for anchor in anchors_below(rule, node):
        found = near(rule, anchor, state.facts, story.target, most)
        inside = [one for one in found if anchor is node or node in one.nodes]
        if not inside:
            continue
        miss = _miss(story, rule, anchor, state, inside)
        if best is None or _distance(miss) < _distance(best):
            best = miss
        if not best.reasons:
            break
    return best if best is not None else _far(story, rule, node, state)


def of_rule(
    story: Story, rule: CompiledRule, state: State, most: int, seconds: float
) -> tuple[tuple[Grouped, ...], bool]:
    """Near misses of a rule in the whole model by reason; whether time ended it."""
    found: list[Miss] = []
    end = time.monotonic() + seconds
    for node in state.nodes():
        if (node.domain, node.op_type) not in rule.anchors:
            continue
        ways = near(rule, node, state.facts, story.target, most)
        if ways and 2 * len(ways[0].nodes) >= rule.size:
            found.append(_miss(story, rule, node, state, ways))
        if time.monotonic() > end:
            return grouped(found), True
    return grouped(found), False


def of_node(story: Story, node: ir.Node, state: State, most: int) -> tuple[Miss, ...]:
    """What every rule says about a node, the nearest first.

    A rule of whose operators less than half are there says nothing.
    """
    found = [at_node(story, rule, node, state, most) for rule in story.rules]
    near_enough = [miss for miss in found if 2 * len(miss.matched) >= miss.size]
    return tuple(sorted(near_enough, key=_distance))


def grouped(misses: Iterable[Miss]) -> tuple[Grouped, ...]:
    """Misses with the same tests violated by the same kind of reason, most frequent first."""
    groups: dict[tuple[tuple[str, str], ...], list[Miss]] = {}
    for miss in misses:
        groups.setdefault(tuple((r.code, r.key) for r in miss.reasons), []).append(miss)
    found = [Grouped(group[0], tuple(m.node for m in group)) for group in groups.values()]
    return tuple(sorted(found, key=lambda g: (_distance(g.miss)[0], -len(g.nodes))))


def anchors_below(rule: CompiledRule, node: ir.Node) -> Iterator[ir.Node]:
    """The node and those behind it at which the rule may be anchored and look as far as here.

    A rule that goes from a value to its other users may be anchored beside the node, too.
    """
    seen: dict[ir.Node, None] = {node: None}
    level, count = [node], 0
    if rule.sideways:
        level += [n for value in node.inputs if value is not None for n in _users(value)]
        seen.update(dict.fromkeys(level))
    for _ in range(rule.radius + 1):
        following: list[ir.Node] = []
        for one in level:
            if (one.domain, one.op_type) in rule.anchors:
                yield one
                count += 1
                if count == MOST_ANCHORS:
                    return
            users = (user for value in one.outputs for user in _users(value))
            following += [user for user in users if user not in seen]
            seen.update(dict.fromkeys(following))
        level = list(dict.fromkeys(following))


def _users(value: ir.Value) -> list[ir.Node]:
    return [use.node for use in uses_of(value)]


def _miss(
    story: Story, rule: CompiledRule, anchor: ir.Node, state: State, ways: Sequence[Near]
) -> Miss:
    first, *others = ways
    reasons = _reasons(rule, first)
    if not reasons:
        refusals = story.refusals(rule.name, anchor)
        if refusals and state is story.after:
            told = "; ".join(refusals)
            span = rule.rule.span
            reasons = (Reason("refused", "", told, f"it were not refused: {told}", "", span),)
    return Miss(
        rule=rule.name,
        anchor=node_words(anchor),
        node=str(anchor.outputs[0].name),
        state=state.name,
        reasons=reasons,
        matched=tuple(map(node_words, first.nodes)),
        size=rule.size,
        others=tuple(_reasons(rule, other) for other in others),
    )


def _reasons(rule: CompiledRule, way: Near) -> tuple[Reason, ...]:
    return tuple(
        Reason(v.code, v.key, v.reason, would(rule, way, v), v.subject, v.span)
        for v in way.violations
    )


def _far(story: Story, rule: CompiledRule, node: ir.Node, state: State) -> Miss:
    """The furthest attempt, where no small set of facts makes the difference."""
    anchor = next(iter(anchors_below(rule, node)), node)
    found = interpreter.match(rule, anchor, state.facts, story.target)
    matched: tuple[str, ...] = ()
    if isinstance(found, Match):
        text = f"it matches at {node_words(anchor)}, without this node"
        wanted = "it were part of the pattern"
        reason = Reason("operator", "", text, wanted, node_words(node), rule.rule.span)
        matched = tuple(map(node_words, found.nodes))
    elif found.code == "operator" and not found.matched:
        ends = " or ".join(sorted(operator_words(o) for o in rule.anchors)[:3])
        wanted = f"it were part of a match that ends in {ends}"
        reason = Reason("operator", "", found.reason, wanted, found.subject, found.span)
    else:
        reason = Reason("far", "", found.reason, "", found.subject, found.span)
    return Miss(
        rule=rule.name,
        anchor=node_words(anchor),
        node=str(anchor.outputs[0].name),
        state=state.name,
        reasons=(reason,),
        matched=matched,
        size=rule.size,
    )


def _distance(miss: Miss) -> tuple[int, int]:
    """Fewer reasons are nearer; then more operators found."""
    return len(miss.reasons), -len(miss.matched)
