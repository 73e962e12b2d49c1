"""Weights and biases of convolutions in the panels that their kernels read.

In: weights (out channels, in channels of a group, kernel…), known or not. Out: tensors
[group][panel][tap][k / step][channel][step], and biases padded likewise. What is known is laid out
once; what is not is copied before the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rewrite.plan.conv_steps import Program
from rewrite.plan.instance import Array
from rewrite.plan.lowering import Lowering
from rewrite.plan.spec import Body
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View


@dataclass(frozen=True, slots=True)
class Panels:
    """How one convolution's weights are laid out."""

    groups: int
    channels: int  # out, of one group
    columns: int  # of a panel
    step: int = 1  # neighbours in K that lie side by side
    depth: int = 0  # in channels of a group with those added for `step`; 0: none added

    @property
    def count(self) -> int:
        """Panels of one group."""
        return -(-self.channels // self.columns)

    @property
    def tail(self) -> int:
        """Channels of the last panel of a group; 0: it is whole."""
        return self.channels % self.columns


def packed_array(panels: Panels, w: Array) -> Array:
    """(M, C, taps) as [group][panel][tap][C / step][column][step]: a view, to be copied."""
    g, m, step = panels.groups, panels.channels, panels.step
    taps, c = w.shape[2], w.shape[1]
    depth, rows = panels.depth or c, panels.count * panels.columns
    whole = w.reshape(g, m, c, taps)
    if (rows, depth) != (m, c):
        whole = np.pad(whole, [(0, 0), (0, rows - m), (0, depth - c), (0, 0)])
    cut = whole.reshape(g, panels.count, panels.columns, depth // step, step, taps)
    return cut.transpose(0, 1, 5, 3, 2, 4)


def padded_bias(panels: Panels, bias: Array) -> Array:
    """(M,) as [group][panel][column]."""
    out = np.zeros((panels.groups, panels.count * panels.columns), bias.dtype)
    out[:, : panels.channels] = bias.reshape(panels.groups, panels.channels)
    return out


@lru_cache(maxsize=64)
def no_bias(count: int, dtype: str) -> Array:
    return np.zeros(count, np.dtype(dtype))


def moved_rows(
    low: Lowering,
    panels: Panels,
    source: Tensor,
    inner: Sequence[tuple[int, int]],
    target: Tensor,
    body: Body | None = None,
    others: Sequence[Tensor] = (),
) -> None:
    """Copies (M, …) to [group][panel][…][column] at run time.

    `inner`: size and stride in the source of each dimension between panel and column. Columns that
    pad the last panel are left as they are: what is computed from them is not stored.
    """
    stride = source.view.strides[0]
    g, m, columns = panels.groups, panels.channels, panels.columns
    whole, tail = divmod(m, columns)
    sizes, strides = [n for n, _ in inner], [s for _, s in inner]

    def part(first: int, count: int, width: int) -> None:
        def cut(tensor: Tensor) -> Tensor:
            along = tensor.view.strides[0] if tensor is not source else stride
            steps = strides if tensor is source else [0] * len(strides)
            view = View(
                tensor.dtype, (g, count, *sizes, width),
                (m * along, columns * along, *steps, along),
            )  # fmt: skip
            return Tensor(tensor.buffer, view, tensor.offset + first * columns * along)

        begin = (0, first, *[0] * len(sizes), 0)
        to = target.sliced(begin, (g, count, *sizes, width))
        program = body or Body((source.dtype,), (), (0,))
        low.pointwise(program, [cut(source), *(cut(t) for t in others)], [to])

    if whole:
        part(0, whole, columns)
    if tail:
        part(whole, 1, tail)


def weights(
    low: Lowering,
    index: int,
    panels: Panels,
    dtype: str,
    make: Callable[[Array], Array] | None,
    key: object,
) -> Tensor:
    """Operand `index` in panels of `dtype` (plain form): packed when planning, or copied.

    `make` gives (M, C, taps) from the operand, by default its own elements.
    """
    if low.is_known(index):

        def pack(array: Array) -> Array:
            plain = array.reshape(*array.shape[:2], -1) if make is None else make(array)
            return packed_array(panels, _as(plain, dtype))

        return low.packed(index, ("conv", key, panels, dtype), pack)
    source = low.view(index)
    view = source.view
    inner = [*zip(view.shape[2:], view.strides[2:], strict=True), (view.shape[1], view.strides[1])]
    shape = (panels.groups, panels.count, *(n for n, _ in inner), panels.columns)
    target = low.new(dtype, shape)
    moved_rows(low, panels, source, inner, target, widened(source.dtype, dtype))
    return target


def bias(low: Lowering, index: int, panels: Panels, dtype: str, times: int = 1) -> Tensor:
    """Operand `index` padded to whole panels, in `dtype`; zeros where it is absent. A known one may
    be repeated."""
    count = panels.groups * panels.count * panels.columns
    if not low.op.has(index):
        return low.constant(no_bias(count, NUMPY[dtype]))
    if low.is_known(index):
        return low.packed(
            index, ("bias", panels, dtype),
            lambda b: padded_bias(panels, np.tile(_as(b, dtype), times)),
        )  # fmt: skip
    source = low.view(index)
    target = low.new(dtype, (panels.groups, panels.count, panels.columns))
    moved_rows(low, panels, source, [], target, widened(source.dtype, dtype))
    return target


NUMPY = {"f32": "float32", "f64": "float64", "s32": "int32", "s16": "int16", "s8": "int8"}


def _as(array: Array, dtype: str) -> Array:
    return array.astype(NUMPY[dtype], copy=False)


def widened(dtype: str, to: str) -> Body | None:
    """The program that converts an element; None where the types are one."""
    if dtype == to:
        return None
    program = Program(dtype)
    return program.body(program.cast(0, to))
