"""Interpolation along one axis by tables of places and weights.

In: specs of rewrite/plan/specs/resize.py. Out: code.
"""

from __future__ import annotations

from collections.abc import Callable

from rewrite.codegen.ir import Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.types import is_float, lanes, suffix
from rewrite.codegen.value import Value
from rewrite.plan.specs.resize import ResizePass

_WIDEN = {True: "uitofp", False: "sitofp"}


def to_sums(k: Kernel, dtype: str, sums: str, x: Value) -> Value:
    """An element as the type in which sums are made."""
    wanted = register_type(sums, lanes(x.type))
    if not is_float(x.type):
        return k.f.cast(_WIDEN[dtype[0] in "ub"], x, wanted)
    return k.f.cast("fpext", x, wanted)


def from_sums(k: Kernel, dtype: str, x: Value) -> Value:
    """A sum as an element: integers rounded to nearest and saturated."""
    wanted = register_type(dtype, lanes(x.type))
    if is_float(wanted):
        return k.f.cast("fptrunc", x, wanted)
    whole = k.f.intrinsic("llvm.roundeven", x.type, x)
    name = "llvm.fptoui.sat" if dtype[0] == "u" else "llvm.fptosi.sat"
    return k.f.call(f"{name}.{suffix(wanted)}.{suffix(x.type)}", wanted, whole)


@emits(ResizePass)
def resize_pass(k: Kernel, spec: ResizePass) -> None:
    f = k.f
    data, places, weights, fill, result = (k.pointer(i) for i in range(5))
    taps_word, size, inner, pitch = (k.integer(i) for i in range(5, 9))
    taps: Int = spec.taps or taps_word
    kind, target_kind = memory_type(spec.source), memory_type(spec.target)
    per_outer = f.intrinsic("llvm.umax", "i64", size, 1)
    outer = f.binary("udiv", k.begin, per_outer)
    first = f.sub(k.begin, f.mul(outer, per_outer))
    blank = f.load(target_kind, fill) if spec.filled else None

    def row(item: Value, at: Value, base: Value) -> list[Value]:
        table = f.mul(at, taps)
        target = f.at(result, f.mul(item, inner), target_kind)
        source = f.at(data, base, kind)

        def interpolated() -> None:
            _row(k, spec, taps, (places, weights, table), source, target, inner)

        if blank is None:
            interpolated()
        else:
            lowest = f.load("i64", f.at(places, table, "i64"))
            inside = f.compare(">=", lowest, 0)
            f.if_(inside, interpolated, lambda: _blank(k, target, blank, inner))
        following = f.add(at, 1)
        wraps = f.compare("==", following, per_outer)
        return [
            f.select(wraps, f.i64(0), following),
            f.select(wraps, f.add(base, pitch), base),
        ]

    f.loop(k.begin, k.end, row, [first, f.mul(outer, pitch)])


def _blank(k: Kernel, target: Value, blank: Value, inner: Int) -> None:
    k.f.loop(0, inner, lambda j: k.f.store(blank, k.f.at(target, j, blank.type)))


def _row(
    k: Kernel,
    spec: ResizePass,
    taps: Int,
    tables: tuple[Value, Value, Value],
    source: Value,
    target: Value,
    inner: Int,
) -> None:
    """All inner elements of one place."""
    f = k.f
    places, weights, table = tables
    kind, weight_kind = memory_type(spec.source), memory_type(spec.sums)

    def tap(t: Int) -> tuple[Value, Value]:
        number = f.add(table, t)
        offset = f.load("i64", f.at(places, number, "i64"))
        return f.at(source, offset, kind), f.load(weight_kind, f.at(weights, number, weight_kind))

    known = [tap(t) for t in range(spec.taps)]

    def term(pointer: Value, weight: Value, j: Int, count: int) -> tuple[Value, Value]:
        x = load(f, k.isa, spec.source, f.at(pointer, j, kind), count)
        wide = to_sums(k, spec.source, spec.sums, x)
        return wide, f.splat(weight, wide.type)

    def some(j: Int, count: int) -> None:
        if spec.taps:
            x, w = term(*known[0], j, count)
            total = f.mul(x, w)
            for pointer, weight in known[1:]:
                total = plus(k, total, *term(pointer, weight, j, count))
        else:
            zero = f.zero(register_type(spec.sums, count))
            (total,) = f.loop(0, taps, lambda t, s: plus(k, s, *term(*tap(t), j, count)), [zero])
        made = from_sums(k, spec.target, total)
        store(f, k.isa, spec.target, made, f.at(target, j, memory_type(spec.target)), count)

    if spec.wide:
        over_vectors(k, inner, k.isa.lanes(spec.sums), some)
    else:
        f.loop(0, inner, lambda j: some(j, 0))


def plus(k: Kernel, total: Value, x: Value, weight: Value) -> Value:
    """total + x weight, rounded once where the machine can."""
    return k.f.fma(x, weight, total) if k.isa.fma else k.f.add(total, k.f.mul(x, weight))


def over_vectors(k: Kernel, count: Int, width: int, some: Callable[[Int, int], None]) -> None:
    """Whole vectors, and a last one that overlaps the one before; `count` is at least `width`."""
    f = k.f
    f.loop(0, f.sub(f.i64(count), width - 1), lambda j: some(j, width), step=width)
    f.if_(
        f.compare("!=", f.binary("and", f.i64(count), width - 1), 0),
        lambda: some(f.sub(f.i64(count), width), width),
    )
