"""How many steps the outputs of a rewritten model may be away from the original's.

In: a rewritten model, the journal of its run. Out: one `OutputBound` for each output, in steps of
the codes that the output is, dequantized or not.

What is rewritten and what comes of it are both taken in their real-number meaning, so the models
differ by what the errors of all applications (`quantized_drift`) make of the outputs on their way
through the graph (`quantized_walk`).
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from rewrite.engine.journal import Journal
from rewrite.engine.quantized_walk import Source, Walk
from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of

_NEAR = 1e-6  # of a step: errors of whole steps, after some arithmetic in float64


@dataclass(frozen=True, slots=True)
class OutputBound:
    """`lsb` None: not bounded, for the `reason`."""

    output: str
    lsb: float | None
    reason: str = ""


def output_bounds(facts: Facts, journal: Journal) -> tuple[OutputBound, ...]:
    """The outputs of the main graph, in order."""
    graph = facts.model.graph
    everywhere = next((d.reason for d in journal.drift if not d.value), "")
    if everywhere:
        return tuple(OutputBound(str(v.name), None, everywhere) for v in graph.outputs)
    begins = {d.value: Source(d.error, d.reason) for d in journal.drift}
    if not begins:
        return tuple(OutputBound(str(v.name), 0) for v in graph.outputs)
    nodes = nodes_of(graph)
    given = (*graph.initializers.values(), *graph.inputs)
    values = (*given, *(v for node in nodes for v in node.outputs))
    sources = {v: begins[str(v.name)] for v in values if str(v.name) in begins}
    groups = frozenset(g.node for g in journal.groups if g.emitted)
    walk = Walk(facts, sources, groups)
    for value in given:
        walk.begin(value)
    walk.run(nodes)
    return tuple(_output(walk, value) for value in graph.outputs)


def _output(walk: Walk, value: ir.Value) -> OutputBound:
    name, reach = str(value.name), walk.errors.get(value)
    if reach is None:
        return OutputBound(name, 0)
    if reach.reason:
        return OutputBound(name, None, reach.reason)
    unit = 1.0 if reach.integer else reach.unit
    if unit is None:
        return OutputBound(name, None, "the output is not dequantized codes")
    steps = reach.error / unit
    whole = round(steps)
    return OutputBound(name, whole if abs(steps - whole) < _NEAR else steps)
