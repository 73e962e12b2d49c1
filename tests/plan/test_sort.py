"""TopK as a session runs it, against numpy's stable sort."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.codegen.harness import isas
from tests.plan.conv_models import model_of, run_model

ISAS = isas()
TYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32",
    "uint32", "int64", "uint64",
]  # fmt: skip

Array = np.ndarray[Any, np.dtype[Any]]


def top_k_model(x: Array, k: int, **attributes: int) -> onnx.ModelProto:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], **attributes)
    return model_of([node], {"x": x}, {"k": np.array([k], np.int64)}, ["v", "i"], opset=24)


def places(x: Array, k: int, axis: int, largest: int) -> Array:
    """Lower places first among equal ones; NaN is the largest number."""
    if x.dtype.kind in "iu":
        keys = x.astype(object)
        order = np.argsort(-keys if largest else keys, axis, kind="stable")
    else:
        wide = x.astype(np.float64)
        nan = np.isnan(wide)
        wide = np.where(nan, 0, wide)
        keys = np.stack([wide, nan], -1)
        flat = np.moveaxis(-keys if largest else keys, axis, -2)
        rows = flat.reshape(-1, flat.shape[-2], 2)
        order = np.stack([np.lexsort((r[:, 0], r[:, 1])) for r in rows])
        order = np.moveaxis(order.reshape(flat.shape[:-1]), -1, axis)
    return np.take(order, range(k), axis)


def check(x: Array, k: int, axis: int, largest: int, isa: Any = None) -> None:
    model = top_k_model(x, k, axis=axis, largest=largest)
    values, index = run_model(model, {"x": x}, isa)
    wanted = places(x, k, axis, largest)
    assert np.array_equal(index, wanted)
    raw = np.dtype(f"u{x.dtype.itemsize}")
    assert np.array_equal(values.view(raw), np.take_along_axis(x, wanted, axis).view(raw))


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: str(isa.vector_bytes))
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 100), (2, 9, 5)], ids=str)
def test_every_k(isa: Any, largest: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).integers(-5, 6, shape).astype(np.float32)
    for axis in range(len(shape)):
        for k in sorted({0, 1, 2, shape[axis] // 2, shape[axis] - 1, shape[axis]}):
            check(x, min(k, shape[axis]), axis, largest, isa)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("largest", [0, 1])
def test_types(kind: str, largest: int) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    rng = np.random.default_rng(2)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, (4, 61), dtype, endpoint=True)
        x[:, 3:5], x[:, 40] = limits.max, limits.min
    else:
        x = rng.standard_normal((4, 61)).astype(dtype)
    check(x, 10, 1, largest)
    check(x, 3, 0, largest)


@pytest.mark.parametrize("largest", [0, 1])
def test_special_values(largest: int) -> None:
    """Both zeros are equal, NaN of either sign is the largest number."""
    special = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 1.0, -1.0]
    x = np.array([special, special[::-1], special[5:] + special[:5]], np.float32)
    check(np.tile(x, (1, 4)), 40, 1, largest)
    check(np.tile(x, (1, 4)), 13, 1, largest)


def test_long_rows() -> None:
    x = np.random.default_rng(3).standard_normal((2, 50_000)).astype(np.float32)
    check(x, 300, 1, 1)
    check(np.sort(x, 1), 300, 1, 1)
    check(np.sort(x, 1), 300, 1, 0)


def test_unsorted_is_a_set() -> None:
    x = np.random.default_rng(4).standard_normal((3, 50)).astype(np.float32)
    values, index = run_model(top_k_model(x, 7, axis=1, sorted=0), {"x": x})
    assert np.array_equal(np.sort(index, 1), np.sort(places(x, 7, 1, 1), 1))
    assert np.array_equal(values, np.take_along_axis(x, index, 1))
