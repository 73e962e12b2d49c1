"""The last few elements of a row: as a vector some of whose lanes stay outside.

In: an address, how many elements are left. Out: a whole vector; lanes outside are zero. Memory
behind the elements is neither read nor written: by masked instructions where the machine has them,
else over a slot in the frame, one element at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import load, memory_type, store, to_memory, to_register
from rewrite.codegen.types import bits, suffix, vector
from rewrite.codegen.value import Value
from rewrite.plan.view import BYTES

_SLOT_BYTES = 1024  # 64 lanes of 16 bytes


@dataclass(frozen=True, slots=True)
class Partial:
    """`count` of the lanes are inside: the first ones. `slot`: memory of the frame, one vector."""

    count: Value
    bits: Value
    slot: Value


def partial(f: Function, count: Value, lanes: int, slot: Value) -> Partial:
    """Out: the lanes below `count`."""
    index = f.iota(vector("i32", lanes))
    limit = f.splat(f.cast("trunc", count, "i32"), index.type)
    return Partial(count, f.compare("<", index, limit), slot)


def slot_for_partial(f: Function) -> Value:
    return f.slot("i8", count=_SLOT_BYTES)


def load_partial(
    f: Function, isa: Isa, dtype: str, pointer: Value, lanes: int, stride: Int, part: Partial
) -> Value:
    """`memory.load` of the lanes inside."""
    if isinstance(stride, int) and stride == 0:
        return load(f, isa, dtype, pointer, lanes, 0)
    name = memory_type(dtype)
    if isinstance(stride, int) and stride == 1 and _masks(isa, dtype):
        whole = vector(name, lanes)
        raw = _masked_load(f, whole, pointer, part.bits)
        return to_register(f, isa, dtype, raw)
    f.store(f.zero(vector(name, lanes)), part.slot)

    def move(i: Value) -> None:
        f.store(f.load(name, f.at(pointer, f.mul(i, stride), name)), f.at(part.slot, i, name))

    f.loop(0, part.count, move)
    return load(f, isa, dtype, part.slot, lanes)


def store_partial(
    f: Function,
    isa: Isa,
    dtype: str,
    value: Value,
    pointer: Value,
    lanes: int,
    stride: Int,
    part: Partial,
) -> None:
    """`memory.store` of the lanes inside."""
    name = memory_type(dtype)
    if isinstance(stride, int) and stride == 1 and _masks(isa, dtype):
        _masked_store(f, to_memory(f, isa, dtype, value), pointer, part.bits)
        return
    store(f, isa, dtype, value, part.slot, lanes)

    def move(i: Value) -> None:
        f.store(f.load(name, f.at(part.slot, i, name)), f.at(pointer, f.mul(i, stride), name))

    f.loop(0, part.count, move)


def _masks(isa: Isa, dtype: str) -> bool:
    """Whether the machine reads and writes some lanes of a vector only."""
    if isa.arch != "x86_64" or BYTES[dtype] > 8:
        return False
    if isa.has("avx512bw") and isa.has("avx512vl"):
        return True
    return isa.has("avx2") and BYTES[dtype] >= 4


def _masked_load(f: Function, type_: str, pointer: Value, lanes: Value) -> Value:
    name = f"llvm.masked.load.{suffix(type_)}.p0"
    f.module.declare(name, type_, ["ptr", lanes.type, type_])
    align = bits(type_) // 8
    return f.op(
        f"call {type_} @{name}(ptr align {align} {pointer.text}, {lanes.type} {lanes.text}, "
        f"{type_} zeroinitializer)",
        type_,
    )


def _masked_store(f: Function, x: Value, pointer: Value, lanes: Value) -> None:
    name = f"llvm.masked.store.{suffix(x.type)}.p0"
    f.module.declare(name, "void", [x.type, "ptr", lanes.type])
    align = bits(x.type) // 8
    f.do(
        f"call void @{name}({x.type} {x.text}, ptr align {align} {pointer.text}, "
        f"{lanes.type} {lanes.text})"
    )
