"""Rules that can touch, and models on which they do.

In: a pack with its rules compiled. Out: `Touching`: for two rules the `Place`s where a node is in a
match of both, or one rule makes a node that the other one then matches.

Places are examples and models that are put together of two (`rewrite.audit.lint.witness`), examples
whose result another rule matches, and models in which a node of one example is computed as in
another one, whatever its sizes, typed anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import onnx

from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.draft import Draft
from rewrite.audit.lint import graft
from rewrite.audit.lint.subject import Subject
from rewrite.audit.lint.witness import Found, Witness, matches_in, overlapping, places_of
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.lang import ast
from rewrite.lang.kinds import MAKES_NODES
from rewrite.lang.vocabulary import PHASES
from rewrite.match.form import Op, Operator
from rewrite.match.matcher import Entry, Matcher, compile_pack
from rewrite.match.rule import CompiledRule
from rewrite.schema import DOMAINS
from rewrite.target.target import Target

MOST_MODELS = 2  # for one pair
_MOST_TRIALS = 6  # to put a model together for one pair


@dataclass(frozen=True, slots=True)
class Place:
    """A model on which two rules touch. `made`: it was put together of two examples, whose scales
    need not belong together."""

    label: str
    model: onnx.ModelProto
    target: Target
    made: bool = False


@dataclass
class Touching:
    """`entries`, `rules`: by name in the order of the text, `over` left out: each may go first."""

    subject: Subject
    entries: Mapping[str, Entry]
    rules: Mapping[str, ast.Rule]
    places: dict[tuple[str, str], list[Place]] = field(default_factory=dict)

    @classmethod
    def of(cls, subject: Subject) -> Touching:
        entries = {entry.rule.name: entry for entry in compile_pack(subject.pack)}
        rules = {rule.name: replace(rule, over=()) for rule in subject.pack.rules}
        return cls(subject, entries, rules)

    def is_own(self, *names: str) -> bool:
        """Whether one of the rules is written in the pack itself."""
        return any(name in self.subject.written for name in names)

    def pair(self, one: str, other: str) -> tuple[str, str]:
        """Two names in the order of the text."""
        order = list(self.rules)
        first, second = sorted((one, other), key=order.index)
        return first, second

    def add(self, one: str, other: str, place: Place) -> None:
        kept = self.places.setdefault(self.pair(one, other), [])
        if len(kept) < MOST_MODELS:
            kept.append(place)

    def find(self, end: float) -> bool:
        """Fill `places`; False where the processor time said `end` first."""
        for (one, other), meetings in self.subject.meetings.pairs.items():
            for meeting in meetings:
                model = meeting.witness.model
                if model is not None:
                    made = meeting.witness.example is None
                    label = meeting.witness.label
                    self.add(one, other, Place(label, model, meeting.target, made))
        return _followed(self, end) and _glued(self, end)

    def alone(self, name: str, target: Target) -> Alone:
        entry = self.entries[name]
        return Alone(self.rules[name], entry.rule, Matcher((entry,), target), target)


# --- which pairs -------------------------------------------------------------------------------


def touching(work: Touching) -> Iterator[tuple[str, str]]:
    """Pairs that share an operator: both look for it, or one makes it and the other looks."""
    looked = {name: _looked_for(entry.rule) for name, entry in work.entries.items()}
    made = {name: _made(work.rules[name], looked[name]) for name in looked}
    names = list(work.rules)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if not work.is_own(one, other):
                continue
            both = looked[one] & looked[other] and _phase(work, one) == _phase(work, other)
            if both or made[one] & looked[other] or made[other] & looked[one]:
                yield one, other


def _phase(work: Touching, name: str) -> str:
    return work.entries[name].rule.phase


def _looked_for(rule: CompiledRule) -> frozenset[Operator]:
    found = (x.operators for x in rule.pattern.forms if isinstance(x, Op))
    return frozenset(rule.anchors).union(*found)


def _made(rule: ast.Rule, looked: frozenset[Operator]) -> frozenset[Operator]:
    found: set[Operator] = set()
    stack: list[object] = [s.value for s in rule.emit]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.OpExpr):
            again = part.op.prefix == "@"  # one of those matched
            found |= looked if again else {(DOMAINS.get(part.op.prefix, ""), part.op.name)}
            stack += part.operands
        elif isinstance(part, ast.Case):
            stack += [arm.value for arm in part.arms]
        elif isinstance(part, ast.Binary):
            stack += [part.left, part.right]
            if part.operator in MAKES_NODES:
                found.add(("", MAKES_NODES[part.operator]))
        elif isinstance(part, ast.Unary):
            stack.append(part.operand)
            found.add(("", "Neg"))
    return frozenset(found)


def _followed(work: Touching, end: float) -> bool:
    """Rules that match what another one made of its example; False where time was over."""
    for target, matcher in work.subject.matchers:
        for witness in work.subject.witnesses:
            if time.process_time() >= end:
                return False
            if not witness.fires or witness.model is None:
                continue
            applied = work.alone(witness.rule, target).apply(witness.model)
            if applied is None or applied.after is None:
                continue
            there = {output for node in witness.model.graph.node for output in node.output}
            for found in _matches(applied.after, matcher):
                other = found.match.rule.name
                own = work.is_own(other, witness.rule)
                if other != witness.rule and own and _takes_made(found, there, applied.after):
                    place = Place(f"{witness.label}, then", witness.model, target)
                    work.add(witness.rule, other, place)
    return True


def _matches(model: onnx.ModelProto, matcher: Matcher) -> Iterator[Found]:
    try:
        loaded = io.load(model)
    except RewriteError:
        return
    for phase in PHASES:
        yield from matches_in(loaded, matcher, phase)


def _takes_made(found: Found, there: set[str], after: onnx.ModelProto) -> bool:
    """Whether a node of the match was not in the model before, or is an output made anew."""
    outputs = {value.name for value in after.graph.output}
    names = [str(v.name) for node in found.match.nodes for v in node.outputs]
    return any(name not in there or name in outputs for name in names)


# --- models put together -----------------------------------------------------------------------


def _glued(work: Touching, end: float) -> bool:
    """For pairs without a model: a node of one example computed as in the other one.

    False where time was over.
    """
    for target, matcher in work.subject.matchers:
        places = [p for w in work.subject.witnesses if w.fires for p in _nodes(w, matcher)]
        trials: Counter[tuple[str, str]] = Counter()
        for upper, lower in graft.stacked(places):
            if time.process_time() >= end:
                return False
            pair = work.pair(upper.rule, lower.rule)
            if not work.is_own(*pair) or pair in work.places:
                continue
            if upper.type.dtype != lower.type.dtype or trials[pair] >= _MOST_TRIALS:
                continue
            trials[pair] += 1
            model = _together(upper, lower)
            if model is not None and _both_match(work, model, target, pair):
                label = f"{upper.label}, on {lower.label}"
                work.add(*pair, Place(label, model, target, made=True))
    return True


def _nodes(witness: Witness, matcher: Matcher) -> list[graft.Place]:
    """The nodes of the match of an example's own rule."""
    loaded = witness.load()
    if loaded is None:
        return []
    found = (f for phase in PHASES for f in matches_in(loaded, matcher, phase))
    mine = next((f for f in found if f.match.rule.name == witness.rule), None)
    return [] if mine is None else places_of(mine, witness, loaded)


def _together(upper: graft.Place, lower: graft.Place) -> onnx.ModelProto | None:
    """The upper model on the lower one, whatever the sizes; None where that is no valid model."""
    alike = replace(lower, types={**lower.types, lower.output: upper.type})
    model = graft.graft(upper, alike)
    return None if model is None else Draft(model).finish()


def _both_match(
    work: Touching, model: onnx.ModelProto, target: Target, pair: tuple[str, str]
) -> bool:
    """Whether the two rules match with a node in common."""
    matcher = Matcher(tuple(work.entries[name] for name in pair), target)
    return any(True for _ in overlapping(list(_matches(model, matcher))))
