"""Runs a whole model under the real-number meaning of quantized models.

In: a model, feeds. Out: `Outcome`: the values of its outputs, and what runtimes need not agree on.

- DequantizeLinear gives the real number (code - zero point) scale; operators up to the next
  QuantizeLinear compute in real numbers: sums, products, comparisons exactly, other functions in
  float64 with a bound; QuantizeLinear takes the exactly nearest code, ties to even.
- Operators on integers are those of the ONNX specification.
- Floats between integers and integers are machine numbers (`islands`).

Local functions are inlined. Graphs inside nodes (If, Loop, Scan) are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnx_ir as ir

from rewrite.audit.oracle import operators
from rewrite.audit.oracle.islands import Link, machine_nodes
from rewrite.audit.oracle.pointwise import pointwise
from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.run_floats import in_floats, is_plain
from rewrite.audit.oracle.standard import standard
from rewrite.audit.oracle.step import Fault, Notes, OracleError, Step, Value, Values
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.graph.facts import ReferenceAttribute
from rewrite.graph.model import LoadedModel
from rewrite.ops.call import ILL_TYPED, InferenceError
from rewrite.ops.dtypes import to_numpy
from rewrite.quant.codes import Array
from rewrite.schema import DTYPE_CLASSES

FLOATS = DTYPE_CLASSES["f"]
Watch = Callable[[str, Value], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`undecided`: questions whose answer hung on the rounding of float64."""

    outputs: Mapping[str, Value]
    undecided: int
    faults: tuple[Fault, ...]


class Oracle:
    """A model ready to be run; what is constant in it is computed once."""

    name = "oracle"

    def __init__(self, source: io.Source | LoadedModel) -> None:
        self.loaded = _inlined(source)
        self.graph = self.loaded.model.graph
        self.nodes = list(self.graph)
        self._refuse()
        self._constants: dict[ir.Value, Value] = {}
        self._machine = self._find_machine()
        self._last = _last_uses(self.nodes)
        self._fixed = Notes()

    @property
    def inputs(self) -> tuple[str, ...]:
        """What has to be given: inputs without a default."""
        return tuple(v.name or "" for v in self.graph.inputs if not v.is_initializer())

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(v.name or "" for v in self.graph.outputs)

    def _refuse(self) -> None:
        for node in self.nodes:
            for attribute in node.attributes.values():
                if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                    raise OracleError(f"node {_name(node)} holds a graph ({node.op_type})")

    def _find_machine(self) -> set[ir.Node]:
        facts = self.loaded.facts
        links = []
        for node in self.nodes:
            read = [v for v in node.inputs if v is not None]
            types = {v: facts.type(v).dtype for v in (*read, *node.outputs)}
            links.append(
                Link(
                    node.op_type,
                    node.domain,
                    tuple(
                        v.name or ""
                        for v in read
                        if types[v] in FLOATS and not self._is_constant(v)
                    ),
                    tuple(v.name or "" for v in node.outputs if types[v] in FLOATS),
                    all(t is not None for t in types.values()),
                )
            )
        given = [v.name or "" for v in self.graph.inputs]
        asked = [v.name or "" for v in self.graph.outputs]
        return {self.nodes[k] for k in machine_nodes(links, given, asked)}

    def _is_constant(self, value: ir.Value) -> bool:
        return self.loaded.facts.constant(value) is not None

    # --- running -------------------------------------------------------------------------------

    def run(
        self,
        feeds: Mapping[str, Array],
        watch: Watch | None = None,
        steps: dict[str, Array] | None = None,
    ) -> Outcome:
        """One run. `watch` is told every value that depends on the inputs by name, in order.

        `steps` receives, for the codes that each quantization gives, the numbers before rounding
        and saturation, in steps with the zero point added. Raises `OracleError` where a value has
        no definition, or memory ends the run.
        """
        try:
            return self._run(feeds, watch, steps)
        except MemoryError as problem:
            raise OracleError("the run takes too much memory") from problem

    def _run(
        self, feeds: Mapping[str, Array], watch: Watch | None, steps: dict[str, Array] | None
    ) -> Outcome:
        notes = Notes(faults=list(self._fixed.faults), steps=steps)
        values: dict[ir.Value, Value] = {}
        for value in self.graph.inputs:
            found = feeds.get(value.name or "")
            if found is not None:
                values[value] = np.asarray(found)
        for position, node in enumerate(self.nodes):
            self._visit(node, values, notes)
            if watch is not None:
                self._tell(node, values, watch)
            for value in self._last.get(position, ()):
                values.pop(value, None)
        outputs = {v.name or "": self._typed(v, values) for v in self.graph.outputs}
        return Outcome(outputs, notes.doubts.undecided, tuple(notes.faults))

    def _typed(self, value: ir.Value, values: Mapping[ir.Value, Value]) -> Value:
        """An output; real numbers with the element type that the model states."""
        found = self._value(value, values)
        name = self.loaded.facts.type(value).dtype
        if isinstance(found, Real) and name in FLOATS:
            return Real(found.terms, found.err, to_numpy(name))
        return found

    def _tell(self, node: ir.Node, values: Mapping[ir.Value, Value], watch: Watch) -> None:
        for output in node.outputs:
            found = values.get(output)
            if found is not None and output.name:
                watch(output.name, found)

    def _visit(self, node: ir.Node, values: dict[ir.Value, Value], notes: Notes) -> None:
        if node.outputs and node.outputs[0] in self._constants:
            return
        operands = self.loaded.facts.operands(node)
        fixed = self._all_fixed(node, operands, values)
        given = [None if v is None else self._value(v, values) for v in operands]
        found = self._compute(node, given, self._fixed if fixed else notes)
        where = self._constants if fixed else values
        for output, value in zip(node.outputs, found, strict=False):
            if value is not None:
                where[output] = value

    def _all_fixed(
        self, node: ir.Node, operands: Sequence[ir.Value | None], values: Mapping[ir.Value, Value]
    ) -> bool:
        """Whether the node gives the same in every run."""
        if node.op_type.startswith("Random") or node.op_type in ("Multinomial", "Bernoulli"):
            raise OracleError(f"node {_name(node)} draws random numbers")
        return all(
            v is None or v in self._constants or (v not in values and self._is_constant(v))
            for v in operands
        )

    def _value(self, value: ir.Value, values: Mapping[ir.Value, Value]) -> Value:
        found = values.get(value)
        if found is None:
            found = self._constants.get(value)
        if found is not None:
            return found
        array = self.loaded.facts.array(value)
        if array is None and value.is_initializer() and value.const_value is not None:
            array = value.const_value.numpy()  # an input that nobody gave keeps its default
        if array is None:
            raise OracleError(f"nothing is known of {value.name!r}")
        if value.producer() is None and self._is_constant(value):
            self._constants[value] = array
        return array

    def _compute(self, node: ir.Node, given: Sequence[Value | None], notes: Notes) -> Values:
        try:
            attributes = {name: a.value for name, a in node.attributes.items()}
            opset = self.loaded.facts.opset(node)
            step = Step(
                node.domain, node.op_type, opset, given, attributes,
                len(node.outputs), _name(node), notes, node.outputs[0].name or "",
            )  # fmt: skip
            return compute(step, node in self._machine)
        except OracleError as problem:
            raise OracleError(f"node {_name(node)} ({node.op_type}): {problem}") from problem
        except (ReferenceAttribute, InferenceError, *ILL_TYPED) as problem:
            text = " ".join(f"{problem}".split())[:200]
            raise OracleError(f"node {_name(node)} ({node.op_type}): {text}") from problem


def compute(step: Step, machine: bool) -> Values:
    """The values of one node. `machine`: its floats are machine numbers."""
    own = operators.find(step.domain, step.op)
    data = step.inputs[:1] if step.op in operators.SIZED else step.inputs
    plain = all(is_plain(v) for v in data)
    if machine or (plain and step.op not in operators.MAKES_REALS):
        special = operators.INTEGERS.get((step.domain, step.op))
        return standard(step, step.inputs) if special is None else special(step)
    found = own(step) if own is not None else None
    if found is None:
        found = pointwise(step)
    return in_floats(step) if found is None else found


def _name(node: ir.Node) -> str:
    first = node.outputs[0].name if node.outputs else None
    return repr(node.name or first or node.op_type)


def _last_uses(nodes: Sequence[ir.Node]) -> dict[int, tuple[ir.Value, ...]]:
    """Values that no later node reads, by the position of the node after which they can go."""
    last: dict[ir.Value, int] = {}
    for position, node in enumerate(nodes):
        for value in (*node.inputs, *node.outputs):
            if value is not None and not value.is_graph_output():
                last[value] = position
    found: dict[int, list[ir.Value]] = {}
    for value, position in last.items():
        found.setdefault(position, []).append(value)
    return {position: tuple(values) for position, values in found.items()}


def _inlined(source: io.Source | LoadedModel) -> LoadedModel:
    """The model without local functions."""
    if isinstance(source, LoadedModel):
        loaded = source
    elif isinstance(source, str | os.PathLike | onnx.ModelProto | ir.Model):
        loaded = io.load(source)
    else:
        raise TypeError(f"{type(source).__name__} is not a model")
    if not loaded.model.functions:
        return loaded
    from onnx.inliner import inline_local_functions

    try:
        proto = inline_local_functions(io.to_proto(loaded))
        return io.load(proto)
    except RewriteError:
        raise
    except Exception as problem:
        text = " ".join(str(problem).split())[:200]
        raise OracleError(f"local functions cannot be inlined: {text}") from problem
