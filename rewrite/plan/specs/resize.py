"""Kernels that interpolate: passes along one axis, samples at places which are data.

In: nothing. Out: specs. Sizes are words, so that one kernel serves all images.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec

GRID_BLOCK = 64  # points whose neighbours are kept at once
MOST_TAPS = 8  # of a pass that is written out; more are a loop


@dataclass(frozen=True, slots=True)
class ResizePass(Spec):
    """result[o, i, j] = Σ over t of weight[i, t] data[o, place[i, t], j].

    Words: data, places, weights, fill (one element of the target type), result; taps; size of the
    axis in the result; inner size; elements of data between outer places.
    `places`: s64 [size, taps], offsets in elements; a row whose first one is negative takes the
    fill value (`filled`). `weights`: of `sums`, the type in which sums are made.
    Items: outer size times size of the axis.
    `taps`: their number where it is at most MOST_TAPS, else 0. `wide`: vectors along the inner
    dimension, which then has at least the lanes of a vector of `sums`.
    Integers are rounded to nearest, ties to even, and saturate.
    """

    source: str
    target: str
    sums: str
    taps: int
    wide: bool
    filled: bool


@dataclass(frozen=True, slots=True)
class ResizeLookup(Spec):
    """The same along the innermost dimension, `lanes` places at once: what a block of so many needs
    lies within 2 `lanes` neighbours, from which lanes are chosen by permutations.

    Words: data, starts, choices, weights, result; blocks of a row; size of the axis in the result;
    size in data. `starts`: s64 [blocks], the first neighbour; `choices`: s32 [blocks, taps, lanes],
    counted from there; `weights`: f32 alike. Block k begins at place k `lanes`, the last one so
    that it ends with the row. Items: rows. Sums are of float32.
    """

    source: str
    target: str
    taps: int
    lanes: int


@dataclass(frozen=True, slots=True)
class GridSample(Spec):
    """result[n, c, …] = data[n, c, …] interpolated at the place that grid[n, …] gives.

    Words: data, grid, result; batches; channels; `rank` sizes of data; points of a batch.
    Items: points of all batches. `rank`: spatial dimensions. A place is (…, y, x) in reverse.
    `sums`: the type in which places and sums are computed. Scratch: `grid_scratch`.
    """

    dtype: str
    grid: str
    sums: str
    rank: int
    mode: str  # "nearest" | "linear" | "cubic"
    padding: str  # "zeros" | "border" | "reflection"
    align_corners: bool


def grid_scratch(spec: GridSample) -> int:
    """Bytes: a place, and offsets and weights of all neighbours, for each point of a block."""
    corners: int = {"nearest": 1, "linear": 2, "cubic": 4}[spec.mode] ** spec.rank
    return 8 * GRID_BLOCK * (1 + 2 * corners)
