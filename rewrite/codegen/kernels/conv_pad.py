"""Channels-last copies with a border.

In: `ConvPad`. Out: a kernel that writes whole rows: border, elements, border.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, memory_type, register_type, store, to_register
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.conv_pad import ConvPad
from rewrite.plan.view import BYTES


@emits(ConvPad)
def conv_pad(k: Kernel, spec: ConvPad) -> None:
    _Rows(k, spec).emit()


class _Rows:
    def __init__(self, k: Kernel, spec: ConvPad) -> None:
        self.k = k
        self.f: Function = k.f
        self.spec = spec
        n = len(spec.operands)
        self.x = k.pointer(0)
        self.scalars = [
            load(k.f, k.isa, dtype, k.pointer(1 + i), 0) for i, dtype in enumerate(spec.operands)
        ]
        self.out = k.pointer(1 + n)
        self.w = [k.integer(2 + n + i) for i in range(18)]
        self.lanes = k.isa.vector_bytes // max(BYTES[spec.x], BYTES[spec.out])
        bits = memory_type(spec.out)
        as_int = f"i{8 * BYTES[spec.out]}"
        self.fill = self.f.bitcast(self.f.cast("trunc", self.w[17], as_int), bits)

    def emit(self) -> None:
        self.f.loop(self.k.begin, self.k.end, self.row)

    def row(self, item: Value) -> None:
        f, w = self.f, self.w
        rest = f.binary("udiv", item, w[8])
        h = item - rest * w[8]
        n = f.binary("udiv", rest, w[7])
        d = rest - n * w[7]
        row = w[9] * w[10]
        out = self.place(self.out, n * w[11] + (d * w[8] + h) * row, self.spec.out)
        y, z = h - w[5], d - w[4]
        # Below zero is above every size when read without a sign.
        inside = f.binary(
            "and",
            f.compare("<", y, w[1], signed=False),
            f.compare("<", z, w[0], signed=False),
        )

        def elements() -> None:
            source = self.place(self.x, n * w[12] + z * w[13] + y * w[14], self.spec.x)
            left, right = w[6] * w[10], (w[6] + w[2]) * w[10]
            self.border(out, left)
            self.middle(source, self.place(out, left, self.spec.out))
            self.border(self.place(out, right, self.spec.out), row - right)

        f.if_(inside, elements, lambda: self.border(out, row))

    def place(self, pointer: Value, index: Int, dtype: str) -> Value:
        return self.f.at(pointer, self.f.mul(index, BYTES[dtype]))

    def border(self, out: Value, count: Value) -> None:
        """`count` elements of the border."""
        f, name = self.f, memory_type(self.spec.out)
        lanes = self.k.isa.vector_bytes // BYTES[self.spec.out]
        wide = f.splat(self.fill, vector(name, lanes))
        whole = f.binary("and", count, -lanes)
        f.loop(0, whole, lambda i: f.store(wide, f.at(out, i, name)), step=lanes)
        f.loop(whole, count, lambda i: f.store(self.fill, f.at(out, i, name)))

    def middle(self, source: Value, out: Value) -> None:
        {"rows": self.rows, "pixels": self.pixels, "planes": self.planes, "any": self.any}[
            self.spec.form
        ](source, out)

    # --- forms of rows ----------------------------------------------------------------------

    def rows(self, source: Value, out: Value) -> None:
        self.run(source, out, self.w[2] * self.w[3])

    def pixels(self, source: Value, out: Value) -> None:
        def pixel(at: Value, to: Value) -> None:
            self.run(at, to, self.w[3])

        self.each_pixel(source, out, pixel)

    def any(self, source: Value, out: Value) -> None:
        stride = self.w[16]

        def pixel(at: Value, to: Value) -> None:
            def channel(c: Value) -> None:
                self.move(self.place(at, c * stride, self.spec.x),
                          self.place(to, c, self.spec.out), 0)  # fmt: skip

            self.f.loop(0, self.w[3], channel)

        self.each_pixel(source, out, pixel)

    def each_pixel(self, source: Value, out: Value, pixel: Callable[[Value, Value], None]) -> None:
        f, w = self.f, self.w

        def one(i: Value) -> None:
            to = self.place(out, i * w[10], self.spec.out)
            pixel(self.place(source, i * w[15], self.spec.x), to)
            self.border(self.place(to, w[3], self.spec.out), w[10] - w[3])

        f.loop(0, w[2], one)

    def planes(self, source: Value, out: Value) -> None:
        """Rows of all channels interleaved, a vector of each at a time."""
        f, lanes = self.f, self.lanes
        channels = self.spec.channels + self.spec.added
        width = self.w[2]
        whole = f.binary("and", width, -lanes)

        def block(i: Value, count: int) -> None:
            vectors = []
            for c in range(self.spec.channels):
                at = self.place(source, f.add(f.mul(self.w[16], c), i), self.spec.x)
                vectors.append(self.converted(at, count))
            border = to_register(f, self.k.isa, self.spec.out, self.fill)
            vectors += [f.splat(border, vectors[0].type)] * self.spec.added
            to = self.place(out, f.mul(i, channels), self.spec.out)
            if count == 0:
                for c, value in enumerate(vectors):
                    at = self.place(to, c, self.spec.out)
                    store(f, self.k.isa, self.spec.out, value, at, 0)
                return
            joined = _interleaved(f, vectors, count)
            store(f, self.k.isa, self.spec.out, joined, to, count * channels)

        f.loop(0, whole, lambda i: block(i, lanes), step=lanes)
        f.loop(whole, width, lambda i: block(i, 0))

    def run(self, source: Value, out: Value, count: Value) -> None:
        """`count` neighbours."""
        f, lanes, spec = self.f, self.lanes, self.spec
        whole = f.binary("and", count, -lanes)

        def step(i: Value, width: int) -> None:
            self.move(self.place(source, i, spec.x), self.place(out, i, spec.out), width)

        f.loop(0, whole, lambda i: step(i, lanes), step=lanes)
        f.loop(whole, count, lambda i: step(i, 0))

    def move(self, source: Value, out: Value, lanes: int) -> None:
        store(self.f, self.k.isa, self.spec.out, self.converted(source, lanes), out, lanes)

    def converted(self, source: Value, lanes: int) -> Value:
        spec, f = self.spec, self.f
        value = load(f, self.k.isa, spec.x, source, lanes)
        if spec.body is None:
            return value
        others = [
            f.splat(s, register_type(dtype, lanes))
            for s, dtype in zip(self.scalars, spec.operands, strict=True)
        ]
        return emit_body(f, self.k.isa, spec.body, [value, *others])[0]


def _interleaved(f: Function, vectors: list[Value], lanes: int) -> Value:
    """a0 b0 c0 a1 b1 c1 …"""
    count = len(vectors)
    if count % 2 == 0:  # neighbours in pairs, then pairs of pairs: a c, b d, a b c d
        half = count // 2
        even = _interleaved(f, vectors[::2], lanes)
        odd = _interleaved(f, vectors[1::2], lanes)
        width = half * lanes
        return f.shuffle(even, odd, [n for i in range(width) for n in (i, width + i)])
    joined, width = vectors[0], lanes
    for value in vectors[1:]:
        # Both sides of a shuffle have one width.
        spread = f.shuffle(value, None, [i if i < lanes else -1 for i in range(width)])
        joined = f.shuffle(joined, spread, [*range(width), *range(width, width + lanes)])
        width += lanes
    return f.shuffle(joined, None, [c * lanes + i for i in range(lanes) for c in range(count)])
