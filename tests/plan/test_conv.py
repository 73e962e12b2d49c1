"""Convolutions of floats: kernels against sums in float64."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16
from onnx import helper

from rewrite.graph import io
from rewrite.runtime.session import Options, Session
from tests.codegen.harness import isas
from tests.plan.conv_models import attributes, convolved, model_of, run_model

ISAS = isas()
EPS = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53,
       np.dtype(np.float16): 2.0**-11, np.dtype(bfloat16): 2.0**-8}  # fmt: skip

# images, channels, sizes, filters, kernel, strides, pads, dilations, groups
CASES = {
    "one deep filter": (2, 33, (7, 9), 1, (3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 1),
    "three filters": (1, 16, (7, 9), 3, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "filter bank": (1, 1, (1, 700), 1, (1, 256), (1, 2), (0, 0, 0, 0), (1, 1), 1),
    "two filters": (2, 24, (5, 9), 2, (3, 5), (1, 1), (1, 2, 1, 2), (1, 1), 1),
    "pointwise": (1, 32, (5, 7), 48, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "same": (2, 17, (9, 7), 33, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "winograd": (2, 19, (13, 12), 37, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "winograd uneven": (1, 32, (15, 11), 64, (3, 3), (1, 1), (0, 1, 2, 0), (1, 1), 1),
    "winograd row": (1, 16, (1, 60), 16, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "first": (1, 3, (20, 22), 16, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    "uneven": (2, 5, (8, 11), 1, (2, 3), (3, 1), (0, 2, 1, 0), (1, 1), 1),
    "dilated": (1, 6, (11, 10), 7, (3, 2), (1, 2), (2, 1, 2, 3), (2, 3), 1),
    "grouped": (1, 12, (6, 5), 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    "groups of four": (2, 24, (9, 8), 24, (3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 6),
    "groups of eight": (1, 40, (7, 8), 40, (3, 3), (1, 1), (1, 1, 1, 1), (2, 2), 5),
    "groups of two": (1, 38, (7, 8), 38, (5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 19),
    "wide groups": (1, 8, (4, 4), 80, (1, 2), (1, 1), (0, 0, 0, 0), (1, 1), 2),
    "big border": (1, 3, (2, 2), 4, (3, 3), (1, 1), (5, 4, 6, 7), (1, 1), 1),
    "line": (3, 4, (17,), 20, (5,), (2,), (2, 2), (1,), 1),
    "volume": (1, 3, (4, 5, 6), 9, (2, 3, 3), (1, 2, 1), (1, 0, 1, 0, 1, 1), (1, 1, 2), 1),
    "one pixel": (1, 40, (1, 1), 24, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    "no image": (0, 3, (5, 5), 4, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    "strided": (1, 16, (9, 9), 16, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    "one channel": (1, 1, (6, 40), 36, (1, 16), (1, 5), (0, 0, 0, 0), (1, 1), 1),
    "depthwise": (2, 24, (9, 8), 24, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 24),
    "depthwise strided": (1, 19, (11, 12), 19, (5, 5), (2, 1), (2, 2, 2, 2), (1, 1), 19),
    "multiplied": (1, 5, (6, 6), 15, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
    "depthwise dilated": (1, 35, (10, 9), 35, (3, 3), (1, 2), (2, 3, 2, 3), (2, 3), 35),
    "depthwise long": (1, 40, (50,), 40, (31,), (1,), (15, 15), (1,), 40),
    "depthwise line": (1, 8, (30,), 8, (4,), (1,), (3, 0), (1,), 8),
    "depthwise volume": (1, 4, (4, 5, 5), 4, (2, 3, 3), (1, 1, 1), (0, 1, 1, 1, 1, 1),
                         (1, 1, 1), 4),
}  # fmt: skip


def data(name: str, dtype: object = np.float32, bias: bool = True):
    n, c, sizes, m, kernel, strides, pads, dilations, group = CASES[name]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, c, *sizes)).astype(dtype)
    w = rng.standard_normal((m, c // group, *kernel)).astype(dtype)
    b = rng.standard_normal(m).astype(dtype) if bias else None
    return x, w, b, (strides, pads, dilations, group)


def close(y, x, w, b, how) -> None:
    """Within the error of a sum in any order: K eps times the sum of magnitudes."""
    exact = convolved(x, w, *how)
    size = convolved(np.abs(x), np.abs(w), *how)
    if b is not None:
        along = b.astype(np.float64).reshape(-1, *[1] * (x.ndim - 2))
        exact, size = exact + along, size + np.abs(along)
    assert y.shape == exact.shape
    sums = min(EPS[y.dtype], EPS[np.dtype(np.float32)])
    bound = size * sums * (w[0].size + 2) + np.abs(exact) * EPS[y.dtype] * 1.01 + 1e-30
    assert np.all(np.abs(y.astype(np.float64) - exact) <= bound)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("name", CASES)
def test_known_weights(name: str, isa) -> None:
    x, w, b, how = data(name)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes(*how))
    (y,) = run_model(model_of([node], {"x": x}, {"w": w, "b": b}), {"x": x}, isa)
    close(y, x, w, b, how)


@pytest.mark.parametrize("name", CASES)
def test_weights_that_come_with_the_run(name: str) -> None:
    x, w, b, how = data(name)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes(*how))
    feeds = {"x": x, "w": w, "b": b}
    (y,) = run_model(model_of([node], feeds, {}), feeds)
    close(y, x, w, b, how)


def test_which_algorithm() -> None:
    """Winograd's where it is worth it, by the kinds of kernels in the plan."""
    for name, kind in (("winograd", "Winograd"), ("pointwise", "Conv"),
                       ("depthwise", "Depthwise"), ("one deep filter", "ConvDot")):  # fmt: skip
        x, w, b, how = data(name)
        node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes(*how))
        model = model_of([node], {"x": x}, {"w": w, "b": b})
        with Session(io.load(model), Options(strict=True)) as session:
            session.run({"x": x})
            kinds = [type(call.spec).__name__ for plan in session.plan for call in plan.calls]
        assert kind in kinds


@pytest.mark.parametrize("dtype", [np.float64, np.float16, bfloat16], ids=["f64", "f16", "bf16"])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", ["same", "first", "grouped", "depthwise", "pointwise"])
def test_other_floats(name: str, known: bool, dtype) -> None:
    x, w, b, how = data(name, dtype, bias=name != "same")
    given = {"w": w} if b is None else {"w": w, "b": b}
    node = helper.make_node("Conv", ["x", *given], ["y"], **attributes(*how))
    feeds = {"x": x} if known else {"x": x, **given}
    (y,) = run_model(model_of([node], feeds, given if known else {}), feeds)
    close(y, x, w, b, how)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_border(auto: str) -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 4, 7, 10)).astype(np.float32)
    w = rng.standard_normal((6, 4, 3, 4)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=auto, strides=[2, 3])
    (y,) = run_model(model_of([node], {"x": x}, {"w": w}), {"x": x})
    pads = {"VALID": (0, 0, 0, 0), "SAME_UPPER": (1, 1, 1, 2), "SAME_LOWER": (1, 2, 1, 1)}[auto]
    close(y, x, w, None, ((2, 3), pads, (1, 1), 1))


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("channels", [32, 21, 3])
@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("height", [6, 18])
def test_epilogue(channels: int, group: bool, height: int, isa) -> None:
    """Residual, scale per channel, one per image, one number per row of pixels, Clip, Sigmoid.

    Of 18 rows and many channels by Winograd's algorithm."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((2, channels, height, 5)).astype(np.float32)
    w = rng.standard_normal((channels, 1 if group else channels, 3, 3)).astype(np.float32)
    more = {
        "residual": rng.standard_normal((2, channels, height, 5)).astype(np.float32),
        "channel": rng.standard_normal((channels, 1, 1)).astype(np.float32),
        "image": rng.standard_normal((2, channels, 1, 1)).astype(np.float32),
        "row": rng.standard_normal((height, 1)).astype(np.float32),
    }
    groups = channels if group else 1
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], group=groups),
        helper.make_node("Add", ["a", "residual"], ["b"]),
        helper.make_node("Mul", ["b", "channel"], ["c"]),
        helper.make_node("Mul", ["image", "c"], ["d"]),
        helper.make_node("Sub", ["row", "d"], ["e"]),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("Sigmoid", ["f"], ["g"]),
        helper.make_node("Neg", ["g"], ["h"]),
        helper.make_node("Mul", ["h", "h"], ["y"]),
    ]
    feeds = {"x": x, **more}
    (y,) = run_model(model_of(nodes, feeds, {"w": w}), feeds, isa)
    exact = convolved(x, w, (1, 1), (1, 1, 1, 1), (1, 1), groups) + more["residual"]
    exact = np.maximum(more["row"] - exact * more["channel"] * more["image"], 0)
    exact = (1 / (1 + np.exp(-exact))) ** 2
    assert np.allclose(y, exact, rtol=2e-5, atol=2e-5)


def test_short_epilogue_in_registers() -> None:
    """Relu behind a residual: NaN and infinity as in numpy."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 32, 4, 7)).astype(np.float32)
    x[0, :, 0, 0], x[0, :, 1, 1], x[0, :, 2, 2] = np.nan, np.inf, -np.inf
    w = np.abs(rng.standard_normal((64, 32, 1, 1))).astype(np.float32)
    r = rng.standard_normal((1, 64, 4, 7)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "r"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    feeds = {"x": x, "r": r}
    (y,) = run_model(model_of(nodes, feeds, {"w": w}), feeds)
    with np.errstate(invalid="ignore"):
        exact = np.maximum(np.einsum("mc,nchw->nmhw", w[:, :, 0, 0], x.astype(np.float64)) + r, 0)
    assert np.allclose(y, exact, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", ["same", "winograd", "depthwise", "one deep filter", "first"])
def test_threads(name: str, threads: int) -> None:
    x, w, b, how = data(name)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes(*how))
    (y,) = run_model(model_of([node], {"x": x}, {"w": w, "b": b}), {"x": x}, threads=threads)
    close(y, x, w, b, how)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("name", "channels", "weights", "filters"),
    [
        ("Conv", 3, (0, 3, 2, 2), 0),
        ("Conv", 0, (2, 0, 2, 2), 2),
        ("ConvTranspose", 3, (3, 0, 1, 1), 0),
        ("ConvTranspose", 0, (0, 2, 1, 1), 2),
    ],
)
def test_weights_without_elements(name, channels, weights, filters, known) -> None:
    """Sums of nothing: the bias at each place."""
    x, w = np.ones((2, channels, 4, 3), np.float32), np.ones(weights, np.float32)
    b = np.arange(filters, dtype=np.float32) + 5
    feeds = {"x": x} if known else {"x": x, "w": w, "b": b}
    node = helper.make_node(name, ["x", "w", "b"], ["y"])
    model = model_of([node], feeds, {"w": w, "b": b} if known else {})
    with Session(io.load(model), Options()) as session:
        y = session.run(feeds)["y"]
    sizes = (3, 2) if name == "Conv" else (4, 3)
    assert np.array_equal(y, np.broadcast_to(b[:, None, None], (2, filters, *sizes)))
