"""Sums, means and extrema over axes and windows, in real numbers.

In: `Step`. Out: `Real`s. Sums are sums of integers, means divide by a rational; extrema pick
elements, which stay as exact as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.pointwise import mean_factor
from rewrite.audit.oracle.real import Real
from rewrite.audit.oracle.step import OracleError, Step, Values, operator
from rewrite.audit.oracle.terms import Term
from rewrite.ops.window import Window, known_pads, read_window
from rewrite.quant.codes import Array

Shrink = Callable[[Array], Array]


def summed(real: Real, shrink: Shrink, axes: tuple[int, ...], count: int) -> Real:
    """Sums over `axes` of up to `count` elements each; `shrink` computes them."""
    parts: list[Term] = []
    for term in real.whole:
        for part in _uniform(term, axes):
            if part.grid is None or not exact.fits(part.bound * count, part.grid):
                return _in_floats(real, shrink, count)
            x = np.asarray(shrink(part.x))
            index = None if part.index is None else shrink_index(part.index, x)
            if part.index is not None and index is None:
                return _in_floats(real, shrink, count)
            bound = exact.magnitude(x)
            parts.append(exact.compact(Term(x, part.table, index, part.grid, bound)))
    return reals.total(parts, count * real.err, real.dtype)


def shrink_index(index: Array, x: Array) -> Array | None:
    """An index of size 1 on the summed axes; None where those axes are gone and ranks differ."""
    if index.ndim == x.ndim:
        return index
    kept = [size for size in index.shape if size != 1]
    at = [axis for axis, size in enumerate(x.shape) if kept and size == kept[0]]
    if len(kept) != 1 or len(at) != 1:
        return None
    shape = [1] * x.ndim
    shape[at[0]] = kept[0]
    return index.reshape(shape)


def _in_floats(real: Real, shrink: Shrink, count: int) -> Real:
    x = np.asarray(shrink(real.floats))
    err = count * (real.slack + reals.EPS * exact.magnitude(np.asarray(shrink(abs(real.floats)))))
    return reals.known(x, err, real.dtype)


def _uniform(term: Term, axes: tuple[int, ...]) -> list[Term]:
    """Terms whose scale does not change along the axes: one for each scale where it does."""
    if term.index is None or all(term.index.shape[a] == 1 for a in axes):
        return [term]
    flat = exact.flat(term)
    if flat is not None or len(term.table) > reals.MOST_TERMS:
        return [flat if flat is not None else exact.inexact(term.floats())]
    full = exact.full_index(term)
    return [
        Term(np.where(full == k, term.x, 0.0), (f,), None, term.grid, term.bound)
        for k, f in enumerate(term.table)
    ]


def axes_of(step: Step, rank: int) -> tuple[int, ...]:
    """The axes of a reduction in newest form; all of them where none are given."""
    given: Any = step.optional(1)
    axes = () if given is None else tuple(int(a) for a in given.reshape(-1))
    if not axes:
        none = step.integer("noop_with_empty_axes", 0)
        return () if none else tuple(range(rank))
    return tuple(a % rank for a in axes)


@operator("ReduceSum", "ReduceMean")
def reduce_sum(step: Step) -> Values:
    x = step.real(0)
    axes = axes_of(step, x.ndim)
    keep = step.integer("keepdims", 1) != 0
    return (over_axes(x, axes, keep, step.op == "ReduceMean"),)


def over_axes(x: Real, axes: tuple[int, ...], keep: bool, mean: bool) -> Real:
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    if not axes:
        return x
    y = summed(x, lambda a: np.sum(a, axis=axes, keepdims=True), axes, max(count, 1))
    if mean:
        y = reals.multiply(y, mean_factor(count))
    return y if keep else y.moved(lambda a: np.squeeze(a, axes))


@operator("GlobalAveragePool")
def global_average_pool(step: Step) -> Values:
    x = step.real(0)
    return (over_axes(x, tuple(range(2, x.ndim)), True, True),)


@operator("ReduceMax", "ReduceMin")
def reduce_extreme(step: Step) -> Values:
    x = step.real(0)
    axes = axes_of(step, x.ndim)
    y = extreme_over(x, axes, -1 if step.op == "ReduceMin" else 1)
    keep = step.integer("keepdims", 1) != 0
    return (y if keep else y.moved(lambda a: np.squeeze(a, axes)),)


@operator("GlobalMaxPool")
def global_max_pool(step: Step) -> Values:
    x = step.real(0)
    return (extreme_over(x, tuple(range(2, x.ndim)), 1),)


def extreme_over(x: Real, axes: tuple[int, ...], sign: int) -> Real:
    if not axes:
        return x
    rest = [a for a in range(x.ndim) if a not in axes]
    order = (*rest, *axes)
    shape = tuple(1 if a in axes else size for a, size in enumerate(x.shape))

    def rows(a: Array) -> Array:
        return np.transpose(a, order).reshape(*(x.shape[r] for r in rest), -1)

    best = np.argmax(sign * rows(x.floats), axis=-1)[..., None]
    y = x.moved(lambda a: np.take_along_axis(rows(a), best, -1).reshape(shape))
    return Real(y.terms, y.err, y.dtype)


# --- windows ----------------------------------------------------------------------------------


def pool_window(step: Step, sizes: tuple[int, ...]) -> tuple[Window, list[tuple[int, int]]]:
    """The window, and pads so large that every window of the output is inside."""
    window = read_window(step, step.integers("kernel_shape") or ())
    ceil = step.integer("ceil_mode", 0) != 0
    pads = []
    for i, size in enumerate(sizes):
        begin, end = known_pads(window, i, size)
        out = _count(window, i, size, (begin, end), ceil)
        need = (out - 1) * window.strides[i] + window.reach(i) - size - begin
        pads.append((begin, max(end, need)))
    return window, pads


def _count(window: Window, axis: int, size: int, pads: tuple[int, int], ceil: bool) -> int:
    """How many windows; one that starts in the pad behind the tensor is none (since opset 22)."""
    stride = window.strides[axis]
    if window.auto_pad.startswith("SAME"):
        return -(-size // stride)
    room = size + sum(pads) - window.reach(axis)
    count = (-(-room // stride) if ceil else room // stride) + 1
    if count < 1:
        raise OracleError("a window larger than the tensor")
    return count - 1 if ceil and (count - 1) * stride >= size + pads[0] else count


def windows(x: Array, window: Window, pads: list[tuple[int, int]], fill: float) -> Array:
    """(n, c, out..., k...)."""
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    reach = tuple(window.reach(i) for i in range(window.rank))
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, x.ndim)))
    skip = tuple(slice(None, None, s) for s in window.strides)
    holes = tuple(slice(None, None, d) for d in window.dilations)
    return view[(slice(None), slice(None), *skip, *holes)]


@operator("MaxPool")
def max_pool(step: Step) -> Values:
    if step.n_outputs > 1:
        raise OracleError("a MaxPool whose indices are used")
    x = step.real(0)
    window, pads = pool_window(step, x.shape[2:])
    view = windows(x.floats, window, pads, -np.inf)
    shape = view.shape[: 2 + window.rank]
    best = np.argmax(view.reshape(*shape, -1), axis=-1)[..., None]

    def pick(a: Array) -> Array:
        rows = windows(a, window, pads, 0).reshape(*shape, -1)
        return np.take_along_axis(rows, best, -1)[..., 0]

    return (x.moved(pick),)


@operator("AveragePool")
def average_pool(step: Step) -> Values:
    return (averaged(step, step.real(0)),)


def averaged(step: Step, x: Real) -> Real:
    window, pads = pool_window(step, x.shape[2:])
    axes = tuple(range(2 + window.rank, 2 + 2 * window.rank))
    spatial = tuple(range(2, x.ndim))

    def add(a: Array) -> Array:
        return np.asarray(np.sum(windows(a, window, pads, 0.0), axis=axes))

    total = summed(x, add, spatial, int(np.prod(window.kernel)))
    ones = np.ones((1, 1, *x.shape[2:]))
    if step.integer("count_include_pad", 0):
        stated = [known_pads(window, i, size) for i, size in enumerate(x.shape[2:])]
        ones = np.pad(ones, [(0, 0), (0, 0), *stated], constant_values=1.0)
        rest = [(0, pad[1] - own[1]) for pad, own in zip(pads, stated, strict=True)]
        counts = np.sum(windows(ones, window, rest, 0.0), axis=axes)
    else:
        counts = add(ones)
    found, index = np.unique(counts, return_inverse=True)
    table = tuple(Fraction(1, int(c)) for c in found)
    places = index.reshape(counts.shape).astype(np.int32)
    share = exact.compact(Term(np.ones(counts.shape), table, places, 0, 1.0))
    return reals.multiply(total, Real([share]))
