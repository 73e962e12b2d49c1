"""Kernels that read at places which are data.

In: specs of rewrite/plan/specs/index.py. Out: code.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.moving import (
    copy_row,
    counted,
    guarded,
    load_bytes,
    load_index,
    nest,
    row_major,
    store_bytes,
)
from rewrite.codegen.value import Value
from rewrite.plan.specs.index import GatherElements, GatherRows, ReverseRows


@emits(GatherRows)
def gather_rows(k: Kernel, spec: GatherRows) -> None:
    f = k.f
    data, indices, result = (k.pointer(i) for i in range(3))
    rows, index_pitch, data_pitch, row_bytes = (k.integer(i) for i in range(3, 7))
    sizes = [k.integer(7 + 2 * i) for i in range(spec.depth)]
    steps = [k.integer(8 + 2 * i) for i in range(spec.depth)]
    row: Int = spec.row or row_bytes
    per_batch = f.intrinsic("llvm.umax", "i64", rows, 1)
    batch = f.binary("udiv", k.begin, per_batch)
    first = f.sub(k.begin, f.mul(batch, per_batch))

    def one(item: Value, at: Value, base: Value, index_base: Value) -> list[Value]:
        place: Int = base
        fine: Value | None = None
        for d in range(spec.depth):
            number = f.add(f.mul(f.add(index_base, at), spec.depth), d)
            index, ok = counted(f, load_index(f, spec.index, indices, number), sizes[d])
            place = f.add(place, f.mul(index, steps[d]))
            fine = ok if fine is None else f.binary("and", fine, ok)

        def move() -> None:
            target = f.at(result, f.mul(item, row))
            copy_row(f, k.isa, f.at(data, place), target, spec.row, row_bytes)

        if fine is None:
            move()
        else:
            guarded(k, fine, move)
        following = f.add(at, 1)
        wraps = f.compare("==", following, per_batch)
        return [
            f.select(wraps, f.i64(0), following),
            f.select(wraps, f.add(base, data_pitch), base),
            f.select(wraps, f.add(index_base, index_pitch), index_base),
        ]

    start = [first, f.mul(batch, data_pitch), f.mul(batch, index_pitch)]
    f.loop(k.begin, k.end, one, start)


@emits(GatherElements)
def gather_elements(k: Kernel, spec: GatherElements) -> None:
    f, rank = k.f, spec.rank
    data, indices, result = (k.pointer(i) for i in range(3))
    extent = k.integer(3)
    sizes = [k.integer(4 + i) for i in range(rank)]
    steps = [k.integer(4 + rank + i) for i in range(rank)]
    along = steps[spec.axis]
    steps[spec.axis] = f.i64(0)
    kind = f"[{spec.width} x i8]"

    def one(place: Int, base: Int) -> None:
        index, fine = counted(f, load_index(f, spec.index, indices, place), extent)

        def move() -> None:
            x = load_bytes(f, f.at(data, f.add(base, f.mul(index, along)), kind), spec.width)
            store_bytes(f, x, f.at(result, place, kind), spec.width)

        guarded(k, fine, move)

    nest(f, sizes, [row_major(f, sizes), steps], one, (0, k.begin, k.end))


@emits(ReverseRows)
def reverse_rows(k: Kernel, spec: ReverseRows) -> None:
    f = k.f
    data, lengths, result = (k.pointer(i) for i in range(3))
    times, _, row_bytes, time_pitch, batch_pitch = (k.integer(i) for i in range(3, 8))

    def batch(b: Value) -> None:
        length = load_index(f, spec.index, lengths, b)
        fine = f.compare("<=", length, times, signed=False)
        base = f.mul(b, batch_pitch)

        def rows(move: Callable[[Value], None]) -> None:
            f.loop(0, times, move)

        def move(t: Value) -> None:
            mirrored = f.select(f.compare("<", t, length), f.sub(f.sub(length, 1), t), t)
            source = f.at(data, f.add(base, f.mul(mirrored, time_pitch)))
            target = f.at(result, f.add(base, f.mul(t, time_pitch)))
            copy_row(f, k.isa, source, target, spec.row, row_bytes)

        guarded(k, fine, lambda: rows(move))

    f.loop(k.begin, k.end, batch)
