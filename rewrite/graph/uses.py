"""The uses of a value and the nodes of a graph, looked at and changed where they are.

In: a value, a node, a graph. Out: how many uses a value has, and the uses one by one; the nodes of
a graph. `Value.uses()` copies all uses, and a weight may have thousands; onnx-ir offers no other
way, so its private tables are read here, and in `dead.is_unused`, which is asked of every node.
`rewire`, `release`, `put_after` and `take_out` are what `Node.replace_input_with`,
`Graph.insert_after` and `Graph.remove` do, and `nodes_of` is `list(graph)`, at a fraction of their
price.

Where something is asked of every node, at every step, the code of this package and of the engine
reads onnx-ir's fields (`_op_type`, `_graph`, `_producer`) and not its properties: each of those is
a call that costs more than the question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import onnx_ir as ir
from onnx_ir._core import Usage


def uses_of(value: ir.Value) -> Collection[Any]:
    """Pairs `(node, idx)`, in the order in which they were made. Not to be kept over an edit."""
    return value._uses.keys()


def use_count(value: ir.Value) -> int:
    """How many operands the value is."""
    return len(value._uses)


def is_used(value: ir.Value) -> bool:
    """Whether a node uses the value."""
    return bool(value._uses)


def rewire(node: ir.Node, index: int, value: ir.Value | None) -> None:
    """One operand of a node gives way to another."""
    inputs = node._inputs
    old = inputs[index]
    node._inputs = (*inputs[:index], value, *inputs[index + 1 :])
    if old is not None:
        uses: dict[Any, None] = old._uses
        del uses[node, index]  # keys are named tuples: equal to plain ones
    if value is not None:
        value._uses[tuple.__new__(Usage, (node, index))] = None
    if node.device_configurations and old is not None and old is not value:
        node._drop_sharding_for_value(old)


def release(node: ir.Node) -> list[ir.Value]:
    """Take a node that is no longer needed off the values it uses; returns those."""
    inputs = node._inputs
    node._inputs = (None,) * len(inputs)
    used: list[ir.Value] = []
    for index, value in enumerate(inputs):
        if value is not None:
            uses: dict[Any, None] = value._uses
            del uses[node, index]  # keys are named tuples: equal to plain ones
            used.append(value)
    return used


def nodes_of(graph: ir.Graph) -> list[ir.Node]:
    """The nodes of a graph as they are now, in order."""
    root = graph._nodes._root
    found: list[Any] = []
    box = root.next
    while box is not root:
        found.append(box.value)
        box = box.next
    return found


def put_after(graph: ir.Graph, anchor: ir.Node, nodes: Sequence[ir.Node]) -> None:
    """Put nodes, which are in no other graph, right behind one of a graph."""
    for node in nodes:
        graph._set_node_graph_to_self_and_assign_names(node)
    listed = graph._nodes
    box = listed._value_ids_to_boxes[id(anchor)]
    for node in nodes:
        box = listed._insert_one_after(box, node)


def take_out(nodes: Iterable[ir.Node]) -> None:
    """Remove nodes from their graphs."""
    for node in nodes:
        graph = node._graph
        if graph is not None:
            graph._nodes.remove(node)
            node._graph = None
