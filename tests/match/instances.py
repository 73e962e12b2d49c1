"""Graphs made from patterns: what a rule asks for, and small changes of it.

In: a pattern and a source of chance. Out: a model whose node `anchor` the rule may match. The graph
need not be a sensible model: the matchers look at structure, constants and declared types only.
"""

from __future__ import annotations

import random

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.match import form as f
from rewrite.match.rule import CompiledRule
from rewrite.ops import legacy
from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DTYPES

NUMBERS = (0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 0.044715, 0.7978845608028654, 1.4142135623730951, 6.0)


class Instance:
    """One graph, grown downwards from the pattern of a rule."""

    def __init__(self, rule: CompiledRule, chance: random.Random) -> None:
        self.rule, self.pattern, self.chance = rule, rule.pattern, chance
        self.dtype = chance.choice(["f32", "f32", "f16", "s64"])
        self.rank = chance.randint(1, 4)
        self.names: dict[str, ir.Value | None] = {}
        self.inputs: list[ir.Value] = []
        self.constants: list[ir.Value] = []
        self.nodes: list[ir.Node] = []

    def build(self) -> tuple[Facts, ir.Node]:
        """The model and the node that the pattern was grown from."""
        order = [self.pattern.anchor, *(s.statement for s in self.pattern.forward)]
        tops = [self.statement(i) for i in order]
        anchor = tops[0].producer()
        self.mutate()
        outputs = [v for v in self.values() if not v.uses() and v.producer() is not None]
        extra = self.chance.sample(self.values(), k=self.chance.choice([0, 0, 0, 1]))
        outputs += [v for v in extra if v.producer() is not None and v not in outputs]
        opset = self.chance.choice([*range(*self.rule.opset), self.rule.opset[1]])
        graph = ir.Graph(
            self.inputs, outputs, nodes=self.sorted(), initializers=self.constants,
            opset_imports={"": opset, "com.microsoft": 1}, name="g",
        )  # fmt: skip
        model = ir.Model(graph, ir_version=8)
        assert anchor is not None
        return Facts(model), anchor

    def values(self) -> list[ir.Value]:
        return [v for n in self.nodes for v in n.outputs]

    def sorted(self) -> list[ir.Node]:
        done: dict[ir.Node, None] = {}

        def place(node: ir.Node) -> None:
            if node not in done:
                for before in node.predecessors():
                    place(before)
                done[node] = None

        for node in self.nodes:
            place(node)
        return list(done)

    # --- values --------------------------------------------------------------------------------

    def type(self, value: ir.Value, dtype: str, dims: list[int | str]) -> ir.Value:
        value.dtype = ir.DataType(DTYPES[dtype])
        value.shape = ir.Shape(dims)
        return value

    def shape(self) -> list[int | str]:
        return [self.chance.choice([1, 2, 3, "N"]) for _ in range(self.rank)]

    def input(self, test: f.TypeTest | None) -> ir.Value:
        if self.inputs and self.chance.random() < 0.2:
            return self.chance.choice(self.inputs)
        value = ir.Value(name=f"in{len(self.inputs)}")
        self.inputs.append(self.type(value, *self.wanted(test)))
        return value

    def wanted(self, test: f.TypeTest | None) -> tuple[str, list[int | str]]:
        """An element type and a shape that the test may allow."""
        dtype, dims = self.dtype, self.shape()
        if test is not None and test.dtypes is not None and dtype not in test.dtypes:
            dtype = self.chance.choice(sorted(test.dtypes - {"string"}) or [dtype])
        if test is not None and test.shape is not None:
            parts = [*test.shape.front, *test.shape.back]
            dims = [2 if d.size is None else d.size for d in parts]
        return dtype, dims

    def constant(self, number: float | None, test: f.TypeTest | None = None) -> ir.Value:
        dtype, dims = self.wanted(test)
        sizes = [d if isinstance(d, int) else 2 for d in dims]
        if number is not None:
            sizes = [1] * self.chance.randint(0, self.rank)
        fill = self.chance.choice(NUMBERS) if number is None else number
        if number is None and self.chance.random() < 0.3:
            sizes, dtype = [self.chance.randint(1, self.rank)], "s64"
        with np.errstate(all="ignore"):
            array = np.full(sizes, fill).astype(to_numpy(dtype))
        name = f"k{len(self.constants)}"
        value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
        self.constants.append(self.type(value, dtype, list(sizes)))
        return value

    def node(self, operator: f.Operator, operands: list[ir.Value | None], outputs: int = 1,
             attributes: dict[str, object] | None = None) -> ir.Value:  # fmt: skip
        made = [
            self.type(ir.Value(name=f"v{len(self.nodes)}_{i}"), self.dtype, self.shape())
            for i in range(outputs)
        ]
        attrs = ir.convenience.convert_attributes(attributes or {})
        node = ir.Node(*operator, operands, attrs, outputs=made)
        self.nodes.append(node)
        return made[0]

    # --- forms ---------------------------------------------------------------------------------

    def statement(self, index: int) -> ir.Value:
        statement = self.pattern.statements[index]
        if isinstance(statement, f.Each):
            outer = dict(self.names)
            for _ in range(statement.least):
                kept = {n: v for n, v in self.names.items() if n not in statement.inner}
                self.names = {**outer, **kept}
                value = self.make(statement.form)
            assert value is not None
            return value
        value = self.make(statement.form, len(statement.names))
        assert value is not None
        producer = value.producer()
        outputs = list(producer.outputs) if producer is not None else [value]
        for name, output in zip(statement.names, outputs, strict=False):
            if name is not None:
                self.names[name] = output
        return value

    def make(self, form: f.Form, outputs: int = 1) -> ir.Value | None:
        """A value of this form, or None where it is absent."""
        if isinstance(form, f.Any):
            return self.any(form)
        if isinstance(form, f.Number):
            return self.constant(float(form.value))
        if isinstance(form, f.Reference):
            if form.name not in self.names:
                self.statement(form.statement)
            return self.names[form.name]
        if isinstance(form, f.Choice):
            return self.make(self.chance.choice(form.branches).form)
        if isinstance(form, f.Bag):
            return self.bag(form)
        if isinstance(form, f.Chain):
            return self.chain(form)
        if isinstance(form, f.Op):
            return self.op(form, outputs)
        return None

    def any(self, form: f.Any) -> ir.Value | None:
        if form.name is not None and form.name in self.names:
            return self.names[form.name]
        if form.optional and self.chance.random() < 0.4:
            value = None
        elif form.type is not None and form.type.const:
            value = self.constant(None, form.type)
        else:
            value = self.input(form.type)
        if form.name is not None:
            self.names[form.name] = value
        return value

    def bag(self, form: f.Bag) -> ir.Value:
        parts = [self.make(item) for item in form.items]
        self.chance.shuffle(parts)
        while len(parts) > 1:
            i = self.chance.randrange(len(parts) - 1)
            parts[i : i + 2] = [self.node(form.operator, parts[i : i + 2])]
        assert parts[0] is not None
        return parts[0]

    def chain(self, form: f.Chain) -> ir.Value | None:
        value = self.make(form.start)
        for _ in range(self.chance.randint(form.least, min(form.most, form.least + 2))):
            operator = self.chance.choice(sorted(form.operators))
            side = [self.constant(None)] if operator[1] in ("Add", "Mul", "Max", "Sub") else []
            value = self.node(operator, self.chance.sample([value, *side], 1 + len(side)))
        return value

    def op(self, form: f.Op, outputs: int) -> ir.Value:
        operands = [self.make(o) for o in form.operands]
        if form.commutes and self.chance.random() < 0.5:
            operands.reverse()
        if form.rest is not None:
            count = self.chance.randint(1, 3)
            const = form.rest.type is not None and form.rest.type.const
            rest = [
                self.constant(None) if const else self.input(form.rest.type) for _ in range(count)
            ]
            if form.rest.name is not None and form.rest.name not in self.names:
                self.names[form.rest.name] = rest[0]
            operands += rest
        while operands and operands[-1] is None:
            operands.pop()
        attributes = {}
        carried = {e.attribute for e in legacy.TABLE.get(form.operator[1], {}).values()}
        for test in form.attributes:
            if test.values is not None and test.name not in carried:
                attributes[test.name] = self.chance.choice(test.values)
        return self.node(form.operator, operands, outputs, attributes)

    # --- changes -------------------------------------------------------------------------------

    def mutate(self) -> None:
        """At most one change: another use, another operand, operands exchanged, a node copied."""
        kind = self.chance.choice(["none", "none", "use", "operand", "swap", "alias", "constant"])
        node = self.chance.choice(self.nodes)
        if kind == "use":
            self.node(("", "Abs"), [node.outputs[0]])
        elif kind == "swap" and len(node.inputs) == 2:
            first, second = node.inputs
            node.replace_input_with(0, second)
            node.replace_input_with(1, first)
        elif kind == "operand" and node.inputs and self.inputs:
            node.replace_input_with(0, self.chance.choice(self.inputs))
        elif kind == "constant" and node.inputs:
            node.replace_input_with(len(node.inputs) - 1, self.constant(None))
        elif kind == "alias" and node.inputs and node.inputs[0] is not None:
            node.replace_input_with(0, self.node(("", "Identity"), [node.inputs[0]]))
