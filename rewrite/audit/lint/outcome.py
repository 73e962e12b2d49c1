"""What becomes of a model, whichever rule goes first.

In: a `Meeting`. Out: the `Outcome`s: the graph after one rule was applied at its anchor and then
all rules to the fixpoint, in a form in which equal graphs are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
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

_LIMITS = Limits(applications=2_000, seconds=20.0)
_CLOSE = 1e-3  # relative: constants that were computed in another order


@dataclass(frozen=True, slots=True)
class Outcome:
    """`structure`: the outputs as terms. `constants`: those of the terms, in that order."""

    structure: tuple[object, ...]
    constants: tuple[np.ndarray, ...] = field(repr=False)
    operators: tuple[str, ...]

    def same(self, other: Outcome) -> bool:
        """Whether both are one graph, constants apart that were rounded in another order."""
        if self.structure != other.structure:
            return False
        pairs = zip(self.constants, other.constants, strict=True)
        return all(_close(a, b) for a, b in pairs)


def outcomes(meeting: Meeting) -> tuple[Outcome, Outcome] | None:
    """With the first rule first, and with the second; None where one of them is refused."""
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
        driver.run(again, meeting.matcher, meeting.target, _LIMITS)
    except (RefusedError, RewriteError):
        return None
    return outcome(again)


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
    return Outcome(terms, tuple(writer.constants), tuple(sorted(n.op_type for n in nodes)))


@dataclass
class _Writer:
    loaded: LoadedModel
    constants: list[np.ndarray] = field(default_factory=list)
    _known: dict[ir.Value, int] = field(default_factory=dict)

    def term(self, value: ir.Value | None) -> object:
        if value is None:
            return None
        array = self.loaded.facts.array(value)
        if array is not None:
            self.constants.append(array)
            return (str(array.dtype), array.shape)
        node = value.producer()
        if node is None:
            return str(value.name)
        if value in self._known:
            return self._known[value]
        self._known[value] = len(self._known)
        operands = tuple(self.term(v) for v in self._operands(node))
        return (node.domain, node.op_type, value.index(), operands, tuple(_attributes(node)))

    def _operands(self, node: ir.Node) -> Sequence[ir.Value | None]:
        return self.loaded.facts.operands(node)


def _attributes(node: ir.Node) -> Iterator[tuple[str, str]]:
    for name, attribute in sorted(node.attributes.items()):
        value = attribute.value
        text = f"{value:.4g}" if isinstance(value, float) else str(value)
        yield name, text


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype.kind not in "fc" or one.size == 0:
        return bool(np.array_equal(one, other))
    scale = float(np.nanmax(np.abs(one.astype(np.float64)), initial=0.0))
    return bool(np.allclose(one, other, rtol=_CLOSE, atol=_CLOSE * scale, equal_nan=True))
