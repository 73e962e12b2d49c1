"""What a rule emits, as terms.

In: a compiled rule, a way in which its pattern matches. Out: the term of each root's replacement;
`Expressions.value`, the terms of expressions about constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rewrite.audit.claims.smt.terms import (
    Computed,
    Leaf,
    Literal,
    Node,
    NotCoveredError,
    Term,
    TypeOf,
    Way,
)
from rewrite.lang import ast
from rewrite.lang.kinds import MAKES_NODES
from rewrite.match.rule import CompiledRule
from rewrite.schema import DOMAINS, DTYPES

_ENDS = ("lowest", "highest", "finite_lowest", "finite_highest")


@dataclass
class Expressions:
    """Expressions over the names of one way. Definitions of `let` are made once."""

    way: Way
    lets: Mapping[str, ast.Expr]
    made: dict[str, Term | None] = field(default_factory=dict)

    @classmethod
    def of(cls, rule: CompiledRule, way: Way) -> Expressions:
        lets = {s.name: s.value for s in rule.rule.steps if isinstance(s, ast.Let)}
        return cls(way, lets)

    def value(self, expr: ast.Expr) -> Term | None:
        """None: absent. Raises `NotCoveredError`."""
        if isinstance(expr, ast.Constant):
            return self._constant(expr)
        if isinstance(expr, ast.Name):
            return self._name(expr.name)
        if isinstance(expr, ast.Case):
            return self.value(self.arm(expr))
        if isinstance(expr, ast.Unary) and expr.operator == "-":
            return self._negated(self._present(expr.operand))
        if isinstance(expr, ast.Binary):
            return self._binary(expr)
        if isinstance(expr, ast.Call):
            return self._call(expr)
        if isinstance(expr, ast.OpExpr):
            return self._operator(expr)
        raise NotCoveredError(type(expr).__name__)

    def arm(self, case: ast.Case) -> ast.Expr:
        """The arm that is taken in this way."""
        for arm in case.arms:
            holds = True if arm.name is None else self.holds(arm.name)
            if holds:
                return arm.value
        raise NotCoveredError("no arm of a case")

    def holds(self, name: str) -> bool:
        if name in self.lets:
            raise NotCoveredError("a condition by a let")
        return bool(self.way.holds(name))

    def _present(self, expr: ast.Expr) -> Term:
        found = self.value(expr)
        if found is None:
            raise NotCoveredError("an absent operand")
        return found

    def _constant(self, expr: ast.Constant) -> Term | None:
        if expr.value is None:
            return None
        if isinstance(expr.value, (bool, str)):
            raise NotCoveredError("a word")
        return Literal(expr.value)

    def _name(self, name: str) -> Term | None:
        if name in self.made:
            return self.made[name]
        if name in self.way.names:
            return self.way.names[name]
        if name not in self.lets:
            raise NotCoveredError(f"the name {name}")
        self.made[name] = self.value(self.lets[name])
        return self.made[name]

    def _negated(self, operand: Term) -> Term:
        if isinstance(operand, Literal):
            return Literal(-operand.value)
        if not is_constant(operand):
            return Node(("", "Neg"), (operand,), matched=False)
        return Computed("neg", (operand,))

    def _binary(self, expr: ast.Binary) -> Term | None:
        if expr.operator == "??":
            found = self.value(expr.left)
            return self.value(expr.right) if found is None else found
        name = MAKES_NODES.get(expr.operator)
        if name is None:
            raise NotCoveredError(expr.operator)
        left, right = self._present(expr.left), self._present(expr.right)
        if is_constant(left) and is_constant(right):
            raise NotCoveredError("arithmetic on constants")
        return Node(("", name), (left, right), matched=False)

    def _call(self, expr: ast.Call) -> Term:
        if expr.keywords:
            raise NotCoveredError("a named argument")
        found = tuple(self._present(a) for a in expr.arguments)
        if expr.function in _ENDS:
            return Computed(expr.function, found)
        if expr.function not in ("min", "max") or not all(is_constant(a) for a in found):
            raise NotCoveredError(expr.function)
        if len(found) == 1:
            return Computed(f"{expr.function} of", found)
        if len(found) > 2:
            raise NotCoveredError("several arguments")
        return Computed(expr.function, found)

    def _operator(self, expr: ast.OpExpr) -> Term:
        operands = tuple(self.value(o) for o in expr.operands)
        attributes: dict[str, object] = {}
        operator = (DOMAINS.get(expr.op.prefix, ""), expr.op.name)
        carried = expr.carry
        if expr.op.prefix == "@":
            carried = (expr.op.name,)
            made = self.way.names.get(expr.op.name)
            if not isinstance(made, Node):
                raise NotCoveredError("an operator that is not translated, again")
            operator = made.operator
        for name in carried:
            node = self.way.names.get(name)
            if not isinstance(node, Node):
                raise NotCoveredError("attributes of what is not translated")
            attributes |= node.attributes
            if operator[1] == "Cast":
                attributes["to"] = TypeOf(node)
        for given in expr.attributes:
            attributes[given.name] = self._attribute(given.value)
        return Node(operator, operands, attributes, matched=False)

    def _attribute(self, expr: ast.Expr) -> object:
        if isinstance(expr, ast.Call) and expr.function == "dtype" and len(expr.arguments) == 1:
            return TypeOf(self._present(expr.arguments[0]))
        if isinstance(expr, ast.Name) and expr.name in DTYPES:
            return (expr.name,)
        if isinstance(expr, ast.Constant):
            return (expr.value,)
        raise NotCoveredError("an attribute that is computed")


def is_constant(term: Term) -> bool:
    """Whether the language computes with it instead of making a node of it."""
    if isinstance(term, Leaf):
        return term.const
    return isinstance(term, (Computed, Literal))


def emitted(rule: CompiledRule, expressions: Expressions) -> dict[str, Term]:
    """The replacement of each root."""
    way = expressions.way
    found: dict[str, Term] = {}
    for statement in rule.emit:
        if len(statement.names) != 1:
            raise NotCoveredError("several outputs")
        term = expressions.value(statement.value)
        if term is None:
            raise NotCoveredError("nothing is emitted")
        name = statement.names[0]
        if name in way.names:
            found[name] = term
        else:
            expressions.made[name] = term
    return found
