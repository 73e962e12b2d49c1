"""Operators that keep the elements in their order, and change the shape alone."""

from __future__ import annotations

from collections.abc import Iterator

from rewrite.audit.claims.proof import Proof, prover
from rewrite.lang import ast
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule

# Reshape and its relatives: the elements stay as they lie in row-major order (onnx/defs/tensor).
_KEEPING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})


@prover("order")
def keeps_order(rule: CompiledRule, seconds: float) -> Proof | None:
    """Both sides hold the elements of one value in order, and shape and type stay.

    That these stay is what the engine demands of every application (docs/language.md,
    Obligation).
    """
    if len(rule.emit) != 1 or seconds <= 0:
        return None
    root, value = rule.emit[0].names[0], rule.emit[0].value
    while isinstance(value, ast.OpExpr) and value.op.prefix == "" and value.op.name in _KEEPING:
        value = value.operands[0]
    if not isinstance(value, ast.Name):
        return None
    statement = next((s for s in rule.pattern.statements if root in s.names), None)
    if statement is None or isinstance(statement, f.Each):
        return None
    if not all(name == value.name for name in _sources(statement.form, rule)):
        return None
    return Proof("order of elements", "whatever their type", values=True, types=False)


def _sources(form: f.Form, rule: CompiledRule) -> Iterator[str | None]:
    """The values whose elements the form holds, in each branch; None where it is another."""
    if isinstance(form, f.Choice):
        for branch in form.branches:
            yield from _sources(branch.form, rule)
    elif isinstance(form, f.Reference):
        yield from _sources(rule.pattern.statements[form.statement].form, rule)
    elif isinstance(form, f.Op) and form.operator[0] == "" and form.operator[1] in _KEEPING:
        yield from _sources(form.operands[0], rule)
    else:
        yield form.name if isinstance(form, f.Any) else None
