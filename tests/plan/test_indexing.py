"""Operators that read and write at places that are data, or give as much as they find."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.runtime.session import Options, Session
from tests.codegen import harness
from tests.plan.movement_models import by_kernels, equal, run, same

RNG = np.random.default_rng(12)
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint8, np.int32, np.int64]
ALL_DTYPES = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def places(n: int, *shape: int, dtype: Any = np.int64) -> np.ndarray:
    return RNG.integers(-n, n, shape).astype(dtype)


# --- gathering ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_gather(axis: int, shape: tuple[int, ...], kind: Any) -> None:
    x = numbers(5, 6, 7)
    indices = np.asarray(places(x.shape[axis], *shape, dtype=kind))
    want = [np.take(x, indices, axis)]
    same("Gather", [x, indices], want=want, axis=axis)
    same("Gather", [x, indices], known=(1,), want=want, axis=axis)


@ALL_DTYPES
def test_gather_every_element_type(dtype: Any) -> None:
    x = numbers(5, 3, dtype=dtype)
    indices = places(5, 4)
    (got,) = run("Gather", [x, indices])
    equal(got, x[indices])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather_elements(axis: int) -> None:
    x = numbers(4, 5, 6)
    shape = [2, 3, 4]
    indices = places(x.shape[axis], *shape)
    trimmed = x[tuple(slice(n if a != axis else None) for a, n in enumerate(shape))]
    want = [np.take_along_axis(trimmed, indices, axis)]
    same("GatherElements", [x, indices], axis=axis, want=want)


@pytest.mark.parametrize(("batches", "depth"), [(0, 1), (0, 3), (1, 1), (1, 2), (2, 1)])
def test_gather_nd(batches: int, depth: int) -> None:
    x = numbers(2, 3, 4, 5)
    sizes = x.shape[batches : batches + depth]
    shape = (*x.shape[:batches], 6)
    indices = np.stack([places(n, *shape) for n in sizes], -1)
    same("GatherND", [x, indices], batch_dims=batches)


def test_columns() -> None:
    x, indices = numbers(3, 6), np.array([4, 0, 4], np.int64)
    (got,) = run("ArrayFeatureExtractor", [x, indices], domain="ai.onnx.ml")
    equal(got, x[:, indices])


@pytest.mark.parametrize("bad", [5, -6, 1 << 40])
def test_an_index_out_of_range_is_an_error_and_the_session_goes_on(bad: int) -> None:
    x = numbers(5, 6)
    for name, operands in {
        "Gather": [x, np.array([1, bad])],
        "GatherElements": [x, np.array([[bad]])],
        "GatherND": [x, np.array([[bad]])],
        "ScatterElements": [x, np.array([[bad]]), numbers(1, 1)],
        "ScatterND": [x, np.array([[bad]]), numbers(1, 6)],
    }.items():
        with pytest.raises(RewriteError, match="index is out of range"):
            run(name, operands)


# --- scattering --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
def test_scatter_elements(axis: int, reduction: str) -> None:
    x = numbers(4, 5, 6)
    shape = (3, 4, 2)
    indices = places(x.shape[axis], *shape)
    same("ScatterElements", [x, indices, numbers(*shape)], axis=axis, reduction=reduction)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "min", "max"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_scatter_nd(depth: int, reduction: str) -> None:
    x = numbers(4, 5, 6)
    indices = np.stack([places(n, 9) for n in x.shape[:depth]], -1)
    updates = numbers(9, *x.shape[depth:])
    same("ScatterND", [x, indices, updates], reduction=reduction)


@ALL_DTYPES
def test_scatter_every_element_type(dtype: Any) -> None:
    x, updates = numbers(5, 3, dtype=dtype), numbers(2, 3, dtype=dtype)
    indices = np.array([[4], [-5]])
    (got,) = run("ScatterND", [x, indices, updates])
    want = x.copy()
    want[[4, 0]] = updates
    equal(got, want)


def test_nothing_to_scatter() -> None:
    x = numbers(4, 3)
    (got,) = run("ScatterND", [x, np.zeros((0, 1), np.int64), numbers(0, 3)])
    equal(got, x)
    (got,) = run("ScatterElements", [x, np.zeros((0, 3), np.int64), numbers(0, 3)])
    equal(got, x)


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("given", [True, False])
def test_tensor_scatter(mode: str, given: bool) -> None:
    cache, update = numbers(2, 3, 5, 4), numbers(2, 3, 2, 4)
    starts = np.array([3, 1 if mode == "linear" else 4], np.int64) if given else None
    same("TensorScatter", [cache, update, starts], mode=mode)
    same("TensorScatter", [cache[:, 0], update[:, 0], starts], mode=mode, axis=1)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32])
def test_one_hot(axis: int, kind: Any) -> None:
    indices = RNG.integers(-7, 7, (2, 3)).astype(kind)
    values = np.array([2, 9], np.int32)
    same("OneHot", [indices, np.array(5), values], known=(1,), axis=axis)


@pytest.mark.parametrize(("time", "batch"), [(0, 1), (1, 0)])
def test_reverse_sequence(time: int, batch: int) -> None:
    lengths = np.array([1, 4, 2, 0], np.int64)
    x = numbers(4, 4, 3)
    want = x.copy()
    moved = np.moveaxis(want, (batch, time), (0, 1))
    for b, n in enumerate(lengths):
        moved[b, :n] = moved[b, :n][::-1].copy()
    same("ReverseSequence", [x, lengths], time_axis=time, batch_axis=batch, want=[want])


def test_an_operand_that_nobody_needs_is_scattered_into() -> None:
    """No copy is made of it."""
    x, indices, updates = numbers(40, 30), np.array([[3], [-1]]), numbers(2, 30)
    feeds = {"x": x, "i": indices, "u": updates}
    nodes = [
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("ScatterND", ["n", "i", "u"], ["s"]),
        helper.make_node("Neg", ["s"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    want = x.copy()
    want[[3, -1]] = -updates
    with Session(io.load(model), Options(strict=True)) as session:
        equal(session.run(feeds)["y"], want)
        kinds = [row.kind for row in session.profile().rows]
    assert kinds == ["Pointwise", "ScatterRows", "Pointwise"]


# --- as much as is found -----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.int64, np.float16])
def test_nonzero(shape: tuple[int, ...], dtype: Any) -> None:
    x = RNG.integers(0, 2, shape).astype(dtype)
    same("NonZero", [x], want=[np.array(np.nonzero(x))])


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_compress(axis: int | None) -> None:
    x = numbers(4, 5)
    condition = np.array([True, False, True, True])
    attributes = {} if axis is None else {"axis": axis}
    same("Compress", [x, condition], **attributes)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ascending", [0, 1])
def test_unique(axis: int | None, ascending: int) -> None:
    x = RNG.integers(0, 3, (6, 2)).astype(np.float32)
    attributes = {} if axis is None else {"axis": axis}
    if ascending or axis != 1:  # the evaluator takes rows where it should take columns
        same("Unique", [x if axis is not None else x.reshape(-1)], outputs=4, sorted=ascending,
             **attributes)  # fmt: skip
    y, first, inverse, times = run("Unique", [x], outputs=4, sorted=ascending, **attributes)
    flat = x.reshape(-1) if axis is None else x
    equal(y, np.take(flat, first, axis or 0))
    equal(np.take(y, inverse, axis or 0), flat)
    equal(times, np.bincount(inverse))


def test_unique_elements_alone() -> None:
    (got,) = run("Unique", [np.array([3, 1, 3, 2], np.int64)])
    equal(got, np.array([1, 2, 3]))


def test_what_is_found_is_used_again() -> None:
    """Sizes found in a run are sizes of what comes behind."""
    nodes = [
        helper.make_node("NonZero", ["i0"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"]),
        helper.make_node("GatherND", ["i0", "rows"], ["o0"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("i0", TensorProto.FLOAT, (3, 4))],
        [onnx.ValueInfoProto(name="o0")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    x = RNG.integers(0, 2, (3, 4)).astype(np.float32)
    x[0, 0] = 1
    (got,) = by_kernels(model, [x])
    equal(got, x[x != 0])


@pytest.mark.parametrize("centered", [0, 1])
def test_non_max_suppression(centered: int) -> None:
    corners = RNG.uniform(0, 10, (2, 30, 2))
    boxes = np.concatenate([corners, corners + RNG.uniform(0, 5, (2, 30, 2))], -1)
    scores = RNG.uniform(0, 1, (2, 2, 30)).astype(np.float32)
    operands = [
        boxes.astype(np.float32), scores, np.array([4]), np.array([0.4], np.float32),
        np.array([0.3], np.float32),
    ]  # fmt: skip
    same("NonMaxSuppression", operands, center_point_box=centered)
    same("NonMaxSuppression", operands, center_point_box=centered, known=(2, 3, 4))
    (got,) = run("NonMaxSuppression", operands[:2])
    equal(got, np.zeros((0, 3), np.int64))


@pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
def test_every_machine(isa: Any) -> None:
    same("Gather", [numbers(5, 33), places(5, 7)], isa=isa)
    same("ScatterND", [numbers(5, 33), places(5, 7, 1), numbers(7, 33)], isa=isa, reduction="add")
    same("NonZero", [RNG.integers(0, 2, (9, 9)).astype(np.float32)], isa=isa)


def test_what_is_found_in_known_data_is_known() -> None:
    """One plan: the places of known data are part of it."""
    mask = np.array([0, 1, 1, 0, 1], np.float32)
    nodes = [
        helper.make_node("NonZero", ["mask"], ["places"]),
        helper.make_node("Squeeze", ["places", "zero"], ["flat"]),
        helper.make_node("Gather", ["x", "flat"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, 3))],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(mask, "mask"), numpy_helper.from_array(np.array([0]), "zero")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    x = numbers(5, 3)
    with Session(io.load(model), Options(strict=True)) as session:
        equal(session.run({"x": x})["y"], x[[1, 2, 4]])
        kinds = [row.kind for row in session.profile().rows]
    assert kinds == ["GatherRows"]
