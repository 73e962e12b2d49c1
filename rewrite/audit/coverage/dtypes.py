"""Which element types the schemas let a value of a pattern have.

In: a `CompiledRule`, an opset, the `Vocabulary`. Out: for a form, the types it may have where the
rule matches; an empty set where the constraints contradict each other.

Values of one type variable of a schema have one type, so forms are joined into classes (union-find)
and each class keeps the intersection of what schemas and patterns allow. Alternatives that the form
asked for does not lie in are left out: the result may be too large, never too small.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rewrite.audit.coverage.opsets import holds, in_force, mandatory
from rewrite.lang.vocabulary import Vocabulary
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule
from rewrite.ops.dtypes import from_type_string
from rewrite.schema import DTYPES, OperandSchema, OpSchema

ALL = frozenset(DTYPES)
Token = tuple[str, str]


def possible(
    rule: CompiledRule, index: int, opset: int, vocabulary: Vocabulary, own: bool = True
) -> frozenset[str]:
    """The types of the form `index` in a match. `own`: what the form itself demands counts, too."""
    search = _Types(rule, index, opset, vocabulary, own)
    search.run()
    if any(not allowed for allowed in search.allowed.values()):
        return frozenset()
    return search.of(("form", str(index)))


@dataclass
class _Types:
    rule: CompiledRule
    focus: int
    opset: int
    vocabulary: Vocabulary
    own: bool
    parent: dict[Token, Token] = field(default_factory=dict)
    allowed: dict[Token, frozenset[str]] = field(default_factory=dict)  # of roots

    def run(self) -> None:
        for statement in mandatory(self.rule.pattern, self.focus):
            self.statement(statement)

    # --- classes

    def find(self, token: Token) -> Token:
        while token in self.parent:
            token = self.parent[token]
        return token

    def of(self, token: Token) -> frozenset[str]:
        return self.allowed.get(self.find(token), ALL)

    def join(self, a: Token, b: Token) -> None:
        first, second = self.find(a), self.find(b)
        if first == second:
            return
        both = self.of(first) & self.of(second)
        self.parent[second] = first
        self.allowed.pop(second, None)
        self.allowed[first] = both

    def restrict(self, token: Token, types: frozenset[str]) -> None:
        root = self.find(token)
        self.allowed[root] = self.of(root) & types

    # --- forms

    def statement(self, statement: f.Statement) -> None:
        form = statement.form
        self.form(form)
        inner = isinstance(statement, f.Each)
        if statement.names[0] is not None and not inner:
            self.join(("name", statement.names[0]), ("form", str(form.index)))
        if not isinstance(form, f.Op) or form.also:
            return
        schema = self.schema(form.operator)
        if schema is None:
            return
        for name, output in zip(statement.names[1:], schema.outputs[1:], strict=False):
            if name is not None:
                self.operand(form.index, ("name", name), output, schema)

    def form(self, form: f.Form) -> None:
        me = ("form", str(form.index))
        if isinstance(form, f.Any):
            self.any(form, me)
        elif isinstance(form, f.Reference):
            self.join(("name", form.name), me)
        elif isinstance(form, f.Choice):
            for branch in form.branches:
                if holds(branch.form, self.focus):
                    self.form(branch.form)
                    self.join(me, ("form", str(branch.form.index)))
        elif isinstance(form, f.Op):
            self.operator(form, me)
        elif isinstance(form, f.Bag):
            schema = self.schema(form.operator)
            for item in form.items:
                self.form(item)
                self.join(me, ("form", str(item.index)))
            if schema is not None:
                self.operand(form.index, me, schema.inputs[0], schema)
        elif isinstance(form, f.Chain):
            self.form(form.start)

    def any(self, form: f.Any, me: Token) -> None:
        if form.optional and form.index != self.focus:
            return  # it may be absent, and then nothing is demanded
        if form.name is not None:
            self.join(("name", form.name), me)
        counts = self.own or form.index != self.focus
        if counts and form.type is not None and form.type.dtypes is not None:
            self.restrict(me, form.type.dtypes)

    def operator(self, form: f.Op, me: Token) -> None:
        for operand in form.operands:
            self.form(operand)
        if form.also:
            self.several(form)
            return
        schema = self.schema(form.operator)
        if schema is None:
            return
        if schema.outputs:
            self.operand(form.index, me, schema.outputs[0], schema)
        for place, operand in enumerate(form.operands):
            if isinstance(operand, f.Absent) or not schema.inputs:
                continue
            if isinstance(operand, f.Any) and operand.optional and operand.index != self.focus:
                continue
            parameter = schema.inputs[min(place, len(schema.inputs) - 1)]
            if place < len(schema.inputs) or parameter.option == "variadic":
                self.operand(form.index, ("form", str(operand.index)), parameter, schema)

    def several(self, form: f.Op) -> None:
        """Of an operator of several domains: what any of them takes."""
        schemas = [self.schema((domain, form.operator[1])) for domain in _domains(form)]
        known = [s for s in schemas if s is not None]
        for place, operand in enumerate(form.operands):
            if isinstance(operand, f.Any) and operand.optional and operand.index != self.focus:
                continue
            taken = [_types(s, s.inputs[place].type) for s in known if place < len(s.inputs)]
            if taken:
                self.restrict(("form", str(operand.index)), frozenset().union(*taken))

    def operand(self, index: int, token: Token, parameter: OperandSchema, schema: OpSchema) -> None:
        """A value where the schema has this parameter."""
        if parameter.type in schema.types and parameter.homogeneous:
            variable = (f"op {index}", parameter.type)
            self.restrict(variable, schema.types[parameter.type])
            self.join(variable, token)
        else:
            self.restrict(token, _types(schema, parameter.type))

    def schema(self, operator: f.Operator) -> OpSchema | None:
        return in_force(self.vocabulary.schemas(*operator), self.opset)


def _domains(form: f.Op) -> tuple[str, ...]:
    return (form.operator[0], *form.also)


def _types(schema: OpSchema, type_text: str) -> frozenset[str]:
    """What a type of the schema stands for; everything where it is no dense tensor."""
    if type_text in schema.types:
        return schema.types[type_text]
    name = from_type_string(type_text)
    return ALL if name is None else frozenset({name})
