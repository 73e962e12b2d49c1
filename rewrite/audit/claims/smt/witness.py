"""The numbers that z3 found, as a model on which the rule can be tried.

In: a compiled rule, `Apart`. Out: a model of what the rule matches, each operand of one element
with the number found; None where an operand has no number, or comes from an operator that is not
translated. What it shows is for the ordinary check to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from rewrite.audit.claims.smt.terms import Leaf, Node, NotCoveredError, Term
from rewrite.audit.claims.smt.values import Apart
from rewrite.audit.instances.draft import Draft, tensor
from rewrite.match.rule import CompiledRule
from rewrite.schema import DTYPES

_OPSET = 21  # the newest that every runtime here takes, where the rule allows it
_IR = 10


def model_of(rule: CompiledRule, apart: Apart) -> onnx.ModelProto | None:
    """A valid model, or None."""
    builder = _Builder(apart)
    try:
        outputs = [builder.value(apart.way.names[s.names[0]]) for s in rule.emit]
    except NotCoveredError:
        return None
    graph = helper.make_graph(
        builder.nodes,
        "g",
        [],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        builder.constants,
    )
    low, high = rule.opset
    opset = helper.make_opsetid("", max(low, min(high, _OPSET)))
    model = helper.make_model(graph, opset_imports=[opset], ir_version=_IR)
    return Draft(model).finish()


class _Builder:
    """Nodes and constants of the matched side."""

    def __init__(self, apart: Apart) -> None:
        self.apart = apart
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names: dict[int, str] = {}

    def value(self, term: Term | None) -> str:
        """The name of a term's value; "" where it is absent."""
        if term is None:
            return ""
        if id(term) not in self.names:
            self.names[id(term)] = f"v{len(self.names)}"
            self._make(term, self.names[id(term)])
        return self.names[id(term)]

    def _make(self, term: Term, name: str) -> None:
        dtype = self.apart.types.of(term)
        if isinstance(term, Leaf) and dtype is not None:
            if term.operator is not None:
                raise NotCoveredError("an operator that is not translated")
            array = self.apart.numbers.get(term)
            if array is None:
                raise NotCoveredError("no number")
            if term.const:
                self.constants.append(tensor(name, array))
                return
            self.constants.append(tensor(f"{name}_number", array.reshape(1)))
            self.nodes.append(helper.make_node("Identity", [f"{name}_number"], [name]))
        elif isinstance(term, Node):
            operands = [self.value(o) for o in term.operands]
            attributes = self._attributes(term, str(dtype))
            name_ = term.operator[1]
            self.nodes.append(helper.make_node(name_, operands, [name], **attributes))
        else:
            raise NotCoveredError("a computed value")

    def _attributes(self, node: Node, dtype: str) -> Mapping[str, Any]:
        found: dict[str, Any] = {}
        for name, given in node.attributes.items():
            if isinstance(given, Sequence) and len(given) == 1:
                found[name] = given[0]
        if node.operator[1] == "Cast":
            found = {"to": DTYPES[dtype]}
        if "alpha" in found:
            found["alpha"] = float(found["alpha"])
        return found
