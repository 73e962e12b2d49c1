"""Models for the tests of reading, writing and editing: make them, run them, edit them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, parser
from onnx.reference import ReferenceEvaluator

from rewrite.errors import RewriteError
from rewrite.graph import edit, io, validate
from rewrite.graph.facts import Facts
from rewrite.graph.model import LoadedModel

FLOAT = TensorProto.FLOAT

NUMPY_TYPES = (
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16",
    "uint32", "uint64", "bool", "complex64", "complex128",
)  # fmt: skip
EXTENDED_TYPES = (
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4",
    "uint4", "float4_e2m1fn", "float8_e8m0fnu", "int2", "uint2",
)  # fmt: skip
ELEMENT_TYPES = NUMPY_TYPES + EXTENDED_TYPES


def element_type(name: str) -> np.dtype:
    """numpy's type of that name, or that of ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name) if name in EXTENDED_TYPES else name)


CHAIN = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2] x) => (float[2] y)
{ a = Neg (x)  b = Abs (a)  c = Relu (b)  y = Neg (c) }"""

SIBLINGS = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] v = {1, 2, 3, 4}, float[2, 2] w = {5, 6, 7, 8}>
{ a = MatMul (x, v)  b = Neg (a)  c = MatMul (x, w)  d = Abs (c)  y = Add (b, d) }"""


def parsed(text: str) -> onnx.ModelProto:
    """A model in ONNX's own text form."""
    return parser.parse_model(text)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    initializers: Sequence[TensorProto] = (),
    opset: int = 17,
    ir_version: int = 8,
    **more: object,
) -> onnx.ModelProto:
    """A model made of messages. Domains other than ai.onnx are imported at version 1."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    domains = sorted({n.domain for n in nodes} - {""})
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **more)


def value(name: str, shape: Sequence[int | str | None] = (2,), dtype: int = FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def run(proto: onnx.ModelProto, **feeds: object) -> list[np.ndarray]:
    """The model's outputs by the reference evaluator."""
    return ReferenceEvaluator(proto).run(None, {k: np.asarray(v) for k, v in feeds.items()})


def run_runtime(proto: onnx.ModelProto, **feeds: object) -> list[np.ndarray]:
    """The model's outputs by onnxruntime, without its own rewriting."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {k: np.asarray(v) for k, v in feeds.items()})


def corpus_folder() -> Path | None:
    """Where the collection of models lies, if it is here."""
    named = os.environ.get("REWRITE_CORPUS")
    beside = Path(__file__).parents[3] / "shared" / "models"
    for folder in (Path(named) if named else None, beside):
        if folder is not None and (folder / "MANIFEST.csv").is_file():
            return folder
    return None


class Bench:
    """A model under edit, its values by name."""

    def __init__(self, text: str | onnx.ModelProto) -> None:
        self.source = parsed(text) if isinstance(text, str) else text
        self.loaded: LoadedModel = io.load(self.source)
        self.facts: Facts = self.loaded.facts
        self.graph: ir.Graph = self.loaded.model.graph

    def __getitem__(self, name: str) -> ir.Value:
        for graph in self.facts.graphs():
            for v in (*graph.inputs, *graph.initializers.values()):
                if v.name == name:
                    return v
            for node in graph:
                for v in node.outputs:
                    if v.name == name:
                        return v
        raise KeyError(name)

    def make(
        self, op: str, *operands: ir.Value | None, graph: ir.Graph | None = None, **attributes
    ) -> ir.Node:
        made = edit.make_node(self.facts, graph or self.graph, "", op, operands, attributes)
        assert isinstance(made, ir.Node), made
        return made

    def constant(self, array: object, hint: str = "k") -> ir.Value:
        return edit.new_constant(self.facts, np.asarray(array), hint)

    def replace(self, roots, nodes=(), graph=None, matched=()) -> edit.Replacement:
        done = edit.replace(self.facts, graph or self.graph, roots, nodes, matched)
        assert isinstance(done, edit.Replacement), done
        return done

    def refused(self, roots, nodes=(), graph=None) -> str:
        before = self.text()
        done = edit.replace(self.facts, graph or self.graph, roots, nodes)
        assert isinstance(done, edit.Refused)
        edit.discard(nodes)
        assert self.text() == before
        return done.reason

    def proto(self) -> onnx.ModelProto:
        validate.check_graph(self.loaded)
        return io.to_proto(self.loaded)

    def text(self) -> bytes:
        return io.to_proto(self.loaded).SerializeToString(deterministic=True)

    def ops(self) -> list[str]:
        return [node.op_type for node in self.graph]


def codes(source: object) -> list[str]:
    """The codes of the errors; each has a subject and one line of text."""
    with pytest.raises(RewriteError) as caught:
        io.load(source)  # type: ignore[arg-type]
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.subject
        assert diagnostic.message
        assert "\n" not in diagnostic.headline()
    return [d.code for d in caught.value.diagnostics]


def relu() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")])


def with_weight(tensor: TensorProto) -> onnx.ModelProto:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    return model([node], [value("x", (4,))], [value("y", (4,))], [tensor])
