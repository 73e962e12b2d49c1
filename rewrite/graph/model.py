"""A model in memory, with what is needed to write it again.

In: nothing. Out: `LoadedModel`, the object that crosses from `io.load` through the engine to
`io.save`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.graph.tensors import MappedFile, MessageTensor


@dataclass(slots=True)
class LoadedModel:
    """A checked model. `facts` is the one cache of facts about it: edits keep it right."""

    model: ir.Model
    facts: Facts
    source: str  # how messages name the model: its path, or "model"
    notes: list[str] = field(default_factory=list)  # what was repaired or tolerated, or changed
    files: tuple[MappedFile, ...] = ()  # the files it was read from, which are never written
    training: tuple[onnx.TrainingInfoProto, ...] = ()  # carried along; see Facts.pinned
    messages: tuple[MessageTensor, ...] = ()  # tensors inside the message that was read

    def release(self) -> None:
        """The model is not used any more: its data are freed at once. Graphs are cyclic, and the
        collector of garbage would come to them much later. Who made something of the model that
        lives longer (`plan.program.read`) has what it needs of its own."""
        for graph in self.facts.graphs():
            for value in graph.initializers.values():
                value.const_value = None
        for tensor in self.messages:
            tensor.drop()
        self.messages, self.training = (), ()
        self.facts.release()
