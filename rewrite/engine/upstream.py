"""What a value is computed by, operands first, without recursion.

In: a value, and which of the nodes above to look at. Out: those nodes in the order in which they
can be computed.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir


def operands_first(value: ir.Value, wanted: Callable[[ir.Value], ir.Node | None]) -> list[ir.Node]:
    """`wanted`: the node that computes a value, or None where the walk ends there."""
    ordered: list[ir.Node] = []
    seen: set[ir.Node] = set()
    pending: list[tuple[ir.Node | None, bool]] = [(wanted(value), False)]
    while pending:
        node, ready = pending.pop()
        if node is None:
            continue
        if ready:
            ordered.append(node)
        elif node not in seen:
            seen.add(node)
            pending.append((node, True))
            pending.extend((wanted(v), False) for v in node.inputs if v is not None)
    return ordered
