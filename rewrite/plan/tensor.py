"""Tensors of a plan under construction: a view of a buffer.

In: nothing. Out: `Buffer`, `Tensor`. Buffers get their place in memory when all kernels are known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rewrite.plan import view as views
from rewrite.plan.view import BYTES, View

Region = Literal["arena", "constant", "input", "output"]


@dataclass(eq=False, slots=True)
class Buffer:
    """Memory that tensors lie in. `index`: of the input, output or constant; of the arena: none."""

    region: Region
    bytes: int
    index: int = -1
    first: int = -1  # the first and the last call that touches it
    last: int = -1
    reuses: Buffer | None = None  # an arena buffer whose memory it takes over
    offset: int = -1  # in the arena, once memory is planned


@dataclass(frozen=True, slots=True)
class Tensor:
    """Elements of a buffer. `offset` is that of element (0, 0, …), in elements."""

    buffer: Buffer
    view: View
    offset: int = 0

    @property
    def dtype(self) -> str:
        return self.view.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def byte_offset(self) -> int:
        return self.offset * BYTES[self.view.dtype]

    def permuted(self, axes: tuple[int, ...]) -> Tensor:
        """Transpose, without moving anything."""
        return Tensor(self.buffer, views.permute(self.view, axes), self.offset)

    def reshaped(self, shape: tuple[int, ...]) -> Tensor | None:
        """The same elements under another shape; None where they would have to move."""
        view = views.reshaped(self.view, shape)
        return None if view is None else Tensor(self.buffer, view, self.offset)

    def broadcast(self, shape: tuple[int, ...]) -> Tensor:
        return Tensor(self.buffer, views.broadcast(self.view, shape), self.offset)

    def sliced(
        self, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...] | None = None
    ) -> Tensor:
        """Elements start, start + step, … of each dimension."""
        by = steps if steps is not None else (1,) * len(starts)
        view, skipped = views.sliced(self.view, starts, sizes, by)
        return Tensor(self.buffer, view, self.offset + skipped)

    def retyped(self, dtype: str) -> Tensor:
        """The same bytes as another type of the same width."""
        assert BYTES[dtype] == BYTES[self.dtype]
        return Tensor(self.buffer, views.retyped(self.view, dtype), self.offset)

    def like(self, view: View) -> Tensor:
        """Other strides over the same buffer and offset."""
        return Tensor(self.buffer, view, self.offset)


@dataclass(slots=True)
class Draft:
    """A kernel call before memory is planned: words are tensors and integers."""

    spec: object
    words: tuple[Tensor | int, ...]
    items: int
    grain: int
    scratch: int
    flops: int
    nodes: tuple[str, ...]
    label: str
    writes: frozenset[int] = field(default_factory=frozenset)  # which words are outputs
