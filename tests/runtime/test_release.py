"""A session keeps nothing of the model it was made from, and needs nothing of it.

Once it is made, every tensor and type in the caller's message is overwritten: results stay. One
case for each place in a model that a session still reads when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import Message
from onnx import helper, numpy_helper, parser

import rewrite
from rewrite.graph import io
from rewrite.graph.tensors import MessageTensor
from rewrite.plan.program import Graph
from rewrite.runtime.session import Session

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Case = tuple[onnx.ModelProto, dict[str, Any], list[Any]]  # model, feeds, expected outputs


def text(graph: str, functions: str = "", imports: str = "") -> onnx.ModelProto:
    header = f'<ir_version: 9, opset_import: ["": 21{imports}]>'
    return parser.parse_model(f"{header}\n{graph}\n{functions}")


def filled() -> Case:
    """A tensor in an attribute of an operator that the driver or a kernel runs."""
    found = text("""g (float[N,M] x) => (float[N,M] y)
    { s = Shape(x) c = ConstantOfShape <value = float[1] {2.5}> (s) y = Add(x, c) }""")
    return found, {"x": X}, [X + np.float32(2.5)]


def branches() -> Case:
    """Attributes, Constants and initializers of graphs inside a node."""
    found = text("""g (bool c, float[N,M] x) => (float[N,M] y)
    { y = If (c) <
        then_branch = t () => (float[N,M] a) <float[1] w = {3.0}> {
            s = Shape(x) f = ConstantOfShape <value = float[1] {2.5}> (s)
            k = Constant <value = float[1] {4.0}> ()
            b = Add(x, f) d = Mul(b, w) a = Sub(d, k) },
        else_branch = e () => (float[N,M] a) { a = Neg(x) }
      > }""")
    return found, {"c": np.array(True), "x": X}, [(X + 2.5) * 3 - np.float32(4)]


def turns() -> Case:
    found = text("""g (int64 n, float[N,M] x) => (float[N,M] y) <bool go = {1}>
    { y = Loop (n, go, x) < body = b (int64 i, bool c, float[N,M] v) => (bool d, float[N,M] r)
        <float[1] w = {3.0}> {
            s = Shape(v) f = ConstantOfShape <value = float[1] {2.5}> (s)
            u = Mul(v, w) r = Add(u, f) d = Identity(c) } > }""")
    return found, {"n": np.array(2), "x": X}, [(X * 3 + 2.5) * 3 + np.float32(2.5)]


def function() -> Case:
    """In the body of a local function: its own, its caller's, and the default of a parameter."""
    body = """<domain: "own", opset_import: ["": 21]> f <value, other: tensor = float[1] {3.0}> (x)
    => (y) { s = Shape(x) a = ConstantOfShape <value: tensor = @value> (s)
             b = ConstantOfShape <value: tensor = @other> (s)
             c = ConstantOfShape <value = float[1] {4.0}> (s)
             p = Add(x, a) q = Mul(p, b) y = Sub(q, c) }"""
    graph = """g (float[N,M] x) => (float[N,M] y)
    { y = own.f <value = float[1] {2.5}> (x) }"""
    return text(graph, body, ', "own": 1'), {"x": X}, [(X + 2.5) * 3 - np.float32(4)]


def strings() -> Case:
    found = text("""g (string[N] x) => (int64[N] y)
    { y = ai.onnx.ml.LabelEncoder <keys_tensor = string[2] {"a", "b"},
        values_tensor = int64[2] {5, 6}, default_tensor = int64[1] {7}> (x) }""",
        imports=', "ai.onnx.ml": 4')  # fmt: skip
    return found, {"x": np.array(["b", "c", "a"], object)}, [[6, 7, 5]]


def sparse_of(name: str) -> onnx.SparseTensorProto:
    values = numpy_helper.from_array(np.array([5, 7], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 2])), [3])


def sparse_initializer() -> Case:
    found = text("g (float[N,3] x) => (float[N,3] y) { y = Add(x, w) }")
    found.graph.sparse_initializer.append(sparse_of("w"))
    return found, {"x": X}, [X + np.array([5, 0, 7], np.float32)]


def sparse_constant() -> Case:
    found = text("g (float[N,3] x) => (float[N,3] y) { y = Add(x, w) }")
    found.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse_of("w")))
    return found, {"x": X}, [X + np.array([5, 0, 7], np.float32)]


def a_type() -> Case:
    """The type that an empty optional would have."""
    found = text("g (float[N,M] x) => (bool y) { y = OptionalHasElement(o) }")
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))
    found.graph.node.insert(
        0, helper.make_node("Optional", [], ["o"], type=kind.optional_type.elem_type)
    )
    return found, {"x": X}, [np.array(False)]


def scores() -> Case:
    """A graph that only ONNX's own function of the operator knows how to use."""
    found = text("""g (float[1,1,2,3] q, float[1,1,4,3] k, float[1,1,4,3] v) => (float[1,1,2,3] y)
    { y = ai.onnx.preview.FlexAttention <scale: float = 1.0,
        score_mod = m (float[1,1,2,4] s) => (float[1,1,2,4] t) <float[1] w = {3.0}> {
            z = Shape(s) f = ConstantOfShape <value = float[1] {0.5}> (z)
            a = Mul(s, w) p = Abs(a) t = Mul(p, f) }> (q, k, v) }""",
        imports=', "ai.onnx.preview": 1')  # fmt: skip
    found.opset_import[0].version = 24
    found.ir_version = 10
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, n, 3)).astype(np.float32) for n in (2, 4, 4))
    s = np.abs(q.astype(np.float64) @ k.swapaxes(2, 3) * 3) * 0.5
    p = np.exp(s) / np.exp(s).sum(3, keepdims=True)
    return found, {"q": q, "k": k, "v": v}, [p @ v]


CASES: list[Callable[[], Case]] = [
    filled, branches, turns, function, strings, sparse_initializer, sparse_constant, a_type, scores,
]  # fmt: skip


def overwrite(message: Message) -> None:
    """Other numbers in all tensors of a message, another element type in all types."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                overwrite(inner)
    if isinstance(message, onnx.TensorProto):
        message.raw_data = bytes(len(message.raw_data))
        for field in ("float_data", "int32_data", "int64_data"):
            numbers = getattr(message, field)
            numbers[:] = [0] * len(numbers)
        message.string_data[:] = [b"?"] * len(message.string_data)
    if isinstance(message, onnx.TypeProto.Tensor):
        message.elem_type = onnx.TensorProto.COMPLEX64


def compiled(model: onnx.ModelProto) -> Session:
    return rewrite.compile(model, target=None)


def shared(model: onnx.ModelProto) -> Session:
    """Made of a model that is not released."""
    return Session(io.load(model))


@pytest.mark.parametrize("make", [compiled, shared])
@pytest.mark.parametrize("case", CASES)
def test_a_session_has_what_it_needs_of_its_own(case, make):
    model, feeds, expected = case()
    with make(model) as session:
        overwrite(model)
        found = list(session.run(feeds).values())
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)  # sums of four products at most


@pytest.mark.parametrize("case", CASES)
def test_nothing_in_a_program_keeps_the_message(case):
    """One part of it would keep all of it in memory."""
    with compiled(case()[0]) as session:
        assert not [v for v in values(session._program.graph) if isinstance(v, MessageTensor)]


def values(graph: Graph) -> Iterator[object]:
    """All values of attributes."""
    for op in graph.ops:
        for value in op.attributes.values():
            yield from value if isinstance(value, tuple) else (value,)
        for inner in op.graphs():
            yield from values(inner)
