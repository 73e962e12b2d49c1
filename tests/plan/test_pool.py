"""Pools: kernels against numpy's windows, and against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from ml_dtypes import bfloat16
from onnx import helper

from rewrite.quant.reference import evaluate
from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()


def windows(x, kernel, strides, pads, dilations, ceil, fill):
    """(N, C, out…, kernel…), with `fill` outside; sizes as ONNX says."""
    rank = len(kernel)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    out = []
    for i in range(rank):
        room = x.shape[2 + i] + pads[i] + pads[i + rank] - reach[i]
        count = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil and (count - 1) * strides[i] >= x.shape[2 + i] + pads[i]:
            count -= 1
        out.append(count)
    need = [(out[i] - 1) * strides[i] + reach[i] for i in range(rank)]
    widths = [(0, 0), (0, 0)] + [
        (pads[i], max(0, need[i] - x.shape[2 + i] - pads[i])) for i in range(rank)
    ]
    padded = np.pad(x, widths, constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    cut = tuple(slice(0, (n - 1) * s + 1, s) for n, s in zip(out, strides, strict=True))
    holes = tuple(slice(None, None, d) for d in dilations)
    return view[(slice(None), slice(None), *cut, *holes)], tuple(range(-rank, 0))


# shape, kernel, strides, pads, dilations, ceil
CASES = {
    "plain": ((2, 17, 9, 8), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 0),
    "bordered": ((1, 64, 7, 9), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 0),
    "uneven": ((1, 3, 8, 10), (3, 2), (1, 3), (2, 0, 1, 1), (1, 1), 0),
    "ceiling": ((1, 70, 7, 7), (3, 3), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    "ceiling with border": ((1, 5, 6, 7), (3, 3), (3, 2), (1, 1, 1, 1), (1, 1), 1),
    "dilated": ((1, 33, 9, 10), (2, 3), (1, 1), (0, 1, 1, 0), (2, 3), 0),
    "line": ((2, 4, 19), (4,), (3,), (1, 2), (1,), 0),
    "volume": ((1, 6, 4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 1, 0, 0, 1, 1), (1, 1, 1), 0),
    "one channel": ((1, 1, 12, 13), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 0),
    "no image": ((0, 3, 5, 5), (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), 0),
}


def attributes(name):
    _, kernel, strides, pads, dilations, ceil = CASES[name]
    return {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations,
            "ceil_mode": ceil}  # fmt: skip


def data(name, dtype=np.float32):
    shape, *how = CASES[name]
    rng = np.random.default_rng(5)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True), how
    return rng.standard_normal(shape).astype(dtype), how


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("name", CASES)
def test_max(name: str, isa) -> None:
    x, how = data(name)
    if x.size:
        x[0, 0].flat[3] = -np.inf
    node = helper.make_node("MaxPool", ["x"], ["y"], **attributes(name))
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x}, isa)
    view, axes = windows(x, *how, -np.inf)
    assert np.array_equal(y, view.max(axes))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float16, bfloat16, np.float64])
def test_max_of_other_types(dtype) -> None:
    x, how = data("bordered", np.float32 if np.dtype(dtype).kind not in "iu" else dtype)
    x = x.astype(dtype)
    node = helper.make_node("MaxPool", ["x"], ["y"], **attributes("bordered"))
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x})
    lowest = np.iinfo(dtype).min if x.dtype.kind in "iu" else -np.inf
    view, axes = windows(x.astype(np.float64), *how, lowest)
    assert y.dtype == x.dtype
    assert np.array_equal(y.astype(np.float64), view.max(axes))


def test_not_a_number_is_the_largest() -> None:
    x = np.zeros((1, 20, 3, 3), np.float32)
    x[0, :, 1, 1] = np.nan
    x[0, :, 2, 2] = np.inf
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x})
    assert np.isnan(y).all()


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("name", [n for n in CASES if n != "no image"])
@pytest.mark.parametrize("order", [0, 1])
def test_indices(name: str, order: int, isa) -> None:
    """Equal to onnxruntime's; the first of equal elements."""
    x, _ = data(name)
    x = np.round(x)
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], storage_order=order, **attributes(name))
    model = model_of([node], {"x": x}, {}, ["y", "i"])
    y, i = run_model(model, {"x": x}, isa)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"x": x})
    assert np.array_equal(y, expected[0])
    assert np.array_equal(i, expected[1])


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
def test_indices_of_the_lowest_number_there_is(dtype) -> None:
    """Windows 2 by 2 of a 3 by 3 image of nothing else but one: their first elements."""
    lowest = -np.inf if dtype is np.float32 else np.iinfo(dtype).min
    x = np.full((1, 19, 3, 3), lowest, dtype)
    x[0, :, 0, 2] = 1
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])
    _, i = run_model(model_of([node], {"x": x}, {}, ["y", "i"]), {"x": x})
    assert (i.reshape(19, 4) - 9 * np.arange(19)[:, None] == [0, 2, 3, 4]).all()


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("border", [0, 1])
def test_average(name: str, border: int, isa) -> None:
    x, how = data(name)
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], count_include_pad=border, **attributes(name)
    )
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x}, isa)
    kernel, strides, pads, dilations, ceil = how
    view, axes = windows(x.astype(np.float64), *how, 0)
    ones = np.ones_like(x[:1, :1])
    if border:  # the border counts, what lies behind it does not
        rank = len(kernel)
        widths = [(0, 0), (0, 0)] + [(pads[i], pads[i + rank]) for i in range(rank)]
        counts, _ = windows(
            np.pad(ones, widths, constant_values=1), kernel, strides, (0,) * 2 * rank, dilations,
            ceil, 0,
        )  # fmt: skip
    else:
        counts, _ = windows(ones, *how, 0)
    count = counts.sum(axes)
    exact = view.sum(axes) / count[tuple(slice(0, n) for n in view.sum(axes).shape)]
    assert y.shape == exact.shape
    assert np.allclose(y, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_norm(p: int) -> None:
    x, how = data("bordered")
    node = helper.make_node("LpPool", ["x"], ["y"], p=p, **attributes("bordered"))
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x})
    view, axes = windows(np.abs(x.astype(np.float64)), *how, 0)
    assert np.allclose(y, (view**p).sum(axes) ** (1 / p), rtol=3e-6)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("shape", [(2, 37, 5, 7), (1, 3, 11), (3, 16, 1, 1), (1, 5, 2, 3, 4)])
def test_global(shape, isa) -> None:
    x = np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    axes = tuple(range(2, x.ndim))
    wide = x.astype(np.float64)
    for name, more, exact in (
        ("GlobalMaxPool", {}, wide.max(axes, keepdims=True)),
        ("GlobalAveragePool", {}, wide.mean(axes, keepdims=True)),
        ("GlobalLpPool", {"p": 2}, np.sqrt((wide**2).sum(axes, keepdims=True))),
    ):
        node = helper.make_node(name, ["x"], ["y"], **more)
        (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x}, isa)
        assert y.shape == exact.shape
        assert np.allclose(y, exact, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, bfloat16])
def test_average_of_half_floats(dtype) -> None:
    x = np.random.default_rng(7).standard_normal((1, 24, 6, 6)).astype(dtype)
    node = helper.make_node("GlobalAveragePool", ["x"], ["y"])
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x})
    exact = x.astype(np.float64).mean((2, 3), keepdims=True)
    assert np.allclose(y.astype(np.float64), exact, rtol=float(np.finfo(np.float32).eps) * 2**16)


def test_unpooling() -> None:
    x = np.array([[[[1, 2], [3, 4]]]], np.float32)
    i = np.array([[[[5, 7], [13, 15]]]], np.int64)
    node = helper.make_node("MaxUnpool", ["x", "i"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    feeds = {"x": x, "i": i}
    (y,) = run_model(model_of([node], feeds, {}), feeds)
    exact = np.zeros(16, np.float32)
    exact[i.reshape(-1)] = x.reshape(-1)
    assert np.array_equal(y, exact.reshape(1, 1, 4, 4))


@pytest.mark.parametrize("size", [1, 4, 5])
@pytest.mark.parametrize("shape", [(2, 7, 5, 5), (1, 3, 40), (1, 2)])
def test_local_response(size: int, shape) -> None:
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5, beta=0.6, bias=1.5)
    (y,) = run_model(model_of([node], {"x": x}, {}), {"x": x})
    wide = x.astype(np.float64)
    sums = np.zeros_like(wide)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    for c in range(shape[1]):
        sums[:, c] = (wide[:, max(0, c - before) : c + after + 1] ** 2).sum(1)
    exact = wide / (1.5 + np.float32(0.5) / size * sums) ** np.float32(0.6)
    assert np.allclose(y, exact, rtol=3e-6)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("last", [0, 1])
def test_quantized_averages(last: int, dtype, isa) -> None:
    """Exact: as rational arithmetic rounds, halves included (scales that are powers of two)."""
    rng = np.random.default_rng(9)
    info = np.iinfo(dtype)
    shape = (2, 6, 7, 21) if last else (2, 21, 6, 7)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    for x_scale, y_scale in ((0.25, 0.5), (0.1, 0.07), (1.0, 3.0)):
        parameters = [
            np.float32(x_scale), dtype(rng.integers(info.min, info.max)),
            np.float32(y_scale), dtype(rng.integers(info.min, info.max)),
        ]  # fmt: skip
        known = {f"p{i}": np.asarray(p) for i, p in enumerate(parameters)}
        for name, more in (
            ("QLinearGlobalAveragePool", {}),
            ("QLinearAveragePool", {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1],
                                    "strides": [2, 1], "count_include_pad": 1}),
            ("QLinearAveragePool", {"kernel_shape": [2, 4], "pads": [1, 1, 1, 1]}),
        ):  # fmt: skip
            more = {**more, "channels_last": last}
            node = helper.make_node(name, ["x", *known], ["y"], domain="com.microsoft", **more)
            (y,) = run_model(model_of([node], {"x": x}, known), {"x": x}, isa)
            exact = evaluate("com.microsoft", name, [x, *known.values()], more)
            assert exact is not None
            assert np.array_equal(y, exact[0])


def test_unpooling_into_a_larger_shape() -> None:
    """Indices are those of the 4 by 4 output that the window implies (ONNX's own example)."""
    x = np.array([[[[5, 6], [7, 8]]]], np.float32)
    i = np.array([[[[5, 7], [13, 15]]]], np.int64)
    shape = np.array([1, 1, 5, 5])
    node = helper.make_node(
        "MaxUnpool", ["x", "i", "s"], ["y"], kernel_shape=[2, 2], strides=[2, 2]
    )
    feeds = {"x": x, "i": i}
    (y,) = run_model(model_of([node], feeds, {"s": shape}), feeds)
    exact = np.zeros((1, 1, 5, 5), np.float32)
    exact[0, 0, 1:4:2, 1:4:2] = x[0, 0]
    assert np.array_equal(y, exact)
