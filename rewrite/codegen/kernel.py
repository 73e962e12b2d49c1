"""From a spec to a module: the registry of generators, and what they write with.

In: a `Spec`, an `Isa`. Out: `Code`: symbol and text of a module with one function of the signature
that rewrite/plan/spec.py states. A kind of kernel is one generator, found by scanning
`rewrite/codegen/kernels`:

    @emits(Pointwise)
    def pointwise(k: Kernel, spec: Pointwise) -> None: ...
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from rewrite.codegen.ir import Function, Int, Module
from rewrite.codegen.isa import Isa
from rewrite.codegen.value import Value
from rewrite.plan.spec import Spec


@dataclass(frozen=True, slots=True)
class Code:
    """A module to be compiled; `symbol` is the kernel's name, and no other kernel has it."""

    symbol: str
    text: str


class Kernel:
    """One kernel under construction. Finish with nothing: `generate` returns the status."""

    def __init__(self, module: Module, symbol: str, isa: Isa) -> None:
        self.module = module
        self.isa = isa
        self.f: Function = module.function(
            symbol,
            [("ptr", "words"), ("i64", "begin"), ("i64", "end"), ("ptr", "scratch")],
            returns="i64",
        )
        self.begin: Value = self.f.arg("begin")
        self.end: Value = self.f.arg("end")
        self.scratch: Value = self.f.arg("scratch")
        self._status: Value | None = None

    def pointer(self, index: int) -> Value:
        """Word `index` as an address. Ask for it outside of loops."""
        return self.f.load("ptr", self.f.at(self.f.arg("words"), index, "i64"), 8)

    def integer(self, index: int) -> Value:
        """Word `index` as an integer."""
        return self.f.load("i64", self.f.at(self.f.arg("words"), index, "i64"), 8)

    def fault(self, code: int, when: Value | None = None) -> None:
        """Note a fault (of rewrite.plan.spec.FAULTS), and go on: the caller sees the status."""
        if self._status is None:
            self._status = self.f.slot("i64")
        if when is None:
            self.f.store(self.f.const(code, "i64"), self._status)
            return
        before = self.f.load("i64", self._status, 8)
        self.f.store(self.f.select(when, self.f.const(code, "i64"), before), self._status)

    def finish(self) -> None:
        if self._status is None:
            self.f.ret(0)
            return
        self.f.initialize(self._status, "i64", 0)
        self.f.ret(self.f.load("i64", self._status, 8))


Generator = Callable[[Kernel, Any], None]
_GENERATORS: dict[type[Spec], Generator] = {}
G = TypeVar("G", bound=Callable[..., None])


def emits(kind: type[Spec]) -> Callable[[G], G]:
    """Declares the generator of one kind of kernel."""

    def declare(generator: G) -> G:
        if kind in _GENERATORS:
            raise ValueError(f"{kind.__name__} has two generators")
        _GENERATORS[kind] = generator
        return generator

    return declare


@cache
def generators() -> dict[type[Spec], Generator]:
    """Every generator; imports the modules of `rewrite.codegen.kernels`."""
    package = importlib.import_module("rewrite.codegen.kernels")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"rewrite.codegen.kernels.{module.name}")
    return _GENERATORS


def generate(spec: Spec, isa: Isa, symbol: str) -> Code:
    """The module of one kernel."""
    module = Module(type(spec).__name__)
    kernel = Kernel(module, symbol, isa)
    generators()[type(spec)](kernel, spec)
    kernel.finish()
    return Code(symbol, module.text())


def symbol_of(spec: Spec, isa: Isa) -> str:
    """A name for the machine code: equal for equal specs, instruction sets and generators."""
    text = f"{spec!r}\n{isa!r}\n{_version()}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{type(spec).__name__.lower()}_{digest[:24]}"


@cache
def _version() -> str:
    """A digest of everything that generated code follows from: this package's text, the scalar
    bodies of operators, and the compiler."""
    import llvmlite

    digest = hashlib.sha256(llvmlite.__version__.encode())
    here = Path(__file__).resolve().parent
    for folder in (here, here.parent / "ops", here.parent / "plan"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


__all__ = ["Code", "Int", "Kernel", "emits", "generate", "generators", "symbol_of"]
