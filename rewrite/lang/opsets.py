"""The opsets at which a rule can be used.

In: a rule, the range of its pack. Out: the range narrowed by the rule's `opset` and by the
operators, operands and attributes that it emits; None where nothing is left.
"""

from __future__ import annotations

from rewrite.lang import ast
from rewrite.lang.versions import Operators, Range, least_inputs, most_inputs
from rewrite.lang.vocabulary import Vocabulary
from rewrite.lang.walk import nodes
from rewrite.schema import OpSchema


def opset_range(rule: ast.Rule, vocabulary: Vocabulary, pack_range: Range) -> Range | None:
    """Where the rule's own range, the pack's and what it emits overlap."""
    return narrowed(rule, Operators(vocabulary), pack_range)


def narrowed(rule: ast.Rule, operators: Operators, pack_range: Range) -> Range | None:
    opsets = written_range(rule, pack_range)
    for statement in rule.emit:
        for node in nodes(statement):
            if opsets is None:
                return None
            if isinstance(node, ast.OpExpr) and node.op.prefix != "@":
                opsets = usable(node, operators, opsets)
    return opsets


def written_range(rule: ast.Rule, pack_range: Range) -> Range | None:
    low, high = rule.opset
    opsets = (
        pack_range[0] if low is None else max(low, pack_range[0]),
        pack_range[1] if high is None else min(high, pack_range[1]),
    )
    return opsets if opsets[0] <= opsets[1] else None


def usable(expr: ast.OpExpr, operators: Operators, opsets: Range) -> Range | None:
    """The opsets at which this operator can be emitted."""
    neutral = _neutral(expr, operators)
    return operators.usable(expr.op, opsets, lambda schema: _fits(expr, schema, neutral))


def _fits(expr: ast.OpExpr, schema: OpSchema, neutral: frozenset[str]) -> bool:
    """Whether this version has the operands and attributes that are emitted."""
    count, spread = operand_count(expr)
    most = most_inputs(schema)
    if most is not None and count > most:
        return False
    if count < least_inputs(schema) and not spread:
        return False
    return all(a.name in schema.attributes or a.name in neutral for a in expr.attributes)


def operand_count(expr: ast.OpExpr) -> tuple[int, bool]:
    """Operands given, trailing `none` aside, and whether a list is spread among them."""
    operands = list(expr.operands)
    while operands and isinstance(operands[-1], ast.Constant) and operands[-1].value is None:
        operands.pop()
    spread = any(isinstance(x, ast.Splat) for x in operands)
    return len(operands), spread


def _neutral(expr: ast.OpExpr, operators: Operators) -> frozenset[str]:
    """Attributes given their default: a version that lacks them means the same without them."""
    versions = operators.all(expr.op)
    newest = versions[-1].attributes if versions else {}
    return frozenset(
        a.name
        for a in expr.attributes
        if a.name in newest
        and isinstance(a.value, ast.Constant)
        and a.value.value is not None
        and a.value.value == newest[a.name].default
    )
