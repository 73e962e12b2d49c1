"""Atoms that cannot decide, as other conditions speak of the same thing.

In: the `Tests` of a rule. Out: why no model shows an atom decisively true, or false; "" where one
may.

Of `A or (not A and B)` the second atom never decides alone. An atom is read as a statement about
*subjects*: the element type of a value, an expression that is compared with numbers or words, else
a truth value. Of a subject only some values matter: all element types; what it is compared with
and the numbers next to that; true and false. Each combination of the values of all subjects that
the atom's condition shares with others, directly or not, is tried. Conditions on anything else are
taken to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf, nextafter, prod
from typing import Any

from rewrite.audit.lint.conditions import comparison_of, text_of
from rewrite.audit.lint.domain import Domain, Literal
from rewrite.lang import ast
from rewrite.match.items import Atom, Every, Formula, Tests, atoms
from rewrite.match.operators import COMPARE
from rewrite.ops.dtypes import BITS
from rewrite.schema import DTYPE_CLASSES, DTYPES

_MOST = 20_000  # combinations
_OTHER = "\0"  # a word that no rule has

Values = Mapping[str, Any]  # subject -> value
_Typed = tuple[str, Callable[[str], Any]]  # a subject, what is asked of its element type
_OF_TYPE: Mapping[str, Callable[[str], Any]] = {
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
    alone = _typed(expr)
    if alone is not None:
        subject, of = alone
        return _Claim(lambda values: bool(of(values[subject])), {subject: None})
    one = other = None
    if isinstance(expr, ast.Binary):
        one, other = _typed(expr.left), _typed(expr.right)
        if one is not None and other is not None and expr.operator in COMPARE:
            return _of_two_types(COMPARE[expr.operator], one, other)
    term, symbol, domain = comparison_of(expr) or ("", "", Domain())
    typed, edges = one or other, _edges(domain)
    if not edges:  # no comparison, or one that every number passes
        subject = text_of(expr)
        return _Claim(lambda values: bool(values[subject]), {subject: ()})
    subject, of = typed or (term, _same)
    compared = {subject: None if typed else edges}
    return _Claim(lambda values: domain.has(of(values[subject])) is (symbol == "=="), compared)


def _of_two_types(compare: Callable[[Any, Any], bool], one: _Typed, other: _Typed) -> _Claim:
    (a, of_a), (b, of_b) = one, other
    return _Claim(lambda v: bool(compare(of_a(v[a]), of_b(v[b]))), {a: None, b: None})


def _typed(expr: ast.Expr) -> _Typed | None:
    """The subject and the function where the expression is one of an element type."""
    if not isinstance(expr, ast.Call) or expr.function not in _OF_TYPE or len(expr.arguments) != 1:
        return None
    return f"type of {text_of(expr.arguments[0])}", _OF_TYPE[expr.function]


def _same(value: Any) -> Any:
    return value


def _edges(domain: Domain) -> tuple[Literal, ...]:
    """What a subject was compared with: not the end that a domain has where nothing was said."""
    if domain.values is not None:
        return tuple(domain.values)
    low = () if (domain.low, domain.low_open) == (-inf, False) else (domain.low,)
    high = () if (domain.high, domain.high_open) == (inf, False) else (domain.high,)
    return (*low, *high)
