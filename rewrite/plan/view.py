"""How the elements of a tensor lie in a buffer.

In: element types, shapes. Out: `View`: shape and strides in elements, and views of views. A view is
part of what a kernel is generated for; its offset is not (it goes into the pointer), so that two
slices of one shape share their code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

# Bytes of one element as it lies in memory. Numpy's packages keep every element narrower than a
# byte in a byte of its own, and so does this runtime.
BYTES: dict[str, int] = {
    "bool": 1, "u8": 1, "s8": 1, "u16": 2, "s16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16,
    "u4": 1, "s4": 1, "u2": 1, "s2": 1, "f4e2m1": 1, "f6e2m3": 1, "f6e3m2": 1,
    "f8e4m3fn": 1, "f8e4m3fnuz": 1, "f8e5m2": 1, "f8e5m2fnuz": 1, "f8e8m0": 1,
}  # fmt: skip

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Element (i, j, …) of the tensor is element i strides[0] + j strides[1] + … of its memory."""

    dtype: str
    shape: Sizes
    strides: Sizes

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the elements (not of the gaps between them)."""
        return self.size * BYTES[self.dtype]

    @property
    def extent(self) -> int:
        """Elements from the first to the last one, both included; strides are not negative."""
        if self.size == 0:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def contiguous(self) -> bool:
        """Row-major without gaps (strides of dimensions of size 1 do not matter)."""
        return self.is_ordered(tuple(range(self.rank)))

    def is_ordered(self, order: Sequence[int]) -> bool:
        """Without gaps, `order[-1]` being the dimension whose elements are neighbours."""
        step = 1
        for axis in reversed(order):
            if self.shape[axis] != 1 and self.strides[axis] != step:
                return self.size == 0
            step *= self.shape[axis]
        return True

    @property
    def dense(self) -> bool:
        """Without gaps, in some order of dimensions."""
        return self.is_ordered(self.order)

    @property
    def order(self) -> Sizes:
        """Dimensions from the widest stride to the narrowest."""
        return tuple(sorted(range(self.rank), key=lambda a: (-self.strides[a], a)))


def strides_of(shape: Sequence[int], order: Sequence[int] | None = None) -> Sizes:
    """Strides without gaps; `order` lists dimensions from outermost to innermost."""
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(range(len(shape)) if order is None else order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def dense(dtype: str, shape: Sequence[int], order: Sequence[int] | None = None) -> View:
    """A new tensor: row-major, or with its dimensions in the order given."""
    return View(dtype, tuple(shape), strides_of(shape, order))


def channels_last(rank: int) -> Sizes:
    """N, spatial dimensions, C: the order of a tensor (N, C, …) whose channels are neighbours."""
    return (0, *range(2, rank), 1)


# --- views of views ----------------------------------------------------------------------------


def permute(view: View, axes: Sequence[int]) -> View:
    """Transpose."""
    return View(
        view.dtype, tuple(view.shape[a] for a in axes), tuple(view.strides[a] for a in axes)
    )


def broadcast(view: View, shape: Sequence[int]) -> View:
    """Expand (numpy's rule): dimensions of size 1 are repeated with stride 0."""
    missing = len(shape) - view.rank
    fits = missing >= 0 and all(
        n in (1, m) for n, m in zip(view.shape, shape[missing:], strict=True)
    )
    assert fits, f"{view.shape} is not broadcast to {tuple(shape)}"
    strides = [0] * missing + [
        0 if n == 1 and m != 1 else s
        for n, m, s in zip(view.shape, shape[missing:], view.strides, strict=True)
    ]
    return View(view.dtype, tuple(shape), tuple(strides))


def sliced(
    view: View, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]
) -> tuple[View, int]:
    """The view, and the offset of its first element in elements; steps may be negative."""
    offset = sum(b * s for b, s in zip(starts, view.strides, strict=True))
    strides = tuple(s * t for s, t in zip(view.strides, steps, strict=True))
    return View(view.dtype, tuple(sizes), strides), offset if prod(sizes) else 0


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """The same elements in row-major order under another shape; None where that needs a copy."""
    if prod(shape) != view.size:
        return None
    if view.size == 0:
        return dense(view.dtype, shape)
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    at = 0
    pending = [n for n in shape if n != 1]
    new_strides: list[int] = []
    i = 0
    while i < len(pending):
        if at >= len(old):
            return None
        have, want, begin, first = old[at][0], pending[i], at, i
        while have != want:
            if have < want:
                at += 1
                have *= old[at][0]
            else:
                i += 1
                want *= pending[i]
        for (_, outer), (n, inner) in zip(old[begin:at], old[begin + 1 : at + 1], strict=True):
            if outer != n * inner:
                return None
        step = old[at][1]
        part: list[int] = []
        for n in reversed(pending[first : i + 1]):
            part.append(step)
            step *= n
        new_strides.extend(reversed(part))
        at += 1
        i += 1
    given = iter(new_strides)
    strides = tuple(next(given) if n != 1 else 0 for n in shape)
    return View(view.dtype, tuple(shape), strides)


def retyped(view: View, dtype: str) -> View:
    return replace(view, dtype=dtype)
