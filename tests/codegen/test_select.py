"""Kernels whose results are as large as the data say, against numpy and the onnx evaluator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from onnx.reference.ops.op_non_max_suppression import NonMaxSuppression as Evaluator

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.spec import INDEX_OUT_OF_RANGE
from rewrite.plan.specs.select import (
    Compress,
    NonMaxSuppression,
    NonZero,
    Unique,
    suppression_work,
)
from tests.codegen import harness

ISAS = pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
RNG = np.random.default_rng(8)
DTYPES = {
    "bool": np.bool_, "u8": np.uint8, "s8": np.int8, "s32": np.int32, "u64": np.uint64,
    "s64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
    "f64": np.float64,
}  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: str, high: int = 3) -> np.ndarray:
    low = 0 if dtype[0] in "ub" else -1
    return RNG.integers(low, high, shape).astype(DTYPES[dtype])


def unique(
    x: np.ndarray, dtype: str, axis: int | None, ascending: bool, isa: Isa
) -> list[np.ndarray]:
    """All four outputs at their true sizes."""
    flat = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else axis
    n = flat.shape[at]
    outer, inner = int(np.prod(flat.shape[:at])), int(np.prod(flat.shape[at + 1 :]))
    y = np.zeros(flat.size, x.dtype)
    work, first, inverse, times = (np.full(m, -7) for m in (3 * n, n, n, n))
    counts = [np.zeros(1, np.int64) for _ in range(3)]
    words = [x, work, y, first, inverse, times, *counts, outer, n, inner]
    assert harness.run(Unique(dtype, ascending), words, 1, isa=isa) == 0
    found = int(counts[0][0])
    assert all(c[0] == found for c in counts)
    shape = (*flat.shape[:at], found, *flat.shape[at + 1 :])
    return [y[: outer * found * inner].reshape(shape), first[:found], inverse, times[:found]]


@ISAS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (200,), (3, 4, 5)])
def test_nonzero(isa: Isa, dtype: str, shape: tuple[int, ...]) -> None:
    x = np.asarray(numbers(shape, dtype))
    result, count = np.full(max(1, x.ndim * x.size), -7), np.zeros(1, np.int64)
    words = [x, result, count, *shape]
    assert harness.run(NonZero(dtype, len(shape)), words, 1, isa=isa) == 0
    want = np.array(np.nonzero(x.reshape(shape or (1,))))[: len(shape)]
    assert count[0] == np.count_nonzero(x)
    np.testing.assert_array_equal(result[: want.size].reshape(want.shape), want)
    assert (result[want.size :] == -7).all()


def test_nan_is_not_zero_and_minus_zero_is() -> None:
    x = np.array([np.nan, -0.0, 0.0, 1e-45], np.float32)
    result, count = np.zeros(4, np.int64), np.zeros(1, np.int64)
    assert harness.run(NonZero("f32", 1), [x, result, count, 4], 1) == 0
    assert list(result[: count[0]]) == [0, 3]


@ISAS
@pytest.mark.parametrize("axis", [0, 1, 2, None])
@pytest.mark.parametrize("conditions", [0, 2, 3, 40])
def test_compress(isa: Isa, axis: int | None, conditions: int) -> None:
    x = numbers((3, 4, 50), "f32", 99)
    flat = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else axis
    n = flat.shape[at]
    condition = RNG.integers(0, 2, conditions).astype(bool)
    condition[n:] = False
    outer, inner = int(np.prod(flat.shape[:at])), int(np.prod(flat.shape[at + 1 :]))
    result, count = np.full(x.size, -7, np.float32), np.zeros(1, np.int64)
    words = [x, condition, result, count, outer, n, conditions, inner * 4]
    assert harness.run(Compress(), words, 1, isa=isa) == 0
    want = np.compress(condition[:n], flat, at)
    assert count[0] == want.shape[at]
    np.testing.assert_array_equal(result[: want.size].reshape(want.shape), want)
    assert (result[want.size :] == -7).all()


def test_a_condition_without_a_row() -> None:
    x, result = numbers((2, 3), "f32"), np.zeros((2, 3), np.float32)
    words = [x, np.array([1, 0, 1], bool), result, np.zeros(1, np.int64), 1, 2, 3, 12]
    assert harness.run(Compress(), words, 1) == INDEX_OUT_OF_RANGE


@ISAS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (37, 2), (2, 3, 4)])
def test_unique(isa: Isa, dtype: str, axis: int | None, shape: tuple[int, ...]) -> None:
    x = numbers(shape, dtype)
    wide = x.astype(np.float64)  # numpy has no order of bfloat16 rows
    y, first, inverse, times = unique(x, dtype, axis, True, isa)
    want = np.unique(wide, axis=axis, return_index=True, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(y.astype(np.float64), want[0])
    np.testing.assert_array_equal(first, want[1])
    np.testing.assert_array_equal(inverse, want[2].reshape(-1))
    np.testing.assert_array_equal(times, want[3])


@ISAS
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_as_they_come(isa: Isa, axis: int | None) -> None:
    x = numbers((40, 2), "f32", 4)
    y, first, inverse, times = unique(x, "f32", axis, False, isa)
    flat = x.reshape(-1) if axis is None else x
    at = axis or 0
    slices = [bytes(np.ascontiguousarray(s)) for s in np.moveaxis(flat, at, 0)]
    order = list(dict.fromkeys(slices))
    np.testing.assert_array_equal(first, [slices.index(s) for s in order])
    np.testing.assert_array_equal(inverse, [order.index(s) for s in slices])
    np.testing.assert_array_equal(times, [slices.count(s) for s in order])
    np.testing.assert_array_equal(y, np.take(flat, first, at))


def test_unique_of_nothing_and_of_nan() -> None:
    isa = harness.isas()[0]
    y, first, inverse, times = unique(np.zeros((0,), np.float32), "f32", None, True, isa)
    assert y.size == first.size == inverse.size == times.size == 0
    x = np.array([np.nan, 1, np.inf, np.nan, -np.inf, -0.0, 0.0], np.float32)
    for ascending in (True, False):
        y, _, inverse, times = unique(x, "f32", None, ascending, isa)
        assert len(y) == 5
        np.testing.assert_array_equal(y[inverse], x)
        assert times.sum() == 7
    np.testing.assert_array_equal(unique(x, "f32", None, True, isa)[0][-2:], [np.inf, np.nan])


def suppressed(
    boxes: np.ndarray,
    scores: np.ndarray,
    most: int,
    overlap: float,
    least: float | None,
    centered: bool,
    isa: Isa,
) -> np.ndarray:
    batches, classes, n = scores.shape
    room = max(1, batches * classes * min(max(most, 0), n))
    result, count = np.full((room + 1, 3), -7), np.zeros(1, np.int64)
    words = [
        boxes, scores, np.array([most]), np.array([overlap], np.float32),
        0 if least is None else np.array([least], np.float32),
        np.zeros(suppression_work(n), np.int64), result, count, batches, classes, n,
    ]  # fmt: skip
    spec = NonMaxSuppression(centered, least is not None)
    assert harness.run(spec, words, 1, isa=isa) == 0
    assert (result[count[0] :] == -7).all()
    return result[: count[0]]


@ISAS
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("most", [-1, 0, 3, 50])
@pytest.mark.parametrize("least", [None, 0.5])
def test_non_max_suppression(isa: Isa, centered: bool, most: int, least: float | None) -> None:
    n = 40
    corners = RNG.uniform(0, 10, (2, n, 4)).astype(np.float32)
    boxes = corners
    if centered:
        boxes = np.concatenate([corners[..., :2], RNG.uniform(0, 5, (2, n, 2))], -1)
    boxes = boxes.astype(np.float32)
    scores = RNG.integers(0, 12, (2, 3, n)).astype(np.float32) / 12  # ties
    got = suppressed(boxes, scores, most, 0.3, least, centered, isa)
    evaluator = Evaluator.__new__(Evaluator)
    (want,) = evaluator._run(
        boxes, scores, np.array([max(most, 0)]), np.array([0.3], np.float32),
        None if least is None else np.array([least], np.float32), int(centered),
    )  # fmt: skip
    np.testing.assert_array_equal(got, want)


def test_no_boxes() -> None:
    boxes, scores = np.zeros((1, 0, 4), np.float32), np.zeros((1, 2, 0), np.float32)
    assert len(suppressed(boxes, scores, 5, 0.5, None, False, harness.isas()[0])) == 0


@pytest.mark.parametrize(
    "spec", [NonZero("f16", 2), Compress(), Unique("f32", False), NonMaxSuppression(False, True)]
)
def test_another_machine(spec: object) -> None:
    assert "ret" in to_assembly(generate(spec, AARCH64, "kernel"), AARCH64)
