"""What planning asks of the machine that code is made for: how weights are laid out depends on it.

In: nothing. Out: `Machine`, which an `Isa` of code generation is, and `PLAIN`, which stands for any
machine: what is planned for it runs everywhere, if not as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rewrite.plan.view import BYTES


class Machine(Protocol):
    """Facts of an instruction set; see rewrite/codegen/isa.py."""

    @property
    def arch(self) -> str: ...
    @property
    def vector_bytes(self) -> int: ...
    @property
    def registers(self) -> int: ...
    @property
    def fma(self) -> bool: ...
    def has(self, feature: str) -> bool: ...
    def lanes(self, dtype: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Facts:
    """A machine without special instructions."""

    arch: str
    vector_bytes: int
    registers: int
    fma: bool

    def has(self, feature: str) -> bool:
        del feature
        return False

    def lanes(self, dtype: str) -> int:
        return self.vector_bytes // BYTES[dtype]


PLAIN = Facts("", 16, 16, False)


def has_dot_product(machine: Machine) -> bool:
    """Whether an x86 adds products of neighbours to 32 bits in one instruction (vpdpbusd,
    vpdpwssd)."""
    wide = machine.vector_bytes
    vnni = machine.has("avx512vnni") and wide >= 32
    return machine.arch == "x86_64" and (vnni or (machine.has("avxvnni") and wide == 32))
