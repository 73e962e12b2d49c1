"""Square blocks transposed in registers.

In: n vectors of n lanes, n a power of two. Out: n vectors, lane i of the j-th being what was lane j
of the i-th.

Within each 16 bytes elements of two vectors are interleaved, log2 of their number times; then the
16-byte parts change places. Both are single instructions on x86 (unpck, shuff32x4) and aarch64
(zip).
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.codegen.ir import Function
from rewrite.codegen.types import bits, lanes
from rewrite.codegen.value import Value


def transposed(f: Function, rows: Sequence[Value]) -> list[Value]:
    """The columns of a square block."""
    count = lanes(rows[0].type)
    assert len(rows) == count, "the block is not square"
    part = min(count, 128 // bits(rows[0].type))  # elements in 16 bytes
    groups = [within_parts(f, rows[start : start + part], part) for start in range(0, count, part)]
    columns: list[Value] = [rows[0]] * count
    for j in range(part):
        for c, vector in enumerate(_parts_exchanged(f, [g[j] for g in groups], part)):
            columns[c * part + j] = vector
    return columns


def within_parts(f: Function, rows: Sequence[Value], part: int) -> list[Value]:
    """`part` vectors: in each part of the lanes, on its own, rows become columns."""
    count = lanes(rows[0].type)
    low = _interleaving(count, part, 0)
    high = _interleaving(count, part, part // 2)
    found = list(rows)
    half, step = len(found) // 2, 1
    while step < part:
        pairs = [(found[i], found[i + half]) for i in range(half)]
        found = [f.shuffle(a, b, order) for a, b in pairs for order in (low, high)]
        step *= 2
    return found


def _interleaving(count: int, part: int, start: int) -> list[int]:
    """Half of each part, from its lane `start` on, of two vectors by turns."""
    order: list[int] = []
    for base in range(0, count, part):
        for lane in range(base + start, base + start + part // 2):
            order.extend((lane, count + lane))
    return order


def _parts_exchanged(f: Function, rows: Sequence[Value], part: int) -> list[Value]:
    """Part c of vector g becomes part g of vector c."""
    if len(rows) == 1:
        return list(rows)
    count = lanes(rows[0].type)
    halves = []
    for odd in (0, 1):
        order = [
            source * count + base + lane
            for source in (0, 1)
            for base in range(odd * part, count, 2 * part)
            for lane in range(part)
        ]
        joined = [f.shuffle(a, b, order) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        halves.append(_parts_exchanged(f, joined, part))
    even, odd_ones = halves
    return [v for pair in zip(even, odd_ones, strict=True) for v in pair]
