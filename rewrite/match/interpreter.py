"""The meaning of patterns: a backtracking walk over the pattern form.

In: a `CompiledRule`, a node as anchor, facts. Out: the first `Match` in the order of the pattern's
choices, or a `Mismatch` that tells how far the best attempt got. Generated code must agree with
this module (tests/match/test_agreement.py).

Each `_visit_*` is a generator: it yields once for every way in which the value matches the form,
with the bindings of that way in `names`, `nodes`, `branches`, `guards`; resumed, it takes them
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from reprlib import repr as shortened

import onnx_ir as ir

from rewrite.errors import Span
from rewrite.graph.facts import Facts
from rewrite.match import budget, structure
from rewrite.match import form as f
from rewrite.match.accept import FORM, Failure, Taken, accept, accept_guard, applies
from rewrite.match.rule import CompiledRule, Match, Mismatch
from rewrite.match.values import Env, Unknown
from rewrite.target.target import Target

Operand = ir.Value | None
Chosen = tuple[int, str]  # the form of an alternative taken, and its name
Guarded = tuple[int, int]  # the form of an alternative with a guard, and the guard's number


def match(
    rule: CompiledRule, node: ir.Node, facts: Facts, target: Target | None = None
) -> Match | Mismatch:
    """The first match of the rule with this anchor, else the attempt that got furthest."""
    search = _Search(rule, node, facts, target)
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


class _Search:
    """One attempt: the bindings made so far, and the furthest failure met."""

    def __init__(
        self, rule: CompiledRule, node: ir.Node, facts: Facts, target: Target | None
    ) -> None:
        self.rule = rule
        self.pattern = rule.pattern
        self.anchor = node
        self.facts = facts
        self.target = target
        self.names: dict[str, object] = {}
        self.nodes: list[Taken] = []
        self.branches: list[Chosen] = []
        self.guards: list[Guarded] = []
        self.steps = 0
        self.best: tuple[int, Failure] | None = None

    # --- the walk ------------------------------------------------------------------------------

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
            self._fail("siblings", "no value leads to this statement", statement.span, self.anchor)
            return
        if isinstance(statement, f.Each):
            yield from self._each(statement, start, None)
            return
        for node in structure.consumers_within(start, step.reach):
            self._step()
            yield from self._statement(statement, node.outputs[0])

    def _statement(self, statement: f.Statement, value: ir.Value) -> Iterator[None]:
        """Ways for the value to be (one of) what the statement names."""
        if len(statement.names) == 1:
            with_names: dict[str | None, Operand] = {statement.names[0]: value}
        else:
            node = value.producer()
            if node is None:
                self._fail("operator", "no node produces it", statement.span, value)
                return
            outputs: list[Operand] = [*node.outputs, *[None] * len(statement.names)]
            with_names = dict(zip(statement.names, outputs, strict=False))
            value = node.outputs[0]
        bound = {n: v for n, v in with_names.items() if n is not None}
        if any(self.names.get(n, v) is not v for n, v in bound.items()):
            self._fail("same", "the name is already another value", statement.span, value)
            return
        added = [n for n in bound if n not in self.names]
        self.names.update(bound)
        yield from self._visit(statement.form, value, len(statement.names))
        for name in added:
            del self.names[name]

    def _visit(self, form: f.Form, value: Operand, named: int = 1) -> Iterator[None]:
        """Ways for the value (None: absent) to match the form; `named` outputs are named."""
        self._step()
        if isinstance(form, f.Op):
            return self._visit_op(form, value, named)
        return _VISITS[type(form)](self, form, value)

    def _visit_any(self, form: f.Any, value: Operand) -> Iterator[None]:
        if value is None and not form.optional:
            self._fail("absent", "the operand is absent", form.span, self.anchor)
            return
        name = form.name
        if name is not None and name in self.names:
            if self.names[name] is not value:
                self._fail("same", f"it is not the same value as `{name}`", form.span, value)
                return
            name = None
        before = dict(self.names)
        if value is not None and form.type is not None:
            problem = structure.type_mismatch(self.facts, value, form.type, self.names)
            if problem is not None:
                self._fail(problem[0], problem[1], form.span, value)
                return
        if name is not None:
            self.names[name] = value
        yield
        self.names = before

    def _visit_absent(self, form: f.Absent, value: Operand) -> Iterator[None]:
        if value is not None:
            self._fail("present", "the operand is present", form.span, value)
            return
        yield

    def _visit_number(self, form: f.Number, value: Operand) -> Iterator[None]:
        if value is None:
            self._fail("absent", "the operand is absent", form.span, self.anchor)
        elif structure.number_holds(self.facts, value, form):
            yield
        else:
            self._fail("literal", f"it is not the constant {form.value}", form.span, value)

    def _visit_reference(self, form: f.Reference, value: Operand) -> Iterator[None]:
        if form.name in self.names:
            if self.names[form.name] is value:
                yield
            else:
                self._fail("same", f"it is not the same value as `{form.name}`", form.span, value)
            return
        if value is None:
            self._fail("absent", "the operand is absent", form.span, self.anchor)
            return
        statement = self.pattern.statements[form.statement]
        if len(statement.names) > 1 and structure.output_name(statement.names, value) != form.name:
            self._fail("output", f"it is not the output `{form.name}`", form.span, value)
            return
        yield from self._statement(statement, value)

    def _visit_choice(self, form: f.Choice, value: Operand) -> Iterator[None]:
        for branch in form.branches:
            self._step()
            if branch.name is not None:
                self.branches.append((form.index, branch.name))
            if branch.guard is not None:
                self.guards.append((form.index, branch.guard))
            yield from self._visit(branch.form, value)
            if branch.guard is not None:
                self.guards.pop()
            if branch.name is not None:
                self.branches.pop()

    def _visit_bag(self, form: f.Bag, value: Operand) -> Iterator[None]:
        if value is None:
            self._fail("absent", "the operand is absent", form.span, self.anchor)
            return
        count = len(form.items)
        found = structure.cuts(value, form.operator, count, self.anchor.graph)
        for nodes, leaves in found:
            self._step()
            self._take(form.index, nodes, shared=False)
            yield from self._place(form, leaves, 0, set())
            self._release(nodes)
        self._fail("bag", f"it is not a tree of {count} operands", form.span, value)

    def _place(
        self, form: f.Bag, leaves: tuple[ir.Value, ...], turn: int, used: set[int]
    ) -> Iterator[None]:
        """Ways to give the items from `turn` on a leaf each."""
        if turn == len(form.order):
            yield
            return
        item = form.items[form.order[turn]]
        for i, leaf in enumerate(leaves):
            if i in used:
                continue
            for _ in self._visit(item, leaf):
                yield from self._place(form, leaves, turn + 1, used | {i})

    def _visit_chain(self, form: f.Chain, value: Operand) -> Iterator[None]:
        if value is None:
            self._fail("absent", "the operand is absent", form.span, self.anchor)
            return
        starts = self.rule.starts[form.index]
        found = structure.paths(value, form, starts, self.anchor.graph)
        for nodes, start in found:
            self._step()
            self._take(form.index, nodes, shared=False)
            yield from self._visit(form.start, start)
            self._release(nodes)
        self._fail("chain", f"no chain of {form.klass} operators ends here", form.span, value)

    def _visit_op(self, form: f.Op, value: Operand, named: int) -> Iterator[None]:
        node = self._node(form, value)
        if node is None:
            return
        bound = self._attributes(form, node)
        if bound is None:
            return
        added = [n for n in bound if n not in self.names]
        self.names.update(bound)
        self._take(form.index, (node,), form.shared, named)
        operands = self.facts.operands(node) if form.legacy else structure.trimmed(node.inputs)
        yield from self._operands(form, node, operands)
        self._release((node,))
        for name in added:
            del self.names[name]

    def _node(self, form: f.Op, value: Operand) -> ir.Node | None:
        """The node that produces the value as its first output, if it is of the form's operator."""
        if value is None:
            self._fail("absent", "the operand is absent", form.span, self.anchor)
            return None
        node = value.producer()
        wanted = structure.operator_words(form.operator)
        if node is None:
            self._fail("operator", f"no {wanted} produces it", form.span, value)
        elif node.op_type != form.operator[1] or (
            node.domain != form.operator[0] and node.domain not in form.also
        ):
            words = structure.operator_words((node.domain, node.op_type))
            self._fail("operator", f"it is produced by {words}, not {wanted}", form.span, value)
        elif value.index() != 0:
            self._fail("output", f"it is not the first output of {wanted}", form.span, value)
        elif node.graph is not self.anchor.graph:
            self._fail("graph", "it is computed in another graph", form.span, value)
        else:
            return node
        return None

    def _attributes(self, form: f.Op, node: ir.Node) -> Mapping[str, object] | None:
        """What the attributes bind; None where one is not as the pattern wants it."""
        bound: dict[str, object] = {}
        for test in form.attributes:
            try:
                raw = structure.raw_attribute(self.facts, node, test.name)
            except Unknown as unknown:
                self._fail("attribute", unknown.reason, test.span, node)
                return None
            if not structure.attribute_holds(test, raw):
                self._fail(
                    "attribute", f"attribute {test.name} is {shortened(raw)}", test.span, node
                )
                return None
            if test.bind is not None:
                value = structure.as_value(test.name, raw)
                known = bound.get(test.bind, self.names.get(test.bind, value))
                if known is not value and not structure.same_attribute(known, value):
                    self._fail("same", f"attribute {test.name} differs", test.span, node)
                    return None
                bound[test.bind] = value
        return bound

    def _operands(self, form: f.Op, node: ir.Node, operands: tuple[Operand, ...]) -> Iterator[None]:
        any_way = False
        for order in structure.arrangements(form, len(operands)):
            any_way = True
            self._step()
            given: list[Operand] = [operands[i] if i < len(operands) else None for i in order]
            for _ in self._in_order(form, given, 0):
                if form.rest is None:
                    yield
                else:
                    rest = tuple(operands[i] for i in range(len(operands)) if i not in order)
                    yield from self._rest(form.rest, rest)
        if not any_way:
            self._fail("operands", f"it has {len(operands)} operands", form.span, node)

    def _in_order(self, form: f.Op, given: list[Operand], turn: int) -> Iterator[None]:
        if turn == len(form.order):
            yield
            return
        place = form.order[turn]
        for _ in self._visit(form.operands[place], given[place]):
            yield from self._in_order(form, given, turn + 1)

    def _rest(self, rest: f.Rest, values: tuple[Operand, ...]) -> Iterator[None]:
        if any(v is None for v in values):
            self._fail("absent", "an operand is absent", rest.span, self.anchor)
            return
        if rest.name is not None and self.names.get(rest.name, values) != values:
            self._fail("same", f"not the same operands as `{rest.name}`", rest.span, self.anchor)
            return
        before = dict(self.names)
        for value in values:
            if rest.type is None or value is None:
                continue
            problem = structure.type_mismatch(self.facts, value, rest.type, self.names)
            if problem is not None:
                self._fail(problem[0], problem[1], rest.span, value)
                self.names = before
                return
        if rest.name is not None:
            self.names[rest.name] = values
        yield
        self.names = before

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
            self.fail(Failure("siblings", reason, statement.span, start), 1)
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

    # --- book-keeping --------------------------------------------------------------------------

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

    def _take(self, index: int, nodes: tuple[ir.Node, ...], shared: bool, named: int = 1) -> None:
        self.nodes += [(index, node, shared, named) for node in nodes]

    def _release(self, nodes: tuple[ir.Node, ...]) -> None:
        del self.nodes[len(self.nodes) - len(nodes) :]

    def _step(self) -> None:
        self.steps += 1
        if self.steps > structure.MOST_STEPS:
            raise structure.OutOfSteps(
                f"the search was given up after {structure.MOST_STEPS} steps"
            )
        if self.steps % structure.CLOCK_EVERY == 0:
            budget.look_at_clock()

    def _fail(self, code: str, reason: str, span: Span | None, subject: object) -> None:
        self.fail(Failure(code, reason, span, subject))

    def fail(self, failure: Failure, beyond: int = 0) -> None:
        """Remember the failure if no attempt got further before.

        `beyond`: nodes that were found and left again.
        """
        reached = len(self.nodes) + beyond
        if self.best is None or reached > self.best[0] or (beyond and reached == self.best[0]):
            self.best = reached, failure

    def stop(self, reason: str) -> None:
        self.best = len(self.nodes), Failure("steps", reason, self.rule.rule.span, self.anchor)

    def mismatch(self) -> Mismatch:
        assert self.best is not None
        matched, failure = self.best
        subject = structure.subject_words(failure.subject)
        return Mismatch(failure.code, failure.reason, failure.span, subject, matched)


_VISITS: Mapping[type[f.Form], Callable[..., Iterator[None]]] = {
    f.Any: _Search._visit_any,
    f.Absent: _Search._visit_absent,
    f.Number: _Search._visit_number,
    f.Reference: _Search._visit_reference,
    f.Choice: _Search._visit_choice,
    f.Bag: _Search._visit_bag,
    f.Chain: _Search._visit_chain,
}
