"""The kernel of `QuantizedRecurrent`.

In: the spec. Out: code. Each step finds the range of the state, quantizes it, and goes over the
rows of the batch and the blocks of hidden units as the kernel of `Recurrent` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.attention_math import maximum, minimum
from rewrite.codegen.kernels.recurrent_layer import Layer
from rewrite.codegen.kernels.recurrent_range import parameters, range_of
from rewrite.codegen.product import product_of
from rewrite.codegen.types import like
from rewrite.codegen.value import Value
from rewrite.plan.specs.recurrent_quantized import QuantizedRecurrent
from rewrite.plan.view import BYTES

_CHAINS = 8  # independent sums that hide the latency of an addition


@emits(QuantizedRecurrent)
def quantized_recurrent(k: Kernel, spec: QuantizedRecurrent) -> None:
    _Quantized(k, spec).write()


class _Quantized(Layer):
    def __init__(self, k: Kernel, spec: QuantizedRecurrent) -> None:
        super().__init__(k, spec.base, spec.operands)
        self.quantized = spec
        self.product = product_of(k.isa, spec.form, spec.row, spec.panel, "s32")
        self.code_bytes = BYTES[spec.row]
        self.whole = like(self.vector, "i32")
        # Where the instruction wants signed codes, they and their zero point are 128 less.
        self.shift = 128 if spec.row == "s8" else 0
        f = self.f
        region = f.binary("and", f.add(f.mul(self.w["batch"], self.row), 63), -64)
        self.first, self.second, self.cells, self.codes = (
            f.at(k.scratch, f.mul(region, i)) for i in range(4)
        )

    # --- the sequence -----------------------------------------------------------------------

    def write(self) -> None:
        f, w = self.f, self.w

        def direction(d: Value) -> None:
            f.loop(0, w["batch"], lambda b: self.start_row(d, b))
            bit = f.binary("and", f.binary("lshr", w["reversed"], d), 1)
            backwards = f.compare("!=", bit, 0)

            def step(s: Value, state: Value, fresh: Value) -> list[Value]:
                t = f.select(backwards, f.sub(f.sub(w["steps"], 1), s), s)
                self.one_step(d, t, state, fresh)
                return [fresh, state]

            final, _ = f.loop(0, w["steps"], step, [self.first, self.second])
            f.loop(0, w["batch"], lambda b: self.finish_row(d, b, final))

        f.loop(self.k.begin, self.k.end, direction)

    def of_row(self, region: Value, b: Value) -> Value:
        return self.f.at(region, self.f.mul(b, self.row))

    def start_row(self, d: Value, b: Value) -> None:
        """The states of a row, zeros behind the last hidden unit."""
        f = self.f
        zero = f.const(0.0, self.vector)
        for name, region in (("h0", self.first), ("c0", self.cells)):
            target = self.of_row(region, b)
            for column in range(0, self.spec.blocks * self.spec.unit, self.lanes):
                f.store(zero, f.at(target, column * self.size), self.size)
            if getattr(self.spec, name):
                self.copy_row(self.state_row(name, d, b), target, to_scratch=True)

    def finish_row(self, d: Value, b: Value, state: Value) -> None:
        for name, region in (("y_h", state), ("y_c", self.cells)):
            if getattr(self.spec, name):
                self.copy_row(self.of_row(region, b), self.state_row(name, d, b), to_scratch=False)

    def one_step(self, d: Value, t: Value, state: Value, fresh: Value) -> None:
        f, w = self.f, self.w
        low, high = self.range(state)
        scale, zero = parameters(f, low, high)
        f.loop(0, w["batch"], lambda b: self.quantize(self.of_row(state, b), b, scale, zero))
        point = f.splat(f.sub(f.cast("fptosi", zero, "i32"), self.shift), self.whole)
        factor = f.splat(scale, self.vector)

        def row(b: Value) -> None:
            self.row_of_blocks(d, b, t, fresh, point, factor)

        f.loop(0, w["batch"], row)

    # --- quantization -----------------------------------------------------------------------

    def range(self, state: Value) -> tuple[Value, Value]:
        """Of the state of all rows."""
        f, zero = self.f, self.f.const(0.0, "float")
        hidden = f.i64(self.spec.hidden)

        def row(b: Value, least: Value, most: Value) -> list[Value]:
            low, high = range_of(f, self.isa, self.of_row(state, b), hidden)
            return [minimum(f, low, least), maximum(f, high, most)]

        least, most = f.loop(0, self.w["batch"], row, [zero, zero])
        return least, most

    def quantize(self, state: Value, b: Value, scale: Value, zero: Value) -> None:
        """saturate(rint(x / scale) + zero). Codes behind the last unit meet weights that are 0."""
        f, lanes = self.f, self.lanes
        depth = self.quantized.depth
        target = f.at(self.codes, f.mul(b, depth * self.code_bytes))
        narrow = "i8" if self.code_bytes == 1 else "i16"

        def code(x: Value) -> Value:
            steps = f.binary("fdiv", x, f.splat(scale, x.type))
            steps = f.intrinsic("llvm.roundeven", x.type, steps)
            steps = f.add(steps, f.splat(zero, x.type))
            top, bottom = f.const(255.0, x.type), f.const(0.0, x.type)
            bounded = minimum(f, maximum(f, steps, bottom), top)
            whole = f.sub(f.cast("fptosi", bounded, like(x.type, "i32")), self.shift)
            return f.cast("trunc", whole, like(x.type, narrow))

        def several(i: Int) -> None:
            x = f.load(self.vector, f.at(state, f.mul(i, self.size)), self.size)
            f.store(code(x), f.at(target, f.mul(i, self.code_bytes)), self.code_bytes)

        whole = depth - depth % lanes
        f.loop(0, whole, several, step=lanes)
        for i in range(whole, depth):
            x = f.load(self.scalar, f.at(state, i * self.size))
            f.store(code(x), f.at(target, i * self.code_bytes))

    # --- products ---------------------------------------------------------------------------

    def row_of_blocks(
        self, d: Value, b: Value, t: Value, fresh: Value, point: Value, factor: Value
    ) -> None:
        """One row of the batch: all blocks of hidden units."""
        f, spec = self.f, self.spec
        width = spec.gates * spec.unit
        codes = f.at(self.codes, f.mul(b, self.quantized.depth * self.code_bytes))
        block = self.quantized.depth * width * BYTES[self.quantized.panel]
        weights = f.at(self.at["weights"], f.mul(d, block * spec.blocks))
        source = self.input_row(d, b, t)
        target = [self.output_row(d, b, t)] if spec.y else []
        # The element writer of `Layer` addresses rows by a static offset: the row's own regions.
        state = self.of_row(fresh, b)
        self.regions[2] = self.of_row(self.cells, b)

        def one(p: Int) -> None:
            sums = self.integer_products(f.at(weights, f.mul(p, block)), codes)
            found = [
                self.scaled(x, f.add(f.mul(d, spec.blocks), p), g, point, factor)
                for g, x in enumerate(sums)
            ]
            self.element(d, 0, found, 0, p, 0, state, state, [source], target)

        f.loop(0, spec.blocks, one)

    def integer_products(self, panel: Value, codes: Value) -> list[Value]:
        """Sums of codes times weights of all gates."""
        f, spec, product = self.f, self.spec, self.product
        gates, group = spec.gates, self.quantized.group
        chains = max(1, _CHAINS // gates)
        steps = self.quantized.depth // group
        width = gates * product.panel_bytes

        def add(i: Int, offset: int, sums: Sequence[Value]) -> list[Value]:
            left = f.at(codes, f.mul(f.add(i, offset), product.row_bytes))
            right = f.at(panel, f.mul(f.add(i, offset), width))
            one = product.load_row(f, left)
            return [
                product.add(f, one, product.load_panel(f, f.at(right, g * product.panel_bytes)), x)
                for g, x in enumerate(sums)
            ]

        def several(i: Value, *sums: Value) -> list[Value]:
            found: list[Value] = []
            for c in range(chains):
                found += add(i, c, sums[c * gates : (c + 1) * gates])
            return found

        whole = steps - steps % chains
        sums = f.loop(0, whole, several, [f.const(0, self.whole)] * (gates * chains), chains)
        for i in range(whole, steps):
            sums[:gates] = add(i, 0, sums[:gates])
        for c in range(1, chains):
            sums[:gates] = [
                product.join(f, x, y)
                for x, y in zip(sums[:gates], sums[c * gates : (c + 1) * gates], strict=True)
            ]
        return sums[:gates]

    def scaled(self, total: Value, block: Value, gate: int, point: Value, factor: Value) -> Value:
        """A gate's product as numbers."""
        f, spec = self.f, self.spec
        place = f.add(f.mul(block, spec.gates * spec.unit), gate * spec.unit)
        sums = f.load(self.whole, f.at(self.at["sums"], f.mul(place, 4)), 4)
        scale = f.load(self.vector, f.at(self.at["scales"], f.mul(place, 4)), 4)
        exact = f.sub(total, f.mul(point, sums))
        found: Value = f.mul(f.cast("sitofp", exact, self.vector), f.mul(factor, scale))
        return found
