"""The kernels that find the range of a tensor, and from a range scale and zero point.

In: specs of rewrite/plan/specs/dynamic_range.py. Out: code.
"""

from __future__ import annotations

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.kernels.attention_math import maximum, minimum
from rewrite.codegen.memory import register_type
from rewrite.codegen.value import Value
from rewrite.plan.specs.dynamic_range import CHUNK, Extremes, RangeParameters

_UNROLL = 4  # vectors at once: a maximum takes some cycles


@emits(Extremes)
def extremes(k: Kernel, spec: Extremes) -> None:
    f = k.f
    x, out, count = k.pointer(0), k.pointer(1), k.integer(2)

    def chunk(index: Value) -> None:
        start = f.mul(index, CHUNK)
        after = f.add(start, CHUNK)
        stop = f.select(f.compare("<", after, count), after, count)
        low, high = range_of(f, k.isa, f.at(x, start, "float"), f.sub(stop, start))
        place = f.at(out, f.mul(index, 2), "float")
        f.store(low, place)
        f.store(high, f.at(place, 4))

    f.loop(k.begin, k.end, chunk)


def range_of(f: Function, isa: Isa, x: Value, count: Value) -> tuple[Value, Value]:
    """The least and the largest of 0 and `count` neighbours; NaN is passed over."""
    lanes = isa.lanes("f32")
    vector = register_type("f32", lanes)
    step = lanes * _UNROLL

    def several(i: Value, *carried: Value) -> list[Value]:
        found = []
        for u in range(_UNROLL):
            here = f.load(vector, f.at(f.at(x, i, "float"), u * lanes * 4), 4)
            found.append(minimum(f, here, carried[2 * u]))
            found.append(maximum(f, here, carried[2 * u + 1]))
        return found

    zeros = [f.const(0.0, vector)] * (2 * _UNROLL)
    whole = f.sub(count, f.binary("urem", count, step))
    found = f.loop(0, whole, several, zeros, step)
    low = f.reduce(_joined(f, found[0::2], minimum), lambda a, b: minimum(f, a, b))
    high = f.reduce(_joined(f, found[1::2], maximum), lambda a, b: maximum(f, a, b))

    def one(i: Value, least: Value, most: Value) -> list[Value]:
        here = f.load("float", f.at(x, i, "float"))
        return [minimum(f, here, least), maximum(f, here, most)]

    least, most = f.loop(whole, count, one, [low, high])
    return least, most


def _joined(f: Function, values: list[Value], combine: object) -> Value:
    total = values[0]
    for value in values[1:]:
        total = combine(f, total, value)  # type: ignore[operator]
    return total


def parameters(f: Function, low: Value, high: Value) -> tuple[Value, Value]:
    """Scale and zero point, the latter as a float."""
    scale = f.binary("fdiv", f.sub(high, low), f.const(255.0, "float"))
    empty = f.compare("==", scale, f.const(0.0, "float"))
    scale = f.select(empty, f.const(1.0, "float"), scale)
    zero = f.intrinsic("llvm.roundeven", "float", f.binary("fdiv", f.neg(low), scale))
    zero = maximum(f, minimum(f, zero, f.const(255.0, "float")), f.const(0.0, "float"))
    return scale, zero


@emits(RangeParameters)
def range_parameters(k: Kernel, spec: RangeParameters) -> None:
    f = k.f
    partial, scale_out, zero_out, count = *(k.pointer(i) for i in range(3)), k.integer(3)

    def join(i: Value, least: Value, most: Value) -> list[Value]:
        place = f.at(partial, f.mul(i, 2), "float")
        low, high = f.load("float", place), f.load("float", f.at(place, 4))
        return [minimum(f, low, least), maximum(f, high, most)]

    zero = f.const(0.0, "float")
    low, high = f.loop(0, count, join, [zero, zero])
    scale, point = parameters(f, low, high)
    f.store(scale, scale_out)
    f.store(f.cast("fptoui", point, "i8"), zero_out)
