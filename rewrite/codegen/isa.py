"""Instruction sets as data: what code generation asks of the machine that code is for.

In: a target's `isa` facts, or this machine. Out: `Isa`. Generators read widths and counts from it
and name no processor; only where an instruction has no generic form do they ask `has`.

`REWRITE_ISA` chooses what this process generates for itself: `native` (everything this machine
has; the default), `avx2`, `baseline` (what every machine of its architecture has).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rewrite.errors import error
from rewrite.plan.view import BYTES
from rewrite.target import target


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
        return _arch(self.triple)

    def has(self, feature: str) -> bool:
        return "+" + feature in self.features

    def lanes(self, dtype: str) -> int:
        """Elements of one vector."""
        return self.vector_bytes // BYTES[dtype]


def _arch(triple: str) -> str:
    name = triple.split("-", maxsplit=1)[0]
    return "aarch64" if name == "arm64" else name  # as Apple calls it


def isa_of(triple: str, cpu: str, features: tuple[str, ...]) -> Isa:
    """The widths that a processor's features imply."""
    arch = _arch(triple)
    has = frozenset(features)
    if arch in ("x86_64", "i386", "i686"):
        if {"+avx512f", "+avx512bw", "+avx512vl", "+avx512dq"} <= has:
            return Isa(triple, cpu, features, 64, 32, True)
        if "+avx2" in has:
            return Isa(triple, cpu, features, 32, 16, "+fma" in has)
        return Isa(triple, cpu, features, 16, 16, False)
    if arch == "aarch64":
        return Isa(triple, cpu, features, 16, 32, True)
    if arch == "hexagon":
        return Isa(triple, cpu, features, 128, 32, False)
    if arch == "riscv64":
        return Isa(triple, cpu, features, 16, 32, "+v" in has)
    if arch.startswith(("thumb", "arm")):
        return Isa(triple, cpu, features, 16, 8, False)
    return Isa(triple, cpu, features, 16, 16, False)


# --- this machine ------------------------------------------------------------------------------

_WIDTHS = ("avx512f", "avx512bw", "avx512vl", "avx512dq")
_WIDE = "-prefer-256-bit"  # the width of vectors is the generator's choice, not LLVM's


@cache
def native(without: tuple[str, ...] = ()) -> Isa:
    """This machine, `without` some of its features (so that narrower code can be tested here).

    What it lacks is said too: LLVM would take it from the processor's name, and a virtual machine
    may hide it.
    """
    import llvmlite.binding as llvm

    names = host_features() - frozenset(without)
    features = [f"+{name}" for name in sorted(names)]
    features += [f"-{name}" for name in sorted((_known_features() | set(without)) - names)]
    if all(f"+{name}" in features for name in _WIDTHS):
        features.append(_WIDE)
    return isa_of(llvm.get_process_triple(), llvm.get_host_cpu_name(), tuple(features))


@cache
def host_features() -> frozenset[str]:
    """What this processor has, in LLVM's words."""
    import llvmlite.binding as llvm

    return frozenset(name for name, on in llvm.get_host_cpu_features().items() if on)


@cache
def _known_features() -> frozenset[str]:
    """What LLVM looks for on processors of this architecture."""
    import llvmlite.binding as llvm

    return frozenset(llvm.get_host_cpu_features())


def host_isa() -> Isa:
    """What code for this process is generated for: `REWRITE_ISA`, else all of this machine."""
    wanted = os.environ.get("REWRITE_ISA") or "native"
    here = native()
    if wanted == "native":
        return here
    if wanted == "baseline" and here.arch in _BASELINES:
        return _BASELINES[here.arch]
    if wanted == "avx2" and here.arch == "x86_64":
        return AVX2
    raise error(
        "RW821",
        f"REWRITE_ISA={wanted} is not an instruction set of this machine ({here.arch})",
        hint="native, baseline, and on x86-64 also avx2",
    )


# --- targets -----------------------------------------------------------------------------------

# What processors have that a target names without listing it: the levels of the x86-64 psABI,
# and processors that stand for them. Only what generators or `missing` ask for.
_V2 = ("cx16", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, *_WIDTHS, "avx512cd")
IMPLIED: Mapping[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _V2,
    "nehalem": _V2,
    "x86-64-v3": _V3,
    "haswell": _V3,
    "x86-64-v4": _V4,
    "skylake-avx512": _V4,
    "generic": (),
    "cortex-a72": ("neon",),
    "cortex-a76": ("dotprod", "fullfp16", "neon"),
    "neoverse-n1": ("dotprod", "fullfp16", "neon"),
}


def isa_from_target(facts: target.Isa) -> Isa:
    """What a target file says code is for; `native` is this machine, as `REWRITE_ISA` has it."""
    if facts.triple == "native":
        if facts.cpu not in ("", "native") or facts.features:
            raise error(
                "RW821",
                f"a target for this machine has the processor {facts.cpu or 'native'}"
                f" and features {', '.join(facts.features) or 'none'} of its own",
                hint="either `triple: native` alone, or a triple, a processor and its features",
            )
        return host_isa()
    implied = {f"+{name}" for name in IMPLIED.get(facts.cpu, ())}
    removed = {f"+{name[1:]}" for name in facts.features if name.startswith("-")}
    features = (implied - removed) | set(facts.features)
    if {f"+{name}" for name in _WIDTHS} <= features:
        features.add(_WIDE)
    return isa_of(facts.triple, facts.cpu, tuple(sorted(features)))


def check_runs_here(isa: Isa) -> None:
    """Raises where this machine cannot run such code: it would end the process."""
    here = native()
    if isa.arch != here.arch:
        raise error(
            "RW821",
            f"code for {isa.arch} does not run on this machine ({here.arch})",
            hint="a session needs a target of this machine, such as `host`",
        )
    if isa.cpu not in IMPLIED and isa.cpu not in ("", here.cpu):
        raise error(
            "RW821",
            f"it is not known whether this processor ({here.cpu}) runs all code for {isa.cpu}",
            hint=f"name one of {', '.join(IMPLIED)} as the processor, and list features",
        )
    needed = {f"+{name}" for name in IMPLIED.get(isa.cpu, ())} | set(isa.features)
    needed -= {f"+{name[1:]}" for name in isa.features if name.startswith("-")}
    missing = sorted({n[1:] for n in needed if n.startswith("+")} - host_features())
    if missing:
        raise error(
            "RW821",
            f"this processor ({here.cpu}) has no {', '.join(missing)}",
            hint="REWRITE_ISA=native, or a target that asks for no more than the processor has",
        )


def _known(triple: str, cpu: str) -> Isa:
    return isa_of(triple, cpu, tuple(f"+{name}" for name in sorted(IMPLIED[cpu])))


BASELINE = _known("x86_64-unknown-linux-gnu", "x86-64-v2")
AVX2 = _known("x86_64-unknown-linux-gnu", "haswell")
AARCH64 = _known("aarch64-unknown-linux-gnu", "cortex-a76")
_AARCH64_BASELINE = isa_of("aarch64-unknown-linux-gnu", "generic", ("+neon",))
_BASELINES: Mapping[str, Isa] = {"x86_64": BASELINE, "aarch64": _AARCH64_BASELINE}
