"""Plans in memory: where operands lie, what is refused, what a run leaves behind."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
import pytest

from rewrite.codegen.isa import AARCH64, AVX2, BASELINE, host_isa, isa_of, native
from rewrite.errors import RewriteError
from rewrite.plan.spec import Body, Call, Place, Plan, Pointwise, Step
from rewrite.plan.view import View
from rewrite.runtime import memory
from rewrite.runtime.device import CpuDevice
from tests.runtime.plans import AddNumber, Combine, Divide, chain, numbers, view


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


def code_of(problem: pytest.ExceptionInfo[RewriteError]) -> str:
    return problem.value.diagnostics[0].code


# --- what a run computes ------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3, 50])
@pytest.mark.parametrize("count", [1, 7, 1000])
def test_steps_run_in_order(device: CpuDevice, steps: int, count: int) -> None:
    x = numbers(count)
    y = np.empty_like(x)
    instance = device.load(chain(count, [AddNumber(float(k)) for k in range(steps)]))
    for _ in range(3):
        y[...] = np.nan
        instance.run([x], [y])
        expected = x.copy()
        for k in range(steps):
            expected += np.float32(k)
        assert np.array_equal(y, expected)


def test_operands_come_from_every_region(device: CpuDevice) -> None:
    """Offsets count bytes, constants need not be aligned or contiguous, words are integers."""
    n = 33
    a, b = numbers(n, 1), numbers(3 * n, 2)
    raw = np.zeros(4 * n * 2 + 1, np.uint8)[1 : 1 + 8 * n].view(np.float32)[::2]
    raw[...] = numbers(n, 3)
    assert not raw.flags.aligned
    plan = Plan(
        calls=(
            Call(
                Combine(),
                (Place("input", 0), Place("input", 1, 4 * n), Place("arena", 0, 64), 3),
                n,
            ),
            Call(
                Combine(), (Place("arena", 0, 64), Place("constant", 0), Place("output", 1), -2), n
            ),
            Call(
                Combine(), (Place("constant", 0), Place("output", 1), Place("output", 0, 4), 1), n
            ),
        ),
        arena_bytes=64 + 4 * n,
        constants=(raw,),
        inputs=(view(n), view(3, n)),
        outputs=(view(n + 2), view(n)),
    )
    first, second = np.full(n + 2, 7, np.float32), np.empty(n, np.float32)
    device.load(plan).run([a, b.reshape(3, n)], [first, second])
    inner = a * np.float32(3) + b[n : 2 * n]
    expected = inner * np.float32(-2) + raw
    assert np.array_equal(second, expected)
    assert np.array_equal(first[1:-1], raw + expected)
    assert first[0] == first[-1] == 7


def random_program(rng: np.random.Generator) -> tuple[Plan, list[np.ndarray], np.ndarray]:
    """A straight-line program over a few slots of the arena, its inputs, and what it computes."""
    n, slots = int(rng.integers(1, 70)), 4
    inputs = [numbers(n, k) for k in range(2)]
    constant = numbers(n, 9)
    state = [inputs[0] + np.float32(0.5)] * slots  # what is in the arena before is left open
    places = [Place("arena", 0, 4 * n * k) for k in range(slots)]
    calls = [Call(AddNumber(0.5), (Place("input", 0), place), n) for place in places]

    def pick() -> tuple[Place, np.ndarray]:
        k = int(rng.integers(slots + 3))
        if k < slots:
            return places[k], state[k]
        return (Place("constant", 0), constant) if k == slots + 2 else (
            Place("input", k - slots), inputs[k - slots]
        )  # fmt: skip

    for _ in range(int(rng.integers(1, 12))):
        (x, xv), (y, yv), k = pick(), pick(), int(rng.integers(slots))
        factor = int(rng.integers(-3, 4))
        words = (x, y, places[k], factor)
        calls.append(Call(Combine(), words, n, grain=int(rng.integers(1, n + 1))))
        state[k] = xv * np.float32(factor) + yv
    calls.append(Call(AddNumber(1.0), (places[0], Place("output", 0)), n))
    forms = (view(n), view(n))
    plan = Plan(tuple(calls), 4 * n * slots, (constant,), forms, forms[:1])
    return plan, inputs, state[0] + np.float32(1)


def test_random_plans(device: CpuDevice) -> None:
    """Against numpy, on one thread and on three."""
    rng = np.random.default_rng(11)
    shared = CpuDevice(threads=3)
    for _ in range(40):
        plan, inputs, expected = random_program(rng)
        for there in (device, shared):
            found = np.empty_like(expected)
            there.load(plan).run(inputs, [found])
            np.testing.assert_array_equal(found, expected)
    shared.close()


def test_nothing_to_do(device: CpuDevice) -> None:
    empty = Plan((), 0, (), (view(0),), (view(0),))
    nothing = np.empty(0, np.float32)
    device.load(empty).run([nothing], [nothing.copy()])
    skipped = Call(AddNumber(1.0), (Place("input", 0), Place("output", 0)), 0)
    device.load(Plan((skipped,), 0, (), (view(0, 4),), (view(0, 4),))).run(
        [np.empty((0, 4), np.float32)], [np.empty((0, 4), np.float32)]
    )


def test_scalars(device: CpuDevice) -> None:
    call = Call(AddNumber(1.0), (Place("input", 0), Place("output", 0)), 1)
    found = np.zeros((), np.float32)
    device.load(Plan((call,), 0, (), (view(),), (view(),))).run([np.array(2, np.float32)], [found])
    assert found == 3


def test_constants_are_kept_once(device: CpuDevice) -> None:
    raw = np.zeros(4 * 100 + 4, np.uint8)[4:].view(np.float32)
    call = Call(Combine(), (Place("input", 0), Place("constant", 0), Place("output", 0), 1), 100)
    plan = Plan((call,), 0, (raw,), (view(100),), (view(100),))
    one, two = device.load(plan), device.load(plan)
    kept = weakref.ref(one._memory.constants[0])
    assert one._memory.constants[0] is two._memory.constants[0]
    assert memory.address_of(one._memory.constants[0]) % 64 == 0
    one.close()
    assert kept() is not None
    two.close()
    assert kept() is None


def test_an_aligned_constant_is_not_copied(device: CpuDevice) -> None:
    fine = memory.aligned(400).view(np.float32)
    fine[...] = 1
    call = Call(Combine(), (Place("input", 0), Place("constant", 0), Place("output", 0), 1), 100)
    instance = device.load(Plan((call,), 0, (fine,), (view(100),), (view(100),)))
    assert instance._memory.constants[0] is fine


def test_addresses_without_knowing_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where array objects are laid out otherwise, arrays are asked for their addresses."""
    monkeypatch.setattr("rewrite.runtime.instance.data_header", lambda: None)
    instance = CpuDevice().load(chain(5, [AddNumber(2.0)] * 2))
    for seed in range(3):
        x = numbers(5, seed)
        y = np.empty_like(x)
        instance.run([x], [y])
        assert np.array_equal(y, (x + np.float32(2)) + np.float32(2))


# --- what is refused ----------------------------------------------------------------------------


def strided() -> np.ndarray:
    return numbers(10)[::2]


def misaligned() -> np.ndarray:
    return np.zeros(21, np.uint8)[1:].view(np.float32)


def read_only() -> np.ndarray:
    made = numbers(5)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize(
    ("inputs", "outputs", "words"),
    [
        ([], [numbers(5)], "0 inputs and 1 outputs are given; the plan has 1 and 1"),
        ([numbers(5)] * 2, [], "2 inputs and 0 outputs"),
        ([np.float32(1)], [numbers(5)], "input 0 is not an array but float32"),
        ([[1.0] * 5], [numbers(5)], "input 0 is not an array but list"),
        ([numbers(4)], [numbers(5)], "input 0 is float32 of shape (4,); the plan wants float32"),
        ([numbers(5).astype(np.float64)], [numbers(5)], "input 0 is float64 of shape (5,)"),
        ([numbers(5).astype(">f4")], [numbers(5)], "input 0 is >f4 of shape (5,)"),
        ([strided()], [numbers(5)], "input 0 is float32 of shape (5,), not contiguous"),
        ([misaligned()], [numbers(5)], "input 0 is float32 of shape (5,), not aligned"),
        ([numbers(5)], [numbers(5).reshape(5, 1)], "output 0 is float32 of shape (5, 1)"),
        ([numbers(5)], [read_only()], "output 0 is float32 of shape (5,), not writable"),
        ([numbers(5)], [strided()], "output 0 is float32 of shape (5,), not contiguous"),
    ],
)
def test_arrays_that_do_not_fit(
    device: CpuDevice, inputs: list[np.ndarray], outputs: list[np.ndarray], words: str
) -> None:
    instance = device.load(chain(5, [AddNumber(1.0)]))
    with pytest.raises(RewriteError) as problem:
        instance.run(inputs, outputs)
    assert code_of(problem) == "RW822"
    assert words in str(problem.value)
    x, y = read_only(), np.empty(5, np.float32)
    instance.run([x], [y])  # reading from what is read-only is fine, and nothing was lost
    assert np.array_equal(y, x + np.float32(1))


def test_views_with_strides(device: CpuDevice) -> None:
    """A plan may ask for an order of dimensions of its own."""
    across = View("f32", (2, 3), (1, 2))
    call = Call(AddNumber(1.0), (Place("input", 0), Place("output", 0)), 6)
    instance = device.load(Plan((call,), 0, (), (across,), (across,)))
    x = np.asfortranarray(numbers(6).reshape(2, 3))
    y = np.empty((2, 3), np.float32, order="F")
    instance.run([x], [y])
    assert np.array_equal(y, x + np.float32(1))
    with pytest.raises(RewriteError, match=r"the plan wants float32 of shape .* strides"):
        instance.run([np.ascontiguousarray(x)], [y])


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place("arena", 0, 65), "bytes 65 to 65 of arena 0, which has 64"),
        (Place("arena", 1), "no arena 1"),
        (Place("constant", 0), "no constant 0"),
        (Place("input", 1), "no input 1"),
        (Place("input", 0, 24), "bytes 24 to 24 of input 0, which has 20"),
        (Place("output", 0, -4), "bytes -4 to -4 of output 0"),
    ],
)
def test_operands_outside_of_buffers_are_a_mistake(
    device: CpuDevice, place: Place, words: str
) -> None:
    call = Call(AddNumber(1.0), (place, Place("output", 0)), 5, label="bad")
    with pytest.raises(AssertionError, match=words):
        device.load(Plan((call,), 64, (), (view(5),), (view(5),)))


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "words"),
    [
        ((4,), (2,), 0, "bytes 0 to 28 of input 0, which has 20"),
        ((2, 4), (0, 1), 8, "bytes 8 to 24 of input 0"),
        ((5,), (-1,), 12, "bytes -4 to 16 of input 0"),
        ((5,), (-1,), 16, None),
        ((2, 5), (0, 1), 0, None),
    ],
)
def test_views_outside_of_buffers_are_a_mistake(
    device: CpuDevice,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    offset: int,
    words: str | None,
) -> None:
    body = Body(("f32",), (Step("", "Neg", (0,), "f32"),), (1,))
    out = view(*shape)
    free = (0, *shape[1:])  # the items say how many there are
    operand, result = View("f32", free, strides), View("f32", free, out.strides)
    spec = Pointwise(free, (operand,), (result,), body)
    call = Call(spec, (Place("input", 0, offset), Place("output", 0)), shape[0], label="bad")
    plan = Plan((call,), 0, (), (view(5),), (out,))
    if words is None:
        device.load(plan)
        return
    with pytest.raises(AssertionError, match=words):
        device.load(plan)


def test_too_much_memory(device: CpuDevice) -> None:
    with pytest.raises(RewriteError) as problem:
        device.load(Plan((), 1 << 60, (), (), ()))
    assert code_of(problem) == "RW823"


def test_no_threads() -> None:
    with pytest.raises(RewriteError) as problem:
        CpuDevice(threads=0)
    assert code_of(problem) == "RW806"


# --- faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", [0, 499, 999])
def test_a_fault_stops_the_plan_and_names_the_node(threads: int, where: int) -> None:
    device = CpuDevice(threads=threads)
    n = 1000
    plan = Plan(
        (
            Call(
                Divide(),
                (Place("input", 0), Place("arena", 0)),
                n,
                grain=100,
                nodes=("model/div_3",),
                label="division",
            ),
            Call(AddNumber(1.0), (Place("input", 1), Place("output", 0)), n),
        ),
        4 * n,
        (),
        (view(n, dtype="s32"), view(n)),
        (view(n),),
    )
    instance = device.load(plan)
    x, other = np.full(n, 5, np.int32), numbers(n)
    x[where] = 0
    y = np.full(n, 7, np.float32)
    for _ in range(3):
        with pytest.raises(RewriteError) as problem:
            instance.run([x, other], [y])
        assert code_of(problem) == "RW820"
        assert str(problem.value) == (
            "model/div_3: error[RW820]: division: a division of integers by zero"
        )
        assert (y == 7).all()  # the step behind it did not run
    x[where] = 1
    instance.run([x, other], [y])
    assert np.array_equal(y, other + np.float32(1))
    device.close()


# --- instruction sets ---------------------------------------------------------------------------


def test_code_for_narrower_processors_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REWRITE_ISA", "baseline")
    for isa in (host_isa(), AVX2):
        if isa.arch == native().arch and set(isa.features) <= set(native().features):
            x = numbers(100)
            y = np.empty_like(x)
            CpuDevice(isa).load(chain(100, [AddNumber(3.0)])).run([x], [y])
            assert np.array_equal(y, x + np.float32(3))


def test_code_for_other_processors_is_refused() -> None:
    other = AARCH64 if native().arch != "aarch64" else BASELINE
    with pytest.raises(RewriteError, match=r"RW821.*does not run on this machine"):
        CpuDevice(other)
    here = native()
    lacking = isa_of(here.triple, here.cpu, (*here.features, "+amx-tile-of-tomorrow"))
    with pytest.raises(RewriteError, match="has no amx-tile-of-tomorrow"):
        CpuDevice(lacking)
    with pytest.raises(RewriteError, match="runs all code for sapphirerapids-x"):
        CpuDevice(isa_of(here.triple, "sapphirerapids-x", ()))


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REWRITE_ISA", raising=False)
    assert host_isa() == native()
    monkeypatch.setenv("REWRITE_ISA", "native")
    assert host_isa() == native()
    monkeypatch.setenv("REWRITE_ISA", "baseline")
    assert host_isa().vector_bytes == 16
    monkeypatch.setenv("REWRITE_ISA", "pentium")
    with pytest.raises(RewriteError, match="REWRITE_ISA=pentium is not an instruction set"):
        CpuDevice()


# --- the end ------------------------------------------------------------------------------------


def test_a_closed_instance_frees_its_memory(device: CpuDevice) -> None:
    plan = Plan((), 50_000_000, (), (), ())
    instance = device.load(plan)
    arena = weakref.ref(instance._memory.arena.base)
    instance.run([], [])
    instance.close()
    instance.close()
    assert arena() is None
    with pytest.raises(RewriteError) as problem:
        instance.run([], [])
    assert code_of(problem) == "RW806"


def test_a_dropped_instance_frees_its_memory(device: CpuDevice) -> None:
    instance = device.load(chain(1000, [AddNumber(1.0)] * 2))
    arena = weakref.ref(instance._memory.arena.base)
    del instance
    assert arena() is None


def test_many_instances_leave_nothing_behind(device: CpuDevice) -> None:
    plan = Plan((), 4_000_000, (), (), ())
    kept = [device.load(plan) for _ in range(3)]
    for instance in kept:
        instance._memory.arena[...] = 1
    before = resident()
    for _ in range(50):
        instance = device.load(plan)
        instance._memory.arena[...] = 1
        instance.close()
    assert resident() - before < 20_000_000  # of 200,000,000


def resident() -> int:
    if not Path("/proc/self/statm").exists():
        pytest.skip("how much memory is resident is read from /proc, which this system has not")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
