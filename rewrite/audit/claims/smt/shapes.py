"""Whether both sides of a rule have the same shape and element type.

In: a compiled rule, a time. Out: whether they have, for all ranks from 0 to `RANKS` and all sizes.

A shape is a rank and that many sizes, counted from the last axis; behind the rank they are 1, as
broadcasting takes them. Operators are of two kinds: those of the shape of one operand, and those
that broadcast all of theirs; whatever else is matched has any shape, and is not emitted. What is
matched is valid: sizes that meet are equal or 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import z3

from rewrite.audit.claims.smt.element_types import slots_of
from rewrite.audit.claims.smt.emission import Expressions, emitted
from rewrite.audit.claims.smt.operators import TRANSLATED
from rewrite.audit.claims.smt.terms import Computed, Leaf, NotCoveredError, Term, Way
from rewrite.audit.claims.smt.terms import Literal as Number
from rewrite.audit.claims.smt.ways import ways
from rewrite.lang import ast
from rewrite.match import form as f
from rewrite.match.operators import COMPARE
from rewrite.match.rule import CompiledRule
from rewrite.ops import registry as operators
from rewrite.ops import schemas

Term3 = Any
RANKS = 5
STEPS = 4_000_000  # of z3, for one query
_SECONDS = 6.0
# The shape is that of the first operand.
_FIRST = frozenset(("", name) for name in ("Clip", "Softmax", "LogSoftmax", "Hardmax", "PRelu"))
_OTHER = frozenset(("", name) for name in ("BitCast", "SwiGLU"))  # not that of the operands


def shapes_hold(rule: CompiledRule, seconds: float) -> bool:
    """Whether it is shown; False where it is not, for whatever reason."""
    z3.z3._main_ctx = None  # what z3 does depends on what was made in a context before
    end = time.process_time() + min(seconds, _SECONDS)
    try:
        known = _translated()
        found = ways(rule, known)
        return bool(rule.emit) and all(_holds(rule, way, known, end) for way in found)
    except NotCoveredError:
        return False


@cache
def _translated() -> frozenset[f.Operator]:
    """Those whose shape is known, and whose element types are those of `values`, or all one."""
    shaped = {o for o in operators.pointwise() | _FIRST if o[0] == ""} - _OTHER
    return frozenset(o for o in shaped if o in TRANSLATED or _of_one_type(o))


def _of_one_type(operator: f.Operator) -> bool:
    versions = schemas.versions(*operator)
    kinds = [{p.type for p in (*v.inputs, *v.outputs)} for v in versions]
    return all(len(kind) == 1 for kind in kinds)


def _holds(rule: CompiledRule, way: Way, known: frozenset[f.Operator], end: float) -> bool:
    if time.process_time() >= end:
        raise NotCoveredError("the time is over")
    expressions = Expressions.of(rule, way)
    case = _Case(known)
    goals: list[Term3] = []
    for name, target in emitted(rule, expressions).items():
        source = way.names.get(name)
        if source is None or not _of_same_type(rule, expressions, source, target):
            return False
        old, new = case.of(source, True), case.of(target, False)
        goals.append(old.same(new))
    for expr in _conditions(rule, way):
        case.assume(expr, expressions)
    solver = z3.Solver()
    solver.set("rlimit", STEPS)
    solver.add(*case.assumed)
    if solver.check() == z3.unsat:
        return True  # it never matches like that
    solver.add(z3.Not(z3.And(*goals, *case.duties)))
    return bool(solver.check() == z3.unsat)


def _of_same_type(rule: CompiledRule, expressions: Expressions, source: Term, target: Term) -> bool:
    """Whether the element types of both are one, by the schemas or by a condition."""
    types = slots_of([source], [target], rule.opset)
    for expr in _conditions(rule, expressions.way):
        if isinstance(expr, ast.Binary) and expr.operator == "==":
            sides = [_typed(side, expressions.way) for side in (expr.left, expr.right)]
            if None not in sides:
                types.same(*sides)
    return types.of(source) == types.of(target) or types.only(source) == types.only(target) != ""


def _typed(expr: ast.Expr, way: Way) -> Term | None:
    """The value of `dtype(value)`."""
    if isinstance(expr, ast.Call) and expr.function == "dtype" and len(expr.arguments) == 1:
        (argument,) = expr.arguments
        return way.names.get(argument.name) if isinstance(argument, ast.Name) else None
    return None


def _conditions(rule: CompiledRule, way: Way) -> Iterator[ast.Expr]:
    yield from (rule.pattern.guards[number] for number in way.guards)
    for step in rule.rule.steps:
        if isinstance(step, ast.Where) and (step.when is None or way.holds(step.when)):
            yield step.condition


@dataclass(frozen=True, eq=False)
class Shape:
    """`dims[i]`: the size of the axis i + 1 from the end, 1 behind the rank."""

    rank: Term3
    dims: tuple[Term3, ...]

    def same(self, other: Shape) -> Term3:
        pairs = zip(self.dims, other.dims, strict=True)
        return z3.And(self.rank == other.rank, *(a == b for a, b in pairs))


@dataclass
class _Case:
    known: frozenset[f.Operator]
    assumed: list[Term3] = field(default_factory=list)
    made: dict[int, tuple[Term, Shape]] = field(default_factory=dict)
    duties: list[Term3] = field(default_factory=list)  # that what is emitted is valid

    def of(self, term: Term | None, matched: bool) -> Shape:
        """The shape of a term; what is matched is valid, what is emitted is to be."""
        if term is None:
            raise NotCoveredError("an absent operand")
        if id(term) not in self.made:
            self.made[id(term)] = (term, self._make(term, matched))
        return self.made[id(term)][1]

    def _make(self, term: Term, matched: bool) -> Shape:
        if isinstance(term, Leaf):
            return self._leaf(term)
        if isinstance(term, Number):
            return scalar()
        if isinstance(term, Computed):
            if term.function in ("max", "min", "neg"):
                return self._broadcast([self.of(a, True) for a in term.arguments], True)
            return scalar()
        if term.operator not in self.known:
            raise NotCoveredError(term.operator[1])
        if term.operator in _FIRST:
            return self.of(term.operands[0], matched)
        operands = [self.of(o, matched) for o in term.operands if o is not None]
        return self._broadcast(operands, matched)

    def _leaf(self, leaf: Leaf) -> Shape:
        number = len(self.made)
        rank = z3.Int(f"rank{number}")
        dims = tuple(z3.Int(f"dim{number}_{i}") for i in range(RANKS))
        self.assumed += [rank >= 0, rank <= RANKS]
        for i, dim in enumerate(dims):
            self.assumed += [dim >= 0, z3.Implies(rank <= i, dim == 1)]
        shape = Shape(rank, dims)
        if leaf.shape is not None:
            self._written(shape, leaf.shape)
        return shape

    def _written(self, shape: Shape, test: f.ShapeTest) -> None:
        """What a type pattern says of the rank and of sizes in numbers."""
        least = len(test.front) + len(test.back)
        self.assumed.append(shape.rank >= least if test.ellipsis else shape.rank == least)
        last = test.back if test.ellipsis else test.front
        for i, dim in enumerate(reversed(last)):
            if dim.size is not None and i < RANKS:
                self.assumed.append(shape.dims[i] == dim.size)

    def _broadcast(self, shapes: Sequence[Shape], matched: bool) -> Shape:
        if not shapes:
            raise NotCoveredError("no operands")
        found = shapes[0]
        for other in shapes[1:]:
            dims: list[Term3] = []
            for a, b in zip(found.dims, other.dims, strict=True):
                meet = z3.Or(a == b, a == 1, b == 1)
                (self.assumed if matched else self.duties).append(meet)
                dims.append(z3.If(a == 1, b, a))
            rank = z3.If(found.rank < other.rank, other.rank, found.rank)
            found = Shape(rank, tuple(dims))
        return found

    # --- conditions ------------------------------------------------------------------------------

    def assume(self, expr: ast.Expr, expressions: Expressions) -> None:
        """What a condition says of shapes, where it is translated."""
        if isinstance(expr, ast.Binary) and expr.operator == "and":
            self.assume(expr.left, expressions)
            self.assume(expr.right, expressions)
            return
        if not isinstance(expr, ast.Binary) or expr.operator not in COMPARE:
            return
        try:
            left, right = (self._side(e, expressions) for e in (expr.left, expr.right))
        except NotCoveredError:
            return
        if isinstance(left, Shape) and isinstance(right, Shape):
            if expr.operator == "==":
                self.assumed.append(left.same(right))
        elif not isinstance(left, Shape) and not isinstance(right, Shape):
            self.assumed.append(COMPARE[expr.operator](left, right))

    def _side(self, expr: ast.Expr, expressions: Expressions) -> Shape | Term3:
        if isinstance(expr, ast.Constant) and type(expr.value) is int:
            return z3.IntVal(expr.value)
        if not isinstance(expr, ast.Call) or len(expr.arguments) != 1:
            raise NotCoveredError("another function")
        (argument,) = expr.arguments
        if not isinstance(argument, ast.Name) or argument.name not in expressions.way.names:
            raise NotCoveredError("another value")
        shape = self.of(expressions.way.names[argument.name], True)
        if expr.function == "shape":
            return shape
        if expr.function == "rank":
            return shape.rank
        if expr.function == "size":
            product = z3.IntVal(1)
            for dim in shape.dims:
                product = product * dim
            return product
        raise NotCoveredError(expr.function)


def scalar() -> Shape:
    """Rank 0."""
    return Shape(z3.IntVal(0), tuple(z3.IntVal(1) for _ in range(RANKS)))
