"""The element types that the terms of a rule can have.

In: the terms of both sides, the range of opsets. Out: each assignment of element types that ONNX
allows what is matched (`assignments`). Terms that must have one type share a slot.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rewrite.audit.claims.smt.operators import COMPARISONS, LOGICAL
from rewrite.audit.claims.smt.terms import (
    Computed,
    Leaf,
    Node,
    NotCoveredError,
    Term,
    TypeOf,
    inside,
)
from rewrite.match.form import Operator
from rewrite.ops import schemas
from rewrite.ops.dtypes import from_type_string
from rewrite.schema import DTYPES

MOST_ASSIGNMENTS = 3000


@dataclass
class Slots:
    """Classes of terms of one element type, and the types that each may have."""

    parent: dict[int, int] = field(default_factory=dict)
    allowed: dict[int, frozenset[str]] = field(default_factory=dict)

    def of(self, term: Term) -> int:
        """The class of a term."""
        key = id(term)
        self.parent.setdefault(key, key)
        while self.parent[key] != key:
            key = self.parent[key]
        return key

    def same(self, *terms: Term | None) -> None:
        keys = [self.of(t) for t in terms if t is not None]
        for key in keys[1:]:
            a, b = self._root(keys[0]), self._root(key)
            if a != b:
                self.parent[b] = a
                limits = [self.allowed[k] for k in (a, b) if k in self.allowed]
                if limits:
                    self.allowed[a] = frozenset.intersection(*limits)

    def only(self, term: Term) -> str:
        """The one type that a term can have; "" where there are several."""
        found = self.allowed.get(self.of(term), frozenset())
        return next(iter(found)) if len(found) == 1 else ""

    def limit(self, term: Term | None, dtypes: frozenset[str]) -> None:
        if term is not None:
            key = self.of(term)
            self.allowed[key] = self.allowed.get(key, dtypes) & dtypes

    def _root(self, key: int) -> int:
        while self.parent[key] != key:
            key = self.parent[key]
        return key


@dataclass(frozen=True)
class Types:
    """One assignment."""

    slots: Slots
    chosen: Mapping[int, str]

    def of(self, term: Term) -> str | None:
        """None: nothing says which. What is computed has the type of what it is computed from."""
        if id(term) in self.slots.parent:
            found = self.chosen.get(self.slots.of(term))
            if found is not None:
                return found
        if isinstance(term, Computed):
            known = (self.of(argument) for argument in term.arguments)
            return next((dtype for dtype in known if dtype is not None), None)
        return None


def assignments(
    sources: Sequence[Term], targets: Sequence[Term], opset: tuple[int, int]
) -> Iterator[Types]:
    """Every assignment for what is matched, with what is emitted. Raises `NotCoveredError`."""
    slots = slots_of(sources, targets, opset)
    keep = list(inside(*sources, *targets))
    for source, target in zip(sources, targets, strict=True):
        slots.same(source, target)
    keys = list(dict.fromkeys(slots.of(t) for t in keep))
    every = frozenset(DTYPES)
    order = list(DTYPES)
    limits = [sorted(slots.allowed.get(k, every), key=order.index) for k in keys]
    count = 1
    for limit in limits:
        count *= len(limit)
    if count > MOST_ASSIGNMENTS:
        raise NotCoveredError("there are too many element types")
    for choice in itertools.product(*limits):
        yield Types(slots, dict(zip(keys, choice, strict=True)))


def slots_of(sources: Sequence[Term], targets: Sequence[Term], opset: tuple[int, int]) -> Slots:
    """The classes of terms by the schemas alone. Raises `NotCoveredError`."""
    slots = Slots()
    matched = {id(term) for term in inside(*sources)}
    for term in inside(*sources, *targets):
        _constrain(slots, term, opset, matched=id(term) in matched)
    return slots


def _constrain(slots: Slots, term: Term, opset: tuple[int, int], matched: bool) -> None:
    slots.of(term)
    if isinstance(term, Leaf):
        if term.dtypes is not None:
            slots.limit(term, term.dtypes)
        if term.operator is not None:
            slots.limit(term, admitted(term.operator, opset, "output"))
    elif isinstance(term, Computed):
        if term.function in ("max", "min", "neg", "max of", "min of"):
            slots.same(term, *term.arguments)
    elif isinstance(term, Node):
        _node(slots, term, opset, matched)


def _node(slots: Slots, node: Node, opset: tuple[int, int], matched: bool) -> None:
    name, operands = node.operator[1], node.operands
    inputs = admitted(node.operator, opset, "input") if matched else frozenset(DTYPES)
    if name == "Cast":
        slots.limit(operands[0], inputs)
        slots.limit(node, admitted(node.operator, opset, "output"))
        _cast(slots, node)
    elif name == "Where":
        slots.limit(operands[0], frozenset({"bool"}))
        slots.same(*operands[1:], node)
        slots.limit(node, admitted(node.operator, opset, "output"))
    elif name in COMPARISONS:
        slots.same(*operands)
        slots.limit(operands[0], inputs)
        slots.limit(node, frozenset({"bool"}))
    elif name == "Expand":
        slots.same(operands[0], node)
        slots.limit(node, inputs)
    elif name in LOGICAL:
        slots.same(*operands, node)
        slots.limit(node, frozenset({"bool"}))
    else:
        slots.same(*operands, node)
        slots.limit(node, inputs)


def _cast(slots: Slots, node: Node) -> None:
    to = node.attributes.get("to")
    if isinstance(to, TypeOf):
        slots.same(node, to.term)
    elif isinstance(to, tuple):
        slots.limit(node, frozenset(name for name in map(str, to) if name in DTYPES))


def admitted(operator: Operator, opset: tuple[int, int], side: str) -> frozenset[str]:
    """The element types of the first input or output in any version of the range."""
    versions = schemas.versions(*operator)
    low = max((v.since for v in versions if v.since <= opset[0]), default=0)
    found: set[str] = set()
    for version in versions:
        if low <= version.since <= opset[1] or operator[0]:
            parts = version.inputs if side == "input" else version.outputs
            if operator == ("", "Where"):
                parts = version.outputs
            if not parts:
                raise NotCoveredError("an operator without operands")
            kind = parts[0].type
            concrete = from_type_string(kind)
            found |= version.types.get(kind, frozenset() if concrete is None else {concrete})
    return frozenset(found)
