"""Patterns as straight-line Python: what cannot match is left after a few comparisons.

In: a `Pattern`. Out: `Program`: its text and the table of constants it refers to, or the
reason why the pattern is left to the interpreter (`Unsupported`). The code meets the choices
of a pattern in the same order as rewrite/match/interpreter.py, each as one `for` loop.

Nothing that an author wrote becomes program text: operators, names and numbers go to the table of
constants, and the text made here is checked, token by token, before it is compiled (program.py).
It reads onnx-ir's fields and not its properties, each of which costs as much as the rest of a step.

    def match(node, facts, rule, target):
        graph = node._graph
        v0 = node._outputs[0]
        v1, v2 = ...                            operands, for a commutative operator a loop
        if v2._producer._op_type != c3: ...     operators first, then constants
        result = finish(...)                    types, uses, guards, conditions
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from rewrite.match import form as f
from rewrite.match.program import Program

# CPython allows 20 statically nested blocks (CO_MAXBLOCKS).
MOST_LOOPS = 18
MOST_LINES = 3000

_MANY = -1  # in place of the number of one form


class Unsupported(Exception):  # noqa: N818 - a stop reason
    """The pattern is matched by the interpreter instead."""


def generate(pattern: f.Pattern) -> Program | str:
    """The program of a pattern, or the reason why the interpreter matches it."""
    try:
        unit = _Unit(pattern)
        unit.entry()
    except Unsupported as reason:
        return str(reason)
    return Program.of("\n".join(unit.text()), tuple(unit.constants))


@dataclass
class _Function:
    """One function of the text: its lines, and what is known at the end of them."""

    unit: _Unit
    name: str
    parameters: str
    bound: dict[str, str]  # name in the rule -> variable
    maybe: dict[str, str] = field(default_factory=dict)  # the same, where it may hold UNSET
    present: set[str] = field(default_factory=set)  # variables that are not None
    producers: dict[tuple[int, str], str] = field(default_factory=dict)  # (form, variable) -> node
    taken: list[tuple[int, str]] = field(default_factory=list)  # form, text
    typed: list[str] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    loops: int = 0

    def line(self, text: str) -> None:
        self.unit.count_line()
        self.lines.append(" " * (self.loops + 1) + text)

    def fail_if(self, condition: str) -> None:
        self.line(f"if {condition}: {'continue' if self.loops else 'return'}")

    def loop(self, targets: str, over: str) -> None:
        """Everything that follows happens once for each item."""
        self.line(f"for {targets} in {over}:")
        self.loops += 1
        if self.loops > MOST_LOOPS:
            raise Unsupported("more choices are nested than Python allows")

    def variable(self) -> str:
        return self.unit.variable()

    def constant(self, value: object) -> str:
        return self.unit.constant(value)

    # --- forms ---------------------------------------------------------------------------------

    def visit(self, form: f.Form, v: str, named: int = 1) -> None:
        """Code after which the value in variable `v` matches the form."""
        if isinstance(form, f.Op):
            self._op(form, v, named)
        elif isinstance(form, f.Any):
            self._any(form, v)
        elif isinstance(form, f.Number):
            self._need(v)
            self.fail_if(f"not number_holds(facts, {v}, {self.constant(form)})")
        elif isinstance(form, f.Reference):
            self._reference(form, v)
        elif isinstance(form, f.Absent):
            self.fail_if(f"{v} is not None")
        elif isinstance(form, f.Bag):
            self._bag(form, v)
        elif isinstance(form, f.Chain):
            self._chain(form, v)
        elif isinstance(form, f.Choice):
            self._choice(form, v)
        else:
            raise Unsupported(f"{type(form).__name__} has no code")

    def _need(self, v: str) -> None:
        if v not in self.present:
            self.fail_if(f"{v} is None")
            self.present.add(v)

    def _bind(self, name: str, v: str) -> None:
        if name in self.maybe:
            raise Unsupported(f"`{name}` is bound in some alternatives only")
        if name in self.bound:
            self.fail_if(f"{self.bound[name]} is not {v}")
        else:
            self.bound[name] = v

    def _any(self, form: f.Any, v: str) -> None:
        if not form.optional:
            self._need(v)
        if form.name is not None:
            self._bind(form.name, v)
        if form.type is None:
            return
        if form.type.const:
            absent = "" if v in self.present else f"{v} is not None and "
            self.fail_if(f"{absent}facts.constant({v}) is None")
        self.typed.append(f"({self.constant(form.type)}, {v})")

    def _reference(self, form: f.Reference, v: str) -> None:
        if form.name in self.bound or form.name in self.maybe:
            self._bind(form.name, v)
            return
        self._need(v)
        statement = self.unit.pattern.statements[form.statement]
        if len(statement.names) > 1:
            self.fail_if(f"{v}._index != {statement.names.index(form.name)}")
        if self.unit.has_choices(statement):
            self._shared(statement, v)
        else:
            self.statement(statement, v)

    def statement(self, statement: f.Statement, v: str) -> None:
        """Code after which the value is what the statement names."""
        if isinstance(statement, f.Each):
            raise Unsupported("siblings are matched by the interpreter")
        self._need(v)
        if len(statement.names) == 1:
            name = statement.names[0]
            if name is not None:
                self._bind(name, v)
            self.visit(statement.form, v)
            return
        assert isinstance(statement.form, f.Op)
        node = self._node_of(statement.form, v)
        outputs = self.variable()
        count = len(statement.names)
        self.line(f"{outputs} = padded({node}._outputs, {count}, True)")
        for place, name in enumerate(statement.names):
            if name is not None:
                output = self.variable()
                self.line(f"{output} = {outputs}[{place}]")
                self._bind(name, output)
        self._matched(statement.form, node, count)

    # --- operators -----------------------------------------------------------------------------

    def _op(self, form: f.Op, v: str, named: int) -> None:
        self._need(v)
        node = self.producers.get((form.index, v)) or self._node_of(form, v)
        self.fail_if(f"{v}._index")
        self._matched(form, node, named)

    def _node_of(self, form: f.Op, v: str) -> str:
        """The variable of the node that produces the value, its operator checked."""
        node = self.variable()
        domain, name = (self.constant(part) for part in form.operator)
        self.line(f"{node} = {v}._producer")
        elsewhere = f"{node}._domain != {domain}"
        if form.also:
            elsewhere = f"{node}._domain not in {self.constant((form.operator[0], *form.also))}"
        wrong = f"{node}._op_type != {name} or {elsewhere}"
        self.fail_if(f"{node} is None or {wrong} or {node}._graph is not graph")
        self.producers[form.index, v] = node
        return node

    def _matched(self, form: f.Op, node: str, named: int) -> None:
        self.taken.append((form.index, f"({form.index}, {node}, {form.shared}, {named})"))
        for test in form.attributes:
            self._attribute(node, test)
        self._operands(form, node)

    def _attribute(self, node: str, test: f.AttributeTest) -> None:
        value = self.variable()
        self.line(f"{value} = attribute(facts, {node}, {self.constant(test)})")
        self.fail_if(f"{value} is UNSET")
        for limit in test.limits:
            self.fail_if(f"breaks({value}, {self.constant(limit)})")
        if test.bind is None:
            return
        if test.bind in self.maybe:
            raise Unsupported(f"`{test.bind}` is bound in some alternatives only")
        if test.bind in self.bound:
            self.fail_if(f"not same_attribute({self.bound[test.bind]}, {value})")
        else:
            self.bound[test.bind] = value

    def _operands(self, form: f.Op, node: str) -> None:
        count = len(form.operands)
        found = self.variable()
        self.line(f"{found} = {f'facts.operands({node})' if form.legacy else f'{node}._inputs'}")
        general = form.rest is not None or (form.commutes and (form.variadic or count != 2))
        if general:
            self._arranged(form, found)
            return
        self.line(f"if len({found}) != {count}: {found} = padded({found}, {count}, False)")
        self.fail_if(f"{found} is None")
        given = [self.variable() for _ in range(count)]
        if form.commutes:
            self.loop(", ".join(given), f"both({found})")
        elif given:
            self.line(f"{', '.join(given)}, = {found}")
        self._in_order(form, given)

    def _arranged(self, form: f.Op, found: str) -> None:
        """Any arrangement of operands, `*rest` included."""
        order = self.variable()
        self.line(f"{found} = trimmed({found})")
        self.loop(order, f"arranged(rule, {form.index}, len({found}))")
        given = [self.variable() for _ in form.operands]
        for place, v in enumerate(given):
            self.line(f"{v} = chosen({found}, {order}, {place})")
        self._in_order(form, given)
        if form.rest is not None:
            rest = self.variable()
            self.line(f"{rest} = remaining({found}, {order})")
            self.fail_if(f"{rest} is None")
            self._rest(form.rest, rest)

    def _rest(self, rest: f.Rest, v: str) -> None:
        if rest.name is not None:
            if rest.name in self.maybe:
                raise Unsupported(f"`{rest.name}` is bound in some alternatives only")
            if rest.name in self.bound:
                self.fail_if(f"{self.bound[rest.name]} != {v}")
            else:
                self.bound[rest.name] = v
        if rest.type is not None:
            if rest.type.const:
                self.fail_if(f"not all_constant(facts, {v})")
            self.typed.append(f"({self.constant(rest.type)}, {v})")

    def _in_order(self, form: f.Op, given: Sequence[str]) -> None:
        for operand, v in zip(form.operands, given, strict=True):
            self._shallow(operand, v)
        for place in form.order:
            self.visit(form.operands[place], given[place])

    def _shallow(self, form: f.Form, v: str) -> None:
        """Check the operator that produces an operand before anything else is asked."""
        if isinstance(form, f.Reference) and form.name not in self.bound:
            form = self.unit.pattern.statements[form.statement].form
        if isinstance(form, f.Op):
            self._need(v)
            self._node_of(form, v)

    # --- bags, chains, alternatives ------------------------------------------------------------

    def _bag(self, form: f.Bag, v: str) -> None:
        self._need(v)
        count = len(form.items)
        nodes, leaves = self.variable(), self.variable()
        operator = self.constant(form.operator)
        self.loop(f"{nodes}, {leaves}", f"cuts({v}, {operator}, {count}, graph)")
        self.taken.append((form.index, f"*all_taken({form.index}, {nodes})"))
        used: list[str] = []
        for turn, place in enumerate(form.order):
            i, leaf = self.variable(), self.variable()
            if turn == count - 1:
                total = count * (count - 1) // 2
                self.line(f"{i} = {' - '.join([str(total), *used])}")
            else:
                self.loop(i, f"range({count})")
                if used:
                    self.fail_if(f"{i} in ({', '.join(used)},)")
            self.line("tick()")
            self.line(f"{leaf} = {leaves}[{i}]")
            self.present.add(leaf)
            used.append(i)
            self.visit(form.items[place], leaf)

    def _chain(self, form: f.Chain, v: str) -> None:
        self._need(v)
        nodes, start = self.variable(), self.variable()
        self.loop(f"{nodes}, {start}", f"chains(rule, {form.index}, {v}, graph)")
        self.line("tick()")
        self.taken.append((form.index, f"*all_taken({form.index}, {nodes})"))
        self.present.add(start)
        self.visit(form.start, start)

    def _choice(self, form: f.Choice, v: str) -> None:
        parts = [self.unit.branch(self, form, place, v) for place in range(len(form.branches))]
        fresh = self._new_names(parts)
        for part in parts:
            part.close(fresh)
        parameters = parts[0].parameters
        name = self.unit.helper(parameters, list(self._branches(form, parts, v)))
        self._each_way(f"{name}({parameters})", parts, fresh)

    def _branches(self, form: f.Choice, parts: Sequence[_Function], v: str) -> Iterator[str]:
        """The generators of a choice in turn, but none whose operators do not produce the value."""
        node, operator = self.variable(), self.variable()
        yield f"{node} = {'' if v in self.present else f'{v} is not None and '}{v}._producer"
        yield f"{operator} = {node} and {node}._op_type"
        for branch, part in zip(form.branches, parts, strict=True):
            tops = f.tops(branch.form, self.unit.pattern.statements)
            names = None if tops is None else frozenset(name for _, name in tops)
            guard = "" if names is None else f"if {operator} in {self.constant(names)}: "
            yield f"{guard}yield from {part.name}({part.parameters})"

    def _new_names(self, parts: Sequence[_Function]) -> list[str]:
        """The names that some of the functions bind, in the order of the rule."""
        known = {n for p in parts for n in (*p.bound, *p.maybe)} - {*self.bound, *self.maybe}
        return [n for n in self.unit.pattern.names if n in known]

    def _each_way(self, call: str, parts: Sequence[_Function], fresh: Sequence[str]) -> None:
        """Go on once for each way that a generator gives, with the names that it binds."""
        variables = [self.variable() for _ in fresh]
        typed, taken, branches, guards = (self.variable() for _ in range(4))
        self.loop(", ".join([*variables, typed, taken, branches, guards]), call)
        self.line("tick()")
        self.typed.append(f"*{typed}")
        self.taken.append((_MANY, f"*{taken}"))
        self.branches.append(f"*{branches}")
        self.guards.append(f"*{guards}")
        for rule_name, variable in zip(fresh, variables, strict=True):
            everywhere = all(rule_name in p.bound and rule_name not in p.maybe for p in parts)
            (self.bound if everywhere else self.maybe)[rule_name] = variable

    def _shared(self, statement: f.Statement, v: str) -> None:
        """A statement with alternatives: one generator, however often it is reached like this."""
        names, maybe = sorted(self.bound), sorted(self.maybe)
        inner = self.unit.statement_function(statement, names, maybe)
        given = [v, *(self.bound[n] for n in names), *(self.maybe[n] for n in maybe)]
        fresh = self._new_names([inner])
        self._each_way(f"{inner.name}(facts, rule, graph, {', '.join(given)})", [inner], fresh)

    def close(self, fresh: Sequence[str]) -> None:
        """End a branch: give what it bound, UNSET where it did not."""
        known = {**self.maybe, **self.bound}
        values = [known.get(n, "UNSET") for n in fresh]
        self.line(f"yield ({''.join(v + ', ' for v in values)}{', '.join(self.gathered())})")

    def gathered(self) -> Iterator[str]:
        """What `finish` wants to know besides the names."""
        in_text = sorted(self.taken, key=itemgetter(0))  # stable: a bag's nodes stay root first
        taken = [text for _, text in in_text]
        for group in (self.typed, taken, self.branches, self.guards):
            yield f"({''.join(item + ', ' for item in group)})"


class _Unit:
    """The text of one pattern: `match` and the generators of its alternatives."""

    def __init__(self, pattern: f.Pattern) -> None:
        self.pattern = pattern
        self.constants: list[object] = []
        self.functions: list[_Function] = []
        self.helpers: list[str] = []
        self._statements: dict[object, _Function] = {}
        self._numbers: dict[object, str] = {}
        self._count = 0
        self._choices = 0
        self._lines = 0

    def count_line(self) -> None:
        self._lines += 1
        if self._lines > MOST_LINES:
            raise Unsupported("its alternatives would make too much code")

    def variable(self) -> str:
        self._count += 1
        return f"v{self._count - 1}"

    def constant(self, value: object) -> str:
        key = (type(value), value)
        if key not in self._numbers:
            self._numbers[key] = f"c{len(self.constants)}"
            self.constants.append(value)
        return self._numbers[key]

    def entry(self) -> None:
        """The function `match`."""
        pattern = self.pattern
        top = _Function(self, "match", "node, facts, rule, target", {})
        self.functions.append(top)
        top.line("graph = node._graph")
        value = self.variable()
        top.line(f"{value} = node._outputs[0]")
        top.present.add(value)
        statement = pattern.statements[pattern.anchor]
        if isinstance(statement.form, f.Op):
            top.producers[statement.form.index, value] = "node"
        top.statement(statement, value)
        for step in pattern.forward:
            self._forward(top, step)
        if set(top.bound) & set(top.maybe):
            raise Unsupported("a name is bound in some alternatives only")
        names = {**top.bound, **{n: f"present({v})" for n, v in top.maybe.items()}}
        values = "".join(f"{names.get(n)}, " for n in pattern.names)
        typed, taken, *rest = top.gathered()
        if any(form == _MANY for form, _ in top.taken):
            taken = f"by_form({taken})"
        result = self.variable()
        arguments = (
            f"{self.constant(pattern.names)}, ({values}), {typed}, {taken}, {', '.join(rest)}"
        )
        top.line(f"{result} = finish(rule, facts, target, {arguments})")
        top.line(f"if {result} is not None: return {result}")

    def _forward(self, top: _Function, step: f.Forward) -> None:
        statement = self.pattern.statements[step.statement]
        if any(n in top.bound or n in top.maybe for n in statement.names if n is not None):
            raise Unsupported("a statement is met in some alternatives only")
        known = {**top.maybe, **top.bound}
        through = "".join(f"{known[n]}, " for n in step.through if n in known)
        start, node, value = self.variable(), self.variable(), self.variable()
        top.line(f"{start} = fewest_uses(({through}))")
        top.fail_if(f"{start} is None")
        top.loop(node, f"consumers_within({start}, {step.reach})")
        top.line("tick()")
        top.line(f"{value} = {node}._outputs[0]")
        top.present.add(value)
        top.statement(statement, value)

    def branch(self, outer: _Function, form: f.Choice, place: int, v: str) -> _Function:
        """The generator of one alternative, not yet closed."""
        branch = form.branches[place]
        known = dict.fromkeys([*outer.bound.values(), *outer.maybe.values()])
        parameters = ", ".join(["facts, rule, graph", v, *(k for k in known if k != v)])
        name = f"branch_{len(self.functions)}"
        inner = _Function(self, name, parameters, dict(outer.bound), dict(outer.maybe))
        inner.present = {p for p in outer.present if p == v or p in known}
        self.functions.append(inner)
        if branch.name is not None:
            inner.branches.append(self.constant(branch.name))
        if branch.guard is not None:
            inner.guards.append(str(branch.guard))
        inner.visit(branch.form, v)
        return inner

    def has_choices(self, statement: f.Statement) -> bool:
        """Whether the statement itself matches in several ways that need code of their own."""
        return any(isinstance(x, (f.Choice, f.Bag)) for x in f.walk(statement.form))

    def statement_function(
        self, statement: f.Statement, names: list[str], maybe: list[str]
    ) -> _Function:
        """The generator of a statement that is reached with these names bound."""
        key = (statement.index, tuple(names), tuple(maybe))
        found = self._statements.get(key)
        if found is not None:
            return found
        v = self.variable()
        bound = {n: self.variable() for n in names}
        unsure = {n: self.variable() for n in maybe}
        parameters = ", ".join(["facts, rule, graph", v, *bound.values(), *unsure.values()])
        inner = _Function(self, f"branch_{len(self.functions)}", parameters, bound, unsure)
        inner.present.add(v)
        self.functions.append(inner)
        inner.statement(statement, v)
        known = {*inner.bound, *inner.maybe} - {*names, *maybe}
        inner.close([n for n in self.pattern.names if n in known])
        self._statements[key] = inner
        return inner

    def helper(self, parameters: str, lines: Sequence[str]) -> str:
        name = f"choice_{self._choices}"
        self._choices += 1
        self.helpers += [f"def {name}({parameters}):", *(f" {line}" for line in lines)]
        return name

    def text(self) -> Iterator[str]:
        for function in self.functions:
            yield f"def {function.name}({function.parameters}):"
            yield from function.lines
        yield from self.helpers
