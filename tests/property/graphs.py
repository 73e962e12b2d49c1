"""Random models that combine families of operators.

In: a seed. Out: models, valid and repeatable. Two ways: `walk` adds random operators, with
constants that rules look for, to values made so far; `graft` joins examples of rules, the output of
one being the input of the next. Half of them are mutated in the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper, shape_inference

from tests.property.mutate_types import at_opset
from tests.property.mutations import Array, chained, retyped
from tests.property.samples import INVALID, samples, valid
from tests.property.walk import STEPS

OPSETS = (7, 8, 9, 10, 11, 12, 13, 15, 17, 18, 18, 18, 20, 21, 23, 24, 26)
SHAPES = ((2, 3, 4), (2, 3), (1, 2, 4, 4), (4,), (1, 1), (2, 1, 3), (1, 4, 6), (2, 4, 3, 3), (6, 4))


def graphs(seed: int, count: int) -> Iterator[tuple[str, onnx.ModelProto, Mapping[str, Array]]]:
    """`count` models; the same seed gives the same."""
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        model = walk(rng) if number % 3 else graft(rng)
        if model is None:
            continue
        name, fixed = f"graph {seed}/{number}", {}
        if rng.random() < 0.5:
            mutant = chained(model, rng, rng.randint(1, 2))
            if mutant is not None:
                name, model, fixed = f"{name} {mutant.name}", mutant.model, mutant.fixed
        yield name, model, fixed


class Walk:
    """A model under construction at opset 18; every value has a known shape."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: list[onnx.ValueInfoProto] = []
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.types: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.values: list[str] = []

    def input(self, elem: int, shape: tuple[int, ...]) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, elem, list(shape)))
        self.types[name] = elem, shape
        self.values.append(name)
        return name

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        elem = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.types[name] = elem, tuple(array.shape)
        return name

    def node(self, op: str, operands: list[str], n: int = 1, **attributes: Any) -> list[str] | None:
        """Outputs of a new node; None, and no node, where it would be ill-typed."""
        outputs = [f"v{len(self.nodes)}_{i}" for i in range(n)]
        node = helper.make_node(op, operands, outputs, **attributes)
        types = {
            name: helper.make_tensor_type_proto(self.types[name][0], list(self.types[name][1]))
            for name in operands
            if name
        }
        data = {t.name: t for t in self.constants if t.name in operands}
        try:
            schema = defs.get_schema(op, 18, "")
            found = shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=[helper.make_opsetid("", 18)]
            )
        except INVALID:
            return None
        known = {}
        for name in outputs:
            tensor = found[name].tensor_type if name in found else onnx.TypeProto.Tensor()
            dims = tensor.shape.dim
            if not tensor.HasField("shape") or any(not d.HasField("dim_value") for d in dims):
                return None
            known[name] = tensor.elem_type, tuple(d.dim_value for d in dims)
        if any(np.prod(shape, dtype=np.int64) > 4096 for _, shape in known.values()):
            return None
        self.nodes.append(node)
        self.types.update(known)
        self.values.extend(outputs)
        return outputs

    def pick(self, elem: int | None = None, rank: int | None = None) -> str | None:
        """One of the values, the latest most often."""
        fitting = [
            v
            for v in self.values
            if (elem is None or self.types[v][0] == elem)
            and (rank is None or len(self.types[v][1]) == rank)
        ]
        if not fitting:
            return None
        return fitting[-1] if self.rng.random() < 0.7 else self.rng.choice(fitting)

    def model(self) -> onnx.ModelProto | None:
        used = {name for node in self.nodes for name in node.input}
        loose = [v for v in self.values if v not in used and v.startswith("v")]
        outputs = [
            helper.make_tensor_value_info(v, self.types[v][0], list(self.types[v][1]))
            for v in loose[-4:]
        ]
        if not outputs:
            return None
        graph = helper.make_graph(self.nodes, "walk", self.inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def walk(rng: random.Random) -> onnx.ModelProto | None:
    made = Walk(rng)
    for _ in range(rng.randint(1, 2)):
        made.input(TensorProto.FLOAT, rng.choice(SHAPES))
    if rng.random() < 0.15:
        made.input(rng.choice((TensorProto.INT64, TensorProto.INT32)), rng.choice(SHAPES))
    steps = rng.sample(STEPS, rng.randint(2, 4))  # a few families, several times each
    for _ in range(rng.randint(3, 9)):
        rng.choice(steps)(made)
    model = made.model()
    if model is None or not valid(model):
        return None
    other = at_opset(model, rng.choice(OPSETS))
    return other if other is not None and valid(other) else model


def graft(rng: random.Random) -> onnx.ModelProto | None:
    """Up to three examples joined where the type of an output is that of an input."""
    model: onnx.ModelProto | None = None
    for _ in range(40):
        sample = rng.choice(samples()).model
        if model is None:
            model = _renamed(sample, "a_")
            continue
        if sample.opset_import != model.opset_import:
            continue
        fits = [(i, o) for i in sample.graph.input for o in model.graph.output if i.type == o.type]
        if not fits:
            continue
        joined = _joined(model, _renamed(sample, f"b{len(model.graph.node)}_"), rng.choice(fits))
        if joined is not None and valid(joined):
            model = joined
            if len(model.graph.node) > 12 or rng.random() < 0.3:
                break
    return model


def _renamed(model: onnx.ModelProto, prefix: str) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = prefix + name if name else ""
    for item in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        item.name = prefix + item.name
    return made


def _joined(
    first: onnx.ModelProto,
    second: onnx.ModelProto,
    fit: tuple[onnx.ValueInfoProto, onnx.ValueInfoProto],
) -> onnx.ModelProto | None:
    """`second` after `first`: its input of that type is the output."""
    entry, exit_ = fit
    name = next((v.name for v in second.graph.input if v.name.endswith(f"_{entry.name}")), None)
    made = onnx.ModelProto()
    made.CopyFrom(first)
    for node in second.graph.node:
        for place, operand in enumerate(node.input):
            if operand == name:
                node.input[place] = exit_.name
    made.graph.node.extend(second.graph.node)
    made.graph.initializer.extend(second.graph.initializer)
    made.graph.input.extend(v for v in second.graph.input if v.name != name)
    kept = [v for v in first.graph.output if v.name != exit_.name]
    del made.graph.output[:]
    made.graph.output.extend([*kept, *second.graph.output])
    return retyped(made)
