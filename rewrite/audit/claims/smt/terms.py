"""What the two sides of a rule compute, as terms.

In: nothing. Out: `Leaf`, `Node`, `Computed`, `Literal`, and `Way`: one choice of branches and of
operands that are present. Terms compare by identity: a value that is used twice is one term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rewrite.match import form as f


class NotCoveredError(Exception):
    """The rule, or a part of it, is not one that is translated."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A value of which only what is written is known.

    `number`: all elements of it are this number. `operator`: what makes it, where that is not
    translated; its value is then anything, or within `least` and `most`.
    """

    name: str
    const: bool = False
    dtypes: frozenset[str] | None = None
    shape: f.ShapeTest | None = None
    number: f.Number | None = None
    operator: f.Operator | None = None


@dataclass(frozen=True, eq=False)
class Node:
    """An operator. `attributes`: a tuple of values, a bound name (`Bound`), None for ignored."""

    operator: f.Operator
    operands: tuple[Term | None, ...]
    attributes: Mapping[str, object] = field(default_factory=dict)
    matched: bool = True
    dtypes: frozenset[str] | None = None


@dataclass(frozen=True)
class Bound:
    """An attribute that has a name."""

    name: str


@dataclass(frozen=True)
class TypeOf:
    """The element type of a term, as an attribute."""

    term: Term


@dataclass(frozen=True, eq=False)
class Computed:
    """A constant that is computed when the rule is applied: `max`, `min`, `neg`, `least of`..."""

    function: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Literal:
    """A number, which takes the element type of what it meets."""

    value: int | float


Term = Leaf | Node | Computed | Literal


@dataclass(frozen=True, eq=False)
class Way:
    """Names of the rule with their terms (None: absent), branches taken, places of guards."""

    names: Mapping[str, Term | None]
    branches: frozenset[str] = frozenset()
    guards: tuple[int, ...] = ()

    def holds(self, name: str) -> bool | None:
        """Whether an alternative was taken or an operand is there; None: neither is known."""
        if name in self.branches:
            return True
        if name in self.names:
            return self.names[name] is not None
        return None


def inside(*roots: Term | None) -> Iterator[Term]:
    """Every term once, operands before what uses them."""
    seen: dict[int, None] = {}
    found: list[Term] = []

    def visit(term: Term | None) -> None:
        if term is None or id(term) in seen:
            return
        seen[id(term)] = None
        parts = term.operands if isinstance(term, Node) else ()
        parts = term.arguments if isinstance(term, Computed) else parts
        for part in parts:
            visit(part)
        found.append(term)

    for root in roots:
        visit(root)
    yield from found
