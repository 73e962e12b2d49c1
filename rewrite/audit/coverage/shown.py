"""What one match shows of its rule: the keys of the items that hold in it.

In: a `Traced` match. Out: keys, as `items_of` makes them. Everything is looked at without short
circuits: each atom of a condition is computed, whichever decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.audit.coverage.items import (
    TRUE,
    cases_of,
    choices,
    optionals,
    typed,
    typed_rests,
)
from rewrite.audit.coverage.order import bag_is_written, commuting, is_written, order_of
from rewrite.audit.coverage.trace import Traced
from rewrite.errors import Span
from rewrite.graph.facts import Facts
from rewrite.lang import ast
from rewrite.lang.walk import children
from rewrite.match import form as f
from rewrite.match import structure
from rewrite.match.items import Atom, Every, Formula, Tests, atoms, tests_of
from rewrite.match.rule import CompiledRule
from rewrite.match.values import Env, Unknown
from rewrite.match.walk import Operand

CONDITIONS = ("where", "guard")


@dataclass(frozen=True)
class Reading:
    """A rule with what is asked of each of its matches, looked up once."""

    rule: CompiledRule
    tests: Tests
    choices: Mapping[int, str]
    optionals: Mapping[int, str]
    typed: Mapping[int, str]
    rests: Mapping[int, str]
    commuting: Mapping[int, str]
    cases: Mapping[Span, int]  # place in the text -> number

    @classmethod
    def of(cls, rule: CompiledRule) -> Reading:
        pattern = rule.pattern
        return cls(
            rule=rule,
            tests=tests_of(rule),
            choices=choices(pattern),
            optionals=optionals(pattern),
            typed=typed(pattern),
            rests=typed_rests(pattern),
            commuting=commuting(pattern),
            cases={c.span: number for number, c in enumerate(cases_of(rule.rule), 1)},
        )


def shown(reading: Reading, traced: Traced, facts: Facts) -> frozenset[str]:
    """The keys of all items that the match shows, `fired` and those of opsets left out."""
    look = _Look(reading, facts)
    look.visits(traced)
    look.conditions(traced)
    look.arms(traced.match.scope)
    return frozenset(look.keys)


@dataclass
class _Look:
    reading: Reading
    facts: Facts
    keys: set[str] = field(default_factory=set)
    latest: dict[int, Operand] = field(default_factory=dict)

    # --- the pattern

    def visits(self, traced: Traced) -> None:
        tested: set[Span] = set()
        forms = self.reading.rule.pattern.forms
        previous = -1
        for index, value in traced.visits:
            form = forms[index]
            self.latest[index] = value
            if isinstance(form, f.Choice):
                self._branch(form, previous)
            elif isinstance(form, f.Any):
                self._any(form, value, tested)
            elif isinstance(form, f.Op) and value is not None:
                self._operator(form, value, tested)
            elif isinstance(form, f.Bag) and value is not None:
                items = [self.latest[x.index] for x in form.items]
                self._ordered(form, bag_is_written(form, value, items))
            if not isinstance(form, f.Any):
                tested.add(form.span)
            previous = index
        for test in self.reading.tests.every:
            if test.kind not in CONDITIONS and test.span in tested:
                self.keys.add(f"{test.key}={TRUE}")

    def _branch(self, form: f.Choice, previous: int) -> None:
        key = self.reading.choices[form.index]
        for place, branch in enumerate(form.branches, 1):
            if branch.form.index == previous:
                self.keys.add(f"{key}.{place}")

    def _any(self, form: f.Any, value: Operand, tested: set[Span]) -> None:
        key = self.reading.optionals.get(form.index)
        if key is not None:
            self.keys.add(f"{key}={'absent' if value is None else 'present'}")
        if value is None:
            return
        tested.add(form.span)
        key = self.reading.typed.get(form.index)
        if key is not None:
            self.keys.add(f"{key}={self.facts.type(value).dtype}")

    def _operator(self, form: f.Op, value: ir.Value, tested: set[Span]) -> None:
        tested.update(test.span for test in form.attributes)
        node = value.producer()
        if node is None:
            return
        operands = self.facts.operands(node) if form.legacy else structure.trimmed(node.inputs)
        given = [self.latest[x.index] for x in form.operands]
        order = order_of(form, operands, given)
        self._ordered(form, is_written(order))
        if form.rest is None:
            return
        tested.add(form.rest.span)
        key = self.reading.rests.get(form.index)
        rest = [x for i, x in enumerate(operands) if i not in order]
        if key is not None:
            self.keys.update(f"{key}={self.facts.type(x).dtype}" for x in rest if x is not None)

    def _ordered(self, form: f.Form, written: bool) -> None:
        key = self.reading.commuting.get(form.index)
        if key is not None:
            self.keys.add(f"{key}={'written' if written else 'swapped'}")

    # --- conditions

    def conditions(self, traced: Traced) -> None:
        tests, env = self.reading.tests, traced.match.scope
        asked = [(tests.guards[number], scope) for number, scope in traced.guards]
        asked += [(c.formula, env) for c in tests.wheres if c.when is None or _holds(env, c.when)]
        for formula, scope in asked:
            values = {a.test.key: _told(a, scope) for a in atoms(formula)}
            for key, value in values.items():
                if value and not _formula(formula, {**values, key: False}):
                    self.keys.add(f"{key}={TRUE}")

    # --- the arms of `case`

    def arms(self, env: Env) -> None:
        rule, seen = self.reading.rule.rule, set[str]()
        lets = {s.name: s.value for s in rule.steps if isinstance(s, ast.Let)}
        parts: list[ast.Node] = [s.condition for s in rule.steps if isinstance(s, ast.Where)]
        parts += [*rule.emit, *([rule.group] if rule.group is not None else [])]
        while parts:
            node = parts.pop()
            if isinstance(node, ast.Case):
                parts += self._taken(node, env, lets, seen)
            elif isinstance(node, ast.Binary) and node.operator == "??":
                parts.append(node.left)
                if not _is_there(node.left, env):
                    parts.append(node.right)
            else:
                if isinstance(node, ast.Name | ast.Splat):
                    parts += _definition(node.name, lets, seen)
                parts += children(node)

    def _taken(
        self, case: ast.Case, env: Env, lets: Mapping[str, ast.Expr], seen: set[str]
    ) -> Iterator[ast.Node]:
        """The arm that is chosen, and the definitions that choosing it needs."""
        number = self.reading.cases[case.span]
        for place, arm in enumerate(case.arms, 1):
            if arm.name is not None:
                yield from _definition(arm.name, lets, seen)
            if arm.name is None or _holds(env, arm.name):
                self.keys.add(f"arm:{number}.{place}")
                yield arm.value
                return


def _definition(name: str, lets: Mapping[str, ast.Expr], seen: set[str]) -> Iterator[ast.Node]:
    if name in lets and name not in seen:
        seen.add(name)
        yield lets[name]


def _is_there(expr: ast.Expr, env: Env) -> bool:
    """Whether the left side of `??` is a name of something present."""
    return isinstance(expr, ast.Name) and env.names.get(expr.name) is not None


def _holds(env: Env, name: str) -> bool:
    try:
        return env.holds(name)
    except Unknown:
        return False


def _told(atom: Atom, env: Env) -> bool:
    """Whether the atom holds; what is unknown does not."""
    try:
        return atom.is_true(env)
    except Unknown:
        return False


def _formula(formula: Formula, values: Mapping[str, bool]) -> bool:
    if isinstance(formula, Atom):
        return values[formula.test.key]
    parts = [_formula(part, values) for part in formula.parts]
    return all(parts) if isinstance(formula, Every) else any(parts)
