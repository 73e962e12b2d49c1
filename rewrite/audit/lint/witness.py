"""Models on which rules meet.

In: the examples of a pack, its matchers. Out: `Meetings`: for two rules of one phase, models in
which both match and have a node in common, at one anchor or at two. Where no example is such a
model, one is made of an example of each rule (`graft`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import parser

from rewrite.audit.examples import with_header
from rewrite.audit.lint.graft import Place, graft, pairs
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.graph.uses import nodes_of
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.lang.vocabulary import PHASES
from rewrite.match.matcher import Matcher
from rewrite.match.rule import Match
from rewrite.target.target import Target

MOST_WITNESSES = 3  # models kept for one pair at one anchor, and at two

# What ONNX's parser and checker raise too, where numbers are none or too large.
UNREADABLE = (RewriteError, ValueError, LookupError, RuntimeError, parser.ParseError)


@dataclass(frozen=True, slots=True, eq=False)
class Witness:
    """A model. `label` says where it comes from; `model` is None where the text is none.

    `example`: the one of `rule` that it is; None for a model that was made.
    """

    label: str
    rule: str
    example: ast.Example | None
    model: onnx.ModelProto | None

    @classmethod
    def of(cls, pack: RulePack, rule: ast.Rule, number: int, allowed: tuple[int, int]) -> Witness:
        """The example at a place, at the opset that it is run at."""
        example = rule.examples[number]
        low, high = allowed
        opset = max(low, min(pack.origins[rule.name].example_opset, high))
        label = f"{rule.name}: {'fires' if example.fires else 'rejects'}"
        try:
            model = parser.parse_model(with_header(example.text, opset))
        except UNREADABLE:
            model = None
        return cls(f"{label} {example.name or number + 1}", rule.name, example, model)

    @property
    def fires(self) -> bool:
        return self.example is not None and self.example.fires

    def load(self) -> LoadedModel | None:
        """None where it is no valid model; `rewrite test` says so."""
        try:
            return None if self.model is None else io.load(self.model)
        except UNREADABLE:
            return None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two rules match in one model: `anchors` are the outputs of the nodes they are anchored at."""

    rules: tuple[str, str]
    anchors: tuple[str, str]
    phase: str
    witness: Witness
    target: Target
    matcher: Matcher

    @property
    def same_anchor(self) -> bool:
        return self.anchors[0] == self.anchors[1]


@dataclass
class Meetings:
    """By pair of rules, the one that is tried first before the other."""

    pairs: dict[tuple[str, str], list[Meeting]] = field(default_factory=dict)

    def add(self, meeting: Meeting) -> None:
        kept = self.pairs.setdefault(meeting.rules, [])
        alike = sum(m.same_anchor == meeting.same_anchor for m in kept)
        if alike < MOST_WITNESSES:
            kept.append(meeting)


@dataclass(frozen=True, slots=True)
class Found:
    """A match, and the first output of the node that it is anchored at."""

    anchor: str
    match: Match


def find_meetings(
    witnesses: Sequence[Witness],
    matchers: Sequence[tuple[Target, Matcher]],
    own: frozenset[str],
) -> Meetings:
    """Of pairs with a rule among `own`: in examples, and in models made of two."""
    meetings = Meetings()
    for target, matcher in matchers:
        for phase in PHASES:
            if not matcher.rules(phase):
                continue
            places: list[Place] = []
            for witness in witnesses:
                places += _look(witness, target, matcher, phase, own, meetings)
            for upper, lower in pairs(places, own):
                model = graft(upper, lower)
                if model is not None:
                    made = Witness(f"{upper.label}, on {lower.label}", upper.rule, None, model)
                    _look(made, target, matcher, phase, own, meetings)
    return meetings


def _look(
    witness: Witness,
    target: Target,
    matcher: Matcher,
    phase: str,
    own: frozenset[str],
    meetings: Meetings,
) -> list[Place]:
    """Add what meets in one model; where its own rule matches, if it is an example that fires."""
    loaded = witness.load()
    if loaded is None:
        return []
    found = matches_in(loaded, matcher, phase)
    for one, other in overlapping(found):
        if not own.isdisjoint((one.match.rule.name, other.match.rule.name)):
            meetings.add(_meeting(one, other, witness, target, matcher))
    mine = next((f for f in found if f.match.rule.name == witness.rule), None)
    return [] if mine is None or not witness.fires else places_of(mine, witness, loaded)


def places_of(found: Found, witness: Witness, loaded: LoadedModel) -> list[Place]:
    """The nodes of a match in the model of an example."""
    facts = loaded.facts
    values = [v for n in nodes_of(loaded.model.graph) for v in (*n.inputs, *n.outputs)]
    types = {str(v.name): facts.type(v) for v in values if v is not None}
    matched = frozenset(str(node.outputs[0].name) for node in found.match.nodes)
    assert witness.model is not None
    return [
        Place(
            rule=witness.rule,
            label=witness.label,
            model=witness.model,
            output=str(node.outputs[0].name),
            operator=(node.domain, node.op_type),
            types=types,
            nodes=matched,
            anchor=found.anchor,
        )
        for node in found.match.nodes
        if str(node.outputs[0].name) in types
    ]


def matches_in(loaded: LoadedModel, matcher: Matcher, phase: str) -> list[Found]:
    """At each node the first match of each rule of the phase."""
    if not matcher.rules(phase):
        return []
    found: list[Found] = []
    for graph in loaded.facts.graphs():
        for node in nodes_of(graph):
            match = matcher.match(phase, node, loaded.facts)
            while match is not None:
                found.append(Found(str(node.outputs[0].name), match))
                match = matcher.match(phase, node, loaded.facts, match.rule)
    return found


def overlapping(found: Sequence[Found]) -> Iterator[tuple[Found, Found]]:
    """Two matches of two rules with a node in common."""
    for i, one in enumerate(found):
        inside = set(one.match.nodes)
        for other in found[i + 1 :]:
            different = other.match.rule is not one.match.rule
            if different and not inside.isdisjoint(other.match.nodes):
                yield one, other


def _meeting(
    one: Found, other: Found, witness: Witness, target: Target, matcher: Matcher
) -> Meeting:
    phase = one.match.rule.phase
    order = {rule.name: i for i, rule in enumerate(matcher.rules(phase))}
    first, second = sorted((one, other), key=lambda f: order[f.match.rule.name])
    rules = (first.match.rule.name, second.match.rule.name)
    return Meeting(rules, (first.anchor, second.anchor), phase, witness, target, matcher)
