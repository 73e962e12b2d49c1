"""Which weights the pack `fusion` merges: up to 4 million elements, more than a case can hold.

A rule that lacks the condition, or has another bound, is told apart at both sides of it. All
merged weights together are within what a rule may compute, so that nothing else refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

Rewrite = Callable[..., Any]

KERNEL = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1]}
RULES = ("merge_matmuls", "merge_biased_matmuls", "merge_gemms", "merge_pointwise_convolutions")


def _nodes(rule: str, y: str, w: str, b: str) -> Iterator[onnx.NodeProto]:
    """One product of x."""
    if rule == "merge_matmuls":
        yield helper.make_node("MatMul", ["x", w], [y])
    elif rule == "merge_biased_matmuls":
        yield helper.make_node("MatMul", ["x", w], [f"{y}_product"])
        yield helper.make_node("Add", [f"{y}_product", b], [y])
    elif rule == "merge_gemms":
        yield helper.make_node("Gemm", ["x", w, b], [y])
    else:
        yield helper.make_node("Conv", ["x", w, b], [y], **KERNEL)  # type: ignore[arg-type]


def _model(rule: str, inner: int, width: int) -> onnx.ModelProto:
    """Three products of x, one by weights of `inner` × `width` elements, two by a column."""
    is_conv = rule == "merge_pointwise_convolutions"
    ones = [1, 1] if is_conv else []
    # Of matrices a product with a bias would be a Gemm first.
    front = [1, 1] if rule == "merge_biased_matmuls" else [1]
    weights, outputs = list[onnx.TensorProto](), list[onnx.ValueInfoProto]()
    nodes = list[onnx.NodeProto]()
    for value, (y, n) in enumerate((("p", width), ("q", 1), ("r", 1))):
        shape = [n, inner] if is_conv else [inner, n]
        filled = np.full((*shape, *ones), value, np.float16)  # equal ones would be computed once
        weights.append(numpy_helper.from_array(filled, f"w_{y}"))
        weights.append(numpy_helper.from_array(np.ones(n, np.float16), f"b_{y}"))
        nodes += _nodes(rule, y, f"w_{y}", f"b_{y}")
        outputs.append(helper.make_tensor_value_info(y, TensorProto.FLOAT16, [*front, n, *ones]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT16, [*front, inner, *ones])
    used = {name for node in nodes for name in node.input}
    kept = [weight for weight in weights if weight.name in used]
    graph = helper.make_graph(nodes, "g", [x], outputs, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("inner", "width", "is_merged"), [(2, 2097152, True), (5, 838861, False)])
def test_weights_of_4_million_elements_are_the_largest(
    rewrite: Rewrite, rule: str, inner: int, width: int, is_merged: bool
) -> None:
    assert (inner * width <= 1 << 22) == is_merged
    assert (rule in rewrite(_model(rule, inner, width), "fusion").rules) == is_merged
