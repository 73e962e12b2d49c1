"""A model as planning sees it: operators over numbered values, local functions called in place.

In: `LoadedModel`. Out: `Graph`: a list of `Op`s in an order in which they can run. Subgraphs of
control flow are `Graph`s that use the outer values by their numbers. Nothing in it is the model's,
which may be changed or released afterwards.

A local function whose domain is that of groups (`rewrite`, `rewrite.<target>`) is a group: its
operators carry the name of the call, so that fusion knows what the rules proposed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from rewrite.errors import error
from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel
from rewrite.graph.tensors import ComputedTensor, SparseTensor, elements, owned
from rewrite.graph.types import dtype_name
from rewrite.graph.write import write_attribute
from rewrite.schema import Type

Array = np.ndarray[Any, np.dtype[Any]]
Content = Array | ComputedTensor  # elements, or how they are computed
MOST_CALLS = 64  # nesting of local functions; ONNX forbids recursion
GROUP_DOMAIN = "rewrite"
# Operators whose graphs the driver runs.
CONTROL = frozenset(
    {("", "If"), ("", "Loop"), ("", "Scan"), ("", "SequenceMap"), ("com.microsoft", "BeamSearch")}
)


@dataclass(frozen=True, slots=True)
class Op:
    """One operator. Operands and outputs are numbers of values; None: absent."""

    domain: str
    name: str
    opset: int
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    attributes: Mapping[str, Any]  # plain values; graphs as `Graph`, types as onnx-ir has them
    node: str  # the node it comes from, for messages
    group: str = ""  # the call of a group that it is part of

    @property
    def key(self) -> tuple[str, str]:
        return self.domain, self.name

    def graphs(self) -> Iterator[Graph]:
        for value in self.attributes.values():
            if isinstance(value, Graph):
                yield value


@dataclass
class Graph:
    """One graph. `captures`: the values of graphs around it that it uses, itself or further in."""

    inputs: tuple[int, ...] = ()
    outputs: tuple[int | None, ...] = ()
    ops: tuple[Op, ...] = ()
    constants: dict[int, Content] = field(default_factory=dict)
    defaults: dict[int, Array] = field(default_factory=dict)  # inputs that have one
    captures: tuple[int, ...] = ()
    input_types: tuple[Type | None, ...] = ()  # as declared
    output_types: tuple[Type | None, ...] = ()
    source: onnx.GraphProto | None = None  # where only ONNX's function or evaluator can use it


@dataclass
class Program:
    """The main graph and what is said about its values."""

    graph: Graph
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    input_types: tuple[Type | None, ...]  # None: not a dense tensor
    output_types: tuple[Type | None, ...]
    names: dict[int, str]
    count: int  # numbers given so far
    opset: int  # of ai.onnx, in the main graph


def read(loaded: LoadedModel) -> Program:
    """The main graph of a model, with everything it calls."""
    return _Reader(loaded).program()


class _Reader:
    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.facts: Facts = loaded.facts
        self.numbers = itertools.count()
        self.names: dict[int, str] = {}
        self.functions = loaded.model.functions

    def number(self, name: str | None) -> int:
        found = next(self.numbers)
        self.names[found] = name or f"value {found}"
        return found

    def program(self) -> Program:
        graph = self.loaded.model.graph
        made = self.graph(graph, {}, {}, 0)
        return Program(
            graph=made,
            input_names=tuple(v.name or "" for v in self.given(graph)),
            output_names=tuple(v.name or "" for v in graph.outputs),
            input_types=tuple(self.type(v) for v in self.given(graph)),
            output_types=tuple(self.type(v) for v in graph.outputs),
            names=self.names,
            count=next(self.numbers),
            opset=self.facts.import_of(graph, ""),
        )

    def given(self, graph: ir.Graph) -> list[ir.Value]:
        """The inputs that a caller may give (of old models, not the initializers among them)."""
        return [v for v in graph.inputs if not v.is_initializer() or self.facts.is_overridable(v)]

    def type(self, value: ir.Value) -> Type | None:
        declared = value.type
        if declared is None:
            found = self.facts.type(value)
            return found if found.dtype is not None else None
        if not isinstance(declared, ir.TensorType):
            return None
        return Type(dtype_name(declared.dtype), self.facts.type(value).shape)

    def graph(
        self,
        graph: ir.Graph | ir.Function,
        outer: Mapping[ir.Value, int | None],
        parameters: Mapping[str, Any],
        depth: int,
        group: str = "",
    ) -> Graph:
        """A graph whose values get fresh numbers."""
        numbers: dict[ir.Value, int | None] = {}
        made = Graph()
        scope = _Scope(numbers, outer)
        made.inputs = tuple(scope.define(v, self.number(v.name)) for v in graph.inputs)
        if isinstance(graph, ir.Graph):
            self.initializers(graph, scope, made)
            made.inputs = tuple(numbers[v] or 0 for v in self.given_or_all(graph))
        ops: list[Op] = []
        for node in graph:
            self.node(node, scope, parameters, depth, group, ops, made)
        made.ops = tuple(ops)
        made.outputs = tuple(scope.find(v) for v in graph.outputs)
        made.input_types = tuple(self.type(v) for v in graph.inputs)
        made.output_types = tuple(self.type(v) for v in graph.outputs)
        made.ops = _without_unused(made)
        made.captures = _captures(made)
        return made

    def given_or_all(self, graph: ir.Graph) -> list[ir.Value]:
        return self.given(graph) if graph is self.loaded.model.graph else list(graph.inputs)

    def initializers(self, graph: ir.Graph, scope: _Scope, made: Graph) -> None:
        for value in graph.initializers.values():
            number = scope.numbers.get(value)
            if number is None:
                number = scope.define(value, self.number(value.name))
            tensor = value.const_value
            if tensor is None:
                continue
            if value.is_graph_input() and self.facts.is_overridable(value):
                made.defaults[number] = elements(tensor)
            else:
                made.constants[number] = (
                    tensor if isinstance(tensor, ComputedTensor) else elements(tensor)
                )

    def node(
        self,
        node: ir.Node,
        scope: _Scope,
        parameters: Mapping[str, Any],
        depth: int,
        group: str,
        ops: list[Op],
        made: Graph,
    ) -> None:
        function = self.functions.get((node.domain, node.op_type, node.overload))
        inputs = tuple(None if v is None else scope.find(v) for v in node.inputs)
        attributes = self.attributes(node, scope, parameters, depth, group)
        if function is not None:
            self.call(node, function, inputs, attributes, scope, depth, group, ops, made)
            return
        domain = "" if node.domain == "ai.onnx" else node.domain
        outputs = tuple(
            None if not v.name else scope.define(v, self.number(v.name)) for v in node.outputs
        )
        if domain == "" and node.op_type == "Constant":
            array = constant_of(attributes)
            if array is not None and outputs[0] is not None:
                made.constants[outputs[0]] = array
                return
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        opset = self.facts.opset(node)
        first = next((v.name for v in node.outputs if v.name), None)
        name = node.name or (f"{group}/{node.op_type}" if group else first) or node.op_type
        ops.append(Op(domain, node.op_type, opset, inputs, outputs, attributes, name, group))

    def call(
        self,
        node: ir.Node,
        function: ir.Function,
        inputs: tuple[int | None, ...],
        attributes: Mapping[str, Any],
        scope: _Scope,
        depth: int,
        group: str,
        ops: list[Op],
        made: Graph,
    ) -> None:
        """The body of a local function in place of its call."""
        if depth >= MOST_CALLS:
            raise error("RW801", f"local functions call each other deeper than {MOST_CALLS} times")
        if not group and node.domain.split(".")[0] == GROUP_DOMAIN:
            group = node.outputs[0].name or node.name or node.op_type  # a name the model had
        defaults = function.attributes.items()
        values = {n: _kept(a.type, a.value) for n, a in defaults if a.value is not None}
        values.update(attributes)
        given = [*inputs, *([None] * (len(function.inputs) - len(inputs)))]
        inner = _Scope(dict(zip(function.inputs, given, strict=False)), {})
        for body_node in function:
            self.node(body_node, inner, values, depth + 1, group, ops, made)
        for output, result in zip(node.outputs, function.outputs, strict=False):
            scope.numbers[output] = inner.find(result)

    def attributes(
        self,
        node: ir.Node,
        scope: _Scope,
        parameters: Mapping[str, Any],
        depth: int,
        group: str,
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, attribute in node.attributes.items():
            if attribute.is_ref():
                value = parameters.get(attribute.ref_attr_name or "")
                if value is not None:
                    found[name] = value
                continue
            value = attribute.value
            if attribute.type == ir.AttributeType.GRAPH:
                value = self.graph(value, scope.all(), parameters, depth, group)
                if (node.domain, node.op_type) not in CONTROL and not value.captures:
                    value.source = _message(attribute).g
            elif attribute.type == ir.AttributeType.GRAPHS:
                value = tuple(self.graph(g, scope.all(), parameters, depth, group) for g in value)
            found[name] = _kept(attribute.type, value)
        return found


def _message(attribute: ir.Attr) -> onnx.AttributeProto:
    made = onnx.AttributeProto()
    write_attribute(made, attribute)
    return made


def _kept(kind: ir.AttributeType, value: Any) -> Any:
    """The value of an attribute, its tensors without the model's message."""
    if kind == ir.AttributeType.TENSOR:
        return owned(value)
    if kind == ir.AttributeType.TENSORS:
        return tuple(owned(tensor) for tensor in value)
    return value


@dataclass
class _Scope:
    """The numbers of a graph's values, and of the values around it."""

    numbers: dict[ir.Value, int | None]
    outer: Mapping[ir.Value, int | None]

    def define(self, value: ir.Value, number: int) -> int:
        self.numbers[value] = number
        return number

    def find(self, value: ir.Value) -> int | None:
        if value in self.numbers:
            return self.numbers[value]
        return self.outer.get(value)

    def all(self) -> dict[ir.Value, int | None]:
        return {**self.outer, **self.numbers}


def _without_unused(graph: Graph) -> tuple[Op, ...]:
    """The operators, outputs that nobody uses being absent."""
    used = {v for v in graph.outputs if v is not None}
    for op in graph.ops:
        used.update(v for v in op.inputs if v is not None)
        for inner in op.graphs():
            used.update(inner.captures)
    return tuple(
        op
        if all(v is None or v in used for v in op.outputs)
        else replace(op, outputs=tuple(v if v in used else None for v in op.outputs))
        for op in graph.ops
    )


def _captures(graph: Graph) -> tuple[int, ...]:
    """Values used in a graph, or in graphs inside it, that it does not make itself."""
    made = {*graph.inputs, *graph.constants}
    for op in graph.ops:
        made.update(v for v in op.outputs if v is not None)
    used: dict[int, None] = {}
    for op in graph.ops:
        used.update((v, None) for v in op.inputs if v is not None)
        for inner in op.graphs():
            used.update((v, None) for v in inner.captures)
    used.update((v, None) for v in graph.outputs if v is not None)
    return tuple(v for v in used if v not in made)


def constant_of(attributes: Mapping[str, Any]) -> Content | None:
    """The value of a Constant node; None where its attribute is not known."""
    for name, value in attributes.items():
        if name == "value":
            return value if isinstance(value, ComputedTensor) else elements(value)
        if name == "value_float":
            return np.array(value, np.float32)
        if name == "value_floats":
            return np.array(value, np.float32).reshape(-1)
        if name == "value_int":
            return np.array(value, np.int64)
        if name == "value_ints":
            return np.array(value, np.int64).reshape(-1)
        if name == "value_string":
            return np.array(_text(value), object)
        if name == "value_strings":
            return np.array([_text(v) for v in value], object)
        if name == "sparse_value":
            return SparseTensor(value).numpy()
    return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
