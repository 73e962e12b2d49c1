"""The model's IR version: what needs a newer one, and what changes with it.

In: `Facts` and a version. Out: the model raised to it. Before IR version 4 every initializer had
to be listed among the inputs and was a constant nevertheless; from 4 on such an input is a default
that callers may override. So the inputs that have an initializer go when a model is raised past 4.
"""

from __future__ import annotations

from rewrite.graph.facts import Facts

FUNCTIONS = 8  # local functions (onnx.in.proto, IR_VERSION_2021_7_30)
FREE_INITIALIZERS = 4  # initializers that are not inputs (IR_VERSION_2019_1_22)


def require_ir(facts: Facts, version: int, why: str) -> None:
    """Raise the IR version to at least `version`; the meaning of the model stays the same."""
    model = facts.model
    if model.ir_version >= version:
        return
    if model.ir_version < FREE_INITIALIZERS:
        graph = model.graph
        for value in [v for v in graph.inputs if v.is_initializer()]:
            graph.inputs.remove(value)
    facts.notes.append(f"IR version raised from {model.ir_version} to {version}: {why}")
    model.ir_version = version
