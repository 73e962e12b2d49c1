"""What the report says about quantized models: words, counts, the page."""

from __future__ import annotations

import pytest
from onnx import parser

import rewrite
from rewrite.cli import report
from rewrite.report import quantized


def _saturation(node: str, unsafe: int, channels: int = 8) -> dict[str, object]:
    return {
        "node": node, "operator": "t.QConv", "instruction": "vdmpybus; or another",
        "channels": channels, "unsafe_channels": unsafe, "unsafe_pairs": 2 * unsafe,
        "activations": (0, 255),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bounds", "reasons", "text"),
    [
        ({}, {}, ""),
        ({"y": 0, "z": 0}, {}, "0"),
        ({"y": 3, "z": 0}, {}, "3 (y), 0 (z)"),
        ({"y": 2.5}, {}, "2.5 (y)"),
        ({f"y{i}": i for i in range(6)}, {}, "5 at most for 6 outputs"),
        ({"y": None}, {"y": "because"}, "not bounded for y: because"),
        (
            {"y": 0, "z": None, "u": None}, {"z": "r", "u": "r"},
            "0 for 1 output, not bounded for 2 outputs: r",
        ),
    ],
)  # fmt: skip
def test_bound(bounds: dict[str, float | None], reasons: dict[str, str], text: str) -> None:
    assert quantized.bound({"lsb_bound": bounds, "lsb_unbounded": reasons}) == text


def test_saturation() -> None:
    records = [_saturation("a", 0), _saturation("b", 3), _saturation("c", 1, 4)]
    told = quantized.saturation({"saturation": records})
    assert told == ["vdmpybus may overflow in 2 of 3 products: 4 of 12 channels"]
    told = quantized.saturation({"saturation": records[:1]})
    assert told == ["vdmpybus cannot overflow in 1 product"]
    assert quantized.saturation({}) == []


def test_reasons_that_name_other_values_are_one_row() -> None:
    records = [
        {"node": "a", "operator": "Exp", "reason": "r: 'x' is odd"},
        {"node": "b", "operator": "Log", "reason": "r: 'x' is odd"},
        {"node": "c", "operator": "Exp", "reason": "r: 'y' is odd"},
    ]
    (title, rows), _ = quantized.sections({"float_left": records})
    assert title == "floats left"
    assert rows == [(2, "Exp: r: 'x' is odd", ["a", "c"]), (1, "Log: r: 'x' is odd", ["b"])]


BAD = """
<ir_version: 8, opset_import: ["" : 13]>
g (uint8[4] x) => (uint8[4] y, uint8[4] w)
<float s = {0.1}, uint8 z = {3}, float none = {0}, float t = {0.05}>
{
  d = DequantizeLinear(x, s, z)
  e = Exp(d)
  c = CumSum(e, axis)
  y = QuantizeLinear(c, t, z)
  b = DequantizeLinear(x, none, z)
  w = QuantizeLinear(b, s, z)
}
""".replace("float t =", "int64 axis = {0}, float t =")


def test_a_run() -> None:
    result = rewrite.apply(parser.parse_model(BAD), target="hexagon")
    found = report.build(result, "m", None, None)
    assert found["lsb_bound"] == {"y": 0, "w": 0}
    assert [r["operator"] for r in found["float_left"]] == ["Exp", "CumSum"]
    assert found["quantization_faults"] == [
        {"node": "b", "operator": "DequantizeLinear", "reason": "zero scale"}
    ]
    text = list(report.text(found))
    assert "bad quantization" in text
    assert "    1  DequantizeLinear: zero scale" in text
    assert "lsb bound   0" in text


def test_float_models_have_none_of_it() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    found = report.build(rewrite.apply(parser.parse_model(text)), "m", None, None)
    assert not any(found[key] for key in report.QUANTIZED)
    assert not any(line.startswith(("lsb", "saturation")) for line in report.text(found))
