"""The uses of a value, looked at where they are.

In: a value. Out: how many uses it has, and the uses one by one. `Value.uses()` copies all of them,
and a weight may have thousands; onnx-ir offers no other way, so its private table is read here, and
in `dead.is_unused`, which is asked of every node.
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
