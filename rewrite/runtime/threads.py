"""The threads that share the steps of plans.

In: how many. Out: `Workers`: the address of a pool for one run at a time. What the threads do is
native code (rewrite/codegen/runloop.py); here they are begun and ended. They are Python threads
that spend their lives in one native call, without the interpreter's lock.

Threads begin when a run first asks for them. They end with `close`, with the last reference to the
`Workers`, and before the interpreter goes down; in a child made by `fork` they are begun anew. A
run that finds the pool in use by another one does its work alone: so runs at the same time neither
wait for each other nor use more threads than there are.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any

import numpy as np

from rewrite.codegen.compile import to_object
from rewrite.codegen.kernel import Code
from rewrite.codegen.runloop import gate_code, worker_code
from rewrite.codegen.runloop_layout import CPU_WORDS, POOL_WORDS, Pool
from rewrite.codegen.runloop_waiting import Parking, parking_of
from rewrite.errors import error
from rewrite.runtime.forks import renew_after_fork
from rewrite.runtime.memory import Array, address_of, words
from rewrite.runtime.objects import Objects

SPIN_NANOSECONDS = 60_000  # what waking a thread takes; a thread that waits longer sleeps
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class Workers:
    """`count` threads besides the one that runs a plan."""

    def __init__(self, objects: Objects, count: int, parking: Parking | None = None) -> None:
        self.count = count
        self.parking = parking_of(objects.isa) if parking is None else parking
        self._objects = objects
        self._closed = False
        self._end: weakref.finalize[Any, Any] | None = None
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """A pool nobody works for; also in the child of a fork, which has none of the threads."""
        if self._end is not None:
            self._end.detach()
        self._end = None
        # Kept here too: at the interpreter's end a thread may still lead a run.
        self._pool: Array | None = None
        self._address = 0
        self._free = threading.Lock()

    def acquire(self) -> int:
        """The address of the pool, which is the caller's until `release`; 0: work alone."""
        if self.count == 0 or self._closed or not self._free.acquire(blocking=False):
            return 0
        if self._end is None:
            try:
                self._start()
            except BaseException:
                self._abandon()
                self._free.release()
                raise
        return self._address

    def release(self) -> None:
        self._free.release()

    def close(self) -> None:
        """Ends the threads; runs that come later are done by their own thread alone."""
        with self._free:
            self._closed = True
            if self._end is not None:
                self._end()

    def _abandon(self) -> None:
        """Ends what a start has begun that did not come to its end."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def _start(self) -> None:
        pool = words(POOL_WORDS + self.count)
        pool[Pool.SPIN] = SPIN_NANOSECONDS
        address = address_of(pool)
        gate = self._function(gate_code(self._objects.isa, self.parking))
        work = self._function(worker_code(self._objects.isa, self.parking))
        gate(address, 0)
        threads: list[threading.Thread] = []
        # Called once: by `close`, when this object goes, or before the interpreter does.
        self._end = weakref.finalize(self, _stop, gate, pool, threads)
        for number in range(1, self.count + 1):
            thread = threading.Thread(
                target=_live, args=(work, pool, number), name=f"rewrite-{number}", daemon=True
            )
            threads.append(thread)
            try:
                thread.start()
            except RuntimeError as problem:
                raise error(
                    "RW824",
                    f"thread {number + 1} of {self.count + 1} cannot be started: {problem}",
                    hint="ask for fewer threads, or raise the limit of processes (ulimit -u)",
                ) from None
        if self.parking.futex:
            _let_place(pool, threads)
        self._pool, self._address = pool, address

    def _function(self, code: Code) -> Any:
        isa = self._objects.isa
        return _FUNCTION(self._objects.load(code.symbol, lambda: to_object(code, isa)))


def _let_place(pool: Array, threads: list[threading.Thread]) -> None:
    """Tells the pool which processors there are, if each worker can have one beside the leader."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) <= len(threads) or allowed[-1] >= 64 * CPU_WORDS:
        return
    bits = np.zeros(64 * CPU_WORDS, np.uint8)
    bits[allowed] = 1
    packed = np.packbits(bits, bitorder="little").view(np.int64)
    pool[Pool.ALLOWED : Pool.ALLOWED + CPU_WORDS] = packed
    pool[Pool.THREADS : Pool.THREADS + len(threads)] = [thread.native_id for thread in threads]
    pool[Pool.CPU] = -1
    pool[Pool.PLACED] = len(threads)


def _live(work: Any, pool: Array, number: int) -> None:
    """A worker's life; it keeps the pool's memory."""
    work(address_of(pool), number)


def _stop(gate: Any, pool: Array, threads: list[threading.Thread]) -> None:
    """Each worker finishes the chunk it is at, and ends."""
    gate(address_of(pool), 1)
    for thread in threads:
        if thread.ident is not None and thread is not threading.current_thread():
            thread.join()
