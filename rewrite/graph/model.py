"""A model in memory, with what is needed to write it again.

In: nothing. Out: `LoadedModel`, the object that crosses from `io.load` through the engine to
`io.save`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.graph.facts import Facts


@dataclass(slots=True)
class LoadedModel:
    """A checked model. `facts` is the one cache of facts about it: edits keep it right."""

    model: ir.Model
    facts: Facts
    source: str  # how messages name the model: its path, or "model"
    notes: list[str] = field(default_factory=list)  # what was repaired or tolerated while loading
