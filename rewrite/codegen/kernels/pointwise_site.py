"""What the loops of pointwise kernels share: a kernel being written, and blocks of its places.

In: `Pointwise`. Out: `Site`; loads, programs and stores for places whose offsets are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rewrite.codegen.body import emit_bodies
from rewrite.codegen.gather import (
    first_lanes,
    has_masks,
    load_at,
    load_masked,
    store_at,
    store_masked,
)
from rewrite.codegen.ir import Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.memory import memory_type, register_type, to_memory, to_register
from rewrite.codegen.types import bits, lanes, vector
from rewrite.codegen.value import Value
from rewrite.ops import registry
from rewrite.plan.spec import Body, Pointwise
from rewrite.plan.view import View

# What lanes without an element hold: no division stumbles over it.
SPARE = 1
_SHORT_ROW = 8  # shorter rows are moved several at a time
_APPROXIMATION = 4  # what an elementary function costs, beside a step that is exact
_LONG, _VERY_LONG = 24, 96  # programs that are unrolled less, and not at all


@dataclass
class Site:
    """A kernel being written: how wide its vectors are, how often it is unrolled."""

    k: Kernel
    spec: Pointwise

    def __post_init__(self) -> None:
        self.f = self.k.f
        self.views: tuple[View, ...] = (*self.spec.operands, *self.spec.outputs)
        self.count = len(self.spec.operands)
        self.lanes = self._lanes()
        self.unroll = _unroll(self.spec.body, self.k.isa)
        self.shape = self.spec.shape
        self.masks = has_masks(self.k.isa)

    def _lanes(self) -> int:
        """As many as fill a register; to move short rows, no more than a row has."""
        full = lanes_of(self.k.isa.vector_bytes, self.spec.body, self.spec.outputs)
        row = self.spec.shape[-1]
        if self.spec.body.steps or len(self.spec.shape) == 1 or row < _SHORT_ROW:
            return full
        return min(full, 1 << (row.bit_length() - 1))

    def stride(self, view: int, axis: int) -> int:
        return self.views[view].strides[axis]

    def range(self, axis: int) -> tuple[Int, Int]:
        """The indices of a dimension: those of the first one are the work items."""
        return (self.k.begin, self.k.end) if axis == 0 else (0, self.shape[axis])

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


def _unroll(body: Body, isa: Isa) -> int:
    """Vectors at a time: several chains of dependent instructions, but not too much code."""
    cost = 0
    for step in body.steps:
        definition = registry.find(step.domain, step.name)
        exact = definition is None or definition.evaluation in (None, registry.EXACT)
        cost += 1 if exact else _APPROXIMATION
    if cost > _VERY_LONG:
        return 1
    return 4 if cost <= _LONG and isa.registers >= 32 else 2


def lanes_of(vector_bytes: int, body: Body, outputs: Sequence[View]) -> int:
    """Lanes such that the widest values fill a vector register; two at least."""
    dtypes = [*body.dtypes, *(s.dtype for s in body.steps), *(v.dtype for v in outputs)]
    widest = max(bits(register_type(d, 0)) for d in dtypes)
    return max(2, 8 * vector_bytes // max(8, widest))


# --- blocks: places whose offsets are known -----------------------------------------------------

Places = Sequence[Sequence[int]]  # for each view, offsets in the order of lanes


def load_block(
    site: Site, pointers: Sequence[Value], places: Places, wanted: Callable[[int], bool]
) -> list[list[Value]]:
    """The registers of each wanted operand."""
    f, isa = site.f, site.k.isa
    found: list[list[Value]] = []
    for number in range(site.count):
        if not wanted(number):
            found.append([])
            continue
        dtype = site.views[number].dtype
        raws = [
            load_at(f, memory_type(dtype), pointers[number], part, site.lanes, SPARE, site.masks)
            for part in parts(places[number], site.lanes)
        ]
        found.append([to_register(f, isa, dtype, raw) for raw in raws])
    return found


def write_block(
    site: Site,
    pointers: Sequence[Value],
    places: Places,
    loaded: Sequence[Sequence[Value]],
    width: int,
) -> None:
    """Computes and stores all vectors of a block whose operands are in registers."""
    f, isa, body = site.f, site.k.isa, site.spec.body
    vectors = [parts(p, width) for p in places]
    sets = [[v[number] for v in loaded] for number in range(len(vectors[0]))]
    for number, values in enumerate(emit_bodies(f, isa, body, sets, site.fault)):
        for k, value in enumerate(values):
            output = site.count + k
            dtype = site.views[output].dtype
            full = f.splat(value, register_type(dtype, width))
            raw = to_memory(f, isa, dtype, full)
            store_at(f, raw, pointers[output], vectors[output][number], site.masks)


def parts(places: Sequence[int], width: int) -> list[Sequence[int]]:
    """The places of one vector after another."""
    step = max(width, 1)
    return [places[i : i + step] for i in range(0, len(places), step)]


def along(site: Site, axis: int, count: int) -> list[list[int]]:
    """Offsets of the first places of one dimension, for each view."""
    return [[i * v.strides[axis] for i in range(count)] for v in site.views]


Fixed = Sequence[Value | None]


def fixed_along(site: Site, pointers: Sequence[Value], axis: int) -> list[Value | None]:
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


def block(
    site: Site, pointers: Sequence[Value], places: Places, fixed: Fixed | None = None
) -> None:
    """Loads what is not fixed, computes and stores."""
    held = fixed if fixed is not None else [None] * site.count
    loaded = load_block(site, pointers, places, lambda number: held[number] is None)
    vectors = -(-len(places[0]) // site.lanes)
    full = [
        [same] * vectors if same is not None else values
        for same, values in zip(held, loaded, strict=True)
    ]
    write_block(site, pointers, places, full, site.lanes)


def single(site: Site, pointers: Sequence[Value]) -> None:
    """One element."""
    f, isa = site.f, site.k.isa
    values = []
    for number in range(site.count):
        dtype = site.views[number].dtype
        values.append(to_register(f, isa, dtype, f.load(memory_type(dtype), pointers[number])))
    write_block(site, pointers, [[0]] * len(site.views), [[v] for v in values], 0)


def ragged(site: Site, pointers: Sequence[Value], used: Value, fixed: Fixed) -> None:
    """Fewer places than lanes along the first dimension, all of them neighbours: one vector."""
    f, isa, width = site.f, site.k.isa, site.lanes
    mask = first_lanes(f, used, width)
    values: list[Value] = []
    for number, same in enumerate(fixed):
        dtype = site.views[number].dtype
        if same is not None:
            values.append(same)
            continue
        whole = vector(memory_type(dtype), width)
        raw = load_masked(f, whole, pointers[number], mask, SPARE)
        values.append(to_register(f, isa, dtype, raw))
    (results,) = emit_bodies(f, isa, site.spec.body, [values], site.fault)
    for k, value in enumerate(results):
        dtype = site.views[site.count + k].dtype
        raw = to_memory(f, isa, dtype, f.splat(value, register_type(dtype, width)))
        store_masked(f, raw, pointers[site.count + k], mask)
