"""Instruction sets: what follows from a target, from this machine, from the environment."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest

from rewrite.codegen import isa as module
from rewrite.codegen.compile import to_assembly
from rewrite.codegen.ir import Module
from rewrite.codegen.isa import (
    AARCH64,
    AVX2,
    BASELINE,
    IMPLIED,
    Isa,
    check_runs_here,
    host_features,
    host_isa,
    isa_from_target,
    isa_of,
    native,
)
from rewrite.codegen.kernel import Code
from rewrite.errors import RewriteError
from rewrite.target import target
from rewrite.target.load import load_target
from tests.codegen import harness

X86 = pytest.mark.skipif(
    native().arch != "x86_64", reason="asks what this processor is: one of x86-64 is expected"
)


def shipped(name: str) -> Isa:
    facts = load_target(name, None).isa
    assert facts is not None
    return isa_from_target(facts)


# --- targets -----------------------------------------------------------------------------------


def test_shipped_targets() -> None:
    assert shipped("host") == native()
    avx2 = shipped("x86-avx2")
    assert (avx2.vector_bytes, avx2.registers, avx2.fma) == (32, 16, True)
    hexagon = shipped("hexagon")
    assert (hexagon.arch, hexagon.vector_bytes, hexagon.lanes("u8")) == ("hexagon", 128, 128)
    cortex = shipped("cortex-m")
    assert (cortex.vector_bytes, cortex.registers, cortex.lanes("s16")) == (16, 8, 8)


@pytest.mark.parametrize(
    ("triple", "cpu", "features", "widths"),
    [
        ("x86_64-unknown-linux-gnu", "x86-64-v2", (), (16, 16, False)),
        ("x86_64-unknown-linux-gnu", "x86-64-v3", (), (32, 16, True)),
        ("x86_64-unknown-linux-gnu", "x86-64-v3", ("-fma",), (32, 16, False)),
        ("x86_64-unknown-linux-gnu", "x86-64-v4", (), (64, 32, True)),
        ("x86_64-unknown-linux-gnu", "x86-64-v4", ("-avx512dq",), (32, 16, True)),
        ("x86_64-unknown-linux-gnu", "", ("+avx2", "+fma"), (32, 16, True)),
        ("aarch64-unknown-linux-gnu", "cortex-a76", (), (16, 32, True)),
        ("arm64-apple-darwin", "apple-m1", (), (16, 32, True)),
        ("riscv64-unknown-linux-gnu", "generic-rv64", ("+v",), (16, 32, True)),
        ("wasm32-unknown-unknown", "generic", ("+simd128",), (16, 16, False)),
    ],
)
def test_widths(triple: str, cpu: str, features: tuple[str, ...], widths: object) -> None:
    found = isa_from_target(target.Isa(triple, cpu, features))
    assert (found.vector_bytes, found.registers, found.fma) == widths
    assert list(found.features) == sorted(found.features)


def test_one_architecture_has_one_name() -> None:
    assert isa_of("arm64-apple-darwin", "apple-m1", ()).arch == AARCH64.arch == "aarch64"


def test_what_a_processor_implies_can_be_asked_for() -> None:
    """Generators ask `has`, and know no processor's name."""
    v3 = isa_from_target(target.Isa("x86_64-unknown-linux-gnu", "haswell"))
    assert all(v3.has(name) for name in ("avx2", "fma", "f16c", "bmi2", "sse4.1"))
    assert not v3.has("avx512f")
    without = isa_from_target(target.Isa("x86_64-unknown-linux-gnu", "haswell", ("-fma",)))
    assert not without.has("fma")
    assert AARCH64.has("dotprod")
    assert not AARCH64.has("i8mm")


def test_the_table_agrees_with_llvm() -> None:
    """Naming what a processor implies, or not naming it, gives the same code."""
    text = (
        "define <8 x float> @f(<8 x float> %a, <8 x float> %b, <8 x i16> %h) {\n"
        "  %p = fmul contract <8 x float> %a, %b\n"
        "  %s = fadd contract <8 x float> %p, %b\n"
        "  %g = bitcast <8 x i16> %h to <8 x half>\n"
        "  %w = fpext <8 x half> %g to <8 x float>\n"
        "  %r = fadd <8 x float> %s, %w\n"
        "  ret <8 x float> %r\n}\n"
    )
    code = Code("f", text)
    for cpu in ("x86-64-v2", "nehalem", "x86-64-v3", "haswell", "x86-64-v4", "skylake-avx512"):
        listed = isa_from_target(target.Isa("x86_64-unknown-linux-gnu", cpu))
        plain = isa_of(listed.triple, cpu, tuple(f for f in listed.features if f[0] == "-"))
        assert to_assembly(code, listed) == to_assembly(code, plain), cpu


def test_native_has_no_features_of_its_own() -> None:
    for facts in (
        target.Isa("native", "haswell"),
        target.Isa("native", "native", ("+avx2",)),
    ):
        with pytest.raises(RewriteError, match=r"RW821"):
            isa_from_target(facts)


# --- this machine ------------------------------------------------------------------------------


def test_this_machine() -> None:
    here = native()
    assert here.triple == llvm.get_process_triple()
    assert here.cpu == llvm.get_host_cpu_name()
    assert {name for name in host_features() if here.has(name)} == host_features()
    on = {name[1:] for name in here.features if name.startswith("+")}
    off = {name[1:] for name in here.features if name.startswith("-")}
    assert not on & off
    check_runs_here(here)


@X86
def test_without_some_features() -> None:
    for isa in harness.isas():
        check_runs_here(isa)
    less = native(("avx2", "fma"))
    assert not less.has("avx2")
    assert "-fma" in less.features
    widths = [isa.vector_bytes for isa in harness.isas()]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == 16


@X86
def test_a_feature_that_a_virtual_machine_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's name alone would bring it back."""
    monkeypatch.setattr(module, "host_features", lambda: frozenset({"sse2", "avx", "avx2", "fma"}))
    monkeypatch.setattr(module, "_known_features", lambda: frozenset({"avx2", "fma", "avx512f"}))
    hidden = native.__wrapped__(())
    assert "-avx512f" in hidden.features
    assert hidden.vector_bytes == 32


def test_what_does_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "host_features", lambda: frozenset(IMPLIED["x86-64-v2"]))
    here = native()
    if here.arch == "x86_64":
        check_runs_here(BASELINE)
        with pytest.raises(RewriteError, match=r"has no avx, avx2, bmi, bmi2, f16c, fma, lzcnt"):
            check_runs_here(AVX2)
        named = isa_of(here.triple, "haswell", ())  # the name says it without listing
        with pytest.raises(RewriteError, match=r"has no avx, avx2"):
            check_runs_here(named)
        with pytest.raises(RewriteError, match=r"does not run on this machine"):
            check_runs_here(AARCH64)
    with pytest.raises(RewriteError, match=r"it is not known whether this processor"):
        check_runs_here(isa_of(here.triple, "processor-of-tomorrow", ()))


@pytest.mark.parametrize("wanted", ["native", "", None])
def test_the_default_is_all_of_this_machine(
    wanted: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wanted is None:
        monkeypatch.delenv("REWRITE_ISA", raising=False)
    else:
        monkeypatch.setenv("REWRITE_ISA", wanted)
    assert host_isa() == native()


@X86
def test_narrower_by_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRITE_ISA", "avx2")
    assert host_isa() == AVX2
    monkeypatch.setenv("REWRITE_ISA", "baseline")
    assert host_isa() == BASELINE
    monkeypatch.setenv("REWRITE_ISA", "neon")
    with pytest.raises(RewriteError, match=r"REWRITE_ISA=neon is not an instruction set"):
        host_isa()


# --- what the compiler makes of it ---------------------------------------------------------------


def twice(lanes: int) -> Code:
    """y = 2 x, on one vector; the vector is written as wide as asked for."""
    m = Module("twice")
    f = m.function("twice", [("ptr", "x")])
    type_ = f"<{lanes} x float>"
    f.store(f.load(type_, f.arg("x"), 4) * f.splat(2.0, type_), f.arg("x"), 4)
    f.ret()
    return Code("twice", m.text())


@pytest.mark.parametrize("isa", [BASELINE, AVX2], ids=["baseline", "avx2"])
def test_no_wider_registers_than_said(isa: Isa) -> None:
    text = to_assembly(twice(16), isa)
    assert "zmm" not in text
    assert ("ymm" in text) == (isa is AVX2)
    if isa is BASELINE:
        assert re.search(r"^\s+v[a-z]+ps", text, re.MULTILINE) is None


def test_the_widest_vectors_are_used() -> None:
    wide = isa_from_target(
        target.Isa("x86_64-unknown-linux-gnu", "x86-64-v4", ("-prefer-256-bit",))
    )
    assert "zmm" in to_assembly(twice(16), wide)
