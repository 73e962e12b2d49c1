"""Every element type, with elements and without, through the targets."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.helper as h
import pytest
from onnx import TensorProto

import rewrite
from rewrite.graph import io

TYPES = sorted(set(TensorProto.DataType.values()) - {0})
TARGETS = ("generic", "hexagon", "onnxruntime-cpu")  # the others differ from these in few facts
NEWEST = 25  # of the released opsets
IR = 13

Nodes = list[onnx.NodeProto]


def constant(name: str, dtype: int, dims: list[int]) -> onnx.TensorProto:
    size = 1
    for d in dims:
        size *= d
    return h.make_tensor(name, dtype, dims, [b"s" if dtype == TensorProto.STRING else 1] * size)


def moves(dtype: int) -> Iterator[Nodes]:
    """What every element type can do: be moved, chosen, held."""
    node = h.make_node
    yield [node("Reshape", ["x", "minus"], ["a"]), node("Reshape", ["a", "minus"], ["y"])]
    yield [node("Concat", ["x", "c"], ["a"], axis=0), node("Identity", ["a"], ["y"])]
    yield [node("Reshape", ["c", "minus"], ["a"]), node("Concat", ["a", "a"], ["y"], axis=0)]
    yield [node("Transpose", ["x"], ["a"]), node("Transpose", ["a"], ["y"])]
    yield [
        node("Constant", [], ["k"], value=constant("", dtype, [2])),
        node("Identity", ["k"], ["y"]),
    ]


def computes(dtype: int) -> Iterator[Nodes]:
    """What some can."""
    node = h.make_node
    yield [
        node("Cast", ["x"], ["a"], to=1),
        node("Relu", ["a"], ["b"]),
        node("Cast", ["b"], ["y"], to=dtype),
    ]
    yield [node("Cast", ["c"], ["a"], to=1), node("Cast", ["a"], ["y"], to=dtype)]
    yield [node("Equal", ["x", "c"], ["q"]), node("Where", ["q", "x", "c"], ["y"])]
    yield [
        node("Add", ["x", "c"], ["a"]),
        node("Mul", ["a", "c"], ["b"]),
        node("Max", ["b", "c"], ["y"]),
    ]
    scale = [node("DequantizeLinear", ["x", "s"], ["a"]), node("Relu", ["a"], ["b"])]
    yield [*scale, node("QuantizeLinear", ["b", "s", "z"], ["y"])]


def model(nodes: Nodes, dtype: int, dims: list[int]) -> onnx.ModelProto:
    initializers = [
        constant("c", dtype, dims),
        h.make_tensor("minus", TensorProto.INT64, [1], [-1]),
        h.make_tensor("s", TensorProto.FLOAT, [], [0.5]),
        constant("z", dtype, []),
    ]
    used = {name for n in nodes for name in n.input}
    graph = h.make_graph(
        nodes, "g", [h.make_tensor_value_info("x", dtype, dims)],
        [h.make_tensor_value_info("y", dtype, None)], [i for i in initializers if i.name in used],
    )  # fmt: skip
    return h.make_model(graph, opset_imports=[h.make_opsetid("", NEWEST)], ir_version=IR)


@pytest.mark.parametrize("dtype", TYPES, ids=TensorProto.DataType.Name)
def test_every_type(dtype, recwarn, capfd):
    for i, nodes in enumerate((*moves(dtype), *computes(dtype))):
        given = model(nodes, dtype, [0, 3] if i % 2 else [2, 3])
        try:
            io.load(given)
        except rewrite.errors.RewriteError:
            continue  # an operator that does not take the type
        for target in TARGETS:
            after = rewrite.apply(given, target=target).model
            assert after.graph.output[0].type.tensor_type.elem_type == dtype
            io.load(after)
    assert [str(w.message) for w in recwarn.list] == []
    assert capfd.readouterr().err == ""
