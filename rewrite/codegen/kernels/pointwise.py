"""Pointwise kernels: a scalar program for every element of a tensor.

In: `Pointwise` in canonical form (rewrite/plan/pointwise.py). Out: a loop nest over all but the
last dimensions and vectors over the last one; where that is shorter than a vector, over several of
the last dimensions together, whose lanes are then known by number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from rewrite.codegen.body import emit_body
from rewrite.codegen.gather import load_at, store_at
from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import memory_type, register_type, to_memory, to_register
from rewrite.codegen.types import bits, lanes
from rewrite.codegen.value import Value
from rewrite.plan.spec import Body, Pointwise
from rewrite.plan.view import View

# What lanes without an element hold: no division stumbles over it.
SPARE = 1


@emits(Pointwise)
def pointwise(k: Kernel, spec: Pointwise) -> None:
    """The kernel of one spec."""
    site = Site(k, spec)
    pointers = [k.pointer(i) for i in range(len(site.views))]
    inner = _inner(spec.shape, site.lanes)
    if inner == 0 and len(spec.shape) == 1:
        _flat(site, pointers)
    elif inner == 0:
        _chunks_of_items(site, pointers)
    else:
        _nest(site, pointers, inner)


@dataclass
class Site:
    """A kernel being written: how wide its vectors are, how often it is unrolled."""

    k: Kernel
    spec: Pointwise

    def __post_init__(self) -> None:
        self.f = self.k.f
        self.views: tuple[View, ...] = (*self.spec.operands, *self.spec.outputs)
        self.count = len(self.spec.operands)
        self.lanes = lanes_of(self.k.isa.vector_bytes, self.spec.body, self.spec.outputs)
        self.unroll = 4 if len(self.spec.body.steps) <= 3 else 2
        self.shape = self.spec.shape

    def stride(self, view: int, axis: int) -> int:
        return self.views[view].strides[axis]

    def moved(self, pointers: Sequence[Value], axis: int, index: Int) -> list[Value]:
        """The addresses of place `index` of a dimension."""
        return [
            self.f.at(p, self.f.mul(index, v.strides[axis]), memory_type(v.dtype))
            for p, v in zip(pointers, self.views, strict=True)
        ]

    def fault(self, code: int, when: Value) -> None:
        if lanes(when.type):
            any_lane = f"llvm.vector.reduce.or.v{lanes(when.type)}i1"
            when = self.f.call(any_lane, "i1", when)
        self.k.fault(code, when)


def lanes_of(vector_bytes: int, body: Body, outputs: Sequence[View]) -> int:
    """Lanes such that the widest values fill a vector register."""
    dtypes = [*body.dtypes, *(s.dtype for s in body.steps), *(v.dtype for v in outputs)]
    widest = max(bits(register_type(d, 0)) for d in dtypes)
    return 8 * vector_bytes // max(8, widest)


# --- blocks: places whose offsets are known -----------------------------------------------------

Loaded = list[Value | None]


def load_block(
    site: Site,
    pointers: Sequence[Value],
    places: Sequence[Sequence[int]],
    wanted: Callable[[int], bool],
) -> list[list[Value]]:
    """The registers of each wanted operand: `places` are its offsets, in the order of lanes."""
    f, isa = site.f, site.k.isa
    found: list[list[Value]] = []
    for number in range(site.count):
        if not wanted(number):
            found.append([])
            continue
        dtype = site.views[number].dtype
        raws = [
            load_at(f, memory_type(dtype), pointers[number], part, site.lanes, SPARE)
            for part in _parts(places[number], site.lanes)
        ]
        found.append([to_register(f, isa, dtype, raw) for raw in raws])
    return found


def write_block(
    site: Site,
    pointers: Sequence[Value],
    places: Sequence[Sequence[int]],
    loaded: Sequence[Sequence[Value]],
    width: int,
) -> None:
    """Computes and stores all vectors of a block whose operands are in registers."""
    f, isa, body = site.f, site.k.isa, site.spec.body
    parts = [_parts(p, width) for p in places]
    results = [
        emit_body(f, isa, body, [v[number] for v in loaded], site.fault)
        for number in range(len(parts[0]))
    ]
    for number, values in enumerate(results):
        for k, value in enumerate(values):
            output = site.count + k
            dtype = site.views[output].dtype
            full = f.splat(value, register_type(dtype, width))
            raw = to_memory(f, isa, dtype, full)
            store_at(f, raw, pointers[output], parts[output][number])


def _parts(places: Sequence[int], width: int) -> list[Sequence[int]]:
    step = max(width, 1)
    return [places[i : i + step] for i in range(0, len(places), step)]


def _steps(site: Site, axis: int, count: int) -> list[list[int]]:
    """Offsets of the first places along one dimension, for each view."""
    return [[i * v.strides[axis] for i in range(count)] for v in site.views]


def _block(site: Site, pointers: Sequence[Value], places: Sequence[Sequence[int]]) -> None:
    write_block(
        site, pointers, places, load_block(site, pointers, places, lambda _: True), site.lanes
    )


# --- one dimension ------------------------------------------------------------------------------


def _flat(site: Site, pointers: Sequence[Value]) -> None:
    """Elements begin … end of the only dimension."""
    f, k = site.f, site.k
    fixed = _fixed(site, pointers, 0)
    at = k.begin
    for vectors in (site.unroll, 1):
        step = vectors * site.lanes
        stop = k.end - step + 1
        places = _steps(site, 0, step)

        def turn(i: Value, places: list[list[int]] = places) -> None:
            _with_fixed(site, site.moved(pointers, 0, i), places, fixed, site.lanes)

        f.loop(at, stop, turn, step=step)
        done = f.binary("sdiv", f.select(f.compare("<", at, k.end), k.end - at, 0), step) * step
        at = at + done

    def single(i: Value) -> None:
        _scalar(site, site.moved(pointers, 0, i))

    f.loop(at, k.end, single)


def _fixed(site: Site, pointers: Sequence[Value], axis: int) -> list[Value | None]:
    """Operands that are the same all along a dimension, in all lanes."""
    f, isa = site.f, site.k.isa
    found: list[Value | None] = []
    for number in range(site.count):
        view = site.views[number]
        if view.strides[axis]:
            found.append(None)
            continue
        raw = load_at(f, memory_type(view.dtype), pointers[number], [0] * site.lanes, site.lanes)
        found.append(to_register(f, isa, view.dtype, raw))
    return found


def _with_fixed(
    site: Site,
    pointers: Sequence[Value],
    places: Sequence[Sequence[int]],
    fixed: Sequence[Value | None],
    width: int,
) -> None:
    loaded = load_block(site, pointers, places, lambda number: fixed[number] is None)
    vectors = -(-len(places[0]) // width)
    full = [
        [same] * vectors if same is not None else values
        for same, values in zip(fixed, loaded, strict=True)
    ]
    write_block(site, pointers, places, full, width)


def _scalar(site: Site, pointers: Sequence[Value]) -> None:
    """One element."""
    f, isa = site.f, site.k.isa
    values = []
    for number in range(site.count):
        dtype = site.views[number].dtype
        values.append(to_register(f, isa, dtype, f.load(memory_type(dtype), pointers[number])))
    write_block(site, pointers, [[0]] * len(site.views), [[v] for v in values], 0)


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
    f, k = site.f, site.k

    def descend(axis: int, at: Sequence[Value]) -> None:
        if axis == inner:
            _row(site, at, inner)
            return
        start, stop = (k.begin, k.end) if axis == 0 else (0, site.shape[axis])
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
    fixed = _fixed(site, pointers, axis)
    full = size // width
    main = full // site.unroll * site.unroll
    step = site.unroll * width

    def turn(i: Int, vectors: int) -> None:
        places = _steps(site, axis, vectors * width)
        _with_fixed(site, site.moved(pointers, axis, i), places, fixed, width)

    f.loop(0, main * width, lambda i: turn(i, site.unroll), step=step)
    if full > main:
        turn(main * width, full - main)
    if size % width:
        places = _steps(site, axis, size % width)
        _with_fixed(site, site.moved(pointers, axis, full * width), places, fixed, width)


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

    def block(i: Int) -> None:
        at = site.moved(pointers, axis, i)
        loaded = load_block(site, at, places, lambda number: not fixed[number])
        values = [h if same else v for h, v, same in zip(held, loaded, fixed, strict=True)]
        write_block(site, at, places, values, site.lanes)

    f.loop(start, end, block, step=chunk)
    if isinstance(end, int) and end == stop:
        return
    one = _places(site, axis, 1)
    f.loop(end, stop, lambda i: _block(site, site.moved(pointers, axis, i), one))


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
