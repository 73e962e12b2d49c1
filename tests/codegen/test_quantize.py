"""QuantizeLinear and DequantizeLinear as steps of programs, against rewrite/quant."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from rewrite.codegen.isa import Isa
from rewrite.ops.dtypes import to_numpy
from rewrite.quant.affine import dequantize, quantize, steps_of
from rewrite.quant.codes import CODES, CodeType, code_type, every_code
from rewrite.quant.params import QuantParams, quant_params
from rewrite.schema import DTYPES
from tests.codegen.bodies import one_step
from tests.codegen.elements import as_type, same
from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()
SCALES = (0.013, 0.25, 0.1, 1.7)


def numbers(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(4)
    ties = np.arange(-40, 40) / 2 * np.float32(0.25)
    edges = [0.0, -0.0, np.inf, -np.inf, 1e30, -1e30]
    return as_type(np.concatenate([edges, ties, rng.standard_normal(300) * 20]), dtype)


def zero_points(code: CodeType) -> list[int | None]:
    if code.kind == "float" or code.name == "s32":
        return [None]
    return [None, 0, code.high // 2, code.low]


def parameters(code: CodeType, scale: np.ndarray, zero: int | None) -> QuantParams:
    point = None if zero is None else np.array(zero).astype(code.dtype)
    return quant_params(code, scale, point)


def spread(value: np.ndarray, like: np.ndarray) -> np.ndarray:
    return np.full(like.shape, value, value.dtype)


def zero_array(params: QuantParams, like: np.ndarray, zero: int | None) -> list[np.ndarray]:
    return [] if zero is None else [spread(np.array(zero).astype(params.code.dtype), like)]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
@pytest.mark.parametrize("name", sorted(CODES))
def test_quantize(name: str, isa: Isa) -> None:
    code = code_type(name)
    assert code is not None
    for k, (kind, scale_kind) in enumerate([("f32", "f32"), ("f16", "f16"), ("bf16", "f32")]):
        x = numbers(kind)
        for zero in zero_points(code):
            scale = as_type(SCALES[k], scale_kind)
            params = parameters(code, scale, zero)
            given = [x, spread(scale, x), *zero_array(params, x, zero)]
            found = one_step("QuantizeLinear", given, name, isa, attributes={"saturate": 1})
            assert same(quantize(x, params), found).all(), (kind, zero)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_quantize_in_a_stated_precision(domain: str) -> None:
    code = code_type("u8")
    assert code is not None
    x, scale = numbers("f16"), as_type(0.1, "f16")
    params = parameters(code, scale, 3)
    given = [x, spread(scale, x), *zero_array(params, x, 3)]
    found = one_step("QuantizeLinear", given, "u8", None, domain, {"precision": DTYPES["f16"]})
    assert np.array_equal(quantize(x, params, "f16"), found)


def test_quantize_integers_and_nan() -> None:
    x = np.arange(-300, 300, dtype=np.int32)
    scale = np.full(x.shape, 0.5, np.float32)
    found = one_step("QuantizeLinear", [x, scale], "s8")
    assert np.array_equal(found, np.clip(2 * x, -128, 127).astype(np.int8))
    missing = np.full(20, np.nan, np.float32)
    assert one_step("QuantizeLinear", [missing, scale[:20]], "u8").tolist() == [0] * 20


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: f"{8 * isa.vector_bytes}")
@pytest.mark.parametrize("name", sorted(CODES))
def test_dequantize(name: str, isa: Isa) -> None:
    code = code_type(name)
    assert code is not None
    codes = _codes(code)
    for output in ("f32", "f16", "bf16"):
        for zero in zero_points(code):
            scale = as_type(SCALES[1] if output == "bf16" else SCALES[3], output)
            params = parameters(code, scale, zero)
            given = [codes, spread(scale, codes), *zero_array(params, codes, zero)]
            found = one_step("DequantizeLinear", given, output, isa)
            assert same(dequantize(codes, params), found).all(), (output, zero)


def test_dequantize_rounds_once() -> None:
    """To a narrower type than the scale's: the exact product is rounded once, by rationals."""
    code = code_type("u8")
    assert code is not None
    codes = every_code(code)
    scale = np.float32(1.7)
    params = parameters(code, np.asarray(scale), 3)
    given = [codes, spread(np.asarray(scale), codes), spread(np.array(3, np.uint8), codes)]
    for output, digits in (("f16", 11), ("bf16", 8)):
        found = one_step("DequantizeLinear", given, output).astype(np.float64)
        for step, value in zip(steps_of(codes, params).tolist(), found.tolist(), strict=True):
            assert value == float(_nearest(Fraction(step) * Fraction(float(scale)), digits))


def _nearest(x: Fraction, digits: int) -> Fraction:
    """Half to even, to a number of binary digits."""
    if x == 0:
        return x
    exponent = abs(x).numerator.bit_length() - abs(x).denominator.bit_length()
    if abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent + 1 - digits)
    return round(x / unit) * unit


def _codes(code: CodeType) -> np.ndarray:
    if code.name != "s32":
        return every_code(code)[:3000]
    rng = np.random.default_rng(5)
    return rng.integers(-(2**31), 2**31, 500).astype(to_numpy("s32"))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("opset", [21, 23, 25])
def test_the_division_has_the_type_of_the_scale_from_opset_23_on(kind: str, opset: int) -> None:
    """Numbers beside a tie round to another code where the quotient has been rounded before."""
    dtype = to_numpy(kind)
    x = np.linspace(-30, 30, 4001).astype(np.float32).astype(dtype)
    scale = np.array(0.37, dtype)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    known = {"s": scale, "z": np.array(3, np.int8)}
    model = model_of([node], {"x": x}, known, opset=opset)
    model.ir_version = 12
    (y,) = run_model(model, {"x": x})
    wide = x.astype(np.float32) / scale.astype(np.float32)
    narrow = wide.astype(dtype).astype(np.float32)
    assert (np.rint(wide) != np.rint(narrow)).any()
    wanted = np.clip(np.rint(narrow if opset >= 23 else wide) + 3, -128, 127)
    assert np.array_equal(y, wanted.astype(np.int8))
    if kind == "f16":
        session = onnxruntime.InferenceSession(model.SerializeToString())
        assert np.array_equal(y, session.run(None, {"x": x})[0])
