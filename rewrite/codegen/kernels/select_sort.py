"""Stable sorting of indices by merging runs from the bottom up.

In: an order of indices. Out: instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.value import Value

Less = Callable[[Value, Value], Value]


def sort_indices(f: Function, source: Value, spare: Value, count: Value, less: Less) -> Value:
    """Sorts `count` i64 at `source`; both areas are changed, and the address of the sorted one is
    given. `less` compares two of the numbers; equal ones keep their order."""

    def passes(width: Value, here: Value, there: Value) -> list[Value]:
        double = f.add(width, width)
        last = f.sub(count, 1)

        def run(low: Value) -> list[Value]:
            middle = f.intrinsic("llvm.smin", "i64", f.add(low, width), count)
            high = f.intrinsic("llvm.smin", "i64", f.add(low, double), count)
            _merge(f, here, there, (low, middle, high), last, less)
            return [f.compare("<", high, count), high]

        f.while_(run, [f.i64(0)])
        return [f.compare("<", double, count), double, there, here]

    def sort() -> list[Value]:
        return f.while_(passes, [f.i64(1), source, spare])[1:2]

    return f.if_(f.compare(">", count, 1), sort, lambda: [source], 1)[0]


def _merge(
    f: Function,
    here: Value,
    there: Value,
    run: tuple[Value, Value, Value],
    last: Value,
    less: Less,
) -> None:
    """Two neighbouring sorted runs into one. Beyond a run some other index is compared, and the
    outcome not used."""
    low, middle, high = run

    def read(at: Value) -> Value:
        return f.load("i64", f.at(here, f.intrinsic("llvm.smin", "i64", at, last), "i64"))

    def step(t: Int, i: Value, j: Value) -> list[Value]:
        left, right = read(i), read(j)
        exhausted = f.compare(">=", j, high)
        keeps = f.binary("xor", less(right, left), True)
        take = f.binary("and", f.compare("<", i, middle), f.binary("or", exhausted, keeps))
        f.store(f.select(take, left, right), f.at(there, t, "i64"))
        one = f.cast("zext", take, "i64")
        return [f.add(i, one), f.add(j, f.sub(f.i64(1), one))]

    f.loop(low, high, step, [low, middle])
