"""The kernel of `Attention`.

In: the spec. Out: code. For each head, K and V are copied into panels of the accumulator's type.
Blocks of queries are transposed, so that the lanes of a vector are queries: scores are stored as
[key][query], the softmax runs down the keys without any horizontal step, and both products read
their left operand as broadcasts of neighbouring elements.

    scores    tiles of `keys` x (vectors of queries), the scale and log2 e folded into Q
    powers    2^(score - largest), and their sums
    output    tiles of queries x (vectors of values), divided by the sums when stored
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.attention_math import (
    exp2,
    maximum,
    multiply_add,
    tanh,
)
from rewrite.codegen.kernels.attention_pack import Packing, Words
from rewrite.codegen.memory import load, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.attention import INTEGERS, ROWS, Attention, accumulator
from rewrite.plan.view import BYTES

_UNROLL = 4  # steps of a sum of products


@dataclass(frozen=True, slots=True)
class Tiling:
    """How many vectors and rows are worked on at once."""

    lanes: int
    query_vectors: int  # of one block of queries
    keys: int  # rows of a tile of scores
    queries: int  # rows of a tile of the output
    value_vectors: int  # columns of a tile of the output, in vectors

    @property
    def block(self) -> int:
        """Queries of one block."""
        return self.lanes * self.query_vectors

    @property
    def width(self) -> int:
        """Elements of a panel of values."""
        return self.lanes * self.value_vectors


def tiling_of(isa: Isa, spec: Attention) -> Tiling:
    """Accumulators fill two thirds of the registers, and are enough to hide the latency."""
    lanes = isa.lanes(accumulator(spec.dtype))
    values = 1 if spec.value <= lanes else 2
    query_vectors = min(2, ROWS // lanes)
    if isa.registers >= 32:
        return Tiling(lanes, query_vectors, 8, 8, values)
    return Tiling(lanes, query_vectors, 6 if isa.fma else 4, 4, values)


@emits(Attention)
def attention(k: Kernel, spec: Attention) -> None:
    Writer(k, spec).write()


class Writer:
    """One kernel under construction: its words, its regions of scratch."""

    def __init__(self, k: Kernel, spec: Attention) -> None:
        self.k, self.f, self.isa, self.spec = k, k.f, k.isa, spec
        self.tiling = tiling_of(k.isa, spec)
        self.wide = accumulator(spec.dtype)
        self.vector = register_type(self.wide, self.tiling.lanes)
        self.scalar = register_type(self.wide, 0)
        self.size = BYTES[self.wide]
        names = ["q", "k", "v", *(["mask"] if spec.mask else []),
                 *(["lengths"] if spec.lengths else []), "o"]  # fmt: skip
        pointers = {name: k.pointer(i) for i, name in enumerate(names)}
        integers = {name: k.integer(len(names) + i) for i, name in enumerate(INTEGERS)}
        self.words = Words(pointers, integers)
        self.packing = Packing(k.f, k.isa, spec, self.tiling, self.words, k.scratch)

    # --- work items -------------------------------------------------------------------------

    def write(self) -> None:
        """One loop over the items; K and V are packed where the head changes."""
        f, w = self.f, self.words
        kv_heads = f.binary("udiv", w["heads"], w["group"])

        def item(index: Value, packed: Value) -> Value:
            b, h, kv, block = self.places(index)
            given, keys = self.keys_of(b)
            wanted: Value = f.add(f.mul(b, kv_heads), kv)
            f.if_(
                f.compare("!=", packed, wanted), lambda: self.packing.keys_and_values(b, kv, keys)
            )
            first = f.mul(block, ROWS)
            last = self.least(f.add(first, ROWS), w["queries"])
            f.loop(
                first, last, lambda row: self.block(b, h, row, given, keys), step=self.tiling.block
            )
            return wanted

        f.loop(self.k.begin, self.k.end, item, [f.i64(-1)])

    def places(self, item: Value) -> tuple[Value, Value, Value, Value]:
        """Batch, head of the queries, head of the keys, block of queries."""
        f, w = self.f, self.words
        head_index = f.binary("udiv", item, w["blocks"])
        block = f.sub(item, f.mul(head_index, w["blocks"]))
        b = f.binary("udiv", head_index, w["heads"])
        h = f.sub(head_index, f.mul(b, w["heads"]))
        return b, h, f.binary("udiv", h, w["group"]), block

    def least(self, x: Value, y: Value) -> Value:
        return self.f.select(self.f.compare("<", x, y), x, y)

    def most(self, x: Value, y: Int) -> Value:
        return self.f.select(self.f.compare(">", x, y), x, y)

    def keys_of(self, b: Value) -> tuple[Value, Value]:
        """How many keys a batch has, as it says and as there are."""
        f, w, spec = self.f, self.words, self.spec
        if not spec.lengths:
            return w["keys"], w["keys"]
        kind = "i32" if spec.lengths == "s32" else "i64"
        length = f.cast("sext", f.load(kind, f.at(w.pointers["lengths"], b, kind)), "i64")
        given = self.most(f.add(length, w["extra"]), 0)
        return given, self.least(given, w["keys"])

    def block(self, b: Value, h: Value, row: Value, given: Value, keys: Value) -> None:
        """A block of queries of one head, from `row` on."""
        f, w, spec = self.f, self.words, self.spec
        count = self.least(f.i64(self.tiling.block), f.sub(w["queries"], row))
        offset = f.sub(given, w["queries"]) if spec.from_end else w["offset"]
        first = f.add(row, offset)  # where the first query stands among the keys
        low: Value = f.i64(0)
        high = keys
        if spec.right:
            high = self.most(self.least(high, f.add(f.add(first, count), w["right"])), 0)
        if spec.left:
            low = self.most(f.sub(first, w["left"]), 0)
            low = f.sub(low, f.binary("urem", low, self.tiling.keys))
        self.packing.queries(b, h, row)
        if spec.mask and spec.mask_by_query:
            self.packing.mask(b, h, row, low, high)
        largest = self.scores(b, h, first, low, high)
        self.powers(largest, low, high)
        self.outputs(b, h, row, count, low, high)

    # --- scores -----------------------------------------------------------------------------

    def scores(self, b: Value, h: Value, first: Value, low: Value, high: Value) -> list[Value]:
        """Scores of all keys; the largest one of each query."""
        f, spec = self.f, self.spec
        largest = [f.const(float("-inf"), self.vector)] * self.tiling.query_vectors
        mask = self.mask_row(b, h)
        whole = high  # up to here every query sees every key
        if spec.right:
            whole = self.least(high, f.add(f.add(first, self.words["right"]), 1))

        def tile(j: Value, *carried: Value) -> list[Value]:
            sums = self.products(j)

            def inside() -> list[Value]:
                return self.finished(sums, j, carried, mask, None, high)

            def edge() -> list[Value]:
                return self.finished(sums, j, carried, mask, first, high)

            if spec.left:
                return edge()
            end = f.add(j, self.tiling.keys)
            return f.if_(f.compare("<=", end, whole), inside, edge, len(carried))

        return f.loop(low, high, tile, largest, self.tiling.keys)

    def mask_row(self, b: Value, h: Value) -> Value | None:
        """The mask of all queries of a head where it is the same for them."""
        f, w, spec = self.f, self.words, self.spec
        if not spec.mask or spec.mask_by_query:
            return None
        start = f.add(f.mul(b, w["m_b"]), f.mul(h, w["m_h"]))
        return f.at(w.pointers["mask"], f.mul(start, BYTES[spec.mask]))

    def finished(
        self, sums: list[Value], j: Value, largest: tuple[Value, ...], mask: Value | None,
        first: Value | None, high: Value,
    ) -> list[Value]:  # fmt: skip
        """Stores the scores of a tile from key j on; gives the largest ones so far. At an edge,
        where `first` is given, keys that a query does not see get -inf."""
        f, tiling = self.f, self.tiling
        target = f.at(self.packing.scores, f.mul(j, tiling.block * self.size))
        found = list(largest)
        for i in range(tiling.keys):
            key = f.add(j, i)
            added = None if mask is None else self.added(mask, key, first, high)
            for v in range(tiling.query_vectors):
                place = f.at(target, (i * tiling.block + v * tiling.lanes) * self.size)
                x = self.masked(sums[i * tiling.query_vectors + v], place, added)
                if first is not None:
                    x = self.seen(x, key, v, first, high)
                f.store(x, place, self.size)
                found[v] = maximum(f, x, found[v])
        return found

    def products(self, j: Value) -> list[Value]:
        """Q . K for a tile of keys from j on."""
        f, tiling, head = self.f, self.tiling, self.spec.head
        keys = f.at(self.packing.keys, f.mul(j, head * self.size))

        def steps(d: Int, count: int, sums: list[Value]) -> list[Value]:
            left = f.at(keys, f.mul(d, self.size))
            right = f.at(self.packing.query, f.mul(d, tiling.block * self.size))
            for u in range(count):
                columns = [
                    f.load(self.vector,
                           f.at(right, (u * tiling.block + v * tiling.lanes) * self.size))
                    for v in range(tiling.query_vectors)
                ]  # fmt: skip
                for i in range(tiling.keys):
                    one = f.load(self.scalar, f.at(left, (i * head + u) * self.size))
                    spread = f.splat(one, self.vector)
                    for v, column in enumerate(columns):
                        at = i * tiling.query_vectors + v
                        sums[at] = multiply_add(f, self.isa, spread, column, sums[at])
            return sums

        sums = [f.const(0.0, self.vector)] * (tiling.keys * tiling.query_vectors)
        whole = head - head % _UNROLL
        sums = f.loop(0, whole, lambda d, *s: steps(d, _UNROLL, list(s)), sums, _UNROLL)
        return steps(whole, head - whole, list(sums))

    def added(self, mask: Value, key: Value, first: Value | None, high: Value) -> Value:
        """The mask of one key. Behind the last key the last one's is read: nobody looks at it."""
        f, spec = self.f, self.spec
        if first is not None:
            key = self.least(key, f.sub(high, 1))
        place = f.at(mask, f.mul(key, BYTES[spec.mask]))
        one = self.packing.additive(load(f, self.isa, spec.mask, place, 0))
        return f.splat(one, self.vector)

    def masked(self, x: Value, place: Value, added: Value | None) -> Value:
        """Softcap and mask."""
        f, spec = self.f, self.spec
        if spec.softcap:
            cap = f.splat(self.packing.softcap, self.vector)
            x = f.mul(tanh(f, self.isa, x), cap)
        if spec.mask:
            x = f.add(x, added or f.load(self.vector, place, self.size))
        return x

    def seen(self, x: Value, key: Value, v: int, first: Value, high: Value) -> Value:
        """-inf where a query of vector v does not see the key."""
        f, w, spec = self.f, self.words, self.spec
        never = f.const(float("-inf"), self.vector)
        x = f.select(f.compare("<", key, high), x, never)
        if not (spec.left or spec.right):
            return x
        whole = f"<{self.tiling.lanes} x i32>"
        # key - first - v lanes: how far the key is behind the first query of the vector.
        ahead = f.sub(f.sub(key, first), v * self.tiling.lanes)
        lanes = f.iota(whole)
        if spec.right:
            bound = f.cast("trunc", self.clamped(f.sub(ahead, w["right"])), "i32")
            x = f.select(f.compare(">=", lanes, f.splat(bound, whole)), x, never)
        if spec.left:
            bound = f.cast("trunc", self.clamped(f.add(ahead, w["left"])), "i32")
            x = f.select(f.compare("<=", lanes, f.splat(bound, whole)), x, never)
        return x

    def clamped(self, x: Value) -> Value:
        """Into what 32 bits hold, on the same side of all lanes."""
        return self.most(self.least(x, self.f.i64(1 << 20)), -(1 << 20))

    # --- softmax ----------------------------------------------------------------------------

    def powers(self, largest: list[Value], low: Value, high: Value) -> None:
        """Scores become 2^(score - largest); the reciprocals of their sums are stored."""
        f, tiling = self.f, self.tiling
        # Without any key the largest score is -inf: all powers are 0 then.
        least = f.const(float("-inf"), self.vector)
        base = [f.select(f.compare("==", m, least), f.const(0.0, self.vector), m) for m in largest]

        def step(j: Value, *sums: Value) -> list[Value]:
            row = f.at(self.packing.scores, f.mul(j, tiling.block * self.size))
            found = []
            for v, total in enumerate(sums):
                place = f.at(row, v * tiling.lanes * self.size)
                x = f.load(self.vector, place, self.size)
                power = exp2(f, self.isa, f.sub(x, base[v]))
                f.store(power, place, self.size)
                found.append(f.add(total, power))
            return found

        zeros = [f.const(0.0, self.vector)] * tiling.query_vectors
        for v, total in enumerate(f.loop(low, high, step, zeros)):
            inverse = f.binary("fdiv", f.const(1.0, self.vector), total)
            if self.spec.empty_is_zero:
                zero = f.const(0.0, self.vector)
                inverse = f.select(f.compare("==", total, zero), zero, inverse)
            place = f.at(self.packing.inverses, v * tiling.lanes * self.size)
            f.store(inverse, place, self.size)

    # --- output -----------------------------------------------------------------------------

    def outputs(
        self, b: Value, h: Value, row: Value, count: Value, low: Value, high: Value
    ) -> None:
        """The powers times V, panel by panel."""
        f, w, width = self.f, self.words, self.tiling.width
        start = f.add(f.add(f.mul(b, w["o_b"]), f.mul(h, w["o_h"])), f.mul(row, w["o_i"]))
        target = f.at(w.pointers["o"], f.mul(start, BYTES[self.spec.dtype]))
        whole = self.spec.value // width

        def panel(p: Int, columns: int) -> None:
            f.loop(
                0, count,
                lambda r: self.output_tile(target, p, columns, r, count, low, high),
                step=self.tiling.queries,
            )  # fmt: skip

        f.loop(0, whole, lambda p: panel(p, width))
        if self.spec.value % width:
            panel(whole, self.spec.value % width)

    def output_tile(
        self, target: Value, p: Int, columns: int, r: Value, count: Value, low: Value, high: Value
    ) -> None:
        f, tiling = self.f, self.tiling
        vectors = -(-columns // tiling.lanes)
        sums = self.weighted(p, vectors, r, low, high)
        left = f.at(target, f.mul(f.mul(p, tiling.width), BYTES[self.spec.dtype]))
        for i in range(tiling.queries):
            at = f.add(r, i)
            inverse = f.load(self.scalar, f.at(self.packing.inverses, f.mul(at, self.size)))
            spread = f.splat(inverse, self.vector)
            step = f.mul(f.mul(at, self.words["o_i"]), BYTES[self.spec.dtype])
            # Rows behind the last query go to memory that nobody reads.
            place = f.select(f.compare("<", at, count), f.at(left, step), self.packing.unread)
            for v in range(vectors):
                y = f.mul(sums[i * vectors + v], spread)
                self.store_vector(y, place, v * tiling.lanes, columns)

    def store_vector(self, y: Value, place: Value, start: int, columns: int) -> None:
        f, dtype, lanes = self.f, self.spec.dtype, self.tiling.lanes
        at = f.at(place, start * BYTES[dtype])
        if start + lanes <= columns:
            store(f, self.isa, dtype, y, at, lanes)
            return
        for lane in range(columns - start):
            store(f, self.isa, dtype, f.extract(y, lane), f.at(at, lane * BYTES[dtype]), 0)

    def weighted(self, p: Int, vectors: int, r: Value, low: Value, high: Value) -> list[Value]:
        """Sums of powers times values for a tile of queries from r on."""
        f, tiling = self.f, self.tiling
        panel = self.packing.panel(p)

        def steps(j: Value, count: int, sums: list[Value]) -> list[Value]:
            left = f.at(self.packing.scores,
                        f.mul(f.add(f.mul(j, tiling.block), r), self.size))  # fmt: skip
            right = f.at(panel, f.mul(j, tiling.width * self.size))
            for u in range(count):
                columns = [
                    f.load(self.vector,
                           f.at(right, (u * tiling.width + v * tiling.lanes) * self.size))
                    for v in range(vectors)
                ]  # fmt: skip
                for i in range(tiling.queries):
                    one = f.load(self.scalar, f.at(left, (u * tiling.block + i) * self.size))
                    spread = f.splat(one, self.vector)
                    for v, column in enumerate(columns):
                        at = i * vectors + v
                        sums[at] = multiply_add(f, self.isa, spread, column, sums[at])
            return sums

        sums = [f.const(0.0, self.vector)] * (tiling.queries * vectors)
        length = self.most(f.sub(high, low), 0)
        whole = f.sub(f.add(low, length), f.binary("urem", length, _UNROLL))
        sums = f.loop(low, whole, lambda j, *s: steps(j, _UNROLL, list(s)), sums, _UNROLL)
        return f.loop(whole, high, lambda j, *s: steps(j, 1, list(s)), sums)
