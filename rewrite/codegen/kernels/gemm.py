"""Matrix products.

In: `Gemm`. Out: a kernel that goes over tiles of the output. A tile is summed up in registers by
one internal function per height; sums that need no more work are stored where they belong, others
go through scratch and `Finish`, where the epilogue stands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.gemm_finish import Finish
from rewrite.codegen.memory import register_type
from rewrite.codegen.product import product_of
from rewrite.codegen.tile import contract, spaced_rows
from rewrite.codegen.value import Value
from rewrite.plan.specs.gemm import Gemm
from rewrite.plan.view import BYTES


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of a kernel, strides in bytes."""

    a: Value
    b: Value
    init: Value
    table: Value
    operands: list[Value]
    out: Value
    n: Value
    steps: Value
    a_row: Value
    b_panel: Value
    out_row: Value
    init_panel: Value
    height: Value
    whole: Value
    tail: Value
    tiles: Value
    block: Value
    b_row: Value
    operand_rows: list[Value]


def _words(k: Kernel, spec: Gemm) -> _Words:
    f, n = k.f, len(spec.operands)
    pointers = [k.pointer(i) for i in range(5 + n)]
    w = [k.integer(5 + n + i) for i in range(12 + n)]
    scaled = {2: spec.a, 3: spec.b, 4: spec.out, 5: spec.total, 11: spec.b}
    for index, dtype in scaled.items():
        w[index] = f.mul(w[index], BYTES[dtype])
    rows = [f.mul(w[12 + i], BYTES[o.dtype]) for i, o in enumerate(spec.operands)]
    a, b, init, table, *operands, out = pointers
    return _Words(
        a=a, b=b, init=init, table=table, operands=operands, out=out,
        n=w[0], steps=w[1], a_row=w[2], b_panel=w[3], out_row=w[4], init_panel=w[5],
        height=w[6], whole=w[7], tail=w[8], tiles=w[9], block=w[10], b_row=w[11],
        operand_rows=rows,
    )  # fmt: skip


@emits(Gemm)
def gemm(k: Kernel, spec: Gemm) -> None:
    f, isa = k.f, k.isa
    tiles = {h: _micro_kernel(k, spec, h) for h in spec.heights}
    finish = Finish(k, spec)
    w = _words(k, spec)
    vectors = spec.columns // isa.lanes(spec.total)
    assert spec.columns == vectors * isa.lanes(spec.total)
    panels = f.binary("udiv", w.n + (spec.columns - 1), f.i64(spec.columns))
    per_matrix = w.tiles * panels
    per_block = w.block * panels

    def item(index: Value) -> None:
        batch = f.binary("udiv", index, per_matrix)
        rest = index - batch * per_matrix
        block = f.binary("udiv", rest, per_block)
        left = w.tiles - block * w.block
        here = f.select(f.compare("<", left, w.block), left, w.block)
        rest = rest - block * per_block
        panel = f.binary("udiv", rest, here)
        tile = block * w.block + (rest - panel * here)
        start, height = _tile_rows(f, w, tile)
        offsets = f.at(w.table, batch * (3 + len(spec.operands)), "i64")
        _tile(k, spec, w, tiles, finish, offsets, panel, start, height)

    f.loop(k.begin, k.end, item)


def _tile_rows(f: Function, w: _Words, tile: Value) -> tuple[Value, Value]:
    """The first row of a tile and its height."""

    def in_tail() -> list[Value]:
        def skip(_: Value, start: Value, code: Value) -> list[Value]:
            return [start + f.binary("and", code, 15), f.binary("lshr", code, 4)]

        start, code = f.loop(w.whole, tile, skip, [w.whole * w.height, w.tail])
        return [start, f.binary("and", code, 15)]

    start, height = f.if_(
        f.compare("<", tile, w.whole), lambda: [tile * w.height, w.height], in_tail, 2
    )
    return start, height


def _tile(
    k: Kernel,
    spec: Gemm,
    w: _Words,
    tiles: dict[int, Function],
    finish: Finish,
    offsets: Value,
    panel: Value,
    start: Value,
    height: Value,
) -> None:
    f = k.f
    offset = [f.load("i64", f.at(offsets, i, "i64")) for i in range(3 + len(spec.operands))]
    column = panel * spec.columns
    a = f.at(f.at(w.a, offset[0] * BYTES[spec.a]), start * w.a_row)
    b = f.at(f.at(w.b, offset[1] * BYTES[spec.b]), panel * w.b_panel)
    init = f.at(w.init, panel * w.init_panel)
    out = f.at(f.at(w.out, (offset[2] + column) * BYTES[spec.out]), start * w.out_row)
    left = w.n - column
    whole = f.compare(">=", left, spec.columns)
    cells, cell_row = k.scratch, f.i64(spec.columns * BYTES[spec.total])
    if finish.trivial:
        cells, cell_row = f.select(whole, out, cells), f.select(whole, w.out_row, cell_row)
    arguments = [a, w.a_row, b, w.b_row, w.steps, init, cells, cell_row]
    _dispatch(f, tiles, height, arguments)

    def then() -> None:
        count = f.select(whole, f.i64(spec.columns), left)
        passed = []
        for i, operand in enumerate(spec.operands):
            skipped = offset[3 + i] + (column if operand.stride else 0)
            at = f.at(w.operands[i], skipped * BYTES[operand.dtype])
            passed += [f.at(at, start * w.operand_rows[i]), w.operand_rows[i]]
        finish.call(f, cells, height, count, out, w.out_row, *passed)

    if finish.trivial:
        f.if_(whole, lambda: None, then)
    else:
        then()


def _dispatch(
    f: Function, tiles: dict[int, Function], height: Value, arguments: Sequence[Value]
) -> None:
    """Calls the micro-kernel of a height; the highest is asked for first."""
    heights = sorted(tiles, reverse=True)

    def choose(index: int) -> None:
        micro = tiles[heights[index]]
        if index == len(heights) - 1:
            f.call(micro.name, "void", *arguments)
            return
        f.if_(
            f.compare("==", height, heights[index]),
            lambda: f.call(micro.name, "void", *arguments) and None,
            lambda: choose(index + 1),
        )

    choose(0)


def _micro_kernel(k: Kernel, spec: Gemm, height: int) -> Function:
    """Sums of one tile: `cells` = init + rows @ panel."""
    f = k.module.function(
        f"{k.f.name}_{height}",
        [("ptr", "a"), ("i64", "a_row"), ("ptr", "b"), ("i64", "b_row"), ("i64", "steps"),
         ("ptr", "init"), ("ptr", "cells"), ("i64", "cell_row")],
        internal=True,
    )  # fmt: skip
    isa = k.isa
    lanes = isa.lanes(spec.total)
    vectors, size = spec.columns // lanes, lanes * BYTES[spec.total]
    type_ = register_type(spec.total, lanes)
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
        stride=None if spec.packed else f.arg("b_row"),
    )
    cells = f.arg("cells")
    for r in range(height):
        for v in range(vectors):
            f.store(sums[r * vectors + v], f.at(cells, v * size))
        cells = f.at(cells, f.arg("cell_row"))
    f.ret()
    return f
