"""Panels, offsets, schedules of rows."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.isa import AARCH64, AVX2
from rewrite.plan.machine import PLAIN
from rewrite.plan.packing import offsets, padded, panels, tile_shape
from rewrite.plan.specs.gemm import row_schedule


def test_panels_hold_every_element_once() -> None:
    matrix = np.arange(2 * 7 * 11).reshape(2, 7, 11) + 1
    made = panels(matrix, 4, 2)
    assert made.shape == (2, 3, 4, 4, 2)
    for b, k, n in np.ndindex(matrix.shape):
        assert made[b, n // 4, k // 2, n % 4, k % 2] == matrix[b, k, n]
    assert made.sum() == matrix.sum(), "the rest is zeros"


def test_padded() -> None:
    assert padded(np.array([1, 2, 3]), 4).tolist() == [1, 2, 3, 0]
    assert padded(np.array([], int), 4).tolist() == [0] * 4


def test_offsets_of_broadcast_batches() -> None:
    assert offsets((2, 3), (30, 10), (0, 5)).tolist() == [
        [0, 0], [10, 5], [20, 10], [30, 0], [40, 5], [50, 10],
    ]  # fmt: skip
    assert offsets((), (), ()).tolist() == [[0, 0]]
    assert offsets((0,), (4,)).shape == (0, 1)


@pytest.mark.parametrize("heights", [(8, 4, 3, 2, 1), (6, 4, 3, 2, 1), (4, 3, 2, 1), (1,)])
def test_schedules_cover_all_rows(heights: tuple[int, ...]) -> None:
    for rows in range(1, 70):
        made = row_schedule(rows, heights)
        assert made.height * made.whole + sum(made.tail) == rows
        assert all(h in heights for h in made.tail)
        assert len(made.tail) <= 16, "four bits each in a word"
        codes = [made.code >> (4 * i) & 15 for i in range(len(made.tail))]
        assert codes == list(made.tail)


def test_schedules_avoid_lonely_rows() -> None:
    """A row alone costs as much as four."""
    assert row_schedule(128, (8, 4, 3, 2, 1)).tail == ()
    assert row_schedule(7, (8, 4, 3, 2, 1)).tail == (4, 3)
    assert row_schedule(13, (6, 4, 3, 2, 1)).tiles == 3


def test_tiles_fit_the_registers() -> None:
    for machine in (PLAIN, AVX2, AARCH64):
        for total in ("f32", "s32", "f64", "s64"):
            tile = tile_shape(machine, total, 1000)
            vectors = tile.columns // machine.lanes(total)
            assert tile.heights[0] * vectors + vectors + 1 <= machine.registers
            assert tile_shape(machine, total, 2).columns == machine.lanes(total)
