"""What becomes of a model, whichever rule goes first.

In: a `Meeting`. Out: the `Outcome`s: the graph after one rule was applied at its anchor and then
all rules to the fixpoint, in a form in which equal graphs are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.audit.lint.witness import Meeting
from rewrite.engine import driver
from rewrite.engine.apply import Applier
from rewrite.engine.limits import Limits
from rewrite.engine.refused import RefusedError
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.model import LoadedModel
from rewrite.graph.uses import nodes_of
from rewrite.match.rule import Match
from rewrite.ops import registry as operators

_LIMITS = Limits(applications=2_000, seconds=20.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`structure`: the outputs as terms, the numbers of float constants apart: rounding in another
    order, or a factor in one weight instead of another one, makes no other graph.
    """

    structure: tuple[object, ...]
    operators: tuple[str, ...]


def outcomes(meeting: Meeting) -> tuple[Outcome, Outcome] | None:
    """With the first rule first, and with the second; None where one of them is refused, or where
    the rules do not come to an end."""
    found = [_after(meeting, which) for which in (0, 1)]
    first, second = found
    return None if first is None or second is None else (first, second)


def _after(meeting: Meeting, which: int) -> Outcome | None:
    loaded = meeting.witness.load()
    match = None if loaded is None else _match(loaded, meeting, which)
    if loaded is None or match is None:
        return None
    try:
        Applier(loaded.facts, meeting.target).apply(match, lambda _: None)
        again = io.load(io.to_proto(loaded))
        journal = driver.run(again, meeting.matcher, meeting.target, _LIMITS)
    except (RefusedError, RewriteError):
        return None
    return None if journal.stop.reason.startswith("limit") else outcome(again)


def _match(loaded: LoadedModel, meeting: Meeting, which: int) -> Match | None:
    for graph in loaded.facts.graphs():
        for node in nodes_of(graph):
            if node.outputs[0].name != meeting.anchors[which]:
                continue
            match = meeting.matcher.match(meeting.phase, node, loaded.facts)
            while match is not None and match.rule.name != meeting.rules[which]:
                match = meeting.matcher.match(meeting.phase, node, loaded.facts, match.rule)
            if match is not None:
                return match
    return None


def outcome(loaded: LoadedModel) -> Outcome:
    """The main graph: each output as a term, values that are used twice named by a number."""
    writer = _Writer(loaded)
    terms = tuple(writer.term(value) for value in loaded.model.graph.outputs)
    nodes = nodes_of(loaded.model.graph)
    return Outcome(terms, tuple(sorted(n.op_type for n in nodes)))


@dataclass
class _Writer:
    loaded: LoadedModel
    commutative: frozenset[tuple[str, str]] = field(default_factory=operators.commutative)
    _known: dict[ir.Value, int] = field(default_factory=dict)

    def term(self, value: ir.Value | None) -> object:
        if value is None:
            return None
        array = self.loaded.facts.array(value)
        if array is not None:
            numbers = () if array.dtype.kind in "fc" else tuple(array.ravel().tolist())
            return (str(array.dtype), array.shape, numbers)
        node = value.producer()
        if node is None:
            return str(value.name)
        if value in self._known:
            return self._known[value]
        self._known[value] = len(self._known)
        operands = [self.term(v) for v in self.loaded.facts.operands(node)]
        if (node.domain, node.op_type) in self.commutative:
            operands.sort(key=str)
        attributes = tuple(_attributes(node))
        return (node.domain, node.op_type, value.index(), tuple(operands), attributes)


def _attributes(node: ir.Node) -> Iterator[tuple[str, str]]:
    for name, attribute in sorted(node.attributes.items()):
        value = attribute.value
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        yield name, text
