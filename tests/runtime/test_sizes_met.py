"""What a session keeps of the sizes that it has met: the plans of the latest, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import rewrite
from rewrite.runtime.session import Session

C = 8
RNG = np.random.default_rng(4)


def draw(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 1, shape).astype(np.float32)


NODE = helper.make_node
WEIGHTS = {
    "w": draw(C, C, 3, 3), "even": draw(C, C, 2, 2), "v": draw(C), "s": np.array([1, C, 9, 9]),
    "big": draw(C, C, 5, 5),
}  # fmt: skip
CASES = {
    "Conv": [NODE("Conv", ["x", "big"], ["y"], strides=[2, 2], pads=[1] * 4)],
    "Winograd": [NODE("Conv", ["x", "w"], ["y"], pads=[1] * 4)],
    "ConvTranspose": [NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])],
    "phases": [NODE("ConvTranspose", ["x", "even"], ["y"], strides=[2, 2])],
    "Resize": [NODE("Resize", ["x", "", "", "s"], ["y"], mode="cubic")],
    "BatchNormalization": [NODE("BatchNormalization", ["x", "v", "v", "v", "v"], ["y"])],
    "AveragePool": [NODE("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)],
}


def session_of(nodes: Sequence[onnx.NodeProto]) -> Session:
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        list(nodes), "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, C, "H", "W"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in WEIGHTS.items() if n in used],
    )  # fmt: skip
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return rewrite.compile(model, target=None)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_kept_for_each_size(name):
    session = session_of(CASES[name])
    kept = []
    for n in (11, 12, 13, 14):
        x = draw(1, C, n, n + 1)
        first = session.run({"x": x})["y"]
        assert np.array_equal(session.run({"x": x})["y"], first)
        kept.append((len(session._weights._sources), len(session._weights._made)))
    assert kept == [kept[0]] * 4
