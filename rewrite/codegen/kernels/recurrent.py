"""The kernel of `Recurrent`.

In: the spec. Out: code. For each row of the batch (or a few of them together) a loop over the time
steps; in each step a loop over blocks of hidden units. The products of the state with the weights
of all gates of a block are summed up side by side, so that the gates are in registers when the new
state is computed. The state is double-buffered: a step reads one copy and writes the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.attention_math import multiply_add
from rewrite.codegen.kernels.recurrent_layer import Layer
from rewrite.codegen.memory import store
from rewrite.codegen.value import Value
from rewrite.plan.specs.recurrent import Recurrent

_CHAINS = 8  # independent sums that hide the latency of an addition


@emits(Recurrent)
def recurrent(k: Kernel, spec: Recurrent) -> None:
    _Recurrent(k, spec).write()


class _Recurrent(Layer):
    def __init__(self, k: Kernel, spec: Recurrent) -> None:
        super().__init__(k, spec, spec.operands)

    # --- work items -------------------------------------------------------------------------

    def write(self) -> None:
        """Rows of one direction are taken together, up to `rows` of them."""
        f, w, rows = self.f, self.w, self.spec.rows

        def some(index: Value) -> list[Value]:
            d = f.binary("udiv", index, w["batch"])
            b = f.sub(index, f.mul(d, w["batch"]))
            left = self.least(f.sub(self.k.end, index), f.sub(w["batch"], b))
            count = self.least(left, f.i64(rows))
            self.sequence(d, b, count)
            after = f.add(index, count)
            return [f.compare("<", after, self.k.end), after]

        def all_of_them() -> None:
            f.while_(some, [self.k.begin])

        f.if_(f.compare("<", self.k.begin, self.k.end), all_of_them)

    def sequence(self, d: Value, b: Value, count: Value) -> None:
        """All steps of the rows b, b + 1, … Rows behind the last one repeat it."""
        f, w, spec = self.f, self.w, self.spec
        last = f.sub(count, 1)
        batch = [f.add(b, self.least(f.i64(r), last)) for r in range(spec.rows)]
        self.start(d, batch)
        length = w["steps"]
        if spec.lengths:
            given = f.cast("sext", f.load("i32", f.at(self.at["lengths"], b, "i32")), "i64")
            inside = self.least(given, w["steps"])
            length = f.select(f.compare("<", inside, 0), 0, inside)
        bit = f.binary("and", f.binary("lshr", w["reversed"], d), 1)
        backwards = f.compare("!=", bit, 0)

        def step(s: Value, state: Value, fresh: Value) -> list[Value]:
            t = f.select(backwards, f.sub(f.sub(length, 1), s), s)
            self.step(d, batch, t, state, fresh)
            return [fresh, state]

        final, _ = f.loop(0, length, step, self.regions[:2])
        self.finish(d, batch, final, length)

    def start(self, d: Value, batch: Sequence[Value]) -> None:
        """The initial states."""
        f = self.f
        states = [("h0", self.regions[0]), *([("c0", self.regions[2])] if self._is_lstm else [])]
        for name, region in states:
            self.clear(region)
            if getattr(self.spec, name):
                for r, b in enumerate(batch):
                    source = self.state_row(name, d, b)
                    self.copy_row(source, f.at(region, r * self.row), to_scratch=True)
        self.clear(self.regions[1])

    @property
    def _is_lstm(self) -> bool:
        return self.spec.kind == "LSTM"

    def clear(self, region: Value) -> None:
        f = self.f
        zero = f.const(0.0, self.vector)
        total = self.spec.rows * self.spec.blocks * self.spec.unit
        f.loop(
            0, total, lambda i: f.store(zero, f.at(region, f.mul(i, self.size)), self.size),
            step=self.lanes,
        )  # fmt: skip

    def finish(self, d: Value, batch: Sequence[Value], state: Value, length: Value) -> None:
        """The last states; zeros behind the end of a sequence."""
        f, w, spec = self.f, self.w, self.spec
        for name, region in (("y_h", state), ("y_c", self.regions[2])):
            if getattr(spec, name):
                for r, b in enumerate(batch):
                    target = self.state_row(name, d, b)
                    self.copy_row(f.at(region, r * self.row), target, to_scratch=False)
        if not (spec.y and spec.lengths):
            return
        zero = f.const(0.0, self.scalar)

        def clear(t: Value) -> None:
            row = self.output_row(d, batch[0], t)
            f.loop(
                0, spec.hidden,
                lambda i: store(
                    f, self.isa, spec.dtype, zero, f.at(row, f.mul(i, self.item)), 0
                ),
            )  # fmt: skip

        f.loop(length, w["steps"], clear)

    # --- one step ---------------------------------------------------------------------------

    def step(self, d: Value, batch: Sequence[Value], t: Value, state: Value, fresh: Value) -> None:
        spec = self.spec
        inputs = [self.input_row(d, b, t) for b in batch]
        outputs = [self.output_row(d, b, t) for b in batch] if spec.y else []
        if len(spec.passes) == 1:
            self.blocks(d, 0, state, state, fresh, inputs, outputs)
            return
        reset = self.regions[4]
        self.blocks(d, 0, state, state, reset, inputs, [])
        self.blocks(d, 1, reset, state, fresh, inputs, outputs)

    def blocks(
        self, d: Value, number: int, operand: Value, state: Value, fresh: Value,
        inputs: Sequence[Value], outputs: Sequence[Value],
    ) -> None:  # fmt: skip
        """One pass over all blocks: products with `operand`, new elements into `fresh`."""
        f, spec = self.f, self.spec
        gates = spec.passes[number]
        block = spec.hidden * len(gates) * spec.unit  # elements of the weights of a block
        before = sum(spec.hidden * len(g) * spec.unit for g in spec.passes[:number]) * spec.blocks
        every = spec.hidden * spec.gates * spec.unit * spec.blocks
        weights = f.at(self.at["weights"], f.mul(f.add(f.mul(d, every), before), self.size))

        def one(p: Int) -> None:
            panel = f.at(weights, f.mul(p, block * self.size))
            for part in self.part_groups(len(gates)):
                sums = self.products(panel, operand, gates, part)
                for r in range(spec.rows):
                    for at, v in enumerate(part):
                        given = [sums[(r * len(gates) + g) * len(part) + at]
                                 for g in range(len(gates))]  # fmt: skip
                        self.element(d, number, given, r, p, v, state, fresh, inputs, outputs)

        f.loop(0, spec.blocks, one)

    def part_groups(self, gates: int) -> list[list[int]]:
        """Vectors of a block whose sums fit into registers together."""
        budget = (self.isa.registers * 3) // 4
        most = max(1, budget // (gates * self.spec.rows))
        parts = list(range(self.parts))
        return [parts[i : i + most] for i in range(0, self.parts, most)]

    def products(
        self, panel: Value, operand: Value, gates: Sequence[int], part: Sequence[int]
    ) -> list[Value]:
        """Sums over the state: [row][gate][vector]."""
        f, spec = self.f, self.spec
        count = spec.rows * len(gates) * len(part)
        chains = max(1, _CHAINS // count)
        width = len(gates) * spec.unit

        def add(i: Int, offset: int, sums: Sequence[Value]) -> list[Value]:
            found: list[Value] = []
            weights = f.at(panel, f.mul(i, width * self.size))
            state = f.at(operand, f.mul(i, self.size))
            columns = [
                f.load(self.vector,
                       f.at(weights, ((offset * len(gates) + g) * spec.unit + v * self.lanes)
                            * self.size))
                for g in range(len(gates)) for v in part
            ]  # fmt: skip
            for r in range(spec.rows):
                one = f.load(self.scalar, f.at(state, r * self.row + offset * self.size))
                spread = f.splat(one, self.vector)
                for column in columns:
                    found.append(multiply_add(f, self.isa, spread, column, sums[len(found)]))
            return found

        def several(i: Value, *sums: Value) -> list[Value]:
            found: list[Value] = []
            for c in range(chains):
                found += add(i, c, sums[c * count : (c + 1) * count])
            return found

        sums = [f.const(0.0, self.vector)] * (count * chains)
        whole = spec.hidden - spec.hidden % chains
        sums = f.loop(0, whole, several, sums, chains)
        for i in range(whole, spec.hidden):
            sums[:count] = add(i, 0, sums[:count])
        for c in range(1, chains):
            sums[:count] = [
                f.add(x, y) for x, y in zip(sums[:count], sums[c * count :], strict=False)
            ]
        return sums[:count]
