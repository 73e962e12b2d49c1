"""Sums of products of bytes: instructions that add up pairs or quadruples, and the road without.

In: an `Isa`, the element types, the form that the plan chose. Out: `Product`s whose sums are exact
in 32 bits, modulo 2^32. `Quads` read four neighbours in K at once from both operands; `Pairs` two,
the row's as s16.

Sources: Intel's and Arm's instruction references for vpdpbusd, vpmaddubsw, vpmaddwd, SDOT, UDOT.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewrite.codegen.ir import Function
from rewrite.codegen.isa import Isa
from rewrite.codegen.types import vector
from rewrite.codegen.value import Value

_MADD_WORDS = {
    64: "llvm.x86.avx512.pmaddw.d.512", 32: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.sse2.pmadd.wd",
}  # fmt: skip
_MADD_BYTES = {
    64: "llvm.x86.avx512.pmaddubs.w.512", 32: "llvm.x86.avx2.pmadd.ub.sw",
    16: "llvm.x86.ssse3.pmadd.ub.sw.128",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Words:
    """What quadruples and pairs share: 32 bits of a row at a time, sums in 32 bits."""

    isa: Isa
    row: str  # element types
    panel: str

    @property
    def row_bytes(self) -> int:
        return 4

    @property
    def lanes(self) -> int:
        return self.isa.lanes("s32")

    @property
    def sums(self) -> str:
        return vector("i32", self.lanes)

    def load_row(self, f: Function, pointer: Value) -> Value:
        return f.splat(f.load("i32", pointer, 1), self.sums)

    def join(self, f: Function, x: Value, y: Value) -> Value:
        found: Value = f.add(x, y)
        return found


@dataclass(frozen=True, slots=True)
class Quads(_Words):
    """`form`: dot (vpdpbusd), arm_dot (SDOT, UDOT), pairs16 (vpmaddubsw, where it cannot saturate).

    One operand is u8 and the other s8 on x86; on Arm both are of one type.
    """

    form: str

    @property
    def step(self) -> int:
        return 4

    @property
    def panel_bytes(self) -> int:
        return self.isa.vector_bytes

    def load_panel(self, f: Function, pointer: Value) -> Value:
        return f.load(vector("i8", self.isa.vector_bytes), pointer)

    def add(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        a = f.bitcast(a, b.type)
        if self.form == "arm_dot":
            name = "sdot" if self.row == "s8" else "udot"
            return f.call(f"llvm.aarch64.neon.{name}.v4i32.v16i8", total.type, total, b, a)
        unsigned, signed = (a, b) if self.row == "u8" else (b, a)
        if self.form == "dot":
            name = f"llvm.x86.avx512.vpdpbusd.{8 * self.isa.vector_bytes}"
            return f.call(name, total.type, total, unsigned, signed)
        half = vector("i16", 2 * self.lanes)
        pairs = f.call(_MADD_BYTES[self.isa.vector_bytes], half, unsigned, signed)
        ones = f.const(1, half)
        words = f.call(_MADD_WORDS[self.isa.vector_bytes], total.type, pairs, ones)
        found: Value = f.add(total, words)
        return found


@dataclass(frozen=True, slots=True)
class Pairs(_Words):
    """vpmaddwd: the row's elements are s16, the panel's bytes are widened when they are loaded."""

    @property
    def step(self) -> int:
        return 2

    @property
    def panel_bytes(self) -> int:
        return 2 * self.lanes

    def load_panel(self, f: Function, pointer: Value) -> Value:
        raw = f.load(vector("i8", 2 * self.lanes), pointer)
        return f.cast("sext" if self.panel == "s8" else "zext", raw, vector("i16", 2 * self.lanes))

    def add(self, f: Function, a: Value, b: Value, total: Value) -> Value:
        name = _MADD_WORDS[self.isa.vector_bytes]
        found: Value = f.add(total, f.call(name, total.type, f.bitcast(a, b.type), b))
        return found
