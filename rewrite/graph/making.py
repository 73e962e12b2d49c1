"""Nodes made field by field.

In: what `ir.Node` takes. Out: the same node at a third of the price: models have very many, and
the constructor passes the attributes through a dictionary class that checks and copies each.
`tests/graph/test_making.py` holds every field against what the constructor sets.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_ir._core import Usage
from onnx_ir._graph_containers import Attributes

_LONG_NAME = "ai.onnx"  # the domain "", which onnx-ir writes short


def node(
    domain: str,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: dict[str, ir.Attr],
    outputs: Sequence[ir.Value],
    name: str | None,
    version: int | None = None,
    overload: str = "",
    doc_string: str | None = None,
    metadata_props: dict[str, str] | None = None,
) -> ir.Node:
    """A node in no graph that uses `inputs`. No other node gives one of `outputs`."""
    made = ir.Node.__new__(ir.Node)
    made._name = name
    made._domain = "" if domain == _LONG_NAME else domain
    made._op_type = op_type
    made._inputs = tuple(inputs)
    made._outputs = tuple(outputs)
    held = Attributes.__new__(Attributes)
    held._owner = made
    held.data = attributes
    made._attributes = held
    made._overload = overload
    made._version = version
    made._metadata = None
    made._metadata_props = metadata_props
    made.device_configurations = ()
    made._graph = None
    made.doc_string = doc_string
    for index, value in enumerate(made._outputs):
        value._producer = made
        value._index = index
    for index, operand in enumerate(made._inputs):
        if operand is not None:
            operand._uses[tuple.__new__(Usage, (made, index))] = None
    return made
