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
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.gemm import Gemm, Operand, PackPanels, row_schedule
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES, View, dense

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]

_GRAIN = 1 << 18  # operations that are worth handing to a thread
_BLOCK = 64  # tiles of rows that share the walk over all panels

# What sums of products of an element type are computed in.
TOTALS = {"f16": "f32", "bf16": "f32", "s8": "s32", "u8": "s32", "s16": "s32", "u16": "s32"}


@dataclass(frozen=True, slots=True)
class Right:
    """The right factor [..., K, N]: a tensor, or operand `index` of the operator, which is known
    and becomes that by `form` (named by `key`)."""

    shape: tuple[int, ...]
    tensor: Tensor | None = None
    index: int = -1
    key: object = None
    form: Callable[[Array], Array] | None = None


@dataclass(frozen=True, slots=True)
class Panels:
    """A right factor in panels: [batch..., panels, steps, columns, group]."""

    tensor: Tensor
    steps: int  # along K
    panel: int  # elements of a panel
    batch: tuple[int, ...]  # of the right factor


@dataclass(frozen=True, slots=True)
class Scheme:
    """How products are added up, and the element types that the kernel reads."""

    form: str
    a: str
    b: str
    total: str
    group: int = 1


def plain(dtype: str, total: str | None = None) -> Scheme:
    """Elements one by one."""
    total = total or TOTALS.get(dtype, dtype)
    return Scheme("plain", total if dtype in TOTALS else dtype, dtype, total)


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
    n, k = right.shape[-1], right.shape[-2]
    shape = tile_shape(low.machine, scheme.total, n)
    body, given = _epilogue(low, tail, out)
    if bias is None and body is not None and not tail.steps:
        bias, body, given = peeled(low, body, given, scheme.total)
    packed = _panels(low, right, scheme, shape)
    left = left.broadcast((*out.shape[:-2], out.shape[-2], k))
    left, out, given = _merged(left, out, given, packed)
    left = _rows(low, left, scheme)
    given = [_columns(low, t) for t in given]
    _call(low, left, packed, out, given, body, bias, scheme, shape, k)


def _epilogue(low: Lowering, tail: Tail, out: Tensor) -> tuple[Body | None, list[Tensor]]:
    found = low.epilogue()
    epilogue, given = (None, []) if found is None else (found[0].body, list(found[1]))
    body, tensors = tail.joined(epilogue, given)
    placed = []
    for tensor in tensors:
        reshaped = tensor.reshaped(out.shape) if tensor.shape != out.shape else tensor
        assert reshaped is not None, "dimensions of size 1 come and go freely"
        placed.append(reshaped)
    return body, placed


def _panels(low: Lowering, right: Right, scheme: Scheme, shape: TileShape) -> Panels:
    *batch, k, n = right.shape
    steps = -(-k // scheme.group)
    count = -(-n // shape.columns)
    panel = steps * scheme.group * shape.columns
    if right.tensor is None:
        tensor = _known_panels(low, right, scheme, shape)
    else:
        tensor = _packed(low, right.tensor, scheme, shape, (*batch, count, panel))
    return Panels(tensor, steps, panel, tuple(batch))


def _known_panels(low: Lowering, right: Right, scheme: Scheme, shape: TileShape) -> Tensor:
    form = right.form

    def make(array: Array) -> Array:
        matrix = array if form is None else form(array)
        made = panels(matrix.astype(to_numpy(scheme.b), copy=False), shape.columns, scheme.group)
        return made if made.size else np.zeros(1, made.dtype)

    key = ("panels", right.key, scheme.b, shape.columns, scheme.group)
    return low.packed(right.index, key, make)


def _packed(
    low: Lowering, source: Tensor, scheme: Scheme, shape: TileShape, sizes: tuple[int, ...]
) -> Tensor:
    """A right factor that is not known before the run, in panels."""
    *batch, k, n = source.shape
    made = low.new(scheme.b, sizes if prod(sizes) else (1,))
    if prod(sizes) == 0:
        return made
    strides = source.view.strides
    table = offsets(batch, strides[:-2], made.view.strides[:-2])
    spec = PackPanels(
        BYTES[source.dtype], shape.columns, scheme.group, contiguous=strides[-1] == 1 or n == 1
    )
    words = [source, low.constant(table), made, n, k, strides[-2], strides[-1]]
    low.call(spec, words, prod(batch) * sizes[-2], max(1, (1 << 14) // sizes[-1]))
    return made


def _merged(
    left: Tensor, out: Tensor, given: list[Tensor], packed: Panels
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """One matrix instead of a batch, where the right factor is the same for all of it."""
    if prod(packed.batch) != 1:
        return left, out, given
    rows = prod(out.shape[:-1])
    flat = [t.reshaped((rows, t.shape[-1])) for t in (left, out, *given)]
    if any(t is None for t in flat):
        return left, out, given
    one, two, *rest = (t for t in flat if t is not None)
    return one, two, rest


def _rows(low: Lowering, left: Tensor, scheme: Scheme) -> Tensor:
    """The left factor as the kernel reads it: neighbours in K side by side, of type `a`."""
    if left.dtype != scheme.a:
        made = low.new(scheme.a, left.shape)
        cast = Step("", "Cast", (0,), scheme.a, (("saturate", 1),))
        low.pointwise(Body((left.dtype,), (cast,), (1,)), [left], [made])
        return made
    if left.view.strides[-1] == 1 or left.shape[-1] <= 1:
        return left
    made = low.new(left.dtype, left.shape)
    low.copy(left, made)
    return made


def _columns(low: Lowering, tensor: Tensor) -> Tensor:
    """An operand of the epilogue whose columns are neighbours, or all the same."""
    if tensor.view.strides[-1] in (0, 1) or tensor.shape[-1] == 1:
        return tensor
    return low.ordered(tensor, tuple(range(tensor.view.rank)))


def _call(
    low: Lowering,
    left: Tensor,
    packed: Panels,
    out: Tensor,
    given: list[Tensor],
    body: Body | None,
    bias: Array | None,
    scheme: Scheme,
    shape: TileShape,
    k: int,
) -> None:
    *batch, m, n = out.shape
    operands = tuple(Operand(t.dtype, 0 if n == 1 else t.view.strides[-1]) for t in given)
    spec = Gemm(
        scheme.form, scheme.a, scheme.b, scheme.total, out.dtype, shape.columns, shape.heights,
        True, body, operands,
    )  # fmt: skip
    count = -(-n // shape.columns)
    init = _init(low, bias, scheme.total, shape.columns)
    strides = [left.view.strides[:-2], _panel_strides(packed, batch, count)]
    strides += [t.view.strides[:-2] for t in (out, *given)]
    table = low.constant(offsets(batch, *strides))
    rows = row_schedule(m, shape.heights)
    words: list[Tensor | int] = [_flat(left), _flat(packed.tensor), init, table, *given, out]
    words += [
        n, packed.steps, left.view.strides[-2], packed.panel, out.view.strides[-2],
        0 if bias is None else shape.columns, rows.height, rows.whole, rows.code, rows.tiles,
        _BLOCK, 0,
    ]  # fmt: skip
    words += [t.view.strides[-2] for t in given]
    items = prod(batch) * rows.tiles * count
    work = max(1, 2 * rows.height * shape.columns * max(k, 1))
    low.call(
        spec,
        words,
        items,
        grain=max(1, _GRAIN // work),
        scratch=max(shape.heights) * shape.columns * BYTES[scheme.total],
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


def _panel_strides(packed: Panels, batch: list[int], count: int) -> tuple[int, ...]:
    """Strides of the right factor's batch, broadcast to the product's."""
    view = dense(packed.tensor.dtype, (*packed.batch, count * packed.panel))
    missing = len(batch) - len(packed.batch)
    own = [0 if n == 1 else s for n, s in zip(packed.batch, view.strides, strict=False)]
    return (0,) * missing + tuple(own)


def _flat(tensor: Tensor) -> Tensor:
    """A factor as words see it: no result may take over its memory."""
    return tensor.like(View(tensor.dtype, (tensor.view.size,), (1,)))
