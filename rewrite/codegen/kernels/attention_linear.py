"""The kernel of `LinearAttention`.

In: the spec. Out: code. Columns of the state do not depend on each other, so that a strip of some
vectors of columns goes through the whole sequence while its state stays in the cache.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.attention_math import multiply_add
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.attention_linear import INTEGERS, LinearAttention
from rewrite.plan.view import BYTES

_VECTORS = 4  # of a strip: as many sums as hide the latency of an addition


@emits(LinearAttention)
def linear_attention(k: Kernel, spec: LinearAttention) -> None:
    _Linear(k, spec).write()


class _Linear:
    def __init__(self, k: Kernel, spec: LinearAttention) -> None:
        self.k, self.f, self.isa, self.spec = k, k.f, k.isa, spec
        names = spec.operands
        self.at = {name: k.pointer(i) for i, name in enumerate(names)}
        self.w = {name: k.integer(len(names) + i) for i, name in enumerate(INTEGERS)}
        self.scale = k.f.cast("fptrunc", k.f.bitcast(self.w["scale"], "double"), "float")
        self.lanes = min(k.isa.lanes("f32"), 16)

    def write(self) -> None:
        f, w = self.f, self.w

        def item(index: Value) -> None:
            b = f.binary("udiv", index, w["heads"])
            h = f.sub(index, f.mul(b, w["heads"]))
            column = 0
            while column < self.spec.value:
                left = self.spec.value - column
                lanes = min(self.lanes, 1 << (left.bit_length() - 1))
                count = min(_VECTORS, left // lanes)
                strip = _Strip(self, index, b, h, column, lanes if lanes > 1 else 0, count)
                strip.write()
                column += lanes * count

        f.loop(self.k.begin, self.k.end, item)

    def address(self, name: str, dtype: str, *terms: tuple[Value | int, Value | int]) -> Value:
        """An operand's address plus products of indices and strides."""
        f = self.f
        place: Value | int = 0
        for index, stride in terms:
            place = f.add(place, f.mul(index, stride))
        return f.at(self.at[name], f.mul(place, BYTES[dtype]))


class _Strip:
    """Some vectors of columns of one head (or one column, where lanes is 0)."""

    def __init__(
        self, writer: _Linear, index: Value, b: Value, h: Value, column: int, lanes: int, count: int
    ) -> None:
        self.o, self.f, self.spec = writer, writer.f, writer.spec
        self.index, self.b, self.h = index, b, h
        self.column, self.lanes, self.count = column, lanes, count
        self.vector = register_type("f32", lanes)
        self.step_bytes = 4 * max(lanes, 1)
        self.row = self.step_bytes * count  # of the state

    def write(self) -> None:
        f, w, spec = self.f, self.o.w, self.spec
        f.loop(0, spec.head, lambda d: self.put(d, self.first(d)))
        f.loop(0, w["steps"], self.step)
        if spec.present:
            f.loop(0, spec.head, self.give)

    def state_row(self, d: Value | int) -> Value:
        return self.f.at(self.o.k.scratch, self.f.mul(d, self.row))

    def get(self, d: Value | int) -> list[Value]:
        f, base = self.f, self.state_row(d)
        return [f.load(self.vector, f.at(base, v * self.step_bytes), 4) for v in range(self.count)]

    def put(self, d: Value | int, values: list[Value]) -> None:
        f, base = self.f, self.state_row(d)
        for v, x in enumerate(values):
            f.store(x, f.at(base, v * self.step_bytes), 4)

    def columns_of(self, base: Value, dtype: str) -> list[Value]:
        """The strip's columns of a row of values."""
        f, item = self.f, BYTES[dtype]
        return [
            load(
                f,
                self.o.isa,
                dtype,
                f.at(base, (self.column + v * max(self.lanes, 1)) * item),
                self.lanes,
            )
            for v in range(self.count)
        ]

    def store_columns(self, values: list[Value], base: Value, dtype: str) -> None:
        f, item = self.f, BYTES[dtype]
        for v, x in enumerate(values):
            place = f.at(base, (self.column + v * max(self.lanes, 1)) * item)
            store(f, self.o.isa, dtype, x, place, self.lanes)

    def kept_row(self, name: str, d: Value | int) -> Value:
        spec = self.spec
        place = self.f.add(self.f.mul(self.index, spec.head), d)
        return self.o.address(name, spec.state, (place, spec.value))

    def first(self, d: Value) -> list[Value]:
        if not self.spec.past:
            return [self.f.const(0.0, self.vector)] * self.count
        return self.columns_of(self.kept_row("past", d), self.spec.state)

    def give(self, d: Value) -> None:
        self.store_columns(self.get(d), self.kept_row("present", d), self.spec.state)

    # --- one step ---------------------------------------------------------------------------

    def element(self, base: Value, d: Value | int, dtype: str) -> Value:
        f = self.f
        one = load(f, self.o.isa, dtype, f.at(base, f.mul(d, BYTES[dtype])), 0)
        return f.splat(one, self.vector)

    def step(self, t: Value) -> None:
        f, w, spec, o = self.f, self.o.w, self.spec, self.o
        dtype, b, h = spec.dtype, self.b, self.h
        k = o.address("k", dtype, (b, w["k_b"]), (t, w["k_t"]), (h, spec.head))
        values = self.columns_of(
            o.address("v", dtype, (b, w["v_b"]), (t, w["v_t"]), (h, spec.value)), dtype
        )
        factor = self.decay(t)
        if spec.beta:
            found = self.retrieved(k, factor)
            place = o.address("beta", dtype, (b, w["beta_b"]), (t, w["beta_t"]), (h, w["beta_h"]))
            rate = self.element(place, 0, dtype)
            values = [f.mul(rate, f.sub(x, y)) for x, y in zip(values, found, strict=True)]

        def update(d: Value) -> None:
            rows = self.get(d)
            if factor is not None and not spec.beta:
                rows = [f.mul(x, factor(d)) for x in rows]
            key = self.element(k, d, dtype)
            fresh = [multiply_add(f, o.isa, key, v, x) for v, x in zip(values, rows, strict=True)]
            self.put(d, fresh)

        f.loop(0, spec.head, update)
        f.loop(0, w["group"], lambda g: self.read(t, g))

    def decay(self, t: Value) -> Callable[[Value], Value] | None:
        """The factor of row d of the state."""
        w, spec = self.o.w, self.spec
        if not spec.decay:
            return None
        base = self.o.address(
            "decay", "f32", (self.b, w["decay_b"]), (t, w["decay_t"]), (self.h, w["decay_h"])
        )
        if spec.by_element:
            return lambda d: self.element(base, d, "f32")
        one = self.element(base, 0, "f32")
        return lambda _: one

    def retrieved(self, k: Value, factor: Callable[[Value], Value] | None) -> list[Value]:
        """S' k, of the state after its decay, which is applied on the way."""
        f, spec = self.f, self.spec

        def row(d: Value, *sums: Value) -> list[Value]:
            rows = self.get(d)
            if factor is not None:
                rows = [f.mul(x, factor(d)) for x in rows]
                self.put(d, rows)
            key = self.element(k, d, spec.dtype)
            return [multiply_add(f, self.o.isa, key, x, s) for x, s in zip(rows, sums, strict=True)]

        return f.loop(0, spec.head, row, [f.const(0.0, self.vector)] * self.count)

    def read(self, t: Value, g: Value) -> None:
        """One query head that shares the state."""
        f, w, spec, o = self.f, self.o.w, self.spec, self.o
        head = f.add(f.mul(self.h, w["group"]), g)
        q = o.address("q", spec.dtype, (self.b, w["q_b"]), (t, w["q_t"]), (head, spec.head))

        def row(d: Value, *sums: Value) -> list[Value]:
            query = self.element(q, d, spec.dtype)
            return [
                multiply_add(f, o.isa, query, x, s) for x, s in zip(self.get(d), sums, strict=True)
            ]

        sums = f.loop(0, spec.head, row, [f.const(0.0, self.vector)] * self.count)
        target = o.address("o", spec.dtype, (self.b, w["o_b"]), (t, w["o_t"]), (head, spec.value))
        scale = f.splat(o.scale, self.vector)
        self.store_columns([f.mul(x, scale) for x in sums], target, spec.dtype)
