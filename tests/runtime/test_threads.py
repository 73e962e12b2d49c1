"""Threads: the same results on any number of them, no thread too many, and an end to each."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rewrite.codegen.runloop_waiting import CONDITION, Parking, parking_of
from rewrite.errors import RewriteError
from rewrite.plan.spec import Plan
from rewrite.runtime import instance as instance_module
from rewrite.runtime.device import CpuDevice
from rewrite.runtime.instance import divide
from rewrite.runtime.threads import Workers
from tests.runtime.plans import AddNumber, Delay, Divide, Reverse, chain, numbers

WIDTH = 24


def mixed_plan(rows: int = 64) -> Plan:
    """Shared and unshared steps, with scratch."""
    specs = [Reverse(WIDTH) if k % 3 else AddNumber(float(k)) for k in range(12)]
    plan = chain(rows * WIDTH, specs)
    calls = []
    for k, call in enumerate(plan.calls):
        items = rows if isinstance(call.spec, Reverse) else rows * WIDTH
        grain = 10**6 if k % 4 == 3 else (1 if isinstance(call.spec, Reverse) else 100)
        calls.append(type(call)(call.spec, call.words, items, grain, 4 * WIDTH, call.nodes))
    return Plan(tuple(calls), plan.arena_bytes, (), plan.inputs, plan.outputs)


def expected_of(x: np.ndarray) -> np.ndarray:
    y = x.copy()
    for k in range(12):
        y = y.reshape(-1, WIDTH)[:, ::-1].reshape(-1) if k % 3 else y + np.float32(k)
    return y


OTHERS: set[int | None] = set()


@pytest.fixture(autouse=True)
def _others() -> None:
    """Workers of other tests in this process, whose devices live on, are not counted."""
    gc.collect()
    OTHERS.clear()
    OTHERS.update(thread.ident for thread in threading.enumerate())


def ours() -> list[str]:
    """The workers there are."""
    begun = [thread for thread in threading.enumerate() if thread.ident not in OTHERS]
    return [thread.name for thread in begun if thread.name.startswith("rewrite-")]


def with_parking(threads: int, parking: Parking | None) -> CpuDevice:
    device = CpuDevice(threads=threads)
    if parking is not None:
        device._workers = Workers(device.objects, threads - 1, parking)
    return device


PARKINGS = {"native": None, "condition": CONDITION}


@pytest.mark.parametrize("parking", PARKINGS.values(), ids=PARKINGS)
@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_results_do_not_depend_on_threads(threads: int, parking: Parking | None) -> None:
    device = with_parking(threads, parking)
    instance = device.load(mixed_plan())
    for run in range(300):
        x = numbers(64 * WIDTH, run % 7)
        y = np.empty_like(x)
        instance.run([x], [y])
        assert np.array_equal(y, expected_of(x)), run
        if run % 50 == 49:
            time.sleep(0.002)  # workers fall asleep
    device.close()


@pytest.mark.parametrize("parking", PARKINGS.values(), ids=PARKINGS)
def test_workers_wake_up(parking: Parking | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no spinning at all, every step is a sleep and a wake-up on both sides."""
    monkeypatch.setattr("rewrite.runtime.threads.SPIN_NANOSECONDS", 0)
    device = with_parking(3, parking)
    instance = device.load(mixed_plan(200))
    x = numbers(200 * WIDTH)
    y = np.empty_like(x)
    for _ in range(200):
        y[...] = 0
        instance.run([x], [y])
        assert np.array_equal(y, expected_of(x))
    device.close()
    assert ours() == []


def test_a_native_wait_is_used_here() -> None:
    if sys.platform == "linux" and CpuDevice().isa.arch in ("x86_64", "aarch64"):
        assert parking_of(CpuDevice().isa).futex


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"),
    reason="this system does not tell a process which processors its threads may run on",
)
def test_workers_are_kept_off_the_leaders_processor() -> None:
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("workers go to other processors than the leader's: here there is only one")
    if not parking_of(CpuDevice().isa).futex:
        pytest.skip("the loop that places workers waits by futex, a call that only Linux has")
    device = running(2)
    instance = device.load(mixed_plan())
    x = numbers(64 * WIDTH)
    time.sleep(0.01)
    instance.run([x], [np.empty_like(x)])  # wakes the worker
    (worker,) = (t for t in threading.enumerate() if t.name in ours() and t.ident not in OTHERS)
    assert worker.native_id is not None
    there = os.sched_getaffinity(worker.native_id)
    assert there < allowed
    assert len(there) == len(allowed) - 1
    assert os.sched_getaffinity(0) == allowed
    device.close()


def test_sessions_in_threads_at_once() -> None:
    """Some share a device and its workers, some have their own, one instance is used by two."""
    shared = CpuDevice(threads=2)
    instances = [shared.load(mixed_plan()) for _ in range(2)]
    instances += [CpuDevice(threads=2).load(mixed_plan()), CpuDevice().load(mixed_plan())]
    instances.append(instances[0])

    def work(k: int) -> bool:
        for run in range(100):
            x = numbers(64 * WIDTH, 100 * k + run)
            y = np.empty_like(x)
            instances[k].run([x], [y])
            if not np.array_equal(y, expected_of(x)):
                return False
        return True

    with ThreadPoolExecutor(len(instances)) as pool:
        assert all(pool.map(work, range(len(instances)))), "a result differs"


def test_small_plans_wake_nobody() -> None:
    device = CpuDevice(threads=4)
    instance = device.load(chain(1000, [AddNumber(1.0)] * 5, grain=1000))
    x = numbers(1000)
    instance.run([x], [np.empty_like(x)])
    assert ours() == []


@pytest.mark.parametrize("items", [1, 2, 7, 100, 4096, 10**6])
@pytest.mark.parametrize("grain", [1, 3, 100, 5000])
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_how_steps_are_divided(items: int, grain: int, threads: int) -> None:
    call = chain(items, [AddNumber(1.0)], grain=grain).calls[0]
    chunk, chunks = divide(call, threads)
    assert (chunks - 1) * chunk < items <= chunks * chunk
    assert chunks <= instance_module.CHUNKS_PER_THREAD * threads
    if threads == 1 or items <= grain:
        assert chunks == 1
    elif chunks > 1:
        assert chunk >= grain


def test_faults_in_any_chunk() -> None:
    """Every thread's fault is seen, whichever chunk it was in."""
    device = CpuDevice(threads=3)
    n = 240
    instance = device.load(chain(n, [Divide()] * 3, dtype="s32", grain=10))
    fine = np.full(n, 30, np.int32)
    y = np.empty_like(fine)
    for k in range(n):
        bad = fine.copy()
        bad[k] = 0
        with pytest.raises(RewriteError, match="RW820"):
            instance.run([bad], [y])
    instance.run([fine], [y])
    assert (y == 1000 // (1000 // (1000 // 30))).all()
    device.close()


# --- the life of threads ------------------------------------------------------------------------


def running(threads: int = 3) -> CpuDevice:
    """A device whose workers have begun."""
    device = CpuDevice(threads=threads)
    x = numbers(64 * WIDTH)
    device.load(mixed_plan()).run([x], [np.empty_like(x)])
    return device


def test_workers_end_with_close() -> None:
    device = running()
    assert len(ours()) == 2
    instance = device.load(mixed_plan())
    device.close()
    device.close()
    assert ours() == []
    x = numbers(64 * WIDTH)
    y = np.empty_like(x)
    instance.run([x], [y])  # on one thread
    assert np.array_equal(y, expected_of(x))
    assert ours() == []


def test_workers_end_with_the_device() -> None:
    device = running()
    assert len(ours()) == 2
    del device
    gc.collect()
    assert ours() == []


def test_idle_workers_take_no_time() -> None:
    device = running(4)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.02
    device.close()


def test_an_interrupted_run_gives_the_workers_back() -> None:
    device = CpuDevice(threads=2)
    slow = device.load(chain(400, [Delay(100_000)] * 500, grain=10))
    x = numbers(400)
    y = np.empty_like(x)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        slow.run([x], [y])
    timer.join()
    assert device._workers.acquire() != 0
    device._workers.release()
    device.close()


PROLOGUE = """
import os, sys, threading, time
import numpy as np
from tests.runtime.test_threads import running, mixed_plan, numbers, expected_of, WIDTH, ours
device = running()
assert len(ours()) == 2
"""

ENDS = {
    "falls off the end": (0, ""),
    "sys.exit": (3, "sys.exit(3)"),
    "exception": (1, "raise ValueError"),
    "os._exit": (5, "os._exit(5)"),
    "threads still asleep": (0, "time.sleep(0.05)"),
    "kept by a module": (0, "sys.modules['numpy'].kept = device"),
    "close at exit": (0, "import atexit; atexit.register(device.close)"),
    "while a thread runs": (
        0,
        """
def forever():
    instance = device.load(mixed_plan())
    x = numbers(64 * WIDTH)
    while True:
        instance.run([x], [np.empty_like(x)])
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
""",
    ),
    "killed by a signal": (-15, "import signal; os.kill(os.getpid(), signal.SIGTERM)"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_process_with_workers_ends(name: str) -> None:
    code, text = ENDS[name]
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + text], timeout=60, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    assert b"Fatal" not in done.stderr


FORK = """
instance = device.load(mixed_plan())
x = numbers(64 * WIDTH)
def check():
    y = np.empty_like(x)
    instance.run([x], [y])
    assert np.array_equal(y, expected_of(x))
stop = []
def busy():  # holds locks now and then while the process forks
    other = device.load(mixed_plan())
    while not stop:
        other.run([x], [np.empty_like(x)])
        instance.run([x], [np.empty_like(x)])
helper = threading.Thread(target=busy)
helper.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        check()
        check()
        if len(ours()) != 2:
            os._exit(9)
        device.close()
        os._exit(0 if not ours() else 8)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
    check()
stop.append(1)
helper.join()
child = os.fork()
if child == 0:
    check()
    sys.exit(4)  # an ordinary end, with workers of its own
assert os.waitpid(child, 0)[1] == 4 << 8
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork a process")
def test_children_of_a_fork_have_workers_of_their_own() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROLOGUE + FORK],
        timeout=120,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


NO_THREADS = """
device = __import__("rewrite.runtime.device", fromlist=["x"]).CpuDevice(threads=4)
instance = device.load(mixed_plan())
start, threading.Thread.start = threading.Thread.start, None
def refuse(self):
    if self.name == "rewrite-2":
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = refuse
x = numbers(64 * WIDTH)
try:
    instance.run([x], [np.empty_like(x)])
except Exception as problem:
    print(problem)
assert ours() == []  # the one that began has ended
threading.Thread.start = start
y = np.empty_like(x)
instance.run([x], [y])
assert np.array_equal(y, expected_of(x))
"""


def test_threads_that_cannot_be_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + NO_THREADS], timeout=60, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == (
        "error[RW824]: thread 3 of 4 cannot be started: can't start new thread"
    )
