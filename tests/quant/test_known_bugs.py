"""What other tools got wrong in quantized arithmetic: the right values, by hand or fractions.

Biases (ORT 24711) are in test_bias, clamps (ExecuTorch 18462, ORT 11660) in test_clamp, 33 bits
(CMSIS-NN 220) in test_requantize, wide steps (ExecuTorch 20655) in test_affine, pair sums (oneDNN
476) in test_accumulator.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from rewrite.quant import bias
from rewrite.quant.affine import dequantize, quantize, quantize_reciprocal
from rewrite.quant.certificate import Claim, compare_requantizers
from rewrite.quant.codes import every_code
from rewrite.quant.faults import QuantError
from rewrite.quant.params import faults, quant_params
from rewrite.quant.reference import Arithmetic, evaluate
from rewrite.quant.requantize import REQUANTIZERS
from rewrite.quant.rounding import Order
from rewrite.quant.table import build, compose
from tests.quant import exact

MICROSOFT = "com.microsoft"
F32 = np.float32


def value(domain, name, operands, attributes=None, arithmetic=None):
    (found,) = evaluate(domain, name, operands, attributes or {}, arithmetic)
    return found


def test_softmax_does_not_wrap():
    """onnxruntime 29727: 1 * 256 - 128 = 128 saturates to 127."""
    x = np.int8([[127, -128, -128, -128]])
    operands = [x, F32(0.1), np.int8(0), F32(1 / 256), np.int8(-128)]
    found = value(MICROSOFT, "QLinearSoftmax", operands, {"axis": 1, "opset": 13})
    assert found.tolist() == [[127, -128, -128, -128]]


def test_alpha_does_not_scale_a_bias_of_its_own():
    """onnxruntime 28130: a bias at a_s b_s beside alpha 2 has to be halved for QGemm."""
    a, b, c = np.uint8([[10, 20]]), np.int8([[3], [4]]), np.int32([1000])
    a_s, b_s, y_s, alpha = F32(0.5), F32(0.25), F32(1), F32(2)
    product = exact.rational(a_s) * exact.rational(b_s)
    wanted = round((2 * (10 * 3 + 20 * 4) + 1000) * product)
    moved = bias.repair(c, a_s * b_s, alpha * a_s, b_s)
    assert moved.codes.tolist() == [500]
    operands = [a, a_s, np.uint8(0), b, b_s, np.int8(0), moved.codes.astype(np.int32), y_s,
                np.uint8(0)]  # fmt: skip
    assert value(MICROSOFT, "QGemm", operands, {"alpha": 2.0}).tolist() == [[wanted]] == [[152]]


def test_the_type_of_codes_without_a_zero_point():
    """onnxruntime 27845: s8 stays s8; QuantizeLinear alone defaults to u8."""
    found = value("", "DequantizeLinear", [np.int8([-30]), F32(0.01)])
    assert found.tolist() == [float(F32(-30) * F32(0.01))]
    assert value("", "QuantizeLinear", [F32([-0.3]), F32(0.01)]).tolist() == [0]
    stated = value("", "QuantizeLinear", [F32([-0.3]), F32(0.01)], {"output_dtype": 3})
    assert (stated.dtype, stated.tolist()) == (np.int8, [-30])


def test_products_at_the_ends_do_not_saturate():
    """onnxruntime 16105 and the u8 by s8 products of an AVX2 CPU."""
    a, b = np.uint8([[210, 198, 234]]), np.int8([[-81], [-80], [127]])
    assert value("", "MatMulInteger", [a, b]).tolist() == [[-3132]]
    operands = [a, F32(0.01), np.uint8(0), b, F32(0.01), np.int8(0), F32(0.01), np.uint8(128)]
    assert value("", "QLinearMatMul", operands).tolist() == [[97]]
    a, b = np.full((1, 64), 255, np.uint8), np.full((64, 1), 127, np.int8)
    assert value("", "MatMulInteger", [a, b]).tolist() == [[2_072_640]]


def test_zero_points_are_subtracted():
    """onnxruntime 7524, IREE 24583: 3 x 3, zero points 42 and -26."""
    rng = np.random.default_rng(101)
    a, b = rng.choice([0, 255, 128], (3, 3)), rng.choice([-128, 127, 0], (3, 3))
    found = value("", "MatMulInteger", [np.uint8(a), np.int8(b), np.uint8(42), np.int8(-26)])
    for i in range(3):
        for j in range(3):
            wanted = sum((int(a[i, k]) - 42) * (int(b[k, j]) + 26) for k in range(3))
            assert found[i, j] == wanted


def test_a_bias_counts_in_units_of_its_channel():
    """torch-mlir 4645, MIGraphX 4521: bias is b x_s w_s[c], per channel."""
    x, w = np.zeros((1, 1, 1, 1), np.uint8), np.zeros((2, 1, 1, 1), np.int8)
    w_s, b = F32([0.5, 0.125]), np.int32([40, 40])
    operands = [x, F32(0.5), np.uint8(0), w, w_s, np.zeros(2, np.int8), F32(0.25), np.int8(-3), b]
    found = value("", "QLinearConv", operands).reshape(-1)
    assert found.tolist() == [round(40 * 0.5 * 0.5 / 0.25) - 3, round(40 * 0.5 * 0.125 / 0.25) - 3]


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_the_border_is_the_zero_point(kind):
    """XNNPACK 8647: a signed zero point stays signed; a border of it contributes nothing."""
    zero = kind(-7 if kind is np.int8 else 250)
    x, w = np.full((1, 1, 2, 2), zero, kind), np.full((1, 1, 3, 3), 5, np.int8)
    operands = [x, F32(1), zero, w, F32(1), np.int8(0), F32(1), kind(9), np.int32([4])]
    found = value("", "QLinearConv", operands, {"pads": [1, 1, 1, 1]})
    assert found.reshape(-1).tolist() == [13] * 4


def test_an_addition_near_a_tie():
    """PyTorch 37343: 30.498 steps above 124."""
    operands = [np.uint8([158]), F32(0.04056), np.uint8(112), np.uint8([136]), F32(0.08882),
                np.uint8(126), F32(0.0903), np.uint8(124)]  # fmt: skip
    total = 46 * exact.rational(F32(0.04056)) + 10 * exact.rational(F32(0.08882))
    wanted = round(total / exact.rational(F32(0.0903))) + 124
    assert value(MICROSOFT, "QLinearAdd", operands).tolist() == [wanted] == [154]


def test_two_pairs_with_different_scales():
    """onnxruntime 25259: the pairs (.1), (.05) are two roundings; one pair by the intersection of
    their intervals is another function, off by a step at many points."""
    first, second = quant_params("s8", 0.1), quant_params("s8", 0.05)
    composed = compose(build(lambda v: v, first, second), build(lambda v: v, second, second))
    codes = every_code(first.code)
    twice = quantize(dequantize(codes, first), second)
    assert np.array_equal(composed.apply(codes), twice)
    x = np.linspace(-10, 10, 4001).astype(F32)
    chain = composed.apply(quantize(x, first)).astype(int)
    difference = np.abs(chain - quantize(x, second).astype(int))
    assert difference.max() == 1
    assert (difference > 0).sum() > 500


def test_a_quantized_output_is_not_the_value():
    """MIGraphX 2949: scale .004, zero point -128 ends at 1.02; a float consumer sees more."""
    params = quant_params("s8", 0.004, -128)
    x = F32([0.5, 1.02, 1.7, -0.3])
    seen = dequantize(quantize(x, params), params)
    assert np.allclose(seen, [0.5, 1.02, 1.02, 0.0], atol=1e-6)


def test_rounding_differs_by_operator():
    """LiteRT 7441: mean rounds doubly, mul and add once; the two are not the same function."""
    double, single = REQUANTIZERS["tflite_double"], REQUANTIZERS["tflite_single"]
    found = compare_requantizers(double, single, Fraction(1, 49), 0, -128, 127)
    assert found.mismatches > 0
    assert found.max_lsb == 1
    assert not found.supports(Claim("exact"))
    (acc,) = found.witness
    codes = [int(r.apply(np.array([acc]), r.derive(Fraction(1, 49)), 0, -128, 127)[0])
             for r in (double, single)]  # fmt: skip
    assert abs(codes[0] - codes[1]) == 1


def test_negative_scales_are_named():
    """onnxruntime 21176: MaxPool may not pass a negative scale."""
    assert faults(quant_params("s8", -0.1), (1, 2)) == ("negative scale",)
    with pytest.raises(QuantError, match="positive"):
        value(
            MICROSOFT, "QLinearAdd", [np.int8([1]), F32(-1), np.int8(0)] * 2 + [F32(1), np.int8(0)]
        )


def reference_evaluator(name, operands, opset=21):
    inputs = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype),
                                            x.shape) for i, x in enumerate(operands)]  # fmt: skip
    node = helper.make_node(name, [i.name for i in inputs], ["y"])
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {f"x{i}": x for i, x in enumerate(operands)}
    return ReferenceEvaluator(model).run(None, feeds)[0]


def test_the_reference_evaluator_adds_before_it_rounds():
    """QLinearMatMul there is ours with the other order; by the text, ties with odd zero points
    come out otherwise."""
    a, b = np.arange(256, dtype=np.uint8).reshape(-1, 1), np.ones((1, 1), np.int8)
    operands = [a, F32([0.5]), np.uint8([0]), b, F32([1]), np.int8([0]), F32([1]), np.uint8([1])]
    theirs = reference_evaluator("QLinearMatMul", [np.asarray(o) for o in operands])
    before = Arithmetic(order=Order.ADD_THEN_ROUND)
    assert np.array_equal(value("", "QLinearMatMul", operands, {}, before), theirs)
    ours = value("", "QLinearMatMul", operands)
    assert (ours != theirs).sum() == 128
    assert ours[:, 0].tolist() == [round(Fraction(k, 2)) + 1 for k in range(256)]


def test_reciprocal_scales():
    """TensorRT multiplies by 1 / scale: with a power of two that is division, else not always."""
    rng = np.random.default_rng(102)
    x = (rng.integers(-254, 254, 4000) / 2 * 0.1).astype(F32)
    params = quant_params("s8", 0.1)
    found = quantize_reciprocal(x, params)
    inverse = exact.f32(1 / exact.rational(F32(0.1)))
    for v, f in zip(x, found, strict=True):
        product = Fraction(exact.f32(exact.rational(v) * Fraction(inverse)))
        assert f == min(max(round(product), -128), 127)
    assert (found != quantize(x, params)).any()
    even = quant_params("s8", 0.25)
    assert np.array_equal(quantize_reciprocal(x, even), quantize(x, even))
    with pytest.raises(QuantError, match="zero point"):
        quantize_reciprocal(x, quant_params("s8", 0.1, 3))
