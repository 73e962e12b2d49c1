"""A bias whose scale is the float32 nearest to the product of two scales counts as that product."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

from rewrite.audit.oracle.run import Oracle

X_SCALE, W_SCALES = np.float32(0.1), np.float32([0.3, 0.07])
PRODUCTS = [Fraction(float(X_SCALE)) * Fraction(float(w)) for w in W_SCALES]
BIAS = np.int32([2_000_003, -1_999_999])
X = np.uint8([[[[9]], [[200]]]])
W = np.int8([[[[3]], [[-5]]], [[[127]], [[1]]]])
SUMS = [sum((int(X[0, k, 0, 0]) - 7) * int(W[c, k, 0, 0]) for k in range(2)) for c in range(2)]


def _model(operator: str, scales: Any, beta: str = "") -> onnx.ModelProto:
    w = (
        W
        if operator == "Conv"
        else W[:, :, 0, 0].T
        if operator == "Gemm"
        else W.transpose(1, 0, 2, 3)
    )
    axis = {"Conv": 0, "Gemm": 1, "ConvTranspose": 1}[operator]
    shape = "1,2" if operator == "Gemm" else "1,2,1,1"
    sizes = ",".join(map(str, w.shape))
    numbers = ", ".join(map(str, w.reshape(-1).tolist()))
    text = (
        f'<ir_version: 8, opset_import: ["" : 18]> g (uint8[{shape}] x) => (float[{shape}] y) '
        f"<float s = {{{float(X_SCALE)!r}}}, uint8 z = {{7}}, int8[{sizes}] w = {{{numbers}}}, "
        f"float[2] u = {{{', '.join(repr(float(v)) for v in W_SCALES)}}}, "
        f"int32[2] b = {{{BIAS[0]}, {BIAS[1]}}}, "
        f"float[2] e = {{{', '.join(repr(float(v)) for v in scales)}}}> "
        f"{{ d = DequantizeLinear(x, s, z) k = DequantizeLinear <axis = {axis}> (w, u) "
        f"  f = DequantizeLinear <axis = 0> (b, e) y = {operator}{beta}(d, k, f) }}"
    )
    return parser.parse_model(text)


def _found(model: onnx.ModelProto) -> list[float]:
    x = X[:, :, 0, 0] if len(model.graph.input[0].type.tensor_type.shape.dim) == 2 else X
    (y,) = Oracle(model).run({"x": x}).outputs.values()
    return y.floats.reshape(-1).tolist()  # type: ignore[union-attr, no-any-return]


@pytest.mark.parametrize("operator", ["Conv", "Gemm", "ConvTranspose"])
def test_the_nearest_scale_stands_for_the_product(operator: str) -> None:
    nearest = [np.float32(float(p)) for p in PRODUCTS]
    assert [Fraction(float(e)) == p for e, p in zip(nearest, PRODUCTS, strict=True)] == [False] * 2
    whole = [(SUMS[c] + int(BIAS[c])) * PRODUCTS[c] for c in range(2)]
    assert _found(_model(operator, nearest)) == pytest.approx(list(map(float, whole)), rel=1e-15)


@pytest.mark.parametrize("operator", ["Conv", "Gemm", "ConvTranspose"])
def test_another_scale_is_itself(operator: str) -> None:
    """One float32 off is another number; each channel is looked at by itself."""
    nearest = [np.float32(float(p)) for p in PRODUCTS]
    scales = [np.nextafter(nearest[0], np.float32(1)), nearest[1]]
    wanted = [
        SUMS[0] * PRODUCTS[0] + int(BIAS[0]) * Fraction(float(scales[0])),
        (SUMS[1] + int(BIAS[1])) * PRODUCTS[1],
    ]
    assert _found(_model(operator, scales)) == pytest.approx(list(map(float, wanted)), rel=1e-15)


def test_a_factor_of_the_bias() -> None:
    nearest = [np.float32(float(p)) for p in PRODUCTS]
    wanted = [
        SUMS[c] * PRODUCTS[c] + Fraction(1, 2) * int(BIAS[c]) * Fraction(float(nearest[c]))
        for c in range(2)
    ]
    found = _found(_model("Gemm", nearest, " <beta = 0.5> "))
    assert found == pytest.approx(list(map(float, wanted)), rel=1e-15)
