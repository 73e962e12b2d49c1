"""Groups of sums, means of any size, tables and joins, against arithmetic written here.

And the places of a model where a group may stand: several consumers, outputs, inner graphs."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import onnx
import pytest
from builders_core import Graph, limits
from onnx import parser
from test_twins import ARM, EACH, attributes, certificate, ort, run
from twin_arithmetic import Array, added, half_even, nearest_sum
from twin_models import ends, less

import rewrite
from rewrite.audit.oracle.run import Oracle


def fraction(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))


def every(dtype: str) -> Array:
    low, high = limits(dtype)
    return np.arange(low, high + 1).astype(np.uint8 if dtype == "u8" else np.int8)


# name: type, scales of a, b and the sum, zero points of them, clamp
SUMS = {
    "plain": ("u8", (0.11, 0.13, 0.27), (7, 1, 5), False),
    "halves": ("u8", (0.5, 0.25, 1.0), (255, 1, 101), False),
    "signed": ("s8", (0.0371, 0.91, 0.73), (-128, 127, -3), False),
    "far_apart": ("u8", (0.00011, 1.3, 1.31), (128, 0, 255), False),
    "equal": ("s8", (0.02, 0.02, 0.02), (0, 0, 0), False),
    "relu": ("u8", (0.11, 0.13, 0.17), (90, 201, 77), True),
    "relu_opset_11": ("u8", (0.11, 0.13, 0.17), (90, 201, 77), True),
}


@EACH
@pytest.mark.parametrize("name", SUMS)
def test_sum_of_every_pair(name: str, target: str) -> None:
    dtype, scales, zeros, relu = SUMS[name]
    g = Graph(11 if "11" in name else 13)
    codes = every(dtype)
    a, b = g.given(codes[:, None], dtype), g.given(codes, dtype)
    total = g.node("Add", g.dq(a, scales[0], zeros[0], dtype), g.dq(b, scales[1], zeros[1], dtype))
    total = g.node("Relu", total) if relu else total
    g.out(g.q(total, scales[2], zeros[2], dtype))
    model = rewrite.apply(g.proto(), target=target).model
    (node,) = [n for n in model.graph.node if n.domain]
    given, text = attributes(node), certificate(node)
    moved = -128 if target in ARM and dtype == "u8" else 0
    assert node.op_type == "QAdd"
    assert given["input_zero_point"] == [z + moved for z in zeros[:2]]
    assert given["output_zero_point"] == zeros[2] + moved
    first, second = less(codes, zeros[0])[:, None], less(codes, zeros[1])[None]
    wanted = added(first, second, given)
    result = run(model, g.feeds).astype(np.int64) + moved
    np.testing.assert_array_equal(result, wanted)
    (exact,) = Oracle(model).run(g.feeds).outputs.values()
    np.testing.assert_array_equal(np.asarray(exact).astype(np.int64) + moved, wanted)
    ratios = tuple(fraction(s) / fraction(scales[2]) for s in scales[:2])
    real = nearest_sum(first, second, ratios, zeros[2] + moved, given["low"], given["high"])  # type: ignore[arg-type]
    off = np.abs(wanted - real)
    claim = re.match(r"(exact|lsb\((\d+)\)): exhausted, 65536 cases, (\d+) differ", text)
    assert claim
    assert (off.max(), (off > 0).sum()) == (int(claim[2] or 0), int(claim[3]))


@EACH
@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("shape", [(4, 2, 1, 1), (4, 2, 2, 2), (4, 3, 5, 7), (1, 1, 64, 33)])
def test_mean_of_any_size(shape: tuple[int, ...], dtype: str, target: str) -> None:
    scale, to, zero, out = 0.25, 0.5, limits(dtype)[1], limits(dtype)[0] + 101
    g = Graph(13)
    x = ends(dtype, shape)
    value = g.dq(g.given(x, dtype), scale, zero, dtype)
    g.out(g.q(g.node("GlobalAveragePool", value), to, out, dtype))
    model = g.proto()
    for tensor in (model.graph.input[0], model.graph.output[0]):
        for dim in list(tensor.type.tensor_type.shape.dim)[2:]:
            dim.ClearField("dim_value")
    after = rewrite.apply(model, target=target).model
    (node,) = [n for n in after.graph.node if n.domain]
    given = attributes(node)
    assert node.op_type == "QGlobalAveragePool"
    low, high, zero_out = (given[n] for n in ("low", "high", "output_zero_point"))
    moved = zero_out - out
    (multiplier,), (shift,) = given["multiplier"], given["shift"]
    total, count = less(x, zero).sum((2, 3), keepdims=True), math.prod(shape[2:])
    if given["arithmetic"] == "ort_x86_mean":
        number = total.astype(np.float32) * np.float32(multiplier) / np.float32(count)
        wanted = np.rint(np.clip(number, low - zero_out, high - zero_out)).astype(np.int64)
    else:
        under = count << shift
        wanted = (2 * total.astype(object) * multiplier + under) // (2 * under)
    wanted = np.clip(wanted + zero_out, low, high).astype(np.int64)
    np.testing.assert_array_equal(run(after, g.feeds).astype(np.int64) + moved, wanted)
    ratio = fraction(scale) / fraction(to) / count
    over = total.astype(object) * ratio.numerator
    real = np.clip(half_even(over, ratio.denominator) + zero_out, low, high)
    assert np.abs(wanted - real).max() <= 1


FUNCTIONS = {
    "Sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "Tanh": math.tanh,
    "HardSwish": lambda x: x * min(max(x / 6 + 0.5, 0.0), 1.0),
    "Exp": math.exp,
}


@EACH
@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_table_of_every_code(op: str, dtype: str, target: str) -> None:
    low, high = limits(dtype)
    scale, to, zero, out = 0.0411, 0.00913, low + 117, low + 31
    g = Graph(14)
    value = g.node(op, g.dq(g.given(every(dtype), dtype), scale, zero, dtype))
    g.out(g.q(value, to, out, dtype))
    model = rewrite.apply(g.proto(), target=target).model
    assert "QLookup" in [n.op_type for n in model.graph.node]
    real = [FUNCTIONS[op](float(fraction(scale)) * (int(c) - zero)) for c in every(dtype)]
    wanted = [min(max(round(r / float(fraction(to))) + out, low), high) for r in real]
    np.testing.assert_array_equal(run(model, g.feeds).astype(int), wanted)


@EACH
@pytest.mark.parametrize("flat", [False, True], ids=["numbers", "vectors"])
@pytest.mark.parametrize("dtype", ["u8", "s8"])
def test_joined_codes(dtype: str, flat: bool, target: str) -> None:
    """Ties with an odd zero point, the scale of the result itself, and a wider one.

    `flat`: scales and zero points of shape [1].
    """
    low, high = limits(dtype)
    parts = ((0.5, low + 1), (1.0, low + 77), (3.7, low + 200))
    g = Graph(13)
    codes = every(dtype)
    values = [
        g.dq(g.given(codes[None], dtype), [s] if flat else s, [z] if flat else z, dtype)
        for s, z in parts
    ]
    g.out(g.q(g.node("Concat", *values, axis=0), 1.0, low + 77, dtype))
    model = rewrite.apply(g.proto(), target=target).model
    assert not {n.op_type for n in model.graph.node} & {"QuantizeLinear", "DequantizeLinear"}
    wanted = [
        [min(max(round(fraction(s) * (int(c) - z)) + low + 77, low), high) for c in codes]
        for s, z in parts
    ]
    np.testing.assert_array_equal(run(model, g.feeds).astype(int), wanted)


# --- places

HEAD = '<ir_version: 10, opset_import: ["" : 13]>\n'
HELD = """<int8[2,2,1,1] w = {1,-2,3,127}, float s = {0.11}, uint8 z = {7}, float u = {0.013},
  float t = {0.0371}, uint8 o = {105}>"""


def _groups(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node if n.domain]


def _same(text: str, target: str, **feeds: Array) -> onnx.ModelProto:
    """Codes equal within a step to those of the model as it was, by the oracle; both run."""
    before = parser.parse_model(HEAD + text)
    onnx.checker.check_model(before, full_check=True)
    after = rewrite.apply(before, target=target).model
    onnx.checker.check_model(after)
    wanted = Oracle(before).run(feeds).outputs
    names = [v.name for v in after.graph.output]
    session_outputs = _all(after, feeds)
    for name, found in zip(names, session_outputs, strict=True):
        expected = wanted[name]
        numbers = expected if isinstance(expected, np.ndarray) else expected.rounded()
        gap = np.abs(np.asarray(numbers, np.float64) - found.astype(np.float64))
        assert gap.max() <= (1 if found.dtype.kind in "iu" else 0.05), name
    return after


def _all(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


X = ends("u8", (4, 2, 3, 3))


@EACH
def test_several_consumers_and_an_output(target: str) -> None:
    """Codes that are an output, and dequantized twice."""
    after = _same(
        f"""g (uint8[4,2,3,3] x) => (uint8[4,2,3,3] q, uint8[4,2,3,3] y, float[4,2,3,3] e) {HELD}
        {{ d = DequantizeLinear(x, s, z)  k = DequantizeLinear(w, u)  c = Conv(d, k)
           q = QuantizeLinear(c, t, o)  e = DequantizeLinear(q, t, o)  f = DequantizeLinear(q, t, o)
           h = Conv(f, k)  y = QuantizeLinear(h, t, o) }}""",
        target,
        x=X,
    )
    assert [g.split("_")[0] for g in _groups(after)] == ["QConv", "QConv"]


@EACH
def test_shared_numbers(target: str) -> None:
    """One DequantizeLinear for three users, of which one is not quantized."""
    after = _same(
        f"""g (uint8[4,2,3,3] x) => (uint8[4,2,3,3] y, uint8[4,2,3,3] v, float[4,2,3,3] r) {HELD}
        {{ d = DequantizeLinear(x, s, z)  k = DequantizeLinear(w, u)  c = Conv(d, k)
           y = QuantizeLinear(c, t, o)  m = DequantizeLinear(w, s)  h = Conv(d, m)
           v = QuantizeLinear(h, t, z)  r = Neg(d) }}""",
        target,
        x=X,
    )
    assert [g.split("_")[0] for g in _groups(after)].count("QConv") == 2


@EACH
def test_unquantized_use_of_a_result(target: str) -> None:
    """The number before the codes is used too: nothing to make a group of."""
    after = _same(
        f"""g (uint8[4,2,3,3] x) => (uint8[4,2,3,3] y, float[4,2,3,3] c) {HELD}
        {{ d = DequantizeLinear(x, s, z)  k = DequantizeLinear(w, u)  c = Conv(d, k)
           y = QuantizeLinear(c, t, o) }}""",
        target,
        x=X,
    )
    assert not any(g.startswith("Q") for g in _groups(after))


@EACH
def test_equal_groups_share_a_function(target: str) -> None:
    model = rewrite.apply(_twice(), target=target).model
    names = _groups(model)
    assert names[0] == names[1] != names[2]
    assert sorted(set(names)) == sorted(f.name for f in model.functions)


def _twice() -> onnx.ModelProto:
    """Two layers alike, one with another zero point."""
    g = Graph(13)
    weights = np.array([1, -2, 3, 127]).reshape(2, 2, 1, 1)
    for zero in (7, 7, 9):
        x = g.given(X, "u8")
        weight = g.dq(g.const(weights, "s8"), 0.013, 0, "s8")
        g.out(g.q(g.node("Conv", g.dq(x, 0.11, zero, "u8"), weight), 0.0371, 105, "u8"))
    return g.proto()


@EACH
def test_inside_a_branch(target: str) -> None:
    """A quantized layer in the branches of an If: groups there, or left as it was."""
    text = f"""g (uint8[4,2,3,3] x, bool p) => (uint8[4,2,3,3] y) {HELD}
        {{ y = If (p) <
             then_branch = a () => (uint8[4,2,3,3] q) {{
               d = DequantizeLinear(x, s, z)  k = DequantizeLinear(w, u)  c = Conv(d, k)
               q = QuantizeLinear(c, t, o) }},
             else_branch = b () => (uint8[4,2,3,3] q2) {{
               d2 = DequantizeLinear(x, s, z)  r2 = Relu(d2)
               q2 = QuantizeLinear(r2, t, o) }} > }}"""
    before = parser.parse_model(HEAD + text)
    after = rewrite.apply(before, target=target).model
    onnx.checker.check_model(after)
    for condition in (True, False):
        feeds = {"x": X, "p": np.array(condition)}
        one, two = _all(before, feeds)[0], _all(after, feeds)[0]
        assert np.abs(one.astype(int) - two.astype(int)).max() <= 1


@EACH
def test_inside_a_function(target: str) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 13, "local" : 1]>
    g (uint8[4,2,3,3] x) => (uint8[4,2,3,3] y) {HELD}
    {{ y = local.layer(x, w, s, z, u, t, o) }}
    <domain: "local", opset_import: ["" : 13]>
    layer (x, w, s, z, u, t, o) => (y)
    {{ d = DequantizeLinear(x, s, z)  k = DequantizeLinear(w, u)  c = Conv(d, k)
       y = QuantizeLinear(c, t, o) }}"""
    before = parser.parse_model(text)
    after = rewrite.apply(before, target=target).model
    onnx.checker.check_model(after)
    one, two = _all(before, {"x": X})[0], _all(after, {"x": X})[0]
    assert np.abs(one.astype(int) - two.astype(int)).max() <= 1


@EACH
def test_per_channel_of_one_channel(target: str) -> None:
    """A vector of one scale, with its axis."""
    after = _same(
        """g (uint8[4,2,3,3] x) => (uint8[4,1,3,3] y)
        <int8[1,2,1,1] w = {1,-127}, float s = {0.11}, uint8 z = {7}, float[1] u = {0.013},
         int8[1] v = {0}, int32[1] b = {100}, float[1] e = {0.00143}, int32[1] n = {0},
         float t = {0.0371}, uint8 o = {105}>
        { d = DequantizeLinear(x, s, z)  k = DequantizeLinear <axis = 0> (w, u, v)
          f = DequantizeLinear <axis = 0> (b, e, n)  c = Conv(d, k, f)
          y = QuantizeLinear(c, t, o) }""",
        target,
        x=X,
    )
    assert _groups(after) == ["QConv"]
