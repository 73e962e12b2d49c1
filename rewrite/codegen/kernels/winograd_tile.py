"""What becomes of one tile before and after the products of `Winograd`.

In: the spec. Out: internal functions of its module, which put a tile at the border together,
transform a tile, transform sums back, and take the outputs through the epilogue.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.kernels.conv_after import finish, operand_values, pieces
from rewrite.codegen.kernels.winograd_direct import any_nan, in_image, noted
from rewrite.codegen.kernels.winograd_math import backward, forward, unscaled
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_winograd import Winograd
from rewrite.plan.view import BYTES


class Types:
    """What a spec means on a machine: element types, counts."""

    def __init__(self, isa: Isa, spec: Winograd) -> None:
        floats = spec.x == "f32"
        self.element = "f32" if floats else "s16"  # of transformed tiles and weights
        self.wide = BYTES[self.element]
        self.total = "f32" if floats else "s32"
        self.step = 2 if spec.form == "words" else 1
        self.places = (spec.edge + 2) ** 2
        self.columns = spec.vectors * isa.lanes(self.total)


def border_function(k: Kernel, spec: Winograd) -> str:
    """The elements of a tile, those of the border among them, as [row][column][channel]."""
    name = f"{k.f.name}_border"
    f = k.module.function(
        name,
        [("ptr", "x"), ("i64", "y"), ("i64", "left"), ("i64", "height"), ("i64", "width"),
         ("i64", "channels"), ("i64", "border"), ("ptr", "patch")],
        internal=True,
    )  # fmt: skip
    reach, size = spec.edge + 2, BYTES[spec.x]
    type_ = vector(f"i{8 * size}", spec.lanes)
    scalar = f.cast("trunc", f.arg("border"), f"i{8 * size}")
    border = f.splat(scalar, type_)
    channels = f.arg("channels")

    def element(i: Value, j: Value) -> None:
        row, column = f.arg("y") + i, f.arg("left") + j
        inside = in_image(f, row, column)
        to = f.at(f.arg("patch"), (i * reach + j) * channels * size)
        start = f.at(f.arg("x"), (row * f.arg("width") + column) * channels * size)

        def copy(c: Value) -> None:
            at = _at_most(f, c, channels - spec.lanes) * size
            f.store(f.load(type_, f.at(start, at)), f.at(to, at))

        def fill(c: Value) -> None:
            f.store(border, f.at(to, _at_most(f, c, channels - spec.lanes) * size))

        f.if_(
            inside,
            lambda: f.loop(0, channels, copy, step=spec.lanes),
            lambda: f.loop(0, channels, fill, step=spec.lanes),
        )

    f.loop(0, reach, lambda i: f.loop(0, reach, lambda j: element(i, j)))
    f.ret()
    return name


def _at_most(f: Function, x: Value, most: Value) -> Value:
    return f.select(f.compare("<", x, most), x, most)


def transform_function(k: Kernel, spec: Winograd) -> str:
    """B^T x B of one tile, all channels: v[place][channel], places `v_place` bytes apart.

    `line`: bytes from row to row of the elements."""
    name = f"{k.f.name}_transform"
    f = k.module.function(
        name,
        [("ptr", "x"), ("i64", "line"), ("i64", "channels"), ("ptr", "v"), ("i64", "v_place")],
        internal=True,
    )  # fmt: skip
    reach, size = spec.edge + 2, BYTES[spec.x]
    types = Types(k.isa, spec)
    lanes = spec.lanes
    pixel = f.arg("channels") * size

    def elements(at: Value) -> list[Value]:
        """A row of a tile."""
        found = []
        for j in range(reach):
            if j == 3:
                at = f.at(at, pixel * 3)
            found.append(load(f, k.isa, spec.x, f.at(at, pixel * (j % 3)), lanes))
        if spec.x == "f32":
            return found
        wider = "zext" if spec.x == "u8" else "sext"
        return [f.cast(wider, x, vector("i16", lanes)) for x in found]

    def chunk(c: Value) -> None:
        first = _at_most(f, c, f.arg("channels") - spec.lanes)
        at, rows = f.at(f.arg("x"), first * size), []
        for _ in range(reach):
            rows.append(forward(f, k.isa, elements(at)))
            at = f.at(at, f.arg("line"))
        to = f.at(f.arg("v"), first * types.wide)
        columns = [forward(f, k.isa, [row[j] for row in rows]) for j in range(reach)]
        for i in range(reach):
            for j in range(reach):
                store(f, k.isa, types.element, columns[j][i], to, lanes)
                to = f.at(to, f.arg("v_place"))

    f.loop(0, f.arg("channels"), chunk, step=spec.lanes)
    f.ret()
    return name


def back_function(k: Kernel, spec: Winograd) -> str:
    """A^T m A and the bias of one tile, all channels of a panel: outputs[pixel][column]. Gives
    whether floats among them are not finite."""
    name = f"{k.f.name}_back"
    parameters = [("ptr", "cells"), ("i64", "place"), ("ptr", "bias"), ("ptr", "outputs")]
    f = k.module.function(name, parameters, "i1", internal=True)
    types = Types(k.isa, spec)
    lanes, reach = k.isa.lanes(types.total), spec.edge + 2
    floats = types.total == "f32"

    def chunk(c: Value, *odd: Value) -> list[Value]:
        at = f.at(f.arg("cells"), c * 4)
        rows = []
        for _ in range(reach):
            row = []
            for _ in range(reach):
                row.append(load(f, k.isa, types.total, at, lanes))
                at = f.at(at, f.arg("place"))
            rows.append(backward(f, k.isa, row))
        bias = load(f, k.isa, types.total, f.at(f.arg("bias"), c * 4), lanes)
        columns = [backward(f, k.isa, [row[j] for row in rows]) for j in range(spec.edge)]
        for i in range(spec.edge):
            for j in range(spec.edge):
                value = columns[j][i] if floats else unscaled(f, spec.edge, columns[j][i])
                to = f.at(f.arg("outputs"), c * 4)
                f.store(value + bias, f.at(to, (i * spec.edge + j) * types.columns * 4))
                odd = tuple(noted(f, k.isa, value, before) for before in odd)
        return list(odd)

    start = [f.zero(register_type("f32", lanes))] if floats else []
    odd = f.loop(0, types.columns, chunk, start, step=lanes)
    f.ret(any_nan(f, odd[0]) if floats else f.const(False, "i1"))
    return name


def finish_function(k: Kernel, spec: Winograd, channels: int) -> str:
    """The outputs of a tile that exist, `channels` of each, through the epilogue to the image."""
    name = f"{k.f.name}_finish_{channels}"
    after = spec.after
    parameters = [
        ("ptr", "outputs"), ("i64", "y"), ("i64", "x"), ("i64", "height"), ("i64", "width"),
        ("ptr", "out"), ("i64", "out_pixel"),
    ]  # fmt: skip
    for i in range(len(after.operands)):
        parameters += [("ptr", f"o{i}"), ("i64", f"s{i}")]
    f = k.module.function(name, parameters, internal=True)
    types = Types(k.isa, spec)
    parts = pieces(channels, k.isa.lanes(types.total))
    rows = _at_most(f, f.arg("height") - f.arg("y"), f.i64(spec.edge))
    across = _at_most(f, f.arg("width") - f.arg("x"), f.i64(spec.edge))

    def pixel(i: Value, j: Value) -> None:
        cells = f.at(f.arg("outputs"), (i * spec.edge + j) * (types.columns * 4))
        at = (f.arg("y") + i) * f.arg("width") + (f.arg("x") + j)
        out = f.at(f.arg("out"), at * f.arg("out_pixel"))
        pointers = [
            f.at(f.arg(f"o{o}"), at * f.arg(f"s{o}")) if operand.pixels else f.arg(f"o{o}")
            for o, operand in enumerate(after.operands)
        ]
        for channel, lanes in parts:
            total = load(f, k.isa, types.total, f.at(cells, channel * 4), lanes)
            values = operand_values(f, k.isa, after, pointers, channel, lanes)
            to = f.at(out, channel * BYTES[after.out])
            finish(f, k.isa, after, total, values, to, lanes)

    f.loop(0, rows, lambda i: f.loop(0, across, lambda j: pixel(i, j)))
    f.ret()
    return name
