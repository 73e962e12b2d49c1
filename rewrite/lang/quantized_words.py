"""What `DQ` and `Q` were expanded to, as the author knows it.

In: a name or an expression of an expanded rule. Out: the same with `X.scale` for `X__scale`,
`X.axis == 0` for the test of an axis, and `_` for codes that have no name.
"""

from __future__ import annotations

import re

from rewrite.lang import ast
from rewrite.lang.walk import replace_nodes

FIELDS = ("scale", "zp", "axis", "block")
GRANULARITIES = ("per_tensor", "per_axis", "blocked")
SAME_AXIS, AXIS = "dq__same_axis", "dq__axis"
_OF_PATTERN = re.compile(r"__\d+")  # the number of the call of a named pattern
_UNNAMED = re.compile(r"_dq\d+")


def unnamed(number: int) -> str:
    """The name of the codes of which the author wrote `_`."""
    return f"_dq{number}"


def is_unnamed(name: str) -> bool:
    return _UNNAMED.fullmatch(name) is not None


def is_parameter(name: str) -> bool:
    """Whether it is a scale, zero point, axis or block size that no operand was written for."""
    base, _, last = name.rpartition("__")
    return bool(base) and last in FIELDS


def written(name: str) -> str:
    """A name as the author knows it: `X__scale` is what stands behind `X.scale`."""
    name = _OF_PATTERN.sub("", name)
    base, last = name, ""
    if is_parameter(name):
        base, _, last = name.rpartition("__")
    base = "_" if is_unnamed(base) else base
    return f"{base}.{last}" if last else base


def as_written(expr: ast.Expr) -> ast.Expr:
    """An expression as the author knows it, or might have written it."""
    result = replace_nodes(expr, _written)
    assert isinstance(result, ast.Expr)
    return result


def _written(node: ast.Node) -> ast.Node:
    """One node, whose parts are as written already."""
    if isinstance(node, ast.Name):
        base, dot, last = written(node.name).partition(".")
        name = ast.Name(node.span, base)
        return ast.Field(node.span, name, last) if dot else name
    if isinstance(node, ast.Binary) and node.operator == "??" and _is_field(node.left):
        return node.left  # what it is where the node has none
    if isinstance(node, ast.Call) and node.function == SAME_AXIS:
        return ast.Binary(node.span, "==", node.arguments[1], node.arguments[2])
    if isinstance(node, ast.Call) and node.function == AXIS:
        return node.arguments[2]
    return node


def _is_field(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Field) and expr.name in FIELDS
