"""CumSum, CumProd, ArgMax, ArgMin and Hardmax as a session runs them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()
SHAPES = [(1,), (40,), (3, 17), (2, 5, 70), (4, 1, 3), (2, 0, 3)]
EPS = 2.0**-24

Array = np.ndarray[Any, np.dtype[Any]]


def running_value(x: Array, axis: int, name: str, exclusive: int, reverse: int) -> Array:
    combine = np.add if name == "CumSum" else np.multiply
    y = np.flip(x, axis) if reverse else x
    total = combine.accumulate(y, axis, dtype=x.dtype)
    if exclusive and x.shape[axis]:
        first = np.full_like(np.take(total, [0], axis), name == "CumProd")
        total = np.concatenate([first, np.take(total, range(x.shape[axis] - 1), axis)], axis)
    return np.flip(total, axis) if reverse else total


@pytest.mark.parametrize("name", ["CumSum", "CumProd"])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_totals(name: str, exclusive: int, reverse: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    x = (rng.random(shape) + 0.5).astype(np.float32)
    for axis in range(len(shape)):
        node = helper.make_node(name, ["x", "axis"], ["y"], exclusive=exclusive, reverse=reverse)
        model = model_of([node], {"x": x}, {"axis": np.array(axis, np.int64)}, opset=26)
        model.ir_version = 12
        wanted = running_value(x.astype(np.float64), axis, name, exclusive, reverse)
        for isa in ISAS:
            (y,) = run_model(model, {"x": x}, isa)
            np.testing.assert_allclose(y, wanted, rtol=2 * (shape[axis] + 1) * EPS)


@pytest.mark.parametrize("kind", ["int32", "int64", "uint32", "uint64", "float64", "float16"])
def test_running_totals_of_other_types(kind: str) -> None:
    """Integers are exact and wrap around; half floats are summed in f32."""
    rng = np.random.default_rng(2)
    dtype = np.dtype(kind)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (3, 45), dtype, endpoint=True)
    else:
        x = rng.standard_normal((3, 45)).astype(dtype)
    node = helper.make_node("CumSum", ["x", "axis"], ["y"])
    for axis in (0, 1):
        model = model_of([node], {"x": x}, {"axis": np.array(axis, np.int32)}, opset=14)
        (y,) = run_model(model, {"x": x})
        if dtype.kind in "iu":
            assert np.array_equal(y, np.cumsum(x, axis, dtype=dtype))
        else:
            wide = np.cumsum(x.astype(np.float64), axis)
            magnitude = np.cumsum(np.abs(x.astype(np.float64)), axis)
            slack = 2.0**-11 * np.abs(wide) if kind == "float16" else 0
            rounding = 45 * EPS if kind == "float16" else 45 * 2.0**-53
            assert np.all(np.abs(y - wide) <= slack + rounding * magnitude)


TYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32",
    "uint32", "int64", "uint64",
]  # fmt: skip


def few_values(shape: tuple[int, ...], kind: str) -> Array:
    """Many equal elements."""
    low = 0 if kind[0] in "ub" else -3
    found = np.random.default_rng(3).integers(low, 4, shape)
    return found.astype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("last", [0, 1])
def test_places_of_extremes(name: str, kind: str, last: int) -> None:
    for shape in ((4, 37), (3, 20, 70), (33, 1, 5)):
        x = few_values(shape, kind)
        keys = x.astype(np.float64)
        for axis in range(len(shape)):
            node = helper.make_node(
                name, ["x"], ["y"], axis=axis, select_last_index=last, keepdims=0
            )
            model = model_of([node], {"x": x}, {}, opset=13)
            find = np.argmax if name == "ArgMax" else np.argmin
            wanted = find(np.flip(keys, axis) if last else keys, axis)
            wanted = shape[axis] - 1 - wanted if last else wanted
            (y,) = run_model(model, {"x": x})
            assert y.dtype == np.int64
            assert np.array_equal(y, wanted)


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("last", [0, 1])
def test_places_among_nan(isa: Any, last: int) -> None:
    """A NaN is above and below all numbers, as numpy and the standard's evaluator have it."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 3, (60, 45)).astype(np.float32)
    x[rng.random(x.shape) < 0.02] = np.nan
    x[:, 7] = np.inf
    for name in ("ArgMax", "ArgMin"):
        for axis in (0, 1):
            node = helper.make_node(name, ["x"], ["y"], axis=axis, select_last_index=last)
            model = model_of([node], {"x": x}, {}, opset=13)
            (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
            (y,) = run_model(model, {"x": x}, isa)
            assert np.array_equal(y, wanted)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax(axis: int, opset: int) -> None:
    x = few_values((3, 5, 20), "float32")
    node = helper.make_node("Hardmax", ["x"], ["y"], axis=axis)
    (y,) = run_model(model_of([node], {"x": x}, {}, opset=opset), {"x": x})
    if opset < 13:
        flat = x.reshape(int(np.prod(x.shape[: axis % 3])), -1)
        wanted = np.eye(flat.shape[1], dtype=np.float32)[flat.argmax(1)].reshape(x.shape)
    else:
        wanted = np.zeros_like(x)
        np.put_along_axis(wanted, np.expand_dims(x.argmax(axis), axis), 1, axis)
    assert np.array_equal(y, wanted)


def test_along_channels_of_a_channels_last_tensor() -> None:
    """The operand is not moved where it lies in another order."""
    x = np.random.default_rng(5).standard_normal((2, 4, 5, 21)).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("ArgMax", ["t"], ["y"], axis=1, keepdims=0),
        helper.make_node("CumSum", ["t", "axis"], ["z"]),
    ]
    model = model_of(nodes, {"x": x}, {"axis": np.array(1, np.int64)}, ["y", "z"], opset=14)
    y, z = run_model(model, {"x": x})
    assert np.array_equal(y, x.argmax(3))
    wanted = np.cumsum(x.astype(np.float64), 3).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(z, wanted, atol=100 * EPS)


@pytest.mark.parametrize(("shape", "axis"), [((3, 0), 1), ((0, 3), 0), ((2, 0, 4), 1)])
@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_of_no_elements(shape: tuple[int, ...], axis: int, opset: int) -> None:
    x = np.zeros(shape, np.float32)
    node = helper.make_node("Hardmax", ["x"], ["y"], axis=axis)
    (y,) = run_model(model_of([node], {"x": x}, {}, opset=opset), {"x": x})
    assert y.shape == shape
    assert y.dtype == np.float32
