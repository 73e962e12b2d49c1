"""Atoms that cannot decide, as other conditions speak of the same thing.

In: the `Tests` of a rule. Out: why no model shows an atom decisively true, or false; "" where one
may.

Of `A or (not A and B)` the second atom never decides alone. An atom is read as a statement about
*subjects*: the element type of a value, an expression that is compared with numbers or words, else
a truth value. Of a subject only some values matter: all element types; what it is compared with
and the numbers next to that; true and false. Each combination of the values of all
subjects that the atom's condition shares with others, directly or not, is tried. Conditions on
anything else are taken to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf, nextafter, prod
from typing import Any

from rewrite.lang import ast
from rewrite.lang.printer import print_expr
from rewrite.match.items import Atom, Every, Formula, Tests, atoms
from rewrite.match.operators import COMPARE
from rewrite.ops.dtypes import BITS
from rewrite.schema import DTYPE_CLASSES, DTYPES

_MOST = 20_000  # combinations
_OTHER = "\0"  # a word that no rule has

Values = Mapping[str, Any]  # subject -> value
_OF_TYPE: Mapping[str, Callable[[str], object]] = {
    "dtype": lambda name: name,
    "bits": BITS.__getitem__,
    "is_int": DTYPE_CLASSES["int"].__contains__,
    "is_float": DTYPE_CLASSES["f"].__contains__,
}


@dataclass(frozen=True, slots=True)
class _Claim:
    """What an atom says. `compared`: subject -> what it is compared with; None: a type."""

    holds: Callable[[Values], bool]
    compared: Mapping[str, tuple[Any, ...] | None]


@dataclass(frozen=True)
class Coupled:
    """The atoms of a rule's conditions."""

    tests: Tests

    def reason(self, key: str, value: bool) -> str:
        """Why the atom never decides, being `value`."""
        formulas = (*self._formulas, *self.tests.guards)
        own = next((x for x in formulas if any(a.test.key == key for a in atoms(x))), None)
        if own is None:
            return ""
        together = self._together(own)
        domains = self._domains(together)
        if prod(map(len, domains.values())) > _MOST:
            return ""
        for values in product(*domains.values()):
            held = self._held(together, dict(zip(domains, values, strict=True)))
            other = held | {key: not held[key]}
            truth = [all(_holds(x, way) for x in together) for way in (held, other)]
            if held[key] is value and truth == [value, not value]:
                return ""
        word = "true" if value else "false"
        return f"being {word} it never decides: the conditions that speak of the same leave no way"

    @cached_property
    def _formulas(self) -> Sequence[Formula]:
        """Conditions that always matter."""
        return [c.formula for c in self.tests.wheres if c.when is None]

    @cached_property
    def _claims(self) -> Mapping[str, _Claim]:
        formulas = (*self._formulas, *self.tests.guards)
        return {a.test.key: _claim(a) for x in formulas for a in atoms(x)}

    def _subjects(self, formula: Formula) -> frozenset[str]:
        return frozenset(s for a in atoms(formula) for s in self._claims[a.test.key].compared)

    def _together(self, own: Formula) -> list[Formula]:
        """The condition, and those that share subjects with it, directly or not."""
        found, left = [own], [x for x in self._formulas if x is not own]
        subjects = self._subjects(own)
        while True:
            more = [x for x in left if subjects & self._subjects(x)]
            if not more:
                return found
            found += more
            left = [x for x in left if x not in more]
            subjects = subjects.union(*map(self._subjects, more))

    def _domains(self, together: Sequence[Formula]) -> dict[str, list[Any]]:
        compared: dict[str, list[Any] | None] = {}
        for atom in (a for x in together for a in atoms(x)):
            for subject, values in self._claims[atom.test.key].compared.items():
                known = compared.setdefault(subject, None if values is None else [])
                if known is not None:
                    known += values or ()
        return {s: _domain(values) for s, values in sorted(compared.items())}

    def _held(self, together: Sequence[Formula], values: Values) -> dict[str, bool]:
        found = (a for x in together for a in atoms(x))
        return {a.test.key: self._claims[a.test.key].holds(values) for a in found}


def _holds(formula: Formula, held: Mapping[str, bool]) -> bool:
    if isinstance(formula, Atom):
        return held[formula.test.key]
    parts = (_holds(part, held) for part in formula.parts)
    return all(parts) if isinstance(formula, Every) else any(parts)


def _domain(compared: list[Any] | None) -> list[Any]:
    """Values of a subject that differ in what is said of it."""
    if compared is None:
        return list(DTYPES)
    if not compared:
        return [True, False]
    numbers = {v for v in compared if isinstance(v, (int, float))}
    beside = {nextafter(v, end) for v in numbers for end in (-inf, inf)}
    words = sorted({v for v in compared if isinstance(v, str)})
    return [*sorted(numbers | beside), *words, *([_OTHER] if words else [])]


# --- what an atom says ---------------------------------------------------------------------------


def _claim(atom: Atom) -> _Claim:
    plain = _plain(atom.expr)
    if not atom.negated:
        return plain
    return _Claim(lambda values: not plain.holds(values), plain.compared)


def _plain(expr: ast.Expr) -> _Claim:
    """What the expression says, without a `not` around it."""
    typed = _typed(expr)
    if typed is not None:
        subject, of = typed
        return _Claim(lambda values: bool(of(values[subject])), {subject: None})
    if isinstance(expr, ast.Binary) and expr.operator in COMPARE:
        found = _comparison(expr)
        if found is not None:
            return found
    if isinstance(expr, ast.Binary) and expr.operator in ("in", "not in"):
        found = _membership(expr)
        if found is not None:
            return found
    subject = print_expr(expr)
    return _Claim(lambda values: bool(values[subject]), {subject: ()})


def _comparison(expr: ast.Binary) -> _Claim | None:
    compare = COMPARE[expr.operator]
    one, other = _typed(expr.left), _typed(expr.right)
    if one is not None and other is not None:
        (a, of_a), (b, of_b) = one, other
        return _Claim(lambda v: bool(compare(of_a(v[a]), of_b(v[b]))), {a: None, b: None})
    for side, against, turned in ((expr.left, expr.right, False), (expr.right, expr.left, True)):
        for constant in _constants([against]) or ():
            return _against(side, constant, compare, turned)
    return None


def _against(
    side: ast.Expr, constant: Any, compare: Callable[[Any, Any], bool], turned: bool
) -> _Claim | None:
    """The side compared with a constant; `turned`: the constant stands on the left."""
    typed = _typed(side)
    if typed is None and constant in DTYPES:
        return None
    subject, of = typed or (print_expr(side), _same)
    compared = {subject: None if typed else (constant,)}
    return _Claim(lambda v: _compared(compare, of(v[subject]), constant, turned), compared)


def _compared(compare: Callable[[Any, Any], bool], a: Any, b: Any, turned: bool) -> bool:
    """A word is neither above nor below a number."""
    if isinstance(a, str) is not isinstance(b, str):
        return compare is COMPARE["!="]
    return compare(b, a) if turned else compare(a, b)


def _membership(expr: ast.Binary) -> _Claim | None:
    listed = _constants(expr.right.items) if isinstance(expr.right, ast.ListExpr) else None
    typed = _typed(expr.left)
    if not listed or (typed is None and any(c in DTYPES for c in listed)):
        return None
    subject, of = typed or (print_expr(expr.left), _same)
    wanted = expr.operator == "in"
    compared = {subject: None if typed else tuple(listed)}
    return _Claim(lambda values: (of(values[subject]) in listed) is wanted, compared)


def _same(value: Any) -> Any:
    return value


def _typed(expr: ast.Expr) -> tuple[str, Callable[[str], object]] | None:
    """The subject and the function where the expression is one of an element type."""
    if not isinstance(expr, ast.Call) or expr.function not in _OF_TYPE or len(expr.arguments) != 1:
        return None
    return f"type of {print_expr(expr.arguments[0])}", _OF_TYPE[expr.function]


def _constants(exprs: Sequence[ast.Expr]) -> list[Any] | None:
    """Numbers, words and names of element types; None where something else stands there."""
    return list(found) if (found := list(_each(exprs))).count(None) == 0 else None


def _each(exprs: Sequence[ast.Expr]) -> Iterator[Any]:
    for expr in exprs:
        if isinstance(expr, ast.Constant) and isinstance(expr.value, (int, float, str)):
            yield expr.value
        elif isinstance(expr, ast.Name) and expr.name in DTYPES:
            yield expr.name
        else:
            yield None
