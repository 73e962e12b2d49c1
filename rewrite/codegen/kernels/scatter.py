"""Kernels that write at places which are data.

In: specs of rewrite/plan/specs/index.py. Out: code. Updates of one element are applied in the order
in which they stand.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, store
from rewrite.codegen.moving import (
    copy_bytes,
    counted,
    guarded,
    load_bytes,
    load_index,
    nest,
    row_major,
    store_bytes,
)
from rewrite.codegen.value import Value
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.index import OneHot, ScatterCache, ScatterElements, ScatterRows
from rewrite.plan.view import BYTES

_OPERATORS = {"add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}
_LOGICAL = {"add": "Or", "max": "Or", "mul": "And", "min": "And"}
OPSET = 24


def reduction(name: str, dtype: str) -> Body:
    """What becomes of an element (value 0) by an update (value 1)."""
    operator = (_LOGICAL if dtype == "bool" else _OPERATORS)[name]
    return Body((dtype, dtype), (Step("", operator, (0, 1), dtype, (), OPSET),), (2,))


def _update(k: Kernel, dtype: str, name: str) -> Callable[[Value, Value, int], None]:
    """Writes `lanes` neighbours (0: one element) of updates onto as many of the data."""
    body = None if name == "none" else reduction(name, dtype)

    def write(target: Value, source: Value, lanes: int) -> None:
        f = k.f
        if body is None:
            store_bytes(f, load_bytes(f, source, BYTES[dtype]), target, BYTES[dtype])
            return
        old = load(f, k.isa, dtype, target, lanes)
        new = load(f, k.isa, dtype, source, lanes)
        (made,) = emit_body(f, k.isa, body, [old, new])
        store(f, k.isa, dtype, made, target, lanes)

    return write


@emits(ScatterElements)
def scatter_elements(k: Kernel, spec: ScatterElements) -> None:
    f, rank = k.f, spec.rank
    indices, updates, data = (k.pointer(i) for i in range(3))
    extent = k.integer(3)
    sizes = [k.integer(4 + i) for i in range(rank)]
    steps = [k.integer(4 + rank + i) for i in range(rank)]
    along = steps[spec.axis]
    steps[spec.axis] = f.i64(0)
    write = _update(k, spec.dtype, spec.reduction)
    kind = f"[{BYTES[spec.dtype]} x i8]"

    def one(place: Int, base: Int) -> None:
        index, fine = counted(f, load_index(f, spec.index, indices, place), extent)
        target = f.at(data, f.add(base, f.mul(index, along)), kind)
        guarded(k, fine, lambda: write(target, f.at(updates, place, kind), 0))

    limits = None if spec.split < 0 else (spec.split, k.begin, k.end)
    nest(f, sizes, [row_major(f, sizes), steps], one, limits)


@emits(ScatterRows)
def scatter_rows(k: Kernel, spec: ScatterRows) -> None:
    f = k.f
    indices, updates, data = (k.pointer(i) for i in range(3))
    rows, row = k.integer(3), k.integer(4)
    sizes = [k.integer(5 + 2 * i) for i in range(spec.depth)]
    steps = [k.integer(6 + 2 * i) for i in range(spec.depth)]
    width = BYTES[spec.dtype]
    kind = f"[{width} x i8]"
    write = _update(k, spec.dtype, spec.reduction)

    def columns(base: Int, number: Value) -> None:
        source = f.at(updates, f.mul(number, row), kind)
        target = f.at(data, base, kind)
        if spec.reduction == "none":
            count = f.mul(f.sub(k.end, k.begin), width)
            here = f.at(target, k.begin, kind)
            copy_bytes(f, k.isa, f.at(source, k.begin, kind), here, count)
            return
        lanes = k.isa.lanes(spec.dtype)

        def some(i: Value, count: int) -> None:
            write(f.at(target, i, kind), f.at(source, i, kind), count)

        whole = f.binary("and", f.sub(k.end, k.begin), -lanes)
        middle = f.add(k.begin, whole)
        f.loop(k.begin, middle, lambda i: some(i, lanes), step=lanes)
        f.loop(middle, k.end, lambda i: some(i, 0))

    def one(number: Value) -> None:
        base: Int = 0
        fine: Value | None = None
        for d in range(spec.depth):
            at = f.add(f.mul(number, spec.depth), d)
            index, ok = counted(f, load_index(f, spec.index, indices, at), sizes[d])
            base = f.add(base, f.mul(index, steps[d]))
            fine = ok if fine is None else f.binary("and", fine, ok)
        if fine is None:
            columns(base, number)
        else:
            guarded(k, fine, lambda: columns(base, number))

    f.loop(0, rows, one)


@emits(ScatterCache)
def scatter_cache(k: Kernel, spec: ScatterCache) -> None:
    f = k.f
    updates, places, cache = (k.pointer(i) for i in range(3))
    rows, length, row, slices = (k.integer(i) for i in range(3, 7))
    per_batch = f.intrinsic("llvm.umax", "i64", slices, 1)
    absent = f.compare("==", places, f.zero("ptr"))

    def first_place(batch: Value) -> Value:
        (found,) = f.if_(
            absent, lambda: f.i64(0), lambda: load_index(f, spec.index, places, batch), 1
        )
        return found

    def one(number: Value) -> None:
        start = first_place(f.binary("udiv", number, per_batch))
        source = f.at(updates, f.mul(f.mul(number, rows), row))
        target = f.at(cache, f.mul(f.mul(number, length), row))

        def move(i: Value) -> None:
            place = f.add(start, i)
            if spec.circular:
                past = f.binary("srem", place, f.intrinsic("llvm.umax", "i64", length, 1))
                place = f.select(f.compare("<", past, 0), f.add(past, length), past)
            fine = f.compare("<", place, length, signed=False)

            def row_of() -> None:
                copy_bytes(
                    f, k.isa, f.at(source, f.mul(i, row)), f.at(target, f.mul(place, row)), row
                )

            guarded(k, fine, row_of)

        f.loop(0, rows, move)

    f.loop(k.begin, k.end, one)


@emits(OneHot)
def one_hot(k: Kernel, spec: OneHot) -> None:
    f = k.f
    indices, pair, result = (k.pointer(i) for i in range(3))
    depth, inner = k.integer(3), f.intrinsic("llvm.umax", "i64", k.integer(4), 1)
    kind = f"[{spec.width} x i8]"
    on = load_bytes(f, f.at(pair, 1, kind), spec.width)

    def one(number: Value) -> None:
        outer = f.binary("udiv", number, inner)
        column = f.sub(number, f.mul(outer, inner))
        index, fine = counted(f, _whole(k, spec.index, indices, number), depth)

        def write() -> None:
            row = f.add(f.mul(outer, depth), index)
            place = f.add(f.mul(row, inner), column)
            store_bytes(f, on, f.at(result, place, kind), spec.width)

        f.if_(fine, write)

    f.loop(k.begin, k.end, one)


def _whole(k: Kernel, dtype: str, pointer: Value, place: Int) -> Value:
    """An index of any number type, rounded towards zero; what i64 cannot hold is no index."""
    if not dtype.startswith(("f", "bf")):
        return load_index(k.f, dtype, pointer, place)
    x = load(k.f, k.isa, dtype, k.f.at(pointer, place, f"[{BYTES[dtype]} x i8]"), 0)
    name = f"llvm.fptosi.sat.i64.{'f64' if x.type == 'double' else 'f32'}"
    whole = k.f.call(name, "i64", x)
    unordered = k.f.compare("!=", x, x)
    return k.f.select(unordered, k.f.const(-(1 << 63), "i64"), whole)
