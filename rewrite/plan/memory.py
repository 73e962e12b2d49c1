"""The arena: where each temporary lies.

In: drafts of kernel calls over buffers. Out: offsets, and the size of the arena. A buffer lives
from the first call that touches it to the last; two that do not live at once may share memory. A
call whose result lies exactly as one of its operands may write over it (`reuses`).

First fit by size: the largest buffers are placed first, each at the lowest offset that is free
during its life. It stays within a few per cent of the largest sum of live bytes on the models
tried (tests/plan/test_memory.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.plan.tensor import Buffer, Draft, Tensor

ALIGN = 64


def place(drafts: Sequence[Draft]) -> int:
    """Sets `offset` of every arena buffer; gives the bytes of the arena."""
    buffers = _lives(drafts)
    roots = [b for b in buffers if b.reuses is None]
    placed = _Placed()
    total = 0
    for buffer in sorted(roots, key=lambda b: (-b.bytes, b.first, b.last)):
        size = -(-max(buffer.bytes, 1) // ALIGN) * ALIGN
        buffer.offset = placed.lowest(buffer.first, buffer.last, size)
        placed.add(buffer.first, buffer.last, buffer.offset, size)
        total = max(total, buffer.offset + size)
    for buffer in buffers:
        if buffer.reuses is not None:
            buffer.offset = root(buffer).offset
    return total


def root(buffer: Buffer) -> Buffer:
    """The buffer whose memory this one takes over, in the end."""
    while buffer.reuses is not None:
        buffer = buffer.reuses
    return buffer


def _lives(drafts: Sequence[Draft]) -> list[Buffer]:
    """Every arena buffer with its first and last call; one that takes over another's memory
    prolongs that one's life."""
    found: dict[Buffer, None] = {}
    for number, draft in enumerate(drafts):
        for word in draft.words:
            if isinstance(word, Tensor) and word.buffer.region == "arena":
                if word.buffer not in found:
                    word.buffer.first = number
                    found[word.buffer] = None
                word.buffer.last = number
    buffers = list(found)
    _share(drafts)
    for buffer in buffers:
        if buffer.reuses is not None:
            owner = root(buffer)
            owner.last = max(owner.last, buffer.last)
    return buffers


def _share(drafts: Sequence[Draft]) -> None:
    """A pointwise result takes over an operand that lies the same way and is not needed again."""
    for number, draft in enumerate(drafts):
        if not draft.writes:
            continue
        reads = [
            w for k, w in enumerate(draft.words) if k not in draft.writes and isinstance(w, Tensor)
        ]
        for k in sorted(draft.writes):
            target = draft.words[k]
            if isinstance(target, Tensor) and _fresh(target, number):
                source = next((r for r in reads if _dies(r, target, number, draft)), None)
                if source is not None:
                    target.buffer.reuses = source.buffer


def _fresh(target: Tensor, number: int) -> bool:
    buffer = target.buffer
    return buffer.region == "arena" and buffer.first == number and buffer.reuses is None


def _dies(word: Tensor | int, target: Tensor, number: int, draft: Draft) -> bool:
    if not isinstance(word, Tensor) or word.buffer.region != "arena":
        return False
    source = word.buffer
    same = (
        word.view.shape == target.view.shape
        and word.view.strides == target.view.strides
        and word.offset == target.offset == 0
        and source.bytes == target.buffer.bytes
        and word.view.bytes == target.view.bytes
    )
    return same and source.last == number and _alone(source, draft)


def _alone(source: Buffer, draft: Draft) -> bool:
    """Whether nothing else of this call lies in the source's memory."""
    owner = root(source)
    others = [w for w in draft.words if isinstance(w, Tensor) and w.buffer.region == "arena"]
    return sum(1 for w in others if root(w.buffer) is owner) == 1


class _Placed:
    """Placed buffers, found by time: each slot of time lists those alive in it."""

    def __init__(self) -> None:
        self._slots: dict[int, list[tuple[int, int, int, int]]] = {}

    _SLOT = 16  # calls

    def add(self, first: int, last: int, offset: int, size: int) -> None:
        entry = (offset, size, first, last)
        for slot in range(first // self._SLOT, last // self._SLOT + 1):
            self._slots.setdefault(slot, []).append(entry)

    def lowest(self, first: int, last: int, size: int) -> int:
        """The lowest offset where `size` bytes are free in all calls first … last."""
        alive: dict[tuple[int, int, int, int], None] = {}
        for slot in range(first // self._SLOT, last // self._SLOT + 1):
            for entry in self._slots.get(slot, ()):
                if entry[2] <= last and entry[3] >= first:
                    alive[entry] = None
        offset = 0
        for start, length, _, _ in sorted(alive):
            if start - offset >= size:
                break
            offset = max(offset, start + length)
        return offset
