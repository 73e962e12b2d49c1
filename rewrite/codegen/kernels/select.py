"""Kernels whose results are as large as the data say: NonZero, Compress, Unique.

In: specs of rewrite/plan/specs/select.py. Out: code.
"""

from __future__ import annotations

from typing import Any

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.select_sort import sort_indices
from rewrite.codegen.memory import load, memory_type
from rewrite.codegen.moving import copy_bytes, guarded, load_bytes, nest, row_major, store_bytes
from rewrite.codegen.types import is_float
from rewrite.codegen.value import Value
from rewrite.plan.specs.select import Compress, NonZero, Unique
from rewrite.plan.view import BYTES


class Counter:
    """A number in the function's frame."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.slot = f.slot("i64")
        self.reset()

    def reset(self) -> None:
        self.f.store(self.f.i64(0), self.slot)

    def value(self) -> Value:
        return self.f.load("i64", self.slot)

    def next(self) -> Value:
        """The number before it is raised by one."""
        found = self.value()
        self.f.store(self.f.add(found, 1), self.slot)
        return found


def _holds(k: Kernel, dtype: str, x: Value) -> Value:
    """Whether an element is not zero; NaN is not."""
    return x if dtype == "bool" else k.f.compare("!=", x, 0.0 if is_float(x.type) else 0)


@emits(NonZero)
def nonzero(k: Kernel, spec: NonZero) -> None:
    f = k.f
    x, result, count = (k.pointer(i) for i in range(3))
    sizes = [k.integer(3 + i) for i in range(spec.rank)]
    total: Int = 1
    for size in sizes:
        total = f.mul(total, size)
    found = _count(k, spec.dtype, x, total)
    f.store(found, count)
    kind = memory_type(spec.dtype)
    written = Counter(f)
    axes = range(spec.rank)
    units = [[int(a == b) for b in axes] for a in axes]

    def one(place: Int, *coordinates: Int) -> None:
        element = load(f, k.isa, spec.dtype, f.at(x, place, kind), 0)

        def write() -> None:
            at = written.next()
            for axis, coordinate in enumerate(coordinates):
                target = f.at(result, f.add(f.mul(found, axis), at), "i64")
                f.store(f.i64(coordinate), target)

        f.if_(_holds(k, spec.dtype, element), write)

    if spec.rank:
        nest(f, sizes, [row_major(f, sizes), *units], one)


def _count(k: Kernel, dtype: str, x: Value, total: Int) -> Value:
    """How many of `total` elements are not zero."""
    f = k.f
    width = k.isa.lanes(dtype)
    kind = memory_type(dtype)
    size = f.i64(total)
    whole = f.binary("and", size, -width)

    def vector(i: Value, sum_: Value) -> Any:
        holds = _holds(k, dtype, load(f, k.isa, dtype, f.at(x, i, kind), width))
        mask = f.bitcast(holds, f"i{width}")
        ones = f.intrinsic("llvm.ctpop", f"i{width}", mask)
        return sum_ + f.cast("trunc" if width > 64 else "zext", ones, "i64")

    def scalar(i: Value, sum_: Value) -> Any:
        holds = _holds(k, dtype, load(f, k.isa, dtype, f.at(x, i, kind), 0))
        return sum_ + f.cast("zext", holds, "i64")

    (sums,) = f.loop(0, whole, vector, [f.i64(0)], step=width)
    (sums,) = f.loop(whole, size, scalar, [sums])
    return sums


@emits(Compress)
def compress(k: Kernel, spec: Compress) -> None:
    f = k.f
    data, condition, result, count = (k.pointer(i) for i in range(4))
    outer, rows, conditions, row = (k.integer(i) for i in range(4, 8))
    usable = f.intrinsic("llvm.smin", "i64", rows, conditions)
    found = _count(k, "bool", condition, usable)
    f.store(found, count)
    beyond = _count(k, "bool", f.at(condition, usable), f.sub(conditions, usable))
    guarded(k, f.compare("==", beyond, 0), lambda: None)
    written = Counter(f)

    def one(source: Int, place: Int) -> None:
        def move() -> None:
            target = f.at(result, f.mul(written.next(), row))
            copy_bytes(f, k.isa, f.at(data, source), target, row)

        f.if_(load(f, k.isa, "bool", f.at(condition, place), 0), move)

    steps = [[f.mul(rows, row), row], [0, 1]]
    nest(f, [outer, usable], steps, one)


@emits(Unique)
def unique(k: Kernel, spec: Unique) -> None:
    f = k.f
    x, work, values, firsts, inverse, times, *counts = (k.pointer(i) for i in range(9))
    outer, n, inner = (k.integer(i) for i in range(9, 12))
    before = _before(k, spec.dtype)
    spare, groups = f.at(work, n, "i64"), f.at(work, f.mul(n, 2), "i64")

    def less(a: Value, b: Value) -> Value:
        return f.call(before, "i1", x, a, b, outer, n, inner)

    def read(area: Value, at: Int) -> Value:
        return f.load("i64", f.at(area, at, "i64"))

    def write(number: Value, area: Value, at: Int) -> None:
        f.store(number, f.at(area, at, "i64"))

    f.loop(0, n, lambda i: write(i, work, i))
    order = sort_indices(f, work, spare, n, less)
    unused = f.select(f.compare("==", order, work), spare, work)

    def group(t: Value, last: Value, previous: Value) -> list[Value]:
        """Equal slices stand side by side, the first one in front: it opens their group."""
        here = read(order, t)

        def opened() -> list[Value]:
            following = f.add(last, 1)
            write(here, firsts, following)
            write(f.i64(0), times, following)
            return [following]

        fresh = f.if_(f.compare("==", t, 0), lambda: [f.const(True, "i1")],
                      lambda: [less(previous, here)], 1)[0]  # fmt: skip
        (number,) = f.if_(fresh, opened, lambda: [last], 1)
        write(number, inverse, here)
        write(f.add(read(times, number), 1), times, number)
        return [number, here]

    last, _ = f.loop(0, n, group, [f.i64(-1), f.i64(0)])
    found = f.add(last, 1)
    for count in counts:
        f.store(found, count)
    if not spec.ascending:
        _as_they_come(f, (firsts, inverse, times), (unused, groups), n, found)
    _slices(k, spec.dtype, x, firsts, values, (outer, n, inner), found)


def _as_they_come(
    f: Function,
    outputs: tuple[Value, Value, Value],
    areas: tuple[Value, Value],
    n: Value,
    found: Value,
) -> None:
    """Renumbers the groups in the order of their first members.

    `renumbered` (n numbers): the new number of a group. While it is made, `opens` (n numbers) says
    which group a place opens; then `opens` holds the times of the groups by old numbers.
    """
    firsts, inverse, times = outputs
    opens, renumbered = areas

    def read(area: Value, at: Int) -> Value:
        return f.load("i64", f.at(area, at, "i64"))

    def write(number: Int, area: Value, at: Int) -> None:
        f.store(f.i64(number), f.at(area, at, "i64"))

    f.loop(0, n, lambda i: write(-1, opens, i))
    f.loop(0, found, lambda g: write(g, opens, read(firsts, g)))
    following = Counter(f)

    def number(i: Value) -> None:
        group = read(opens, i)

        def first() -> None:
            new = following.next()
            write(new, renumbered, group)
            write(i, firsts, new)

        f.if_(f.compare(">=", group, 0), first)

    f.loop(0, n, number)
    f.loop(0, n, lambda i: write(read(renumbered, read(inverse, i)), inverse, i))
    f.loop(0, found, lambda g: write(read(times, g), opens, g))
    f.loop(0, found, lambda g: write(read(opens, g), times, read(renumbered, g)))


def _slices(
    k: Kernel,
    dtype: str,
    x: Value,
    firsts: Value,
    values: Value,
    sizes: tuple[Value, Value, Value],
    found: Value,
) -> None:
    f, (outer, n, inner) = k.f, sizes
    width = BYTES[dtype]
    kind = f"[{width} x i8]"
    written = Counter(f)

    def one(base: Int, at: Int) -> None:
        first = f.load("i64", f.at(firsts, at, "i64"))
        source = f.add(base, f.mul(first, inner))

        def move(j: Value) -> None:
            element = load_bytes(f, f.at(x, f.add(source, j), kind), width)
            store_bytes(f, element, f.at(values, written.next(), kind), width)

        f.loop(0, inner, move)

    nest(f, [outer, found], [[f.mul(n, inner), 0], [0, 1]], one)


def _before(k: Kernel, dtype: str) -> str:
    """A function: whether slice a comes before slice b, by their first different elements."""
    name = f"{k.f.name}_before"
    parameters = [("ptr", "x"), *(("i64", p) for p in ("a", "b", "outer", "n", "inner"))]
    f = k.module.function(name, parameters, returns="i1", internal=True)
    x, a, b, outer, n, inner = (f.arg(p) for _, p in parameters)
    kind = memory_type(dtype)

    def element(o: Int, slice_: Value, j: Int) -> Value:
        place = f.add(f.mul(f.add(f.mul(o, n), slice_), inner), j)
        return load(f, k.isa, dtype, f.at(x, place, kind), 0)

    def one(o: Value) -> None:
        f.loop(0, inner, lambda j: _decide(f, dtype, element(o, a, j), element(o, b, j)))

    f.loop(0, outer, one)
    f.ret(False)
    return name


def _decide(f: Function, dtype: str, p: Value, q: Value) -> None:
    """Leaves the function where the two differ."""
    signed = dtype[0] not in "ub"
    less, more = f.compare("<", p, q, signed), f.compare(">", p, q, signed)
    if is_float(p.type):
        p_nan, q_nan = f.compare("!=", p, p), f.compare("!=", q, q)
        less = f.binary("or", less, f.binary("and", q_nan, f.binary("xor", p_nan, True)))
        more = f.binary("or", more, f.binary("and", p_nan, f.binary("xor", q_nan, True)))
    decided, further = f.label("decided"), f.label("further")
    f.branch(f.binary("or", less, more), decided, further)
    f.start(decided)
    f.ret(less)
    f.start(further)
