"""Groups on codes: the largest sums, for which a case would have to write too many weights."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewrite import resources
from rewrite.engine import driver
from rewrite.engine.limits import Options
from rewrite.graph import io
from rewrite.lang.pack import load_pack
from rewrite.match import matcher
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target


def _product(rows: int) -> onnx.ModelProto:
    """One column of -128, and data whose zero point is the middle: sums up to 128 * 128 * rows."""
    held = {
        "w": np.full((rows, 1), -128, np.int8), "s": np.float32(0.5), "z": np.uint8(128),
        "u": np.float32(0.25), "t": np.float32(2.0**20), "o": np.uint8(5),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "u"], ["k"]),
        helper.make_node("MatMul", ["d", "k"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "t", "o"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [1, rows])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 1])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize(("rows", "grouped"), [(2**17 - 1, True), (2**17, False)])
def test_sums_of_a_product_have_room_in_32_bits(rows: int, grouped: bool) -> None:
    """128 * 128 * 2**17 are 2**31."""
    pack = load_pack(
        resources.shipped("rules")["quant-lower"], vocabulary(), [resources.folder("rules")]
    )
    target = load_target("hexagon", vocabulary())
    model = io.load(_product(rows))
    journal = driver.run(model, matcher.build(pack, target), target, options=Options())
    rules = [record.rule for record in journal.applied]
    assert rules == (["quantized_matmul"] if grouped else [])
