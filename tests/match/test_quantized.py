"""`DQ`, `Q` and the fields of codes: interpreter, generated code and matcher agree on all of it.

Expected parameters are those of DequantizeLinear-21 and QuantizeLinear-21 of the ONNX
specification: the axis defaults to 1, one scale is per tensor, a scale of the codes' rank is
blocked, no zero point means zeros.
"""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.errors import Collector
from rewrite.lang.parser import parse
from rewrite.lang.quantized import expand_quantized
from rewrite.match.values import Tensor
from tests.match.conftest import Ask

QDQ = """
g (uint8[2,3] x) => (uint8[2,2] y)
<float xs = {0.5}, uint8 xz = {7}, int8[3,2] w = {1,2,3,4,5,6},
 float[2] ws = {0.25, 0.125}, float ys = {2}>
{ xf = DequantizeLinear(x, xs, xz)  wf = DequantizeLinear <axis = -1> (w, ws)
  m = MatMul(xf, wf)  y = QuantizeLinear(m, ys) }
"""
PATTERN = """
y = Q(MatMul(DQ(X: u8|s8 per_tensor), DQ(K: const s8 per_axis(1), zp=0)), Y: u8 per_tensor)
"""
FIELDS = """
let a = X.scale  b = X.zp  c = X.axis  d = K.scale  e = K.zp  f = K.axis  g = K.block
    h = Y.scale  i = y.zp  j = Y.dtype
where a > 0
"""


def test_codes_and_parameters_are_bound(ask: Ask) -> None:
    found = ask(PATTERN, QDQ, more=FIELDS)
    assert {n: found.names[n] for n in "yXK"} == {"y": "y", "X": "x", "K": "w"}
    scope = found.match.scope
    value = {n: scope.lookup(n) for n in "abcdefghij"}
    assert scope.tensor(value["a"]).array == 0.5
    assert scope.tensor(value["b"]).array == 7
    assert value["c"] is None
    assert scope.tensor(value["d"]).array.tolist() == [0.25, 0.125]
    assert isinstance(value["e"], Tensor)  # the node has none: zeros of the type of the codes
    zeros = value["e"].rounded()
    assert (zeros.dtype, zeros.tolist()) == (np.int8, [0, 0])
    assert (value["f"], value["g"]) == (1, 0)
    assert scope.tensor(value["h"]).array == 2
    made = scope.tensor(value["i"])
    assert (made.shape, made.rounded().dtype) == ((), np.uint8)
    assert value["j"] == "u8"


@pytest.mark.parametrize("domain", ["", "com.microsoft."])
def test_both_domains(ask: Ask, domain: str) -> None:
    model = QDQ.replace("= DequantizeLinear", f"= {domain}DequantizeLinear")
    model = model.replace("= QuantizeLinear", f"= {domain}QuantizeLinear")
    assert ask(PATTERN, model, more=FIELDS).match.scope.lookup("f") == 1
    assert ask(PATTERN, model, more="where K.axis == 0").code == "where"


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("y = Q(MatMul(DQ(X: s8), DQ(K)))", "dtype"),
        ("y = Q(MatMul(DQ(X: const), DQ(K)))", "const"),
        ("y = Q(MatMul(DQ(X: per_axis), DQ(K)))", "where"),
        ("y = Q(MatMul(DQ(X), DQ(K: per_tensor)))", "where"),
        ("y = Q(MatMul(DQ(X), DQ(K: per_axis(0))))", "where"),
        ("y = Q(MatMul(DQ(X), DQ(K: per_axis(-2))))", "where"),
        ("y = Q(MatMul(DQ(X, zp=0), DQ(K)))", "where"),
        ("y = Q(MatMul(DQ(X), DQ(K)), Y: s8|u16)", "where"),
        ("y = Q(MatMul(DQ(X: blocked), DQ(K)))", "where"),
        ("y = Q(MatMul(DQ(X), DQ(X)))", "same"),
        ("y = Q(MatMul(DQ(X), DQ(K: int per_tensor|per_axis(-1))), zp=0)", "match"),
        ("y = Q(MatMul(DQ(X: u8[N, M] per_tensor), DQ(K: [M, _] per_axis)), Y: int)", "match"),
        ("y = Q(MatMul(DQ(X, zp=7), DQ(K)))", "match"),
        ("y = Q(MatMul(DQ(X: per_axis|per_tensor), DQ(K: per_tensor|per_axis)))", "match"),
        ("_ = Q(MatMul(DQ(X), DQ(_)), y)", "match"),
        ("y = Q(MatMul(DQ(_: u8 per_tensor), DQ(_: const s8 per_axis(-1), zp=0)))", "match"),
        ("y = Q(MatMul(DQ(X), DQ(_: per_axis(0))))", "where"),
    ],
)
def test_constraints(ask: Ask, pattern: str, code: str) -> None:
    assert ask(pattern, QDQ).code == code


ANY = """
rule moved in clean {
  \"\"\"Only its text counts.\"\"\"
  match y = Relu(DQ(X: const s8 %s))
  emit  y = Abs(X)
  claim exact
}
"""


@pytest.mark.parametrize(
    ("granularity", "asked"),
    [("per_tensor", 1), ("per_tensor|per_axis(0)", 1), ("per_tensor|per_axis", 0)],
)
def test_what_is_not_blocked_has_one_scale_or_several(granularity: str, asked: int) -> None:
    rule = parse(ANY % granularity, "a.rules").rules[0]
    expanded = expand_quantized(rule, Collector())
    assert len(expanded.steps) == asked


BIAS = """
g (int8[2,3] x) => (float[2,3] y)
<float xs = {0.5}, int32[3] b = {1,2,3}, float bs = {0.25}>
{ xf = DequantizeLinear(x, xs)  bf = DequantizeLinear(b, bs)  y = LayerNormalization(xf, xf%s) }
"""


def test_the_axis_of_results_without_a_name(ask: Ask) -> None:
    model = """
    g (float[2,3] x) => (float[2,3] y) <float[3] s = {1, 2, 4}>
    { r = Relu(x)  q = QuantizeLinear <axis = %s> (r, s)  y = Neg(r) }
    """
    pattern = "r = Relu(x)  _ = Q(r, per_axis(1))  y = Neg(r)"
    assert ask(pattern, model % "-1")
    assert not ask(pattern, (model % "0").replace("[3] s = {1, 2, 4}", "[2] s = {1, 2}"))


def test_an_operand_that_may_be_absent(ask: Ask) -> None:
    pattern = "y = LayerNormalization(DQ(X), _, DQ(B?: s32 per_tensor, zp=0)) { axis: ignored, "
    pattern += "epsilon: ignored, stash_type: ignored }"
    more = "where if B: B.scale < 1"
    assert ask(pattern, BIAS % ", bf", more=more).names["B"] == "b"
    assert ask(pattern, BIAS % "", more=more).names["B"] is None
    assert ask(pattern, BIAS % ", bf", more="where if B: B.scale > 1").code == "where"
    assert ask(pattern, BIAS % ", xf", more=more).code != "match"  # s8, not s32


def test_in_an_alternative(ask: Ask) -> None:
    model = """
    g (int8[2,3] x) => (int8[2,3] y) <float s = {0.5}, int8 z = {1}>
    { f = DequantizeLinear(x, s, z)  r = Relu(f)  y = QuantizeLinear(r, s, z) }
    """
    pattern = "y = Q(Relu(DQ(X, zp=0)) as plain | Relu(DQ(X: per_tensor)) as other)"
    assert ask(pattern, model).match.branches == {"other"}
    pattern = "y = Q(Relu(DQ(X, zp=0)) | Relu(DQ(X: per_axis)))"
    assert not ask(pattern, model)


def test_the_parameters_of_one_name_are_the_same_values(ask: Ask) -> None:
    model = """
    g (int8[2,3] x) => (float[2,3] y) <float s = {0.5}, float t = {0.25}>
    { a = DequantizeLinear(x, s)  b = DequantizeLinear(x, %s)  y = Add(a, b) }
    """
    assert ask("y = Add(DQ(X), DQ(X))", model % "s")
    assert ask("y = Add(DQ(X), DQ(X))", model % "t").code == "same"


def test_codes_of_a_statement(ask: Ask) -> None:
    model = """
    g (float[2,3] x) => (float[2,3] y) <float s = {0.5}, float t = {0.25}>
    { q = QuantizeLinear(x, s)  y = DequantizeLinear(q, %s) }
    """
    assert ask("q = Q(x)  y = DQ(q: per_tensor)".replace(": per_tensor", ""), model % "s")
    assert ask("q = Q(x)  y = DQ(q)", model % "t").code == "same"


def test_dequantized_values_may_be_used_elsewhere(ask: Ask) -> None:
    model = """
    g (int8[2,3] x) => (float[2,3] y, float[2,3] f) <float s = {0.5}>
    { f = DequantizeLinear(x, s)  y = Relu(f) }
    """
    assert ask("y = Relu(DQ(X))", model)


def test_blocks(ask: Ask) -> None:
    model = """
    <ir_version: 10, opset_import: ["" : 21]>
    g () => (float[4,2] y)
    <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] s = {1,2,3,4}>
    { f = DequantizeLinear <axis = -2, block_size = 2> (w, s)  y = Relu(f) }
    """
    found = ask("y = Relu(DQ(X: blocked))", model, more="where X.axis == 0, X.block == 2")
    assert found
    assert not ask("y = Relu(DQ(X: per_axis|per_tensor))", model)
    assert not ask("y = Relu(DQ(X: per_axis(0)|blocked))", model, more="where X.block == 3")


def test_siblings(ask: Ask) -> None:
    model = """
    g (int8[2,3] x) => (float[2,3] a, float[2,3] y)
    <float s = {0.5}, float t = {0.25}, int8[3] w = {1,2,3}>
    { f = DequantizeLinear(x, s)  v = DequantizeLinear(w, t)  u = DequantizeLinear(w, s)
      a = Add(f, v)  y = Add(f, u) }
    """
    pattern = "each ys over x = Add(x, DQ(W: s8 per_tensor)) if (W.scale < 1)"
    found = ask(pattern, model, emit="ys = ys")
    assert found.names["W"] == ("w", "w")
    assert found.names["W__scale"] == ("t", "s")


def test_in_a_named_pattern(ask: Ask) -> None:
    text = """pattern relu_codes(X) = Relu(DQ(X: per_tensor)) as first if (X.scale < 1)
    rule r in fuse { \"\"\"Test.\"\"\"
      match y = Q(relu_codes(P), W: per_tensor) | Q(Neg(relu_codes(P)), W: per_tensor)
      where P.scale == W.scale emit y = Relu(y) claim exact }
    """
    model = """
    g (int8[2,3] x) => (int8[2,3] y) <float s = {0.5}, int8 z = {1}>
    { f = DequantizeLinear(x, s, z)  r = Relu(f)  n = Neg(r)  y = QuantizeLinear(n, s, z) }
    """
    assert ask(text, model).names["P"] == "x"
