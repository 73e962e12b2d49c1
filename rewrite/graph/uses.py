"""The uses of a value, looked at and changed where they are.

In: a value. Out: how many uses it has, and the uses one by one. `Value.uses()` copies all of them,
and a weight may have thousands; onnx-ir offers no other way, so its private table is read here, and
in `dead.is_unused`, which is asked of every node. `rewire` and `release` are what
`Node.replace_input_with` does, at a fraction of its price.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx_ir as ir


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
        value._add_usage(node, index)
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
