"""Matrix products.

In: `Gemm`. Out: a kernel that goes over tiles of the output. A tile is summed up in registers by
one internal function per height; sums that need no more work are stored where they belong, others
go through scratch and `Finish`, where the epilogue stands once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.gemm_finish import Finish
from rewrite.codegen.kernels.gemm_micro import micro_kernels
from rewrite.codegen.memory import prefetch
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
    scalars: Value
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


@dataclass(frozen=True, slots=True)
class _Panel:
    """One panel of one matrix: where its operands begin, and its `count` columns."""

    a: Value
    b: Value
    b_row: Value
    init: Value
    out: Value
    operands: list[Value]
    whole: Value
    count: Value


def _words(k: Kernel, spec: Gemm) -> _Words:
    f, n = k.f, len(spec.operands)
    pointers = [k.pointer(i) for i in range(6 + n)]
    w = [k.integer(6 + n + i) for i in range(12 + n)]
    scaled = {2: spec.a, 3: spec.b, 4: spec.out, 5: spec.total, 11: spec.b}
    for index, dtype in scaled.items():
        w[index] = f.mul(w[index], BYTES[dtype])
    rows = [f.mul(w[12 + i], BYTES[o.dtype]) for i, o in enumerate(spec.operands)]
    a, b, init, table, scalars, *operands, out = pointers
    return _Words(
        a=a, b=b, init=init, table=table, scalars=scalars, operands=operands, out=out,
        n=w[0], steps=w[1], a_row=w[2], b_panel=w[3], out_row=w[4], init_panel=w[5],
        height=w[6], whole=w[7], tail=w[8], tiles=w[9], block=w[10], b_row=w[11],
        operand_rows=rows,
    )  # fmt: skip


@emits(Gemm)
def gemm(k: Kernel, spec: Gemm) -> None:
    driver = _Driver(k, spec)
    k.f.if_(k.f.compare("<", k.begin, k.end), driver.run)


class _Driver:
    """Goes over tiles: down the rows of a panel, panel by panel, block by block of rows."""

    def __init__(self, k: Kernel, spec: Gemm) -> None:
        self.k, self.f, self.spec = k, k.f, spec
        assert spec.columns % k.isa.lanes(spec.total) == 0
        self.tiles = micro_kernels(k, spec)
        self.finish = Finish(k, spec)
        self.w = _words(k, spec)
        self.cell_bytes = BYTES[spec.total]
        self.panels = k.f.divide(self.w.n + (spec.columns - 1), spec.columns)

    def run(self) -> None:
        f, k = self.f, self.k

        def stretch(index: Value) -> list[Value]:
            following = self._stretch(index)
            return [f.compare("<", following, k.end), following]

        f.while_(stretch, [k.begin])

    def _stretch(self, index: Value) -> Value:
        """The tiles of one panel, from item `index` on; gives the item behind them."""
        f, w, spec = self.f, self.w, self.spec
        per_matrix, per_block = w.tiles * self.panels, w.block * self.panels
        batch = f.binary("udiv", index, per_matrix)
        rest = index - batch * per_matrix
        block = f.binary("udiv", rest, per_block)
        here = self._least(w.tiles - block * w.block, w.block)
        rest = rest - block * per_block
        number = f.binary("udiv", rest, here)
        within = rest - number * here
        count = self._least(here - within, self.k.end - index)
        offsets = f.at(w.table, batch * (3 + len(spec.operands)), "i64")
        panel = self._panel(offsets, number)
        first = block * w.block + within
        f.loop(first, first + count, lambda tile: self._tile(panel, tile))
        following: Value = index + count
        return following

    def _least(self, x: Value, y: Value) -> Value:
        f = self.f
        return f.select(f.compare("<", x, y), x, y)

    def _panel(self, offsets: Value, number: Value) -> _Panel:
        """Where the operands of one panel begin."""
        f, w, spec = self.f, self.w, self.spec
        offset = [f.load("i64", f.at(offsets, i, "i64")) for i in range(3 + len(spec.operands))]
        column = number * spec.columns
        left = w.n - column
        whole = f.compare(">=", left, spec.columns)
        operands = [
            f.at(w.operands[i], (o + (column if x.stride else 0)) * BYTES[x.dtype])
            for i, (o, x) in enumerate(zip(offset[3:], spec.operands, strict=True))
        ]
        b = f.at(f.at(w.b, offset[1] * BYTES[spec.b]), number * w.b_panel)
        b_row: Value = w.b_row
        if spec.right == "rows":
            b, b_row = self._staged(b, whole, left)
        return _Panel(
            a=f.at(w.a, offset[0] * BYTES[spec.a]),
            b=b,
            b_row=b_row,
            init=f.at(w.init, number * w.init_panel),
            out=f.at(w.out, (offset[2] + column) * BYTES[spec.out]),
            operands=operands,
            whole=whole,
            count=f.select(whole, f.i64(spec.columns), left),
        )

    def _staged(self, b: Value, whole: Value, left: Value) -> tuple[Value, Value]:
        """A panel of fewer columns is copied to scratch, where a whole one may be read."""
        f, w, spec = self.f, self.w, self.spec
        size, type_ = BYTES[spec.b], f"i{8 * BYTES[spec.b]}"
        room = f.at(self.k.scratch, max(spec.heights) * spec.columns * self.cell_bytes)
        row = spec.columns * size

        def copy() -> list[Value]:
            def step(_: Value, source: Value, target: Value) -> list[Value]:
                f.loop(0, left, lambda c: f.store(
                    f.load(type_, f.at(source, c, type_)), f.at(target, c, type_)
                ))  # fmt: skip
                return [f.at(source, w.b_row), f.at(target, row)]

            f.loop(0, w.steps, step, [b, room])
            return [room, f.i64(row)]

        place, stride = f.if_(whole, lambda: [b, w.b_row], copy, 2)
        return place, stride

    def _tile(self, panel: _Panel, tile: Value) -> None:
        f, w, spec, finish = self.f, self.w, self.spec, self.finish
        start, height = self._rows(tile)
        out = f.at(panel.out, start * w.out_row)
        cells, cell_row = self.k.scratch, f.i64(spec.columns * self.cell_bytes)
        if finish.trivial:
            cells = f.select(panel.whole, out, cells)
            cell_row = f.select(panel.whole, w.out_row, cell_row)
        a = f.at(panel.a, start * w.a_row)
        self._ask(panel, start, height)
        self._dispatch(
            height, [a, w.a_row, panel.b, panel.b_row, w.steps, panel.init, cells, cell_row,
                     panel.count],
        )  # fmt: skip

        def then() -> None:
            passed: list[Value] = []
            for pointer, row in zip(panel.operands, w.operand_rows, strict=True):
                passed += [f.at(pointer, start * row), row]
            place = [cells, height, panel.count, out, w.out_row, w.scalars]
            finish.call(f, *place, *passed)

        if finish.trivial:
            f.if_(panel.whole, lambda: None, then)
        else:
            then()

    def _ask(self, panel: _Panel, start: Value, height: Value) -> None:
        """Operands of the epilogue are asked for while the sums are made."""
        f, spec = self.f, self.spec
        for pointer, row, operand in zip(
            panel.operands, self.w.operand_rows, spec.operands, strict=True
        ):
            if not operand.stride:
                continue
            size = spec.columns * BYTES[operand.dtype]

            def ask(_: Value, at: Value, row: Value = row, size: int = size) -> Value:
                for line in range(0, size, 64):
                    prefetch(f, f.at(at, line), 1)
                return f.at(at, row)

            f.loop(0, height, ask, [f.at(pointer, start * row)])

    def _rows(self, tile: Value) -> tuple[Value, Value]:
        """The first row of a tile and its height."""
        f, w = self.f, self.w

        def in_tail() -> list[Value]:
            def skip(_: Value, start: Value, code: Value) -> list[Value]:
                return [start + f.binary("and", code, 15), f.binary("lshr", code, 4)]

            start, code = f.loop(w.whole, tile, skip, [w.whole * w.height, w.tail])
            return [start, f.binary("and", code, 15)]

        start, height = f.if_(
            f.compare("<", tile, w.whole), lambda: [tile * w.height, w.height], in_tail, 2
        )
        return start, height

    def _dispatch(self, height: Value, arguments: Sequence[Value]) -> None:
        """Calls the micro-kernel of a height; the highest is asked for first."""
        f = self.f
        heights = sorted(self.tiles, reverse=True)

        def call(index: int) -> None:
            f.call(self.tiles[heights[index]].name, "void", *arguments)

        def choose(index: int) -> None:
            if index == len(heights) - 1:
                call(index)
                return
            f.if_(
                f.compare("==", height, heights[index]),
                lambda: call(index),
                lambda: choose(index + 1),
            )

        choose(0)
