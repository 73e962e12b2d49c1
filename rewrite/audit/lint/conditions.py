"""What can be told of conditions before any match: always true, never true, told before.

In: an expanded rule with the types of its pattern (`known.Known`). Out: `Verdict`s.

What is not known in a model makes a condition fail, so `rank(x) >= 0` asks whether the rank is
known. Only what the pattern has tested, or an earlier condition, counts as known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from rewrite.audit.lint.domain import Domain, Literal, compared, one_of
from rewrite.audit.lint.known import Known, known_of
from rewrite.lang import ast
from rewrite.lang.printer import print_expr
from rewrite.lang.versions import Operators
from rewrite.lang.walk import nodes, replace_nodes
from rewrite.match.operators import MIRRORED

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_MOST_INLINED = 40  # nodes of a `let` that is put in the place of its name

Truth = OneOf["always", "never", "repeated"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`condition` or a part of it. `repeated`: by what an earlier condition demands, `earlier`."""

    truth: Truth
    condition: ast.Expr
    where: ast.Where | None
    earlier: ast.Expr | None = None


@dataclass(frozen=True, slots=True)
class _Told:
    """What conditions have said: of a term, of a whole condition; and where."""

    domain: Domain
    by: ast.Expr


@dataclass
class Conditions:
    """Goes through the conditions of one rule in the order of its text."""

    known: Known
    lets: Mapping[str, ast.Expr] = field(default_factory=dict)
    _terms: dict[tuple[str | None, str], _Told] = field(default_factory=dict)
    _texts: dict[tuple[str | None, str], ast.Expr] = field(default_factory=dict)

    def verdicts(self, rule: ast.Rule) -> Iterator[Verdict]:
        """Of `where`, then of the guards of branches and siblings."""
        lets: dict[str, ast.Expr] = {}
        for step in rule.steps:
            if isinstance(step, ast.Let):
                value = inlined(step.value, lets)
                if sum(1 for _ in nodes(value)) <= _MOST_INLINED:
                    lets[step.name] = value
                continue
            self.lets = lets
            for atom in conjuncts(step.condition):
                yield from self._judge(atom, step)
                self._learn(inlined(atom, lets), atom, step.when)
        self._terms.clear()
        self._texts.clear()
        for guard in guards(rule):
            for atom in conjuncts(guard):
                yield from self._judge(atom, None)

    def learn(self, rule: ast.Rule) -> None:
        """What the rule's unconditional conditions say, for `truth` to be asked about others."""
        lets: dict[str, ast.Expr] = {}
        for step in rule.steps:
            if isinstance(step, ast.Let):
                lets[step.name] = inlined(step.value, lets)
            elif step.when is None:
                for atom in conjuncts(step.condition):
                    self._learn(inlined(atom, lets), atom, None)

    def possible(self, term: str) -> Domain | None:
        """The values that the pattern and the conditions learned leave to a term."""
        told = self._terms.get((None, term))
        return self.known.possible(term) if told is None else told.domain

    def _judge(self, atom: ast.Expr, where: ast.Where | None) -> Iterator[Verdict]:
        when = None if where is None else where.when
        full = inlined(atom, self.lets)
        truth, earlier = self.truth(full, when)
        if truth is not None:
            word: Truth = "never" if not truth else "always" if earlier is None else "repeated"
            yield Verdict(word, atom, where, earlier)
        elif isinstance(atom, ast.Binary) and atom.operator == "or":
            for side in (atom.left, atom.right):
                for part in conjuncts(side):
                    yield from self._judge(part, where)

    # --- truth

    def truth(self, expr: ast.Expr, when: str | None) -> tuple[bool | None, ast.Expr | None]:
        """Whether it holds, and the earlier condition that says so, if one is needed."""
        told = self._texts.get((None, text_of(expr))) or self._texts.get((when, text_of(expr)))
        if told is not None:
            return True, told
        if isinstance(expr, ast.Constant) and isinstance(expr.value, bool):
            return expr.value, None
        if isinstance(expr, ast.Unary) and expr.operator == "not":
            found, by = self.truth(expr.operand, when)
            return (None if found is None else not found), by
        if isinstance(expr, ast.Binary) and expr.operator in ("and", "or"):
            return self._both(expr, when)
        if isinstance(expr, ast.Call) and expr.function == "is_const":
            return self._constness(expr), None
        return self._compared(expr, when)

    def _both(self, expr: ast.Binary, when: str | None) -> tuple[bool | None, ast.Expr | None]:
        decisive = expr.operator == "or"
        sides = [self.truth(side, when) for side in (expr.left, expr.right)]
        for truth, by in sides:
            if truth is decisive:
                return truth, by
        if all(truth is (not decisive) for truth, _ in sides):
            return not decisive, sides[0][1] or sides[1][1]
        return None, None

    def _constness(self, expr: ast.Call) -> bool | None:
        name = expr.arguments[0] if expr.arguments else None
        if isinstance(name, ast.Name) and name.name in self.known.constants:
            return True
        return None

    def _compared(self, expr: ast.Expr, when: str | None) -> tuple[bool | None, ast.Expr | None]:
        comparison = comparison_of(expr)
        if comparison is None:
            return _literals(expr), None
        term, symbol, domain = comparison
        for scope in (None, when):
            told = self._terms.get((scope, term))
            if told is not None:
                found = _judged(told.domain, symbol, domain)
                if found is not None:
                    return found, told.by
        sure, possible = self.known.certain(term), self.known.possible(term)
        if sure is not None and (found := _judged(sure, symbol, domain)) is not None:
            return found, None
        never = possible is not None and _judged(possible, symbol, domain) is False
        return (False if never else None), None

    # --- what a condition that holds says

    def _learn(self, full: ast.Expr, atom: ast.Expr, when: str | None) -> None:
        self._texts.setdefault((when, text_of(full)), atom)
        negative = isinstance(full, ast.Unary) and full.operator == "not"
        comparison = comparison_of(full.operand if isinstance(full, ast.Unary) else full)
        if comparison is None:
            return
        term, symbol, domain = comparison
        if negative:
            turned = _turned(full, term)
            if turned is None:
                return
            symbol, domain = turned
        if symbol == "!=":
            return
        key = (when, term)
        before = self._terms.get(key)
        have = self.known.possible(term) if before is None else before.domain
        self._terms[key] = _Told(domain if have is None else domain.meet(have), atom)


def _judged(have: Domain, symbol: str, wanted: Domain) -> bool | None:
    """`wanted`: where `==` or the order holds; `!=` and `not in` turn it round."""
    inside, apart = have.within(wanted), have.meet(wanted).empty
    if have.empty or inside == apart:
        return None
    return inside if symbol != "!=" else apart


def _turned(full: ast.Expr, term: str) -> tuple[str, Domain] | None:
    """What `not (a < b)` says of a term that is one number, and not one for each element."""
    if not isinstance(full, ast.Unary) or not isinstance(full.operand, ast.Binary):
        return None
    if not term.startswith(("rank(", "len(", "uses(")):
        return None
    opposite = _NEGATED.get(full.operand.operator)
    if opposite is None:
        return None
    found = comparison_of(replace(full.operand, operator=opposite))
    return None if found is None else (found[1], found[2])


def comparison_of(expr: ast.Expr) -> tuple[str, str, Domain] | None:
    """A term compared with literals: its text, `==` or `!=` (turned round), the values meant."""
    if not isinstance(expr, ast.Binary):
        return None
    symbol, left, right = expr.operator, expr.left, expr.right
    if symbol in ("in", "not in"):
        values = _literal_list(right)
        if values is None or _literal(left) is not None:
            return None
        return text_of(left), "==" if symbol == "in" else "!=", one_of(values)
    if symbol not in MIRRORED:
        return None
    if _literal(left) is not None:
        symbol, left, right = MIRRORED[symbol], right, left
    value = _literal(right)
    if value is None or _literal(left) is not None:
        return None
    domain = compared("==" if symbol == "!=" else symbol, value)
    if domain is None:
        return None
    return text_of(left), "!=" if symbol == "!=" else "==", domain


def _literal(expr: ast.Expr) -> Literal | None:
    if isinstance(expr, ast.Constant):
        return expr.value
    if isinstance(expr, ast.Name) and expr.name in Known.DTYPE_NAMES:
        return expr.name
    if isinstance(expr, ast.Unary) and expr.operator == "-":
        value = _literal(expr.operand)
        return -value if isinstance(value, (int, float)) else None
    return None


def _literal_list(expr: ast.Expr) -> frozenset[Literal] | None:
    if not isinstance(expr, ast.ListExpr):
        return None
    values = [_literal(item) for item in expr.items]
    known = [value for value in values if value is not None]
    return frozenset(known) if len(known) == len(values) else None


def _literals(expr: ast.Expr) -> bool | None:
    """Two literals compared."""
    if not isinstance(expr, ast.Binary) or expr.operator not in MIRRORED:
        return None
    left, right = _literal(expr.left), _literal(expr.right)
    if left is None or right is None or isinstance(left, str) != isinstance(right, str):
        return None
    domain = compared("==" if expr.operator == "!=" else expr.operator, right)
    return None if domain is None else domain.has(left) != (expr.operator == "!=")


def text_of(expr: ast.Expr) -> str:
    """The expression as text, the same for `a < b` and `b > a`, for `x.rank` and `rank(x)`."""
    if isinstance(expr, ast.Field) and expr.name in ("rank", "dtype", "shape"):
        return f"{expr.name}({text_of(expr.base)})"
    if isinstance(expr, ast.Binary) and expr.operator in MIRRORED:
        left, right = text_of(expr.left), text_of(expr.right)
        if (left, right) > (right, left):
            return f"{right} {MIRRORED[expr.operator]} {left}"
        return f"{left} {expr.operator} {right}"
    return print_expr(expr)


def conjuncts(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The parts of `a and b and c`."""
    if isinstance(expr, ast.Binary) and expr.operator == "and":
        yield from conjuncts(expr.left)
        yield from conjuncts(expr.right)
    else:
        yield expr


def guards(rule: ast.Rule) -> Sequence[ast.Expr]:
    """Of branches and of siblings, in the order of the text."""
    return [
        node.guard
        for statement in rule.match
        for node in nodes(statement)
        if isinstance(node, ast.Alternative | ast.EachStatement) and node.guard is not None
    ]


def inlined(expr: ast.Expr, lets: Mapping[str, ast.Expr]) -> ast.Expr:
    """The expression with the names of `let`s replaced by what they are."""
    if not any(isinstance(n, ast.Name) and n.name in lets for n in nodes(expr)):
        return expr

    def change(node: ast.Node) -> ast.Node:
        return lets.get(node.name, node) if isinstance(node, ast.Name) else node

    result = replace_nodes(expr, change)
    assert isinstance(result, ast.Expr)
    return result


def verdicts(rule: ast.Rule, operators: Operators) -> tuple[Verdict, ...]:
    """What can be told of all conditions of a rule."""
    return tuple(Conditions(known_of(rule, operators)).verdicts(rule))
