"""The k largest or smallest elements (rewrite/plan/specs/sort.py).

In: a `TopK` spec. Out: code. An element and its place become one unsigned integer: the more
significant half orders elements, the other one places, the lower ones above. The k greatest of
these integers are kept in a heap whose root is the least of them, so that most elements of a long
row are dismissed by one comparison, a vector of them at once. Taking the root away again and again
fills the result from its end.

Reference: R. W. Floyd, Algorithm 245: Treesort, 1964.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, memory_type, register_type
from rewrite.codegen.types import bits, is_float, lanes, like
from rewrite.codegen.value import Value
from rewrite.plan.specs.sort import TopK


@emits(TopK)
def top_k(k: Kernel, spec: TopK) -> None:
    """One row after another."""
    _TopK(k, spec).write()


class _TopK:
    def __init__(self, k: Kernel, spec: TopK) -> None:
        self.f: Function = k.f
        self.isa: Isa = k.isa
        self.kernel, self.spec = k, spec
        self.x, self.values, self.places = k.pointer(0), k.pointer(1), k.pointer(2)
        self.n, self.inner, self.k = k.integer(3), k.integer(4), k.integer(5)
        register = register_type(spec.dtype, 0)
        self.half = 64 if bits(register) == 64 else 32
        self.key = f"i{self.half}"
        self.pair = f"i{2 * self.half}"
        self.name = memory_type(spec.dtype)
        self.lanes = max(1, k.isa.vector_bytes * 8 // self.half)
        self.heap = k.scratch

    def write(self) -> None:
        f = self.f

        def item(number: Value) -> None:
            if self.spec.inner_one:
                source, target = f.mul(number, self.n), f.mul(number, self.k)
            else:
                outer = f.binary("udiv", number, self.inner)
                column = f.sub(number, f.mul(outer, self.inner))
                source = f.add(f.mul(f.mul(outer, self.n), self.inner), column)
                target = f.add(f.mul(f.mul(outer, self.k), self.inner), column)
            self.row(f.at(self.x, source, self.name), target)

        f.if_(
            f.compare(">", self.k, 0),
            lambda: _nothing(f.loop(self.kernel.begin, self.kernel.end, item)),
        )

    def stride(self) -> Int:
        return 1 if self.spec.inner_one else self.inner

    # --- keys --------------------------------------------------------------------------------

    def keys(self, x: Value) -> Value:
        """Unsigned integers that are ordered as wanted: the greatest come first."""
        f, spec = self.f, self.spec
        type_ = like(x.type, self.key)
        if is_float(x.type):
            # -0 becomes 0, every NaN the same one.
            x = f.add(x, 0.0)
            x = f.select(f.compare("!=", x, x), f.const(float("nan"), x.type), x)
            raw = f.bitcast(x, type_)
            sign = f.binary("ashr", raw, self.half - 1)
            flip = f.binary("or", sign, f.const(1 << (self.half - 1), type_))
            raw = f.binary("xor", raw, flip)
        elif spec.dtype[0] == "u":
            raw = f.cast("zext", x, type_)
        else:
            raw = f.binary("xor", f.cast("sext", x, type_), f.const(1 << (self.half - 1), type_))
        return raw if spec.largest else f.binary("xor", raw, f.const(-1, type_))

    def paired(self, key: Value, place: Value) -> Value:
        """Key and place; lower places are greater."""
        f = self.f
        upper = f.binary("shl", f.cast("zext", key, self.pair), self.half)
        small = place if self.half == 64 else f.cast("trunc", place, self.key)
        lower = f.cast("zext", f.binary("xor", small, -1), self.pair)
        return f.binary("or", upper, lower)

    def at(self, index: Int) -> Value:
        return self.f.at(self.heap, index, self.pair)

    # --- the heap ----------------------------------------------------------------------------

    def row(self, base: Value, target: Value) -> None:
        """The first k elements make the heap, the others pass it."""
        f = self.f

        def first(i: Value) -> None:
            f.store(self.paired(self.keys(self.element(base, i)), i), self.at(i))

        f.loop(0, self.k, first)
        middle = f.binary("lshr", self.k, 1)

        def settle(i: Value) -> None:
            place = f.sub(f.sub(middle, 1), i)
            self.sink(place, f.load(self.pair, self.at(place), 8), self.k)

        f.loop(0, middle, settle)
        self.rest(base)
        self.drain(base, target)

    def element(self, base: Value, i: Int) -> Value:
        pointer = self.f.at(base, self.f.mul(i, self.stride()), self.name)
        return load(self.f, self.isa, self.spec.dtype, pointer, 0)

    def rest(self, base: Value) -> None:
        """Elements k … n - 1; a vector none of whose elements passes the root is left alone."""
        f = self.f

        def single(i: Value) -> None:
            self.offer(self.keys(self.element(base, i)), i)

        if not self.spec.inner_one or self.lanes < 2:
            f.loop(self.k, self.n, single)
            return
        count = self.lanes
        some = f.add(self.k, f.binary("and", f.sub(self.n, self.k), -count))

        def several(i: Value) -> None:
            x = load(f, self.isa, self.spec.dtype, f.at(base, i, self.name), count)
            keys = self.keys(x)
            passed = f.compare(">", keys, f.splat(self.root_key(), keys.type), signed=False)
            some_pass = f.call(f"llvm.vector.reduce.or.v{lanes(keys.type)}i1", "i1", passed)
            f.if_(
                some_pass,
                lambda: _nothing(f.loop(i, f.add(i, count), single)),
            )

        f.loop(self.k, some, several, step=count)
        f.loop(some, self.n, single)

    def root_key(self) -> Value:
        f = self.f
        root = f.load(self.pair, self.at(0), 8)
        return f.cast("trunc", f.binary("lshr", root, self.half), self.key)

    def offer(self, key: Value, place: Value) -> None:
        """Takes the root's place if it is greater; an equal key has a higher place, and is not."""
        f = self.f
        greater = f.compare(">", key, self.root_key(), signed=False)
        f.if_(greater, lambda: self.sink(f.i64(0), self.paired(key, place), self.k))

    def sink(self, start: Value, pair: Value, size: Value) -> tuple[()]:
        """Puts a pair at `start` or below: lesser children move up."""
        f = self.f

        def children(hole: Value) -> Value:
            found: Value = f.add(f.mul(hole, 2), 1)
            return found

        def turn(hole: Value, found: Value) -> list[Value]:
            del found
            left = children(hole)
            right = f.intrinsic("llvm.smin", "i64", f.add(left, 1), f.sub(size, 1))
            a, b = f.load(self.pair, self.at(left), 8), f.load(self.pair, self.at(right), 8)
            takes_left = f.compare("<=", a, b, signed=False)
            child, value = f.select(takes_left, left, right), f.select(takes_left, a, b)
            moves = f.compare("<", value, pair, signed=False)
            # Where nothing moves, the pair itself is stored.
            f.store(f.select(moves, value, pair), self.at(hole))
            after = f.select(moves, child, hole)
            again = f.binary("and", moves, f.compare("<", children(after), size))
            return [again, after, after]

        def walk() -> list[Value]:
            _, last = f.while_(turn, [start, start])
            return [last]

        (place,) = f.if_(f.compare("<", children(start), size), walk, lambda: [start], 1)
        f.store(pair, self.at(place))
        return ()

    def drain(self, base: Value, target: Value) -> None:
        """The least of what is left goes to the end of what is free."""
        f = self.f

        def turn(i: Value) -> None:
            last = f.sub(f.sub(self.k, 1), i)
            root = f.load(self.pair, self.at(0), 8)
            moved = f.load(self.pair, self.at(last), 8)
            f.if_(
                f.compare(">", last, 0),
                lambda: self.sink(f.i64(0), moved, last),
            )
            small = f.binary("xor", f.cast("trunc", root, self.key), -1)
            place = small if self.half == 64 else f.cast("zext", small, "i64")
            out = f.add(target, f.mul(last, self.stride()))
            raw = f.load(self.name, f.at(base, f.mul(place, self.stride()), self.name))
            f.store(raw, f.at(self.values, out, self.name))
            f.store(place, f.at(self.places, out, "i64"))

        f.loop(0, self.k, turn)


def _nothing(_: object) -> tuple[Value, ...]:
    return ()
