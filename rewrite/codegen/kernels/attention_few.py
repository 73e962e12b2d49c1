"""The kernel of `FewQueries`: attention that is bound by reading keys and values.

In: the spec. Out: code. For each query, as many scores at once as a vector has lanes: the products
of as many keys with the query, transposed and added up. The powers of the scores weigh the values,
whose elements are the lanes then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.attention import Writer
from rewrite.codegen.kernels.attention_math import exp2, maximum, multiply_add, tanh
from rewrite.codegen.kernels.attention_pack import transposed
from rewrite.codegen.memory import load, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.attention import FewQueries
from rewrite.plan.view import BYTES

_CHAINS = 8  # independent sums that hide the latency of an addition


@emits(FewQueries)
def few_queries(k: Kernel, spec: FewQueries) -> None:
    _Few(k, spec).write()


class _Few(Writer):
    def __init__(self, k: Kernel, spec: FewQueries) -> None:
        super().__init__(k, spec.base)
        self.lanes = self.tiling.lanes
        self.item = BYTES[spec.base.dtype]
        self.scores_at = k.scratch

    def write(self) -> None:
        f = self.f

        def item(index: Value) -> None:
            b = f.binary("udiv", index, self.words["heads"])
            h = f.sub(index, f.mul(b, self.words["heads"]))
            kv = f.binary("udiv", h, self.words["group"])
            given, keys = self.keys_of(b)
            f.loop(0, self.words["queries"], lambda i: self.query(b, h, kv, i, given, keys))

        f.loop(self.k.begin, self.k.end, item)

    def base(self, name: str, b: Value, h: Value, i: Value | int = 0) -> Value:
        """The address of a row of an operand."""
        f, w = self.f, self.words
        place = f.add(f.mul(b, w[f"{name}_b"]), f.mul(h, w[f"{name}_h"]))
        place = f.add(place, f.mul(w[f"{name}_i"], i))
        return f.at(w.pointers[name], f.mul(place, self.item))

    def query(self, b: Value, h: Value, kv: Value, i: Value, given: Value, keys: Value) -> None:
        f, w, spec = self.f, self.words, self.spec
        offset = f.sub(given, w["queries"]) if spec.from_end else w["offset"]
        place = f.add(i, offset)
        low: Value = f.i64(0)
        high = keys
        if spec.right:
            high = self.most(self.least(high, f.add(f.add(place, w["right"]), 1)), 0)
        if spec.left:
            low = self.least(self.most(f.sub(place, w["left"]), 0), high)
        # Whole vectors of keys, then one by one.
        count = f.sub(high, low)
        whole = f.add(low, f.sub(count, f.binary("urem", count, self.lanes)))
        largest = self.all_scores(b, h, kv, i, (low, whole, high))
        inverse = self.all_powers(largest, (low, whole, high))
        source = self.base("v", b, kv)
        target = self.base("o", b, h, i)
        self.output(source, target, inverse, low, high)

    def place_of(self, j: Value) -> Value:
        return self.f.at(self.scores_at, self.f.mul(j, self.size))

    # --- scores -----------------------------------------------------------------------------

    def all_scores(
        self, b: Value, h: Value, kv: Value, i: Value, bounds: tuple[Value, Value, Value]
    ) -> Value:
        """The scores of a query; gives the largest one."""
        f = self.f
        low, whole, high = bounds
        source = self.base("q", b, h, i)
        factor = f.splat(self.packing.factor, self.vector)
        query = [f.mul(self.vector_at(source, c), factor) for c in range(self.columns)]
        keys = self.base("k", b, kv)
        step = f.mul(self.words["k_i"], self.item)
        mask = self.mask_of(b, h, i)
        never = float("-inf")

        def several(j: Value, most: Value) -> Value:
            first = f.at(keys, f.mul(j, step))
            rows = [f.at(first, f.mul(step, r)) for r in range(self.lanes)]
            sums = [self.partial(row, query) for row in rows]
            scores = self.score(self.added_up(transposed(f, sums)), j, mask)
            f.store(scores, self.place_of(j), self.size)
            return maximum(f, scores, most)

        (most,) = f.loop(low, whole, several, [f.const(never, self.vector)], self.lanes)
        top = f.reduce(most, lambda x, y: maximum(f, x, y))

        def one(j: Value, best: Value) -> Value:
            total = f.reduce(self.partial(f.at(keys, f.mul(j, step)), query), f.add)
            score = self.score(total, j, mask)
            f.store(score, self.place_of(j))
            return maximum(f, score, best)

        (top,) = f.loop(whole, high, one, [top])
        return top

    @property
    def columns(self) -> int:
        """Vectors of a query and key."""
        return self.spec.head // self.lanes

    def vector_at(self, row: Value, c: int) -> Value:
        f = self.f
        return load(f, self.isa, self.spec.dtype, f.at(row, c * self.lanes * self.item), self.lanes)

    def partial(self, row: Value, query: Sequence[Value]) -> Value:
        """Products of a key and the query, added up to one vector."""
        f = self.f
        total: Value = f.mul(self.vector_at(row, 0), query[0])
        for c in range(1, self.columns):
            total = multiply_add(f, self.isa, self.vector_at(row, c), query[c], total)
        return total

    def added_up(self, vectors: list[Value]) -> Value:
        while len(vectors) > 1:
            vectors = [self.f.add(x, y) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        return vectors[0]

    def mask_of(self, b: Value, h: Value, i: Value) -> Value | None:
        f, w, spec = self.f, self.words, self.spec
        if not spec.mask:
            return None
        place = f.add(f.mul(b, w["m_b"]), f.mul(h, w["m_h"]))
        place = f.add(place, f.mul(i, w["m_i"]))
        return f.at(w.pointers["mask"], f.mul(place, BYTES[spec.mask]))

    def score(self, x: Value, j: Value, mask: Value | None) -> Value:
        """Softcap and mask of scores from key j on, a vector or one."""
        f, spec = self.f, self.spec
        if spec.softcap:
            x = f.mul(tanh(f, self.isa, x), f.splat(self.packing.softcap, x.type))
        if mask is None:
            return x
        lanes = self.lanes if x.type.startswith("<") else 0
        given = load(f, self.isa, spec.mask, f.at(mask, f.mul(j, BYTES[spec.mask])), lanes)
        found: Value = f.add(x, self.packing.additive(given))
        return found

    # --- powers and output ------------------------------------------------------------------

    def all_powers(self, largest: Value, bounds: tuple[Value, Value, Value]) -> Value:
        """Scores become 2^(score - largest); gives the reciprocal of their sum."""
        f = self.f
        low, whole, high = bounds
        never = f.compare("==", largest, f.const(float("-inf"), largest.type))
        base = f.select(never, f.const(0.0, largest.type), largest)

        def power(type_: str) -> Callable[[Value, Value], Value]:
            offset = f.splat(base, type_)

            def step(j: Value, total: Value) -> Value:
                x = f.load(type_, self.place_of(j), self.size)
                found = exp2(f, self.isa, f.sub(x, offset))
                f.store(found, self.place_of(j), self.size)
                added: Value = f.add(total, found)
                return added

            return step

        zero = f.const(0.0, self.vector)
        (sums,) = f.loop(low, whole, power(self.vector), [zero], self.lanes)
        (total,) = f.loop(whole, high, power(self.scalar), [f.reduce(sums, f.add)])
        inverse = f.binary("fdiv", f.const(1.0, total.type), total)
        if not self.spec.empty_is_zero:
            return inverse
        nothing = f.const(0.0, total.type)
        return f.select(f.compare("==", total, nothing), nothing, inverse)

    def output(self, source: Value, target: Value, inverse: Value, low: Value, high: Value) -> None:
        """The values weighed by the powers, some vectors of columns at a time."""
        f = self.f
        every = self.spec.value // self.lanes
        step = f.mul(self.words["v_i"], self.item)
        for first in range(0, every, _CHAINS):
            count = min(_CHAINS, every - first)
            chains = max(1, _CHAINS // count)

            def several(
                j: Value, *sums: Value, first: int = first, count: int = count, chains: int = chains
            ) -> list[Value]:
                found: list[Value] = []
                for c in range(chains):
                    at = f.add(j, c)
                    row = f.at(source, f.mul(at, step))
                    weight = f.splat(f.load(self.scalar, self.place_of(at)), self.vector)
                    for v in range(count):
                        x = self.vector_at(row, first + v)
                        sums_at = sums[c * count + v]
                        found.append(multiply_add(f, self.isa, weight, x, sums_at))
                return found

            zeros = [f.const(0.0, self.vector)] * (count * chains)
            length = f.sub(high, low)
            whole = f.add(low, f.sub(length, f.binary("urem", length, chains)))
            sums = f.loop(low, whole, several, zeros, chains)
            totals = [self.added_up_any(sums[v::count]) for v in range(count)]
            totals = f.loop(whole, high, lambda j, *s, fn=several: fn(j, *s, chains=1), totals)
            spread = f.splat(inverse, self.vector)
            for v, x in enumerate(totals):
                place = f.at(target, (first + v) * self.lanes * self.item)
                store(f, self.isa, self.spec.dtype, f.mul(x, spread), place, self.lanes)

    def added_up_any(self, vectors: Sequence[Value]) -> Value:
        total = vectors[0]
        for x in vectors[1:]:
            total = self.f.add(total, x)
        return total
