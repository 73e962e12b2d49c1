"""Which float operators of a quantized model are between codes, and what is said of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from rewrite import apply
from rewrite.engine.floats import floats_left
from rewrite.engine.journal import Refused
from rewrite.graph import io
from rewrite.target.target import Lut, Target

CONSTANTS = "<float s = {0.1}, uint8 z = {3}, float half = {0.5}, int64[2] t = {4,1}>"


def _model(body: str, result: str = "uint8[N] y", constants: str = CONSTANTS) -> onnx.ModelProto:
    return parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>\n'
        f"g (uint8[4] a, float[4] f) => ({result}) {constants} {{ {body} }}"
    )


def _left(body: str, **options: str) -> list[tuple[str, str]]:
    found = floats_left(io.load(_model(body, **options)).facts)
    return [(record.node, record.reason) for record in found]


D, Q = "d = DequantizeLinear(a, s, z)", "y = QuantizeLinear"


def test_between_codes() -> None:
    assert _left(f"{D} e = Exp(d) {Q}(e, s, z)") == [("e", "no rule has an integer form for Exp")]


@pytest.mark.parametrize(
    "body",
    [
        f"{D} {Q}(d, s, z)",
        f"e = Exp(f) {Q}(e, s, z)",  # before the first codes
        f"e = Exp(f) q = QuantizeLinear(e, s, z) b = Cast <to = 6> (q) {Q}(f, s, z)",
        f"{D} n = Shape(d) c = ConstantOfShape(n) {Q}(c, s, z)",  # hangs on no code
    ],
)
def test_nothing_is_between(body: str) -> None:
    assert _left(body) == []


def test_behind_the_last_codes() -> None:
    assert _left(f"{D} y = Exp(d)", result="float[N] y") == []


def test_dequantized_weights_are_no_codes_that_come_before() -> None:
    constants = "<float s = {0.1}, uint8 z = {3}, uint8[4] w = {1,2,3,4}>"
    body = f"d = DequantizeLinear(w, s, z) e = Mul(f, d) {Q}(e, s, z)"
    assert _left(body, constants=constants) == []
    node = f"w = Constant <value = uint8[4] {{1,2,3,4}}> () {body}"
    assert _left(node, constants="<float s = {0.1}, uint8 z = {3}>") == []


def test_reasons() -> None:
    body = f"{D} e = Mul(d, f) r = Reshape(e, t) {Q}(r, s, z)"
    assert _left(body, result="uint8[4,1] y") == [
        ("e", "an operand is an input, not codes"),
        ("r", "an operand is the result of Mul, not codes"),
    ]
    body = f"{D} e = Exp(d) x = Log(e) {Q}(x, s, z)"
    assert _left(body)[0] == ("e", "its result is not quantized")


def test_targets_without_tables() -> None:
    """A function of codes has no table there; a sum of two operands never has one."""
    loaded = io.load(_model(f"{D} e = Exp(d) {Q}(e, s, z)"))
    bare = Target("t", "Test.", "t.yaml", (), (7, 26), False, None)
    (record,) = floats_left(loaded.facts, target=bare)
    assert record.reason == "the target has no tables for functions of codes"
    quick = dataclasses.replace(bare, lut=(Lut(256, 8),))
    (record,) = floats_left(loaded.facts, target=quick)
    assert record.reason == "no rule has an integer form for Exp"
    body = f"{D} q = Identity(a) e = DequantizeLinear(q, s, z) x = Add(d, e) {Q}(x, s, z)"
    (record,) = floats_left(io.load(_model(body)).facts, target=bare)
    assert record.reason == "no rule has an integer form for Add"


@pytest.mark.parametrize(("opset", "reason"), [
    (11, "MaxPool takes no codes before opset 12"),
    (12, "no rule has an integer form for MaxPool"),
])  # fmt: skip
def test_operators_that_took_no_codes(opset: int, reason: str) -> None:
    text = (
        f'<ir_version: 6, opset_import: ["" : {opset}]> g (uint8[1,1,4] a) => (uint8[1,1,4] y) '
        "<float s = {0.1}, uint8 z = {3}> { d = DequantizeLinear(a, s, z) "
        "m = MaxPool <kernel_shape = [1]> (d) y = QuantizeLinear(m, s, z) }"
    )
    assert [r.reason for r in floats_left(io.load(parser.parse_model(text)).facts)] == [reason]


def test_weights_in_floats() -> None:
    constants = "<float s = {0.1}, uint8 z = {3}, float[4,4] w>"
    model = _model(f"{D} e = MatMul(d, w) {Q}(e, s, z)", constants=constants)
    model.graph.initializer.append(numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"))
    (record,) = floats_left(io.load(model).facts)
    assert record.reason == "its weights are not quantized"


def test_scales_that_the_run_makes() -> None:
    """The codes of DynamicQuantizeLinear are codes, but their scale is no constant."""
    body = f"{D} e = Exp(d) c, u, v = DynamicQuantizeLinear(e) m = Mul(u, u) {Q}(m, s, z)"
    assert _left(body, result="uint8 y") == [
        ("e", "no rule has an integer form for Exp"),
        ("m", "a scale is known only when the model runs"),
    ]


def test_groups_inside_of_nodes() -> None:
    text = """
    <ir_version: 10, opset_import: ["" : 21]>
    g (bool c, uint8[4] a) => (uint8[4] y) <float s = {0.1}, uint8 z = {3}>
    {
      y = If (c) <
        then_branch = t () => (uint8[4] p)
          { q = Identity(a) d = DequantizeLinear(q, s, z) e = Exp(d) p = QuantizeLinear(e, s, z) },
        else_branch = u () => (uint8[4] r) { r = Identity(a) } >
    }
    """
    found = floats_left(io.load(parser.parse_model(text)).facts)
    assert [(r.node, r.operator) for r in found] == [("e", "Exp")]


def test_what_a_rule_was_refused_for_is_the_reason() -> None:
    loaded = io.load(_model(f"{D} e = Exp(d) {Q}(e, s, z)"))
    refused = Refused("lookup_table", "quantize", "g", "y", "a division by zero")
    found = floats_left(loaded.facts, [refused])
    assert [record.reason for record in found] == ["lookup_table: a division by zero"]


@pytest.mark.parametrize(
    ("target", "limit", "reason"),
    [
        ("tensorrt", "approx", "the target's compiler looks for it between"),
        ("onnxruntime-cpu", "exact", "no rule of class exact has an integer form for Conv"),
    ],
)
def test_reasons_speak_of_targets_and_classes(target: str, limit: str, reason: str) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 13]>
    g (int8[1,1,3,3] x) => (int8[1,1,3,3] y)
    <float s = {0.1}, int8 z = {0}, int8[1,1,1,1] w = {3}, float t = {0.03}>
    { d = DequantizeLinear(x, s, z)  k = DequantizeLinear(w, s, z)  c = Conv(d, k)
      y = QuantizeLinear(c, t, z) }
    """
    result = apply(parser.parse_model(text), target=target, max_class=limit)
    (row,) = result.stats["float_left"]
    assert row["reason"].startswith(reason)
