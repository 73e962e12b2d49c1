"""String constants keep every byte: zeros at the end, bytes that are no text."""

from __future__ import annotations

import onnx
import onnx.helper as h
import pytest

import rewrite

ODD = [b"a\0", b"\xff\xfe\0\0b\0"]
PLAIN = [b"a", b"\xff\xfe\0\0b"]


def strings(name: str, items: list[bytes]) -> onnx.TensorProto:
    """Not by onnx's helper, which goes through numpy's strings and loses zeros."""
    proto = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=[len(items)])
    proto.string_data.extend(items)
    return proto


@pytest.mark.parametrize("target", ["generic", "hexagon"])
def test_folded_merged_and_written(target: str):
    """`odd` and `plain` differ in zeros at the end only, so that they may not be merged."""
    nodes = [
        h.make_node("Reshape", ["odd", "shape"], ["reshaped"]),
        h.make_node("Gather", ["odd", "last"], ["taken"]),
        h.make_node("Concat", ["odd", "plain"], ["joined"], axis=0),
        h.make_node("Identity", ["odd"], ["first"]),
        h.make_node("Identity", ["plain"], ["second"]),
    ]
    wanted = {
        "reshaped": ODD, "taken": ODD[1:], "joined": ODD + PLAIN, "first": ODD, "second": PLAIN,
    }  # fmt: skip
    outputs = [h.make_tensor_value_info(name, 8, None) for name in wanted]
    constants = [
        strings("odd", ODD), strings("plain", PLAIN),
        h.make_tensor("shape", 7, [2], [2, 1]), h.make_tensor("last", 7, [1], [1]),
    ]  # fmt: skip
    graph = h.make_graph(nodes, "g", [], outputs, constants)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8)
    after = rewrite.apply(model, target=target).model
    found = {t.name: list(t.string_data) for t in after.graph.initializer}
    assert [n.op_type for n in after.graph.node if n.op_type != "Identity"] == []
    assert {name: found[name] for name in wanted} == wanted
