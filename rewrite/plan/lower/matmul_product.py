"""A batched matrix product as kernel calls: layouts, panels, tiles, the epilogue.

In: two factors and where the product goes. Out: calls of `PackPanels` and `Gemm`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.lower.matmul_tail import Tail, peeled
from rewrite.plan.packing import TileShape, offsets, padded, panels, tile_shape
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.gemm import Gemm, Operand, PackPanels, row_schedule
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES, View, dense

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]

_GRAIN = 1 << 18  # operations that are worth handing to a thread
_PACK_GRAIN = 1 << 14  # elements
_BLOCK = 64  # tiles of rows that share the walk over all panels
_SIGN = 0x80

# What sums of products of an element type are computed in.
TOTALS = {"f16": "f32", "bf16": "f32"}


@dataclass(frozen=True, slots=True)
class Scheme:
    """How products are added up (rewrite/codegen/product.py), and the element types that the
    kernel reads. `flip_a`, `flip_b`: bytes change between u8 and s8, 128 more or less."""

    form: str
    a: str
    b: str
    total: str
    group: int = 1
    flip_a: bool = False
    flip_b: bool = False


def plain(dtype: str) -> Scheme:
    """Elements one by one; the left factor is widened beforehand, the right one when loaded."""
    total = TOTALS.get(dtype, dtype)
    return Scheme("plain", total, dtype, total)


@dataclass(frozen=True, slots=True)
class Right:
    """The right factor [..., K, N]: a tensor, or operand `index` of the operator, which is known
    and becomes that by `form` (named by `key`), or an array."""

    shape: tuple[int, ...]
    tensor: Tensor | None = None
    index: int = -1
    key: object = None
    form: Callable[[Array], Array] | None = None
    array: Array | None = None


@dataclass(frozen=True, slots=True)
class Panels:
    """A right factor in panels: [batch..., panels, steps, columns, group]."""

    tensor: Tensor
    shape: tuple[int, ...]  # of the right factor
    tile: TileShape
    steps: int  # along K

    @property
    def batch(self) -> tuple[int, ...]:
        return self.shape[:-2]

    @property
    def count(self) -> int:
        return -(-self.shape[-1] // self.tile.columns)


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
    if prod(out.shape):
        made = in_panels(low, right, scheme)
        multiply_panels(low, rows(low, left, scheme), made, out, tail, scheme, bias)


def multiply_panels(
    low: Lowering,
    left: Tensor,
    right: Panels,
    out: Tensor,
    tail: Tail,
    scheme: Scheme,
    bias: Array | None = None,
) -> None:
    """The same of factors in the form that the kernel reads: `rows` and `in_panels`."""
    body, given = _epilogue(low, tail, out)
    if bias is None and body is not None and body.steps and not tail.steps:
        bias, body, given = peeled(low, body, given, scheme.total)
    left = left.broadcast((*out.shape[:-1], left.shape[-1]))
    left, out, given = _merged(left, out, given, right)
    _call(low, left, right, out, [_columns(low, t) for t in given], body, bias, scheme)


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


# --- factors -----------------------------------------------------------------------------------


def in_panels(low: Lowering, right: Right, scheme: Scheme) -> Panels:
    """The right factor in panels; a known one is packed once per session."""
    *batch, k, n = right.shape
    tile = tile_shape(low.machine, scheme.total, n)
    steps = -(-k // scheme.group)
    panel = steps * scheme.group * tile.columns
    if right.tensor is not None and right.tensor.buffer.region == "constant":
        made = _constant_panels(low, right.tensor, scheme, tile)
    elif right.tensor is not None:
        sizes = (*batch, -(-n // tile.columns), panel)
        made = _packed(low, right.tensor, scheme, tile, sizes)
    elif right.array is not None:
        made = low.constant(_made(right.array, scheme, tile))
    else:
        form = right.form

        def make(array: Array) -> Array:
            return _made(array if form is None else form(array), scheme, tile)

        made = low.packed(right.index, ("panels", right.key, scheme, tile), make)
    return Panels(made, right.shape, tile, steps)


def _constant_panels(low: Lowering, tensor: Tensor, scheme: Scheme, tile: TileShape) -> Tensor:
    """A view of data that are known."""
    data = low.constants[tensor.buffer.index]

    def make(array: Array) -> Array:
        strides = tuple(s * array.itemsize for s in tensor.view.strides)
        start = array.reshape(-1)[tensor.offset :]
        matrix = np.lib.stride_tricks.as_strided(start, tensor.shape, strides, writeable=False)
        return _made(matrix, scheme, tile)

    key = ("panels", tensor.view, tensor.offset, scheme, tile)
    return low.constant(low.weights.packed(data, key, make))


def _made(matrix: Array, scheme: Scheme, tile: TileShape) -> Array:
    if scheme.flip_b:
        matrix = (matrix.view(np.uint8) ^ _SIGN).view(to_numpy(scheme.b))
    matrix = matrix.astype(to_numpy(scheme.b), copy=False)
    made = panels(matrix, tile.columns, scheme.group)
    return made if made.size else np.zeros(1, made.dtype)


def _packed(
    low: Lowering, source: Tensor, scheme: Scheme, tile: TileShape, sizes: tuple[int, ...]
) -> Tensor:
    """A right factor that is not known before the run, in panels."""
    *batch, k, n = source.shape
    if prod(sizes) == 0:
        return low.new(scheme.b, (1,))
    made = low.new(scheme.b, sizes)
    strides = source.view.strides
    table = offsets(batch, strides[:-2], made.view.strides[:-2])
    spec = PackPanels(
        BYTES[source.dtype],
        tile.columns,
        scheme.group,
        _SIGN if scheme.flip_b else 0,
        contiguous=strides[-1] == 1 or n == 1,
    )
    words: list[Tensor | int] = [source, low.constant(table), made, n, k, strides[-2], strides[-1]]
    low.call(spec, words, prod(batch) * sizes[-2], max(1, _PACK_GRAIN // sizes[-1]))
    return made


def rows(low: Lowering, left: Tensor, scheme: Scheme) -> Tensor:
    """The left factor as the kernel reads it: neighbours in K side by side, of type `a`, up to
    whole groups."""
    *lead, k = left.shape
    missing = -k % scheme.group
    flip = scheme.flip_a
    if left.dtype == scheme.a and not missing and (left.view.strides[-1] == 1 or k <= 1):
        return left
    made = low.new(scheme.a, (*lead, k + missing))
    start = (0,) * len(lead)
    target = made.sliced((*start, 0), (*lead, k))
    if flip:
        body = Body(("u8",), (Step("", "BitwiseXor", (0, Constant("u8", _SIGN)), "u8"),), (1,))
        left, target = left.retyped("u8"), target.retyped("u8")
    elif left.dtype != scheme.a:
        body = Body((left.dtype,), (Step("", "Cast", (0,), scheme.a, (("saturate", 1),)),), (1,))
    else:
        body = Body((left.dtype,), (), (0,))
    low.pointwise(body, [left], [target])
    if missing:
        low.fill(made.sliced((*start, k), (*lead, missing)), 0)
    return made


def _merged(
    left: Tensor, out: Tensor, given: list[Tensor], right: Panels
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """One matrix instead of a batch, where the right factor is the same for all of it."""
    if prod(right.batch) != 1:
        return left, out, given
    count = prod(out.shape[:-1])
    flat = [t.reshaped((count, t.shape[-1])) for t in (left, out, *given)]
    if any(t is None for t in flat):
        return left, out, given
    one, two, *rest = (t for t in flat if t is not None)
    return one, two, rest


def _columns(low: Lowering, tensor: Tensor) -> Tensor:
    """An operand of the epilogue whose columns are neighbours, or all the same."""
    if tensor.view.strides[-1] in (0, 1) or tensor.shape[-1] == 1:
        return tensor
    return low.ordered(tensor, tuple(range(tensor.view.rank)))


# --- the call ----------------------------------------------------------------------------------


def _call(
    low: Lowering,
    left: Tensor,
    right: Panels,
    out: Tensor,
    given: list[Tensor],
    body: Body | None,
    bias: Array | None,
    scheme: Scheme,
) -> None:
    *batch, m, n = out.shape
    tile, k = right.tile, right.shape[-2]
    operands = tuple(Operand(t.dtype, 0 if n == 1 else t.view.strides[-1]) for t in given)
    spec = Gemm(
        form=scheme.form,
        a=scheme.a,
        b=scheme.b,
        total=scheme.total,
        out=out.dtype,
        columns=tile.columns,
        heights=tile.heights,
        body=body,
        operands=operands,
    )
    strides = [left.view.strides[:-2], _panel_strides(right, len(batch))]
    strides += [t.view.strides[:-2] for t in (out, *given)]
    table = low.constant(offsets(batch, *strides))
    schedule = row_schedule(m, tile.heights)
    words: list[Tensor | int] = [
        *(_flat(left), _flat(right.tensor)),
        *(_init(low, bias, scheme.total, tile.columns), table, *given, out),
        *(n, right.steps, left.view.strides[-2], right.steps * scheme.group * tile.columns),
        *(out.view.strides[-2], 0 if bias is None else tile.columns),
        *(schedule.height, schedule.whole, schedule.code, schedule.tiles, _BLOCK, 0),
        *(t.view.strides[-2] for t in given),
    ]
    work = 2 * schedule.height * tile.columns * max(k, 1)
    low.call(
        spec,
        words,
        items=prod(batch) * schedule.tiles * right.count,
        grain=max(1, _GRAIN // work),
        scratch=max(tile.heights) * tile.columns * BYTES[scheme.total],
        flops=2 * prod(batch) * m * n * k,
        overwrites=frozenset({4 + len(given)}),
    )


def _init(low: Lowering, bias: Array | None, total: str, columns: int) -> Tensor:
    """What sums start from: zeros for every panel, or the bias up to whole panels."""
    if bias is None:
        return low.constant(_zeros(total, columns))
    return low.constant(padded(bias.astype(to_numpy(total)), columns))


@cache
def _zeros(total: str, columns: int) -> Array:
    return np.zeros(columns, to_numpy(total))


def _panel_strides(right: Panels, rank: int) -> tuple[int, ...]:
    """Strides of the right factor's batch, broadcast to the product's of this rank."""
    if rank == 0:
        return ()
    panel = right.tensor.view.size // max(prod(right.batch), 1)
    view = dense(right.tensor.dtype, (*right.batch, panel))
    own = [0 if n == 1 else s for n, s in zip(right.batch, view.strides, strict=False)]
    return (0,) * (rank - len(own)) + tuple(own)


def _flat(tensor: Tensor) -> Tensor:
    """A factor as words see it: no result may take over its memory."""
    return tensor.like(View(tensor.dtype, (tensor.view.size,), (1,)))
