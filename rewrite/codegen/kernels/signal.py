"""Discrete Fourier transforms as sums over tables, in vectors along the result.

In: specs of rewrite/plan/specs/signal.py. Out: code.
"""

from __future__ import annotations

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.resize import from_sums, to_sums
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.signal import COLUMNS, Dft


@emits(Dft)
def dft(k: Kernel, spec: Dft) -> None:
    f = k.f
    x, cosine, sine, result = (k.pointer(i) for i in range(4))
    samples, columns, pitch, lines = (k.integer(i) for i in range(4, 8))
    x_steps, y_steps = [k.integer(i) for i in range(8, 11)], [k.integer(i) for i in range(11, 14)]
    kind, table_kind = memory_type(spec.dtype), memory_type(spec.sums)
    width = min(COLUMNS, k.isa.lanes(spec.sums))
    wide = register_type(spec.sums, width)
    parts = 2 if spec.complex_out else 1
    spill = [f.slot(memory_type(spec.sums), None, width) for _ in range(parts)]

    def part(pointer: Value, which: int) -> Value:
        raw = load(f, k.isa, spec.dtype, f.at(pointer, which, kind), 0)
        return f.splat(to_sums(k, spec.dtype, spec.sums, raw), wide)

    def block(source: Value, target: Value, first: Value) -> None:
        def sample(j: Value, *sums: Value) -> list[Value]:
            at = f.add(f.mul(j, pitch), first)
            c = f.load(wide, f.at(cosine, at, table_kind))
            s = f.load(wide, f.at(sine, at, table_kind))
            here = f.at(source, f.mul(j, x_steps[2]), kind)
            a = part(here, 0)
            made = [_plus(k, sums[0], a, c)]
            if spec.complex_out:
                made.append(_plus(k, sums[1], f.neg(a), s))
            if spec.complex_in:
                b = part(here, 1)
                made[0] = _plus(k, made[0], b, s)
                if spec.complex_out:
                    made[1] = _plus(k, made[1], b, c)
            return made

        sums = f.loop(0, samples, sample, [f.zero(wide)] * parts)
        for slot, total in zip(spill, sums, strict=True):
            f.store(total, slot)
        count = f.intrinsic("llvm.smin", "i64", f.sub(columns, first), width)

        def out(lane: Value) -> None:
            place = f.at(target, f.mul(f.add(first, lane), y_steps[2]), kind)
            for which, slot in enumerate(spill):
                one = f.load(table_kind, f.at(slot, lane, table_kind))
                made = from_sums(k, spec.dtype, one)
                store(f, k.isa, spec.dtype, made, f.at(place, which, kind), 0)

        f.loop(0, count, out)

    def line(item: Value) -> None:
        batch = f.binary("udiv", item, lines)
        within = f.sub(item, f.mul(batch, lines))
        source, target = (
            f.at(p, f.add(f.mul(batch, steps[0]), f.mul(within, steps[1])), kind)
            for p, steps in ((x, x_steps), (result, y_steps))
        )
        f.loop(0, columns, lambda first: block(source, target, first), step=width)

    f.loop(k.begin, k.end, line)


def _plus(k: Kernel, total: Value, x: Value, weight: Value) -> Value:
    return k.f.fma(x, weight, total) if k.isa.fma else k.f.add(total, k.f.mul(x, weight))
