"""Pointwise kernels with operands that lie across the output: transposes.

In: a `Site` some of whose operands have their neighbours along another dimension q than the
output's p. Out: loops over square tiles of q and p. The tile of such an operand is loaded along q,
transposed in registers, and used along p: directly where elements are only moved, else by way of
the stack, so that the program is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.codegen.gather import load_at, store_at
from rewrite.codegen.ir import Int
from rewrite.codegen.kernels.pointwise_site import Site, along, block, fixed_along
from rewrite.codegen.memory import memory_type
from rewrite.codegen.transpose import transposed
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value

_LARGEST = 16  # rows of a tile
_SMALLEST = 4  # below it, elements are gathered


@dataclass(frozen=True, slots=True)
class Tile:
    """`size` indices of dimension `axis` by as many of the last one."""

    axis: int
    size: int


def tile_of(site: Site) -> Tile | None:
    """The tiles for operands that lie across the output; None where there are none."""
    last = len(site.shape) - 1
    for number in range(site.count):
        if last == 0 or site.stride(number, last) in (0, 1):
            continue
        for axis in range(last):
            if site.stride(number, axis) != 1:
                continue
            most = site.shape[last] if axis == 0 else min(site.shape[last], site.shape[axis])
            size = min(site.lanes, _LARGEST, 1 << (most.bit_length() - 1))
            if size >= _SMALLEST:
                return Tile(axis, size)
    return None


def tiled(site: Site, pointers: Sequence[Value], tile: Tile) -> None:
    """Loops over all dimensions, over that of the tile and the last one in tiles."""
    last = len(site.shape) - 1

    def descend(at: Sequence[Value], dim: int, whole: bool) -> None:
        if dim == last:
            if whole:
                _tile_row(site, at, tile)
            else:
                _plain_row(site, at)
            return
        start, stop = site.range(dim)
        if dim != tile.axis:
            site.f.loop(start, stop, lambda i: descend(site.moved(at, dim, i), dim + 1, whole))
            return
        middle = _rounded_down(site, start, stop, tile.size)
        site.f.loop(
            start, middle, lambda i: descend(site.moved(at, dim, i), dim + 1, True), step=tile.size
        )
        site.f.loop(middle, stop, lambda i: descend(site.moved(at, dim, i), dim + 1, False))

    descend(pointers, 0, True)


def _rounded_down(site: Site, start: Int, stop: Int, step: int) -> Int:
    """Where the last whole step from `start` on ends."""
    f = site.f
    if isinstance(start, int) and isinstance(stop, int):
        return start + (stop - start) // step * step
    return f.add(start, f.mul(f.binary("sdiv", f.sub(stop, start), step), step))


def _plain_row(site: Site, pointers: Sequence[Value]) -> None:
    """One index: vectors along the last dimension, gathered where need be."""
    last, width = len(site.shape) - 1, site.lanes
    fixed = fixed_along(site, pointers, last)
    size = site.shape[last]
    full = size // width * width
    places = along(site, last, width)
    site.f.loop(
        0, full, lambda i: block(site, site.moved(pointers, last, i), places, fixed), step=width
    )
    if size > full:
        rest = along(site, last, size - full)
        block(site, site.moved(pointers, last, full), rest, fixed)


def _tile_row(site: Site, pointers: Sequence[Value], tile: Tile) -> None:
    """As many indices as a tile has, the whole last dimension."""
    last, step = len(site.shape) - 1, tile.size
    size = site.shape[last]
    full = size // step * step
    write = _write_tile if site.spec.body.steps else _move_tile

    def turn(i: Int) -> None:
        write(site, site.moved(pointers, last, i), tile)

    site.f.loop(0, full, turn, step=step)
    if size == full:
        return
    rest = along(site, last, size - full)

    def plain(j: Int) -> None:
        at = site.moved(site.moved(pointers, last, full), tile.axis, j)
        block(site, at, rest)

    site.f.loop(0, step, plain)


def _turned(site: Site, number: int, tile: Tile) -> bool:
    last = len(site.shape) - 1
    return site.stride(number, tile.axis) == 1 and site.stride(number, last) not in (0, 1)


def _columns(site: Site, pointer: Value, number: int, tile: Tile) -> list[Value]:
    """A tile as it lies in memory: one vector along the last dimension for each of its indices."""
    f, view, step = site.f, site.views[number], tile.size
    name = memory_type(view.dtype)
    stride = view.strides[len(site.shape) - 1]
    rows = [
        load_at(f, name, f.at(pointer, i * stride, name), range(step), step) for i in range(step)
    ]
    return transposed(f, rows)


def _move_tile(site: Site, pointers: Sequence[Value], tile: Tile) -> None:
    """Nothing is computed: what is loaded is stored."""
    step, body = tile.size, site.spec.body
    last = len(site.shape) - 1
    places = along(site, last, step)
    loaded: dict[int, list[Value]] = {}
    for number in range(site.count):
        if _turned(site, number, tile):
            loaded[number] = _columns(site, pointers[number], number, tile)
            continue
        name = memory_type(site.views[number].dtype)
        loaded[number] = [
            load_at(site.f, name, row[number], places[number], step)
            for row in (site.moved(pointers, tile.axis, j) for j in range(step))
        ]
    for j in range(step):
        row = site.moved(pointers, tile.axis, j)
        for k, result in enumerate(body.results):
            output = site.count + k
            store_at(site.f, loaded[result][j], row[output], places[output])


def _write_tile(site: Site, pointers: Sequence[Value], tile: Tile) -> None:
    """The program for each index, on rows of the tiles kept on the stack."""
    f, step = site.f, tile.size
    last = len(site.shape) - 1
    kept: dict[int, Value] = {}
    for number in range(site.count):
        if not _turned(site, number, tile):
            continue
        name = memory_type(site.views[number].dtype)
        slot = f.slot(vector(name, step), count=step)
        for j, column in enumerate(_columns(site, pointers[number], number, tile)):
            f.store(column, f.at(slot, j * step, name))
        kept[number] = slot
    places = along(site, last, step)
    for number in kept:
        places[number] = list(range(step))

    def turn(j: Int) -> None:
        at = site.moved(pointers, tile.axis, j)
        for number, slot in kept.items():
            name = memory_type(site.views[number].dtype)
            at[number] = f.at(slot, f.mul(j, step), name)
        block(site, at, places)

    f.loop(0, step, turn)
