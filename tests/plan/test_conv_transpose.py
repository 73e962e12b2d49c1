"""Transposed convolutions: against sums in float64, element by element."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from ml_dtypes import bfloat16
from onnx import helper

from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()


def transposed(x, w, strides, pads, dilations, group, extra):
    """Every element of x spreads the kernel."""
    rank = x.ndim - 2
    x, w = x.astype(np.float64), w.astype(np.float64)
    c, m = x.shape[1] // group, w.shape[1]
    full = [
        (x.shape[2 + i] - 1) * strides[i] + (w.shape[2 + i] - 1) * dilations[i] + 1 + extra[i]
        for i in range(rank)
    ]
    y = np.zeros((x.shape[0], group * m, *full))
    for g in range(group):
        for at in np.ndindex(*w.shape[2:]):
            cut = tuple(
                slice(at[i] * dilations[i],
                      at[i] * dilations[i] + (x.shape[2 + i] - 1) * strides[i] + 1, strides[i])
                for i in range(rank)
            )  # fmt: skip
            part = w[(slice(g * c, (g + 1) * c), slice(None), *at)]
            here = np.einsum("cm,nc...->nm...", part, x[:, g * c : (g + 1) * c])
            y[(slice(None), slice(g * m, (g + 1) * m), *cut)] += here
    crop = tuple(slice(pads[i], full[i] - pads[i + rank]) for i in range(rank))
    return y[(slice(None), slice(None), *crop)]


# images, channels, sizes, filters of a group, kernel, strides, pads, dilations, groups, extra
CASES = {
    "doubling": (1, 24, (5, 6), 24, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, (0, 0)),
    "one filter": (2, 7, (5, 6), 1, (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, (0, 0)),
    "overlapping": (1, 5, (4, 7), 33, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1, (1, 1)),
    "stride 1": (1, 8, (6, 5), 17, (3, 2), (1, 1), (1, 0, 0, 1), (1, 1), 1, (0, 0)),
    "gaps": (1, 3, (4, 3), 4, (2, 1), (3, 2), (0, 0, 0, 0), (1, 1), 1, (0, 1)),
    "dilated": (1, 4, (5, 4), 6, (3, 2), (2, 3), (2, 1, 0, 1), (2, 2), 1, (1, 0)),
    "grouped": (2, 6, (4, 4), 5, (3, 3), (2, 1), (1, 1, 1, 1), (1, 1), 3, (0, 0)),
    "depthwise": (1, 9, (4, 5), 1, (4, 4), (2, 2), (1, 1, 1, 1), (1, 1), 9, (0, 0)),
    "line": (1, 4, (9,), 3, (5,), (4,), (1, 2), (1,), 1, (0,)),
    "volume": (1, 3, (2, 3, 4), 4, (2, 3, 2), (2, 1, 2), (0, 1, 0, 1, 0, 1), (1, 1, 1), 1,
               (0, 0, 0)),
    "big border": (1, 2, (5, 5), 3, (4, 4), (1, 1), (5, 2, 1, 3), (1, 1), 1, (0, 0)),
}  # fmt: skip


def data(name, dtype=np.float32):
    n, c, sizes, m, kernel, strides, pads, dilations, group, extra = CASES[name]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, c, *sizes)).astype(dtype)
    w = rng.standard_normal((c, m, *kernel)).astype(dtype)
    b = rng.standard_normal(m * group).astype(dtype)
    attributes = {"strides": strides, "pads": pads, "dilations": dilations, "group": group,
                  "output_padding": extra}  # fmt: skip
    exact = transposed(x, w, strides, pads, dilations, group, extra)
    size = transposed(np.abs(x), np.abs(w), strides, pads, dilations, group, extra)
    along = b.astype(np.float64).reshape(-1, *[1] * len(sizes))
    return x, w, b, attributes, exact + along, size + np.abs(along)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("name", CASES)
def test_known_weights(name: str, isa) -> None:
    x, w, b, attributes, exact, size = data(name)
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    (y,) = run_model(model_of([node], {"x": x}, {"w": w, "b": b}), {"x": x}, isa)
    assert y.shape == exact.shape
    assert np.all(np.abs(y - exact) <= size * 2.0**-24 * (w[:, 0].size + 3))


@pytest.mark.parametrize("name", CASES)
def test_weights_that_come_with_the_run(name: str) -> None:
    x, w, b, attributes, exact, size = data(name)
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    feeds = {"x": x, "w": w, "b": b}
    (y,) = run_model(model_of([node], feeds, {}), feeds)
    assert np.all(np.abs(y - exact) <= size * 2.0**-24 * (w[:, 0].size + 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, bfloat16], ids=["f64", "f16", "bf16"])
def test_other_floats(dtype) -> None:
    x, w, b, attributes, exact, size = data("overlapping", dtype)
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
    (y,) = run_model(model_of([node], {"x": x}, {"w": w, "b": b}), {"x": x})
    eps = {np.float64: 2.0**-52, np.float16: 2.0**-10}.get(dtype, 2.0**-7)
    assert y.dtype == x.dtype
    assert np.allclose(y.astype(np.float64), exact, rtol=eps, atol=float(size.max()) * 2.0**-18)


@pytest.mark.parametrize(
    "attributes",
    [
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
        {"output_shape": [9, 8], "strides": [2, 2]},
        {"output_shape": [8, 9], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"output_shape": [9, 9], "strides": [2, 2], "output_padding": [1, 1]},
        {"auto_pad": "VALID", "strides": [2, 1]},
    ],
)
def test_shapes_that_are_asked_for(attributes) -> None:
    """Where the border goes: as onnxruntime does it."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 3, 4, 4)).astype(np.float32)
    w = rng.standard_normal((3, 5, 3, 3)).astype(np.float32)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    model = model_of([node], {"x": x}, {"w": w})
    (y,) = run_model(model, {"x": x})
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    assert y.shape == expected.shape
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_epilogue() -> None:
    x, w, b, attributes, exact, _ = data("doubling")
    r = np.random.default_rng(3).standard_normal(exact.shape).astype(np.float32)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["a"], **attributes),
        helper.make_node("Add", ["a", "r"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    feeds = {"x": x, "r": r}
    (y,) = run_model(model_of(nodes, feeds, {"w": w, "b": b}), feeds)
    assert np.allclose(y, 1 / (1 + np.exp(-(exact + r))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("filters", [1, 5, 24])
def test_phases_side_by_side(filters: int) -> None:
    """Non-overlapping windows, with operands of every kind behind them."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 6, 3, 4)).astype(np.float32)
    w = rng.standard_normal((6, filters, 3, 2)).astype(np.float32)
    b = rng.standard_normal(filters).astype(np.float32)
    more = {
        "residual": rng.standard_normal((2, filters, 9, 8)).astype(np.float32),
        "channel": rng.standard_normal((filters, 1, 1)).astype(np.float32),
        "number": np.array(0.7, np.float32),
    }
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["a"], strides=[3, 2]),
        helper.make_node("Mul", ["a", "channel"], ["c"]),
        helper.make_node("Add", ["c", "residual"], ["d"]),
        helper.make_node("Mul", ["d", "number"], ["y"]),
    ]
    feeds = {"x": x, **more}
    (y,) = run_model(model_of(nodes, feeds, {"w": w, "b": b}), feeds)
    exact = transposed(x, w, (3, 2), (0, 0, 0, 0), (1, 1), 1, (0, 0)) + b.reshape(-1, 1, 1)
    exact = (exact * more["channel"] + more["residual"]) * more["number"]
    assert np.allclose(y, exact, rtol=1e-5, atol=1e-5)
