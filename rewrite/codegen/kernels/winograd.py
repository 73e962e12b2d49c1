"""Winograd's F(2x2, 3x3).

In: `Winograd`. Out: a kernel. The tiles of a block are transformed once, for all panels; each panel
multiplies a few tiles at a time, so that the sums stay in the first-level cache until they are
transformed back.

Reference: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks (2015):

    B^T = 1  0 -1  0     A^T = 1  1  1  0
          0  1  1  0           0  1 -1 -1
          0 -1  1  0
          0  1  0 -1
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.conv_after import finish, operand_values, pieces
from rewrite.codegen.kernels.conv_tiles import dispatch, first_pixel
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.product import Plain
from rewrite.codegen.tile import contract, spaced_rows
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.plan.view import BYTES

_PLACES = 16  # of a tile of 4 by 4


@emits(Winograd)
def winograd(k: Kernel, spec: Winograd) -> None:
    _Blocks(k, spec).emit()


class _Blocks:
    def __init__(self, k: Kernel, spec: Winograd) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        self.lanes = k.isa.lanes("f32")
        self.columns = spec.vectors * self.lanes
        self.operand_count = n = len(spec.after.operands)
        self.x, self.weights, self.bias = (k.pointer(i) for i in range(3))
        self.operands = [k.pointer(3 + i) for i in range(n)]
        self.out = k.pointer(3 + n)
        self.n = [k.integer(4 + n + i) for i in range(18 + 2 * n)]
        self.transform = _transform_function(k, spec)
        back = {w: _back_function(k, spec, w) for w in self.widths()}
        self.products = {h: _product_function(k, spec, h) for h in spec.heights}
        self.back = back

    def widths(self) -> list[int]:
        """How many channels a panel can have."""
        return [self.columns, *([self.spec.tail] if self.spec.tail else [])]

    def emit(self) -> None:
        f, n = self.f, self.n
        height, whole, others, products, block, panels = (n[i] for i in (8, 9, 10, 15, 16, 17))
        blocks = f.binary("udiv", products + (block - 1), block)
        depth = n[2] * 4
        tiles = block * height
        sums = f.at(self.k.scratch, tiles * depth * _PLACES)
        zeros = f.at(sums, f.i64(_PLACES * max(self.spec.heights) * self.columns * 4))
        self.clear(zeros, n[2])

        def item(index: Value, before: Value) -> list[Value]:
            rest = f.binary("udiv", index, panels)
            panel = index - rest * panels
            image = f.binary("udiv", rest, blocks)
            first = (rest - image * blocks) * block
            last = f.select(f.compare("<", first + block, products), first + block, products)
            start, code = first_pixel(f, whole, height, others, first)
            f.if_(
                f.compare("!=", rest, before),
                lambda: self.transformed(image, start, last, zeros, tiles),
            )

            def product(number: Value, tile: Value, code: Value) -> list[Value]:
                is_whole = f.compare("<", number, whole)
                here = f.select(is_whole, height, f.binary("and", code, 15))
                v = f.at(self.k.scratch, (tile - start) * depth)
                self.product(image, panel, tile, here, v, tiles * depth, sums)
                return [tile + here, f.select(is_whole, code, f.binary("lshr", code, 4))]

            f.loop(first, last, product, [start, code])
            return [rest]

        f.loop(self.k.begin, self.k.end, item, [f.i64(-1)])

    def clear(self, at: Value, count: Value) -> None:
        self.f.loop(0, count, lambda i: self.f.store(self.f.const(0.0, "float"),
                                                     self.f.at(at, i, "float")))  # fmt: skip

    def transformed(
        self, image: Value, start: Value, last: Value, zeros: Value, tiles: Value
    ) -> None:
        """All tiles of a block to scratch."""
        f, n = self.f, self.n
        end, _ = first_pixel(f, n[9], n[8], n[10], last)
        x = f.at(self.x, image * n[12] * 4)

        def tile(t: Value) -> None:
            row = f.binary("udiv", t, n[7])
            y, left = row * 2 - n[5], (t - row * n[7]) * 2 - n[6]
            v = f.at(self.k.scratch, (t - start) * n[2] * 4)
            f.call(self.transform, "void", x, y, left, n[0], n[1], n[2], zeros, v,
                   tiles * n[2] * 4)  # fmt: skip

        f.loop(start, end, tile)

    def product(
        self, image: Value, panel: Value, tile: Value, height: Value, v: Value, v_place: Value,
        sums: Value,
    ) -> None:  # fmt: skip
        """The products of a few tiles with a panel, and back."""
        f, n, spec = self.f, self.n, self.spec
        w_place = n[2] * (self.columns * 4)
        w = f.at(self.weights, panel * w_place * _PLACES)
        dispatch(f, self.products, spec.heights, height, [v, v_place, w, w_place, n[2], sums])
        channel = panel * self.columns
        out_size = BYTES[spec.after.out]
        out = f.at(self.out, (image * n[13] + channel) * out_size)
        bias = f.at(self.bias, channel * 4)
        more: list[Value] = []
        for i, operand in enumerate(spec.after.operands):
            at = image * n[18 + 2 * i] + (channel if operand.channels else 0)
            more += [f.at(self.operands[i], at * BYTES[operand.dtype]),
                     n[19 + 2 * i] * BYTES[operand.dtype]]  # fmt: skip

        def back(t: Value) -> None:
            at = tile + t
            row = f.binary("udiv", at, n[7])
            cells = f.at(sums, t * (self.columns * 4))
            place, column = height * (self.columns * 4), at - row * n[7]
            arguments = [cells, place, bias, row * 2, column * 2, n[3], n[4], out,
                         n[14] * out_size, *more]  # fmt: skip

            def whole() -> None:
                f.call(self.back[self.columns], "void", *arguments)

            if not spec.tail:
                whole()
                return
            f.if_(
                f.compare("==", panel, n[17] - 1),
                lambda: f.call(self.back[spec.tail], "void", *arguments) and None,
                whole,
            )

        f.loop(0, height, back)


def _transform_function(k: Kernel, spec: Winograd) -> str:
    """B^T x B of one tile, all channels: v[place][channel], places `v_place` bytes apart."""
    name = f"{k.f.name}_transform"
    f = k.module.function(
        name,
        [("ptr", "x"), ("i64", "y"), ("i64", "left"), ("i64", "height"), ("i64", "width"),
         ("i64", "channels"), ("ptr", "zeros"), ("ptr", "v"), ("i64", "v_place")],
        internal=True,
    )  # fmt: skip
    pixel = f.arg("channels") * 4
    pointers = []
    for i in range(4):
        row = f.arg("y") + i
        inside = f.compare("<", row, f.arg("height"), signed=False)
        start = f.at(f.arg("x"), row * f.arg("width") * pixel)
        for j in range(4):
            column = f.arg("left") + j
            here = f.compare("<", column, f.arg("width"), signed=False)
            at = f.at(start, column * pixel)
            pointers.append(f.select(f.binary("and", inside, here), at, f.arg("zeros")))

    def chunk(c: Value, lanes: int) -> None:
        x = [load(f, k.isa, "f32", f.at(p, c, "float"), lanes) for p in pointers]
        rows = [_forward(x[4 * i : 4 * i + 4]) for i in range(4)]
        columns = [_forward([rows[i][j] for i in range(4)]) for j in range(4)]
        at = f.at(f.arg("v"), c, "float")
        for i in range(4):
            for j in range(4):
                store(f, k.isa, "f32", columns[j][i], at, lanes)
                at = f.at(at, f.arg("v_place"))

    lanes = k.isa.lanes("f32")
    whole = f.arg("channels") - spec.depth_tail
    f.loop(0, whole, lambda c: chunk(c, lanes), step=lanes)
    for first, width in pieces(spec.depth_tail, lanes):
        chunk(whole + first, width)
    f.ret()
    return name


def _forward(x: Sequence[Value]) -> list[Value]:
    """B^T of four."""
    return [x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]]


def _backward(x: Sequence[Value]) -> list[Value]:
    """A^T of four."""
    return [x[0] + x[1] + x[2], x[1] - x[2] - x[3]]


def _product_function(k: Kernel, spec: Winograd, height: int) -> Function:
    """sums[place][tile][column] of `height` tiles, place by place."""
    f = k.module.function(
        f"{k.f.name}_{height}",
        [("ptr", "v"), ("i64", "v_place"), ("ptr", "w"), ("i64", "w_place"), ("i64", "depth"),
         ("ptr", "sums")],
        internal=True,
    )  # fmt: skip
    lanes = k.isa.lanes("f32")
    zero = f.zero(register_type("f32", lanes))
    count = height * spec.vectors
    product = Plain(k.isa, "f32", "f32", "f32")

    def place(_: Value, v: Value, w: Value, sums: Value) -> list[Value]:
        rows = spaced_rows(f, v, f.arg("depth") * 4, height)
        found = contract(f, k.isa, product, rows, w, f.arg("depth"), [zero] * count, spec.vectors)
        for i, value in enumerate(found):
            f.store(value, f.at(sums, i * lanes * 4))
        return [f.at(v, f.arg("v_place")), f.at(w, f.arg("w_place")),
                f.at(sums, count * lanes * 4)]  # fmt: skip

    f.loop(0, _PLACES, place, [f.arg("v"), f.arg("w"), f.arg("sums")])
    f.ret()
    return f


def _back_function(k: Kernel, spec: Winograd, channels: int) -> str:
    """A^T m A of one tile and `channels` channels, through the epilogue to pixels that exist."""
    name = f"{k.f.name}_back_{channels}"
    after = spec.after
    parameters = [
        ("ptr", "cells"), ("i64", "place"), ("ptr", "bias"), ("i64", "y"), ("i64", "x"),
        ("i64", "height"), ("i64", "width"), ("ptr", "out"), ("i64", "out_pixel"),
    ]  # fmt: skip
    for i in range(len(after.operands)):
        parameters += [("ptr", f"o{i}"), ("i64", f"s{i}")]
    f = k.module.function(name, parameters, internal=True)
    lanes = k.isa.lanes("f32")

    def outputs(channel: Value | int, width: int) -> None:
        at = f.at(f.arg("cells"), channel, "float")
        m = []
        for _ in range(_PLACES):
            m.append(load(f, k.isa, "f32", at, width))
            at = f.at(at, f.arg("place"))
        rows = [_backward(m[4 * i : 4 * i + 4]) for i in range(4)]
        columns = [_backward([rows[i][j] for i in range(4)]) for j in range(2)]
        bias = load(f, k.isa, "f32", f.at(f.arg("bias"), channel, "float"), width)
        for i in range(2):
            for j in range(2):
                _to_pixel(k, f, spec, columns[j][i] + bias, (i, j), channel, width)

    whole = channels // lanes * lanes
    f.loop(0, whole, lambda c: outputs(c, lanes), step=lanes)
    for first, width in pieces(channels - whole, lanes):
        outputs(whole + first, width)
    f.ret()
    return name


def _to_pixel(
    k: Kernel, f: Function, spec: Winograd, value: Value, at: tuple[int, int],
    channel: Value | int, lanes: int,
) -> None:  # fmt: skip
    after = spec.after
    y, x = f.arg("y") + at[0], f.arg("x") + at[1]

    def put() -> None:
        pixel = y * f.arg("width") + x
        out = f.at(f.arg("out"), pixel * f.arg("out_pixel"))
        pointers = []
        for i, operand in enumerate(after.operands):
            pointer = f.arg(f"o{i}")
            if operand.pixels:
                pointer = f.at(pointer, pixel * f.arg(f"s{i}"))
            if operand.channels:
                pointer = f.at(pointer, f.mul(channel, BYTES[operand.dtype]))
            pointers.append(pointer)
        values = operand_values(f, k.isa, after, pointers, 0, lanes)
        finish(f, k.isa, after, value, values,
               f.at(out, f.mul(channel, BYTES[after.out])), lanes)  # fmt: skip

    if at == (0, 0):  # the first pixel of a tile exists
        put()
        return
    there = f.binary("and", f.compare("<", y, f.arg("height")), f.compare("<", x, f.arg("width")))
    f.if_(there, put)
