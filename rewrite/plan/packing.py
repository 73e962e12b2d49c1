"""Weights in the form that matrix kernels read them.

In: arrays [..., K, N]. Out: panels of columns, [..., N / columns, K / group, columns, group],
padded with zeros. `group` neighbours in K of one column lie side by side, for instructions that add
up pairs or quadruples of products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rewrite.plan.machine import Machine

Array = np.ndarray[Any, np.dtype[Any]]


def panels(matrix: Array, columns: int, group: int = 1) -> Array:
    """The panels of a matrix, or of each matrix of a batch."""
    return np.ascontiguousarray(panels_view(matrix, columns, group))


def panels_view(matrix: Array, columns: int, group: int = 1) -> Array:
    """The same as a view of the matrix, for whoever copies it anyway."""
    *batch, k, n = matrix.shape
    k_pad, n_pad = -k % group, -n % columns
    if k_pad or n_pad:
        matrix = np.pad(matrix, [(0, 0)] * len(batch) + [(0, k_pad), (0, n_pad)])
    split = matrix.reshape(*batch, (k + k_pad) // group, group, (n + n_pad) // columns, columns)
    rank = len(batch)
    order = (*range(rank), rank + 2, rank, rank + 3, rank + 1)
    return split.transpose(order)


def padded(vector: Array, columns: int) -> Array:
    """A row with zeros behind it, up to whole panels (at least one)."""
    size = max(-(-len(vector) // columns), 1) * columns
    return np.pad(vector, (0, size - len(vector)))


@dataclass(frozen=True, slots=True)
class TileShape:
    """What one tile of a matrix product covers: heights in rows, and columns of a panel."""

    heights: tuple[int, ...]
    columns: int


def tile_shape(machine: Machine, total: str, n: int) -> TileShape:
    """Tiles of sums of type `total`.

    Two vectors of columns: 8 x 2 sums of 32 registers, 6 x 2 of 16, 4 x 2 where products need
    registers of their own. A narrow matrix gets one vector.
    """
    lanes = machine.lanes(total)
    columns = lanes if n <= lanes else 2 * lanes
    if machine.registers >= 32:
        return TileShape((8, 4, 3, 2, 1), columns)
    # An addition of its own needs a register for the product; dot products of bytes have none.
    fused = machine.fma and (total.startswith("f") or total == "s32")
    return TileShape((6, 4, 3, 2, 1) if fused else (4, 3, 2, 1), columns)


def narrow_shape(machine: Machine, total: str, n: int) -> TileShape:
    """Tiles of one or two rows by a matrix that lies in rows: panels as wide as registers allow,
    so that what is read lies together."""
    lanes = machine.lanes(total)
    vectors = min(8 if machine.registers >= 32 else 4, -(-n // lanes))
    return TileShape((2, 1), max(vectors, 1) * lanes)


def offsets(shape: Sequence[int], *strides: Sequence[int]) -> Array:
    """For every place of a batch of this shape, row-major, the offset under each of the strides."""
    if not shape:
        return np.zeros((1, len(strides)), np.int64)
    grid = np.indices(tuple(shape), np.int64).reshape(len(shape), -1)
    return np.stack([np.asarray(s, np.int64) @ grid for s in strides], axis=1)
