"""Orders of operands that a pattern accepts, and whether they differ for it.

In: a pattern. Out: the forms that commute, whether their operands are unlike each other, and in
which order a match has them.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from rewrite.audit.coverage.item import keyed
from rewrite.lang import ast
from rewrite.lang.walk import nodes
from rewrite.match import form as f
from rewrite.match import structure
from rewrite.match.rule import CompiledRule
from rewrite.match.walk import Operand


def commuting(pattern: f.Pattern) -> dict[int, str]:
    """Form -> key of an operator or bag whose operands may come in another order."""
    forms = [x for x in pattern.forms if _commutes(x)]
    return keyed((x.index, x.span, f"order:{_name(x)}") for x in forms)


def _commutes(form: f.Form) -> bool:
    if isinstance(form, f.Bag):
        return True
    return isinstance(form, f.Op) and form.commutes and len(form.operands) >= 2


def _name(form: f.Form) -> str:
    assert isinstance(form, (f.Op, f.Bag))
    return form.operator[1]


def differs(form: f.Form, rule: CompiledRule) -> bool:
    """Whether some two operands are not the same to the pattern and its conditions."""
    assert isinstance(form, (f.Op, f.Bag))
    operands = form.items if isinstance(form, f.Bag) else form.operands
    asked = _asked(rule)
    shapes = [_shape(x, asked) for x in operands]
    return any(shape != shapes[0] for shape in shapes[1:])


def _asked(rule: CompiledRule) -> frozenset[str]:
    """Names that conditions ask about, or that stand in the pattern more than once."""
    found: set[str] = set()
    conditions = [s.condition for s in rule.rule.steps if isinstance(s, ast.Where)]
    lets = [s.value for s in rule.rule.steps if isinstance(s, ast.Let)]
    for expr in (*conditions, *lets, *rule.pattern.guards):
        found |= {n.name for n in nodes(expr) if isinstance(n, (ast.Name, ast.Splat))}
    met: set[str] = set()
    for form in rule.pattern.forms:
        name = form.name if isinstance(form, (f.Any, f.Reference)) else None
        if name is not None:
            found |= {name} & met
            met.add(name)
    return frozenset(found)


def _shape(form: f.Form, asked: frozenset[str]) -> object:
    """What tells an operand from another one."""
    if isinstance(form, f.Any) and form.name not in asked:
        return ("any", form.optional, form.type)
    if isinstance(form, (f.Any, f.Reference)) and form.name is not None:
        return ("name", form.name)  # the same value, wherever it stands
    if isinstance(form, f.Number):
        return ("number", form.value, form.tolerance)
    return ("form", form.index)


# --- in a match ----------------------------------------------------------------------------------


def order_of(form: f.Op, operands: Sequence[Operand], given: Sequence[Operand]) -> tuple[int, ...]:
    """Which operands of the node the operands of the pattern are, the first way that fits."""
    for order in structure.arrangements(form, len(operands)):
        placed = [operands[i] if i < len(operands) else None for i in order]
        if all(a is b for a, b in zip(placed, given, strict=True)):
            return order
    return tuple(range(len(given)))


def is_written(order: Sequence[int]) -> bool:
    return list(order) == sorted(order)


def bag_is_written(form: f.Bag, value: ir.Value, items: Sequence[Operand]) -> bool:
    """Whether the leaves of the tree come in the order of the items."""
    node = value.producer()
    graph = None if node is None else node.graph
    for _, leaves in structure.cuts(value, form.operator, len(form.items), graph):
        if all(a is b for a, b in zip(leaves, items, strict=True)):
            return True
    return False
