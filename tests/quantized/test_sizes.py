"""One size with several names between codes does not keep a table from being made."""

from __future__ import annotations

import onnx

import rewrite

MODEL = """
<ir_version: 8, opset_import: ["" : 18]>
g (uint8[N,3] x) => (uint8[N,3] y)
<float s = {0.05}, uint8 z = {120}, float t = {0.06}, uint8 w = {7}, float[M,3] d, float[M,3] n>
{ d = DequantizeLinear(x, s, z)  n = Neg(d)  y = QuantizeLinear(n, t, w) }
"""


def test_names_that_differ_in_between() -> None:
    result = rewrite.apply(onnx.parser.parse_model(MODEL), target="hexagon")
    assert [node.op_type for node in result.model.graph.node] == ["QLookup"]
    assert result.journal.refused == ()
