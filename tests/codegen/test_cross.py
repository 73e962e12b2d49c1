"""Code for other processors: it is made for every kind of kernel, and some of it is run.

The aarch64 code of samples is linked with the loop over steps and runs under qemu-aarch64, where
that and a linker are installed. A session drives it as it drives this machine's own code.
"""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from rewrite.codegen.compile import to_assembly, to_object
from rewrite.codegen.isa import AARCH64, BASELINE, Isa, isa_from_target
from rewrite.codegen.kernel import Code, generate, generators, symbol_of
from rewrite.codegen.runloop import gate_code, run_code, worker_code
from rewrite.codegen.runloop_waiting import CONDITION, parking_of
from rewrite.errors import RewriteError
from rewrite.execution import compile_model
from rewrite.plan.spec import Plan, Spec
from rewrite.runtime import session as sessions
from rewrite.runtime.profile import Profile
from rewrite.target import target
from tests.codegen import emulator
from tests.codegen.samples import MODELS, SAMPLES, X86_ONLY, Sample, sample
from tests.runtime import suite
from tests.runtime.plans import Divide, Reverse, chain, numbers

NAMES = sorted({name for names in SAMPLES.values() for name in names})

# What kernels may call: functions of the C library, for double precision and what has no better
# form. Another machine has them as this one has.
LIBRARY = re.compile(
    r"(a?(sin|cos|tan)h?|exp2?|expm1|log|log1p|log2|log10|pow|fmod|erfc?|cbrt|memcpy|memset|memmove)f?"
)


@dataclass
class Recorder:
    """A device for another processor that only makes code; runs give zeros."""

    isa: Isa
    plans: list[Plan] = field(default_factory=list)

    def load(self, plan: Plan, progress: object = None) -> Recorder:
        self.plans.append(plan)
        return self

    def run(self, inputs: object, outputs: list[np.ndarray], profile: bool = False) -> None:
        for array in outputs:
            array[...] = 0

    def profile(self) -> Profile:
        return Profile(0, ())

    def close(self) -> None:
        """Nothing is held."""


def planned(wanted: Sample, isa: Isa, monkeypatch: pytest.MonkeyPatch) -> list[Spec]:
    """The kernels of a model, as they are planned for a processor."""
    recorder = Recorder(isa)
    monkeypatch.setattr(sessions, "CpuDevice", lambda *_: recorder)
    compile_model(wanted.model, None).run(dict(wanted.feeds))
    return [call.spec for plan in recorder.plans for call in plan.calls]


def externals(assembly: str, own: str) -> set[str]:
    """Functions that code calls."""
    called = set(re.findall(r"^\s+bl?\s+([A-Za-z_]\w*)$", assembly, re.MULTILINE))
    inside = set(re.findall(r"^([A-Za-z_]\w*):", assembly, re.MULTILINE))
    return called - inside - {own}


# --- every kind of kernel ------------------------------------------------------------------------


def test_every_kind_of_kernel_has_a_sample() -> None:
    kinds = {kind.__name__ for kind in generators() if kind.__module__.startswith("rewrite.")}
    assert sorted(kinds - set(SAMPLES) - X86_ONLY) == [], "kinds without a sample"
    assert sorted(set(SAMPLES) - kinds) == [], "samples of kinds that are gone"
    assert set(MODELS) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_code_for_aarch64(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made, and calls nothing that an aarch64 host has not."""
    specs = planned(sample(name), AARCH64, monkeypatch)
    kinds = {type(spec).__name__ for spec in specs}
    assert {kind for kind, names in SAMPLES.items() if name in names} <= kinds
    for spec in specs:
        symbol = symbol_of(spec, AARCH64)
        found = externals(to_assembly(generate(spec, AARCH64, symbol), AARCH64), symbol)
        assert [f for f in sorted(found) if not LIBRARY.fullmatch(f)] == [], spec


def test_the_loop_over_steps_for_aarch64() -> None:
    for parking in (parking_of(AARCH64), CONDITION):
        for code in (
            run_code(AARCH64, parking),
            run_code(AARCH64, parking, True),
            worker_code(AARCH64, parking),
            gate_code(AARCH64, parking),
        ):
            text = to_assembly(code, AARCH64)
            assert externals(text, code.symbol) <= {
                "clock_gettime", "syscall", "sched_getcpu", "sched_setaffinity", "lead", "share",
                "pthread_mutex_lock", "pthread_mutex_unlock", "pthread_mutex_init",
                "pthread_cond_wait", "pthread_cond_broadcast", "pthread_cond_init",
            }  # fmt: skip


# --- run under qemu ------------------------------------------------------------------------------


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[emulator.EmulatedDevice]:
    reason = emulator.missing()
    if reason is not None:
        pytest.skip(reason)
    device = emulator.EmulatedDevice()
    monkeypatch.setattr(sessions, "CpuDevice", lambda *_: device)
    yield device
    device.close()


@pytest.mark.parametrize("name", NAMES)
def test_results_on_aarch64(name: str, emulated: emulator.EmulatedDevice) -> None:
    wanted = sample(name)
    session = compile_model(wanted.model, None)
    found = session.run(dict(wanted.feeds))
    assert "native" in session.devices().values()
    results = [found[value.name] for value in wanted.model.graph.output]
    assert suite.differ(list(wanted.expected), results, wanted.rtol, wanted.atol) is None


def test_plans_on_aarch64(emulated: emulator.EmulatedDevice) -> None:
    """Scratch, several steps, and a fault that stops the plan."""
    rows, width = 7, 13
    plan = chain(rows * width, [Reverse(width)] * 3, items=rows, scratch=4 * width)
    x = numbers(rows * width)
    y = np.empty_like(x)
    emulated.load(plan).run([x], [y])
    assert np.array_equal(y, x.reshape(rows, width)[:, ::-1].reshape(-1))
    instance = emulated.load(chain(9, [Divide()] * 2, dtype="s32"))
    z = np.empty(9, np.int32)
    with pytest.raises(RewriteError, match=r"node 0: error\[RW820\]"):
        instance.run([np.arange(9, dtype=np.int32)], [z])
    instance.run([np.arange(1, 10, dtype=np.int32)], [z])
    assert np.array_equal(z, 1000 // (1000 // np.arange(1, 10)))


# --- processors that have no system --------------------------------------------------------------

OTHERS = {
    "hexagon": target.Isa(
        "hexagon-unknown-linux-musl", "hexagonv68", ("+hvxv68", "+hvx-length128b")
    ),
    "wasm32": target.Isa("wasm32-unknown-unknown", "generic", ("+simd128",)),
    "cortex-m55": target.Isa("thumbv8.1m.main-none-eabi", "cortex-m55", ("+mve",)),
    "riscv64": target.Isa("riscv64-unknown-linux-gnu", "generic-rv64", ("+v", "+d")),
}

# A missing instruction ends LLVM's process, so the code is made in one of its own.
CHILD = """
import pickle, sys
from rewrite.codegen.compile import to_object
from rewrite.codegen.kernel import generate
isa, specs = pickle.load(sys.stdin.buffer)
for spec in specs:
    image = to_object(generate(spec, isa, "kernel"), isa, jit=False)
    print(type(spec).__name__, len(image), flush=True)
"""


def made_elsewhere(isa: Isa, specs: list[Spec]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((isa, specs)),
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", OTHERS)
def test_pointwise_code_for_other_processors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    isa = isa_from_target(OTHERS[name])
    specs: list[Spec] = []
    for model in ("gelu", "chain", "half chain", "test_where_example"):
        specs += planned(sample(model), isa, monkeypatch)
    assert {type(spec).__name__ for spec in specs} == {"Pointwise"}
    done = made_elsewhere(isa, specs)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert len(done.stdout.splitlines()) == len(specs)


@pytest.mark.parametrize("name", ["hexagon", "riscv64"])
def test_code_for_vectors_of_any_width(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hexagon's vectors have 128 lanes of bytes: more than a word has bits."""
    isa = isa_from_target(OTHERS[name])
    names = ("test_nonzero_example", "test_compress_0", "softmax", "product", "integer product")
    specs = [spec for model in names for spec in planned(sample(model), isa, monkeypatch)]
    done = made_elsewhere(isa, specs)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert len(done.stdout.splitlines()) == len(specs)


def test_objects_are_of_their_architecture() -> None:
    """ELF's e_machine: 62 x86-64, 183 aarch64."""
    code = Code("f", "define void @f() { ret void }")
    for isa, machine in ((BASELINE, 62), (AARCH64, 183)):
        image = to_object(code, isa, jit=False)
        assert image[:4] == b"\x7fELF"
        assert int.from_bytes(image[18:20], "little") == machine
