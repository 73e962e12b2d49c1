"""What the kernels of recurrent layers share: words, rows of operands, one vector of a new state.

In: specs. Out: code.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.kernels.recurrent_cells import Cell, cell_of
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.recurrent import INTEGERS, Recurrent, accumulator
from rewrite.plan.view import BYTES


class Layer:
    """Words and regions of a layer, and code for one vector of hidden units."""

    def __init__(self, k: Kernel, spec: Recurrent, names: tuple[str, ...]) -> None:
        self.k, self.f, self.isa, self.spec = k, k.f, k.isa, spec
        wide = accumulator(spec.dtype)
        self.size, self.item = BYTES[wide], BYTES[spec.dtype]
        self.lanes = min(k.isa.lanes(wide), spec.unit)
        self.parts = spec.unit // self.lanes  # vectors of one gate
        assert spec.unit == self.parts * self.lanes
        self.vector = register_type(wide, self.lanes)
        self.scalar = register_type(wide, 0)
        self.at = {name: k.pointer(i) for i, name in enumerate(names)}
        self.w = {name: k.integer(len(names) + i) for i, name in enumerate(INTEGERS)}
        row = spec.blocks * spec.unit * self.size
        region = -(-spec.rows * row // 64) * 64
        self.row = row
        self.regions = [self.f.at(k.scratch, region * i) for i in range(5)]
        clip = self.f.bitcast(self.w["clip"], "double")
        if self.scalar == "float":
            clip = self.f.cast("fptrunc", clip, "float")
        self.cell: Cell = cell_of(self.f, k.isa, spec, self.vector, clip)

    def least(self, x: Value, y: Value) -> Value:
        return self.f.select(self.f.compare("<", x, y), x, y)

    def state_offset(self, d: Value, b: Value) -> Value:
        found: Value = self.f.add(self.f.mul(d, self.w["s_d"]), self.f.mul(b, self.w["s_b"]))
        return found

    def state_row(self, name: str, d: Value, b: Value) -> Value:
        """A row of an initial or last state."""
        return self.f.at(self.at[name], self.f.mul(self.state_offset(d, b), self.item))

    def copy_row(self, source: Value, target: Value, to_scratch: bool) -> None:
        """One row of `hidden` elements between an operand and scratch."""
        f, dtype = self.f, self.spec.dtype

        def element(i: Value) -> None:
            if to_scratch:
                x = load(f, self.isa, dtype, f.at(source, f.mul(i, self.item)), 0)
                f.store(x, f.at(target, f.mul(i, self.size)))
            else:
                x = f.load(self.scalar, f.at(source, f.mul(i, self.size)))
                store(f, self.isa, dtype, x, f.at(target, f.mul(i, self.item)), 0)

        f.loop(0, self.spec.hidden, element)

    def input_row(self, d: Value, b: Value, t: Value) -> Value:
        """The projected input of one step."""
        f, w = self.f, self.w
        place = f.add(f.add(f.mul(t, w["x_t"]), f.mul(b, w["x_b"])), f.mul(d, w["x_d"]))
        return f.at(self.at["projected"], f.mul(place, self.size))

    def output_row(self, d: Value, b: Value, t: Value) -> Value:
        f, w = self.f, self.w
        place = f.add(f.add(f.mul(t, w["y_t"]), f.mul(b, w["y_b"])), f.mul(d, w["y_d"]))
        return f.at(self.at["y"], f.mul(place, self.item))

    def element(
        self, d: Value, number: int, sums: list[Value], r: int, p: Int, v: int, state: Value,
        fresh: Value, inputs: Sequence[Value], outputs: Sequence[Value],
    ) -> None:  # fmt: skip
        """A vector of hidden units: gates, new state."""
        f, spec = self.f, self.spec
        column = f.add(f.mul(p, spec.unit), v * self.lanes)
        scratch = f.add(f.mul(column, self.size), r * self.row)

        def of(base: Value, sets: int, index: int) -> Value:
            """One of several sets of vectors that lie in blocks."""
            place = f.add(f.mul(p, sets * spec.unit), index * spec.unit + v * self.lanes)
            return f.load(self.vector, f.at(base, f.mul(place, self.size)), self.size)

        def per_direction(name: str, sets: int, index: int) -> Value:
            base = f.at(self.at[name], f.mul(d, spec.blocks * sets * spec.unit * self.size))
            return of(base, sets, index)

        place = Place(self, scratch, state, fresh)
        self.cell.run(
            number, sums,
            projected=lambda g: of(inputs[r], spec.gates, g),
            bias=lambda g: per_direction("bias", spec.biases, g),
            peephole=lambda g: per_direction("peepholes", 3, g),
            place=place,
        )  # fmt: skip
        if outputs and place.written is not None:
            self.store_output(place.written, outputs[r], p, v)

    def store_output(self, x: Value, row: Value, p: Int, v: int) -> None:
        """A vector of the output; of the last block as much as there is."""
        f, spec = self.f, self.spec
        column = f.add(f.mul(p, spec.unit), v * self.lanes)
        target = f.at(row, f.mul(column, self.item))

        def whole() -> None:
            store(f, self.isa, spec.dtype, x, target, self.lanes)

        rest = spec.hidden % spec.unit
        if not rest:
            whole()
            return

        def last() -> None:
            for lane in range(max(0, min(self.lanes, rest - v * self.lanes))):
                at = f.at(target, lane * self.item)
                store(f, self.isa, spec.dtype, f.extract(x, lane), at, 0)

        if isinstance(p, int):
            (last if p == spec.blocks - 1 else whole)()
        else:
            f.if_(f.compare("<", p, spec.blocks - 1), whole, last)


class Place:
    """Where one vector of states is read and written."""

    def __init__(self, writer: Layer, offset: Value, state: Value, fresh: Value) -> None:
        self.writer, self.offset, self.state, self.fresh = writer, offset, state, fresh
        self.written: Value | None = None

    def _load(self, region: Value) -> Value:
        w = self.writer
        return w.f.load(w.vector, w.f.at(region, self.offset), w.size)

    def _store(self, x: Value, region: Value) -> None:
        w = self.writer
        w.f.store(x, w.f.at(region, self.offset), w.size)

    def hidden(self) -> Value:
        """The state before this step."""
        return self._load(self.state)

    def cell(self) -> Value:
        return self._load(self.writer.regions[2])

    def kept(self) -> Value:
        """What an earlier pass of this step kept."""
        return self._load(self.writer.regions[3])

    def set_cell(self, x: Value) -> None:
        self._store(x, self.writer.regions[2])

    def keep(self, x: Value) -> None:
        self._store(x, self.writer.regions[3])

    def set_hidden(self, x: Value) -> None:
        """The new state, or of a first pass the operand of the second one."""
        self._store(x, self.fresh)
        self.written = x
