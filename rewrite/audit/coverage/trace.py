"""A match with the road to it: which form met which value.

In: a rule, a node, facts. Out: `Traced`: the match that the interpreter finds first, every form
that was visited on its way, the guards that were asked. No index and no generated code has a part
in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.match import budget, structure
from rewrite.match import form as f
from rewrite.match.accept import Taken, applies
from rewrite.match.interpreter import Search
from rewrite.match.rule import CompiledRule, Match
from rewrite.match.values import Env
from rewrite.match.walk import Chosen, Guarded, Operand
from rewrite.target.target import Target

Visit = tuple[int, Operand]  # the number of a form, the value it matched


@dataclass(frozen=True, slots=True)
class Traced:
    """`visits`: operands before what they are operands of. `guards`: numbers of guards that held,
    and what names meant there."""

    match: Match
    visits: tuple[Visit, ...]
    guards: tuple[tuple[int, Env], ...]


def trace(
    rule: CompiledRule, node: ir.Node, facts: Facts, target: Target | None = None
) -> Traced | None:
    """The first match with this anchor; None where there is none."""
    if applies(rule, node, facts) is not None:
        return None
    search = _Tracer(rule, node, facts, target)
    budget.begin()
    try:
        for _ in search.ways():
            found = search.accept()
            if found is not None:
                return Traced(found, tuple(search.visits), tuple(search.asked(found.scope)))
    except (structure.OutOfSteps, budget.Exhausted):
        return None
    return None


class _Tracer(Search):
    def __init__(
        self, rule: CompiledRule, node: ir.Node, facts: Facts, target: Target | None
    ) -> None:
        super().__init__(rule, node, facts, target)
        self.visits: list[Visit] = []
        self.guarded: list[tuple[int, Env]] = []  # inside siblings
        self._sibling_visits: list[Visit] = []
        self._sibling_guards: list[tuple[int, Env]] = []

    def asked(self, env: Env) -> Iterator[tuple[int, Env]]:
        """The guards of the alternatives taken and of siblings."""
        yield from self.guarded
        for _, number in self.guards:
            yield number, env

    def _visit(self, form: f.Form, value: Operand, named: int = 1) -> Iterator[None]:
        for _ in super()._visit(form, value, named):
            self.visits.append((form.index, value))
            yield
            self.visits.pop()

    def _each(self, statement: f.Each, start: ir.Value, anchor: ir.Node | None) -> Iterator[None]:
        visits, guarded = self.visits, self.guarded
        self._sibling_visits, self._sibling_guards = [], []
        for _ in super()._each(statement, start, anchor):
            self.visits = visits + self._sibling_visits
            self.guarded = guarded + self._sibling_guards
            yield
            self.visits, self.guarded = visits, guarded

    def _sibling(
        self, statement: f.Each, value: ir.Value
    ) -> tuple[dict[str, object], list[Taken], list[Chosen]] | None:
        self._kept: tuple[list[Visit], list[tuple[int, Env]]] = [], []
        start = len(self.visits)
        found = super()._sibling(statement, value)
        if found is not None:
            self._sibling_visits += self._kept[0][start:]
            self._sibling_guards += self._kept[1]
        return found

    def _guarded(self, env: Env, guards: list[Guarded], statement: f.Each) -> bool:
        holds = super()._guarded(env, guards, statement)
        if holds:
            own = [] if statement.guard is None else [(statement.guard, env)]
            self._kept = list(self.visits), [*((number, env) for _, number in guards), *own]
        return holds
