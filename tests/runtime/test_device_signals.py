"""What happens around a run: signals, and settings of the processor that others made."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import numpy as np
import pytest

from rewrite.codegen.compile import to_object
from rewrite.codegen.ir import Module
from rewrite.codegen.isa import native
from rewrite.codegen.kernel import Code
from rewrite.errors import RewriteError
from rewrite.plan.spec import Plan
from rewrite.runtime.device import CpuDevice
from rewrite.runtime.objects import objects_for
from tests.runtime.plans import AddNumber, Delay, chain, numbers


@pytest.fixture(scope="module")
def device() -> CpuDevice:
    return CpuDevice()


# --- signals ------------------------------------------------------------------------------------


def slow_plan(seconds: float) -> Plan:
    """Steps of a few milliseconds each."""
    return chain(4, [Delay(2_000_000)] * int(seconds * 250))


def interrupt_after(seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_can_be_interrupted(threads: int) -> None:
    device = CpuDevice(threads=threads)
    x = numbers(4)
    y = np.empty_like(x)
    slow = device.load(slow_plan(20))
    fast = device.load(chain(4, [Delay(10)] * 3))
    for instance in (slow, slow):
        timer = interrupt_after(0.1)
        begun = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            instance.run([x], [y])
        assert time.perf_counter() - begun < 4  # of 20 or so
        timer.join()
    fast.run([x], [y])
    assert np.array_equal(x, y)
    slow.close()
    device.close()


def test_signals_are_handled_while_a_plan_runs(device: CpuDevice) -> None:
    """A handler that does not raise runs between steps, and the run goes on where it was."""
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.perf_counter()))
    try:
        x = numbers(4)
        y = np.empty_like(x)
        instance = device.load(slow_plan(0.5))
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        instance.run([x], [y])
        ended = time.perf_counter()
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(seen) == 1
    assert seen[0] < ended
    assert np.array_equal(x, y)


def test_a_handler_cannot_use_the_run_that_it_interrupts(device: CpuDevice) -> None:
    """It is told so; it would wait forever."""
    x = numbers(4)
    y = np.empty_like(x)
    instance = device.load(slow_plan(0.5))
    told = []

    def handler(*_: object) -> None:
        for use in (lambda: instance.run([x], [y]), instance.close):
            with pytest.raises(RewriteError, match="RW806"):
                use()
            told.append(use)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        instance.run([x], [y])
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(told) == 2
    assert np.array_equal(x, y)
    instance.run([x], [y])


# --- the state of the processor -----------------------------------------------------------------


def swap_control_word(value: int) -> int:
    """Sets MXCSR and gives what it was."""
    module = Module("mxcsr")
    f = module.function("swap_mxcsr", [("i64", "new")], returns="i64")
    slot, old = f.slot("i32"), f.slot("i32")
    f.call("llvm.x86.sse.stmxcsr", "void", old)
    f.store(f.cast("trunc", f.arg("new"), "i32"), slot)
    f.call("llvm.x86.sse.ldmxcsr", "void", slot)
    f.ret(f.cast("zext", f.load("i32", old), "i64"))
    code = Code("swap_mxcsr", module.text())
    found = objects_for(native()).load("swap_mxcsr", lambda: to_object(code, native()))
    return int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(found)(value))


@pytest.mark.skipif(
    native().arch != "x86_64",
    reason="the mode is set in MXCSR, a register that only x86-64 processors have",
)
@pytest.mark.parametrize("threads", [1, 2])
def test_subnormal_numbers_survive_other_libraries(threads: int) -> None:
    """Libraries that set flush-to-zero for the whole process do not change results."""
    flush = 0x1F80 | 0x8040
    device = CpuDevice(threads=threads)
    instance = device.load(chain(64, [AddNumber(0.0)], grain=8))
    x = np.full(64, 1e-42, np.float32)
    y = np.zeros_like(x)
    before = swap_control_word(flush)
    try:
        for _ in range(20):
            instance.run([x], [y])
    finally:
        after = swap_control_word(before)
    assert after & 0xFFC0 == flush & 0xFFC0
    assert np.array_equal(y.view(np.int32), x.view(np.int32))
    device.close()
