"""Lookups of codes, against indexing by numpy: exact."""

from __future__ import annotations

import numpy as np
import pytest

from rewrite.codegen.isa import Isa
from rewrite.plan.specs.lookup import CHUNK, Lookup
from tests.codegen.harness import isas, run

MACHINES = pytest.mark.parametrize("isa", isas(), ids=lambda i: f"{i.vector_bytes}")
RNG = np.random.default_rng(5)


@MACHINES
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 63, 200, 2 * CHUNK + 77])
def test_one_table(count: int, dtype: type, isa: Isa) -> None:
    table = RNG.integers(0, 100, 256).astype(dtype)
    x = RNG.integers(0, 256, count).astype(np.uint8)
    y = np.zeros(count, dtype)
    items = -(-count // CHUNK)
    spec = Lookup(table.itemsize)
    assert run(spec, [x, table, y, count], items, isa=isa, splits=2) == 0
    np.testing.assert_array_equal(y, table[x])


@MACHINES
@pytest.mark.parametrize("inner", [1, 70, 9])
def test_a_table_for_each_channel(inner: int, isa: Isa) -> None:
    table = RNG.integers(0, 256, (5, 256)).astype(np.uint8)
    x = RNG.integers(0, 256, (3, 5, inner)).astype(np.uint8)
    y = np.zeros_like(x)
    rows = 3 if inner == 1 else 15
    spec = Lookup(1, True, inner == 1)
    assert run(spec, [x, table, y, 5, inner], rows, isa=isa, splits=2) == 0
    np.testing.assert_array_equal(y, np.stack([table[c][x[:, c]] for c in range(5)], 1))


@MACHINES
@pytest.mark.parametrize("channels", [16, 37, 64])
@pytest.mark.parametrize("rows", [1, 15, 16, 63, 64, 100, 150])
def test_neighbours_in_blocks(rows: int, channels: int, isa: Isa) -> None:
    """Blocks of rows and channels, and what is left of both; in place, too."""
    table = RNG.integers(0, 256, (channels, 256)).astype(np.uint8)
    x = RNG.integers(0, 256, (rows, channels)).astype(np.uint8)
    wanted = table[np.arange(channels), x]
    guarded = np.full((rows + 2, channels), 99, np.uint8)
    spec = Lookup(1, True, True)
    assert run(spec, [x, table, guarded[1:-1], channels, 1], rows, isa=isa, splits=2) == 0
    np.testing.assert_array_equal(guarded[1:-1], wanted)
    assert np.all(guarded[[0, -1]] == 99)
    assert run(spec, [x, table, x, channels, 1], rows, isa=isa) == 0
    np.testing.assert_array_equal(x, wanted)
