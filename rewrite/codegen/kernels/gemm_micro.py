"""Sums of one tile of a matrix product.

In: `Gemm`. Out: internal functions, one per height of a tile, of one signature:

    void f(a, a_row, b, b_row, steps, init, cells, cell_row, count)

`cells` = init + a @ b; strides in bytes; `count` columns of the panel exist.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.memory import load, register_type
from rewrite.codegen.product import Product, product_of
from rewrite.codegen.tile import Row, contract, spaced_rows
from rewrite.codegen.types import lanes
from rewrite.codegen.value import Value
from rewrite.plan.specs.gemm import Gemm
from rewrite.plan.view import BYTES

_PARAMETERS = [
    ("ptr", "a"), ("i64", "a_row"), ("ptr", "b"), ("i64", "b_row"), ("i64", "steps"),
    ("ptr", "init"), ("ptr", "cells"), ("i64", "cell_row"), ("i64", "count"),
]  # fmt: skip


def micro_kernels(k: Kernel, spec: Gemm) -> dict[int, Function]:
    """By the height of the tile."""
    if spec.right == "columns":
        return {1: _dots(k, spec)}
    return {height: _tile(k, spec, height) for height in spec.heights}


def _tile(k: Kernel, spec: Gemm, height: int) -> Function:
    """Rows splat over vectors of a panel."""
    f = k.module.function(f"{k.f.name}_{height}", _PARAMETERS, internal=True)
    isa = k.isa
    width = isa.lanes(spec.total)
    vectors, size = spec.columns // width, width * BYTES[spec.total]
    type_ = register_type(spec.total, width)
    first = [f.load(type_, f.at(f.arg("init"), v * size)) for v in range(vectors)]
    sums = contract(
        f,
        isa,
        product_of(isa, spec.form, spec.a, spec.b, spec.total),
        spaced_rows(f, f.arg("a"), f.arg("a_row"), height),
        f.arg("b"),
        f.arg("steps"),
        first * height,
        vectors,
        stride=None if spec.right == "panels" else f.arg("b_row"),
    )
    cells = f.arg("cells")
    for r in range(height):
        for v in range(vectors):
            f.store(sums[r * vectors + v], f.at(cells, v * size))
        cells = f.at(cells, f.arg("cell_row"))
    f.ret()
    return f


# --- both factors with neighbours in K side by side ----------------------------------------------


def _dots(k: Kernel, spec: Gemm) -> Function:
    """One row of `a` by each column of `b`: products of vectors along K, added up at the end."""
    f = k.module.function(f"{k.f.name}_dots", _PARAMETERS, internal=True)
    whole = f.compare("==", f.arg("count"), spec.columns)
    f.if_(whole, lambda: _whole_panel(k, f, spec), lambda: _part_of_panel(k, f, spec))
    f.ret()
    return f


def _whole_panel(k: Kernel, f: Function, spec: Gemm) -> None:
    """A sum for each column in a register; groups of them are added up together."""
    width, size = k.isa.lanes(spec.total), BYTES[spec.total]
    columns = spaced_rows(f, f.arg("b"), f.arg("b_row"), spec.columns)
    along, rest = _split(f, f.arg("steps"), width)
    zero = f.zero(register_type(spec.total, width))
    sums = _along(k, f, spec, columns, along, [zero] * spec.columns)
    for first in range(0, spec.columns, width):
        init = f.load(zero.type, f.at(f.arg("init"), first * size))
        total = f.add(init, _added_up(f, sums[first : first + width]))
        start = f.at(f.arg("b"), f.arg("b_row") * first)
        total = _rest(k, f, spec, start, along, rest, total)
        f.store(total, f.at(f.arg("cells"), first * size))


def _part_of_panel(k: Kernel, f: Function, spec: Gemm) -> None:
    """Column by column."""
    width = k.isa.lanes(spec.total)
    along, rest = _split(f, f.arg("steps"), width)
    zero = f.zero(register_type(spec.total, width))

    def column(c: Value) -> None:
        start = f.at(f.arg("b"), c * f.arg("b_row"))
        (total,) = _along(k, f, spec, [Row(start)], along, [zero])
        one = f.reduce(total, f.add)
        place = c * BYTES[spec.total]
        one = f.add(load(f, k.isa, spec.total, f.at(f.arg("init"), place), 0), one)
        one = _rest(k, f, spec, start, along, rest, one)
        f.store(one, f.at(f.arg("cells"), place))

    f.loop(0, f.arg("count"), column)


def _split(f: Function, steps: Value, width: int) -> tuple[Value, Value]:
    """How many elements vectors reach, and where they end."""
    rest = f.remainder(steps, width)
    return steps - rest, steps


def _along(
    k: Kernel, f: Function, spec: Gemm, columns: list[Row], stop: Value, sums: list[Value]
) -> list[Value]:
    """Products of vectors along K."""
    width = k.isa.lanes(spec.total)
    product = product_of(k.isa, "plain", spec.b, spec.a, spec.total)
    other = product_of(k.isa, "plain", spec.a, spec.b, spec.total)
    pointers = list(dict.fromkeys(row.pointer for row in columns))

    def turn(_: Value, a: Value, *carried: Value) -> list[Value]:
        walk = dict(zip(pointers, carried, strict=False))
        totals = list(carried[len(pointers) :])
        x = product.load_panel(f, a)
        for c, row in enumerate(columns):
            totals[c] = product.add(f, x, _loaded(f, other, walk, row), totals[c])
        moved = [f.at(p, width * BYTES[spec.b]) for p in walk.values()]
        return [f.at(a, width * BYTES[spec.a]), *moved, *totals]

    carried = f.loop(0, stop, turn, [f.arg("a"), *pointers, *sums], step=width)
    return carried[1 + len(pointers) :]


def _loaded(f: Function, product: Product, walk: dict[Value, Value], row: Row) -> Value:
    pointer = walk[row.pointer]
    if row.offset is not None:
        pointer = f.at(pointer, row.offset, f"[{row.scale} x i8]")
    return product.load_panel(f, pointer)


def _added_up(f: Function, sums: list[Value]) -> Value:
    """Lane c is the sum of the lanes of `sums[c]`; as many vectors as lanes.

    In each round two vectors become one: each of their segments is halved by adding its halves.
    """
    count = lanes(sums[0].type)
    width = count
    while len(sums) > 1:
        half = width // 2
        low = [s + i for s in range(0, 2 * count, width) for i in range(half)]
        high = [lane + half for lane in low]
        sums = [
            f.add(f.shuffle(x, y, low), f.shuffle(x, y, high))
            for x, y in zip(sums[::2], sums[1::2], strict=True)
        ]
        width = half
    return sums[0]


def _rest(
    k: Kernel, f: Function, spec: Gemm, start: Value, first: Value, stop: Value, total: Value
) -> Value:
    """Elements of K that fill no vector, for the columns from `start` on."""
    width = lanes(total.type)
    product = product_of(k.isa, "plain", spec.a, spec.b, spec.total)

    def step(index: Value, sums: Value) -> Value:
        a = load(f, k.isa, spec.a, f.at(f.arg("a"), index * BYTES[spec.a]), 0)
        place = f.at(start, index * BYTES[spec.b])
        if not width:
            return product.add(f, a, load(f, k.isa, spec.b, place, 0), sums)
        b = f.undef(total.type)
        for lane in range(width):
            one = load(f, k.isa, spec.b, f.at(place, f.arg("b_row") * lane), 0)
            b = f.insert(b, one, lane)
        return product.add(f, f.splat(a, total.type), b, sums)

    (found,) = f.loop(first, stop, step, [total])
    return found
