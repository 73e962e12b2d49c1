"""Matrices rearranged for matrix products.

In: `PackPanels`. Out: a kernel that writes panels of columns, padded with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel, emits
from rewrite.codegen.types import lanes as lanes_of
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value
from rewrite.plan.specs.gemm import PackPanels


@dataclass(frozen=True, slots=True)
class _Panel:
    """One panel: where it comes from and goes to; strides in elements."""

    f: Function
    spec: PackPanels
    source: Value
    target: Value
    count: Value  # columns that are not padding
    k: Value
    k_stride: Value
    n_stride: Value

    @property
    def type(self) -> str:
        return f"i{8 * self.spec.bytes}"

    def moved(self, source: Value, target: Value, lanes: int) -> None:
        f, type_ = self.f, vector(self.type, lanes)
        x = f.load(type_, source)
        f.store(f.binary("xor", x, self.spec.flip) if self.spec.flip else x, target)


@emits(PackPanels)
def pack_panels(k: Kernel, spec: PackPanels) -> None:
    f = k.f
    source, table, target = (k.pointer(i) for i in range(3))
    n, depth, k_stride, n_stride = (k.integer(i) for i in range(3, 7))
    count = f.divide(n + (spec.columns - 1), spec.columns)
    groups = f.divide(depth + (spec.group - 1), spec.group)

    def item(index: Value) -> None:
        batch = f.binary("udiv", index, count)
        number = index - batch * count
        from_, to = (f.load("i64", f.at(table, batch * 2 + i, "i64")) for i in range(2))
        column = number * spec.columns
        left = n - column
        from_ = from_ + column * n_stride
        to = to + number * groups * (spec.columns * spec.group)
        panel = _Panel(
            f, spec, f.at(source, from_, f"i{8 * spec.bytes}"),
            f.at(target, to, f"i{8 * spec.bytes}"),
            f.select(f.compare("<", left, spec.columns), left, f.i64(spec.columns)),
            depth, k_stride, n_stride,
        )  # fmt: skip
        if spec.neighbours == "n" and spec.group == 1:
            _rows(panel)
        elif spec.neighbours == "n":
            whole = f.compare("==", panel.count, spec.columns)
            f.if_(whole, lambda: _groups(panel), lambda: _columns(panel, groups, 0, 0))
        elif spec.neighbours == "k" and spec.group == 1 and spec.bytes in (4, 8):
            _blocks(panel, k.isa.vector_bytes // spec.bytes)
        else:
            _columns(panel, groups, 0, 0)

    f.loop(k.begin, k.end, item)


def _rows(p: _Panel) -> None:
    """Row by row: a whole panel's row is a few vectors."""
    f, spec = p.f, p.spec
    size = spec.columns

    def whole() -> None:
        f.loop(0, p.k, lambda k: p.moved(
            f.at(p.source, k * p.k_stride, p.type), f.at(p.target, k * size, p.type), size
        ))  # fmt: skip

    def part() -> None:
        def row(k: Value) -> None:
            source = f.at(p.source, k * p.k_stride, p.type)
            target = f.at(p.target, k * size, p.type)
            f.loop(0, p.count, lambda c: p.moved(
                f.at(source, c, p.type), f.at(target, c, p.type), 0
            ))  # fmt: skip
            zero = f.zero(p.type)
            f.loop(p.count, size, lambda c: f.store(zero, f.at(target, c, p.type)))

        f.loop(0, p.k, row)

    f.if_(f.compare("==", p.count, size), whole, part)


def _groups(p: _Panel) -> None:
    """A whole panel, `group` rows at a time: their elements in turn."""
    f, spec = p.f, p.spec
    group, type_ = spec.group, vector(p.type, spec.columns)
    size = spec.columns * group
    whole = f.divide(p.k, group)

    def rows(k: Value, count: int) -> None:
        source = f.at(p.source, k * group * p.k_stride, p.type)
        found: list[Value] = []
        for _ in range(count):
            x = f.load(type_, source)
            found.append(f.binary("xor", x, spec.flip) if spec.flip else x)
            source = f.at(source, p.k_stride, p.type)
        found += [f.zero(type_)] * (group - count)
        f.store(_in_turn(f, found), f.at(p.target, k * size, p.type))

    f.loop(0, whole, lambda k: rows(k, group))
    left = p.k - whole * group
    for count in range(1, group):
        f.if_(f.compare("==", left, count), lambda count=count: rows(whole, count))  # type: ignore[misc]


def _in_turn(f: Function, rows: list[Value]) -> Value:
    """Element 0 of each vector, then element 1 of each, …: pairs, then pairs of pairs."""
    if len(rows) == 1:
        return rows[0]
    even, odd = _in_turn(f, rows[::2]), _in_turn(f, rows[1::2])
    count = lanes_of(even.type)
    return f.shuffle(even, odd, [lane + side * count for lane in range(count) for side in (0, 1)])


def _blocks(p: _Panel, lanes: int) -> None:
    """Square blocks of vectors along K, transposed in registers; the rest column by column."""
    f, spec = p.f, p.spec
    type_ = vector(p.type, lanes)
    depth = p.k - f.remainder(p.k, lanes)
    columns = p.count - f.remainder(p.count, lanes)

    def block(c: Value, k: Value) -> None:
        source = f.at(p.source, c * p.n_stride + k, p.type)
        found = []
        for _ in range(lanes):
            found.append(f.load(type_, source))
            source = f.at(source, p.n_stride, p.type)
        target = f.at(p.target, k * spec.columns + c, p.type)
        for i, x in enumerate(_transposed(f, found)):
            if spec.flip:
                x = f.binary("xor", x, spec.flip)
            f.store(x, f.at(target, i * spec.columns, p.type))

    def column(c: Value) -> None:
        f.loop(0, depth, lambda k: block(c, k), step=lanes)

    f.loop(0, columns, column, step=lanes)
    _columns(p, p.k, depth, 0)
    _columns(p, depth, 0, columns)


def _transposed(f: Function, rows: list[Value]) -> list[Value]:
    """A square block: each round interleaves vectors half the block apart."""
    count = len(rows)
    half = count // 2
    low = [lane + side * count for lane in range(half) for side in (0, 1)]
    high = [lane + half for lane in low]
    for _ in range(count.bit_length() - 1):
        pairs = list(zip(rows[:half], rows[half:], strict=True))
        rows = [f.shuffle(x, y, part) for x, y in pairs for part in (low, high)]
    return rows


def _columns(p: _Panel, stop: Value, first_k: Int, first_column: Int) -> None:
    """Column by column, with any strides: K from `first_k` to `stop` (in groups)."""
    f, spec = p.f, p.spec
    group, size = spec.group, spec.columns * spec.group
    zero = f.zero(p.type)
    last = stop * group
    depth = f.select(f.compare("<", last, p.k), last, p.k)

    def place(target: Value, k: Value) -> Value:
        outer = f.divide(k, group)
        inner = k - outer * group if group > 1 else 0
        return f.at(target, outer * size + inner, p.type)

    def column(c: Value) -> None:
        source = f.at(p.source, c * p.n_stride, p.type)
        target = f.at(p.target, c * group, p.type)
        f.loop(first_k, depth, lambda k: p.moved(
            f.at(source, k * p.k_stride, p.type), place(target, k), 0
        ))  # fmt: skip
        f.loop(depth, last, lambda k: f.store(zero, place(target, k)))

    def padding(c: Value) -> None:
        target = f.at(p.target, c * group, p.type)
        f.loop(first_k, last, lambda k: f.store(zero, place(target, k)))

    f.loop(first_column, p.count, column)
    f.loop(p.count, spec.columns, padding)
