"""Interpolation along the innermost dimension by permutations of vectors.

In: specs of rewrite/plan/specs/resize.py. Out: code, for machines that choose lanes by a vector of
numbers.
"""

from __future__ import annotations

from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.resize import from_sums, plus, to_sums
from rewrite.codegen.memory import load, memory_type, store
from rewrite.codegen.value import Value
from rewrite.plan.specs.resize import ResizeLookup


@emits(ResizeLookup)
def resize_lookup(k: Kernel, spec: ResizeLookup) -> None:
    f, lanes = k.f, spec.lanes
    data, starts, choices, weights, result = (k.pointer(i) for i in range(5))
    blocks, size, before = (k.integer(i) for i in range(5, 8))
    kind, target_kind = memory_type(spec.source), memory_type(spec.target)
    wide, numbers = f"<{lanes} x float>", f"<{lanes} x i32>"

    def block(row: Value, b: Value) -> None:
        start = f.load("i64", f.at(starts, b, "i64"))
        source = f.at(data, f.add(f.mul(row, before), start), kind)

        def neighbours(at: int) -> Value:
            raw = load(f, k.isa, spec.source, f.at(source, at, kind), lanes)
            return to_sums(k, spec.source, "f32", raw)

        low, high = neighbours(0), neighbours(lanes)
        total: Value | None = None
        for t in range(spec.taps):
            at = f.mul(f.add(f.mul(b, spec.taps), t), lanes)
            chosen = f.load(numbers, f.at(choices, at, "i32"))
            weight = f.load(wide, f.at(weights, at, "float"))
            x = _chosen(k, low, high, chosen)
            total = f.mul(x, weight) if total is None else plus(k, total, x, weight)
        assert total is not None
        first = f.intrinsic("llvm.smin", "i64", f.mul(b, lanes), f.sub(size, lanes))
        place = f.at(result, f.add(f.mul(row, size), first), target_kind)
        store(f, k.isa, spec.target, from_sums(k, spec.target, total), place, lanes)

    def one(row: Value) -> None:
        f.loop(0, blocks, lambda b: block(row, b))

    f.loop(k.begin, k.end, one)


def _chosen(k: Kernel, low: Value, high: Value, numbers: Value) -> Value:
    """Lane i is lane numbers[i] of the two vectors, one behind the other."""
    f = k.f
    if low.type == "<16 x float>":
        return f.call("llvm.x86.avx512.vpermi2var.ps.512", low.type, low, numbers, high)
    assert low.type == "<8 x float>", "machines with other vectors have no such permutation"
    a, b = (f.call("llvm.x86.avx2.permps", low.type, x, numbers) for x in (low, high))
    return f.select(f.compare("<", numbers, 8), a, b)
