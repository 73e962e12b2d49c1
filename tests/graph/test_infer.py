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
        # a second ellipsis: onnx looks for its end for ever
        ('e = Einsum <equation = "i...j..."> (x)  r = Relu(x)  y = Add(x, r)', "r", (4, 3)),
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


# What the size of y is follows from `d`, which a caller may replace at each run.
BY_A_DEFAULT = {
    "Slice": "y = Slice(x, zero, d, zero)",
    "Reshape": "y = Reshape(x, d)",
    "Expand": "y = Expand(one, d)",
    "Tile": "y = Tile(v, d)",
    "Pad": "e = Concat <axis = 0> (zero, d)  y = Pad(v, e)",
    "ConstantOfShape": "y = ConstantOfShape(d)",
    "Range": "n = Squeeze(d)  y = Range(from, n, step)",
    "TopK": "y, i = TopK(v, d)",
    "OneHot": "h = Squeeze(d)  y = OneHot(u, h, both)",
    "Resize": 'y = Resize <mode = "nearest"> (v, , , d)',
    "If": """y = If(t) <then_branch = a () => (float[] p) { p = ConstantOfShape(d) },
                  else_branch = b () => (float[] q) { q = ConstantOfShape(d) }>""",
}
CONSTANTS = """<int64[1] zero = {0}, float[1] one = {1}, float[3] v = {1,2,3}, int64 from = {0},
  int64 step = {1}, int64[1] u = {0}, float[2] both = {0,1}, bool t = {1}>"""


KIND = {"Range": "int64"}  # of y, where it is not float


def size_of_y(inputs: str, ir_version: int, operator: str) -> object:
    head = f'<ir_version: {ir_version}, opset_import: ["" : 18]>'
    body = BY_A_DEFAULT[operator]
    text = f"{head} g ({inputs}) => ({KIND.get(operator, 'float')}[] y) {CONSTANTS} {{ {body} }}"
    model = onnx.parser.parse_model(text)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        for attribute in node.attribute:
            for output in attribute.g.output:
                output.type.tensor_type.ClearField("shape")
    loaded = io.load(model)
    (y,) = loaded.model.graph.outputs
    return (loaded.facts.type(y).shape or (None,))[-1]


@pytest.mark.parametrize("operator", BY_A_DEFAULT)
def test_a_default_is_no_size(operator: str) -> None:
    found = size_of_y("float[4] x, int64[1] d = {2}", 10, operator)
    assert not isinstance(found, int)


@pytest.mark.parametrize("operator", ["Slice", "Expand", "ConstantOfShape"])
def test_before_version_4_every_initializer_is_listed_and_constant(operator: str) -> None:
    assert size_of_y("float[4] x, int64[1] d = {2}", 3, operator) == 2
