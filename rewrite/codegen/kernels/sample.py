"""GridSample: interpolation at places that are data.

In: specs of rewrite/plan/specs/resize.py. Out: code. For each point the neighbours along every
dimension and their weights are found once, for all channels. Arithmetic of places: the same steps
as in https://onnx.ai/onnx/operators/onnx__GridSample.html.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.resize import from_sums, to_sums
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.types import suffix
from rewrite.codegen.value import Value
from rewrite.plan.specs.resize import GRID_BLOCK, GridSample

_CUBIC = -0.75


@dataclass(frozen=True, slots=True)
class Tap:
    """One neighbour along a dimension: its offset in elements, its weight, whether it is there."""

    offset: Value
    weight: Value | None
    inside: Value | None


@emits(GridSample)
def grid_sample(k: Kernel, spec: GridSample) -> None:
    """Points in blocks: their neighbours go to scratch, then every channel is summed up."""
    f = k.f
    made = _Sampler(k, spec)

    def block(first: Value) -> None:
        count = f.intrinsic("llvm.smin", "i64", f.sub(k.end, first), GRID_BLOCK)
        f.loop(0, count, lambda j: made.locate(f.add(first, j), j))
        f.loop(0, made.channels, lambda c: made.sum(c, count))

    f.loop(k.begin, k.end, block, step=GRID_BLOCK)


class _Sampler:
    """The operands, and where in scratch a block's neighbours are: for each corner offsets (or -1)
    and weights, for each point its place in the result."""

    def __init__(self, k: Kernel, spec: GridSample) -> None:
        f, rank = k.f, spec.rank
        self.k, self.f, self.spec = k, f, spec
        self.data, self.grid, self.result = (k.pointer(i) for i in range(3))
        self.channels, self.points = k.integer(4), k.integer(5 + rank)
        self.sizes = [k.integer(5 + i) for i in range(rank)]
        self.reals = [f.cast("sitofp", n, register_type(spec.sums, 0)) for n in self.sizes]
        steps: list[Int] = [1]
        for size in reversed(self.sizes):
            steps.insert(0, f.mul(steps[0], size))
        self.plane, *self.strides = steps
        self.corners = {"nearest": 1, "linear": 2, "cubic": 4}[spec.mode] ** rank
        self.kind, self.weight_kind = memory_type(spec.dtype), memory_type(spec.sums)

    def area(self, number: int) -> Value:
        """Scratch for one number of each point of a block."""
        return self.f.at(self.k.scratch, 8 * GRID_BLOCK * number)

    def locate(self, item: Value, j: Value) -> None:
        """The neighbours of a point."""
        k, f, spec = self.k, self.f, self.spec
        batch = f.binary("udiv", item, self.points)
        within = f.sub(item, f.mul(batch, self.points))
        grid_kind = memory_type(spec.grid)
        here = f.at(self.grid, f.mul(item, spec.rank), grid_kind)
        taps = []
        for d in range(spec.rank):
            raw = load(f, k.isa, spec.grid, f.at(here, spec.rank - 1 - d, grid_kind), 0)
            place = to_sums(k, spec.grid, spec.sums, raw)
            taps.append(_taps(k, spec, place, self.sizes[d], self.reals[d], self.strides[d]))
        first = f.mul(f.mul(batch, self.channels), self.plane)
        target = f.add(f.mul(f.mul(batch, self.channels), self.points), within)
        f.store(target, f.at(self.area(0), j, "i64"))
        for number, chosen in enumerate(itertools.product(*taps)):
            corner = _corner(k, chosen)
            offset: Value = f.i64(f.add(first, corner.offset))
            if corner.inside is not None:
                offset = f.select(corner.inside, offset, f.i64(-1))
            f.store(offset, f.at(self.area(1 + number), j, "i64"))
            if corner.weight is not None:
                weights = self.area(1 + self.corners + number)
                f.store(corner.weight, f.at(weights, j, self.weight_kind))

    def sum(self, channel: Value, count: Value) -> None:
        """One channel of all points of a block."""
        f = self.f
        source = f.at(self.data, f.mul(channel, self.plane), self.kind)
        target = f.at(self.result, f.mul(channel, self.points), self.kind)

        def point(j: Value) -> None:
            place = f.load("i64", f.at(self.area(0), j, "i64"))
            made = self.value(source, j)
            store(f, self.k.isa, self.spec.dtype, made, f.at(target, place, self.kind), 0)

        f.loop(0, count, point)

    def value(self, source: Value, j: Value) -> Value:
        """The weighted sum; a single neighbour is moved as it is."""
        k, f, spec = self.k, self.f, self.spec
        total: Value | None = None
        for number in range(self.corners):
            x = self.neighbour(source, f.load("i64", f.at(self.area(1 + number), j, "i64")))
            if self.corners == 1:
                return x
            weights = self.area(1 + self.corners + number)
            weight = f.load(self.weight_kind, f.at(weights, j, self.weight_kind))
            term = f.mul(to_sums(k, spec.dtype, spec.sums, x), weight)
            total = term if total is None else f.add(total, term)
        assert total is not None
        return from_sums(k, spec.dtype, total)

    def neighbour(self, source: Value, offset: Value) -> Value:
        f, isa, dtype = self.f, self.k.isa, self.spec.dtype
        if self.spec.padding != "zeros":
            return load(f, isa, dtype, f.at(source, offset, self.kind), 0)
        there = f.intrinsic("llvm.smax", "i64", offset, 0)
        x = load(f, isa, dtype, f.at(source, there, self.kind), 0)
        return f.select(f.compare("<", offset, 0), f.zero(x.type), x)


def _corner(k: Kernel, taps: tuple[Tap, ...]) -> Tap:
    """Neighbours along all dimensions at once."""
    f = k.f
    found = taps[0]
    for tap in taps[1:]:
        weight = None
        if found.weight is not None and tap.weight is not None:
            weight = f.mul(found.weight, tap.weight)
        inside = found.inside
        if inside is not None and tap.inside is not None:
            inside = f.binary("and", inside, tap.inside)
        found = Tap(f.add(found.offset, tap.offset), weight, inside)
    return found


# --- one dimension -----------------------------------------------------------------------------


def _taps(
    k: Kernel, spec: GridSample, place: Value, size: Value, real: Value, stride: Int
) -> list[Tap]:
    f = k.f
    if spec.align_corners:
        x = f.mul(f.mul(f.add(place, 1.0), 0.5), f.sub(real, 1.0))
        low, high = f.const(0.0, real.type), f.sub(real, 1.0)
    else:
        x = f.mul(f.sub(f.mul(f.add(place, 1.0), real), 1.0), 0.5)
        low, high = f.const(-0.5, real.type), f.sub(real, 0.5)
    if spec.mode == "nearest":
        x = f.intrinsic("llvm.roundeven", x.type, x)
    if spec.padding == "border":
        # Only beyond the borders, which without align_corners are half a pixel further out.
        outside = f.binary("or", f.compare("<", x, low), f.compare(">", x, high))
        edge = _clamp(k, x, f.const(0.0, real.type), f.sub(real, 1.0))
        x = f.select(outside, edge, x)
    elif spec.padding == "reflection":
        x = _reflected(k, x, low, high)
    if spec.mode == "nearest":
        return [_tap(k, spec, x, None, (size, real, low, high), stride)]
    floor = f.intrinsic("llvm.floor", x.type, x)
    ratio = f.sub(x, floor)
    first, weights = (0, _linear(k, ratio)) if spec.mode == "linear" else (-1, _cubic(k, ratio))
    return [
        _tap(k, spec, f.add(floor, float(first + i)), w, (size, real, low, high), stride)
        for i, w in enumerate(weights)
    ]


def _tap(
    k: Kernel,
    spec: GridSample,
    x: Value,
    weight: Value | None,
    bounds: tuple[Value, Value, Value, Value],
    stride: Int,
) -> Tap:
    """A neighbour at the whole number x."""
    f = k.f
    size, _, low, high = bounds
    if spec.padding == "reflection":
        x = _reflected(k, x, low, high)
    index = f.call(f"llvm.fptosi.sat.i64.{suffix(x.type)}", "i64", x)
    if spec.padding == "zeros":
        inside = f.compare("<", index, size, signed=False)
        # What is no number lies nowhere.
        inside = f.binary("and", inside, f.compare("==", x, x))
        return Tap(f.mul(index, stride), weight, inside)
    index = f.intrinsic("llvm.smin", "i64", index, f.sub(size, 1))
    index = f.intrinsic("llvm.smax", "i64", index, 0)
    return Tap(f.mul(index, stride), weight, None)


def _clamp(k: Kernel, x: Value, low: Value, high: Value) -> Value:
    f = k.f
    x = f.select(f.compare("<", x, low), low, x)
    return f.select(f.compare(">", x, high), high, x)


def _reflected(k: Kernel, x: Value, low: Value, high: Value) -> Value:
    """Mirrored at both borders until it lies between them."""
    f = k.f
    span = f.sub(high, low)
    below = f.compare("<", x, low)
    beyond = f.select(below, f.sub(low, x), f.sub(x, high))
    turns = f.intrinsic("llvm.trunc", x.type, f.binary("fdiv", beyond, span))
    rest = f.sub(beyond, f.mul(turns, span))
    half = f.mul(turns, 0.5)
    even = f.compare("==", f.intrinsic("llvm.trunc", x.type, half), half)
    from_low, from_high = f.add(low, rest), f.sub(high, rest)
    # Beyond the low border an even number of turns counts from there, and the other way round.
    at_low = f.binary("xor", f.binary("xor", below, even), True)
    mirrored = f.select(at_low, from_low, from_high)
    outside = f.binary("or", below, f.compare(">", x, high))
    return f.select(outside, mirrored, x)


def _linear(k: Kernel, ratio: Value) -> list[Value]:
    return [k.f.sub(k.f.const(1.0, ratio.type), ratio), ratio]


def _cubic(k: Kernel, r: Value) -> list[Value]:
    """R. Keys, Cubic convolution interpolation for digital image processing, 1981."""
    f, a = k.f, _CUBIC

    def near(d: Value) -> Value:
        inner = f.mul(f.sub(f.mul(d, a + 2), a + 3), d)
        return f.binary("fadd", f.mul(inner, d), 1.0)

    def far(d: Value) -> Value:
        inner = f.add(f.mul(f.sub(f.mul(d, a), 5 * a), d), 8 * a)
        return f.binary("fsub", f.mul(inner, d), 4 * a)

    rest = f.sub(f.const(1.0, r.type), r)
    return [far(f.add(r, 1.0)), near(r), near(rest), far(f.add(rest, 1.0))]
