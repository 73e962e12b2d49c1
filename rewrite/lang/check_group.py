"""Static checks of `group`: the attributes that a call of the group has.

In: the group, the expressions of its rule. Out: diagnostics.
"""

from __future__ import annotations

from rewrite.lang import ast
from rewrite.lang.check_expressions import ExpressionChecker
from rewrite.lang.kinds import WORDS
from rewrite.lang.scope import Facts

_HOLDS = ("number", "string", "bool", "list", "tensor", "dtype", "dim", "any")


def check_group(group: ast.Group, expressions: ExpressionChecker, facts: Facts) -> None:
    """Attributes are named once each, and are numbers, strings, constants or lists of them."""
    seen: set[str] = set()
    for attribute in group.attributes:
        if attribute.name in seen:
            message = f"the attribute `{attribute.name}` is given twice"
            expressions.errors.add("RW208", message, attribute.span)
        seen.add(attribute.name)
        info = expressions.infer(attribute.value, facts)
        if info.absent == "branch":
            expressions.report_absent(attribute.value, info)
        elif info.kind == "value":
            expressions.not_constant(attribute.value)
        elif info.kind not in _HOLDS:
            message = f"{WORDS[info.kind]} cannot be an attribute"
            expressions.errors.add("RW264", message, attribute.value.span)
