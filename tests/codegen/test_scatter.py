"""Kernels that write at places which are data, against numpy applied update by update."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.spec import INDEX_OUT_OF_RANGE
from rewrite.plan.specs.index import OneHot, ScatterCache, ScatterElements, ScatterRows
from tests.codegen import harness

ISAS = pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
RNG = np.random.default_rng(6)
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32,
    "u32": np.uint32, "s64": np.int64, "u64": np.uint64,
}  # fmt: skip
COMBINE: dict[str, Callable[[object, object], object]] = {
    "none": lambda _, y: y, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
GUARD = 0x5A


def guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    whole = harness.aligned((array.nbytes + 128,), np.uint8, GUARD)
    inside = whole[64 : 64 + array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, whole


def untouched(whole: np.ndarray) -> bool:
    return bool((whole[:64] == GUARD).all() and (whole[-64:] == GUARD).all())


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    low = 0 if dtype[0] == "u" else -9
    return RNG.integers(low, 10, shape).astype(DTYPES[dtype])


def scattered(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, reduction: str
) -> np.ndarray:
    result = data.copy()
    with np.errstate(over="ignore"):
        for place in np.ndindex(*indices.shape):
            at = list(place)
            at[axis] = int(indices[place])
            result[tuple(at)] = COMBINE[reduction](result[tuple(at)], updates[place])
    return result


@ISAS
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("reduction", COMBINE)
def test_elements(isa: Isa, axis: int, reduction: str) -> None:
    """Indices repeat, so that the order of updates can be seen."""
    data = numbers((3, 4, 5), "f32")
    shape = (2, 4, 3)
    n = data.shape[axis]
    indices = RNG.integers(-n, n, shape)
    updates = numbers(shape, "f32")
    got, whole = guarded(data)
    split = 1 if axis == 0 else 0
    spec = ScatterElements("s64", "f32", 3, axis, split, reduction)
    words = [indices, updates, got, n, *shape, 20, 5, 1]
    assert harness.run(spec, words, shape[split], isa=isa, splits=2) == 0
    assert untouched(whole)
    np.testing.assert_array_equal(got, scattered(data, indices, updates, axis, reduction))


@ISAS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_rows(isa: Isa, dtype: str, reduction: str) -> None:
    """Rows of 67 elements: whole vectors and a tail; each row is hit several times."""
    data, updates = numbers((4, 67), dtype), numbers((9, 67), dtype)
    indices = RNG.integers(-4, 4, (9, 1))
    got, whole = guarded(data)
    words = [indices, updates, got, 9, 67, 4, 67]
    assert harness.run(ScatterRows("s64", dtype, 1, reduction), words, 67, isa=isa, splits=3) == 0
    want = data.copy()
    with np.errstate(over="ignore"):
        for i, row in zip(indices[:, 0], updates, strict=True):
            want[i] = COMBINE[reduction](want[i], row)
    assert untouched(whole)
    np.testing.assert_array_equal(got, want)


def test_bool_is_or_and_and() -> None:
    data = np.array([0, 0, 1, 1], np.uint8).view(bool)
    updates = np.array([0, 1, 0, 1], np.uint8).view(bool)
    indices = np.arange(4)
    for reduction, want in (("add", data | updates), ("mul", data & updates)):
        got = data.copy()
        spec = ScatterElements("s64", "bool", 1, 0, -1, reduction)
        assert harness.run(spec, [indices, updates, got, 4, 4, 1], 1) == 0
        np.testing.assert_array_equal(got, want)


@ISAS
def test_rows_by_several_indices(isa: Isa) -> None:
    data = numbers((3, 4, 5), "f32")
    indices = np.array([[0, 1], [2, -1], [-3, 1]], np.int64)
    updates = numbers((3, 5), "f32")
    got, whole = guarded(data)
    words = [indices, updates, got, 3, 5, 3, 20, 4, 5]
    assert harness.run(ScatterRows("s64", "u32", 2, "none"), words, 5, isa=isa, splits=2) == 0
    want = data.copy()
    for place, row in zip(indices, updates, strict=True):
        want[tuple(place)] = row
    assert untouched(whole)
    np.testing.assert_array_equal(got, want)


@ISAS
@pytest.mark.parametrize("bad", [4, -5, 1 << 40])
def test_index_out_of_range(isa: Isa, bad: int) -> None:
    data = numbers((4, 3), "f32")
    got, whole = guarded(data)
    words = [np.array([[bad]]), numbers((1, 3), "f32"), got, 1, 3, 4, 3]
    spec = ScatterRows("s64", "f32", 1, "add")
    assert harness.run(spec, words, 3, isa=isa) == INDEX_OUT_OF_RANGE
    assert untouched(whole)
    np.testing.assert_array_equal(got, data)
    flat, whole = guarded(data[:, 0].copy())
    words = [np.array([bad]), numbers((1,), "f32"), flat, 4, 1, 1]
    spec = ScatterElements("s64", "u32", 1, 0, -1, "none")
    assert harness.run(spec, words, 1, isa=isa) == INDEX_OUT_OF_RANGE
    assert untouched(whole)
    np.testing.assert_array_equal(flat, data[:, 0])


@ISAS
@pytest.mark.parametrize("circular", [False, True])
def test_cache(isa: Isa, circular: bool) -> None:
    cache, updates = numbers((2, 3, 6, 5), "f32"), numbers((2, 3, 2, 5), "f32")
    places = np.array([1, 5 if circular else 4], np.int64)
    got, whole = guarded(cache)
    words = [updates, places, got, 2, 6, 20, 3]
    assert harness.run(ScatterCache("s64", circular), words, 6, isa=isa, splits=4) == 0
    want = cache.copy()
    for b in range(2):
        for i in range(2):
            want[b, :, (places[b] + i) % 6] = updates[b, :, i]
    assert untouched(whole)
    np.testing.assert_array_equal(got, want)


def test_cache_from_the_start_and_past_the_end() -> None:
    cache, updates = numbers((2, 1, 3, 2), "f32"), numbers((2, 1, 2, 2), "f32")
    got, _ = guarded(cache)
    words: list[np.ndarray | int] = [updates, 0, got, 2, 3, 8, 1]
    assert harness.run(ScatterCache("s64", False), words, 2) == 0
    np.testing.assert_array_equal(got[:, :, :2], updates)
    got, whole = guarded(cache)
    words[1:3] = [np.array([2, 2], np.int64), got]
    assert harness.run(ScatterCache("s64", False), words, 2) == INDEX_OUT_OF_RANGE
    assert untouched(whole)


@ISAS
@pytest.mark.parametrize("dtype", ["s64", "s32", "u8", "f32", "f64", "f16"])
def test_one_hot(isa: Isa, dtype: str) -> None:
    values = [0, 4, 5, 2, 3, 9] if dtype[0] == "u" else [0, -1, 4, -5, 5, -6]
    indices = np.array(values, DTYPES[dtype]).reshape(2, 3)
    pair = np.array([2, 7], np.int16)
    result, whole = guarded(np.full((2, 5, 3), 2, np.int16))
    words = [indices, pair, result, 5, 3]
    assert harness.run(OneHot(dtype, 2), words, 6, isa=isa, splits=2) == 0
    counted = np.where(indices < 0, indices.astype(int) + 5, indices.astype(int))
    want = np.where(np.arange(5)[None, :, None] == counted[:, None], 7, 2)
    assert untouched(whole)
    np.testing.assert_array_equal(result, want)


def test_one_hot_of_no_number() -> None:
    indices = np.array([np.nan, np.inf, -np.inf, 1e30, 1.9], np.float32)
    result, whole = guarded(np.zeros((5, 3), np.float32))
    pair = np.array([0, 1], np.float32)
    assert harness.run(OneHot("f32", 4), [indices, pair, result, 3, 1], 5) == 0
    assert untouched(whole)
    assert result.sum() == result[4, 1] == 1


@pytest.mark.parametrize(
    "spec",
    [ScatterElements("s64", "f16", 2, 0, 1, "add"), ScatterRows("s64", "f32", 1, "max")],
)
def test_another_machine(spec: object) -> None:
    assert "ret" in to_assembly(generate(spec, AARCH64, "kernel"), AARCH64)
