"""How products of two operands are added up in registers: one class per kind of instruction.

In: addresses of elements. Out: sums in vectors. A product takes `step` neighbours in K at once
(1, or 2 or 4 where an instruction adds up pairs or quadruples): of a row, `row_bytes` that are
splat over a vector; of a panel, `panel_bytes` per vector, with the neighbours in K of each column
side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.memory import load, register_type
from rewrite.codegen.product_int8 import Pairs, Quads
from rewrite.codegen.value import Value
from rewrite.plan.view import BYTES


class Product(Protocol):
    """What `tile.contract` asks for."""

    @property
    def step(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def panel_bytes(self) -> int: ...
    def load_row(self, f: Function, pointer: Value) -> Value: ...
    def load_panel(self, f: Function, pointer: Value) -> Value: ...
    def add(self, f: Function, a: Value, b: Value, total: Value) -> Value: ...
    def join(self, f: Function, x: Value, y: Value) -> Value: ...


@dataclass(frozen=True, slots=True)
class Plain:
    """Elements one by one: floats (fused where the machine can), integers that wrap around.

    Operands narrower than the sums are widened when they are loaded.
    """

    isa: Isa
    row: str  # element types
    panel: str
    total: str

    @property
    def step(self) -> int:
        return 1

    @property
    def row_bytes(self) -> int:
        return BYTES[self.row]

    @property
    def panel_bytes(self) -> int:
        return BYTES[self.panel] * self.isa.lanes(self.total)

    def load_row(self, f: Function, pointer: Value) -> Value:
        one = self._widened(f, self.row, load(f, self.isa, self.row, pointer, 0))
        return f.splat(one, register_type(self.total, self.isa.lanes(self.total)))

    def load_panel(self, f: Function, pointer: Value) -> Value:
        lanes = self.isa.lanes(self.total)
        return self._widened(f, self.panel, load(f, self.isa, self.panel, pointer, lanes))

    def _widened(self, f: Function, dtype: str, x: Value) -> Value:
        lanes = 0 if not x.type.startswith("<") else self.isa.lanes(self.total)
        wanted = register_type(self.total, lanes)
        if x.type == wanted:
            return x
        if self.total.startswith("f"):
            return f.cast("fpext", x, wanted)
        return f.cast("sext" if dtype[0] == "s" else "zext", x, wanted)

    def add(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        if self.total.startswith("f") and self.isa.fma:
            return f.fma(a, b, total)
        found: Value = f.add(total, f.mul(a, b))
        return found

    def join(self, f: Function, x: Value, y: Value) -> Value:
        found: Value = f.add(x, y)
        return found


def product_of(isa: Isa, form: str, row: str, panel: str, total: str) -> Product:
    """The product of a form that a plan names: `plain`, `pairs`, or one of `Quads`."""
    if form == "plain":
        return Plain(isa, row, panel, total)
    if form == "pairs":
        return Pairs(isa, row, panel)
    return Quads(isa, row, panel, form)
