"""Convolutions as matrix products whose rows are windows of a channels-last tensor.

In: `Conv`. Out: a kernel. A tile of pixels by one panel of channels is summed up in registers by
an internal function per number of pixels. Whole panels go through the epilogue in registers if it
is short; otherwise the sums go through scratch, and the epilogue stands once.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.conv_after import finish, is_short, operand_values, pieces
from rewrite.codegen.kernels.conv_product import product_named
from rewrite.codegen.kernels.conv_tiles import dispatch, first_pixel
from rewrite.codegen.memory import load, register_type
from rewrite.codegen.product import Product
from rewrite.codegen.tile import Row, contract
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv import Conv
from rewrite.plan.view import BYTES


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a kernel, strides in bytes."""

    x: Value
    w: Value
    bias: Value
    starts: Value
    offsets: Value
    operands: list[Value]
    out: Value
    integers: list[Value]
    operand_images: list[Value]
    operand_pixels: list[Value]

    def __getattr__(self, name: str) -> Value:
        return self.integers[_INTEGERS.index(name)]


_INTEGERS = (
    "pixels", "height", "whole", "others", "tiles", "block", "panels", "groups", "out_channels",
    "in_channels", "x_image", "out_image", "out_pixel", "taps", "steps",
)  # fmt: skip


def _words(k: Kernel, spec: Conv) -> _Words:
    f, n = k.f, len(spec.after.operands)
    x, w, bias, starts, offsets = (k.pointer(i) for i in range(5))
    number = [k.integer(6 + n + i) for i in range(15)]
    for index, dtype in {9: spec.x, 10: spec.x, 11: spec.after.out, 12: spec.after.out}.items():
        number[index] = f.mul(number[index], BYTES[dtype])
    strides = [
        [f.mul(k.integer(6 + n + 15 + 2 * i + j), BYTES[o.dtype]) for j in range(2)]
        for i, o in enumerate(spec.after.operands)
    ]
    return _Words(
        x, w, bias, starts, offsets, [k.pointer(5 + i) for i in range(n)], k.pointer(5 + n),
        number, [s[0] for s in strides], [s[1] for s in strides],
    )  # fmt: skip


@emits(Conv)
def conv(k: Kernel, spec: Conv) -> None:
    f = k.f
    product = product_named(spec.form, k.isa, spec.x, spec.w, spec.total)
    end = _End(k, spec)
    tiles = {h: _tile_function(k, spec, product, end, h) for h in spec.heights}
    w = _words(k, spec)
    all_panels = w.panels * w.groups
    blocks = f.binary("udiv", w.tiles + (w.block - 1), w.block)

    def item(index: Value) -> None:
        rest = f.binary("udiv", index, all_panels)
        panel = index - rest * all_panels
        image = f.binary("udiv", rest, blocks)
        first = (rest - image * blocks) * w.block
        last = f.select(f.compare("<", first + w.block, w.tiles), first + w.block, w.tiles)
        place = _place(f, spec, product, w, image, panel)
        start = first_pixel(f, w.whole, w.height, w.others, first)

        def tile(number: Value, pixel: Value, others: Value) -> list[Value]:
            is_whole = f.compare("<", number, w.whole)
            height = f.select(is_whole, w.height, f.binary("and", others, 15))
            dispatch(f, tiles, spec.heights, height, [*place, pixel, k.scratch])
            return [
                pixel + height,
                f.select(is_whole, others, f.binary("lshr", others, 4)),
            ]

        f.loop(first, last, tile, [*start])

    f.loop(k.begin, k.end, item)


def _place(
    f: Function, spec: Conv, product: Product, w: _Words, image: Value, panel: Value
) -> list[Value]:
    """What the tiles of one image and panel have in common: arguments of a tile's function."""
    group = f.binary("udiv", panel, w.panels)
    inner = panel - group * w.panels
    columns = _columns(spec, product)
    channel = group * w.out_channels + inner * columns
    tap_bytes = w.steps * (product.panel_bytes * spec.vectors)
    x = f.at(f.at(w.x, image * w.x_image), group * w.in_channels)
    weights = f.at(w.w, panel * (tap_bytes * w.taps))
    bias = f.at(w.bias, panel * (columns * BYTES[spec.total]))
    out = f.at(f.at(w.out, image * w.out_image), channel * BYTES[spec.after.out])
    partial = f.cast("zext", f.compare("==", inner, w.panels - 1), "i64")
    found = [x, w.starts, w.offsets, w.taps, w.steps, weights, tap_bytes, bias, out, w.out_pixel,
             w.pixels, partial]  # fmt: skip
    for i, operand in enumerate(spec.after.operands):
        at = f.at(w.operands[i], image * w.operand_images[i])
        if operand.channels:
            at = f.at(at, channel * BYTES[operand.dtype])
        found += [at, w.operand_pixels[i]]
    return found


def _columns(spec: Conv, product: Product) -> int:
    """Channels of a panel."""
    return spec.vectors * (product.panel_bytes // (product.step * BYTES[spec.w]))


def _parameters(spec: Conv) -> list[tuple[str, str]]:
    found = [("ptr", "x"), ("ptr", "starts"), ("ptr", "offsets"), ("i64", "taps"),
             ("i64", "steps"), ("ptr", "w"), ("i64", "tap_bytes"), ("ptr", "bias"), ("ptr", "out"),
             ("i64", "out_pixel"), ("i64", "pixels"), ("i64", "partial")]  # fmt: skip
    for i in range(len(spec.after.operands)):
        found += [("ptr", f"o{i}"), ("i64", f"o{i}_pixel")]
    return [*found, ("i64", "pixel"), ("ptr", "cells")]


def _tile_function(k: Kernel, spec: Conv, product: Product, end: _End, height: int) -> Function:
    """`height` pixels by one panel: sums, then the epilogue."""
    isa = k.isa
    f = k.module.function(f"{k.f.name}_{height}", _parameters(spec), internal=True)
    lanes = _columns(spec, product) // spec.vectors
    type_ = register_type(spec.total, lanes)
    size = lanes * BYTES[spec.total]
    starts = f.at(f.arg("starts"), f.arg("pixel"), "i32")
    offsets = [_index(f, starts, r) for r in range(height)]
    bias = [f.load(type_, f.at(f.arg("bias"), v * size)) for v in range(spec.vectors)]

    next_panel = f.mul(f.arg("tap_bytes"), f.arg("taps"))

    def tap(number: Value, *sums: Value) -> list[Value]:
        walk = f.at(f.arg("x"), _index(f, f.arg("offsets"), number) * BYTES[spec.x])
        rows = [Row(walk, offset, BYTES[spec.x]) for offset in offsets]
        panel = f.at(f.arg("w"), number * f.arg("tap_bytes"))
        return contract(
            f, isa, product, rows, panel, f.arg("steps"), sums, spec.vectors, unroll=1,
            ahead=next_panel,
        )  # fmt: skip

    sums = f.loop(0, f.arg("taps"), tap, bias * height)
    end.tile(f, sums, height)
    f.ret()
    return f


def _index(f: Function, table: Value, at: Value | int) -> Value:
    """An entry of a table of s32."""
    return f.cast("sext", f.load("i32", f.at(table, at, "i32")), "i64")


class _End:
    """What becomes of the sums of a tile."""

    def __init__(self, k: Kernel, spec: Conv) -> None:
        self.k = k
        self.spec = spec
        self.isa: Isa = k.isa
        self.lanes = k.isa.lanes(spec.total)
        self.columns = spec.vectors * self.lanes
        self.direct = is_short(spec.after)
        self.whole_name = "" if self.direct else self._loop("whole", self.columns)
        self.tail_name = self._loop("tail", spec.tail) if spec.tail else ""

    def tile(self, f: Function, sums: list[Value], height: int) -> None:
        """The sums of `height` pixels, `vectors` each, to where they belong."""
        spec = self.spec

        def whole() -> None:
            if self.direct:
                self._registers(f, sums, height)
            else:
                self._cells(f, sums, height, self.whole_name)

        if not spec.tail:
            whole()
            return
        f.if_(
            f.compare("!=", f.arg("partial"), 0),
            lambda: self._cells(f, sums, height, self.tail_name),
            whole,
        )

    def _registers(self, f: Function, sums: list[Value], height: int) -> None:
        """The epilogue behind every accumulator."""
        after, lanes, vectors = self.spec.after, self.lanes, self.spec.vectors
        fixed = self._fixed(f, [(v * lanes, lanes) for v in range(vectors)])
        for r in range(height):
            index = self._pixel(f, f.arg("pixel") + r)
            out = f.at(f.arg("out"), index * f.arg("out_pixel"))
            pointers = self._operands(f, index)
            for v in range(vectors):
                values = self._values(f, pointers, fixed[v], v * lanes, lanes)
                at = f.at(out, v * lanes * BYTES[after.out])
                finish(f, self.isa, after, sums[r * vectors + v], values, at, lanes)

    def _pixel(self, f: Function, number: Value) -> Value:
        """Which pixel of the output image."""
        if not self.spec.scattered:
            return number
        return _index(f, f.arg("starts"), number + f.arg("pixels"))

    def _operands(self, f: Function, index: Value) -> list[Value]:
        """Addresses of the operands at a pixel."""
        return [
            f.at(f.arg(f"o{i}"), index * f.arg(f"o{i}_pixel")) if o.pixels else f.arg(f"o{i}")
            for i, o in enumerate(self.spec.after.operands)
        ]

    def _fixed(self, f: Function, places: list[tuple[int, int]]) -> list[dict[int, Value]]:
        """Operands that are the same for all pixels, for each piece of a panel."""
        found: list[dict[int, Value]] = []
        for channel, lanes in places:
            values: dict[int, Value] = {}
            for i, operand in enumerate(self.spec.after.operands):
                if not operand.pixels:
                    dtype = operand.dtype
                    at = f.at(f.arg(f"o{i}"), channel * BYTES[dtype] if operand.channels else 0)
                    values[i] = load(f, self.isa, dtype, at, lanes, 1 if operand.channels else 0)
            found.append(values)
        return found

    def _values(
        self, f: Function, pointers: list[Value], fixed: dict[int, Value], channel: int, lanes: int
    ) -> list[Value]:
        found = []
        for i, operand in enumerate(self.spec.after.operands):
            if i in fixed:
                found.append(fixed[i])
                continue
            at = f.at(pointers[i], channel * BYTES[operand.dtype] if operand.channels else 0)
            stride = 1 if operand.channels else 0
            found.append(load(f, self.isa, operand.dtype, at, lanes, stride))
        return found

    def _cells(self, f: Function, sums: list[Value], height: int, name: str) -> None:
        """The sums through scratch."""
        size = self.lanes * BYTES[self.spec.total]
        for number, value in enumerate(sums):
            f.store(value, f.at(f.arg("cells"), number * size))
        names = [n for _, n in _parameters(self.spec)]
        f.call(name, "void", *(f.arg(n) for n in names), f.i64(height))

    def _loop(self, kind: str, count: int) -> str:
        """A function that takes `count` channels of each pixel of a tile out of scratch."""
        spec, isa = self.spec, self.isa
        name = f"{self.k.f.name}_{kind}"
        parameters = [*_parameters(spec), ("i64", "height")]
        f = self.k.module.function(name, parameters, internal=True)
        size = BYTES[spec.total]
        places = pieces(count, self.lanes)

        def pixel(r: Value) -> None:
            cells = f.at(f.arg("cells"), r * (self.columns * size))
            index = self._pixel(f, f.arg("pixel") + r)
            out = f.at(f.arg("out"), index * f.arg("out_pixel"))
            pointers = self._operands(f, index)
            for channel, lanes in places:
                total = load(f, isa, spec.total, f.at(cells, channel * size), lanes)
                values = operand_values(f, isa, spec.after, pointers, channel, lanes)
                at = f.at(out, channel * BYTES[spec.after.out])
                finish(f, isa, spec.after, total, values, at, lanes)

        f.loop(0, f.arg("height"), pixel)
        f.ret()
        return name
