"""From the text of a module to machine code.

In: `Code`, `Isa`. Out: the bytes of a relocatable object. LLVM's passes over the intermediate
language are not run: generators write what they mean, and compiling takes a third of the time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Code

_LEVEL = 2  # of code generation: 3 is not faster, 0 gives code that takes twice the time


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


@cache
def machine(isa: Isa, jit: bool) -> Any:
    """LLVM's machine for an instruction set; for code loaded into this process, or for a file."""
    _initialize()
    target = llvm.Target.from_triple(isa.triple)
    return target.create_target_machine(
        cpu=isa.cpu,
        features=",".join(isa.features),
        opt=_LEVEL,
        reloc="default" if jit else "pic",
        codemodel="jitdefault" if jit else "small",
        jit=jit,
    )


def to_object(code: Code, isa: Isa, jit: bool = True) -> bytes:
    """Machine code of one module."""
    found: bytes = machine(isa, jit).emit_object(_parsed(code, isa, jit))
    return found


def to_assembly(code: Code, isa: Isa) -> str:
    """The same as text, for people and tests."""
    found: str = machine(isa, False).emit_assembly(_parsed(code, isa, False))
    return found


def _parsed(code: Code, isa: Isa, jit: bool) -> Any:
    _initialize()
    module = llvm.parse_assembly(code.text)
    module.name = code.symbol
    module.triple = isa.triple
    module.data_layout = str(machine(isa, jit).target_data)
    module.verify()
    return module
