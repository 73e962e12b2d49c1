"""Kernels that read at places which are data, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import generate
from rewrite.plan.spec import INDEX_OUT_OF_RANGE
from rewrite.plan.specs.index import GatherElements, GatherRows, ReverseRows, Take, short
from tests.codegen import harness

ISAS = pytest.mark.parametrize("isa", harness.isas(), ids=lambda isa: str(isa.vector_bytes))
RNG = np.random.default_rng(5)
WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
INDICES = {"s32": np.int32, "s64": np.int64}
GUARD = 0xA5


def data_of(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return (RNG.integers(0, 250, shape)).astype(dtype)


def guarded(shape: tuple[int, ...], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """An array with 64 bytes of a known value on both sides, and the whole."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = harness.aligned((count + 128,), np.uint8, GUARD)
    return whole[64 : 64 + count].view(dtype).reshape(shape), whole


def untouched(whole: np.ndarray) -> bool:
    return bool((whole[:64] == GUARD).all() and (whole[-64:] == GUARD).all())


def gather(
    data: np.ndarray, indices: np.ndarray, axis: int, isa: Isa | None = None, splits: int = 1
) -> tuple[int, np.ndarray, bool]:
    """Gather by rows: the status, the result, and whether nothing around it was written."""
    outer, inner = data.shape[:axis], data.shape[axis + 1 :]
    row = int(np.prod(inner)) * data.itemsize
    n = data.shape[axis]
    result, whole = guarded(outer + indices.shape + inner, data.dtype.type)
    result[...] = 0
    kind = {v: k for k, v in INDICES.items()}[indices.dtype.type]
    words = [data, indices, result, indices.size, 0, n * row, row, n, row]
    items = int(np.prod(outer)) * indices.size
    spec = GatherRows(kind, 1, short(row))
    status = harness.run(spec, words, items, isa=isa, splits=splits)
    return status, result, untouched(whole)


@ISAS
@pytest.mark.parametrize("inner", [(), (2,), (3,), (4,), (5,), (16,), (17,), (7, 11), (130,)])
@pytest.mark.parametrize("width", WIDTHS)
def test_rows(isa: Isa, inner: tuple[int, ...], width: int) -> None:
    for axis, outer in ((0, ()), (1, (3,))):
        data = data_of((*outer, 9, *inner), WIDTHS[width])
        indices = RNG.integers(-9, 9, (2, 5)).astype(np.int64)
        status, result, clean = gather(data, indices, axis, isa, splits=3)
        assert status == 0
        assert clean
        np.testing.assert_array_equal(result, np.take(data, indices, axis))


@ISAS
@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("bad", [9, -10, 1 << 30, -(1 << 30)])
def test_index_out_of_range(isa: Isa, kind: str, bad: int) -> None:
    data = data_of((9, 6), np.float32)
    indices = np.array([1, bad, 8], INDICES[kind])
    status, result, clean = gather(data, indices, 0, isa)
    assert status == INDEX_OUT_OF_RANGE
    assert clean
    np.testing.assert_array_equal(result[[0, 2]], data[[1, 8]])
    np.testing.assert_array_equal(result[1], 0)


def test_nothing_to_pick_from() -> None:
    status, _, clean = gather(np.zeros((0, 4), np.float32), np.zeros(3, np.int64), 0)
    assert status == INDEX_OUT_OF_RANGE
    assert clean


def test_no_indices() -> None:
    status, result, _ = gather(data_of((3, 4), np.uint8), np.zeros(0, np.int64), 0)
    assert status == 0
    assert result.shape == (0, 4)


@ISAS
def test_several_indices_per_row(isa: Isa) -> None:
    """GatherND with one batch dimension."""
    data = data_of((2, 4, 5, 3), np.float32)
    indices = np.stack([RNG.integers(-4, 4, (2, 7)), RNG.integers(-5, 5, (2, 7))], -1)
    result = np.zeros((2, 7, 3), np.float32)
    words = [data, indices, result, 7, 7, 4 * 5 * 12, 12, 4, 60, 5, 12]
    assert harness.run(GatherRows("s64", 2, 0), words, 14, isa=isa, splits=5) == 0
    want = np.stack([data[b][tuple(indices[b].T)] for b in range(2)])
    np.testing.assert_array_equal(result, want)


@ISAS
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_elements(isa: Isa, width: int, axis: int) -> None:
    data = data_of((4, 5, 6), WIDTHS[width])
    shape = tuple(3 if a == axis else n - 1 for a, n in enumerate(data.shape))
    n = data.shape[axis]
    indices = RNG.integers(-n, n, shape).astype(np.int32)
    strides = [s // data.itemsize for s in data.strides]
    result = np.zeros(shape, data.dtype)
    words = [data, indices, result, n, *shape, *strides]
    spec = GatherElements("s32", width, 3, axis)
    assert harness.run(spec, words, shape[0], isa=isa, splits=2) == 0
    trimmed = data[tuple(slice(None) if a == axis else slice(m) for a, m in enumerate(shape))]
    np.testing.assert_array_equal(result, np.take_along_axis(trimmed, indices.astype(int), axis))


def test_elements_out_of_range() -> None:
    data = data_of((4,), np.uint8)
    indices = np.array([0, 4, -5, -4], np.int64)
    result, whole = guarded((4,), np.uint8)
    result[...] = 7
    status = harness.run(GatherElements("s64", 1, 1, 0), [data, indices, result, 4, 4, 1], 4)
    assert status == INDEX_OUT_OF_RANGE
    assert untouched(whole)
    np.testing.assert_array_equal(result, [data[0], 7, 7, data[0]])


@ISAS
@pytest.mark.parametrize("channels", [1, 3, 16, 33])
def test_tables(isa: Isa, channels: int) -> None:
    """Nearest neighbours of an image, rows of channels behind each pixel."""
    data = data_of((2, 5, 6, channels), np.float32)
    rows, columns = RNG.integers(0, 5, 7), RNG.integers(0, 6, 11)
    row = channels * 4
    result = np.zeros((2, 7, 11, channels), np.float32)
    words = [data, 0, rows * 6 * row, columns * row, result, 2, 30 * row, row, 7, 11]
    assert harness.run(Take(2, short(row), 4, False), words, 14, isa=isa, splits=3) == 0
    np.testing.assert_array_equal(result, data[:, rows][:, :, columns])


@ISAS
@pytest.mark.parametrize("channels", [1, 5])
def test_tables_with_a_fill_value(isa: Isa, channels: int) -> None:
    data = data_of((4, 3, channels), np.uint16)
    rows, columns = np.array([-1, 0, 3, -1, 2]), np.array([1, -1, 2])
    row = channels * 2
    result, whole = guarded((5, 3, channels), np.uint16)
    fill = np.array([999], np.uint16)
    tables = [np.where(t < 0, -1, t * s) for t, s in ((rows, 3 * row), (columns, row))]
    words = [data, fill, *tables, result, 1, 0, row, 5, 3]
    assert harness.run(Take(2, short(row), 2, True), words, 5, isa=isa, splits=2) == 0
    want = data[rows][:, columns].copy()
    want[rows < 0] = 999
    want[:, columns < 0] = 999
    assert untouched(whole)
    np.testing.assert_array_equal(result, want)


@ISAS
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("repeat", [2, 3, 4])
def test_repeated_elements(isa: Isa, width: int, repeat: int) -> None:
    """The last table is not read; lines that repeat are copied."""
    data = data_of((3, 4, 37), WIDTHS[width])
    rows = np.array([0, 0, 1, 3, 3, 3, 2])
    result, whole = guarded((3, 7, 37 * repeat), WIDTHS[width])
    line = 37 * width
    words = [data, 0, rows * line, 0, result, 3, 4 * line, width, 7, 37 * repeat]
    spec = Take(2, short(width), width, False, repeat)
    assert harness.run(spec, words, 21, isa=isa, splits=4) == 0
    assert untouched(whole)
    np.testing.assert_array_equal(result, np.repeat(data[:, rows], repeat, 2))
    result, whole = guarded((12, 37 * repeat), WIDTHS[width])
    words = [data, 0, 0, result, 12, line, width, 37 * repeat]
    spec = Take(1, short(width), width, False, repeat)
    assert harness.run(spec, words, 12, isa=isa, splits=5) == 0
    assert untouched(whole)
    np.testing.assert_array_equal(result, np.repeat(data.reshape(12, 37), repeat, 1))


@ISAS
def test_reversed_rows(isa: Isa) -> None:
    data = data_of((5, 3, 7), np.float32)
    lengths = np.array([5, 1, 3], np.int64)
    result = np.zeros_like(data)
    words = [data, lengths, result, 5, 3, 28, 3 * 28, 28]
    assert harness.run(ReverseRows("s64", 0), words, 3, isa=isa, splits=2) == 0
    for b, n in enumerate(lengths):
        np.testing.assert_array_equal(result[:n, b], data[:n, b][::-1])
        np.testing.assert_array_equal(result[n:, b], data[n:, b])


def test_a_length_beyond_the_end() -> None:
    data, result = np.zeros((2, 1, 4), np.float32), np.zeros((2, 1, 4), np.float32)
    words = [data, np.array([3], np.int64), result, 2, 1, 16, 16, 16]
    assert harness.run(ReverseRows("s64", 16), words, 1) == INDEX_OUT_OF_RANGE


@pytest.mark.parametrize(
    "spec", [GatherRows("s64", 1, 0), GatherElements("s32", 4, 2, 1), Take(2, 0, 4, True)]
)
def test_another_machine(spec: object) -> None:
    assert "ret" in to_assembly(generate(spec, AARCH64, "kernel"), AARCH64)
