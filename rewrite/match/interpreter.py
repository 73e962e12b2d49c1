"""The meaning of patterns: a search over the pattern form.

In: a `CompiledRule`, a node as anchor, facts. Out: the first `Match` in the order of the pattern's
choices, or a `Mismatch` that tells how far the best attempt got. Generated code must agree with
this module (tests/match/test_agreement.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.match import budget, structure
from rewrite.match import form as f
from rewrite.match.accept import FORM, Failure, Taken, accept, accept_guard, applies
from rewrite.match.rule import CompiledRule, Match, Mismatch
from rewrite.match.values import Env
from rewrite.match.walk import Chosen, Guarded, Walk
from rewrite.target.target import Target


def match(
    rule: CompiledRule, node: ir.Node, facts: Facts, target: Target | None = None
) -> Match | Mismatch:
    """The first match of the rule with this anchor, else the attempt that got furthest."""
    search = Search(rule, node, facts, target)
    failure = applies(rule, node, facts)
    if failure is not None:
        search.fail(failure)
        return search.mismatch()
    budget.begin()
    try:
        for _ in search.ways():
            found = search.accept()
            if found is not None:
                return found
    except (structure.OutOfSteps, budget.Exhausted) as end:
        search.stop(str(end))
    return search.mismatch()


class Search(Walk):
    """One attempt at a whole rule."""

    def ways(self) -> Iterator[None]:
        """Every way to match all statements."""
        statement = self.pattern.statements[self.pattern.anchor]
        if isinstance(statement, f.Each):
            first = self._each_from_anchor(statement)
        else:
            first = self._statement(statement, self.anchor.outputs[0])
        for _ in first:
            yield from self._forward(0)

    def _forward(self, place: int) -> Iterator[None]:
        if place == len(self.pattern.forward):
            yield
            return
        step = self.pattern.forward[place]
        statement = self.pattern.statements[step.statement]
        if self._is_done(statement):
            yield from self._forward(place + 1)
            return
        for _ in self._found(statement, step):
            yield from self._forward(place + 1)

    def _is_done(self, statement: f.Statement) -> bool:
        return any(n is not None and n in self.names for n in statement.names)

    def _found(self, statement: f.Statement, step: f.Forward) -> Iterator[None]:
        """Ways to match a statement found through the uses of a value already bound."""
        start = structure.fewest_uses([self.names.get(n) for n in step.through])
        if start is None:
            reason = "no value leads to this statement"
            self.fail(Failure("siblings", reason, statement.span, self.anchor))
            return
        if isinstance(statement, f.Each):
            yield from self._each(statement, start, None)
            return
        for node in structure.consumers_within(start, step.reach):
            self._step()
            yield from self._statement(statement, node.outputs[0])

    # --- siblings ------------------------------------------------------------------------------

    def _each_from_anchor(self, statement: f.Each) -> Iterator[None]:
        """The anchor is one of the siblings: what it binds outside `inner` holds for all."""
        value = self.anchor.outputs[0]
        own = {form.index for form in f.walk(statement.form)}
        seen: list[dict[str, object]] = []
        for _ in self._visit(statement.form, value):
            outer = {n: v for n, v in self.names.items() if n not in statement.inner}
            start = outer.get(statement.over)
            if outer in seen or not isinstance(start, ir.Value):
                continue
            seen.append(outer)
            saved = (self.names, self.nodes, self.branches, self.guards)
            self.names = dict(outer)
            self.nodes = [t for t in self.nodes if t[0] not in own]
            self.branches = [b for b in self.branches if b[0] not in own]
            self.guards = [g for g in self.guards if g[0] not in own]
            yield from self._each(statement, start, self.anchor)
            self.names, self.nodes, self.branches, self.guards = saved

    def _each(self, statement: f.Each, start: ir.Value, anchor: ir.Node | None) -> Iterator[None]:
        """All siblings, up to `most`; among them the anchor, where it is one."""
        found: list[tuple[ir.Value, dict[str, object], list[Taken], list[Chosen]]] = []
        tops = f.tops(statement.form, self.pattern.statements)
        for node in structure.consumers_within(start, statement.reach):
            if len(found) == statement.most:
                break
            if tops is not None and (node.domain, node.op_type) not in tops:
                continue
            sibling = self._sibling(statement, node.outputs[0])
            if sibling is not None:
                found.append((node.outputs[0], *sibling))
        values = [value for value, _, _, _ in found]
        if len(found) < statement.least:
            reason = f"it has {len(found)} siblings, {statement.least} are needed"
            if not self._fails("siblings", reason, statement.span, start, 1):
                return
        if anchor is not None and anchor.outputs[0] not in values:
            reason = "it is not among the siblings"
            self.fail(Failure("siblings", reason, statement.span, anchor), len(found))
            return
        before = (self.names, self.nodes, self.branches)
        lists = {n: tuple(names.get(n) for _, names, _, _ in found) for n in statement.inner}
        name = statement.names[0]
        self.names = {**self.names, **lists}
        if name is not None:
            self.names[name] = tuple(values)
        self.nodes = self.nodes + [taken for _, _, nodes, _ in found for taken in nodes]
        self.branches = self.branches + [b for _, _, _, branches in found for b in branches]
        yield
        self.names, self.nodes, self.branches = before

    def _sibling(
        self, statement: f.Each, value: ir.Value
    ) -> tuple[dict[str, object], list[Taken], list[Chosen]] | None:
        """The first way in which one value is a sibling, its guards included."""
        known = len(self.nodes), len(self.branches), len(self.guards)
        ways = self._visit(statement.form, value)
        found = None
        for _ in ways:
            nodes, branches = self.nodes[known[0] :], self.branches[known[1] :]
            env = self._env(self.nodes)
            if self._guarded(env, self.guards[known[2] :], statement):
                found = dict(self.names), list(nodes), list(branches)
                break
        for _ in ways if found is not None else ():
            pass  # let the walk take back its bindings
        return found

    def _guarded(self, env: Env, guards: list[Guarded], statement: f.Each) -> bool:
        own = [] if statement.guard is None else [statement.guard]
        for guard in [*(number for _, number in guards), *own]:
            failure = accept_guard(self.rule, env, guard)
            if failure is not None:
                self.fail(failure)
                return False
        return True

    # --- the whole match -----------------------------------------------------------------------

    def _env(self, nodes: list[Taken]) -> Env:
        names = dict.fromkeys(self.pattern.names) | self.names
        matched = tuple(dict.fromkeys(t[1] for t in nodes))
        branches = frozenset(name for _, name in self.branches)
        return Env(names, self.facts, self.target, branches, matched, self.rule.lets)

    def accept(self) -> Match | None:
        """The match, if what concerns all of it holds: uses, roots, guards, conditions."""
        branches = [name for _, name in self.branches]
        guards = [number for _, number in self.guards]
        names = {**dict.fromkeys(self.pattern.names), **self.names}
        taken = sorted(self.nodes, key=FORM)  # stable: a bag's nodes stay root first
        found = accept(self.rule, names, taken, branches, guards, self.facts, self.target)
        if isinstance(found, Match):
            return found
        self.fail(found)
        return None

    def stop(self, reason: str) -> None:
        self.best = len(self.nodes), Failure("steps", reason, self.rule.rule.span, self.anchor)

    def mismatch(self) -> Mismatch:
        assert self.best is not None
        matched, failure = self.best
        subject = structure.subject_words(failure.subject)
        return Mismatch(failure.code, failure.reason, failure.span, subject, matched)
