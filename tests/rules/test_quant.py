"""Clamps before QuantizeLinear: every code and every tie, in exact rational arithmetic.

QuantizeLinear is saturate(rint(x / s) + z), where x / s is a float32 division (one rounding of the
exact quotient) and rint goes to even. Both models, before and after, are evaluated by the little
evaluator below, which knows nothing of the tool.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

CODES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
Number = float | int
MOST = Fraction(float(np.finfo(np.float32).max))


def _divide(x: float, s: float) -> float:
    """x / s rounded once to float32, from the exact quotient."""
    if math.isinf(x):
        return x
    exact = Fraction(x) / Fraction(s)
    if abs(exact) > MOST:
        return math.copysign(math.inf, exact)
    # Rounding to float64 first is harmless: it has more than twice the digits (Figueroa, 1995).
    return float(np.float32(exact.numerator / exact.denominator))


def _code(x: float, s: float, z: int, low: int, high: int) -> int:
    ratio = _divide(x, s)
    if math.isinf(ratio):
        return high if ratio > 0 else low
    return min(max(round(Fraction(ratio)) + z, low), high)  # `round` goes to even


def _one_code(x: float, s: float) -> bool:
    """Whether a runtime that divides exactly and one that divides in float32 round alike."""
    return round(Fraction(np.float32(x).item()) / Fraction(s)) == round(Fraction(_divide(x, s)))


Function = Callable[[float], int]


def _function(model: onnx.ModelProto) -> Function:
    """The model as a function of one element; constants count by their first element."""
    held = {
        t.name: numpy_helper.to_array(t).reshape(-1).tolist()[0] for t in model.graph.initializer
    }
    output = model.graph.output[0]
    kind = onnx.helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    low, high = CODES[kind.name]

    def compute(x: float) -> int:
        values: dict[str, Number] = {**held, model.graph.input[0].name: x}
        for node in model.graph.node:
            first, *rest = (values[n] if n else None for n in node.input)
            values[node.output[0]] = _step(node.op_type, first, rest, low, high)
        return int(values[output.name])

    return compute


def _step(op: str, x: Number, rest: list[Number], low: int, high: int) -> Number:
    if op == "Relu":
        return max(x, 0)
    if op == "Clip":
        lo, hi = (*rest, None, None)[:2]
        x = x if lo is None else max(x, lo)
        return x if hi is None else min(x, hi)
    assert op == "QuantizeLinear"
    return _code(x, rest[0], int(rest[1]) if len(rest) > 1 else 0, low, high)


def _points(s: float, z: int, low: int, high: int, bounds: list[float]) -> Iterator[float]:
    """Every code, every tie, their float32 neighbours, the bounds, and the ends of the line."""
    step = max(1, (high - low) // 256)
    for code in [*range(low, high, step), high, *range(z - 3, z + 4)]:
        for half in (Fraction(0), Fraction(1, 2)):
            yield from _around(float(Fraction(s) * (code - z + half)))
    for bound in bounds:
        yield from _around(bound)
    yield from (0.0, -0.0, math.inf, -math.inf, 1e10, -1e10, 3.4e38, -3.4e38, 1e-45)


def _around(x: float) -> Iterator[float]:
    middle = np.float32(x)
    yield float(middle)
    yield float(np.nextafter(middle, np.float32(np.inf)))
    yield float(np.nextafter(middle, np.float32(-np.inf)))


def _text(dtype: str, clamp: str, held: list[str], s: float, z: int) -> str:
    opset = 21 if dtype.endswith("16") else 18
    constants = ", ".join([f"float s = {{{s!r}}}", f"{dtype} z = {{{z}}}", *held])
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
        g (float[1] x) => ({dtype}[1] y)
        <{constants}> {{ r = {clamp}  y = QuantizeLinear(r, s, z) }}
    """


SCALES = [0.1, 0.0235, 1.0, 1 / 3, 7.3e-4, 2.0**-5]


@pytest.mark.parametrize("dtype", sorted(CODES))
@pytest.mark.parametrize("place", ["low", "low+1", "middle", "odd", "high"])
def test_relu(rewrite: Callable[..., Any], dtype: str, place: str) -> None:
    low, high = CODES[dtype]
    z = {"low": low, "low+1": low + 1, "middle": (low + high + 1) // 2, "odd": low + 77,
         "high": high}[place]  # fmt: skip
    for s in SCALES[:2]:
        s32 = float(np.float32(s))
        found = rewrite(_text(dtype, "Relu(x)", [], s32, z), "quant-fold")
        before, after = _function(found.before), _function(found.model)
        for x in _points(s32, z, low, high, [0.0]):
            assert after(x) == before(x), (s, z, x)
    if place == "low":
        assert found.ops == ["QuantizeLinear"]
    elif dtype.endswith("16"):  # no runtime clips 16-bit codes
        assert found.ops == ["Relu", "QuantizeLinear"]
    else:
        assert found.ops == ["QuantizeLinear", "Clip"]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    "bounds", [(0.0, 6.0), (-1.0, 1.0), (0.5, 0.75), (None, 2.5), (-0.05, None)]
)
def test_clip(
    rewrite: Callable[..., Any], dtype: str, bounds: tuple[float | None, float | None]
) -> None:
    """Bounds between codes, on codes and on ties; zero points at the ends and odd."""
    low, high = CODES[dtype]
    held = [f"float {n} = {{{b!r}}}" for n, b in zip("lh", bounds, strict=True) if b is not None]
    names = ["" if b is None else n for n, b in zip("lh", bounds, strict=True)]
    clamp = f"Clip({', '.join(['x', *names]).rstrip(', ')})"
    for s in SCALES[:3]:
        for z in (low, low + 77, 1):
            s32 = float(np.float32(s))
            found = rewrite(_text(dtype, clamp, held, s32, z), "quant-fold")
            ends = [b for b in bounds if b is not None]
            if all(_one_code(b, s32) for b in ends):
                assert found.ops[0] == "QuantizeLinear"
            else:
                assert found.ops == ["Clip", "QuantizeLinear"]
            before, after = _function(found.before), _function(found.model)
            for x in _points(s32, z, low, high, ends):
                assert after(x) == before(x), (s, z, x)


def test_a_clip_that_the_codes_end_within_goes(rewrite: Callable[..., Any]) -> None:
    """255 * 0.0235 = 5.99: nothing above 6 has a code of its own."""
    held = ["float l = {0}", "float h = {6}"]
    found = rewrite(_text("uint8", "Clip(x, l, h)", held, 0.0235, 0), "quant-fold")
    assert found.ops == ["QuantizeLinear"]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [("uint8", np.float32), ("int8", np.float32), ("uint16", np.float32), ("int8", np.float16)],
)
def test_codes_come_back(rewrite: Callable[..., Any], dtype: str, kind: type[np.floating]) -> None:
    """DequantizeLinear, QuantizeLinear with equal parameters: each code, in the scale's type."""
    low, high = CODES[dtype]
    opset = 21 if dtype.endswith("16") else 19
    for s in [kind(v) for v in (*SCALES, *([7.3e-6] if kind is np.float16 else []))]:
        for z in (low, low + 77, high):
            found = rewrite(_pair(dtype, opset, s, z), "quant-propagate")
            assert found.ops == ["Reshape"], (s, z)
            codes = np.arange(low, high + 1)
            values = (codes - z).astype(kind) * s  # the difference is exact, then one rounding
            ratios = (values / s).astype(np.float64)
            np.testing.assert_array_equal(np.clip(np.rint(ratios) + z, low, high), codes)


def test_sixteen_bits_do_not_come_back_in_half_precision(rewrite: Callable[..., Any]) -> None:
    found = rewrite(_pair("int16", 21, np.float16(0.5), 0), "quant-propagate")
    assert found.ops == ["Reshape", "DequantizeLinear", "QuantizeLinear"]


def _pair(dtype: str, opset: int, s: np.floating, z: int) -> str:
    """A Reshape stands in front, since an input cannot become an output."""
    half = isinstance(s, np.float16)
    scale = int(s.view(np.uint16)) if half else repr(float(s))  # the text form takes bits
    constants = f"{'float16' if half else 'float'} s = {{{scale}}}, {dtype} z = {{{z}}}"
    return f"""<ir_version: 10, opset_import: ["" : {opset}]>
        g ({dtype}[1,1] x) => ({dtype}[1] y) <{constants}, int64[1] t = {{1}}>
        {{ i = Reshape(x, t)  d = DequantizeLinear(i, s, z)  y = QuantizeLinear(d, s, z) }}
    """
