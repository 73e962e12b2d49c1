"""Sums of products of integers: convolutions and matrix products, without any overflow.

In: integers (zero points taken off). Out: int64 sums.

Products go through float64 where every partial sum stays below 2^53, which makes them exact in
any order; else through int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as every
from math import prod
from typing import Any

import numpy as np

from rewrite.quant.codes import Array, Ints
from rewrite.quant.faults import QuantError
from rewrite.quant.reference.call import Call

_EXACT = 1 << 53


def matmul(a: Array, b: Array) -> Ints:
    """The matrix product, with numpy's rules for ranks and broadcasting."""
    k = a.shape[-1]
    if k and _most(a) * _most(b) * k < _EXACT:
        return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64))).astype(np.int64)
    return np.asarray(np.matmul(a.astype(np.int64), b.astype(np.int64)))


def _most(a: Array) -> int:
    return max(abs(int(a.min())), abs(int(a.max()))) if a.size else 0


@dataclass(frozen=True, slots=True)
class Window:
    """How a kernel moves over the spatial axes: all lists have one element per axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    sizes: tuple[int, ...]  # of the output

    def positions(self) -> list[tuple[int, ...]]:
        """Every element of the kernel."""
        return list(every(*(range(k) for k in self.kernel)))

    def under(self, padded: Array, at: tuple[int, ...]) -> Array:
        """What lies under one element of the kernel, for every output; last axes are spatial."""
        slices = [
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(at, self.dilations, self.sizes, self.strides, strict=True)
        ]
        index: tuple[Any, ...] = (..., *slices)
        return np.asarray(padded[index])

    def pad(self, x: Array, fill: int = 0) -> Array:
        """The operand with its border, and as much behind it as the last window needs."""
        spatial = x.shape[x.ndim - len(self.kernel) :]
        width = [(0, 0)] * (x.ndim - len(self.kernel))
        for i, size in enumerate(spatial):
            span = (self.kernel[i] - 1) * self.dilations[i] + 1
            needed = (self.sizes[i] - 1) * self.strides[i] + span
            width.append((self.before[i], max(self.after[i], needed - size - self.before[i])))
        return np.pad(x, width, constant_values=fill)


def window(call: Call, spatial: Sequence[int], kernel: Sequence[int]) -> Window:
    """From the attributes strides, dilations, pads, auto_pad and ceil_mode."""
    rank = len(kernel)
    if len(spatial) != rank:
        raise QuantError(f"{call.name}: kernel of rank {rank} over {len(spatial)} axes")
    strides = call.integers("strides") or [1] * rank
    dilations = call.integers("dilations") or [1] * rank
    pads = call.integers("pads") or [0] * (2 * rank)
    span = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    auto = call.text("auto_pad", "NOTSET")
    if auto == "VALID":
        pads = [0] * (2 * rank)
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = _same(spatial, span, strides, auto == "SAME_LOWER")
    sizes = []
    for i, size in enumerate(spatial):
        room = size + pads[i] + pads[rank + i] - span[i]
        if room < 0:
            raise QuantError(f"{call.name}: kernel is larger than its operand")
        sizes.append(_count(room, strides[i], call.integer("ceil_mode", 0) != 0, size + pads[i]))
    return Window(
        tuple(kernel), tuple(strides), tuple(dilations),
        tuple(pads[:rank]), tuple(pads[rank:]), tuple(sizes),
    )  # fmt: skip


def _same(
    spatial: Sequence[int], span: Sequence[int], strides: Sequence[int], lower: bool
) -> list[int]:
    before, after = [], []
    for size, k, s in zip(spatial, span, strides, strict=True):
        total = max(0, (-(-size // s) - 1) * s + k - size)
        small, large = total // 2, total - total // 2
        before.append(large if lower else small)
        after.append(small if lower else large)
    return before + after


def _count(room: int, stride: int, ceil: bool, end: int) -> int:
    """Windows on one axis. With ceil_mode, none may start behind the operand."""
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= end else count


def convolve(x: Array, w: Array, shape: Window, group: int) -> Ints:
    """x [N, C, ...] with w [M, C / group, ...]; the border counts as zero."""
    n, channels, m = x.shape[0], x.shape[1], w.shape[0]
    if group < 1 or channels != w.shape[1] * group or m % group:
        raise QuantError(f"{channels} channels, {group} groups, weights {list(w.shape)}")
    kind = _kind(x, w)
    padded = shape.pad(x.astype(kind))
    columns = prod(shape.sizes)
    weights = w.astype(kind).reshape(group, m // group, w.shape[1], *w.shape[2:])
    acc = np.zeros((n, group, m // group, columns), kind)
    for at in shape.positions():
        under = shape.under(padded, at).reshape(n, group, channels // group, columns)
        index: tuple[Any, ...] = (..., *at)
        here = weights[index]
        if channels == group:  # depthwise
            acc += here[None] * under
        else:
            acc += np.matmul(here[None], under)
    return acc.reshape(n, m, *shape.sizes).astype(np.int64)


def _kind(x: Array, w: Array) -> type[np.float64] | type[np.int64]:
    fits = _most(x) * _most(w) * prod(w.shape[1:]) < _EXACT
    return np.float64 if fits else np.int64
