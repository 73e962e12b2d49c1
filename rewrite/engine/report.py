"""Figures about a model, and the account that is written into it.

In: a model, a target, a ledger. Out: counts, what the target has no kernel for, metadata.
"""

from __future__ import annotations

import onnx_ir as ir

from rewrite.engine.ledger import Ledger
from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel
from rewrite.graph.uses import nodes_of
from rewrite.match import calls
from rewrite.match.structure import operator_words
from rewrite.target import support
from rewrite.target.target import Operator, Target

LEDGER = "rewrite.ledger"  # the model's metadata entry


def nodes(facts: Facts) -> int:
    """Nodes of the graph, its subgraphs and all function bodies."""
    return sum(len(graph) for graph in facts.graphs())


def kernels(facts: Facts) -> int:
    """Nodes that run: a function call counts as one, constants do not count."""
    return sum([node._op_type != "Constant" for node in running(facts)])


def running(facts: Facts) -> list[ir.Node]:
    """Nodes of the graph and its subgraphs, not of function bodies."""
    main = facts.model.graph
    found: list[ir.Node] = []
    for graph in facts.graphs():
        if graph is main or facts.root(graph) is main:
            found += nodes_of(graph)
    return found


def unsupported(loaded: LoadedModel, target: Target) -> list[dict[str, str]]:
    """Nodes that the target does not run, with the reason.

    A target of one partition runs nothing behind the first node that it does not take.
    """
    found: list[dict[str, str]] = []
    last = target.partition == "single"
    functions = loaded.model.functions
    simple: dict[Operator, str | None] = {}  # operators that are taken always or never
    for node in running(loaded.facts):
        if node.op_type == "Constant" or node.op_identifier() in functions:
            continue
        operator = (node.domain, node.op_type)
        if operator in target.limits:
            reason = calls.refusal(target, node, loaded.facts)
        else:
            if operator not in simple:
                simple[operator] = support.unsupported(target, support.Call(operator))
            reason = simple[operator]
        if reason is None and last and found:
            reason = f"comes after {found[0]['operator']}, which ends what {target.name} runs"
        if reason is not None:
            name = str(node.outputs[0].name if node.outputs else node.name)
            found.append({"node": name, "operator": operator_words(operator), "reason": reason})
    return found


def write_ledger(model: ir.Model, ledger: Ledger) -> None:
    """Keep the account in the model's own metadata, beside those of earlier runs."""
    if not ledger.entries:
        return
    key, number = LEDGER, 1
    while key in model.metadata_props:
        number += 1
        key = f"{LEDGER}.{number}"
    model.metadata_props[key] = ledger.text()
