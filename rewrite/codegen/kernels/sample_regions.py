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
from rewrite.codegen.moving import counted, guarded, load_index, nest, row_major
from rewrite.codegen.types import suffix
from rewrite.codegen.value import Value
from rewrite.plan.spec import BAD_SIZE
from rewrite.plan.specs.window import ROI_SAMPLES, MaxRoiPool, RoiAlign

_MOST_SAMPLES = 4096  # of a bin in one direction: a region of infinite size ends in a fault


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
    """Row by row of bins: where samples lie goes to scratch, then every channel is summed up."""
    f = k.f
    made = _Regions(k, spec)

    def region(item: Value) -> None:
        batches, index = made.batches, made.spec.index
        batch, fine = counted(f, load_index(f, index, batches, item), made.count)
        guarded(k, fine, lambda: made.region(item, batch))

    f.loop(k.begin, k.end, region)


@dataclass(frozen=True, slots=True)
class Direction:
    """Bins along one dimension: where the first begins, their size, samples of each."""

    start: Value
    size: Value
    samples: Value


@dataclass(frozen=True, slots=True)
class Sample:
    """Four pixels (their offsets within a channel) and their weights."""

    offsets: tuple[Value, ...]
    weights: tuple[Value, ...]


class _Regions:
    def __init__(self, k: Kernel, spec: RoiAlign) -> None:
        f = k.f
        self.k, self.f, self.spec = k, f, spec
        self.data, self.regions, self.batches, scale, self.result = (k.pointer(i) for i in range(5))
        self.count, *sizes = (k.integer(i) for i in range(5, 11))
        self.picture = Picture(*sizes)
        self.sampling = k.integer(11)
        self.sums = _sums(spec.dtype)
        self.kind, self.weight_kind = memory_type(spec.dtype), memory_type(self.sums)
        self.scale = f.load(register_type(self.sums, 0), scale)
        self.plane = f.mul(self.picture.height, self.picture.width)

    # --- where bins and samples lie ----------------------------------------------------------

    def corner(self, item: Value, which: int) -> Value:
        f = self.f
        place = f.at(self.regions, f.add(f.mul(item, 4), which), self.kind)
        x = to_sums(self.k, self.spec.dtype, self.sums, self.element(place))
        return f.binary("fsub", f.mul(x, self.scale), 0.5 if self.spec.half_pixel else 0.0)

    def element(self, place: Value) -> Value:
        return load(self.f, self.k.isa, self.spec.dtype, place, 0)

    def direction(self, item: Value, which: int, bins: Value) -> Direction:
        f = self.f
        start = self.corner(item, which)
        extent = f.sub(self.corner(item, which + 2), start)
        if not self.spec.half_pixel:
            extent = _least(self.k, extent, 1.0)
        size = f.binary("fdiv", extent, _real(self.k, bins, extent))
        own = _whole(self.k, f.intrinsic("llvm.ceil", size.type, size))
        own = f.intrinsic("llvm.smax", "i64", own, 0)
        return Direction(
            start, size, f.select(f.compare(">", self.sampling, 0), self.sampling, own)
        )

    def place(self, direction: Direction, bin_: Value, sample: Value) -> Value:
        f, size = self.f, direction.size
        half = f.add(_real(self.k, sample, size), 0.5)
        inside = f.binary("fdiv", f.mul(half, size), _real(self.k, direction.samples, size))
        first = f.add(direction.start, f.mul(_real(self.k, bin_, size), size))
        return f.binary("fadd", first, inside)

    def sample(self, y: Value, x: Value) -> Sample:
        """Outside of the picture: weights of 0 on its first pixel."""
        k, f, picture = self.k, self.f, self.picture
        within = f.const(True, "i1")
        for place, size in ((y, picture.height), (x, picture.width)):
            within = f.binary("and", within, f.compare(">=", place, -1.0))
            within = f.binary("and", within, f.compare("<=", place, _real(k, size, place)))
        top, bottom, ly, hy = _neighbours(k, y, picture.height)
        left, right, lx, hx = _neighbours(k, x, picture.width)
        offsets, weights = [], []
        for row, wy in ((top, hy), (bottom, ly)):
            for column, wx in ((left, hx), (right, lx)):
                offset = f.add(f.mul(row, picture.width), column)
                offsets.append(f.select(within, offset, f.i64(0)))
                weights.append(f.select(within, f.mul(wy, wx), f.zero(wy.type)))
        return Sample(tuple(offsets), tuple(weights))

    # --- scratch: offsets, then weights ------------------------------------------------------

    def keep(self, number: Value, sample: Sample) -> None:
        f = self.f
        for part, (offset, weight) in enumerate(zip(sample.offsets, sample.weights, strict=True)):
            at = f.add(f.mul(number, 4), part)
            f.store(offset, f.at(self.k.scratch, at, "i64"))
            f.store(weight, f.at(self.weights, at, self.weight_kind))

    def kept(self, number: Value) -> Sample:
        f = self.f
        at = f.mul(number, 4)
        offsets, weights = [], []
        for part in range(4):
            offsets.append(f.load("i64", f.at(self.k.scratch, f.add(at, part), "i64")))
            place = f.at(self.weights, f.add(at, part), self.weight_kind)
            weights.append(f.load(self.weight_kind, place))
        return Sample(tuple(offsets), tuple(weights))

    @property
    def weights(self) -> Value:
        return self.f.at(self.k.scratch, 4 * 8 * ROI_SAMPLES)

    # --- bins --------------------------------------------------------------------------------

    def region(self, item: Value, batch: Value) -> None:
        f, picture = self.f, self.picture
        across = self.direction(item, 0, picture.columns)
        down = self.direction(item, 1, picture.rows)
        per_bin = f.mul(down.samples, across.samples)
        fits = f.compare("<=", f.mul(picture.columns, per_bin), ROI_SAMPLES)
        channels = f.mul(item, picture.channels)
        source = f.mul(f.mul(batch, picture.channels), self.plane)

        def row(i: Value) -> None:
            def each(value: Callable[[Value, Value], Value]) -> None:
                """`value` takes a channel's address and a column."""

                def channel(c: Value) -> None:
                    here = f.at(self.data, f.add(source, f.mul(c, self.plane)), self.kind)
                    line = f.add(f.mul(f.add(channels, c), picture.rows), i)

                    def column(j: Value) -> None:
                        made = from_sums(self.k, self.spec.dtype, value(here, j))
                        place = f.at(self.result, f.add(f.mul(line, picture.columns), j), self.kind)
                        store(f, self.k.isa, self.spec.dtype, made, place, 0)

                    f.loop(0, picture.columns, column)

                f.loop(0, picture.channels, channel)

            def from_scratch() -> None:
                self.locate(down, across, i)

                def value(here: Value, j: Value) -> Value:
                    first = f.mul(j, per_bin)
                    return self.pooled(
                        here, per_bin, lambda n: self.kept(f.binary("add", first, n))
                    )

                each(value)

            def directly() -> None:
                def value(here: Value, j: Value) -> Value:
                    def at(n: Value) -> Sample:
                        iy = f.binary("udiv", n, across.samples)
                        ix = f.sub(n, f.mul(iy, across.samples))
                        return self.sample(self.place(down, i, iy), self.place(across, j, ix))

                    return self.pooled(here, per_bin, at)

                each(value)

            f.if_(fits, from_scratch, directly)

        few = f.compare("<=", down.samples, _MOST_SAMPLES)
        few = f.binary("and", few, f.compare("<=", across.samples, _MOST_SAMPLES))

        def pool() -> None:
            f.loop(0, picture.rows, row)

        f.if_(few, pool, lambda: self.k.fault(BAD_SIZE))

    def locate(self, down: Direction, across: Direction, i: Value) -> None:
        """All samples of a row of bins."""
        f = self.f

        def one(number: Int, j: Value, iy: Value, ix: Value) -> None:
            self.keep(number, self.sample(self.place(down, i, iy), self.place(across, j, ix)))

        sizes = [self.picture.columns, down.samples, across.samples]
        nest(f, sizes, [row_major(f, sizes), [1, 0, 0], [0, 1, 0], [0, 0, 1]], one)

    def pooled(self, here: Value, count: Value, at: Callable[[Value], Sample]) -> Value:
        """The mean, or the greatest, of the samples of a bin; 0 where it has none."""
        f = self.f
        zero = f.zero(register_type(self.sums, 0))

        def one(n: Value, total: Value, fresh: Value) -> list[Value]:
            found = self.value(here, at(n))
            if not self.spec.greatest:
                return [f.add(total, found), fresh]
            larger = f.binary("or", f.compare(">", found, total), fresh)
            return [f.select(larger, found, total), f.const(False, "i1")]

        total, _ = f.loop(0, count, one, [zero, f.const(True, "i1")])
        if self.spec.greatest:
            return total
        divisor = f.intrinsic("llvm.smax", "i64", count, 1)
        return f.binary("fdiv", total, _real(self.k, divisor, total))

    def value(self, here: Value, sample: Sample) -> Value:
        """Four pixels weighted: their sum, or the greatest of the four products."""
        f = self.f
        terms = []
        for offset, weight in zip(sample.offsets, sample.weights, strict=True):
            pixel = self.element(f.at(here, offset, self.kind))
            terms.append(f.mul(weight, to_sums(self.k, self.spec.dtype, self.sums, pixel)))
        found: Value = terms[0]
        for term in terms[1:]:
            if self.spec.greatest:
                found = f.select(f.compare(">", term, found), term, found)
            else:
                found = f.add(found, term)
        return found


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
