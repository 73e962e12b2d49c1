"""RoiAlign and MaxRoiPool: regions of a picture brought to one size.

In: specs of rewrite/plan/specs/window.py. Out: code. Places are computed in float32 (float64 where
elements are), in the order of steps that ONNX's own definition has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.resize import from_sums, to_sums
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.moving import counted, guarded, load_index
from rewrite.codegen.types import suffix
from rewrite.codegen.value import Value
from rewrite.plan.specs.window import MaxRoiPool, RoiAlign


@dataclass(frozen=True, slots=True)
class Picture:
    """Sizes, as integers and as reals."""

    channels: Value
    height: Value
    width: Value
    rows: Value  # of the output
    columns: Value


def _sums(dtype: str) -> str:
    return "f64" if dtype == "f64" else "f32"


def _whole(k: Kernel, x: Value) -> Value:
    """A real without fraction as i64."""
    return k.f.call(f"llvm.fptosi.sat.i64.{suffix(x.type)}", "i64", x)


def _real(k: Kernel, n: Value, like: Value) -> Value:
    return k.f.cast("sitofp", n, like.type)


def _least(k: Kernel, x: Value, low: float) -> Value:
    return k.f.select(k.f.compare(">", x, low), x, k.f.const(low, x.type))


def _bins(k: Kernel, p: Picture, body: Callable[[Value, Value, Value, Value], None]) -> None:
    """All places of a region's output: (channel, row, column, number within the region)."""
    f = k.f

    def channel(c: Value) -> None:
        def row(i: Value) -> None:
            line = f.mul(f.add(f.mul(c, p.rows), i), p.columns)
            f.loop(0, p.columns, lambda j: body(c, i, j, f.add(line, j)))

        f.loop(0, p.rows, row)

    f.loop(0, p.channels, channel)


@emits(RoiAlign)
def roi_align(k: Kernel, spec: RoiAlign) -> None:
    f = k.f
    data, regions, batches, scale_at, result = (k.pointer(i) for i in range(5))
    count, *sizes = (k.integer(i) for i in range(5, 11))
    picture = Picture(*sizes)
    sampling = k.integer(11)
    kind = memory_type(spec.dtype)
    scale = f.load(register_type(_sums(spec.dtype), 0), scale_at)
    offset = 0.5 if spec.half_pixel else 0.0

    def corner(item: Value, which: int) -> Value:
        place = f.at(regions, f.add(f.mul(item, 4), which), kind)
        x = to_sums(k, spec.dtype, _sums(spec.dtype), load(f, k.isa, spec.dtype, place, 0))
        return f.binary("fsub", f.mul(x, scale), offset)

    def direction(item: Value, which: int, bins: Value) -> tuple[Value, Value, Value]:
        """First place, size of a bin, samples of a bin."""
        start = corner(item, which)
        extent = f.sub(corner(item, which + 2), start)
        if not spec.half_pixel:
            extent = _least(k, extent, 1.0)
        size = f.binary("fdiv", extent, _real(k, bins, extent))
        own = _whole(k, f.intrinsic("llvm.ceil", size.type, size))
        return start, size, f.select(f.compare(">", sampling, 0), sampling, own)

    def region(item: Value) -> None:
        batch, fine = counted(f, load_index(f, spec.index, batches, item), count)

        def pool() -> None:
            across = direction(item, 0, picture.columns)
            down = direction(item, 1, picture.rows)
            per_region = f.mul(f.mul(picture.channels, picture.rows), picture.columns)
            target = f.at(result, f.mul(item, per_region), kind)

            def one(c: Value, i: Value, j: Value, number: Value) -> None:
                plane = f.mul(f.add(f.mul(batch, picture.channels), c),
                              f.mul(picture.height, picture.width))  # fmt: skip
                source = f.at(data, plane, kind)
                made = _bin(k, spec, source, picture, (down, i), (across, j))
                store(f, k.isa, spec.dtype, from_sums(k, spec.dtype, made),
                      f.at(target, number, kind), 0)  # fmt: skip

            _bins(k, picture, one)

        guarded(k, fine, pool)

    f.loop(k.begin, k.end, region)


Direction = tuple[tuple[Value, Value, Value], Value]


def _bin(
    k: Kernel,
    spec: RoiAlign,
    source: Value,
    picture: Picture,
    down: Direction,
    across: Direction,
) -> Value:
    """The mean or the greatest of a bin's samples; 0 where it has none."""
    f = k.f
    zero = f.zero(register_type(_sums(spec.dtype), 0))
    samples = f.mul(down[0][2], across[0][2])

    def place(direction: Direction, i: Value) -> Value:
        (start, size, steps), at = direction
        half = f.add(_real(k, i, size), 0.5)
        inside = f.binary("fdiv", f.mul(half, size), _real(k, steps, size))
        return f.binary("fadd", f.add(start, f.mul(_real(k, at, size), size)), inside)

    def row(i: Value, total: Value, first: Value) -> list[Value]:
        y = place(down, i)

        def column(j: Value, sum_: Value, fresh: Value) -> list[Value]:
            x = place(across, j)
            found = _sample(k, spec, source, picture, y, x)
            if not spec.greatest:
                return [f.add(sum_, found), fresh]
            larger = f.binary("or", f.compare(">", found, sum_), fresh)
            return [f.select(larger, found, sum_), f.const(False, "i1")]

        return f.loop(0, across[0][2], column, [total, first])

    total, _ = f.loop(0, down[0][2], row, [zero, f.const(True, "i1")])
    if spec.greatest:
        return total
    divisor = f.intrinsic("llvm.smax", "i64", samples, 1)
    return f.binary("fdiv", total, _real(k, divisor, total))


def _sample(
    k: Kernel, spec: RoiAlign, source: Value, picture: Picture, y: Value, x: Value
) -> Value:
    """Four pixels weighted: their sum, or the greatest of the four products."""
    f = k.f
    kind, sums = memory_type(spec.dtype), _sums(spec.dtype)
    zero = f.zero(x.type)
    within = f.const(True, "i1")
    for place, size in ((y, picture.height), (x, picture.width)):
        within = f.binary("and", within, f.compare(">=", place, -1.0))
        within = f.binary("and", within, f.compare("<=", place, _real(k, size, place)))

    def inside() -> list[Value]:
        top, bottom, ly, hy = _neighbours(k, y, picture.height)
        left, right, lx, hx = _neighbours(k, x, picture.width)
        terms = []
        for row, wy in ((top, hy), (bottom, ly)):
            for column, wx in ((left, hx), (right, lx)):
                at = f.at(source, f.add(f.mul(row, picture.width), column), kind)
                pixel = to_sums(k, spec.dtype, sums, load(f, k.isa, spec.dtype, at, 0))
                terms.append(f.mul(f.mul(wy, wx), pixel))
        found = terms[0]
        for term in terms[1:]:
            if spec.greatest:
                found = f.select(f.compare(">", term, found), term, found)
            else:
                found = f.add(found, term)
        return [found]

    def outside() -> list[Value]:
        if not spec.greatest:
            return [zero]
        # Weights of 0 on the first pixel.
        first = to_sums(k, spec.dtype, sums, load(f, k.isa, spec.dtype, source, 0))
        return [f.mul(first, 0.0)]

    return f.if_(within, inside, outside, 1)[0]


def _neighbours(k: Kernel, place: Value, size: Value) -> tuple[Value, Value, Value, Value]:
    """The pixel before and behind, and how far from each; both are the last one at the edge."""
    f = k.f
    place = _least(k, place, 0.0)
    low = _whole(k, place)
    last = f.sub(size, 1)
    edge = f.compare(">=", low, last)
    before = f.select(edge, last, low)
    behind = f.select(edge, last, f.add(low, 1))
    ratio = f.select(edge, f.zero(place.type), f.sub(place, _real(k, low, place)))
    return before, behind, ratio, f.sub(f.const(1.0, place.type), ratio)


@emits(MaxRoiPool)
def max_roi_pool(k: Kernel, spec: MaxRoiPool) -> None:
    f = k.f
    data, regions, scale_at, result = (k.pointer(i) for i in range(4))
    count, *sizes = (k.integer(i) for i in range(4, 10))
    picture = Picture(*sizes)
    kind, sums = memory_type(spec.dtype), _sums(spec.dtype)
    scale = f.load(register_type(sums, 0), scale_at)

    def number(item: Value, which: int) -> Value:
        place = f.at(regions, f.add(f.mul(item, 5), which), kind)
        return to_sums(k, spec.dtype, sums, load(f, k.isa, spec.dtype, place, 0))

    def edge(item: Value, which: int) -> Value:
        return _whole(k, f.intrinsic("llvm.round", scale.type, f.mul(number(item, which), scale)))

    def direction(item: Value, which: int, bins: Value) -> tuple[Value, Value]:
        """First pixel, size of a bin."""
        start, end = edge(item, which), edge(item, which + 2)
        extent = f.intrinsic("llvm.smax", "i64", f.add(f.sub(end, start), 1), 1)
        return start, f.binary("fdiv", _real(k, extent, scale), _real(k, bins, scale))

    def region(item: Value) -> None:
        batch, fine = counted(f, _whole(k, number(item, 0)), count)

        def pool() -> None:
            across = direction(item, 1, picture.columns)
            down = direction(item, 2, picture.rows)
            per_region = f.mul(f.mul(picture.channels, picture.rows), picture.columns)
            target = f.at(result, f.mul(item, per_region), kind)

            def one(c: Value, i: Value, j: Value, place: Value) -> None:
                plane = f.mul(f.add(f.mul(batch, picture.channels), c),
                              f.mul(picture.height, picture.width))  # fmt: skip
                rows = _range(k, down, i, picture.height)
                columns = _range(k, across, j, picture.width)
                made = _greatest(k, spec, f.at(data, plane, kind), picture.width, rows, columns)
                store(f, k.isa, spec.dtype, made, f.at(target, place, kind), 0)

            _bins(k, picture, one)

        guarded(k, fine, pool)

    f.loop(k.begin, k.end, region)


def _range(
    k: Kernel, direction: tuple[Value, Value], at: Value, size: Value
) -> tuple[Value, Value]:
    """The pixels of a bin, within the picture."""
    f = k.f
    start, step = direction

    def clamped(rounding: str, place: Value) -> Value:
        edge = f.intrinsic(rounding, step.type, f.mul(_real(k, place, step), step))
        low = f.intrinsic("llvm.smax", "i64", f.add(_whole(k, edge), start), 0)
        return f.intrinsic("llvm.smin", "i64", low, size)

    return clamped("llvm.floor", at), clamped("llvm.ceil", f.add(at, 1))


def _greatest(
    k: Kernel,
    spec: MaxRoiPool,
    source: Value,
    width: Int,
    rows: tuple[Value, Value],
    columns: tuple[Value, Value],
) -> Value:
    """The greatest element; 0 where there is none."""
    f = k.f
    kind = memory_type(spec.dtype)
    zero = f.zero(register_type(spec.dtype, 0))

    def row(i: Value, best: Value, first: Value) -> list[Value]:
        line = f.at(source, f.mul(i, width), kind)

        def column(j: Value, best: Value, first: Value) -> list[Value]:
            x = load(f, k.isa, spec.dtype, f.at(line, j, kind), 0)
            larger = f.binary("or", f.compare(">", x, best), first)
            return [f.select(larger, x, best), f.const(False, "i1")]

        return f.loop(columns[0], columns[1], column, [best, first])

    best, _ = f.loop(rows[0], rows[1], row, [zero, f.const(True, "i1")])
    return best
