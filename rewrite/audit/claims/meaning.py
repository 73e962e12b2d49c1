"""What ONNX says a model computes, by the declarations of operators.

In: a model, inputs. Out: its outputs; `OPEN` where the standard leaves one of them open; None where
an operator is not declared. This is no independent runtime: it tells which of two is right about
an original, and nothing is judged by it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import onnx
import onnx_ir as ir

from rewrite.audit.feeds import Array
from rewrite.engine.inference import plain_attributes
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.ops.evaluate import evaluate

OPEN: Literal["open"] = "open"


def meaning(
    model: onnx.ModelProto, feeds: Mapping[str, Array]
) -> list[Array] | Literal["open"] | None:
    """The outputs in the order of the graph."""
    try:
        loaded = io.load(model)
    except RewriteError:
        return None
    facts, graph = loaded.facts, loaded.model.graph
    values: dict[ir.Value, Array] = {}
    for given in graph.inputs:
        if given.name and given.name in feeds:
            values[given] = feeds[given.name]
    for node in graph:
        found = _node(facts, node, values)
        if found is None or found == OPEN:
            return found
        values.update(zip(node.outputs, found, strict=False))
    outputs = [values.get(v, facts.array(v)) for v in graph.outputs]
    known = [np.asarray(array) for array in outputs if array is not None]
    return known if len(known) == len(outputs) else None


def _node(
    facts: Facts, node: ir.Node, values: Mapping[ir.Value, Array]
) -> list[Array] | Literal["open"] | None:
    arrays: list[Array | None] = []
    for value in facts.operands(node):
        array = None if value is None else values.get(value, facts.array(value))
        if value is not None and array is None:
            return None
        arrays.append(array)
    try:
        attributes = plain_attributes(node)
    except ReferenceAttribute:
        return None
    opset = facts.opset(node)
    with np.errstate(all="ignore"):
        found = evaluate(node.domain, node.op_type, opset, arrays, attributes, len(node.outputs))
    if found is None:
        return None
    return [np.asarray(array) for array in found] if found else OPEN
