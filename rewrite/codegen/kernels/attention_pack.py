"""Operands of attention, copied into the form in which they are multiplied.

In: where Q, K, V and the mask lie. Out: code that fills regions of scratch, all of the
accumulator's type: `keys` [key][element], `panel(p)` [key][width], `query` [element][query] with
the scale in it, `scores` [key][query], which the mask is written into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernels.attention_math import LOG2_E, maximum
from rewrite.codegen.memory import load, register_type
from rewrite.codegen.value import Value
from rewrite.plan.specs.attention import Attention, accumulator
from rewrite.plan.view import BYTES

if TYPE_CHECKING:
    from rewrite.codegen.kernels.attention import Tiling

_MOST_UNROLLED = 8  # vectors of one row that are copied without a loop


@dataclass(frozen=True, slots=True)
class Words:
    """The words of the kernel by their names."""

    pointers: dict[str, Value]
    integers: dict[str, Value]

    def __getitem__(self, name: str) -> Value:
        return self.integers[name]


def transposed(f: Function, rows: list[Value]) -> list[Value]:
    """A square of as many vectors as they have lanes: blocks are exchanged across the diagonal."""
    count = len(rows)
    rows = list(rows)
    step = 1
    while step < count:
        low = [lane if not lane & step else count + lane - step for lane in range(count)]
        high = [lane + step if not lane & step else count + lane for lane in range(count)]
        for i in range(count):
            if not i & step:
                a, b = rows[i], rows[i + step]
                rows[i], rows[i + step] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        step *= 2
    return rows


class Packing:
    """The regions of scratch, and the code that fills them."""

    def __init__(
        self, f: Function, isa: Isa, spec: Attention, tiling: Tiling, words: Words, scratch: Value
    ) -> None:
        self.f, self.isa, self.spec, self.tiling, self.words = f, isa, spec, tiling, words
        self.wide = accumulator(spec.dtype)
        self.size = BYTES[self.wide]
        self.vector = register_type(self.wide, tiling.lanes)
        self.scalar = register_type(self.wide, 0)
        self.capacity = f.add(words["keys"], tiling.keys)
        self.panels = -(-spec.value // tiling.width)
        self._end = scratch
        self.inverses = self._region(tiling.block)
        self.query = self._region(tiling.block * spec.head)
        self.unread = self._region(self.panels * tiling.width)
        self.scores = self._region(f.mul(self.capacity, tiling.block))
        self.keys = self._region(f.mul(self.capacity, spec.head))
        self.values = self._region(f.mul(self.capacity, self.panels * tiling.width))
        self.factor, self.softcap = self._factors()

    def _region(self, elements: Int) -> Value:
        """The next multiple of 64 bytes that holds so many elements."""
        f, start = self.f, self._end
        size = f.mul(elements, self.size)
        rounded = (
            -(-size // 64) * 64 if isinstance(size, int)
            else f.binary("and", f.add(size, 63), -64)
        )  # fmt: skip
        self._end = f.at(start, rounded)
        return start

    def _factors(self) -> tuple[Value, Value]:
        """What queries are multiplied with; what tanh is multiplied with if there is a softcap.

        Scores are in units of log2 e, for powers of two. With a softcap, queries give tanh's
        argument.
        """
        f, w = self.f, self.words
        scale = f.bitcast(w["scale"], "double")
        cap = f.bitcast(w["softcap"], "double")
        factor = f.mul(scale, LOG2_E)
        if self.spec.softcap:
            factor = f.binary("fdiv", scale, cap)
        cap = f.mul(cap, LOG2_E)
        return self._narrowed(factor), self._narrowed(cap)

    def _narrowed(self, x: Value) -> Value:
        return x if self.scalar == "double" else self.f.cast("fptrunc", x, self.scalar)

    def panel(self, p: Int) -> Value:
        """The values of a panel: [key][width]."""
        f = self.f
        return f.at(self.values, f.mul(f.mul(self.capacity, p), self.tiling.width * self.size))

    # --- keys and values ----------------------------------------------------------------------

    def keys_and_values(self, b: Value, h: Value, keys: Value) -> None:
        """Copies one head."""
        f, w, spec = self.f, self.words, self.spec
        item = BYTES[spec.dtype]
        for name in ("k", "v"):
            start = f.add(f.mul(b, w[f"{name}_b"]), f.mul(h, w[f"{name}_h"]))
            base = f.at(w.pointers[name], f.mul(start, item))
            row = self._key_row if name == "k" else self._value_row
            step = f.mul(w[f"{name}_i"], item)
            f.loop(0, keys, lambda j, base=base, row=row, step=step: row(
                f.at(base, f.mul(j, step)), j
            ))  # fmt: skip
        # Tiles of keys are whole: what they read behind the last key is zero.
        start = f.at(self.keys, f.mul(keys, spec.head * self.size))
        f.loop(
            0, self.tiling.keys * spec.head,
            lambda d: f.store(f.const(0.0, self.scalar), f.at(start, f.mul(d, self.size))),
        )  # fmt: skip

    def _key_row(self, source: Value, j: Value) -> None:
        target = self.f.at(self.keys, self.f.mul(j, self.spec.head * self.size))
        self._copy(source, self.spec.head, lambda d: self.f.at(target, self.f.mul(d, self.size)))

    def _value_row(self, source: Value, j: Value) -> None:
        f, width = self.f, self.tiling.width
        whole = self.spec.value // width

        def panel(p: Int, columns: int) -> None:
            target = f.at(self.panel(p), f.mul(j, width * self.size))
            start = f.at(source, f.mul(p, width * BYTES[self.spec.dtype]))
            self._copy(start, columns, lambda d: f.at(target, f.mul(d, self.size)))
            for d in range(columns, width if columns < width else 0):
                f.store(f.const(0.0, self.scalar), f.at(target, d * self.size))

        if whole <= _MOST_UNROLLED // 2:
            for p in range(whole):
                panel(p, width)
        else:
            f.loop(0, whole, lambda p: panel(p, width))
        if self.spec.value % width:
            panel(whole, self.spec.value % width)

    def _copy(self, source: Value, count: int, target: Callable[[Int], Value]) -> None:
        """`count` neighbours, widened."""
        f, lanes, item = self.f, self.tiling.lanes, BYTES[self.spec.dtype]
        whole = count - count % lanes

        def vector(d: Int) -> None:
            x = load(f, self.isa, self.spec.dtype, f.at(source, f.mul(d, item)), lanes)
            f.store(x, target(d), self.size)

        if whole <= _MOST_UNROLLED * lanes:
            for d in range(0, whole, lanes):
                vector(d)
        else:
            f.loop(0, whole, vector, step=lanes)
        for d in range(whole, count):
            f.store(load(f, self.isa, self.spec.dtype, f.at(source, d * item), 0), target(d))

    # --- queries and masks --------------------------------------------------------------------

    def queries(self, b: Value, h: Value, row: Value) -> None:
        """A block of queries times the scale, transposed."""
        f, w, spec, lanes = self.f, self.words, self.spec, self.tiling.lanes
        start = f.add(f.mul(b, w["q_b"]), f.mul(h, w["q_h"]))
        base = f.at(w.pointers["q"], f.mul(start, BYTES[spec.dtype]))
        factor = f.splat(self.factor, self.vector)
        whole = spec.head - spec.head % lanes

        def vector(v: Value) -> None:
            rows = self._rows(base, w["q_i"], f.add(row, f.mul(v, lanes)), spec.dtype)
            target = f.at(self.query, f.mul(v, lanes * self.size))

            def put(x: Value, d: Int) -> None:
                place = f.at(target, f.mul(d, self.tiling.block * self.size))
                f.store(f.mul(x, factor), place, self.size)

            f.loop(0, whole, lambda d: self._square(rows, spec.dtype, d, put), step=lanes)
            for d in range(whole, spec.head):
                put(self._column(rows, spec.dtype, d), d)

        f.loop(0, self.tiling.query_vectors, vector)

    def mask(self, b: Value, h: Value, row: Value, low: Value, high: Value) -> None:
        """What is added to the scores of a block of queries, where the scores will lie."""
        f, w, spec, lanes = self.f, self.words, self.spec, self.tiling.lanes
        start = f.add(f.mul(b, w["m_b"]), f.mul(h, w["m_h"]))
        base = f.at(w.pointers["mask"], f.mul(start, BYTES[spec.mask]))
        length = f.select(f.compare(">", high, low), f.sub(high, low), 0)
        whole = f.sub(f.add(low, length), f.binary("urem", length, lanes))

        def vector(v: Value) -> None:
            rows = self._rows(base, w["m_i"], f.add(row, f.mul(v, lanes)), spec.mask)
            target = f.at(self.scores, f.mul(v, lanes * self.size))

            def put(x: Value, j: Int) -> None:
                place = f.at(target, f.mul(j, self.tiling.block * self.size))
                f.store(self.additive(x), place, self.size)

            f.loop(low, whole, lambda j: self._square(rows, spec.mask, j, put), step=lanes)
            f.loop(whole, high, lambda j: put(self._column(rows, spec.mask, j), j))

        f.loop(0, self.tiling.query_vectors, vector)

    def additive(self, x: Value) -> Value:
        """An element of the mask as what is added to a score in units of log2 e."""
        f = self.f
        type_ = self.vector if x.type.startswith("<") else self.scalar
        if self.spec.mask == "bool":
            return f.select(x, f.const(0.0, type_), f.const(float("-inf"), type_))
        if self.scalar == "float" and self.spec.mask == "f64":
            x = f.cast("fptrunc", x, type_)
        if self.scalar == "double" and self.spec.mask != "f64":
            x = f.cast("fpext", x, type_)
        # The lowest numbers would become infinite, and hide more than they are meant to.
        lowest = f.const(-3.4e38 / LOG2_E if "float" in type_ else -1.7e308 / LOG2_E, type_)
        never = f.compare("==", x, f.const(float("-inf"), type_))
        bounded = f.select(never, x, maximum(f, lowest, x))
        found: Value = f.mul(bounded, LOG2_E)
        return found

    def _rows(self, base: Value, stride: Value, first: Value, dtype: str) -> list[Value]:
        """Addresses of as many rows as there are lanes; the last query's behind the last one."""
        f = self.f
        last = f.sub(self.words["queries"], 1)
        found = []
        for lane in range(self.tiling.lanes):
            row = f.add(first, lane)
            row = f.select(f.compare("<", row, last), row, last)
            found.append(f.at(base, f.mul(f.mul(row, stride), BYTES[dtype])))
        return found

    def _square(
        self, rows: list[Value], dtype: str, start: Int, put: Callable[[Value, Int], None]
    ) -> None:
        """Elements start, start + 1, … of all rows, as one vector for each."""
        f, lanes = self.f, self.tiling.lanes
        at = f.mul(start, BYTES[dtype])
        loaded = [load(f, self.isa, dtype, f.at(row, at), lanes) for row in rows]
        for i, x in enumerate(transposed(f, loaded)):
            put(x, f.add(start, i))

    def _column(self, rows: list[Value], dtype: str, at: Int) -> Value:
        """Element `at` of all rows as one vector."""
        f = self.f
        place = f.mul(at, BYTES[dtype])
        found = f.undef(register_type(dtype, self.tiling.lanes))
        for lane, row in enumerate(rows):
            found = f.insert(found, load(f, self.isa, dtype, f.at(row, place), 0), lane)
        return found
