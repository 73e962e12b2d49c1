"""Two models under the oracle: what a step is, which differences count, what caused them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewrite.audit.layers import compare_layers
from rewrite.audit.oracle.compare import compare_exact
from rewrite.audit.oracle.run import Oracle
from rewrite.audit.oracle.step import OracleError
from rewrite.audit.oracle.units import units

HEAD = '<ir_version: 8, opset_import: ["" : 18, "com.microsoft" : 1]>\n'
SUM = """
net (uint8[256] a, uint8[256] b) => (uint8[256] y)
<float s = {0.25}, float t = {0.5}, uint8 z = {3}, uint8 odd = {1}, float one = {1},
 float low = {0}, float high = {255}>
{
  p = DequantizeLinear(a, s, z)
  q = DequantizeLinear(b, s, z)
  sum = Add(p, q)
  REST
}
"""
ROUNDS_FIRST = "y = QuantizeLinear(sum, t, odd)"
ADDS_FIRST = """
  steps = Div(sum, t)
  moved = Add(steps, one)
  whole = Round(moved)
  clamped = Clip(whole, low, high)
  y = Cast <to = 2> (clamped)
"""


def parse(text):
    return onnx.parser.parse_model(HEAD + text)


def pair(first=ROUNDS_FIRST, second=ADDS_FIRST):
    return [parse(SUM.replace("REST", rest)) for rest in (first, second)]


def all_feeds():
    a = np.arange(256, dtype=np.uint8)
    return {"a": a, "b": np.roll(a, 77)}


def test_equal_models_are_equal():
    one, other = pair(second=ROUNDS_FIRST.replace("sum", "sum"))
    found = compare_exact(one, other, 3)
    assert found.equal
    assert found.lsb == 0
    assert found.undecided == (0, 0)


def test_ties_with_an_odd_zero_point_are_one_step_apart():
    one, other = pair()
    feeds = all_feeds()
    found = compare_exact(one, other, [feeds])
    # (a - 3 + b - 3) / 2 is a tie where a + b is odd; the two roundings then always differ,
    # unless both codes saturate.
    halves = feeds["a"].astype(int) - 3 + feeds["b"].astype(int) - 3
    inside = (halves / 2 + 1 > 0) & (halves / 2 + 1 < 255)
    ties = (halves % 2 != 0) & inside
    (gap,) = found.gaps
    assert (gap.lsb, gap.unit, gap.differing) == (1.0, "code", int(ties.sum()))
    assert not found.equal


def test_layers_name_the_tie():
    one, other = pair()
    found = compare_layers(one, other, 2)
    assert found.first is not None
    assert found.first.layer.name == "y"
    assert set(found.first.causes) == {"tie"}
    assert found.first.causes["tie"] > 0
    assert set(found.first.histogram) <= {-1, 0, 1}
    assert [layer.name for layer in found.layers] == ["p", "q", "sum", "y"]
    assert [layer.equal for layer in found.layers] == [True, True, True, False]
    assert found.only == (0, 4)


def test_a_saturation_is_named():
    """The second model takes its codes around instead of ending them at 255."""
    wraps = ADDS_FIRST.replace("Clip(whole, low, high)", "Mod <fmod = 1> (whole, limit)")
    texts = [
        SUM.replace("REST", rest).replace("<float s", "<float limit = {256}, float s")
        for rest in (ROUNDS_FIRST, wraps)
    ]
    texts = [text.replace("float t = {0.5}", "float t = {0.25}") for text in texts]
    found = compare_layers(*map(parse, texts), runs=1)
    assert found.first is not None
    # a + b - 6 + 1 > 255 for about half of all codes, and below 0 for very few
    assert set(found.first.causes) == {"saturation"}


def test_codes_of_the_other_sign_are_the_same_codes():
    one = parse("net (float[8] x) => (uint8[8] y) <float s = {0.1}, uint8 z = {128}>"
                "{ y = QuantizeLinear(x, s, z) }")  # fmt: skip
    two = parse("net (float[8] x) => (int8[8] y) <float s = {0.1}, int8 z = {0}>"
                "{ y = QuantizeLinear(x, s, z) }")  # fmt: skip
    assert compare_layers(one, two, 2).equal


def test_floats_are_measured_in_the_steps_of_their_codes():
    text = """
    net (uint8[4] x) => (float[2,2] y) <float s = {0.125}, uint8 z = {0}, int64[2] two = {2, 2}>
    {
      d = DequantizeLinear(x, s, z)
      y = Reshape(d, two)
    }
    """
    one, other = parse(text), parse(text.replace("z = {0}", "z = {3}"))
    assert units(Oracle(one)) == {"d": 0.125, "y": 0.125}
    (gap,) = compare_exact(one, other, 1).gaps
    assert (gap.unit, gap.step, gap.lsb, gap.differing) == ("scale", 0.125, 3.0, 4)


def test_a_kernel_that_rounds_otherwise_is_found_in_the_runtime():
    """onnxruntime's QLinearAdd rounds after the zero point is added (mlas/lib/qladd.cpp)."""
    pytest.importorskip("onnxruntime")
    text = """
    net (uint8[4096] a, uint8[4096] b) => (uint8[4096] y)
    <float s = {0.25}, float t = {0.5}, uint8 z = {0}, uint8 odd = {1}>
    { y = com.microsoft.QLinearAdd(a, s, z, b, s, z, t, odd) }
    """
    proto = parse(text)
    found = compare_layers(proto, proto, 1, runtimes=("oracle", "onnxruntime"))
    assert found.first is not None
    assert set(found.first.causes) == {"tie"}
    assert found.first.layer.lsb == 1


def test_a_new_input_is_refused():
    one = parse("net (float[2] x) => (float[2] y) { y = Relu(x) }")
    two = parse("net (float[2] v) => (float[2] y) { y = Relu(v) }")
    with pytest.raises(OracleError, match="different inputs"):
        compare_layers(one, two)


def test_another_type_or_shape_is_told():
    one = parse("net (float[2] x) => (float[2] y) { y = Relu(x) }")
    two = parse("net (float[2] x) => (float y) <int64[1] a = {0}> "
                "{ y = ReduceSum <keepdims = 0> (x, a) }")  # fmt: skip
    (gap,) = compare_exact(one, two, 1).gaps
    assert gap.reason == "shape (2,) became ()"


def test_a_model_without_an_exact_value_is_left_to_a_runtime():
    pytest.importorskip("onnxruntime")
    text = """
    net (bool c, float[4] x) => (float[4] y)
    {
      r = Relu(x)
      y = If(c) <
        then_branch = one () => (float[4] v) { v = Identity(r) },
        else_branch = two () => (float[4] w) { w = Neg(r) }>
    }
    """
    proto = parse(text)
    with pytest.raises(OracleError, match="holds a graph"):
        compare_layers(proto, proto)
    found = compare_layers(proto, proto, 1, runtimes=("onnxruntime", "onnxruntime"))
    assert found.equal
    assert [layer.name for layer in found.outputs] == ["y"]
