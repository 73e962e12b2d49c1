"""What kernels that move elements share: copies of bytes, indices, nests of loops.

In: addresses and sizes, known or not. Out: instructions. Nothing outside of the bytes asked for is
read or written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.value import Value
from rewrite.plan.spec import INDEX_OUT_OF_RANGE

_INTEGERS = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "<2 x i64>"}
_SIGNED = frozenset({"s8", "s16", "s32", "s64", "s4", "s2"})
_BITS = {
    "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32, "u32": 32, "s64": 64, "u64": 64, "bool": 8,
    "s4": 8, "u4": 8, "s2": 8, "u2": 8,
}  # fmt: skip


def carrier(width: int) -> str:
    """The register type in which so many bytes are moved at once."""
    return _INTEGERS.get(width) or f"<{width // 8} x i64>"


def load_bytes(f: Function, pointer: Value, width: int) -> Value:
    """An element or a short row, from any address."""
    return f.load(carrier(width), pointer, 1 if width > 8 else width)


def store_bytes(f: Function, value: Value, pointer: Value, width: int) -> None:
    f.store(value, pointer, 1 if width > 8 else width)


def copy_row(f: Function, isa: Isa, source: Value, target: Value, row: int, count: Int) -> None:
    """`row` bytes where that is not 0, else `count`; the two do not overlap."""
    if not row:
        copy_bytes(f, isa, source, target, count)
        return
    # A short row may be of elements narrower than itself, and is aligned as they are.
    f.store(f.load(carrier(row), source, 1), target, 1)


def copy_bytes(f: Function, isa: Isa, source: Value, target: Value, count: Int) -> None:
    """`count` bytes; the last step overlaps the one before instead of being shorter."""
    size = f.i64(count)
    steps = [f"<{isa.vector_bytes} x i8>", "i64"]

    def step(kind: str, at: Int) -> None:
        f.store(f.load(kind, f.at(source, at), 1), f.at(target, at), 1)

    def with_steps(kinds: list[str]) -> None:
        if not kinds:
            f.loop(0, size, lambda i: step("i8", i))
            return
        width = 8 if kinds[0] == "i64" else isa.vector_bytes

        def whole() -> None:
            f.loop(0, f.sub(size, width - 1), lambda i: step(kinds[0], i), step=width)
            step(kinds[0], f.sub(size, width))

        f.if_(f.compare(">=", size, width), whole, lambda: with_steps(kinds[1:]))

    with_steps(steps)


def fill_row(f: Function, target: Value, value: Value, width: int, count: Int) -> None:
    """`count` bytes of one element repeated."""
    f.loop(0, count, lambda i: store_bytes(f, value, f.at(target, i), width), step=width)


def load_index(f: Function, dtype: str, pointer: Value, place: Int) -> Value:
    """An element of a tensor of integers (or of bool) as i64."""
    type_ = f"i{_BITS[dtype]}"
    x = f.load(type_, f.at(pointer, place, type_))
    return f.cast("sext" if dtype in _SIGNED else "zext", x, "i64")


def counted(f: Function, index: Value, size: Int) -> tuple[Value, Value]:
    """The place counted from the front, and whether there is such a place."""
    place = f.select(f.compare("<", index, 0), f.add(index, size), index)
    return place, f.compare("<", place, f.i64(size), signed=False)


def guarded(k: Kernel, fine: Value, then: Callable[[], None]) -> None:
    """Does something where the index is in range, and notes the fault where it is not."""
    k.f.if_(fine, then, lambda: k.fault(INDEX_OUT_OF_RANGE))


def nest(
    f: Function,
    sizes: Sequence[Int],
    strides: Sequence[Sequence[Int]],
    body: Callable[..., None],
    limits: tuple[int, Value, Value] | None = None,
) -> None:
    """Loops over all places, the last dimension innermost.

    `strides[k]` are the steps of one offset in each dimension; `body` takes these offsets. Of
    dimension `limits[0]` only the places from `limits[1]` to before `limits[2]` are visited.
    """

    def level(axis: int, offsets: list[Int]) -> None:
        if axis == len(sizes):
            body(*offsets)
            return
        low: Int = 0
        high: Int = sizes[axis]
        if limits is not None and limits[0] == axis:
            low, high = limits[1], limits[2]
        f.loop(
            low,
            high,
            lambda i: level(
                axis + 1,
                [f.add(o, f.mul(i, s[axis])) for o, s in zip(offsets, strides, strict=True)],
            ),
        )

    level(0, [0] * len(strides))


def row_major(f: Function, sizes: Sequence[Int]) -> list[Int]:
    """Strides without gaps of sizes that are known at run time."""
    strides: list[Int] = []
    step: Int = 1
    for size in reversed(sizes):
        strides.append(step)
        step = f.mul(step, size)
    return strides[::-1]
