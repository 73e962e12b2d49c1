"""GridSample: interpolation at places that are data.

In: specs of rewrite/plan/specs/resize.py. Out: code. For each point the neighbours along every
dimension and their weights are found once, then all channels are summed up. Arithmetic of places:
the same steps as in https://onnx.ai/onnx/operators/onnx__GridSample.html.
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
from rewrite.plan.specs.resize import GridSample

_CUBIC = -0.75


@dataclass(frozen=True, slots=True)
class Tap:
    """One neighbour along a dimension: its offset in elements, its weight, whether it is there."""

    offset: Value
    weight: Value | None
    inside: Value | None


@emits(GridSample)
def grid_sample(k: Kernel, spec: GridSample) -> None:
    f, rank = k.f, spec.rank
    data, grid, result = (k.pointer(i) for i in range(3))
    channels, points = k.integer(4), k.integer(5 + rank)
    sizes = [k.integer(5 + i) for i in range(rank)]
    reals = [f.cast("sitofp", n, register_type(spec.sums, 0)) for n in sizes]
    steps: list[Int] = [1]
    for size in reversed(sizes):
        steps.insert(0, f.mul(steps[0], size))
    plane, *strides = steps
    kind, grid_kind = memory_type(spec.dtype), memory_type(spec.grid)

    def point(item: Value) -> None:
        batch = f.binary("udiv", item, points)
        within = f.sub(item, f.mul(batch, points))
        here = f.at(grid, f.mul(item, rank), grid_kind)
        taps = []
        for d in range(rank):
            raw = load(f, k.isa, spec.grid, f.at(here, rank - 1 - d, grid_kind), 0)
            place = to_sums(k, spec.grid, spec.sums, raw)
            taps.append(_taps(k, spec, place, sizes[d], reals[d], strides[d]))
        corners = [_corner(k, c) for c in itertools.product(*taps)]
        first = f.mul(f.mul(batch, channels), plane)
        target = f.add(f.mul(f.mul(batch, channels), points), within)

        def channel(c: Value) -> None:
            source = f.at(data, f.add(first, f.mul(c, plane)), kind)
            made = _sum(k, spec, source, corners)
            place = f.at(result, f.add(target, f.mul(c, points)), kind)
            store(f, k.isa, spec.dtype, made, place, 0)

        f.loop(0, channels, channel)

    f.loop(k.begin, k.end, point)


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


def _sum(k: Kernel, spec: GridSample, source: Value, corners: list[Tap]) -> Value:
    """The weighted sum; a single neighbour without weight is moved as it is."""
    f = k.f
    kind = memory_type(spec.dtype)
    total: Value | None = None
    for corner in corners:
        offset = corner.offset
        if corner.inside is not None:
            offset = f.select(corner.inside, offset, f.i64(0))
        x = load(f, k.isa, spec.dtype, f.at(source, offset, kind), 0)
        if corner.inside is not None:
            x = f.select(corner.inside, x, f.zero(x.type))
        if corner.weight is None:
            return x
        term = f.mul(to_sums(k, spec.dtype, spec.sums, x), corner.weight)
        total = term if total is None else f.add(total, term)
    assert total is not None
    return from_sums(k, spec.dtype, total)


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
