"""Right-hand sides: `emit` statements as functions that build nodes.

In: the statements of a rule (compiled once), then one match at a time. Out: new nodes in no graph,
and the new value of each root. Nothing of the graph is changed here except that new nodes register
as users of their operands; `edit.discard` takes that back.

An expression gives a graph value or what the expression language gives (a constant, a number, a
list). `+ - * /` make a node where an operand is a graph value that is not constant, else they
compute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from rewrite.engine.admission import admitted, keeps_precision, operand_schema, postponed
from rewrite.engine.attributes import carried_node, resolve
from rewrite.engine.inference import node_types
from rewrite.engine.refused import RefusedError
from rewrite.errors import Span
from rewrite.graph import edit
from rewrite.graph.facts import Facts
from rewrite.graph.tensors import ComputedTensor
from rewrite.lang import ast
from rewrite.lang.kinds import MAKES_NODES
from rewrite.match.builtins import registry
from rewrite.match.expr import compile_expr
from rewrite.match.operators import binary, negative
from rewrite.match.values import Env, Tensor, Unknown, describe, is_graph_value, weak
from rewrite.ops import schemas
from rewrite.ops.call import Array
from rewrite.ops.dtypes import from_type_string
from rewrite.schema import DOMAINS, OpSchema

MOST_OPERANDS = 4096  # of an emitted node
REPEATED = "@"  # `@m(x)`: the operator that produced `m`, with its attributes

Make = Callable[["Builder"], object]


@dataclass(frozen=True, slots=True)
class Statement:
    """`a, b = value`, ready to run. `node` where the value is an operator, else `value`."""

    names: tuple[str, ...]
    node: MakeNode | None
    value: Make | None


@dataclass(slots=True)
class Builder:
    """What one application has built so far."""

    facts: Facts
    graph: ir.Graph
    env: Env
    rule: str
    nodes: list[ir.Node] = field(default_factory=list)
    results: dict[str, object] = field(default_factory=dict)
    nbytes: int = 0  # of the constants made

    def run(self, statements: Sequence[Statement]) -> None:
        """Build every statement; `RefusedError` or `Unknown` where one cannot be."""
        names = self.env.names
        for statement in statements:
            if statement.node is not None:
                made = self._outputs(statement.names, statement.node)
            else:
                assert statement.value is not None
                made = {statement.names[0]: statement.value(self)}
            self.results.update(made)
            for name, value in made.items():
                if name not in names:  # a temporary; roots keep their old value in expressions
                    self.env = self.env.bound(name, value)

    def _outputs(self, names: Sequence[str], node: MakeNode) -> dict[str, object]:
        """The outputs of one node by name; the name of a list takes as many as the list has."""
        lists = {n: len(v) for n in names if isinstance(v := self.env.names.get(n), tuple)}
        if not lists:
            return dict(zip(names, node.build(self, len(names))._outputs, strict=True))
        outputs = node.build(self, sum(lists.get(name, 1) for name in names)).outputs
        made: dict[str, object] = {}
        start = 0
        for name in names:
            stop = start + lists.get(name, 1)
            made[name] = outputs[start:stop] if name in lists else outputs[start]
            start = stop
        return made

    def schema(self, domain: str, name: str) -> OpSchema:
        """The version of an operator that the graph at hand can have."""
        opset = self.facts.import_of(self.graph, domain) or (1 if domain else 0)
        schema = schemas.lookup(domain, name, opset)
        if schema is None or schema.deprecated:
            raise RefusedError(f"{name} is not an operator of opset {opset} of '{domain}'")
        # A function may import another opset than the model, but then only use operators that are
        # the same in both (onnx/checker.cc, "not compatible with the version imported by model").
        outer = self.facts.model.opset_imports.get(domain, opset)
        if outer != opset and schemas.lookup(domain, name, outer) is not schema:
            raise RefusedError(f"{name} differs between opset {opset} and {outer} of the model")
        return schema

    def node(
        self,
        schema: OpSchema,
        operands: Sequence[object],
        attributes: Mapping[str, ir.Attr],
        n_outputs: int,
    ) -> ir.Node:
        """A typed node; constants among the operands get the element type that it demands."""
        values = self._operands(schema, operands)
        made = edit.make_node(
            self.facts,
            self.graph,
            schema.domain,
            schema.name,
            values,
            attributes,
            n_outputs,
            rule=self.rule,
        )
        if isinstance(made, edit.Refused):
            raise RefusedError(made.reason)
        self.nodes.append(made)
        outputs = made._outputs
        types = node_types(self.facts, made, values)
        for output, type_ in zip(outputs, types, strict=True):
            self.facts.set_type(output, type_)
        admitted(self.facts, schema, values, outputs)
        return made

    def make(
        self, operator: str, operands: Sequence[object], attributes: Mapping[str, object]
    ) -> ir.Value:
        """`Maker.make`: the first output of a node of ai.onnx."""
        schema = self.schema("", operator)
        given = resolve(self.facts, self.env, schema, attributes, ())
        return self.node(schema, operands, given, 1).outputs[0]

    def fixed(self, array: Array) -> ir.Value:
        """`Maker.fixed`: a constant of exactly these bits."""
        self.nbytes += array.nbytes
        return edit.new_constant(self.facts, array, f"{self.rule}_const")

    def _operands(self, schema: OpSchema, operands: Sequence[object]) -> list[ir.Value | None]:
        values: list[ir.Value | None] = []
        late: list[tuple[int, object]] = []
        for index, operand in enumerate(operands):
            if operand is None or is_graph_value(operand):
                values.append(operand)
            else:
                values.append(None)
                late.append((index, operand))
        for index, operand in late:
            demanded = self._demanded(schema, index, values)
            values[index] = self.constant(operand, demanded, operand_schema(schema, index).name)
        return values

    def _demanded(
        self, schema: OpSchema, index: int, values: Sequence[ir.Value | None]
    ) -> str | None:
        """The element type that the schema and the other operands fix for operand `index`."""
        variable = operand_schema(schema, index).type
        concrete = from_type_string(variable)
        if concrete is not None:
            return concrete
        for other, value in enumerate(values):
            if value is not None and operand_schema(schema, other).type == variable:
                dtype = self.facts.type(value).dtype
                if dtype is not None:
                    return dtype
        admitted = schema.types.get(variable, frozenset())
        return next(iter(admitted)) if len(admitted) == 1 else None

    def constant(self, value: object, dtype: str | None, hint: str) -> ir.Value:
        """A computed constant as a fresh value."""
        tensor = value if isinstance(value, Tensor) else weak(value)
        if dtype is None and tensor.dtype is None:
            raise RefusedError(f"the element type of constant '{hint}' is not known")
        if dtype is not None and tensor.dtype not in (None, dtype):
            tensor = Tensor(tensor.array, dtype)
        made: Array | ComputedTensor | None = postponed(tensor, dtype)
        if made is None:
            made = tensor.rounded(dtype)
            keeps_precision(tensor, made, hint)
        self.nbytes += made.nbytes
        return edit.new_constant(self.facts, made, f"{self.rule}_{hint}")


# --- compiling ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeNode:
    """An operator of an `emit` statement."""

    op: ast.OpName
    operands: tuple[Make, ...]
    splats: frozenset[int]  # positions whose list is spread
    attributes: tuple[tuple[str, Make], ...]
    carry: tuple[str, ...]
    literal: bool  # the attributes are the same in every match
    known: dict[tuple[str, str, int], Mapping[str, ir.Attr]] = field(default_factory=dict)

    def build(self, builder: Builder, n_outputs: int) -> ir.Node:
        operands: list[object] = []
        for index, make in enumerate(self.operands):
            made = make(builder)
            if index not in self.splats:
                operands.append(made)
            elif isinstance(made, tuple):
                operands.extend(made)
            else:
                raise RefusedError(f"{describe(made)} is not a list")
        if len(operands) > MOST_OPERANDS:
            raise RefusedError(f"a node of {len(operands):,} operands is over the limit")
        schema = self._schema(builder)
        return builder.node(schema, operands, self._attributes(builder, schema), n_outputs)

    def _attributes(self, builder: Builder, schema: OpSchema) -> Mapping[str, ir.Attr]:
        key = (schema.domain, schema.name, schema.since)
        known = self.known.get(key)
        if known is not None:
            return known
        given = {name: make(builder) for name, make in self.attributes}
        found = resolve(builder.facts, builder.env, schema, given, self.carry)
        if self.literal:
            self.known[key] = found
        return found

    def _schema(self, builder: Builder) -> OpSchema:
        """The operator written, or the one that a matched value comes from."""
        if self.op.prefix != REPEATED:
            return builder.schema(DOMAINS[self.op.prefix], self.op.name)
        node = carried_node(builder.env, self.op.name)
        if node is None:
            raise RefusedError(f"no node computes '{self.op.name}'")
        return builder.schema(node.domain, node.op_type)


def compile_emit(statements: Sequence[ast.EmitStatement]) -> tuple[Statement, ...]:
    """The statements of a rule as functions of a `Builder`."""
    found = []
    for statement in statements:
        if isinstance(statement.value, ast.OpExpr):
            found.append(Statement(statement.names, _make_node(statement.value), None))
        else:
            found.append(Statement(statement.names, None, _compile(statement.value)))
    return tuple(found)


def _make_node(expr: ast.OpExpr) -> MakeNode:
    repeated = expr.op.prefix == REPEATED
    carry = (expr.op.name, *expr.carry) if repeated else expr.carry
    splats = (i for i, operand in enumerate(expr.operands) if isinstance(operand, ast.Splat))
    return MakeNode(
        op=expr.op,
        operands=tuple(_compile(operand) for operand in expr.operands),
        splats=frozenset(splats),
        attributes=tuple((a.name, _compile(a.value)) for a in expr.attributes),
        carry=carry,
        literal=not carry and all(isinstance(a.value, ast.Constant) for a in expr.attributes),
    )


def _compile(expr: ast.Expr) -> Make:
    """A graph value where the expression makes or names one, else the computed value."""
    if isinstance(expr, ast.OpExpr):
        made = _make_node(expr)
        return lambda builder: made.build(builder, 1).outputs[0]
    if isinstance(expr, (ast.Name, ast.Splat)):
        return _lookup(expr.name)
    if isinstance(expr, ast.Binary):
        return _binary(expr)
    if isinstance(expr, ast.Unary) and expr.operator == "-":
        return _negation(expr)
    if isinstance(expr, ast.Case):
        return _case(expr)
    if isinstance(expr, ast.Call) and registry.find(expr.function).signature.makes:
        return _made(expr)
    return _computed(expr)


def _made(expr: ast.Call) -> Make:
    """A function that makes nodes; its arguments may be nodes, too."""
    call = registry.find(expr.function).call
    arguments = tuple(_compile(argument) for argument in expr.arguments)
    keywords = tuple((name, _compile(value)) for name, value in expr.keywords)

    def make(builder: Builder) -> object:
        positional = tuple([argument(builder) for argument in arguments])
        named = {name: value(builder) for name, value in keywords}
        return call(builder.env, positional, named, builder)

    return make


def _computed(expr: ast.Expr) -> Make:
    compute = compile_expr(expr)
    return lambda builder: compute(builder.env)


def _lookup(name: str) -> Make:
    compute = compile_expr(ast.Name(_NOWHERE, name))

    def make(builder: Builder) -> object:
        made = builder.results.get(name)
        if made is None:
            made = builder.env.names.get(name)  # a `let` may not be computed yet
        return compute(builder.env) if made is None else made

    return make


def _binary(expr: ast.Binary) -> Make:
    symbol = expr.operator
    if symbol == "??":
        first, second = _compile(expr.left), _compile(expr.right)
        return lambda builder: second(builder) if (a := first(builder)) is None else a
    op = MAKES_NODES.get(symbol)
    if op is None:
        return _computed(expr)
    left, right = _compile(expr.left), _compile(expr.right)

    def make(builder: Builder) -> object:
        a, b = left(builder), right(builder)
        if not (_flows(builder, a) or _flows(builder, b)):
            return binary(symbol, a, b, builder.env)
        return builder.node(builder.schema("", op), (a, b), {}, 1).outputs[0]

    return make


def _negation(expr: ast.Unary) -> Make:
    operand = _compile(expr.operand)

    def make(builder: Builder) -> object:
        value = operand(builder)
        if not _flows(builder, value):
            return negative(value, builder.env)
        return builder.node(builder.schema("", "Neg"), (value,), {}, 1).outputs[0]

    return make


def _case(expr: ast.Case) -> Make:
    arms = tuple((arm.name, _compile(arm.value)) for arm in expr.arms)

    def make(builder: Builder) -> object:
        for name, value in arms:
            if name is None or builder.env.holds(name):
                return value(builder)
        raise Unknown("no arm of the case holds")

    return make


def _flows(builder: Builder, value: object) -> bool:
    """Whether it is a graph value known only when the model runs."""
    return is_graph_value(value) and builder.facts.constant(value) is None


# Diagnostics are of no use here: names were checked when the pack was loaded.
_NOWHERE = Span("", 0, 0, 0, 0)
