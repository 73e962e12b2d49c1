"""Convolutions by Winograd's minimal filtering.

In: `Winograd`. Out: a kernel. The tiles of a block are transformed once, for all panels; each panel
multiplies a few tiles at a time, so that the sums are still near when they are transformed back.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.conv_product import product_named
from rewrite.codegen.kernels.conv_tiles import dispatch, first_pixel
from rewrite.codegen.kernels.winograd_direct import direct_function
from rewrite.codegen.kernels.winograd_tile import (
    Types,
    back_function,
    border_function,
    finish_function,
    transform_function,
)
from rewrite.codegen.memory import register_type
from rewrite.codegen.tile import contract, spaced_rows
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.plan.view import BYTES


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The integer words in their order, but for those of operands."""

    height: Value
    width: Value
    channels: Value
    out_height: Value
    out_width: Value
    above: Value
    left: Value
    across: Value
    tiles: Value
    whole: Value
    others: Value
    out_channels: Value
    x_image: Value
    out_image: Value
    out_pixel: Value
    products: Value
    block: Value
    panels: Value
    border: Value


_COUNT = 19


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Where things lie in scratch, and bytes from place to place of transformed tiles."""

    tiles: Value
    place: Value
    sums: Value
    outputs: Value
    patch: Value


@emits(Winograd)
def winograd(k: Kernel, spec: Winograd) -> None:
    _Blocks(k, spec).emit()


class _Blocks:
    def __init__(self, k: Kernel, spec: Winograd) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        self.types = Types(k.isa, spec)
        n = len(spec.after.operands)
        self.x, self.weights, self.bias = (k.pointer(i) for i in range(3))
        self.operands = [k.pointer(3 + i) for i in range(n)]
        self.out = k.pointer(3 + n)
        self.n = _Sizes(*(k.integer(4 + n + i) for i in range(_COUNT)))
        self.strides = [k.integer(4 + n + _COUNT + i) for i in range(2 * n)]
        self.border = border_function(k, spec)
        self.transform = transform_function(k, spec)
        self.products = {h: _product_function(k, spec, self.types, h) for h in spec.heights}
        self.back = back_function(k, spec)
        self.direct = "" if spec.x != "f32" else direct_function(k, spec, self.types.columns)
        self.finishes = {w: finish_function(k, spec, w) for w in self.widths()}
        self.depth = self.n.channels
        if self.types.step == 2:
            self.depth = self.f.binary("and", self.depth + 1, -2)

    def widths(self) -> list[int]:
        """How many channels a panel can have."""
        return [self.types.columns, *([self.spec.tail] if self.spec.tail else [])]

    def scratch(self) -> _Scratch:
        f, types = self.f, self.types
        place = self.n.block * self.n.tiles * self.depth * types.wide
        sums = f.at(self.k.scratch, f.binary("and", place * types.places + 63, -64))
        outputs = f.at(sums, types.places * max(self.spec.heights) * types.columns * 4)
        patch = f.at(outputs, self.spec.edge**2 * types.columns * 4)
        return _Scratch(self.k.scratch, place, sums, outputs, patch)

    def emit(self) -> None:
        f, n = self.f, self.n
        blocks = f.binary("udiv", n.products + (n.block - 1), n.block)
        scratch = self.scratch()
        depth = self.depth * self.types.wide

        def item(index: Value, before: Value) -> list[Value]:
            rest = f.binary("udiv", index, n.panels)
            panel = index - rest * n.panels
            image = f.binary("udiv", rest, blocks)
            first = (rest - image * blocks) * n.block
            end = first + n.block
            last = f.select(f.compare("<", end, n.products), end, n.products)
            start, code = first_pixel(f, n.whole, n.tiles, n.others, first)
            f.if_(
                f.compare("!=", rest, before),
                lambda: self.transformed(image, start, last, scratch),
            )

            def product(number: Value, tile: Value, code: Value) -> list[Value]:
                is_whole = f.compare("<", number, n.whole)
                here = f.select(is_whole, n.tiles, f.binary("and", code, 15))
                v = f.at(scratch.tiles, (tile - start) * depth)
                self.product(image, panel, tile, here, v, scratch)
                return [tile + here, f.select(is_whole, code, f.binary("lshr", code, 4))]

            f.loop(first, last, product, [start, code])
            return [rest]

        f.loop(self.k.begin, self.k.end, item, [f.i64(-1)])

    def transformed(self, image: Value, start: Value, last: Value, scratch: _Scratch) -> None:
        """All tiles of a block to scratch; what reaches over the border is put together first."""
        f, n, types = self.f, self.n, self.types
        end, _ = first_pixel(f, n.whole, n.tiles, n.others, last)
        pixel = n.channels * BYTES[self.spec.x]
        line = n.width * pixel
        x = f.at(self.x, image * n.x_image * BYTES[self.spec.x])
        edge, reach = self.spec.edge, self.spec.edge + 2
        most_y, most_x = n.height - reach, n.width - reach

        def tile(t: Value) -> None:
            row = f.binary("udiv", t, n.across)
            y, left = row * edge - n.above, (t - row * n.across) * edge - n.left
            v = f.at(scratch.tiles, (t - start) * self.depth * types.wide)
            there = f.binary("and", _within(f, y, most_y), _within(f, left, most_x))

            def inside() -> list[Value]:
                return [f.at(f.at(x, y * line), left * pixel), line]

            def beyond() -> list[Value]:
                f.call(self.border, "void", x, y, left, n.height, n.width, n.channels, n.border,
                       scratch.patch)  # fmt: skip
                return [scratch.patch, pixel * reach]

            at, step = f.if_(there, inside, beyond, 2)
            f.call(self.transform, "void", at, step, n.channels, v, scratch.place)

        f.loop(start, end, tile)

    def product(
        self, image: Value, panel: Value, tile: Value, height: Value, v: Value, scratch: _Scratch
    ) -> None:
        """The products of a few tiles with a panel, and back."""
        f, n, spec, types = self.f, self.n, self.spec, self.types
        w_place = self.depth * (types.columns * types.wide)
        w = f.at(self.weights, panel * w_place * types.places)
        steps = f.divide(self.depth, types.step)
        dispatch(f, self.products, spec.heights, height,
                 [v, scratch.place, w, w_place, steps, scratch.sums])  # fmt: skip
        row_bytes = types.columns * 4
        bias = f.at(self.bias, panel * row_bytes)
        image_x = f.at(self.x, image * n.x_image * BYTES[spec.x])
        image_out = self.image_out(image, panel * types.columns)

        def back(t: Value) -> None:
            row = f.binary("udiv", tile + t, n.across)
            y, x = row * spec.edge, (tile + t - row * n.across) * spec.edge
            odd = f.call(self.back, "i1", f.at(scratch.sums, t * row_bytes), height * row_bytes,
                         bias, scratch.outputs)  # fmt: skip

            def again() -> None:
                f.call(self.direct, "void", image_x, y - n.above, x - n.left, n.height, n.width,
                       n.channels, w, w_place, bias, scratch.outputs)  # fmt: skip

            if self.direct:
                f.if_(odd, again)
            self.finish(panel, [scratch.outputs, y, x, n.out_height, n.out_width, *image_out])

        f.loop(0, height, back)

    def image_out(self, image: Value, channel: Value) -> list[Value]:
        """Where an image of the output and of operands starts, from a channel on, each with its
        bytes from pixel to pixel."""
        f, n, after = self.f, self.n, self.spec.after
        size = BYTES[after.out]
        found = [f.at(self.out, (image * n.out_image + channel) * size), n.out_pixel * size]
        for i, operand in enumerate(after.operands):
            at = image * self.strides[2 * i] + (channel if operand.channels else 0)
            size = BYTES[operand.dtype]
            found += [f.at(self.operands[i], at * size), self.strides[2 * i + 1] * size]
        return found

    def finish(self, panel: Value, arguments: list[Value]) -> None:
        f, columns, tail = self.f, self.types.columns, self.spec.tail

        def call(width: int) -> None:
            f.call(self.finishes[width], "void", *arguments)

        if not tail:
            call(columns)
            return
        last = f.compare("==", panel, self.n.panels - 1)
        f.if_(last, lambda: call(tail), lambda: call(columns))


def _within(f: Function, x: Value, most: Value) -> Value:
    """0 <= x <= most."""
    return f.binary("and", f.compare(">=", x, 0), f.compare("<=", x, most))


def _product_function(k: Kernel, spec: Winograd, types: Types, height: int) -> Function:
    """sums[place][tile][column] of `height` tiles, place by place."""
    f = k.module.function(
        f"{k.f.name}_{height}",
        [("ptr", "v"), ("i64", "v_place"), ("ptr", "w"), ("i64", "w_place"), ("i64", "steps"),
         ("ptr", "sums")],
        internal=True,
    )  # fmt: skip
    lanes = types.columns // spec.vectors
    zero = f.zero(register_type(types.total, lanes))
    count = height * spec.vectors
    product = product_named(spec.form, k.isa, types.element, types.element, types.total)
    depth = f.arg("steps") * (types.step * types.wide)

    def place(_: Value, v: Value, w: Value, sums: Value) -> list[Value]:
        rows = spaced_rows(f, v, depth, height)
        start = [zero] * count
        found = contract(
            f, k.isa, product, rows, w, f.arg("steps"), start, spec.vectors,
            ahead=f.arg("w_place"),
        )  # fmt: skip
        for i, value in enumerate(found):
            f.store(value, f.at(sums, i * lanes * 4))
        return [f.at(v, f.arg("v_place")), f.at(w, f.arg("w_place")),
                f.at(sums, count * lanes * 4)]  # fmt: skip

    f.loop(0, types.places, place, [f.arg("v"), f.arg("w"), f.arg("sums")])
    f.ret()
    return f
