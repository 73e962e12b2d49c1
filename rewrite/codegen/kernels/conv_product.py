"""How a convolution adds up products: by the name that a spec's `form` gives.

In: `form`, element types. Out: a `Product` (rewrite/codegen/product.py), or

    words   two neighbours of s16 at once, exact in s32 (x86: vpdpwssd, else pmaddwd)
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.product import Product, product_of
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value
from rewrite.plan.machine import has_dot_product

_PMADDWD = {
    4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Words:
    """s16 by s16, two neighbours in K in each lane of 32 bits; sums wrap around."""

    isa: Isa

    @property
    def step(self) -> int:
        return 2

    @property
    def lanes(self) -> int:
        return self.isa.lanes("s32")

    @property
    def row_bytes(self) -> int:
        return 4

    @property
    def panel_bytes(self) -> int:
        return 4 * self.lanes

    def load_row(self, f: Function, pointer: Value) -> Value:
        return f.splat(f.load("i32", pointer, 1), vector("i32", self.lanes))

    def load_panel(self, f: Function, pointer: Value) -> Value:
        return f.load(vector("i32", self.lanes), pointer)

    def add(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        if self.isa.arch == "x86_64":
            narrow = vector("i16", 2 * self.lanes)
            x, y = f.bitcast(a, narrow), f.bitcast(b, narrow)
            if has_dot_product(self.isa):
                name = f"llvm.x86.avx512.vpdpwssd.{8 * self.isa.vector_bytes}"
                return f.call(name, total.type, total, x, y)
            found: Value = f.add(total, f.call(_PMADDWD[self.lanes], total.type, x, y))
            return found
        for part in (_low, _high):
            total = f.add(total, f.mul(part(f, a), part(f, b)))
        return total

    def join(self, f: Function, x: Value, y: Value) -> Value:
        found: Value = f.add(x, y)
        return found


def _low(f: Function, x: Value) -> Value:
    return f.binary("ashr", f.binary("shl", x, 16), 16)


def _high(f: Function, x: Value) -> Value:
    return f.binary("ashr", x, 16)


def product_named(form: str, isa: Isa, x: str, w: str, total: str) -> Product:
    """The product that adds up `x` by `w` to `total`."""
    return Words(isa) if form == "words" else product_of(isa, form, x, w, total)
