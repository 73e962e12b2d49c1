"""Convolutions of bytes: exact, against sums in int64 and rational requantization."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from rewrite.plan.conv_requantize import factors
from rewrite.quant.reference import evaluate
from tests.codegen.harness import isas
from tests.plan.conv_models import attributes, convolved, model_of, run_model

ISAS = isas()

# images, channels, sizes, filters, kernel, strides, pads, dilations, groups
CASES = {
    "one deep filter": (2, 33, (7, 9), 1, (3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 1),
    "three filters": (1, 16, (7, 9), 3, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "filter bank": (1, 1, (1, 700), 1, (1, 256), (1, 2), (0, 0, 0, 0), (1, 1), 1),
    "two filters": (2, 24, (5, 9), 2, (3, 5), (1, 1), (1, 2, 1, 2), (1, 1), 1),
    "pointwise": (2, 32, (5, 7), 48, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "odd channels": (1, 18, (5, 7), 21, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "same": (1, 20, (9, 7), 33, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "first": (1, 3, (20, 22), 16, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    "one filter": (2, 5, (8, 11), 1, (2, 3), (3, 1), (0, 2, 1, 0), (1, 1), 1),
    "dilated": (1, 6, (11, 10), 7, (3, 2), (1, 2), (2, 1, 2, 3), (2, 3), 1),
    "grouped": (1, 12, (6, 5), 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    "groups of four": (1, 16, (6, 5), 40, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    "groups of two": (1, 8, (6, 5), 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    "line": (3, 4, (17,), 20, (5,), (2,), (2, 2), (1,), 1),
    "volume": (1, 3, (4, 5, 6), 9, (2, 3, 3), (1, 2, 1), (1, 0, 1, 0, 1, 1), (1, 1, 2), 1),
    "depthwise": (2, 24, (9, 8), 24, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 24),
    "depthwise strided": (1, 19, (11, 12), 19, (5, 5), (2, 1), (2, 2, 2, 2), (1, 1), 19),
    "multiplied": (1, 5, (6, 6), 15, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
    "no image": (0, 3, (5, 5), 4, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
}  # fmt: skip


def codes(rng, shape, dtype):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def data(name, x_type, w_type):
    n, c, sizes, m, kernel, strides, pads, dilations, group = CASES[name]
    rng = np.random.default_rng(1)
    x = codes(rng, (n, c, *sizes), x_type)
    w = codes(rng, (m, c // group, *kernel), w_type)
    return rng, x, w, (strides, pads, dilations, group)


def sums(x, w, zx, zw, how):
    wide = w.astype(np.int64) - np.asarray(zw, np.int64).reshape(-1, *[1] * (w.ndim - 1))
    return convolved(x.astype(np.int64) - int(zx), wide, *how)


def integers(x, w, zx, zw, how, known, isa=None):
    more = {"zx": zx, "zw": zw} if zw is not None else {"zx": zx} if zx is not None else {}
    node = helper.make_node("ConvInteger", ["x", "w", *more], ["y"], **attributes(*how))
    given = {"w": w, **more}
    feeds = {"x": x, **{k: v for k, v in given.items() if k not in known}}
    constant = {k: v for k, v in given.items() if k in known}
    (y,) = run_model(model_of([node], feeds, constant), feeds, isa)
    return y


TYPES = {"u8s8": (np.uint8, np.int8), "s8s8": (np.int8, np.int8), "u8u8": (np.uint8, np.uint8)}
# Narrow machines: one case of each kernel.
SOME = ("odd channels", "same", "grouped", "groups of four", "depthwise strided", "two filters")
EVERYWHERE = [(name, ISAS[0]) for name in CASES] + [(n, isa) for isa in ISAS[1:] for n in SOME]


def each(pairs):
    return pytest.mark.parametrize(
        ("name", "isa"), pairs, ids=[f"{n}-{isa.vector_bytes}" for n, isa in pairs]
    )


@each(EVERYWHERE)
@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_full_range(name: str, types, isa) -> None:
    """Extreme codes, zero points of both operands."""
    rng, x, w, how = data(name, *types)
    if x.size:
        x.flat[: x.size // 2] = np.iinfo(types[0]).max
    w.flat[: w.size // 2] = np.iinfo(types[1]).max
    zx, zw = types[0](rng.integers(1, 100)), codes(rng, w.shape[0], types[1])
    y = integers(x, w, np.asarray(zx), zw, how, ("w", "zx", "zw"), isa)
    assert np.array_equal(y, sums(x, w, zx, zw, how))


@each(EVERYWHERE)
@pytest.mark.parametrize(("x_type", "most"), [(np.uint8, 127), (np.uint8, 60), (np.int8, 127)])
def test_symmetric_weights(name: str, most: int, x_type, isa) -> None:
    """Bytes by bytes: with weights that could saturate 16 bits, and with weights that cannot."""
    rng, x, w, how = data(name, x_type, np.int8)
    w = np.clip(w, -most, most)
    zx = x_type(rng.integers(1, 100))
    y = integers(x, w, np.asarray(zx), None, how, ("w", "zx"), isa)
    assert np.array_equal(y, sums(x, w, zx, 0, how))


@pytest.mark.parametrize("known", [(), ("w",), ("w", "zw"), ("zx", "zw")])
@pytest.mark.parametrize("name", ["same", "first", "grouped", "depthwise", "pointwise"])
def test_operands_that_come_with_the_run(name: str, known) -> None:
    rng, x, w, how = data(name, np.uint8, np.uint8)
    zx = np.array(rng.integers(1, 255), np.uint8)
    for zw in (codes(rng, w.shape[0], np.uint8), np.array(131, np.uint8)):
        y = integers(x, w, zx, zw, how, known)
        assert np.array_equal(y, sums(x, w, zx, zw, how))


def test_without_zero_points() -> None:
    _, x, w, how = data("same", np.uint8, np.int8)
    y = integers(x, w, None, None, how, ("w",))
    assert np.array_equal(y, sums(x, w, 0, 0, how))


def quantized(name, x_type, w_type, y_type, per_channel, dyadic=False):
    rng, x, w, how = data(name, x_type, w_type)
    m = w.shape[0]
    count = m if per_channel else ()
    if dyadic:
        w_scale = 2.0 ** rng.integers(-9, -6, count)
    else:
        w_scale = rng.uniform(0.001, 0.01, count)
    zw = np.zeros(count, w_type) if w_type == np.int8 else codes(rng, count, w_type)
    spread = np.sqrt(w[0].size) * 5000 * float(np.mean(w_scale)) * 0.02 / 60
    parameters = {
        "xs": np.float32(0.02), "xz": codes(rng, (), x_type), "w": w,
        "ws": np.asarray(w_scale, np.float32), "wz": np.asarray(zw),
        "ys": np.float32(2.0 ** np.round(np.log2(spread)) if dyadic else spread),
        "yz": codes(rng, (), y_type), "b": rng.integers(-5000, 5000, m).astype(np.int32),
    }  # fmt: skip
    if dyadic:
        parameters["xs"] = np.float32(2.0**-5)
    return x, {k: np.asarray(v) for k, v in parameters.items()}, how


def check_quantized(x, parameters, how, known, isa=None, domain="", **more):
    attrs = {**attributes(*how), **more}
    node = helper.make_node("QLinearConv", ["x", *parameters], ["y"], domain=domain, **attrs)
    feeds = {"x": x} if known else {"x": x, **parameters}
    (y,) = run_model(model_of([node], feeds, parameters if known else {}), feeds, isa)
    exact = evaluate(domain, "QLinearConv", [x, *parameters.values()], attrs)
    assert exact is not None
    assert y.dtype == exact[0].dtype
    assert np.array_equal(y, exact[0])


@each([pair for pair in EVERYWHERE if pair[0] != "no image"])
@pytest.mark.parametrize("dyadic", [False, True])
def test_quantized(name: str, dyadic: bool, isa) -> None:
    """Rounded once; scales that are powers of two make many exact halves."""
    for x_type, w_type, y_type, per_channel in (
        (np.uint8, np.int8, np.uint8, True),
        (np.int8, np.uint8, np.int8, False),
    ):
        x, parameters, how = quantized(name, x_type, w_type, y_type, per_channel, dyadic)
        check_quantized(x, parameters, how, True, isa)


@pytest.mark.parametrize("name", ["same", "depthwise", "grouped"])
def test_quantized_with_everything_at_run_time(name: str) -> None:
    x, parameters, how = quantized(name, np.uint8, np.uint8, np.uint8, True)
    check_quantized(x, parameters, how, False)


def test_quantized_channels_last() -> None:
    x, parameters, how = quantized("same", np.uint8, np.int8, np.uint8, True)
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    check_quantized(x, parameters, how, True, None, "com.microsoft", channels_last=1)


def test_factors_are_exact_at_every_half() -> None:
    """Ratios that are no binary fractions, where many sums give exact halves."""
    from fractions import Fraction

    for x_s, w_s, y_s in ((0.5, 0.25, 0.75), (0.1, 0.3, 0.015), (1.0, 3.0, 7.0)):
        w = np.array([w_s], np.float32)
        (ratio,) = factors(float(np.float32(x_s)), w, float(np.float32(y_s)), -128, 127).ratio
        exact = Fraction(float(np.float32(x_s))) * Fraction(float(w[0]))
        exact /= Fraction(float(np.float32(y_s)))
        sums = np.arange(-3000, 3000)
        codes = np.clip(np.rint(sums * ratio), -128, 127)
        wanted = [min(127, max(-128, round(Fraction(int(a)) * exact))) for a in sums]
        assert codes.tolist() == wanted


@pytest.mark.parametrize("name", ["same", "depthwise", "two filters"])
def test_quantized_with_a_ratio_above_one(name: str) -> None:
    """Nearly all codes saturate; sums times the ratio leave 32 bits."""
    x, parameters, how = quantized(name, np.uint8, np.int8, np.int8, True)
    parameters["ws"] = parameters["ws"] * np.float32(1e6)
    parameters["w"] = (parameters["w"] // 40).astype(np.int8)
    check_quantized(x, parameters, how, True)


@pytest.mark.parametrize("name", ["same", "depthwise"])
def test_quantized_with_an_epilogue(name: str) -> None:
    """A pointwise operator behind the codes."""
    x, parameters, how = quantized(name, np.uint8, np.int8, np.uint8, True)
    nodes = [
        helper.make_node("QLinearConv", ["x", *parameters], ["c"], **attributes(*how)),
        helper.make_node("DequantizeLinear", ["c", "ys", "yz"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    (y,) = run_model(model_of(nodes, {"x": x}, parameters), {"x": x})
    exact = evaluate("", "QLinearConv", [x, *parameters.values()], attributes(*how))
    assert exact is not None
    steps = exact[0].astype(np.float32) - parameters["yz"].astype(np.float32)
    assert np.array_equal(y, np.maximum(steps * parameters["ys"], 0))
