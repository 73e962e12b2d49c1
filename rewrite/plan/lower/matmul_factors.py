"""The factors of a matrix product in the form that the kernel reads.

In: operands, known or not. Out: tensors whose neighbours in K lie side by side (left), and panels,
or the matrix as it lies where packing it would cost more than it saves (right).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.packing import TileShape, narrow_shape, offsets, panels_view, tile_shape
from rewrite.plan.spec import Body, Constant, Step
from rewrite.plan.specs.gemm import PackPanels
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import BYTES

if TYPE_CHECKING:
    from rewrite.plan.lowering import Lowering

Array = np.ndarray[Any, np.dtype[Any]]

_PACK_GRAIN = 1 << 14  # elements
_SIGN = 0x80
_FEW_ROWS = 16  # so few do not pay for packing the other factor
_DOT_ROWS = 4  # for so few, columns are read as they lie, too

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
class Factor:
    """A right factor [..., K, N] as the kernel reads it; see `Gemm` for `kind`.

    `panel`, `row`: strides in elements, from one panel to the next, and from one row or column to
    the next where it is not in panels.
    """

    kind: str
    tensor: Tensor
    shape: tuple[int, ...]
    tile: TileShape
    steps: int  # along K
    panel: int
    row: int
    batch_strides: tuple[int, ...]

    @property
    def count(self) -> int:
        """Panels."""
        return -(-self.shape[-1] // self.tile.columns)


# --- the right factor --------------------------------------------------------------------------


def as_it_lies(low: Lowering, right: Right, scheme: Scheme, rows: int) -> Factor | None:
    """The right factor where it lies, for few rows of the left one; None where panels pay."""
    tensor = right.tensor
    if tensor is None or tensor.buffer.region == "constant" or scheme.form != "plain":
        return None
    *batch, k_stride, n_stride = tensor.view.strides
    k, n = right.shape[-2:]
    if n_stride == 1 and rows <= _FEW_ROWS:
        tile = tile_shape(low.machine, scheme.total, n)
        if rows <= 2:
            tile = narrow_shape(low.machine, scheme.total, n)
        return Factor("rows", tensor, right.shape, tile, k, tile.columns, k_stride, tuple(batch))
    if k_stride == 1 and rows <= _DOT_ROWS and scheme.a == scheme.total:
        columns = max(low.machine.lanes(scheme.total), 8)
        tile = TileShape((1,), columns)
        panel = columns * n_stride
        return Factor("columns", tensor, right.shape, tile, k, panel, n_stride, tuple(batch))
    return None


def in_panels(low: Lowering, right: Right, scheme: Scheme) -> Factor:
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
    whole = -(-n // tile.columns) * panel
    sizes = tuple(whole * prod(batch[i + 1 :]) for i in range(len(batch)))
    return Factor("panels", made, right.shape, tile, steps, panel, 0, sizes)


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
    made = panels_view(matrix, tile.columns, scheme.group)
    return made if made.size else np.zeros(1, made.dtype)


def _packed(
    low: Lowering, source: Tensor, scheme: Scheme, tile: TileShape, sizes: tuple[int, ...]
) -> Tensor:
    """A right factor that is not known before the run, in panels."""
    *batch, k, n = source.shape
    if prod(sizes) == 0:
        return low.new(scheme.b, (1,))
    made = low.new(scheme.b, sizes)
    strides, own = source.view.strides, made.view.strides[:-2]
    size, group = BYTES[source.dtype], scheme.group
    if _as_words(source, group):
        # Groups that lie together are moved as one element.
        strides = (*(s // group for s in strides[:-2]), 1, strides[-1] // group)
        own = tuple(s // group for s in own)
        size, k, group = size * group, k // group, 1
    table = offsets(batch, strides[:-2], own)
    near = "n" if strides[-1] == 1 or n == 1 else "k" if strides[-2] == 1 else ""
    mask = int.from_bytes(bytes([_SIGN]) * size, "little") if scheme.flip_b else 0
    spec = PackPanels(size, tile.columns, group, mask, near)
    words: list[Tensor | int] = [source, low.constant(table), made, n, k, *strides[-2:]]
    low.call(spec, words, prod(batch) * sizes[-2], max(1, _PACK_GRAIN // sizes[-1]))
    return made


def _as_words(source: Tensor, group: int) -> bool:
    """Whether the elements of a group lie together, and groups at multiples of their size."""
    *outer, k_stride, n_stride = source.view.strides
    whole = (source.shape[-2], n_stride, *outer)
    return group * BYTES[source.dtype] == 4 and k_stride == 1 and not any(s % 4 for s in whole)


# --- the left factor ---------------------------------------------------------------------------


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
