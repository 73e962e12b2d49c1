"""Sums of products: MatMul, Gemm, Conv, ConvTranspose, in real numbers.

In: `Real`s. Out: `Real`s. An operand whose scale is the same along what is summed is contracted as
integers: in float64, where BLAS is exact while all sums stay below 2^53. Scales that differ along
the sum are multiplied in first where that loses nothing; else the result is float64, with a bound.

Quantizers give the codes of a bias the float32 nearest to the product of the two scales, which
stands for that product: such a bias counts in units of the accumulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewrite.audit.oracle import real as reals
from rewrite.audit.oracle import terms as exact
from rewrite.audit.oracle.real import EPS, Real
from rewrite.audit.oracle.step import OracleError, Step, Values, operator
from rewrite.audit.oracle.terms import Index, Term
from rewrite.ops.call import Evaluation
from rewrite.ops.convolution import conv_transpose_value
from rewrite.ops.window import known_pads, read_window
from rewrite.quant.codes import Array

Apply = Callable[[Array, Array], Array]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A bilinear map. `first` and `second` give an operand's index in the shape of the result.

    They return None where it differs along what is summed. `count`: products in one sum.
    """

    apply: Apply
    first: Callable[[Index], Index | None]
    second: Callable[[Index], Index | None]
    count: int


def contract(a: Real, b: Real, how: Contraction) -> Real:
    """The sum over all pairs of terms."""
    err = how.count * (a.err * b.largest + b.err * a.largest + a.err * b.err)
    parts = []
    if len(a.terms) * len(b.terms) <= reals.MOST_TERMS:
        for s in a.whole:
            for t in b.whole:
                part = _exactly(s, t, how)
                if part is None:
                    return _roughly(a, b, how)
                parts.append(part)
        return reals.total(parts, err, a.dtype)
    return _roughly(a, b, how)


def _exactly(a: Term, b: Term, how: Contraction) -> Term | None:
    ia = None if a.index is None else how.first(a.index)
    ib = None if b.index is None else how.second(b.index)
    if a.index is not None and ia is None:
        flat = exact.flat(a)
        return None if flat is None else _exactly(flat, b, how)
    if b.index is not None and ib is None:
        flat = exact.flat(b)
        return None if flat is None else _exactly(a, flat, how)
    if a.grid is None or b.grid is None:
        return None
    grid, bound = a.grid + b.grid, a.bound * b.bound * how.count
    if not exact.fits(bound, grid):
        return None
    table, index = exact.paired(a.table, ia, b.table, ib)
    x = np.asarray(how.apply(a.x, b.x))
    if index is not None and index.ndim != x.ndim:
        return None
    return exact.compact(Term(x, table, index, grid, exact.magnitude(x)))


def _roughly(a: Real, b: Real, how: Contraction) -> Real:
    """In float64. The bound (count eps sum |a||b|, and that of the operands) is in float32."""
    with np.errstate(all="ignore"):
        x = np.asarray(how.apply(a.floats, b.floats))
        left, right = np.abs(a.floats).astype(np.float32), np.abs(b.floats).astype(np.float32)
        weighted = left * np.float32(how.count * EPS) + np.float32(a.slack)
        err = exact.magnitude(np.asarray(how.apply(weighted, right)))
        if b.slack:
            even = np.full(right.shape, b.slack, np.float32)
            err += exact.magnitude(np.asarray(how.apply(left, even)))
    return reals.known(x, 1.01 * err, a.dtype)


# --- matrix products --------------------------------------------------------------------------


def _rows(index: Index) -> Index | None:
    """The index of a left operand, if it is the same along the columns."""
    return index if index.shape[-1] == 1 else None


def _columns(index: Index) -> Index | None:
    return index if index.shape[-2] == 1 else None


def matmul(a: Real, b: Real) -> Real:
    """numpy's matmul, vectors included."""
    left = a.ndim == 1
    right = b.ndim == 1
    if left:
        a = a.moved(lambda x: x[None, :])
    if right:
        b = b.moved(lambda x: x[:, None])
    rank = max(a.ndim, b.ndim)
    a, b = _of_rank(a, rank), _of_rank(b, rank)
    if a.shape[-1] != b.shape[-2]:
        raise OracleError(f"the product of {list(a.shape)} and {list(b.shape)}")
    y = contract(a, b, Contraction(np.matmul, _rows, _columns, a.shape[-1]))
    if left:
        y = y.moved(lambda x: x[..., 0, :])
    return y.moved(lambda x: x[..., 0]) if right else y


def _of_rank(a: Real, rank: int) -> Real:
    if a.ndim == rank:
        return a
    return a.moved(lambda x: x.reshape((1,) * (rank - x.ndim) + x.shape))


@operator("MatMul")
def matmul_operator(step: Step) -> Values:
    return (matmul(step.real(0), step.real(1)),)


@operator("Gemm")
def gemm(step: Step) -> Values:
    a, b = step.real(0), step.real(1)
    if step.integer("transA", 0):
        a = a.moved(lambda x: x.T)
    if step.integer("transB", 0):
        b = b.moved(lambda x: x.T)
    y, alpha = matmul(a, b), step.float32("alpha", 1.0)
    if not step.has(2):
        return (times(y, alpha),)
    bias, beta = step.real(2), step.float32("beta", 1.0)
    if alpha == beta == 1.0:
        return (reals.add(y, in_units_of(y, _of_rank(bias, y.ndim))),)
    return (reals.add(times(y, alpha), times(bias, beta)),)


def times(a: Real, factor: float) -> Real:
    """Times a float attribute."""
    return a if factor == 1.0 else reals.multiply(a, reals.lift(np.asarray(factor)))


# --- convolutions -----------------------------------------------------------------------------


def conv(step: Step, x: Real, w: Real, bias: Real | None) -> Real:
    """Convolution by gathered windows; the attributes are those of the node."""
    window = read_window(step, step.integers("kernel_shape") or w.shape[2:])
    group = step.integer("group", 1)
    channels, filters = x.shape[1], w.shape[0]
    if group < 1 or channels != w.shape[1] * group or filters % group:
        raise OracleError(f"a convolution of {list(x.shape)} with {list(w.shape)}")
    pads = [known_pads(window, i, size) for i, size in enumerate(x.shape[2:])]
    if any(pad < 0 for pair in pads for pad in pair):
        raise OracleError("negative pads")
    reach = tuple(window.reach(i) for i in range(window.rank))

    def apply(a: Array, b: Array) -> Array:
        padded = np.pad(a, [(0, 0), (0, 0), *pads])
        view = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, a.ndim)))
        skip = tuple(slice(None, None, s) for s in window.strides)
        holes = tuple(slice(None, None, d) for d in window.dilations)
        return windows_product(view[(slice(None), slice(None), *skip, *holes)], b, group)

    def first(index: Index) -> Index | None:
        if any(size != 1 for size in index.shape[2:]) or (index.shape[1] != 1 and group == 1):
            return None
        if index.shape[1] == 1:
            return index
        grouped = index.reshape(index.shape[0], group, -1)
        if (grouped != grouped[:, :, :1]).any():
            return None
        per = np.repeat(grouped[:, :, 0], filters // group, axis=1)
        return per.reshape(*per.shape, *(1,) * window.rank)

    def second(index: Index) -> Index | None:
        same = all(size == 1 for size in index.shape[1:])
        return index.reshape(1, -1, *(1,) * window.rank) if same else None

    count = int(np.prod(w.shape[1:], dtype=np.int64))
    y = contract(x, w, Contraction(apply, first, second, count))
    return y if bias is None else with_bias(y, bias)


def windows_product(view: Array, w: Array, group: int) -> Array:
    """(n, c, out..., k...) with (m, c / group, k...) -> (n, m, out...)."""
    rank = w.ndim - 2
    n, m = view.shape[0], w.shape[0]
    out = view.shape[2 : 2 + rank]
    kernel = view.shape[2 + rank :]
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    columns = np.transpose(view, order).reshape(
        n, group, (view.shape[1] // group) * int(np.prod(kernel)), int(np.prod(out))
    )
    y = np.matmul(w.reshape(group, m // group, -1), columns)
    return np.asarray(y.reshape(n, m, *out))


def per_channel(bias: Real, rank: int) -> Real:
    return bias.moved(lambda v: v.reshape(1, -1, *(1,) * (rank - 2)))


def with_bias(y: Real, bias: Real) -> Real:
    """A convolution's result and its bias for each channel."""
    return reals.add(y, in_units_of(y, per_channel(bias, y.ndim)))


def in_units_of(y: Real, bias: Real) -> Real:
    """The bias; its scales are those of `y` where they are the float32 nearest to them."""
    a, b = y.single, bias.single
    if a is None or b is None or b.grid is None or b.grid < 0:
        return bias
    none = np.zeros((1,) * b.x.ndim, np.int32)
    units, own = none if a.index is None else a.index, none if b.index is None else b.index
    try:
        if np.broadcast_shapes(units.shape, b.x.shape) != b.x.shape:
            return bias
    except ValueError:
        return bias
    pairs = np.stack(np.broadcast_arrays(units, own), axis=-1)
    unique, places = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    table = []
    for unit, scale in unique.tolist():
        exactly, given = a.table[unit], b.table[scale]
        table.append(exactly if np.float32(float(exactly)) == float(given) else given)
    index = places.reshape(pairs.shape[:-1]).astype(np.int32)
    term = Term(b.x, tuple(table), index if len(table) > 1 else None, b.grid, b.bound)
    return Real([exact.compact(term)], bias.err, bias.dtype)


@operator("Conv")
def conv_operator(step: Step) -> Values:
    return (conv(step, step.real(0), step.real(1), step.real(2) if step.has(2) else None),)


@operator("ConvTranspose")
def conv_transpose(step: Step) -> Values:
    x, w = step.real(0), step.real(1)
    group = step.integer("group", 1)
    filters = w.shape[1] * group

    def apply(a: Array, b: Array) -> Array:
        inputs = [np.asarray(a), np.asarray(b)]
        found = conv_transpose_value(Evaluation(step.opset, inputs, step.attributes, 1))
        if not found:
            raise OracleError("a ConvTranspose with output_shape or auto_pad")
        return found[0]

    def first(index: Index) -> Index | None:
        return index if all(size == 1 for size in index.shape[1:]) else None

    def second(index: Index) -> Index | None:
        if index.shape[0] != 1 or any(size != 1 for size in index.shape[2:]):
            return None
        per = np.tile(index[0].reshape(-1), group)
        return per.reshape(1, filters, *(1,) * (w.ndim - 2))

    count = (w.shape[0] // group) * int(np.prod(w.shape[2:], dtype=np.int64))
    y = contract(x, w, Contraction(apply, first, second, count))
    return (with_bias(y, step.real(2)) if step.has(2) else y,)
