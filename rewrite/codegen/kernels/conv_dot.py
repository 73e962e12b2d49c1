"""Convolutions with few output channels: dot products along the window.

In: `ConvDot`. Out: a kernel. The sums of one lane each are brought together by adding neighbours,
half as many vectors at a time, until one vector holds the sums of all pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.conv_after import finish
from rewrite.codegen.kernels.conv_product import product_named
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.types import suffix, vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_dot import ConvDot
from rewrite.plan.view import BYTES


@emits(ConvDot)
def conv_dot(k: Kernel, spec: ConvDot) -> None:
    _Dots(k, spec).emit()


class _Dots:
    def __init__(self, k: Kernel, spec: ConvDot) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        self.lanes = k.isa.lanes(spec.total)
        self.product = product_named(spec.form, k.isa, spec.x, spec.w, spec.total)
        self.count = n = len(spec.after.operands)
        self.x, self.w, self.bias, self.starts, self.offsets = (k.pointer(i) for i in range(5))
        self.operands = [k.pointer(5 + i) for i in range(n)]
        self.out = k.pointer(5 + n)
        self.n = [k.integer(6 + n + i) for i in range(8 + 2 * n)]
        # What a vector of either operand is loaded as.
        name = {"f32": "float", "f64": "double"}.get(spec.x, "i32")
        self.loaded = vector(name, self.lanes)

    def emit(self) -> None:
        f, n = self.f, self.n
        tiles = f.binary("udiv", n[0] + (self.lanes - 1), self.lanes)

        def item(index: Value) -> None:
            image = f.binary("udiv", index, tiles)
            first = (index - image * tiles) * self.lanes
            pixels = [self.at_most(first + r) for r in range(self.lanes)]
            rows = [self.table(self.starts, p) * BYTES[self.spec.x] for p in pixels]
            x = f.at(self.x, image * n[2] * BYTES[self.spec.x])
            whole = f.compare("<=", first + self.lanes, n[0])
            f.loop(0, n[1], lambda m: self.channel(image, first, pixels, x, rows, m, whole))

        f.loop(self.k.begin, self.k.end, item)

    def at_most(self, pixel: Value) -> Value:
        """The last tile computes its last pixel again, and stores it again."""
        f = self.f
        return f.select(f.compare("<", pixel, self.n[0]), pixel, self.n[0] - 1)

    def table(self, table: Value, at: Value) -> Value:
        f = self.f
        return f.cast("sext", f.load("i32", f.at(table, at, "i32")), "i64")

    # --- sums -------------------------------------------------------------------------------

    def channel(
        self, image: Value, first: Value, pixels: Sequence[Value], x: Value,
        rows: Sequence[Value], channel: Value, whole: Value,
    ) -> None:  # fmt: skip
        """One channel of a tile."""
        f, n, spec = self.f, self.n, self.spec
        w = f.at(self.w, channel * n[5] * n[7])
        size = self.k.isa.vector_bytes
        zero = f.zero(register_type(spec.total, self.lanes))

        def tap(number: Value, w: Value, *sums: Value) -> list[Value]:
            walk = f.at(x, self.table(self.offsets, number) * BYTES[spec.x])

            def turn(_: Value, walk: Value, w: Value, *sums: Value) -> list[Value]:
                found = list(sums)
                for u in range(spec.unroll):
                    b = self.taken(f.at(w, u * size), spec.w)
                    for r, row in enumerate(rows):
                        a = self.taken(f.at(f.at(walk, row), u * size), spec.x)
                        found[r] = self.product.add(f, a, b, found[r])
                step = spec.unroll * size
                return [f.at(walk, step), f.at(w, step), *found]

            turns = f.divide(n[6], spec.unroll)
            walk, w, *found = f.loop(0, turns, turn, [walk, w, *sums])
            if spec.tail:
                b = self.masked(w, spec.w)
                for r, row in enumerate(rows):
                    a = self.masked(f.at(walk, row), spec.x)
                    found[r] = self.product.add(f, a, b, found[r])
                w = f.at(w, spec.tail * max(4, BYTES[spec.x]))
            return [w, *found]

        _, *sums = f.loop(0, n[5], tap, [w, *[zero] * self.lanes])
        bias = load(f, self.k.isa, spec.total,
                    f.at(self.bias, channel * BYTES[spec.total]), self.lanes, 0)  # fmt: skip
        total = f.add(self.gathered(sums), bias)
        self.finish(image, first, pixels, channel, total, whole)

    def taken(self, at: Value, dtype: str) -> Value:
        return self.typed(self.f.load(self.loaded, at), dtype)

    def masked(self, at: Value, dtype: str) -> Value:
        """The last elements of a tap, zeros behind them."""
        f = self.f
        mask = ", ".join(f"i1 {'true' if i < self.spec.tail else 'false'}"
                         for i in range(self.lanes))  # fmt: skip
        kinds = [self.loaded, "ptr", f"<{self.lanes} x i1>"]
        found = f.call(
            f"llvm.masked.load.{suffix(self.loaded)}.p0", self.loaded, at,
            Value(f, kinds[2], f"<{mask}>"), f.zero(self.loaded),
        )  # fmt: skip
        return self.typed(found, dtype)

    def typed(self, value: Value, dtype: str) -> Value:
        """As the product's `add` takes it: vectors of bytes are of their own type."""
        if dtype in ("u8", "s8"):
            return self.f.bitcast(value, vector("i8", self.k.isa.vector_bytes))
        return value

    def gathered(self, sums: Sequence[Value]) -> Value:
        """Lane r: the sum of the lanes of sums[r]."""
        width = 1
        found = list(sums)
        while len(found) > 1:
            found = [self.merged(found[i], found[i + 1], width) for i in range(0, len(found), 2)]
            width *= 2
        return found[0]

    def merged(self, a: Value, b: Value, width: int) -> Value:
        """Blocks of 2 `width` lanes: of a and b in turn, the sums of their halves."""
        lanes = self.lanes
        low, high = [], []
        for i in range(lanes):
            block, place = divmod(i, 2 * width)
            source = place // width * lanes  # from a, then from b
            at = source + block * 2 * width + place % width
            low.append(at)
            high.append(at + width)
        found: Value = self.f.add(self.f.shuffle(a, b, low), self.f.shuffle(a, b, high))
        return found

    # --- results ----------------------------------------------------------------------------

    def finish(
        self, image: Value, first: Value, pixels: Sequence[Value], channel: Value, total: Value,
        whole: Value,
    ) -> None:  # fmt: skip
        f, n, spec = self.f, self.n, self.spec
        size = BYTES[spec.after.out]
        out = f.at(self.out, (image * n[3] + channel) * size)
        operands = []
        for i, operand in enumerate(spec.after.operands):
            at = image * n[8 + 2 * i]
            at = at + channel if operand.channels else at
            operands.append(f.at(self.operands[i], at * BYTES[operand.dtype]))

        def together() -> None:
            values = []
            for operand, pointer in zip(spec.after.operands, operands, strict=True):
                at = f.at(pointer, first * BYTES[operand.dtype]) if operand.pixels else pointer
                stride = 1 if operand.pixels else 0
                values.append(load(f, self.k.isa, operand.dtype, at, self.lanes, stride))
            at = f.at(out, first * size)
            finish(f, self.k.isa, spec.after, total, values, at, self.lanes)

        def one_by_one() -> None:
            self.scattered(total, pixels, out, operands)

        if spec.unit and not spec.scattered:
            f.if_(whole, together, one_by_one)
        else:
            one_by_one()

    def scattered(
        self, total: Value, pixels: Sequence[Value], out: Value, operands: Sequence[Value]
    ) -> None:
        """Every pixel at its own place."""
        f, n, spec, isa = self.f, self.n, self.spec, self.k.isa
        places = list(pixels)
        if spec.scattered:
            places = [self.table(self.starts, p + n[0]) for p in pixels]
        values = []
        for i, operand in enumerate(spec.after.operands):
            if not operand.pixels:
                values.append(load(f, isa, operand.dtype, operands[i], self.lanes, 0))
                continue
            step = n[9 + 2 * i] * BYTES[operand.dtype]
            value = f.undef(register_type(operand.dtype, self.lanes))
            for r, place in enumerate(places):
                one = load(f, isa, operand.dtype, f.at(operands[i], place * step), 0)
                value = f.insert(value, one, r)
            values.append(value)
        cells = self.k.scratch
        finish(f, isa, spec.after, total, values, cells, self.lanes)
        size = BYTES[spec.after.out]
        for r, place in enumerate(places):
            one = load(f, isa, spec.after.out, f.at(cells, r * size), 0)
            store(f, isa, spec.after.out, one, f.at(out, place * n[4] * size), 0)
