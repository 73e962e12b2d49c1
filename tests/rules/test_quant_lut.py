"""Tables between codes: every code, against rational arithmetic.

A chain is written down twice: as ONNX text, and as a Python function of a rational number. What the
rewritten model gives for every code (onnxruntime looks it up) has to be the code of that number:
(c - z) s exactly, algebraic steps exactly, others in float64, then rounded half to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import parser

from rewrite import resources
from rewrite.engine import driver
from rewrite.engine.ledger import Bound, Ledger
from rewrite.engine.limits import Options
from rewrite.graph import io
from rewrite.lang.pack import load_pack
from rewrite.match import matcher as matching
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

RANGES = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
ZERO, THREE, SIX = Fraction(0), Fraction(3), Fraction(6)
Function = Callable[[Fraction], Fraction]


@dataclass(frozen=True)
class Codes:
    """An element type, a scale and a zero point."""

    dtype: str
    scale: float
    zero: int

    @property
    def step(self) -> Fraction:
        return Fraction(float(np.float32(self.scale)))

    def real(self, code: int) -> Fraction:
        return (code - self.zero) * self.step

    def code(self, real: Fraction) -> int:
        low, high = RANGES[self.dtype]
        return min(max(round(real / self.step) + self.zero, low), high)  # `round` goes to even

    def through(self, real: Fraction) -> Fraction:
        """QuantizeLinear, then DequantizeLinear."""
        return self.real(self.code(real))

    def held(self, name: str) -> str:
        return f"float s{name} = {{{float(self.step)!r}}}, {self.dtype} z{name} = {{{self.zero}}}"


def _all(dtype: str) -> np.ndarray:
    low, high = RANGES[dtype]
    return np.arange(low, high + 1).astype(dtype)


def _check(found: Any, x: Codes, y: Codes, function: Function) -> None:
    """One lookup, and its codes are those of the function."""
    codes = _all(x.dtype)
    assert [op for op in found.ops if op != "Reshape"] == ["QLookup"]
    (got,) = found.run(x=codes.reshape(1, -1))
    assert got.dtype == np.dtype(y.dtype)
    expected = [y.code(function(x.real(int(code)))) for code in codes]
    np.testing.assert_array_equal(got.reshape(-1), expected)


def _text(x: Codes, y: Codes, body: str, held: str = "", domain: str = "") -> str:
    """A Reshape stands in front, since an input cannot become an output."""
    n = len(_all(x.dtype))
    opset = 21 if "16" in x.dtype + y.dtype and not domain else 18
    constants = ", ".join(
        [x.held("x"), y.held("y"), f"int64[1] n = {{{n}}}", *filter(None, [held])]
    )
    imports = f'"" : {opset}' + (', "com.microsoft" : 1' if domain else "")
    return f"""<ir_version: 10, opset_import: [{imports}]>
        g ({x.dtype}[1,{n}] x) => ({y.dtype}[{n}] y) <{constants}>
        {{ i = Reshape(x, n)  d = {domain}DequantizeLinear(i, sx, zx)  {body}
           y = {domain}QuantizeLinear(f, sy, zy) }}
    """


def _float64(function: Callable[[float], float]) -> Function:
    return lambda x: Fraction(function(float(x)))


SIGMOID = _float64(lambda v: 1 / (1 + math.exp(-v)) if v >= 0 else math.exp(v) / (1 + math.exp(v)))
CHAINS: dict[str, tuple[str, str, Function]] = {
    "requantized": ("f = Identity(d)", "", lambda x: x),
    "relu": ("f = Relu(d)", "", lambda x: max(x, ZERO)),
    "six": ("f = Clip(d, o, h)", "float o = {0}, float h = {6}", lambda x: min(max(x, ZERO), SIX)),
    "square": ("f = Mul(d, d)", "", lambda x: x * x),
    "sigmoid": ("f = Sigmoid(d)", "", SIGMOID),
    "swish": (
        "s = Sigmoid(d)  f = Mul(d, s)",
        "",
        lambda x: Fraction(float(x) * float(SIGMOID(x))),
    ),
    "exp": ("f = Exp(d)", "", _float64(math.exp)),
    "gelu": (
        "a = Div(d, r)  b = Erf(a)  e = Add(b, o)  m = Mul(d, e)  f = Mul(m, h)",
        "float r = {1.41421354}, float o = {1}, float h = {0.5}",
        _float64(lambda v: v * (math.erf(v / float(np.float32(1.41421354))) + 1) * 0.5),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("source", ["uint8", "int8"])
def test_chain(rewrite: Callable[..., Any], name: str, source: str) -> None:
    """Zero points odd and at an end; scales that make ties (0.5 and 1) and others."""
    body, held, function = CHAINS[name]
    low, high = RANGES[source]
    for target in ("uint8", "int8"):
        for scale, out in ((0.5, 1.0), (0.047, 0.0213)):
            y = Codes(target, out, RANGES[target][0] + 77)
            for zero in (low, low + 131, high):
                x = Codes(source, scale, zero)
                if name == "requantized" and (source, scale, zero) == (target, out, y.zero):
                    continue
                found = rewrite(_text(x, y, body, held), "quant-lut")
                _check(found, x, y, function)


def test_ties_go_to_even_before_an_odd_zero_point(rewrite: Callable[..., Any]) -> None:
    """(c - 0) 0.5 / 1: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2, and 1 is added after that."""
    x, y = Codes("uint8", 0.5, 0), Codes("uint8", 1.0, 1)
    found = rewrite(_text(x, y, "f = Identity(d)"), "quant-lut")
    (got,) = found.run(x=_all("uint8").reshape(1, -1))
    np.testing.assert_array_equal(got[:7], [1, 1, 2, 3, 3, 3, 4])


def test_ties_that_float64_loses(rewrite: Callable[..., Any]) -> None:
    """c s k / k / (2 s) = c / 2, whatever float64 makes of the product and the quotient."""
    for k in ("0.3", "0.7", "1.1", "0.013"):
        x, y = Codes("uint8", 0.1, 0), Codes("uint8", 0.2, 1)
        chain = "a = Mul(d, k)  f = Div(a, k)"
        found = rewrite(_text(x, y, chain, f"float k = {{{k}}}"), "quant-lut")
        _check(found, x, y, lambda real: real)


def test_sums_that_cancel(rewrite: Callable[..., Any]) -> None:
    """(x + 1e6) - 1e6: nothing is lost in real numbers."""
    x, y = Codes("uint8", 0.1, 3), Codes("uint8", 0.2, 1)
    chain = "a = Add(d, k)  f = Sub(a, k)"
    _check(rewrite(_text(x, y, chain, "float k = {1e6}"), "quant-lut"), x, y, lambda real: real)


SLOPES = [0.11, 0.37, 0.5]


@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("source", ["uint8", "int8"])
def test_a_table_for_each_channel(rewrite: Callable[..., Any], place: int, source: str) -> None:
    """Scale, slope and offset of a channel of its own, along the second or the last axis."""
    low = RANGES[source][0]
    xs = [Codes(source, s, low + z) for s, z in ((0.047, 7), (0.5, 130), (0.02, 255))]
    y = Codes("int8", 0.031, -5)
    shape, wide = ((1, 3, 256), "3,1") if place == 1 else ((1, 256, 3), "3")
    sizes = ",".join(map(str, shape))
    held = ", ".join(
        [
            f"float[3] s = {{{','.join(repr(float(v.step)) for v in xs)}}}",
            f"{source}[3] z = {{{','.join(str(v.zero) for v in xs)}}}",
            f"float[{wide}] k = {{{','.join(map(str, SLOPES))}}}",
            y.held("y"),
            f"int64[3] n = {{{sizes}}}",
        ]
    )
    found = rewrite(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g ({source}[3,256] x) => (int8[{sizes}] y) <{held}>
        {{ i = Reshape(x, n)  d = DequantizeLinear <axis = {place}> (i, s, z)  f = PRelu(d, k)
           y = QuantizeLinear(f, sy, zy) }}""",
        "quant-lut",
    )
    assert found.ops == ["Reshape", "QLookup"]
    codes = np.broadcast_to(_all(source), (3, 256))
    given = codes if place == 1 else np.ascontiguousarray(codes.T).reshape(3, 256)
    (got,) = found.run(x=given)
    expected = np.array(
        [
            [y.code(v if (v := c.real(int(code))) >= 0 else v * Fraction(float(np.float32(k))))
             for code in _all(source)]
            for c, k in zip(xs, SLOPES, strict=True)
        ]
    )  # fmt: skip
    np.testing.assert_array_equal(got[0] if place == 1 else got[0].T, expected)


def test_a_normalization_after_codes(rewrite: Callable[..., Any]) -> None:
    """BatchNormalization with quantized scales is a table for each channel."""
    x, y = Codes("uint8", 0.047, 120), Codes("uint8", 0.0613, 90)
    k, b, m, v = [77, 3, 200], [0.1, -0.2, 0.3], [0.3, 0.2, 0.1], [1.0, 2.0, 3.0]
    found = rewrite(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (uint8[3,256] x) => (uint8[1,3,256] y)
        <{x.held("x")}, {y.held("y")}, uint8[3] k = {{77,3,200}}, float r = {{0.013}},
         float[3] b = {{0.1,-0.2,0.3}}, float[3] m = {{0.3,0.2,0.1}}, float[3] v = {{1,2,3}},
         int64[3] n = {{1,3,256}}>
        {{ i = Reshape(x, n)  d = DequantizeLinear(i, sx, zx)  e = DequantizeLinear(k, r)
           f = BatchNormalization(d, e, b, m, v)  y = QuantizeLinear(f, sy, zy) }}""",
        "quant-lut",
    )
    (got,) = found.run(x=np.broadcast_to(_all("uint8"), (3, 256)))
    scale = float(np.float32(0.013))
    for channel in range(3):
        mean, bias = float(np.float32(m[channel])), float(np.float32(b[channel]))
        factor = k[channel] * scale / math.sqrt(v[channel] + float(np.float32(1e-5)))
        expected = [
            y.code(Fraction((float(x.real(int(c))) - mean) * factor + bias)) for c in _all("uint8")
        ]
        np.testing.assert_array_equal(got[0, channel], expected)


def test_saturation(rewrite: Callable[..., Any]) -> None:
    """Quotients beyond int32 and infinities."""
    x, y = Codes("int8", 30.0, 0), Codes("int8", 1e-30, -1)
    found = rewrite(_text(x, y, "f = Exp(d)"), "quant-lut")
    (got,) = found.run(x=_all("int8").reshape(1, -1))
    # exp(-30 n) < 1e-30 / 2 from n = 3 on (e^-69.8); e^3810 is infinite in every float type.
    codes = _all("int8").astype(int)
    np.testing.assert_array_equal(got, np.where(codes <= -3, -1, 127))


def test_hard_swish_with_codes_between_all_steps(rewrite: Callable[..., Any]) -> None:
    """x is used twice; four pairs lie inside: one table."""
    x, y = Codes("uint8", 0.061, 131), Codes("uint8", 0.0307, 3)
    a, c, m = Codes("uint8", 0.0753, 92), Codes("uint8", 0.0237, 0), Codes("uint8", 0.173, 3)
    body = """a = Add(d, t)  aq = QuantizeLinear(a, sa, za)  ad = DequantizeLinear(aq, sa, za)
        c = Clip(ad, o, h)  cq = QuantizeLinear(c, sc, zc)  cd = DequantizeLinear(cq, sc, zc)
        m = Mul(d, cd)  mq = QuantizeLinear(m, sm, zm)  md = DequantizeLinear(mq, sm, zm)
        f = Div(md, h)"""
    held = ", ".join(
        [a.held("a"), c.held("c"), m.held("m"), "float t = {3}, float h = {6}, float o = {0}"]
    )

    def function(real: Fraction) -> Fraction:
        clipped = min(max(a.through(real + THREE), ZERO), SIX)
        return m.through(real * c.through(clipped)) / SIX

    found = rewrite(_text(x, y, body, held), "quant-lut")
    _check(found, x, y, function)


@pytest.mark.parametrize("source", ["uint16", "int16"])
@pytest.mark.parametrize("domain", ["", "com.microsoft."])
def test_sixteen_bits(rewrite: Callable[..., Any], source: str, domain: str) -> None:
    """65,536 entries, and 16-bit results."""
    x = Codes(source, 0.00037, RANGES[source][0] + 30001)
    y = Codes("uint16", 1.6e-5, 77)
    found = rewrite(_text(x, y, "f = Sigmoid(d)", domain=domain), "quant-lut")
    _check(found, x, y, SIGMOID)


@pytest.mark.parametrize("source", ["uint16", "int16"])
@pytest.mark.parametrize("target", ["uint16", "int16", "uint8"])
def test_lines_between_entries(run: Callable[..., Any], source: str, target: str) -> None:
    """512 lines: the steps that the ledger names are those measured over all codes."""
    x = Codes(source, 0.0002, RANGES[source][0] + 30001)
    y = Codes(target, 1 / RANGES[target][1], RANGES[target][0] + 7)
    loaded = io.load(parser.parse_model(_text(x, y, "f = Sigmoid(d)")))
    cortex = load_target("cortex-m", vocabulary())
    rules = resources.folder("rules")
    matcher = matching.build(load_pack(rules / "quant-lut", vocabulary(), [rules]), cortex)
    journal = driver.run(loaded, matcher, cortex, options=Options())
    after = io.to_proto(loaded)
    assert [r.rule for r in journal.applied] == ["lookup_by_lines"]
    (got,) = run(after, {"x": _all(source).reshape(1, -1)})
    expected = [y.code(SIGMOID(x.real(int(code)))) for code in _all(source)]
    worst = int(np.abs(got.astype(int) - expected).max())
    assert Ledger.of(journal).total == Bound("lsb", worst)
    assert worst <= (1 if target == "uint8" else 4)


def test_the_smaller_table_is_taken(rewrite: Callable[..., Any]) -> None:
    """16-bit codes, made 8-bit codes, then a function: the table is over the 8-bit codes."""
    x, y, m = Codes("uint16", 0.00037, 301), Codes("uint8", 0.0039, 0), Codes("uint8", 0.11, 7)
    body = "q = QuantizeLinear(d, sm, zm)  e = DequantizeLinear(q, sm, zm)  f = Sigmoid(e)"
    found = rewrite(_text(x, y, body, m.held("m")), "quant-lut")
    assert found.ops == ["Reshape", "DequantizeLinear", "QuantizeLinear", "QLookup"]
    (got,) = found.run(x=_all("uint16").reshape(1, -1))
    step = [y.code(SIGMOID(m.real(code))) for code in range(256)]
    expected = [step[m.code(x.real(int(code)))] for code in _all("uint16")]
    # onnxruntime quantizes in float32: codes beside a tie may be one off before the table.
    assert np.mean(got != expected) < 1e-3


def test_bad_parameters_are_left_alone(rewrite: Callable[..., Any]) -> None:
    good = {"s": "0.05", "t": "0.0039"}
    for name, bad in (
        ("s", "0"),
        ("s", "-0.05"),
        ("t", "0"),
        ("t", "-0.0039"),
        ("s", "1e-40"),
        ("t", "1e-40"),
    ):
        v = {**good, name: bad}
        found = rewrite(
            f"""g (uint8[4] x) => (uint8[4] y)
            <float s = {{{v["s"]}}}, uint8 z = {{120}}, float t = {{{v["t"]}}}, uint8 w = {{0}}>
            {{ d = DequantizeLinear(x, s, z)  f = Sigmoid(d)  y = QuantizeLinear(f, t, w) }}""",
            "quant-lut",
        )
        assert found.ops == ["DequantizeLinear", "Sigmoid", "QuantizeLinear"], (name, bad)


def test_a_long_residual_stream_is_looked_at_once(rewrite: Callable[..., Any]) -> None:
    """Sums of two tensors of codes are no tables, however long the chain of them."""
    steps, last = [], "x"
    for i in range(60):
        steps.append(
            f"a{i} = DequantizeLinear({last}, s, z)  b{i} = DequantizeLinear(w, s, z)"
            f"  c{i} = Add(a{i}, b{i})  q{i} = QuantizeLinear(c{i}, s, z)"
        )
        last = f"q{i}"
    found = rewrite(
        f"""g (uint8[4] x, uint8[4] w) => (uint8[4] {last})
        <float s = {{0.05}}, uint8 z = {{120}}> {{ {" ".join(steps)} }}""",
        "quant-lut",
    )
    assert "QLookup" not in found.ops
