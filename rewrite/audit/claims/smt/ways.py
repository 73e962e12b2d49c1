"""The ways in which a pattern can match.

In: a compiled rule, the operators that are translated. Out: a `Way` for each choice of branches and
of optional operands. Operators that are not translated become leaves: whatever holds for all values
holds for theirs. Operands are taken in the order written, which is without loss where the operator
commutes. Lists, siblings, chains and bags raise `NotCoveredError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rewrite.audit.claims.smt.terms import Bound, Leaf, Node, NotCoveredError, Term, Way
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule

MOST_WAYS = 64


@dataclass(frozen=True)
class _State:
    names: Mapping[str, Term | None] = field(default_factory=dict)
    branches: frozenset[str] = frozenset()
    guards: tuple[int, ...] = ()
    done: Mapping[int, Term] = field(default_factory=dict)  # statements


_Found = Iterator[tuple[Term | None, _State]]


def ways(rule: CompiledRule, translated: frozenset[f.Operator]) -> tuple[Way, ...]:
    """Raises `NotCoveredError` where there are too many, or a form is not covered."""
    walker = _Walker(rule.pattern.statements, translated)
    found: list[Way] = []
    for state in walker.all(0, _State()):
        named = [n for s in rule.pattern.statements for n in s.names if n is not None]
        if set(named) - state.names.keys():
            raise NotCoveredError("a name of a statement is not met")
        values = [x.name for x in rule.pattern.forms if isinstance(x, f.Any) and x.name]
        names = {**dict.fromkeys(values), **state.names}  # other branches: absent
        found.append(Way(names, state.branches, state.guards))
        if len(found) > MOST_WAYS:
            raise NotCoveredError("there are too many ways to match")
    return tuple(found)


@dataclass(frozen=True)
class _Walker:
    statements: tuple[f.Statement, ...]
    translated: frozenset[f.Operator]

    def all(self, number: int, state: _State) -> Iterator[_State]:
        if number == len(self.statements):
            yield state
            return
        for _, after in self._statement(number, state):
            yield from self.all(number + 1, after)

    def _statement(self, number: int, state: _State) -> _Found:
        if number in state.done:
            yield state.done[number], state
            return
        statement = self.statements[number]
        if isinstance(statement, f.Each):
            raise NotCoveredError("siblings")
        for term, after in self.of(statement.form, state):
            assert term is not None
            names = {**after.names, **{n: term for n in statement.names[:1] if n is not None}}
            for name in statement.names[1:]:
                if name is not None:
                    names[name] = Leaf(name)
            yield term, replace(after, names=names, done={**after.done, number: term})

    def of(self, form: f.Form, state: _State) -> _Found:
        if isinstance(form, f.Any):
            yield from self._any(form, state)
        elif isinstance(form, f.Absent):
            yield None, state
        elif isinstance(form, f.Number):
            yield Leaf(f"number {form.value}", const=True, number=form), state
        elif isinstance(form, f.Reference):
            yield from self._statement(form.statement, state)
        elif isinstance(form, f.Choice):
            for branch in form.branches:
                guards = state.guards if branch.guard is None else (*state.guards, branch.guard)
                named = () if branch.name is None else (branch.name,)
                taken = replace(state, branches=state.branches.union(named), guards=guards)
                yield from self.of(branch.form, taken)
        elif isinstance(form, f.Op):
            yield from self._op(form, state)
        else:
            raise NotCoveredError(type(form).__name__)

    def _any(self, form: f.Any, state: _State) -> _Found:
        name = form.name
        if name is not None and name in state.names:
            yield state.names[name], state
            return
        test = form.type
        leaf = Leaf(name or "_")
        if test is not None:
            leaf = Leaf(name or "_", test.const, test.dtypes, test.shape)
        bound = state if name is None else replace(state, names={**state.names, name: leaf})
        yield leaf, bound
        if form.optional:
            absent = {**state.names, name: None} if name is not None else state.names
            yield None, replace(state, names=absent)

    def _op(self, form: f.Op, state: _State) -> _Found:
        if form.rest is not None:
            raise NotCoveredError("a list of operands")
        attributes = {a.name: Bound(a.bind) if a.bind else a.values for a in form.attributes}
        for operands, after in self._operands(form.operands, state):
            if form.operator in self.translated:
                yield Node(form.operator, operands, attributes), after
            else:
                yield Leaf(form.operator[1], operator=form.operator), after

    def _operands(
        self, forms: tuple[f.Form, ...], state: _State
    ) -> Iterator[tuple[tuple[Term | None, ...], _State]]:
        if not forms:
            yield (), state
            return
        for first, after in self.of(forms[0], state):
            for rest, last in self._operands(forms[1:], after):
                yield (first, *rest), last
