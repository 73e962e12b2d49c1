"""The errors of results against all pairs of operands that lie so far apart."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from rewrite.engine.quantized_reach import looked_up, of_array, rounded, widest
from rewrite.engine.quantized_walk import Source, Walk
from rewrite.graph import io
from rewrite.quant.rounding import Rounding, round_ratio

RNG = np.random.default_rng(8)


def _model(body: str, constants: str = "") -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["" : 21]> g (int8[N] x) => (y) <{constants}>'
    return parser.parse_model(f"{text} {{ {body} }}")


def _error(model: onnx.ModelProto, error: float) -> float:
    facts = io.load(model).facts
    walk = Walk(facts, {facts.model.graph.inputs[0]: Source(error)})
    walk.begin(facts.model.graph.inputs[0])
    walk.run(list(facts.model.graph))
    reach = walk.errors.get(facts.model.graph.outputs[0])
    return 0.0 if reach is None else reach.error


def _worst(model: onnx.ModelProto, error: int) -> float:
    """The largest difference of the results of two codes that are at most so far apart."""
    codes = np.arange(-128, 128).astype(np.int8)
    values = ReferenceEvaluator(model).run(None, {"x": codes})[0].astype(np.float64)
    return max(
        float(np.abs(values[d:] - values[: len(values) - d]).max()) for d in range(error + 1)
    )


TABLE = ",".join(str(v) for v in np.sort(RNG.integers(-90, 90, 256)))
WIDE = "w = Cast <to = 7> (x)"
# Body, constants, how much more than the worst case may be found.
CASES = {
    "multiply and shift": (
        f"{WIDE} m = Mul(w, k) a = Add(m, o) d = Div(a, b) y = Sub(d, c)",
        "int64 k = {1234567}, int64 o = {2147483648}, int64 b = {16777216}, int64 c = {128}", 1,
    ),
    "half away": (
        f"{WIDE} m = Mul(w, k) s = Sign(m) h = Mul(s, e) a = Add(m, h) y = Div(a, b)",
        "int64 k = {37}, int64 e = {8}, int64 b = {16}", 1,
    ),
    "clamp": (
        f"{WIDE} c = Clip(w, l, h) y = Cast <to = 3> (c)", "int64 l = {-3}, int64 h = {2}", 0
    ),
    "table": ("i = Cast <to = 6> (x) y = Gather(t, i)", f"int8[256] t = {{{TABLE}}}", 0),
    "float": (
        "f = Cast <to = 1> (x) m = Mul(f, k) c = Clip(m, l, h) r = Round(c) y = Cast <to = 3> (r)",
        "float k = {1.37}, float l = {-100}, float h = {100}", 1,
    ),
    "codes to codes": (
        "d = DequantizeLinear(x, s, z) y = QuantizeLinear(d, u, v)",
        "float s = {0.5}, int8 z = {3}, float u = {0.25}, int8 v = {-7}", 1,
    ),
    "rectified": (
        "d = DequantizeLinear(x, s, z) r = Relu(d) y = QuantizeLinear(r, u, v)",
        "float s = {0.5}, int8 z = {3}, float u = {0.75}, int8 v = {-128}", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("error", [1, 2, 5, 40])
@pytest.mark.parametrize("case", CASES)
def test_operators(case: str, error: int) -> None:
    body, constants, more = CASES[case]
    model = _model(body, constants)
    found, worst = _error(model, float(error)), _worst(model, error)
    assert worst <= found * (1 + 1e-9) <= worst + more + 1e-6


def test_products_by_the_worst_channel() -> None:
    weights = np.array([[1, -2, 3], [-100, 100, 7], [0, 1, 0]], np.int8)
    text = """<ir_version: 10, opset_import: ["" : 21]>
    g (int8[1,3] x) => (int32[1,3] y) <int8[3,3] w = {1,-100,0,-2,100,1,3,7,0}> {
      y = MatMulInteger(x, w)
    }"""
    assert _error(parser.parse_model(text), 2.0) == 2 * np.abs(weights.astype(int)).sum(1).max()


def test_what_is_not_known_has_no_bound() -> None:
    body = "d = DequantizeLinear(x, s) e = Exp(d) y = QuantizeLinear(e, s)"
    facts = io.load(_model(body, "float s = {0.5}")).facts
    walk = Walk(facts, {facts.model.graph.inputs[0]: Source(1.0)})
    walk.begin(facts.model.graph.inputs[0])
    walk.run(list(facts.model.graph))
    assert (
        walk.errors[facts.model.graph.outputs[0]].reason == "errors behind Exp ('e') are not known"
    )


def test_two_ties_go_apart() -> None:
    """0.5 and 1.5 are one step apart, and 0 and 2 two: half to even."""
    numbers = np.arange(-40, 41)
    codes = round_ratio(numbers, 8, Rounding.HALF_EVEN).astype(np.int64)
    for distance in range(1, 40):
        pairs = np.abs(codes[distance:] - codes[:-distance]).max()
        assert pairs <= rounded(distance / 8)
    assert rounded(1.0) == 2.0
    assert rounded(0.0) == 0.0


def test_windows_of_tables() -> None:
    for _ in range(60):
        size, steps = int(RNG.integers(1, 30)), int(RNG.integers(0, 33))
        values = RNG.integers(-50, 50, size).astype(float)
        pairs = product(range(size), repeat=2)
        worst = max(abs(values[i] - values[j]) for i, j in pairs if abs(i - j) <= steps)
        assert widest(values, steps) == worst


def test_an_index_without_bound_reaches_the_whole_table() -> None:
    table = np.array([3, 9, -4, 5], np.int8)
    index = of_array(np.array([0, 3], np.int64))
    assert looked_up(table, index).error == 0.0
    assert looked_up(table, type(index)(error=float("inf"), integer=True)).error == 13.0
