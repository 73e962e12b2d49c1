"""Pointwise kernels: a scalar program for every element of a tensor.

In: `Pointwise` in canonical form (rewrite/plan/pointwise.py). Out: a loop nest over all but the
last dimensions and vectors over the last one; where that is shorter than a vector, over several of
the last dimensions together, whose lanes are then known by number; where an operand lies across
the output, in tiles (rewrite/codegen/kernels/pointwise_tile.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.pointwise_site import (
    Fixed,
    Site,
    along,
    block,
    fixed_along,
    load_block,
    ragged,
    single,
    write_block,
)
from rewrite.codegen.kernels.pointwise_tile import tile_of, tiled
from rewrite.codegen.value import Value
from rewrite.plan.spec import Pointwise


@emits(Pointwise)
def pointwise(k: Kernel, spec: Pointwise) -> None:
    """The kernel of one spec."""
    site = Site(k, spec)
    pointers = [k.pointer(i) for i in range(len(site.views))]
    tile = tile_of(site)
    inner = _inner(spec.shape, site.lanes)
    if tile is not None:
        tiled(site, pointers, tile)
    elif inner == 0 and len(spec.shape) == 1:
        _flat(site, pointers)
    elif inner == 0:
        _chunks_of_items(site, pointers)
    else:
        _nest(site, pointers, inner)


# --- one dimension ------------------------------------------------------------------------------


def _flat(site: Site, pointers: Sequence[Value]) -> None:
    """Elements begin … end of the only dimension."""
    f, k = site.f, site.k
    fixed = fixed_along(site, pointers, 0)
    at = _vectors(site, pointers, fixed, k.begin, site.unroll)
    if site.masks and _neighbours(site):
        f.loop(at, k.end, lambda i: _masked(site, pointers, fixed, i), step=site.lanes)
        return
    at = _vectors(site, pointers, fixed, at, 1)
    f.loop(at, k.end, lambda i: single(site, site.moved(pointers, 0, i)))


def _vectors(
    site: Site, pointers: Sequence[Value], fixed: Fixed, start: Value, count: int
) -> Value:
    """As many blocks of `count` vectors as there are; where they end."""
    f, k = site.f, site.k
    step = count * site.lanes
    places = along(site, 0, step)
    f.loop(
        start,
        k.end - step + 1,
        lambda i: block(site, site.moved(pointers, 0, i), places, fixed),
        step=step,
    )
    left = f.select(f.compare("<", start, k.end), k.end - start, 0)
    end: Value = start + f.binary("sdiv", left, step) * step
    return end


def _masked(site: Site, pointers: Sequence[Value], fixed: Fixed, at: Value) -> None:
    """One vector, or what is left of one."""
    f = site.f
    left = site.k.end - at
    used = f.select(f.compare("<", left, site.lanes), left, site.lanes)
    ragged(site, site.moved(pointers, 0, at), used, fixed)


def _neighbours(site: Site) -> bool:
    """Whether elements next to each other in the output are so in all operands that change."""
    steps = [v.strides[0] for v in site.views]
    return set(steps[: site.count]) <= {0, 1} and set(steps[site.count :]) == {1}


# --- several dimensions -------------------------------------------------------------------------


def _inner(shape: Sequence[int], width: int) -> int:
    """The first dimension of those that a vector goes over: the last one, or as many of the last
    as fill a vector; 0 where it takes the work items too."""
    size, axis = 1, len(shape)
    while axis > 0 and size < width:
        axis -= 1
        size *= shape[axis]
        if axis == 0:
            return 0
    return axis


def _nest(site: Site, pointers: Sequence[Value], inner: int) -> None:
    """Loops over dimensions 0 … inner - 1, vectors over the rest."""
    f = site.f

    def descend(axis: int, at: Sequence[Value]) -> None:
        if axis == inner:
            _row(site, at, inner)
            return
        start, stop = site.range(axis)
        f.loop(start, stop, lambda i: descend(axis + 1, site.moved(at, axis, i)))

    descend(0, pointers)


def _row(site: Site, pointers: Sequence[Value], axis: int) -> None:
    """All places of dimensions from `axis` on."""
    if axis == len(site.shape) - 1:
        _last(site, pointers, axis)
        return
    inner = prod(site.shape[axis + 1 :])
    chunk = _chunk(inner, site)
    _chunked(site, pointers, axis, 0, site.shape[axis], min(chunk, site.shape[axis]))


def _last(site: Site, pointers: Sequence[Value], axis: int) -> None:
    """Vectors along the last dimension, whose size is known."""
    f, width, size = site.f, site.lanes, site.shape[axis]
    fixed = fixed_along(site, pointers, axis)
    full = size // width
    main = full // site.unroll * site.unroll
    step = site.unroll * width

    def turn(i: Int, vectors: int) -> None:
        places = along(site, axis, vectors * width)
        block(site, site.moved(pointers, axis, i), places, fixed)

    f.loop(0, main * width, lambda i: turn(i, site.unroll), step=step)
    if full > main:
        turn(main * width, full - main)
    if size % width:
        places = along(site, axis, size % width)
        block(site, site.moved(pointers, axis, full * width), places, fixed)


def _chunk(inner: int, site: Site) -> int:
    """How many rows of `inner` elements are one block: whole vectors, if not too many."""
    width = site.lanes
    most = max(1, site.unroll * 2 * width // inner)
    exact = next((c for c in range(1, most + 1) if c * inner % width == 0), None)
    return exact if exact is not None else most


def _chunks_of_items(site: Site, pointers: Sequence[Value]) -> None:
    k = site.k
    inner = prod(site.shape[1:])
    _chunked(site, pointers, 0, k.begin, k.end, _chunk(inner, site))


def _chunked(
    site: Site, pointers: Sequence[Value], axis: int, start: Int, stop: Int, chunk: int
) -> None:
    """Places start … stop of a dimension in blocks, each with all dimensions behind it."""
    f = site.f
    places = _places(site, axis, chunk)
    fixed = [v.strides[axis] == 0 for v in site.views[: site.count]]
    held = load_block(site, pointers, places, lambda number: fixed[number])
    whole = f.sub(stop, start)
    count = f.divide(whole, chunk) if isinstance(whole, int) else f.binary("sdiv", whole, chunk)
    end = f.add(start, f.mul(count, chunk))

    def chunked(i: Int) -> None:
        at = site.moved(pointers, axis, i)
        loaded = load_block(site, at, places, lambda number: not fixed[number])
        values = [h if same else v for h, v, same in zip(held, loaded, fixed, strict=True)]
        write_block(site, at, places, values, site.lanes)

    f.loop(start, end, chunked, step=chunk)
    if isinstance(end, int) and end == stop:
        return
    one = _places(site, axis, 1)
    f.loop(end, stop, lambda i: block(site, site.moved(pointers, axis, i), one))


def _places(site: Site, axis: int, chunk: int) -> list[list[int]]:
    """Offsets of the elements of a block in row-major order, for each view."""
    ranges = [range(chunk), *(range(n) for n in site.shape[axis + 1 :])]
    found = []
    for view in site.views:
        steps = view.strides[axis:]
        found.append(
            [
                sum(i * s for i, s in zip(at, steps, strict=True))
                for at in itertools.product(*ranges)
            ]
        )
    return found
