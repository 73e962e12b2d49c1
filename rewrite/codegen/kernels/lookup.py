"""The kernel of `Lookup`.

In: the spec. Out: code. Where the machine permutes bytes of two registers by a third (AVX-512
VBMI), 64 bytes are looked up by two permutations, one of each half of the table, and a choice by
the top bit. Elsewhere elements are looked up one by one, which is bound by loads.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.value import Value
from rewrite.plan.specs.lookup import CHUNK, Lookup

_UNROLL = 4
_BYTES = "<64 x i8>"


@emits(Lookup)
def lookup(k: Kernel, spec: Lookup) -> None:
    _Lookup(k, spec).write()


class _Lookup:
    def __init__(self, k: Kernel, spec: Lookup) -> None:
        self.k, self.f, self.spec = k, k.f, spec
        self.x, self.table, self.y = (k.pointer(i) for i in range(3))
        self.entry = f"i{8 * spec.width}"
        self.permutes = k.isa.has("avx512vbmi") and spec.width == 1 and k.isa.vector_bytes == 64

    def write(self) -> None:
        f, k = self.f, self.k
        if not self.spec.channels:
            count = k.integer(3)

            def chunk(index: Value) -> None:
                start = f.mul(index, CHUNK)
                left = f.sub(count, start)
                length = f.select(f.compare("<", left, CHUNK), left, CHUNK)
                self.row(self.table, start, length)

            f.loop(k.begin, k.end, chunk)
            return
        channels, inner = k.integer(3), k.integer(4)
        if self.spec.neighbours:
            f.loop(k.begin, k.end, lambda r: self.across(f.mul(r, channels), channels))
            return

        def row(index: Value) -> None:
            channel = f.binary("urem", index, channels)
            table = f.at(self.table, f.mul(channel, 256 * self.spec.width))
            self.row(table, f.mul(index, inner), inner)

        f.loop(k.begin, k.end, row)

    def across(self, start: Value, channels: Value) -> None:
        """One element of each channel."""
        f = self.f

        def element(c: Value) -> None:
            table = f.at(self.table, f.mul(c, 256 * self.spec.width))
            self.element(table, f.add(start, c))

        f.loop(0, channels, element)

    def row(self, table: Value, start: Value, length: Value) -> None:
        """Neighbours with one table."""
        f = self.f
        at: Int = 0
        if self.permutes:
            look = permuted(f, table)

            def vector(i: Value) -> None:
                place = f.add(start, i)
                found = look(f.load(_BYTES, f.at(self.x, place)))
                f.store(found, f.at(self.y, place))

            whole = f.sub(length, f.binary("urem", length, 64))
            f.loop(0, whole, vector, step=64)
            at = whole
        else:

            def several(i: Value) -> None:
                for u in range(_UNROLL):
                    self.element(table, f.add(start, f.add(i, u)))

            at = f.sub(length, f.binary("urem", length, _UNROLL))
            f.loop(0, at, several, step=_UNROLL)
        f.loop(at, length, lambda i: self.element(table, f.add(start, i)))

    def element(self, table: Value, place: Value) -> None:
        f = self.f
        index = f.cast("zext", f.load("i8", f.at(self.x, place)), "i64")
        found = f.load(self.entry, f.at(table, index, self.entry))
        f.store(found, f.at(self.y, place, self.entry))


def permuted(f: Function, table: Value) -> Callable[[Value], Value]:
    """A table of 256 bytes in four registers; gives what looks up 64 bytes."""
    parts = [f.load(_BYTES, f.at(table, 64 * i)) for i in range(4)]
    name = "llvm.x86.avx512.vpermi2var.qi.512"

    def look(x: Value) -> Value:
        low, high = (f.call(name, _BYTES, a, x, b) for a, b in (parts[:2], parts[2:]))
        return f.select(f.compare("<", x, 0), high, low)

    return look
