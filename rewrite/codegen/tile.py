"""The inner loop of matrix products and convolutions: a tile of accumulators in registers.

In: how products are added up (`Product`), addresses of rows, a panel of the other operand, counts.
Out: the accumulators. One step of the loop takes `product.step` neighbours in K of every row, each
splat over a vector, and `vectors` vectors of the panel, which lie behind each other:

    accumulators[r][v] += splat(row[r][k]) * panel[k][v]

The caller says what accumulators start from and what becomes of them, so several runs may be
chained (taps of a convolution, blocks of K).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import prefetch
from rewrite.codegen.product import Product
from rewrite.codegen.value import Value


@dataclass(frozen=True, slots=True)
class Row:
    """Where a row starts: `pointer + scale * offset` bytes; scale 1, 2, 4 or 8.

    Rows that share a pointer share the register that walks along K, and an offset times a scale
    costs nothing on machines that scale in their addresses.
    """

    pointer: Value
    offset: Value | None = None
    scale: int = 1


def spaced_rows(f: Function, start: Value, distance: Value, count: int) -> list[Row]:
    """`count` rows, `distance` bytes from one to the next.

    Three rows share one pointer: with scales 1 and 2 the distance is the only other register.
    """
    found: list[Row] = []
    for first in range(0, count, 3):
        pointer = f.at(start, f.mul(distance, first))
        group = (Row(pointer), Row(pointer, distance), Row(pointer, distance, 2))
        found.extend(group[: count - first])
    return found


def chains_for(isa: Isa, rows: int, vectors: int) -> int:
    """How many sets of accumulators hide the latency of an addition: small tiles need several.

    Twelve independent sums keep two pipelines of latency 4 (or 5) busy.
    """
    room = (isa.registers - vectors - 2) // max(1, rows * vectors)
    return max(1, min(room, -(-10 // (rows * vectors)), 4))


def contract(
    f: Function,
    isa: Isa,
    product: Product,
    rows: Sequence[Row],
    panel: Value,
    steps: Int,
    accumulators: Sequence[Value],
    vectors: int,
    stride: Int | None = None,
    unroll: int | None = None,
    ahead: Value | None = None,
) -> list[Value]:
    """`steps` steps along K; accumulators row by row, `vectors` of each.

    `stride`: bytes from one step of the panel to the next, where its steps are not dense. `ahead`:
    bytes from the panel to the one that is used next: weights are read from memory once per run,
    and come while this panel is used again and again.
    """
    loop = _Loop(f, product, list(rows), vectors, stride, ahead)
    chains = chains_for(isa, len(rows), vectors)
    if unroll is None:
        # Twelve sums in narrow vectors leave no room for what a loop costs; others do.
        unroll = 2 if 8 < len(accumulators) * chains < 16 else 1
    unroll = max(1, unroll // chains) * chains
    pointers = list(dict.fromkeys(row.pointer for row in rows))
    spare = [f.zero(v.type) for _ in range(chains - 1) for v in accumulators]
    carried = [*pointers, panel, *accumulators, *spare]
    whole, rest = _split(f, steps, unroll)
    carried = f.loop(0, whole, lambda _, *c: loop.turn(c, unroll, chains), carried)
    carried = f.loop(0, rest, lambda _, *c: loop.turn(c, 1, chains), carried)
    sums = carried[len(pointers) + 1 :]
    count = len(accumulators)
    found = sums[:count]
    for chain in range(1, chains):
        more = sums[chain * count : (chain + 1) * count]
        found = [product.join(f, a, b) for a, b in zip(found, more, strict=True)]
    return found


def _split(f: Function, steps: Int, unroll: int) -> tuple[Int, Int]:
    """How many unrolled turns, and how many steps are left."""
    if unroll == 1:
        return steps, 0
    return f.divide(steps, unroll), f.remainder(steps, unroll)


@dataclass(frozen=True, slots=True)
class _Loop:
    f: Function
    product: Product
    rows: list[Row]
    vectors: int
    stride: Int | None
    ahead: Value | None

    def turn(self, carried: Sequence[Value], unroll: int, chains: int) -> list[Value]:
        """`unroll` steps; step u adds to set u modulo `chains`."""
        f, product = self.f, self.product
        named = list(dict.fromkeys(row.pointer for row in self.rows))
        walk = dict(zip(named, carried, strict=False))
        panel = carried[len(named)]
        sums = list(carried[len(named) + 1 :])
        size = len(self.rows) * self.vectors
        for u in range(unroll):
            at = (u % chains) * size
            sums[at : at + size] = self._step(walk, panel, u, sums[at : at + size])
            if self.stride is not None:
                panel = f.at(panel, self.stride)
        if self.stride is None:
            panel = f.at(panel, unroll * self.vectors * product.panel_bytes)
        walked = [f.at(walk[p], unroll * product.row_bytes) for p in named]
        return [*walked, panel, *sums]

    def _step(
        self, walk: dict[Value, Value], panel: Value, u: int, sums: list[Value]
    ) -> list[Value]:
        f, product = self.f, self.product
        size = product.panel_bytes
        first = u * self.vectors * size if self.stride is None else 0
        b = [product.load_panel(f, f.at(panel, first + v * size)) for v in range(self.vectors)]
        if self.ahead is not None:
            for v in range(self.vectors):
                prefetch(f, f.at(f.at(panel, self.ahead), first + v * size))
        found: list[Value] = []
        for r, row in enumerate(self.rows):
            pointer = walk[row.pointer]
            if row.offset is not None:
                # Scaled where it is used, so that it becomes part of the address.
                pointer = f.at(pointer, row.offset, f"[{row.scale} x i8]")
            a = product.load_row(f, f.at(pointer, u * product.row_bytes))
            mine = sums[r * self.vectors : (r + 1) * self.vectors]
            found.extend(product.add(f, a, x, s) for x, s in zip(b, mine, strict=True))
        return found
