"""Exact arrays: integers (or floats on a grid) times rational scales.

In: codes, scales. Out: `Term`, and the arithmetic on terms that loses nothing.

    value[i] = x[i] table[index[i]]

`x` is a float64 array whose elements are multiples of 2^grid of magnitude at most `bound`; sums and
products of such arrays are exact while bound < 2^(53 + grid), whatever the order of summation
(so that matrix products may be left to BLAS). `table` are rationals: products of float32 scales,
quotients by a count. Where an operation would lose a bit, it says so with None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.quant.codes import Array, Floats, values_of

DIGITS = 53
ONE = (Fraction(1),)

Index = Array  # of int32
Table = tuple[Fraction, ...]
Move = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """`index` None: the table has one entry. `grid` None: `x` holds rounded numbers."""

    x: Floats
    table: Table = ONE
    index: Index | None = None
    grid: int | None = 0
    bound: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.x.shape

    @property
    def exact(self) -> bool:
        return self.grid is not None

    def steps(self) -> Floats:
        """The table's entries as floats, to multiply `x` with."""
        floats = np.array([float(f) for f in self.table])
        return floats[0] if self.index is None else floats[self.index]

    def floats(self) -> Floats:
        """The values, each rounded at most twice."""
        if self.table == ONE:
            return self.x
        with np.errstate(all="ignore"):
            return np.asarray(self.x * self.steps())

    def largest(self) -> float:
        """A bound on the magnitude of the values."""
        return self.bound * max(abs(float(f)) for f in self.table)


def fits(bound: float, grid: int) -> bool:
    """Whether multiples of 2^grid up to `bound` are numbers of float64."""
    return bound <= 2.0 ** (DIGITS + grid) if grid > -900 else False


def magnitude(x: Floats) -> float:
    """The largest magnitude of finite elements."""
    if x.size == 0:
        return 0.0
    top = float(np.max(np.abs(x)))
    if np.isfinite(top):
        return top
    finite = x[np.isfinite(x)]
    return float(np.max(np.abs(finite))) if finite.size else 0.0


def integers(x: Array, table: Table = ONE, index: Index | None = None) -> Term:
    """A term of integers below 2^53."""
    wide = x.astype(np.float64)
    return compact(Term(wide, table, index, 0, magnitude(wide)))


def inexact(x: Floats) -> Term:
    """Numbers that were rounded: only `x` itself is known."""
    return Term(np.asarray(x), ONE, None, None, magnitude(x))


def grid_of(x: Floats) -> int | None:
    """The largest power of two that all elements are multiples of; None if one is not finite."""
    if not np.isfinite(x).all():
        return None
    mantissa, exponent = np.frexp(x[x != 0])
    if mantissa.size == 0:
        return 0
    digits = (mantissa * 2.0**DIGITS).astype(np.int64)
    lowest = np.log2((digits & -digits).astype(np.float64)).astype(np.int64)
    return int((exponent - DIGITS + lowest).min())


def floats(array: Array) -> Term:
    """The numbers of a float array, exactly.

    Few numbers that differ along one axis at most become the table, so that products with them
    are exact; many become a grid.
    """
    wide = np.asarray(values_of(array))
    grid = grid_of(wide)
    if grid is None:
        return inexact(wide)
    long = [axis for axis, size in enumerate(wide.shape) if size > 1]
    if wide.size == 0 or len(long) > 1 or wide.size > 4096:
        return Term(wide, ONE, None, grid, magnitude(wide))
    return tabled(wide)


def tabled(wide: Floats) -> Term:
    """All numbers in the table."""
    found, index = np.unique(wide, return_inverse=True)
    table = tuple(Fraction(float(v)) for v in found)
    ones = np.ones(wide.shape)
    return compact(Term(ones, table, index.reshape(wide.shape).astype(np.int32), 0, 1.0))


def compact(term: Term) -> Term:
    """The same with an index of size 1 along axes where it does not change."""
    index = term.index
    if index is None or index.size == 0:
        return Term(term.x, term.table[:1], None, term.grid, term.bound)
    if index.ndim < term.x.ndim:
        index = index.reshape((1,) * (term.x.ndim - index.ndim) + index.shape)
    for axis, size in enumerate(index.shape):
        if size > 1:
            first = index.take([0], axis)
            if (index == first).all():
                index = first
    if index.size == 1:
        entry = term.table[int(index.reshape(-1)[0])]
        return Term(term.x, (entry,), None, term.grid, term.bound)
    return Term(term.x, term.table, index, term.grid, term.bound)


def full_index(term: Term) -> Index:
    """The index at the size of `x`."""
    index = np.zeros((1,) * term.x.ndim, np.int32) if term.index is None else term.index
    return np.broadcast_to(index, term.x.shape)


def moved(term: Term, move: Move) -> Term:
    """Elements rearranged, copied, dropped, or zeros put between them."""
    x = np.asarray(move(term.x))
    if term.index is None:
        return Term(x, term.table, None, term.grid, term.bound)
    index = np.asarray(move(np.ascontiguousarray(full_index(term)))).astype(np.int32)
    return compact(Term(x, term.table, index, term.grid, term.bound))


def joined(terms: Sequence[Term], move: Callable[[list[Array]], Array]) -> Term:
    """Several terms as one array; `move` puts arrays together."""
    x = np.asarray(move([t.x for t in terms]))
    grids = [t.grid for t in terms if t.grid is not None]
    grid = min(grids) if len(grids) == len(terms) else None
    bound = max(t.bound for t in terms)
    table: dict[Fraction, int] = {}
    indices: list[Array] = []
    for t in terms:
        places = np.array([table.setdefault(f, len(table)) for f in t.table], np.int32)
        indices.append(places[full_index(t)])
    if len(table) == 1:
        return Term(x, tuple(table), None, grid, bound)
    index = np.asarray(move(indices)).astype(np.int32)
    return compact(Term(x, tuple(table), index, grid, bound))


def masked(term: Term, mask: Array) -> Term:
    """Zero where the mask is false; broadcast to the shape of both."""
    return compact(Term(np.where(mask, term.x, 0.0), term.table, term.index, term.grid, term.bound))


def scaled(term: Term, factor: Fraction) -> Term:
    table = tuple(f * factor for f in term.table)
    return Term(term.x, table, term.index, term.grid, term.bound)


def paired(a: Table, ia: Index | None, b: Table, ib: Index | None) -> tuple[Table, Index | None]:
    """The table of products a[ia] b[ib], and the index that broadcasting both gives."""
    if ia is None and ib is None:
        return (a[0] * b[0],), None
    if ib is None:
        return tuple(f * b[0] for f in a), ia
    if ia is None:
        return tuple(a[0] * f for f in b), ib
    code = ia.astype(np.int64) * len(b) + ib
    found, index = np.unique(code, return_inverse=True)
    table = tuple(a[int(c) // len(b)] * b[int(c) % len(b)] for c in found)
    return table, index.reshape(code.shape).astype(np.int32)


def product(a: Term, b: Term) -> Term | None:
    """Element by element; None where a bit would be lost."""
    if a.grid is None or b.grid is None or not fits(a.bound * b.bound, a.grid + b.grid):
        return None
    table, index = paired(a.table, _aligned(a, b), b.table, _aligned(b, a))
    x = a.x * b.x
    return compact(Term(x, table, index, a.grid + b.grid, a.bound * b.bound))


def _aligned(a: Term, b: Term) -> Index | None:
    """The index of `a` with the rank that broadcasting with `b` gives."""
    if a.index is None:
        return None
    rank = max(a.x.ndim, b.x.ndim)
    return a.index.reshape((1,) * (rank - a.index.ndim) + a.index.shape)


def merged(a: Term, b: Term) -> Term | None:
    """The sum of two terms with one scale; None if they have none, or a bit would be lost."""
    if a.grid is None or b.grid is None or a.table != b.table:
        return None
    ia, ib = _aligned(a, b), _aligned(b, a)
    if ia is None or ib is None:
        if ia is not ib:
            return None
    elif not np.array_equal(ia, ib):
        return None
    grid, bound = min(a.grid, b.grid), a.bound + b.bound
    if not fits(bound, grid):
        return None
    return Term(a.x + b.x, a.table, ia, grid, bound)


def flat(term: Term) -> Term | None:
    """The values themselves as `x`, with a table of 1; None where that would round them."""
    if term.table == ONE:
        return term if term.exact else None
    if term.grid is None:
        return None
    entries = [grid_of(np.array([float(f)])) for f in term.table]
    if any(Fraction(float(f)) != f for f in term.table):
        return None
    grid = term.grid + min(g for g in entries if g is not None)
    bound = term.largest()
    # Each product is exact if the digits of both factors fit; all are multiples of 2^grid.
    if not fits(bound, grid):
        return None
    return Term(term.floats(), ONE, None, grid, bound)


def exact_values(
    terms: Sequence[Term], where: Index, shape: tuple[int, ...]
) -> tuple[list[Fraction], Index]:
    """The sums of the terms at flat positions: distinct sums, and which one each position has."""
    columns: list[Array] = []
    for t in terms:
        columns.append(np.broadcast_to(t.x, shape).reshape(-1)[where])
        index = np.zeros((1,) * t.x.ndim) if t.index is None else t.index
        columns.append(np.broadcast_to(index, shape).reshape(-1)[where].astype(np.float64))
    first, inverse = distinct(columns)
    rows = np.stack([column[first] for column in columns], axis=1)
    return [_sum(terms, row) for row in rows], inverse


def distinct(columns: Sequence[Array]) -> tuple[Index, Index]:
    """Rows of the columns that differ: where each is first, and which one each row is.

    One sort of numbers per column: numpy's own `unique` compares whole rows, which is slow.
    """
    codes = np.zeros(columns[0].shape, np.int64)
    for column in columns:
        values, part = np.unique(column, return_inverse=True)
        if len(values) > 1:
            _, codes = np.unique(codes * len(values) + part.reshape(-1), return_inverse=True)
            codes = codes.reshape(-1).astype(np.int64)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)


def _sum(terms: Sequence[Term], row: Any) -> Fraction:
    total = Fraction(0)
    for k, t in enumerate(terms):
        total += Fraction(float(row[2 * k])) * t.table[int(row[2 * k + 1])]
    return total
