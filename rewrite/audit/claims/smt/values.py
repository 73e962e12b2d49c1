"""Whether both sides of an elementwise rule give the same number.

In: a compiled rule, a time. Out: `Settled`: every case closed; or one in which z3 has numbers that
tell both sides apart; or neither.

One element of the result is looked at, and the elements of the operands that broadcasting brings
together there. The shape of the result stays (the engine applies nothing else), so both sides see
the same elements. A query is bounded by z3's count of its own steps, which is the same everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import z3

from rewrite.audit.claims.smt import numbers as n
from rewrite.audit.claims.smt.conditions import Conditions
from rewrite.audit.claims.smt.element_types import Types, assignments
from rewrite.audit.claims.smt.emission import Expressions, emitted
from rewrite.audit.claims.smt.operators import TRANSLATED, Machine
from rewrite.audit.claims.smt.terms import (
    Computed,
    Leaf,
    Node,
    NotCoveredError,
    Term,
    Way,
    inside,
)
from rewrite.audit.claims.smt.terms import Literal as Number
from rewrite.audit.claims.smt.ways import ways
from rewrite.audit.feeds import Array
from rewrite.lang import ast
from rewrite.match.rule import CompiledRule
from rewrite.match.structure import TOLERANCES
from rewrite.schema import DTYPES

Term3 = Any
MOST_SECONDS = 12.0  # for one rule
STEPS = 4_000_000  # of z3, for one query: about a second
# Functions whose values ONNX's definitions bound, from below or on both sides.
_RANGES: Mapping[str, tuple[float, float | None]] = {
    "Exp": (0, None),
    "Sqrt": (0, None),
    "Softplus": (0, None),
    "Sigmoid": (0, 1),
    "HardSigmoid": (0, 1),
    "Softmax": (0, 1),
}


@dataclass(frozen=True)
class Apart:
    """Numbers on which both sides differ, by leaf; none for values of types without numbers."""

    way: Way
    types: Types
    numbers: Mapping[Term, Array]


@dataclass(frozen=True)
class Settled:
    """`dtypes`: of what is matched; `reason`: why it is open."""

    status: Literal["closed", "apart", "open"]
    dtypes: tuple[str, ...] = ()
    reason: str = ""
    apart: Apart | None = None


@lru_cache(maxsize=4)
def settle(rule: CompiledRule, seconds: float) -> Settled:
    """Every way to match, every assignment of element types; the last answers are kept."""
    # What z3 does depends on what was made in a context before.
    z3.z3._main_ctx = None
    end = time.process_time() + min(seconds, MOST_SECONDS)
    try:
        return _settle(rule, end)
    except NotCoveredError as problem:
        return Settled("open", reason=str(problem))


def _settle(rule: CompiledRule, end: float) -> Settled:
    dtypes: dict[str, None] = {}
    if not rule.emit or rule.claim.kind == "certified":
        raise NotCoveredError("nothing to compare")
    for way in ways(rule, TRANSLATED):
        expressions = Expressions.of(rule, way)
        found = emitted(rule, expressions)
        sources = [_source(way, name) for name in found]
        for types in assignments(sources, list(found.values()), rule.opset):
            if time.process_time() >= end:
                return Settled("open", reason="the time is over")
            outcome = _Case(rule, expressions, types).outcome(sources, list(found.values()))
            if outcome not in ("never", "closed") and rule.claim.kind not in ("exact", "lsb"):
                case = _Case(rule, expressions, types, regular=True)
                outcome = case.outcome(sources, list(found.values()))
            if outcome == "never":
                continue
            if outcome != "closed":
                return outcome if isinstance(outcome, Settled) else Settled("open", reason=outcome)
            dtypes |= dict.fromkeys(str(types.of(s)) for s in inside(*sources) if types.of(s))
    if not dtypes:
        return Settled("open", reason="it never matches")
    return Settled("closed", tuple(sorted(dtypes, key=list(DTYPES).index)))


def _source(way: Way, name: str) -> Term:
    found = way.names.get(name)
    if not isinstance(found, Node):
        raise NotCoveredError("the root is not translated")
    return found


@dataclass
class _Case:
    rule: CompiledRule
    expressions: Expressions
    types: Types
    terms: dict[int, tuple[Term, Term3]] = field(default_factory=dict)
    assumed: list[Term3] = field(default_factory=list)
    reduced: dict[tuple[str, int], Term3] = field(default_factory=dict)
    regular: bool = False  # constants, too, are what claims that are not exact speak of

    def __post_init__(self) -> None:
        self.machine = Machine(self.rule.opset)
        self.exact = self.rule.claim.kind in ("exact", "lsb")

    def outcome(self, sources: Sequence[Term], targets: Sequence[Term]) -> str | Settled:
        """`closed`, `never` where it cannot match, a reason where neither, or what is apart."""
        conditions = Conditions(self.expressions, self.types, self.of)
        self._pin()
        for expr in self._conditions():
            known = conditions.implied(expr)
            if known is not None and z3.is_false(z3.simplify(known)):
                return "never"
            if known is not None:
                self.assumed.append(known)
        olds = [self.of(s) for s in sources]
        news = [self.of(t) for t in targets]
        kinds = [str(self.types.of(s)) for s in sources]
        rows = zip(olds, news, kinds, strict=True)
        wanted = [n.same(a, b, kind, self.exact) for a, b, kind in rows]
        solver = z3.Solver()
        solver.set("rlimit", STEPS)
        solver.add(*self.assumed)
        if solver.check() == z3.unsat:
            return "never"
        solver.add(z3.Not(z3.And(*wanted, *self.machine.duties)))
        answer = solver.check()
        if answer == z3.unsat:
            return "closed"
        if answer == z3.unknown:
            return "z3 gave up"
        model = solver.model()
        solver.add(*self._usual())
        if solver.check() == z3.sat:
            model = solver.model()
        return Settled("apart", apart=self._apart(model))

    def _usual(self) -> list[Term3]:
        """Floats near 1: claims do not speak of numbers that products lose."""
        found: list[Term3] = []
        for term, made in self.terms.values():
            dtype = self.types.of(term)
            if isinstance(term, Leaf) and dtype in n.FLOATS:
                size = z3.fpAbs(made)
                low, high = n.number(2.0**-4, dtype), n.number(2.0**4, dtype)
                near = z3.And(z3.fpLEQ(low, size), z3.fpLEQ(size, high))
                found.append(z3.Or(z3.fpIsZero(made), near))
        return found

    def _conditions(self) -> list[ast.Expr]:
        found = [self.rule.pattern.guards[number] for number in self.expressions.way.guards]
        for step in self.rule.rule.steps:
            if not isinstance(step, ast.Where):
                continue
            if step.when is None or (
                step.when not in self.expressions.lets and self.expressions.way.holds(step.when)
            ):
                found.append(step.condition)
        return found

    def _pin(self) -> None:
        """Constants that a condition says to be one number, not 0, are that number."""
        for expr in self._conditions():
            if not isinstance(expr, ast.Binary) or expr.operator != "==":
                continue
            try:
                left, right = self.expressions.value(expr.left), self.expressions.value(expr.right)
                dtype = self.types.of(left) if isinstance(left, Leaf) and left.const else None
                if left is None or dtype is None or not isinstance(right, Number):
                    continue
                if right.value and dtype in (*n.FLOATS, *n.INTEGERS):
                    self.terms[id(left)] = (left, n.number(right.value, dtype))
            except NotCoveredError:
                continue  # it is asked again as a condition

    def _apart(self, model: Any) -> Apart:
        shown: dict[Term, Array] = {}
        for term, made in self.terms.values():
            dtype = self.types.of(term)
            if isinstance(term, Leaf) and (dtype == "bool" or dtype in (*n.FLOATS, *n.INTEGERS)):
                shown[term] = n.array_of(model.eval(made, model_completion=True), str(dtype))
        return Apart(self.expressions.way, self.types, shown)

    # --- terms ---------------------------------------------------------------------------------

    def of(self, term: Term) -> Term3:
        """The expression of a term, made once."""
        if id(term) not in self.terms:
            self.terms[id(term)] = (term, self._made(term))
        return self.terms[id(term)][1]

    def _made(self, term: Term) -> Term3:
        dtype = self.types.of(term)
        if dtype is None:
            raise NotCoveredError("an element type that is not known")
        if isinstance(term, Leaf):
            return self._leaf(term, dtype)
        if isinstance(term, Number):
            return n.number(term.value, dtype)
        if isinstance(term, Computed):
            return self._computed(term, dtype)
        name = term.operator[1]
        parts = term.operands[:1] if name == "Expand" else term.operands
        operands = [None if o is None else self.of(o) for o in parts]
        kinds = [str(self.types.of(o)) for o in parts if o is not None]
        made = self.machine.run(name, operands, term.attributes, [*kinds, dtype], term.matched)
        if term.matched and not self.exact:
            self.assumed.append(n.is_regular(made, dtype))
            if name in ("Abs", "Neg") and dtype in n.INTEGERS and n.is_signed(dtype):
                self.assumed.append(operands[0] != n.ends(dtype)[0])  # it overflows
        return made

    def _leaf(self, leaf: Leaf, dtype: str) -> Term3:
        made = z3.Const(f"{leaf.name}!{len(self.terms)}", n.sort(dtype))
        if leaf.number is not None:
            form = leaf.number
            if form.value and form.exact and form.tolerance is None and dtype in n.FLOATS:
                return n.number(form.value, dtype)
            self.assumed.append(self._is_number(made, leaf, dtype))
        elif not self.exact and (self.regular or not leaf.const):
            self.assumed.append(n.is_regular(made, dtype))
        domain, name = leaf.operator or ("", "")
        if domain == "" and name in _RANGES and dtype in n.FLOATS:
            least, most = _RANGES[name]
            inside_ = [n.compare(">=", made, n.number(least, dtype), dtype)]
            if most is not None:
                inside_.append(n.compare("<=", made, n.number(most, dtype), dtype))
            self.assumed.append(z3.Or(z3.fpIsNaN(made), z3.And(*inside_)))
        return made

    def _is_number(self, made: Term3, leaf: Leaf, dtype: str) -> Term3:
        """As `rewrite.match.structure.number_holds`, or less."""
        form = leaf.number
        assert form is not None
        if dtype not in n.FLOATS:
            known = dtype == "bool" or dtype in n.INTEGERS
            return made == n.number(form.value, dtype) if known else z3.BoolVal(True)
        nearest = z3.fpEQ(made, n.number(form.value, dtype))
        if form.value == 0 or (form.exact and form.tolerance is None):
            return nearest
        tolerance = form.tolerance if form.tolerance is not None else TOLERANCES.get(dtype, 0.0)
        apart = abs(form.value) * tolerance * (1 + 2.0**-40)
        low, high = n.number(form.value - apart, dtype), n.number(form.value + apart, dtype)
        return z3.Or(nearest, z3.And(z3.fpLEQ(low, made), z3.fpLEQ(made, high)))

    def _computed(self, term: Computed, dtype: str) -> Term3:
        given = term.arguments
        if term.function in ("max", "min"):
            a, b = (self._as(g, dtype) for g in given)
            return self.machine.choose(term.function.capitalize(), a, b, dtype)
        if term.function == "neg":
            operand = self.of(given[0])
            if dtype in n.FLOATS:
                return z3.fpNeg(operand)
            if dtype not in n.INTEGERS:
                raise NotCoveredError("a negation")
            # A constant out of the range of its type is refused.
            least = n.ends(dtype)[0]
            bad = operand == least if n.is_signed(dtype) else operand != n.number(0, dtype)
            self.assumed.append(z3.Not(bad))
            return -operand
        if term.function in ("max of", "min of"):
            return self._reduced(term, dtype)
        return self._end(term)

    def _as(self, term: Term, dtype: str) -> Term3:
        """A number takes the type of what it meets."""
        return n.number(term.value, dtype) if isinstance(term, Number) else self.of(term)

    def _reduced(self, term: Computed, dtype: str) -> Term3:
        """The least or largest element: this one is not beyond it; a NaN makes it NaN."""
        key = (term.function, id(term.arguments[0]))
        if key in self.reduced:
            return self.reduced[key]
        made = self.reduced[key] = z3.Const(f"{term.function}!{len(self.terms)}", n.sort(dtype))
        element = self.of(term.arguments[0])
        symbol = "<=" if term.function == "min of" else ">="
        bound = n.compare(symbol, made, element, dtype)
        if dtype in n.FLOATS:
            bound = z3.Or(bound, z3.fpIsNaN(made))
        self.assumed.append(bound)
        return made

    def _end(self, term: Computed) -> Term3:
        dtype = self.types.of(term.arguments[0])
        if dtype is None:
            raise NotCoveredError("an element type that is not known")
        low, high = n.ends(dtype, finite=term.function.startswith("finite"))
        return low if term.function.endswith("lowest") else high
