"""Instruction sets as data: what code generation asks of the machine that code is for.

In: a target's `isa` facts, or this machine. Out: `Isa`. Generators read widths and counts from it
and name no processor; only where an instruction has no generic form do they ask `has`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rewrite.plan.view import BYTES


@dataclass(frozen=True, slots=True)
class Isa:
    """One instruction set. `vector_bytes`: of the widest vector that is fast."""

    triple: str
    cpu: str
    features: tuple[str, ...]  # as LLVM writes them: "+avx2", sorted
    vector_bytes: int
    registers: int  # vector registers
    fma: bool

    @property
    def arch(self) -> str:
        """`x86_64`, `aarch64`, `hexagon`, `wasm32`, …"""
        return self.triple.split("-")[0]

    def has(self, feature: str) -> bool:
        return "+" + feature in self.features

    def lanes(self, dtype: str) -> int:
        """Elements of one vector."""
        return self.vector_bytes // BYTES[dtype]


def isa_of(triple: str, cpu: str, features: tuple[str, ...]) -> Isa:
    """The widths that a processor's features imply."""
    arch = triple.split("-")[0]
    has = frozenset(features)
    if arch in ("x86_64", "i386", "i686"):
        if {"+avx512f", "+avx512bw", "+avx512vl", "+avx512dq"} <= has:
            return Isa(triple, cpu, features, 64, 32, True)
        if "+avx2" in has:
            return Isa(triple, cpu, features, 32, 16, "+fma" in has)
        return Isa(triple, cpu, features, 16, 16, False)
    if arch in ("aarch64", "arm64"):
        return Isa(triple, cpu, features, 16, 32, True)
    if arch == "hexagon":
        return Isa(triple, cpu, features, 128, 32, False)
    return Isa(triple, cpu, features, 16, 16, False)


_WIDTHS = ("avx512f", "avx512bw", "avx512vl", "avx512dq")


@cache
def native(without: tuple[str, ...] = ()) -> Isa:
    """This machine, `without` some of its features (so that narrower code can be tested here)."""
    import llvmlite.binding as llvm

    found = llvm.get_host_cpu_features()
    names = sorted(name for name, on in found.items() if on and name not in without)
    triple = llvm.get_process_triple()
    features = [f"+{name}" for name in names]
    features += [f"-{name}" for name in sorted(without)]
    # The width of vectors is the generator's choice, not LLVM's.
    if all(f"+{name}" in features for name in _WIDTHS):
        features.append("-prefer-256-bit")
    return isa_of(triple, llvm.get_host_cpu_name(), tuple(features))


BASELINE = isa_of("x86_64-unknown-linux-gnu", "x86-64-v2", ())
AVX2 = isa_of(
    "x86_64-unknown-linux-gnu", "haswell", ("+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt")
)
AARCH64 = isa_of("aarch64-unknown-linux-gnu", "cortex-a76", ("+dotprod", "+fullfp16", "+neon"))
