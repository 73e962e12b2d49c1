"""An If whose condition is known gives way to the branch that is taken.

In: an If node. Out: the nodes of the branch in the graph around it, under fresh names (names of one
branch may be those of another). Initializers of the branch move along.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.engine.journal import Log
from rewrite.engine.refused import RefusedError
from rewrite.graph import edit
from rewrite.graph.facts import Facts, ReferenceAttribute


def inline_if(
    facts: Facts, log: Log, node: ir.Node
) -> tuple[tuple[ir.Node, ...], tuple[ir.Value, ...]] | None:
    """The nodes moved and the values that took over the outputs; None where nothing is known."""
    condition = node.inputs[0]
    known = None if condition is None else facts.scalar(condition)
    graph = node.graph
    if known is None or graph is None:
        return None
    try:
        branch = facts.attribute(node, "then_branch" if known else "else_branch")
    except ReferenceAttribute:
        return None
    if len(branch.outputs) != len(node.outputs):
        raise RefusedError("the branch taken has another number of outputs")
    if facts.in_function(graph) and branch.initializers:
        raise RefusedError("the branch taken has initializers and a function body cannot")
    results = list(branch.outputs)
    nodes = _take_out(facts, branch)
    pairs = [
        (old, new)
        for old, new in zip(node.outputs, results, strict=True)
        if old.uses() or old.is_graph_output()
    ]
    facts.forget_graphs()
    made = edit.replace(facts, graph, pairs, nodes, (node,))
    if isinstance(made, edit.Refused):
        _put_back(branch, nodes, results)
        raise RefusedError(made.reason)
    made.finish()
    facts.forget_graphs()
    log.clean("inlined", 1)
    return made.new_nodes, tuple(new for _, new in pairs)


def _take_out(facts: Facts, branch: ir.Graph) -> list[ir.Node]:
    """The nodes of a branch, in no graph, with names that nothing else has."""
    branch.outputs.clear()
    for value in list(branch.initializers.values()):
        del branch.initializers[value.name or ""]
        edit.rename(value, facts.names.fresh(value.name or "constant"))
    nodes = list(branch)
    branch.remove(nodes)
    for node in nodes:
        node.name = facts.names.fresh(node.name or node.op_type)
        for output in node.outputs:
            if output.name:
                output.name = facts.names.fresh(output.name)
    return nodes


def _put_back(branch: ir.Graph, nodes: list[ir.Node], results: list[ir.Value]) -> None:
    branch.extend(nodes)
    for value in dict.fromkeys(v for node in nodes for v in node.inputs if v is not None):
        if value.producer() is None and value.graph is None and value.const_value is not None:
            branch.register_initializer(value)
    branch.outputs.extend(results)
