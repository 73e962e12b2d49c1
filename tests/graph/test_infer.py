"""Models whose nodes end the process inside ONNX's inference: hidden from it, the rest is typed."""

from __future__ import annotations

import onnx
import pytest

from rewrite.graph import io
from rewrite.schema import Type

HEAD = '<ir_version: 10, opset_import: ["" : 18]>'


@pytest.mark.parametrize(
    ("body", "value", "expected"),
    [
        # more outputs than `num_outputs`: onnx writes past the end of a vector
        ("a, b = Split <num_outputs = 1> (x)  r = Relu(x)  y = Add(a, r)", "r", (4, 3)),
        # the number fits: nothing is hidden
        ("a, b = Split <num_outputs = 2> (x)  y = Concat <axis = 1> (a, b)", "a", (2, 3)),
        # an input without a type: onnx takes it for granted
        ("u = custom.Op(x)  e = EyeLike(u)  r = Relu(x)  y = Add(r, e)", "r", (4, 3)),
    ],
)
def test_fragile_nodes_leave_the_other_types_alone(
    body: str, value: str, expected: tuple[int, ...]
) -> None:
    text = f"{HEAD} g (float[4,3] x) => (float[N,M] y) {{ {body} }}"
    loaded = io.load(onnx.parser.parse_model(text))
    values = {v.name: v for node in loaded.model.graph for v in node.outputs}
    assert loaded.facts.type(values[value]) == Type("f32", expected)
