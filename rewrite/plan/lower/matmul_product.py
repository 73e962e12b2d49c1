"""A batched matrix product as kernel calls: tiles, batches, the epilogue.

In: two factors and where the product goes. Out: calls of `PackPanels` and `Gemm`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.coded import coded
from rewrite.plan.lower.matmul_factors import (
    Factor,
    Right,
    Scheme,
    as_it_lies,
    in_panels,
    plain,
    rows,
)
from rewrite.plan.lower.matmul_tail import Tail, lifted, peeled
from rewrite.plan.packing import offsets, padded
from rewrite.plan.spec import Body
from rewrite.plan.specs.gemm import Gemm, Operand, row_schedule
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES, View

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

__all__ = ["Right", "Scheme", "multiply", "multiply_panels", "plain", "transposed"]

Array = np.ndarray[Any, np.dtype[Any]]

_GRAIN = 1 << 18  # operations that are worth handing to a thread
_BLOCK = 64  # tiles of rows that share the walk over all panels
_TURNED_ROWS = 4  # rows from which on a product with one column is turned around


@dataclass(frozen=True, slots=True)
class _Job:
    """out[..., M, N] = body(bias + left[..., M, K] @ the right factor, given...)."""

    left: Tensor
    out: Tensor
    given: tuple[Tensor, ...]
    body: Body | None
    bias: Array | None
    scheme: Scheme

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.left, self.out, *self.given)

    def over(self, tensors: tuple[Tensor, ...]) -> _Job:
        return replace(self, left=tensors[0], out=tensors[1], given=tensors[2:])


def multiply(
    low: Lowering,
    left: Tensor,
    right: Right,
    out: Tensor,
    tail: Tail,
    scheme: Scheme,
    bias: Array | None = None,
) -> None:
    """out[..., M, N] = tail(bias + left[..., M, K] @ right[..., K, N]), batches broadcast."""
    if prod(out.shape) == 0:
        return
    job = _merged(_job(low, left, out, tail, scheme, bias), right.shape[:-2])
    if _turns(job, right):
        job, right = _turned(low, job, right)
    found = as_it_lies(low, right, scheme, job.out.shape[-2])
    if found is None:
        found = in_panels(low, right, scheme)
    _call(low, replace(job, left=rows(low, job.left, scheme)), found)


def multiply_panels(
    low: Lowering,
    left: Tensor,
    right: Factor,
    out: Tensor,
    tail: Tail,
    scheme: Scheme,
    bias: Array | None = None,
) -> None:
    """The same of factors in the form that the kernel reads: `rows` and `in_panels`."""
    if prod(out.shape):
        job = _job(low, left, out, tail, scheme, bias)
        _call(low, _merged(job, right.shape[:-2]), right)


def _job(
    low: Lowering, left: Tensor, out: Tensor, tail: Tail, scheme: Scheme, bias: Array | None
) -> _Job:
    body, given = _epilogue(low, tail, out)
    whole = scheme.total[0] in "us"  # integers may be added in any order
    if (bias is None or whole) and body is not None and body.steps and not tail.steps:
        row, body, given = peeled(low, body, given, scheme.total)
        bias = bias if row is None else row if bias is None else bias + row
    left = left.broadcast((*out.shape[:-1], left.shape[-1]))
    return _Job(left, out, tuple(given), body, bias, scheme)


def _epilogue(low: Lowering, tail: Tail, out: Tensor) -> tuple[Body | None, list[Tensor]]:
    found = None if tail.inner else low.epilogue()
    epilogue, given = (None, []) if found is None else (found[0].body, list(found[1]))
    body, tensors = tail.joined(epilogue, given)
    own = len(tail.tensors)
    placed = [t.broadcast(out.shape) for t in tensors[:own]]
    for tensor in tensors[own:]:
        reshaped = tensor.reshaped(out.shape)
        assert reshaped is not None, "dimensions of size 1 come and go freely"
        placed.append(reshaped)
    return body, placed


def _merged(job: _Job, batch: tuple[int, ...]) -> _Job:
    """One matrix instead of a batch, where the right factor is the same for all of it."""
    if prod(batch) != 1:
        return job
    count = prod(job.out.shape[:-1])
    flat = [t.reshaped((count, t.shape[-1])) for t in job.tensors]
    found = tuple(t for t in flat if t is not None)
    return job.over(found) if len(found) == len(flat) else job


def _turns(job: _Job, right: Right) -> bool:
    """A product with one column is better computed as one row times the left factor, turned."""
    tall = right.shape[-1] == 1 and job.out.shape[-2] >= _TURNED_ROWS
    return tall and job.scheme.form == "plain" and job.scheme.a == job.scheme.total


def _turned(low: Lowering, job: _Job, right: Right) -> tuple[_Job, Right]:
    """out' = right' left'."""
    whole = job.over(tuple(transposed(t) for t in job.tensors))
    bias = None if job.bias is None else np.broadcast_to(job.bias, (job.out.shape[-2],))
    row = _as_row(low, right, job.scheme)
    if prod(row.shape[:-2]) == 1:
        one = row.reshaped(row.shape[-2:])
        assert one is not None, "dimensions of size 1 come and go freely"
        row = one
    row = row.broadcast((*whole.out.shape[:-1], row.shape[-1]))
    return replace(whole, left=row, bias=bias), Right(whole.left.shape, whole.left)


def _as_row(low: Lowering, right: Right, scheme: Scheme) -> Tensor:
    """A right factor of one column as a left factor of one row."""
    if right.tensor is not None:
        return transposed(right.tensor)
    kind = to_numpy(scheme.total)
    if right.array is not None:
        return low.constant(right.array.astype(kind).swapaxes(-1, -2))
    form = right.form or (lambda w: w)
    key = ("row", right.key, scheme.total)
    return low.packed(right.index, key, lambda w: form(w).astype(kind).swapaxes(-1, -2))


def transposed(tensor: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    rank = len(tensor.shape)
    return tensor.permuted((*range(rank - 2), rank - 1, rank - 2))


def _columns(low: Lowering, tensor: Tensor) -> Tensor:
    """An operand of the epilogue whose columns are neighbours, or all the same."""
    if tensor.view.strides[-1] in (0, 1) or tensor.shape[-1] == 1:
        return tensor
    return low.ordered(tensor, tuple(range(tensor.view.rank)))


# --- the call ----------------------------------------------------------------------------------


def _call(low: Lowering, job: _Job, right: Factor) -> None:
    left, out, scheme, tile = job.left, job.out, job.scheme, right.tile
    *batch, m, n = out.shape
    given = [_columns(low, t) for t in job.given]
    body, scalars, numbers = lifted(None if job.body is None else coded(job.body))
    spec = Gemm(
        form=scheme.form,
        a=scheme.a,
        b=scheme.b,
        total=scheme.total,
        out=out.dtype,
        columns=tile.columns,
        heights=tile.heights,
        right=right.kind,
        body=body,
        operands=tuple(Operand(t.dtype, 0 if n == 1 else t.view.strides[-1]) for t in given),
        scalars=scalars,
    )
    strides = [left.view.strides[:-2], _batch_strides(right, len(batch))]
    strides += [t.view.strides[:-2] for t in (out, *given)]
    table = low.constant(offsets(batch, *strides))
    schedule = row_schedule(m, tile.heights)
    words: list[Tensor | int] = [
        *(_flat(left), _flat(right.tensor)),
        *(_init(low, job.bias, scheme.total, tile.columns), table, low.constant(numbers)),
        *(*given, out),
        *(n, right.steps, left.view.strides[-2], right.panel),
        *(out.view.strides[-2], 0 if job.bias is None else tile.columns),
        *(schedule.height, schedule.whole, schedule.code, schedule.tiles, _BLOCK, right.row),
        *(t.view.strides[-2] for t in given),
    ]
    k = right.shape[-2]
    work = 2 * schedule.height * tile.columns * max(k, 1)
    staged = k * tile.columns * BYTES[scheme.b] if right.kind == "rows" else 0
    low.call(
        spec,
        words,
        items=prod(batch) * schedule.tiles * right.count,
        grain=max(1, _GRAIN // work),
        scratch=max(tile.heights) * tile.columns * BYTES[scheme.total] + staged,
        flops=2 * prod(batch) * m * n * k,
        overwrites=frozenset({5 + len(given)}),
    )


def _batch_strides(right: Factor, rank: int) -> tuple[int, ...]:
    """Strides of the right factor's batch, broadcast to the product's of this rank."""
    if rank == 0:
        return ()
    own = zip(right.shape[:-2], right.batch_strides, strict=True)
    strides = tuple(0 if n == 1 else s for n, s in own)
    return (0,) * (rank - len(strides)) + strides


def _init(low: Lowering, bias: Array | None, total: str, columns: int) -> Tensor:
    """What sums start from: zeros for every panel, or the bias up to whole panels."""
    if bias is None:
        return low.constant(_zeros(total, columns))
    return low.constant(padded(bias.astype(to_numpy(total)), columns))


@cache
def _zeros(total: str, columns: int) -> Array:
    return np.zeros(columns, to_numpy(total))


def _flat(tensor: Tensor) -> Tensor:
    """A factor as words see it: no result may take over its memory."""
    return tensor.like(View(tensor.dtype, (tensor.view.size,), (1,)))
