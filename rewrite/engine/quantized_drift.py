"""Where in a model that is being rewritten codes may be off, and by how much.

In: each application: what it matched, what it made, what it promises. Out: errors at values of the
model as it is now; from there they go on through the graph (`quantized_walk`).

A rule that is exact to n steps may make the codes of its roots wrong by n. Where a later rule takes
the place of the nodes in which such an error lies, the error moves to that rule's roots, through
the old nodes. So the model as it is now, computed without errors but for these, is off from the
original by exactly these errors, whatever was rewritten how often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from rewrite.engine.journal import Drifted
from rewrite.engine.ledger import Bound
from rewrite.engine.quantized_walk import Source, Walk
from rewrite.graph.facts import Facts


class Drift:
    """Errors by the values at which they begin."""

    def __init__(self, facts: Facts, active: bool) -> None:
        self._facts = facts
        self._active = active
        self._sources: dict[ir.Value, Source] = {}

    def leaving(self, inside: Sequence[ir.Node], roots: Sequence[ir.Value]) -> tuple[Source, ...]:
        """What would be off at the roots because of errors among the nodes; before they go."""
        sources = self._sources
        if not sources or not any(v in sources for node in inside for v in node.outputs):
            return ()
        found = {v: sources[v] for node in inside for v in node.outputs if v in sources}
        walk = Walk(self._facts, found)
        walk.run(_sorted(inside))
        made = []
        for root in roots:
            reach = walk.errors.get(root)
            made.append(Source() if reach is None else _source(reach.error, reach.reason))
        return tuple(made)

    def settle(
        self, leaving: Sequence[Source], roots: Sequence[ir.Value], rule: str, bound: Bound
    ) -> None:
        """An application was made: `roots` are the new values."""
        if not self._active or not (leaving or bound.kind != "exact"):
            return
        for number, root in enumerate(roots):
            own = self._promised(root, rule, bound)
            self._add(root, leaving[number].with_(own) if number < len(leaving) else own)

    def merged(self, pairs: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """Of two equal values the second one stays: the larger error counts."""
        for old, new in pairs if self._sources else ():
            gone, kept = self._sources.get(old), self._sources.get(new, Source())
            if gone is not None:
                error = max(gone.error, kept.error)
                self._sources[new] = Source(error, gone.reason or kept.reason)

    def _promised(self, root: ir.Value, rule: str, bound: Bound) -> Source:
        if bound.kind == "exact" or (bound.kind == "lsb" and not bound.lsb):
            return Source()
        if bound.kind != "lsb":
            return Source(reason=f"rule {rule} is {bound}")
        exact = Walk(self._facts, {}).exact(root)
        unit = 1.0 if exact.integer else exact.unit
        if unit is None:
            return Source(reason=f"rule {rule} makes floats, which have no steps to count")
        return Source(unit * bound.lsb)

    def _add(self, value: ir.Value, source: Source) -> None:
        if source.error or source.reason:
            self._sources[value] = self._sources.get(value, Source()).with_(source)

    def final(self, folded: Sequence[str]) -> tuple[Drifted, ...]:
        """The errors of the finished model. `folded`: names of values that were computed."""
        main, found = self._facts.model.graph, []
        computed = frozenset(folded)
        for value, source in self._sources.items():
            node = value.producer()
            graph = value.graph if node is None else node.graph
            name = str(value.name)
            if graph is main:
                found.append(Drifted(name, source.error, source.reason))
            elif graph is not None:
                reason = source.reason or "a rule that is not exact was applied in an inner graph"
                found.append(Drifted("", 0.0, reason))
            elif name in computed:
                found.append(Drifted("", 0.0, f"'{name}', which may be off, was computed"))
        return tuple(found)


def _source(error: float, reason: str) -> Source:
    if reason or math.isfinite(error):
        return Source(0.0 if reason else error, reason)
    return Source(reason="an error without a bound")


def _sorted(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    """Operands first: few nodes, as patterns have them."""
    left, done = list(dict.fromkeys(nodes)), list[ir.Node]()
    while left:
        ready = [n for n in left if not any(_made_by(v, left) for v in n.inputs)]
        if not ready:
            return done + left
        done += ready
        left = [n for n in left if n not in ready]
    return done


def _made_by(value: ir.Value | None, nodes: Sequence[ir.Node]) -> bool:
    producer = None if value is None else value.producer()
    return producer is not None and producer in nodes
