"""Elements at known offsets, between memory and one vector.

In: an address, the offset of each lane in elements. Out: a vector as it lies in memory
(rewrite/codegen/memory.py turns it into a register's). Nothing but the elements named is read or
written: neighbours are one access, an element in all lanes is read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.types import element, lanes, literal, vector
from rewrite.codegen.value import Value


def load_at(
    f: Function, name: str, pointer: Value, offsets: Sequence[int], count: int, spare: int = 0
) -> Value:
    """Elements of type `name`. Lanes behind the last offset hold `spare`; 0 lanes: a scalar."""
    if count == 0:
        return f.load(name, f.at(pointer, offsets[0], name))
    if len(offsets) == count and len(set(offsets)) == 1:
        return f.splat(f.load(name, f.at(pointer, offsets[0], name)), vector(name, count))
    value = _spare(f, vector(name, count), len(offsets), spare)
    for lane, offset, length in runs(offsets):
        part = _load_run(f, name, pointer, offset, length)
        value = part if length == count else inserted(f, value, part, lane)
    return value


def store_at(f: Function, value: Value, pointer: Value, offsets: Sequence[int]) -> None:
    """The first lanes of a vector, or a scalar."""
    name = element(value.type)
    if not lanes(value.type):
        f.store(value, f.at(pointer, offsets[0], name))
        return
    for lane, offset, length in runs(offsets):
        part = extracted(f, value, lane, length)
        f.store(part, f.at(pointer, offset, name))


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
