"""Types that onnx's inference leaves open: of com.microsoft's operators, and of If over them."""

from __future__ import annotations

import onnx
import pytest

from rewrite.engine.completion import Completer
from rewrite.graph import io
from rewrite.schema import Type

QUANTIZE = "com.microsoft.QuantizeLinear"


@pytest.mark.parametrize(
    ("then", "otherwise", "expected"),
    [
        (f"o = {QUANTIZE}(x, s, z)", f"p = {QUANTIZE}(x, s, z)", Type("u8", (3,))),
        (f"o = {QUANTIZE}(x, s, z)", "p = QuantizeLinear(x, s, z)", Type("u8", (3,))),
        (
            f"r = {QUANTIZE}(x, s, z)  d = com.microsoft.DequantizeLinear(r, s, z)"
            f"  o = {QUANTIZE}(d, s, z)",
            f"p = {QUANTIZE}(x, s, z)",
            Type("u8", (3,)),
        ),
        (f"o = {QUANTIZE}(x, s, z)", f"p = {QUANTIZE}(w, s, z)", Type("u8", None)),
        (f"o = {QUANTIZE}(x, s, z)", f"p = {QUANTIZE}(x, s, n)", Type(None, (3,))),
    ],
)
def test_an_if_has_the_types_that_its_branches_share(
    then: str, otherwise: str, expected: Type
) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
            g (float[3] x, float[5] w, bool c) => (float y)
            <float s = {{0.1}}, uint8 z = {{3}}, int8 n = {{3}}>
            {{ b = If(c) <then_branch = t () => (o) {{ {then} }},
                          else_branch = e () => (p) {{ {otherwise} }}>
               y = Cast <to = 1> (b) }}"""
    )
    loaded = io.load(model)
    (conditional,) = (node for node in loaded.model.graph if node.op_type == "If")
    loaded.facts.complete = Completer(loaded.facts)
    assert loaded.facts.type(conditional.outputs[0]) == expected
