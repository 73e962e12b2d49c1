"""What a pattern says about the values it binds.

In: an expanded rule, the operators' schemas. Out: `Known`: constants, element types and ranks, both
what the match has tested (`certain`) and what the operators admit besides (`possible`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from rewrite.audit.lint.domain import Domain, one_of
from rewrite.lang import ast
from rewrite.lang.versions import Operators, Range
from rewrite.lang.walk import nodes
from rewrite.schema import DTYPE_CLASSES, DTYPES, OpSchema

_COUNTS = ("rank(", "len(", "uses(", "dim(", "bits(")


@dataclass
class Known:
    """By name. A name bound in several branches has what is true of all of them."""

    DTYPE_NAMES: ClassVar[frozenset[str]] = frozenset(DTYPES)

    constants: frozenset[str] = frozenset()
    tested: Mapping[str, frozenset[str]] = field(default_factory=dict)  # element types
    admitted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ranks: Mapping[str, Domain] = field(default_factory=dict)

    def certain(self, term: str) -> Domain | None:
        """The values of a term that the match has looked at; None where it may not be known."""
        kind, name = _split(term)
        if kind == "dtype":
            if name in self.tested:
                return one_of(frozenset(self.tested[name]))
            if name in self.constants and name in self.admitted:
                return one_of(frozenset(self.admitted[name]))
            return None
        if kind == "rank" and (name in self.ranks or name in self.constants):
            return self.ranks.get(name, Domain(low=0, whole=True))
        return None

    def possible(self, term: str) -> Domain | None:
        """The values of a term that there can be; None where nothing is known."""
        kind, name = _split(term)
        if kind == "dtype":
            allowed = self.admitted.get(name, self.DTYPE_NAMES)
            return one_of(frozenset(allowed & self.tested.get(name, allowed)))
        if kind == "rank":
            return self.ranks.get(name, Domain(low=0, whole=True))
        if term.startswith(_COUNTS):
            return Domain(low=0, whole=True)
        return Domain(low=0) if term.startswith("abs(") else None


def _split(term: str) -> tuple[str, str]:
    """`rank(x)` -> rank, x."""
    head, _, rest = term.partition("(")
    name = rest.removesuffix(")")
    return (head, name) if name.isidentifier() and rest.endswith(")") else ("", "")


@dataclass
class _Collector:
    operators: Operators
    opsets: Range
    constants: dict[str, list[bool]] = field(default_factory=dict)
    tested: dict[str, list[frozenset[str] | None]] = field(default_factory=dict)
    admitted: dict[str, list[frozenset[str] | None]] = field(default_factory=dict)
    ranks: dict[str, list[Domain | None]] = field(default_factory=dict)

    def variable(self, variable: ast.Variable | ast.Rest, slot: frozenset[str] | None) -> None:
        name, type_ = variable.name, variable.type
        dtypes = None if type_ is None or type_.dtypes is None else expand(type_.dtypes)
        self.constants.setdefault(name, []).append(type_ is not None and type_.const)
        self.tested.setdefault(name, []).append(dtypes)
        self.admitted.setdefault(name, []).append(slot)
        shape = None if type_ is None else type_.shape
        self.ranks.setdefault(name, []).append(None if shape is None else _rank(shape))

    def operator(self, pattern: ast.OpPattern) -> None:
        versions = self.operators.within(pattern.op, self.opsets)
        for place, operand in enumerate(pattern.operands):
            inner = operand
            if isinstance(inner, ast.Variable | ast.Rest):
                self.variable(inner, admitted(versions, place))


def known_of(rule: ast.Rule, operators: Operators) -> Known:
    """What the match says; a fact of a name that occurs twice holds if one of them is certain."""
    low, high = rule.opset
    opsets = (low or 0, high or operators.vocabulary.newest_opset)
    found = _Collector(operators, opsets)
    branched: set[str] = set()
    for statement in rule.match:
        inside = {id(n) for n in _inside_branches(statement)}
        loose = _loose(statement)
        for node in nodes(statement):
            if isinstance(node, ast.Variable | ast.Rest) and id(node) in inside:
                branched.add(node.name)
            if isinstance(node, ast.OpPattern):
                found.operator(node)
            elif isinstance(node, ast.Variable | ast.Rest) and id(node) in loose:
                found.variable(node, None)
    return Known(
        constants=frozenset(
            n for n, f in found.constants.items() if (all(f) if n in branched else any(f))
        ),
        tested=_types(found.tested, branched),
        admitted=_types(found.admitted, branched),
        ranks={
            name: ranks[0]
            for name, given in found.ranks.items()
            if name not in branched and (ranks := [r for r in given if r is not None])
        },
    )


def _types(
    found: Mapping[str, list[frozenset[str] | None]], branched: set[str]
) -> dict[str, frozenset[str]]:
    result: dict[str, frozenset[str]] = {}
    for name, given in found.items():
        sure = [types for types in given if types is not None]
        if name in branched:
            if sure and len(sure) == len(given):
                result[name] = frozenset().union(*sure)
        elif sure:
            result[name] = frozenset.intersection(*sure)
    return result


def _inside_branches(root: ast.Node) -> Iterator[ast.Node]:
    for node in nodes(root):
        if isinstance(node, ast.Alternatives):
            yield from nodes(node)


def _loose(root: ast.Node) -> frozenset[int]:
    """Variables that are no operands of an operator: items of bags, branches, starts of chains."""
    operands = {id(o) for n in nodes(root) if isinstance(n, ast.OpPattern) for o in n.operands}
    every = {id(n) for n in nodes(root) if isinstance(n, ast.Variable | ast.Rest)}
    return frozenset(every - operands)


def admitted(versions: tuple[OpSchema, ...], place: int) -> frozenset[str] | None:
    """The element types that some version takes at a place; None where that is not said."""
    found: set[str] = set()
    for version in versions:
        inputs = version.inputs
        if not inputs:
            return None
        operand = inputs[min(place, len(inputs) - 1)]
        if place >= len(inputs) and operand.option != "variadic":
            continue
        types = version.types.get(operand.type)
        if types is None:
            return None
        found |= types
    return frozenset(found) or None


def expand(dtypes: tuple[str, ...]) -> frozenset[str]:
    """Element types, classes of them resolved."""
    return frozenset().union(*(DTYPE_CLASSES.get(d, frozenset((d,))) for d in dtypes))


def _rank(shape: tuple[ast.DimPattern, ...]) -> Domain:
    fixed = sum(dim.kind != "ellipsis" for dim in shape)
    high = math.inf if fixed < len(shape) else fixed
    return Domain(low=fixed, high=high, whole=True)
