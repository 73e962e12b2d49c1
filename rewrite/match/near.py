"""Near matches: what would have to be different for a rule to match at a node.

In: a `CompiledRule`, a node as anchor, facts. Out: the smallest sets of tests that do not hold
there (`Near`): the rule would match if exactly these held. An empty set is a match.

This is the interpreter's own walk, allowed to go on behind tests that fail. A set of conditions
that fail has a price: one for a test, for a part of the pattern that is nothing like the value the
number of operators in it. The search is repeated with a growing allowance and ends at the first
that leads to a match, so that what is found is smallest; nothing is computed with names that a
missing part would have bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import onnx_ir as ir

from rewrite.errors import Span
from rewrite.graph.facts import Facts
from rewrite.lang import ast
from rewrite.match import budget, structure
from rewrite.match import form as f
from rewrite.match.accept import FORM, Failure, Taken, applies, escapes, roots_of, same_node
from rewrite.match.expr import names_in
from rewrite.match.interpreter import Search
from rewrite.match.items import Atom, Every, Formula, atoms, tests_of
from rewrite.match.parts import parts_of
from rewrite.match.rule import CompiledRule
from rewrite.match.values import Env, Unknown
from rewrite.match.walk import Chosen, Guarded, Operand
from rewrite.target.target import Target

MOST_VIOLATIONS = 3
MOST_SETS = 8  # of violations that one formula, or one anchor, is told about


@dataclass(frozen=True, slots=True)
class Violation:
    """A test that does not hold. `code` is a reason code; `key` names the test in its rule."""

    code: str
    reason: str
    key: str
    span: Span | None
    subject: str
    at: object = field(default=None, compare=False, repr=False)  # the node or value itself
    scope: Env | None = field(default=None, compare=False, repr=False)  # of a condition


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """A way to match the rule but for `violations`."""

    violations: tuple[Violation, ...]
    scope: Env  # what conditions were computed in

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        return self.scope.nodes

    @property
    def names(self) -> Mapping[str, object]:
        return self.scope.names


def near(
    rule: CompiledRule,
    node: ir.Node,
    facts: Facts,
    target: Target | None = None,
    most: int = MOST_VIOLATIONS,
    keep: int = MOST_SETS,
) -> tuple[Near, ...]:
    """The smallest sets of violations at this anchor, at most `keep`; () where all cost more."""
    failure = applies(rule, node, facts)
    if failure is not None and failure.code != "opset":
        return ()
    for allowance in range(most + 1):
        found = _NearSearch(rule, node, facts, target, allowance).run(failure, keep)
        if found:
            return found
    return ()


@dataclass(frozen=True, slots=True)
class _Paid:
    """A violation on the way, its price, and the names that are not bound because of it."""

    violation: Violation
    price: int
    lost: frozenset[str] = frozenset()


class _NearSearch(Search):
    """The interpreter's search, with an allowance for tests that do not hold."""

    def __init__(
        self,
        rule: CompiledRule,
        node: ir.Node,
        facts: Facts,
        target: Target | None,
        allowance: int,
    ) -> None:
        super().__init__(rule, node, facts, target)
        self.allowance = allowance
        self.tests = tests_of(rule)
        self.reads = _reads(rule)
        self.parts = parts_of(rule)
        self.paid: list[_Paid] = []
        self.tolerant = True
        self.anchor_paid: list[_Paid] = []  # for the anchor to be one of the siblings

    def run(self, failure: Failure | None, keep: int) -> tuple[Near, ...]:
        if failure is not None and not self._pay(failure, 1):
            return ()
        found: dict[tuple[tuple[str, str], ...], Near] = {}
        budget.begin()
        try:
            for _ in self.ways():
                for one in self._nearly():
                    found.setdefault(tuple((v.key, v.subject) for v in one.violations), one)
                if len(found) >= keep or () in found:
                    break
        except (structure.OutOfSteps, budget.Exhausted):
            pass  # what was found is what there is
        return tuple(sorted(found.values(), key=lambda one: -len(one.nodes))[:keep])

    # --- the walk, going on ----------------------------------------------------------------------

    def _visit(self, form: f.Form, value: Operand, named: int = 1) -> Iterator[None]:
        paid = len(self.paid)
        yield from super()._visit(form, value, named)
        del self.paid[paid:]

    def _statement(self, statement: f.Statement, value: ir.Value) -> Iterator[None]:
        paid = len(self.paid)
        yield from super()._statement(statement, value)
        del self.paid[paid:]

    def _rest(self, rest: f.Rest, values: tuple[Operand, ...]) -> Iterator[None]:
        paid = len(self.paid)
        yield from super()._rest(rest, values)
        del self.paid[paid:]

    def _fails(
        self, code: str, reason: str, span: Span | None, subject: object, beyond: int = 0
    ) -> bool:
        return self._pay(Failure(code, reason, span, subject), 1)

    def _without(
        self, form: f.Form, code: str, reason: str, subject: object, any_way: bool = False
    ) -> bool:
        if any_way:
            return False
        if not self.tolerant:
            return False
        price = max(1, self.parts.operators(form, self.names))
        if price > self._left():
            return False
        return self._pay(Failure(code, reason, form.span, subject), price, self.parts.lost(form))

    def _pay(self, failure: Failure, price: int, lost: frozenset[str] = frozenset()) -> bool:
        if not self.tolerant or price > self._left():
            return False
        key = self.tests.key(failure.code, failure.span)
        self.paid.append(_Paid(_violation(failure, key), price, lost))
        return True

    def _left(self) -> int:
        return self.allowance - sum(one.price for one in self.paid)

    # --- siblings --------------------------------------------------------------------------------

    def _each(self, statement: f.Each, start: ir.Value, anchor: ir.Node | None) -> Iterator[None]:
        before = list(self.paid)
        if anchor is not None:
            self.paid = [one for one in self.paid if one.violation.code == "opset"]
        yield from super()._each(statement, start, anchor)
        self.paid = before

    def _sibling(
        self, statement: f.Each, value: ir.Value
    ) -> tuple[dict[str, object], list[Taken], list[Chosen]] | None:
        """One that is a sibling without more ado; the anchor may be one that is nearly so."""
        tolerant, paid = self.tolerant, list(self.paid)
        self.tolerant = False
        found = super()._sibling(statement, value)
        self.tolerant = tolerant
        if found is None and tolerant and value.producer() is self.anchor:
            found = super()._sibling(statement, value)
            self.paid = [*paid, *self.anchor_paid] if found is not None else paid
        return found

    def _guarded(self, env: Env, guards: list[Guarded], statement: f.Each) -> bool:
        own = [] if statement.guard is None else [statement.guard]
        formulas = [self.tests.guards[number] for number in (*(n for _, n in guards), *own)]
        violated = self._violated(formulas, env)
        left = self._left() if self.tolerant else 0
        for one in violated:
            if len(one) <= left:
                added = [_Paid(violation, 1) for violation in one]
                self.anchor_paid = [*self.paid, *added]
                return True
        return False

    # --- the whole match -------------------------------------------------------------------------

    def _nearly(self) -> Iterator[Near]:
        """The bindings at hand as near matches, one for each smallest set of conditions."""
        taken = sorted(self.nodes, key=FORM)
        env = self._env(taken)
        lost = self._all_lost()
        roots = roots_of(self.rule, env.names)
        if isinstance(roots, Failure):
            if not any(name in lost for name in self.rule.roots):
                return
            roots = tuple(v for v in map(env.names.get, self.rule.roots) if isinstance(v, ir.Value))
        failures = list(escapes(self.rule, taken, env.nodes, roots))
        circular = same_node(self.rule, env.names)
        failures += [] if circular is None else [circular]
        fixed = [one.violation for one in self.paid]
        fixed += [_violation(x, self.tests.key(x.code, x.span)) for x in _first_of_each(failures)]
        left = self.allowance - sum(one.price for one in self.paid) - (len(fixed) - len(self.paid))
        if left < 0:
            return
        formulas = [self.tests.guards[number] for _, number in self.guards]
        formulas += [c.formula for c in self.tests.wheres if c.when is None or env.holds(c.when)]
        for violated in self._violated(formulas, env):
            if len(violated) <= left:
                yield Near((*fixed, *violated), env)

    def _all_lost(self) -> frozenset[str]:
        lost = frozenset().union(*(one.lost for one in self.paid))
        return frozenset(name for name in lost if self.names.get(name) is None)

    def _doubted(self) -> frozenset[str]:
        """Names of values that are not what the pattern wants: what cannot be computed with them
        follows from that."""
        values = [one.violation.at for one in self.paid]
        found = {
            name
            for name, value in self.names.items()
            if value is not None and any(value is other for other in values)
        }
        # `X__scale` is a parameter of the codes `X`.
        return frozenset(part for name in found for part in (name, name.partition("__")[0]))

    def _violated(self, formulas: Sequence[Formula], env: Env) -> list[tuple[Violation, ...]]:
        """The smallest sets of atoms that would have to hold for all formulas to do so."""
        lost, doubted = self._all_lost(), self._doubted()
        held: dict[str, Violation | None] = {}
        for atom in (a for formula in formulas for a in atoms(formula)):
            reads = self._reads_of(atom)
            found = None if reads & lost else _asked(atom, env)
            follows = found is not None and found.code == "unknown" and reads & doubted
            held[atom.test.key] = None if follows else found
        return _products([_ways(formula, held) for formula in formulas])

    def _reads_of(self, atom: Atom) -> frozenset[str]:
        own = names_in(atom.expr)
        return own.union(*(self.reads[name] for name in own if name in self.reads))


def _asked(atom: Atom, env: Env) -> Violation | None:
    """None where the atom holds."""
    test = atom.test
    subject = env.nodes[0] if env.nodes else None
    try:
        if atom.is_true(env):
            return None
    except budget.Exhausted:
        raise
    except Unknown as unknown:
        failure = Failure("unknown", unknown.reason, test.span, subject)
        return _violation(failure, test.key, env)
    failure = Failure(test.kind, f"`{test.words}` does not hold", test.span, subject)
    return _violation(failure, test.key, env)


def _ways(formula: Formula, held: Mapping[str, Violation | None]) -> list[tuple[Violation, ...]]:
    """The sets of atoms that would have to hold, smallest first; [()] where it holds as it is."""
    if isinstance(formula, Atom):
        violation = held[formula.test.key]
        return [()] if violation is None else [(violation,)]
    parts = [_ways(part, held) for part in formula.parts]
    if isinstance(formula, Every):
        return _products(parts)
    return sorted((way for part in parts for way in part), key=len)[:MOST_SETS]


def _products(parts: Sequence[list[tuple[Violation, ...]]]) -> list[tuple[Violation, ...]]:
    """One set of each, together; smallest first."""
    short = [part[:MOST_SETS] for part in parts]
    while short and _count(short) > MOST_SETS * MOST_SETS:
        longest = max(range(len(short)), key=lambda i: len(short[i]))
        short[longest] = short[longest][:-1]
    together = [tuple(dict.fromkeys(v for way in ways for v in way)) for ways in product(*short)]
    least = min((len(way) for way in together), default=0)
    return [way for way in dict.fromkeys(together) if len(way) == least][:MOST_SETS]


def _count(parts: Sequence[Sequence[object]]) -> int:
    count = 1
    for part in parts:
        count *= len(part)
    return count


def _violation(failure: Failure, key: str, scope: Env | None = None) -> Violation:
    subject = structure.subject_words(failure.subject)
    return Violation(
        failure.code, failure.reason, key, failure.span, subject, failure.subject, scope
    )


def _first_of_each(failures: Sequence[Failure]) -> list[Failure]:
    """One failure per part of the rule and value."""
    found = {(x.code, x.span, id(x.subject)): x for x in reversed(failures)}
    return list(reversed(found.values()))


def _reads(rule: CompiledRule) -> Mapping[str, frozenset[str]]:
    """For each `let`, all names that its value depends on."""
    found: dict[str, frozenset[str]] = {}
    for step in rule.rule.steps:
        if isinstance(step, ast.Let):
            own = names_in(step.value)
            found[step.name] = own.union(*(found[name] for name in own if name in found))
    return found
