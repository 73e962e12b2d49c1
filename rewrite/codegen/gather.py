"""Elements at known offsets, between memory and one vector.

In: an address, the offset of each lane in elements. Out: a vector as it lies in memory
(rewrite/codegen/memory.py turns it into a register's). Nothing but the elements named is read or
written: neighbours are one access, an element in all lanes is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import bits, element, lanes, literal, suffix, vector
from rewrite.codegen.value import Value


def load_at(
    f: Function,
    name: str,
    pointer: Value,
    offsets: Sequence[int],
    count: int,
    spare: int = 0,
    masks: bool = False,
) -> Value:
    """Elements of type `name`. Lanes behind the last offset hold `spare`; 0 lanes: a scalar.

    `masks`: the machine loads some lanes of a vector as fast as all of them.
    """
    if count == 0:
        return f.load(name, f.at(pointer, offsets[0], name))
    if len(offsets) == count and len(set(offsets)) == 1:
        return f.splat(f.load(name, f.at(pointer, offsets[0], name)), vector(name, count))
    if masks and len(offsets) < count and _neighbours(offsets):
        at = f.at(pointer, offsets[0], name)
        return load_masked(f, vector(name, count), at, _first(f, len(offsets), count), spare)
    value = _spare(f, vector(name, count), len(offsets), spare)
    for lane, offset, length in runs(offsets):
        part = _load_run(f, name, pointer, offset, length)
        value = part if length == count else inserted(f, value, part, lane)
    return value


def store_at(
    f: Function, value: Value, pointer: Value, offsets: Sequence[int], masks: bool = False
) -> None:
    """The first lanes of a vector, or a scalar."""
    name = element(value.type)
    if not lanes(value.type):
        f.store(value, f.at(pointer, offsets[0], name))
        return
    if masks and _neighbours(offsets) and len(offsets) < lanes(value.type):
        at = f.at(pointer, offsets[0], name)
        store_masked(f, value, at, _first(f, len(offsets), lanes(value.type)))
        return
    for lane, offset, length in runs(offsets):
        part = extracted(f, value, lane, length)
        f.store(part, f.at(pointer, offset, name))


def has_masks(isa: Isa) -> bool:
    """Whether vectors of every element type are loaded and stored lane by lane of a mask."""
    return isa.has("avx512bw") and isa.has("avx512vl")


def load_masked(f: Function, type_: str, pointer: Value, mask: Value, spare: int) -> Value:
    """Lanes outside of the mask are not read and hold `spare`."""
    name = f"llvm.masked.load.{suffix(type_)}.p0"
    align = f.const(max(1, bits(type_) // 8), "i32")
    return f.call(name, type_, pointer, align, mask, f.const(spare, type_))


def store_masked(f: Function, value: Value, pointer: Value, mask: Value) -> None:
    """Lanes outside of the mask are not written."""
    name = f"llvm.masked.store.{suffix(value.type)}.p0"
    align = f.const(max(1, bits(value.type) // 8), "i32")
    f.call(name, "void", value, pointer, align, mask)


def first_lanes(f: Function, used: Value, count: int) -> Value:
    """A mask of the lanes before lane `used`, which is at most `count` and below 128."""
    type_ = vector("i8", count)
    return f.compare("<", f.iota(type_), f.splat(f.cast("trunc", used, "i8"), type_), signed=False)


def _first(f: Function, used: int, count: int) -> Value:
    texts = [f"i1 {'true' if lane < used else 'false'}" for lane in range(count)]
    return Value(f, vector("i1", count), "<" + ", ".join(texts) + ">")


def _neighbours(offsets: Sequence[int]) -> bool:
    return len(offsets) > 1 and all(b == a + 1 for a, b in pairwise(offsets))


def runs(offsets: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Neighbouring lanes that are neighbours in memory: (lane, offset, length), powers of two."""
    lane = 0
    while lane < len(offsets):
        length = 1
        while lane + length < len(offsets) and offsets[lane + length] == offsets[lane] + length:
            length += 1
        length = 1 << (length.bit_length() - 1)
        yield lane, offsets[lane], length
        lane += length


def _load_run(f: Function, name: str, pointer: Value, offset: int, length: int) -> Value:
    type_ = name if length == 1 else vector(name, length)
    return f.load(type_, f.at(pointer, offset, name))


def _spare(f: Function, type_: str, used: int, spare: int) -> Value:
    """The lanes that no element comes to: a number that no step stumbles over."""
    count = lanes(type_)
    if used == count:
        return f.undef(type_)
    name = element(type_)
    one = literal(spare, name)
    texts = [f"{name} {'poison' if lane < used else one}" for lane in range(count)]
    return Value(f, type_, "<" + ", ".join(texts) + ">")


def inserted(f: Function, value: Value, part: Value, lane: int) -> Value:
    """`part`, a scalar or a narrower vector, in the lanes from `lane` on."""
    if not lanes(part.type):
        return f.insert(value, part, lane)
    count, length = lanes(value.type), lanes(part.type)
    wide = f.shuffle(part, None, [*range(length), *[-1] * (count - length)])
    order = [count + i - lane if lane <= i < lane + length else i for i in range(count)]
    return f.shuffle(value, wide, order)


def extracted(f: Function, value: Value, lane: int, length: int) -> Value:
    """Lanes as a narrower vector, or as a scalar."""
    if length == lanes(value.type):
        return value
    if length == 1:
        return f.extract(value, lane)
    return f.shuffle(value, None, range(lane, lane + length))
