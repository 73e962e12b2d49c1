"""How one value matches one form: a backtracking walk down the operands.

In: a `CompiledRule`, a node as anchor, facts. Out: `Walk`, which interpreter.py completes to a
search for all statements of a rule.

Each `_visit_*` is a generator: it yields once for every way in which the value matches the form,
with the bindings of that way in `names`, `nodes`, `branches`, `guards`; resumed, it takes them
back. A test that does not hold ends its way, unless `_fails` or `_without` say to go on: near.py
does, to find out what else would be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from reprlib import repr as shortened

import onnx_ir as ir

from rewrite.errors import Span
from rewrite.graph.facts import Facts
from rewrite.match import budget, structure
from rewrite.match import form as f
from rewrite.match.accept import Failure, Taken
from rewrite.match.rule import CompiledRule
from rewrite.match.values import Unknown
from rewrite.target.target import Target

Operand = ir.Value | None
Chosen = tuple[int, str]  # the form of an alternative taken, and its name
Guarded = tuple[int, int]  # the form of an alternative with a guard, and the guard's number


class Walk:
    """The bindings made so far, and the furthest failure met."""

    def __init__(
        self, rule: CompiledRule, node: ir.Node, facts: Facts, target: Target | None
    ) -> None:
        self.rule = rule
        self.pattern = rule.pattern
        self.anchor = node
        self.user = node  # the node whose operand is looked at, where that is absent
        self.facts = facts
        self.target = target
        self.names: dict[str, object] = {}
        self.nodes: list[Taken] = []
        self.branches: list[Chosen] = []
        self.guards: list[Guarded] = []
        self.steps = 0
        self.best: tuple[int, Failure] | None = None

    # --- the walk ------------------------------------------------------------------------------

    def _statement(self, statement: f.Statement, value: ir.Value) -> Iterator[None]:
        """Ways for the value to be (one of) what the statement names."""
        if len(statement.names) == 1:
            with_names: dict[str | None, Operand] = {statement.names[0]: value}
        else:
            node = value.producer()
            if node is None:
                self.fail(Failure("operator", "no node produces it", statement.span, value))
                return
            outputs: list[Operand] = [*node.outputs, *[None] * len(statement.names)]
            with_names = dict(zip(statement.names, outputs, strict=False))
            value = node.outputs[0]
        bound = {n: v for n, v in with_names.items() if n is not None}
        if any(self.names.get(n, v) is not v for n, v in bound.items()) and not self._fails(
            "same", "the name is already another value", statement.span, value
        ):
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
            if self._without(form, "absent", "the operand is absent", self.user):
                yield
            return
        name = form.name
        if name is not None and name in self.names:
            if self.names[name] is not value and not self._fails(
                "same", f"it is not the same value as `{name}`", form.span, value
            ):
                return
            name = None
        before = dict(self.names)
        if value is not None and form.type is not None:
            for problem in structure.type_mismatches(self.facts, value, form.type, self.names):
                if not self._fails(*problem, form.span, value):
                    return
        if name is not None:
            self.names[name] = value
        yield
        self.names = before

    def _visit_absent(self, form: f.Absent, value: Operand) -> Iterator[None]:
        if value is None or self._fails("present", "the operand is present", form.span, value):
            yield

    def _visit_number(self, form: f.Number, value: Operand) -> Iterator[None]:
        if value is None:
            if self._without(form, "absent", "the operand is absent", self.user):
                yield
        elif structure.number_holds(self.facts, value, form) or self._fails(
            "literal", f"it is not the constant {form.value}", form.span, value
        ):
            yield

    def _visit_reference(self, form: f.Reference, value: Operand) -> Iterator[None]:
        if form.name in self.names:
            if self.names[form.name] is value or self._fails(
                "same", f"it is not the same value as `{form.name}`", form.span, value
            ):
                yield
            return
        if value is None:
            if self._without(form, "absent", "the operand is absent", self.user):
                yield
            return
        statement = self.pattern.statements[form.statement]
        if len(statement.names) > 1 and structure.output_name(statement.names, value) != form.name:
            if self._without(form, "output", f"it is not the output `{form.name}`", value):
                yield
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
            if self._without(form, "absent", "the operand is absent", self.user):
                yield
            return
        count, any_way = len(form.items), False
        found = structure.cuts(value, form.operator, count, self.anchor.graph)
        for nodes, leaves in found:
            any_way = True
            self._step()
            self._take(form.index, nodes, shared=False)
            yield from self._place(form, leaves, ())
            self._release(nodes)
        if self._without(form, "bag", f"it is not a tree of {count} operands", value, any_way):
            yield

    def _place(
        self, form: f.Bag, leaves: tuple[ir.Value, ...], used: tuple[int, ...]
    ) -> Iterator[None]:
        """Ways to give each further item a leaf; those before have `used` some."""
        if len(used) == len(form.order):
            yield
            return
        item = form.items[form.order[len(used)]]
        for i, leaf in enumerate(leaves):
            if i in used:
                continue
            for _ in self._visit(item, leaf):
                yield from self._place(form, leaves, (*used, i))

    def _visit_chain(self, form: f.Chain, value: Operand) -> Iterator[None]:
        if value is None:
            if self._without(form, "absent", "the operand is absent", self.user):
                yield
            return
        starts, any_way = self.rule.starts[form.index], False
        found = structure.paths(value, form, starts, self.anchor.graph)
        for nodes, start in found:
            any_way = True
            self._step()
            self._take(form.index, nodes, shared=False)
            yield from self._visit(form.start, start)
            self._release(nodes)
        reason = f"no chain of {form.klass} operators ends here"
        if self._without(form, "chain", reason, value, any_way):
            yield

    def _visit_op(self, form: f.Op, value: Operand, named: int) -> Iterator[None]:
        node = self._node(form, value)
        if isinstance(node, Failure):
            if self._without(form, node.code, node.reason, node.subject):
                yield
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

    def _node(self, form: f.Op, value: Operand) -> ir.Node | Failure:
        """The node that produces the value as its first output, if it is of the form's operator."""
        if value is None:
            return Failure("absent", "the operand is absent", form.span, self.user)
        node = value.producer()
        wanted = structure.operator_words(form.operator)
        if node is None:
            return Failure("operator", f"no {wanted} produces it", form.span, value)
        if node.op_type != form.operator[1] or (
            node.domain != form.operator[0] and node.domain not in form.also
        ):
            words = structure.operator_words((node.domain, node.op_type))
            reason = f"it is produced by {words}, not {wanted}"
            return Failure("operator", reason, form.span, value)
        if value.index() != 0:
            return Failure("output", f"it is not the first output of {wanted}", form.span, value)
        if node.graph is not self.anchor.graph:
            return Failure("graph", "it is computed in another graph", form.span, value)
        return node

    def _attributes(self, form: f.Op, node: ir.Node) -> Mapping[str, object] | None:
        """What the attributes bind; None where one is not as the pattern wants it."""
        bound: dict[str, object] = {}
        for test in form.attributes:
            try:
                raw = structure.raw_attribute(self.facts, node, test.name)
            except Unknown as unknown:
                if not self._fails("attribute", unknown.reason, test.span, node):
                    return None
                continue
            if not structure.attribute_holds(test, raw) and not self._fails(
                "attribute", f"attribute {test.name} is {shortened(raw)}", test.span, node
            ):
                return None
            if test.bind is not None:
                value = structure.as_value(test.name, raw)
                known = bound.get(test.bind, self.names.get(test.bind, value))
                if known is not value and not structure.same_attribute(known, value):
                    if not self._fails("same", f"attribute {test.name} differs", test.span, node):
                        return None
                    continue
                bound[test.bind] = value
        return bound

    def _operands(self, form: f.Op, node: ir.Node, operands: tuple[Operand, ...]) -> Iterator[None]:
        any_way = False
        for order in structure.arrangements(form, len(operands)):
            any_way = True
            self._step()
            given: list[Operand] = [operands[i] if i < len(operands) else None for i in order]
            for _ in self._in_order(form, node, given, 0):
                if form.rest is None:
                    yield
                else:
                    rest = tuple(operands[i] for i in range(len(operands)) if i not in order)
                    yield from self._rest(form.rest, rest)
        reason = f"it has {len(operands)} operands"
        if not any_way and self._without(form, "operands", reason, node):
            yield

    def _in_order(
        self, form: f.Op, node: ir.Node, given: list[Operand], turn: int
    ) -> Iterator[None]:
        if turn == len(form.order):
            yield
            return
        place = form.order[turn]
        self.user = node
        for _ in self._visit(form.operands[place], given[place]):
            yield from self._in_order(form, node, given, turn + 1)

    def _rest(self, rest: f.Rest, values: tuple[Operand, ...]) -> Iterator[None]:
        if any(v is None for v in values) and not self._fails(
            "absent", "an operand is absent", rest.span, self.user
        ):
            return
        if (
            rest.name is not None
            and self.names.get(rest.name, values) != values
            and not self._fails(
                "same", f"not the same operands as `{rest.name}`", rest.span, self.anchor
            )
        ):
            return
        before = dict(self.names)
        for value in values:
            if rest.type is None or value is None:
                continue
            for problem in structure.type_mismatches(self.facts, value, rest.type, self.names):
                if not self._fails(*problem, rest.span, value):
                    self.names = before
                    return
        if rest.name is not None:
            self.names[rest.name] = values
        yield
        self.names = before

    # --- book-keeping --------------------------------------------------------------------------

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

    def _fails(
        self, code: str, reason: str, span: Span | None, subject: object, beyond: int = 0
    ) -> bool:
        """A test does not hold; whether to go on as if it did. `beyond`: see `fail`."""
        self.fail(Failure(code, reason, span, subject), beyond)
        return False

    def _without(
        self, form: f.Form, code: str, reason: str, subject: object, any_way: bool = False
    ) -> bool:
        """The value is nothing like the form; whether to go on without what the form would bind.

        `any_way`: it was, in some way, but what was inside did not match.
        """
        self.fail(Failure(code, reason, form.span, subject))
        return False

    def fail(self, failure: Failure, beyond: int = 0) -> None:
        """Remember the failure if no attempt got further before.

        `beyond`: nodes that were found and left again.
        """
        reached = len(self.nodes) + beyond
        if self.best is None or reached > self.best[0] or (beyond and reached == self.best[0]):
            self.best = reached, failure


_VISITS: Mapping[type[f.Form], Callable[..., Iterator[None]]] = {
    f.Any: Walk._visit_any,
    f.Absent: Walk._visit_absent,
    f.Number: Walk._visit_number,
    f.Reference: Walk._visit_reference,
    f.Choice: Walk._visit_choice,
    f.Bag: Walk._visit_bag,
    f.Chain: Walk._visit_chain,
}
