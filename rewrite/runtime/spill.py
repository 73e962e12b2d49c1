"""Large constants in a file, so that they need no memory once kernels have packed them.

In: a program. Out: the same program whose large constants are views of files that are mapped: of
the model's own file, or of a file without a name for those that rewriting has made. `release` gives
their pages back to the system; whoever reads them again (a plan for other sizes) reads the file.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from rewrite.errors import error
from rewrite.graph.tensors import ComputedTensor, map_of
from rewrite.plan.program import Content, Graph, Program
from rewrite.runtime.resident import give_back

Array = np.ndarray[Any, np.dtype[Any]]

LARGE = 1 << 16  # bytes of a constant that is moved
WORTH = 1 << 21  # bytes of all such constants below which nothing is moved


class Spilled:
    """The files behind a program's constants."""

    def __init__(self, program: Program) -> None:
        self._maps: dict[int, mmap.mmap] = {}
        self._computed: list[ComputedTensor] = []
        large = [
            (graph, number)
            for graph in _graphs(program.graph)
            for number, content in graph.constants.items()
            if content.nbytes >= LARGE and not _is_text(content)
        ]
        memory = [(g, n) for g, n in large if not self._is_mapped(g.constants[n])]
        total = sum(_room(graph.constants[number]) for graph, number in memory)
        self.large = total >= WORTH or bool(self._maps)
        if total >= WORTH:
            self._move(memory, total)
        self._give_back_pages()  # of files that rules have read

    def _is_mapped(self, content: Content) -> bool:
        """Whether the content lies in a mapped file, or is computed from what lies there."""
        if isinstance(content, ComputedTensor):
            self._computed.append(content)
            for array in content.recipe.arrays():
                self._is_mapped(array)
            return True
        found = map_of(content)
        if found is not None:
            self._maps[id(found)] = found
        return found is not None

    def _move(self, places: list[tuple[Graph, int]], total: int) -> None:
        try:
            # Written and not copied into a map: pages of a new file that are touched one by one
            # cost several times as much.
            with tempfile.TemporaryFile(buffering=0) as file:
                for graph, number in places:
                    array = np.ascontiguousarray(_array(graph.constants[number]))
                    _write(file, array)
                mapped = mmap.mmap(file.fileno(), total, access=mmap.ACCESS_READ)
        except OSError:  # no room on the disk: they stay where they are
            return
        self._maps[id(mapped)] = mapped
        offset = 0
        for graph, number in places:
            array = _array(graph.constants[number])
            moved = np.frombuffer(mapped, array.dtype, array.size, offset).reshape(array.shape)
            graph.constants[number] = moved
            offset += _room(array)

    def check(self) -> None:
        """Raises RW825 where a file is shorter than it was: reading what it has lost would end the
        process."""
        for mapped in self._maps.values():
            if mapped.size() < len(mapped):
                raise error(
                    "RW825",
                    f"a file of the model has {mapped.size():,} bytes now, and had {len(mapped):,}",
                    hint="compile the model again; write models under another name, then rename",
                )

    def release(self) -> None:
        """The pages of all maps are the system's again; a view reads them anew."""
        for content in self._computed:
            content.drop()
        self._give_back_pages()
        give_back()

    def _give_back_pages(self) -> None:
        for mapped in self._maps.values():
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)

    def clear(self) -> None:
        for content in self._computed:  # the model may still be there
            content.drop()
        self._maps.clear()
        self._computed.clear()


def _write(file: IO[bytes], array: Array) -> None:
    """The elements, and zeros up to where the next array begins."""
    data = memoryview(array.reshape(-1).view(np.uint8).data)
    while data.nbytes:
        data = data[file.write(data) :]
    file.write(bytes(_room(array) - array.nbytes))


def _room(array: Content) -> int:
    return -(-array.nbytes // 64) * 64


def _is_text(content: Content) -> bool:
    return isinstance(content, np.ndarray) and content.dtype.kind == "O"


def _array(content: Content) -> Array:
    """What is moved is in memory."""
    assert isinstance(content, np.ndarray)
    return content


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for op in graph.ops:
        for inner in op.graphs():
            yield from _graphs(inner)
