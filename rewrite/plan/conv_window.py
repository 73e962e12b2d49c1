"""Where the windows of convolutions and pools lie: sizes, borders, tables of offsets.

In: one operator with concrete sizes. Out: `Frame`, three spatial dimensions with leading ones where
the operator has fewer, and tables of offsets into a channels-last image.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from rewrite.ops.window import read_window, same_pads
from rewrite.plan.instance import Array, Instance
from rewrite.plan.tensor import Tensor
from rewrite.plan.view import View

Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """A window sliding over (depth, height, width)."""

    sizes: Three
    kernel: Three
    strides: Three
    dilations: Three
    before: Three  # border before the first element
    after: Three  # as the attributes say
    out: Three

    @property
    def pixels(self) -> int:
        return prod(self.out)

    @property
    def taps(self) -> int:
        return prod(self.kernel)

    def reach(self, axis: int) -> int:
        return self.dilations[axis] * (self.kernel[axis] - 1) + 1

    @property
    def padded(self) -> Three:
        """Sizes of the operand with all that windows touch, and nothing that they do not."""
        need = [(self.out[a] - 1) * self.strides[a] + self.reach(a) for a in range(3)]
        return need[0], need[1], need[2]

    @property
    def bordered(self) -> bool:
        """Whether a window touches anything outside of the operand."""
        return any(self.before) or any(p > n for p, n in zip(self.padded, self.sizes, strict=True))


def frame_of(op: Instance, kernel: tuple[int, ...], last: bool = False) -> Frame:
    """From the attributes of a convolution or pool whose operand 0 is (N, C, …), or (N, …, C)
    where channels are `last`."""
    cut = slice(1, -1) if last else slice(2, None)
    spatial, out = op.shape(0)[cut], op.out_shape(0)[cut]
    window = read_window(op, kernel)
    rank = len(kernel)
    pads = [(window.pads[i], window.pads[i + rank]) for i in range(rank)]
    if window.auto_pad.startswith("SAME"):
        pads = [same_pads(window, i, spatial[i]) for i in range(rank)]
    return Frame(
        three(spatial, 1), three(kernel, 1), three(window.strides, 1), three(window.dilations, 1),
        three([b for b, _ in pads], 0), three([e for _, e in pads], 0), three(out, 1),
    )  # fmt: skip


@lru_cache(maxsize=512)
def axis_table(frame: Frame, axis: int, with_border: bool) -> Array:
    """s32[out][3]: the first element of each window inside of the operand, how many are inside, and
    how many count: with those in the border, or the same."""
    size, k, d = frame.sizes[axis], frame.kernel[axis], frame.dilations[axis]
    start = np.arange(frame.out[axis], dtype=np.int64) * frame.strides[axis] - frame.before[axis]
    skipped = -(-np.maximum(0, -start) // d)
    end = np.clip(-(-(size - start) // d), skipped, max(k, 0))
    end = np.maximum(np.minimum(end, k), skipped)
    count = end - skipped
    counted = count
    if with_border:
        counted = np.clip(-(-(size + frame.after[axis] - start) // d), 0, k)
    return narrow(np.stack([start + skipped * d, count, counted], 1))


def whole(spatial: tuple[int, ...]) -> Frame:
    """One window over everything."""
    sizes, ones, none = three(spatial, 1), three((), 1), three((), 0)
    return Frame(sizes, sizes, ones, ones, none, none, ones)


def three(values: tuple[int, ...] | list[int], fill: int) -> Three:
    """Up to three numbers, `fill` before them."""
    a, b, c = (fill,) * (3 - len(values)) + tuple(values)
    return a, b, c


def has_two_or_three(op: Instance) -> bool:
    return 3 <= len(op.shape(0)) <= 5


def image(tensor: Tensor) -> Tensor:
    """(N, C, …) as (N, C, depth, height, width)."""
    view = tensor.view
    missing = 5 - view.rank
    sizes = view.shape[:2] + (1,) * missing + view.shape[2:]
    strides = view.strides[:2] + (0,) * missing + view.strides[2:]
    return tensor.like(View(view.dtype, sizes, strides))


# --- tables -----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def starts(out: Three, steps: Three) -> Array:
    """Where the window of each pixel starts: the sum of index times step."""
    d, h, w = (np.arange(n, dtype=np.int64) * s for n, s in zip(out, steps, strict=True))
    found = d[:, None, None] + h[None, :, None] + w[None, None, :]
    return narrow(found)


@lru_cache(maxsize=256)
def offsets(kernel: Three, steps: Three) -> Array:
    """The same for the elements of a kernel."""
    return narrow(
        np.array([sum(i * s for i, s in zip(at, steps, strict=True)) for at in every(kernel)])
    )


def every(sizes: Three) -> list[tuple[int, ...]]:
    return list(product(*(range(n) for n in sizes)))


def narrow(table: Array) -> Array:
    """A table of s32."""
    flat = table.reshape(-1)
    assert flat.size == 0 or abs(flat).max() < 1 << 31
    return np.ascontiguousarray(flat.astype(np.int32))


@dataclass(frozen=True, slots=True)
class Windows:
    """Which windows: where each pixel's starts, the taps of all of them, elements of one tap.

    `places`: which pixel of the output each one is; None: they follow each other.
    """

    starts: Array
    taps: Array
    run: int
    places: Array | None = None


def windows_of(frame: Frame, sizes: Three, channels: int, groups: int) -> Windows:
    """Over an image of `sizes` that has its borders: rows of the kernel where they lie without
    gaps, else its elements."""
    _, height, width = sizes
    d, h, w = height * width * channels, width * channels, channels
    stride = (frame.strides[0] * d, frame.strides[1] * h, frame.strides[2] * w)
    spread = (frame.dilations[0] * d, frame.dilations[1] * h, frame.dilations[2] * w)
    kernel, run = frame.kernel, channels // groups
    if groups == 1 and (frame.dilations[2] == 1 or kernel[2] == 1):
        run *= kernel[2]
        kernel = (kernel[0], kernel[1], 1)
    return Windows(starts(frame.out, stride), offsets(kernel, spread), run)
