"""Conditions of a rule as formulas about single elements.

In: a condition, the terms that its names stand for, their element types. Out: a formula that the
condition implies; None where it says nothing that is translated. What is left out makes a proof
harder and never wrong. A condition on constants holds for all elements, so for those that meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from rewrite.audit.claims.smt import numbers as n
from rewrite.audit.claims.smt.element_types import Types
from rewrite.audit.claims.smt.emission import Expressions, is_constant
from rewrite.audit.claims.smt.terms import Literal, NotCoveredError, Term
from rewrite.lang import ast
from rewrite.match.builtins.predicates import dtype_widens
from rewrite.match.operators import MIRRORED
from rewrite.ops.dtypes import integer_range
from rewrite.schema import DTYPE_CLASSES, DTYPES

Term3 = Any


class Conditions:
    """`translate` gives the expression of a term, `types` the element type."""

    def __init__(
        self, expressions: Expressions, types: Types, translate: Callable[[Term], Term3]
    ) -> None:
        self.expressions = expressions
        self.types = types
        self.translate = translate

    def implied(self, expr: ast.Expr) -> Term3 | None:
        """What follows from the condition."""
        if isinstance(expr, ast.Binary) and expr.operator in ("and", "or"):
            parts = [self.implied(expr.left), self.implied(expr.right)]
            if expr.operator == "or":
                return None if None in parts else z3.Or(*parts)
            known = [p for p in parts if p is not None]
            return z3.And(*known) if known else None
        try:
            if isinstance(expr, ast.Case):
                return self.implied(self.expressions.arm(expr))
            static = self._types(expr)
            if static is not None:
                return z3.BoolVal(static)
            if isinstance(expr, ast.Call):
                return self._call(expr)
            if isinstance(expr, ast.Binary):
                return self._compare(expr)
        except NotCoveredError:
            return None
        return None

    # --- element types -------------------------------------------------------------------------

    def _types(self, expr: ast.Expr) -> bool | None:
        """A condition on element types alone; None where it is none."""
        if isinstance(expr, ast.Unary) and expr.operator == "not":
            found = self._types(expr.operand)
            return None if found is None else not found
        if isinstance(expr, ast.Call):
            return self._types_call(expr)
        if not isinstance(expr, ast.Binary):
            return None
        left, right = self._dtype(expr.left), self._dtype(expr.right)
        if left is not None and right is not None and expr.operator in ("==", "!="):
            return (left == right) == (expr.operator == "==")
        widths = self._bits(expr.left), self._bits(expr.right)
        if widths[0] is None or widths[1] is None:
            return None
        return {
            "<": widths[0] < widths[1],
            "<=": widths[0] <= widths[1],
            ">": widths[0] > widths[1],
            ">=": widths[0] >= widths[1],
            "==": widths[0] == widths[1],
            "!=": widths[0] != widths[1],
        }.get(expr.operator)

    def _types_call(self, expr: ast.Call) -> bool | None:
        found = [self._dtype(a, value=True) for a in expr.arguments]
        if any(name is None for name in found):
            return None
        if expr.function == "widens" and len(found) == 2:
            return dtype_widens(str(found[0]), str(found[1]))
        if expr.function in ("is_int", "is_float"):
            kind = "int" if expr.function == "is_int" else "f"
            return found[0] in DTYPE_CLASSES[kind]
        return None

    def _dtype(self, expr: ast.Expr, value: bool = False) -> str | None:
        """The element type that an expression is, or with `value` has."""
        if isinstance(expr, ast.Call) and expr.function == "dtype" and len(expr.arguments) == 1:
            return self._dtype(expr.arguments[0], value=True)
        if isinstance(expr, ast.Constant) and expr.value in DTYPES:
            return str(expr.value)
        if isinstance(expr, ast.Name) and expr.name in self.expressions.way.names:
            term = self.expressions.way.names[expr.name]
            return self.types.of(term) if value and term is not None else None
        if isinstance(expr, ast.Name) and expr.name in DTYPES:
            return expr.name
        return None

    def _bits(self, expr: ast.Expr) -> int | None:
        if isinstance(expr, ast.Constant) and type(expr.value) is int:
            return expr.value
        if isinstance(expr, ast.Call) and expr.function == "bits":
            dtype = self._dtype(expr.arguments[0], value=True)
            if dtype in n.INTEGERS:
                return n.bits(dtype)
        return None

    # --- numbers -------------------------------------------------------------------------------

    def _call(self, expr: ast.Call) -> Term3 | None:
        found = [self._constant(a) for a in expr.arguments]
        dtype = self.types.of(found[0]) if found else None
        if dtype is None or expr.keywords:
            return None
        x = self.translate(found[0])
        if expr.function == "positive_zero" and len(found) == 1:
            return x == n.number(0, dtype)
        if expr.function == "all" and dtype == "bool":
            return x
        if expr.function == "all_equal" and len(found) == 2:
            return self._met("==", found[0], found[1])
        signs = {"all_positive": ">", "all_nonnegative": ">=", "all_nonzero": "!="}
        if expr.function in signs:
            return n.compare(signs[expr.function], x, n.number(0, dtype), dtype)
        return None

    def _compare(self, expr: ast.Binary) -> Term3 | None:
        if expr.operator not in MIRRORED:
            return None
        return self._met(expr.operator, self._constant(expr.left), self._constant(expr.right))

    def _met(self, symbol: str, left: Term, right: Term) -> Term3 | None:
        if isinstance(left, Literal):
            left, right, symbol = right, left, MIRRORED[symbol]
        dtype = self.types.of(left)
        if dtype is None:
            return None
        x = self.translate(left)
        if isinstance(right, Literal):
            return _with_number(symbol, x, right.value, dtype)
        if self.types.of(right) not in (dtype, None):
            return None
        return n.compare(symbol, x, self.translate(right), dtype)

    def _constant(self, expr: ast.Expr) -> Term:
        found = self.expressions.value(expr)
        if found is None or not is_constant(found):
            raise NotCoveredError("not a constant")
        return found


def _with_number(symbol: str, x: Term3, value: float, dtype: str) -> Term3 | None:
    """The language compares in float64; None where that has no exact translation."""
    if dtype in n.FLOATS:
        near = n.number(float(value), dtype)
        if z3.simplify(n.widened(near, dtype)).eq(n.number(float(value), "f64")):
            return n.compare(symbol, x, near, dtype)
        return n.compare(symbol, n.widened(x, dtype), n.number(float(value), "f64"), "f64")
    if dtype in n.INTEGERS:
        low, high = integer_range(dtype)
        if value < low or value > high:
            above = symbol in ((">", ">=") if value < low else ("<", "<="))
            return z3.BoolVal(above or symbol == "!=")
    return n.compare(symbol, x, n.number(value, dtype), dtype)
