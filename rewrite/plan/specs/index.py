"""Kernels that read or write at places which are data: gathers, scatters, tables of offsets.

In: nothing. Out: specs. Elements are moved by their width, so that types of one width share code;
sizes and strides are words, so that shapes do. An index counts from the end where it is negative;
one that is out of range is the fault INDEX_OUT_OF_RANGE, and nothing is read or written for it.
Indices, updates and results are contiguous. The last operand is the one that is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.plan.spec import Spec

# Rows of so many bytes are moved by one load and one store; others by a loop.
SHORT_ROWS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class GatherRows(Spec):
    """Row i of batch b of the result is the row of `data` at the place that `depth` indices say.

    Words: data, indices, result; rows of a batch; indices between two batches (0 where batches
    share them); bytes of data between two batches; bytes of a row; then for each index the size it
    counts in and the bytes of data from one place to the next.
    Items: all rows of all batches. `row`: bytes of a row where it is one of SHORT_ROWS, else 0.
    """

    index: str
    depth: int
    row: int


@dataclass(frozen=True, slots=True)
class GatherElements(Spec):
    """result[i, j, …] = data[i, j, …] with the place along `axis` replaced by indices[i, j, …].

    Words: data, indices, result; size of `axis` in data; `rank` sizes of indices; `rank` strides of
    data in elements. Items: size 0 of indices.
    """

    index: str
    width: int
    rank: int
    axis: int


@dataclass(frozen=True, slots=True)
class ScatterElements(Spec):
    """data[i, j, …] with the place along `axis` replaced by indices[i, j, …] takes the update.

    Words: indices, updates, data (changed in place); size of `axis` in data; `rank` sizes of
    indices; `rank` strides of data in elements. Updates of one element are applied in order.
    Items: the size of dimension `split`, which is not `axis`; 1 where `split` is -1.
    `reduction`: "none", "add", "mul", "min", "max"; `dtype` is one of `moved` for "none".
    """

    index: str
    dtype: str
    rank: int
    axis: int
    split: int
    reduction: str


@dataclass(frozen=True, slots=True)
class ScatterRows(Spec):
    """The row of data at the place that `depth` indices say takes a row of updates, in order.

    Words: indices, updates, data (changed in place); number of rows; elements of a row; then for
    each index the size it counts in and the elements from one place to the next.
    Items: elements of a row: a range of columns is written for all rows.
    """

    index: str
    dtype: str
    depth: int
    reduction: str


@dataclass(frozen=True, slots=True)
class ScatterCache(Spec):
    """Rows written into a cache one after another, from a place on that each batch gives.

    Words: updates, places (one per batch; 0: all of them are 0), cache (changed in place); rows of
    updates; rows of the cache; bytes of a row; slices of a batch. Items: slices of all batches; a
    slice is the rows of one place of the dimensions between batch and axis.
    `circular`: row numbers wrap around; otherwise one that is too large is a fault.
    """

    index: str
    circular: bool


@dataclass(frozen=True, slots=True)
class OneHot(Spec):
    """on[…] = value at the place that an index says; an index out of range writes nothing.

    Words: indices, pair of values (off, on), result (filled with the off value); depth; inner size.
    Items: indices. Indices may be of any number type, and are truncated.
    """

    index: str
    width: int


@dataclass(frozen=True, slots=True)
class Take(Spec):
    """result[i, j, …] = data[first(i) + second(j) + …]: one table of offsets per dimension.

    Words: data, fill (one element), `rank` tables, result; outer size; bytes of data between outer
    places; bytes of a row; `rank` sizes. Tables are s64 offsets in bytes, negative where the fill
    value is wanted (`filled`). A row of contiguous bytes stands behind each last place.
    Items: outer size times size 0. `row`: bytes of a row where it is one of SHORT_ROWS, else 0.
    `width`: bytes of an element. `repeat`: where it is not 0, rows are elements, and the last table
    is not read: place i has offset (i // repeat) width.
    """

    rank: int
    row: int
    width: int
    filled: bool
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class ReverseRows(Spec):
    """The first `length` rows along the time axis in reverse order, the others as they are.

    Words: data, lengths, result; times; batches; bytes of a row; bytes from one time to the next;
    bytes from one batch to the next (both of data and result). Items: batches.
    """

    index: str
    row: int


def moved(width: int) -> str:
    """The element type as which elements of so many bytes are moved."""
    return {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}[width]


def short(row: int) -> int:
    """The `row` of a spec: bytes of a row, or 0 where they are left to run time."""
    return row if row in SHORT_ROWS else 0
