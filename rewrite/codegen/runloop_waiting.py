"""How the threads of a pool wait for each other: native code, written into other functions.

In: an `Isa`, how threads sleep. Out: `Waiting`, which writes spinning, sleeping and waking.
rewrite/codegen/runloop.py says when.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rewrite.codegen.ir import Function, Module
from rewrite.codegen.isa import Isa
from rewrite.codegen.runloop_layout import (
    CONDITION_OFFSET,
    CPU_WORDS,
    LOCK_BYTES,
    Pool,
    atomic_add,
    atomic_load,
    atomic_store,
    get_word,
    set_word,
)
from rewrite.codegen.value import Value

_WAIT, _WAKE = 128, 129  # FUTEX_WAIT and FUTEX_WAKE with FUTEX_PRIVATE_FLAG
LOW_HALF = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Parking:
    """How a thread sleeps until a word changes.

    `futex`: the number of Linux's system call of that name; 0: POSIX mutexes and conditions.
    """

    futex: int


# Numbers of Linux: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
CONDITION = Parking(0)


def parking_of(isa: Isa) -> Parking:
    return Parking(_FUTEX.get(isa.arch, 0) if "linux" in isa.triple else 0)


class Waiting:
    """Writes into functions of one module."""

    def __init__(self, module: Module, isa: Isa, parking: Parking) -> None:
        self.module = module
        self.isa = isa
        self.parking = parking

    def await_done(self, f: Function, pool: Value, chunks: Value) -> None:
        """The leader waits until DONE is `chunks`: spins a while, then sleeps."""
        clock = f.slot("i64", count=2)
        spin = get_word(f, pool, Pool.SPIN)

        def sleep() -> None:
            atomic_store(f, pool, Pool.WAITING, f.const(1, "i64"))
            done = atomic_load(f, pool, Pool.DONE, "seq_cst")
            missing = f.compare("!=", done, chunks)
            f.if_(missing, lambda: self._park(f, pool, Pool.DONE, done, 0))
            atomic_store(f, pool, Pool.WAITING, f.const(0, "i64"))

        def clocked(since: Value) -> Value:
            now = self.now(f, clock)
            begun = f.select(f.compare("==", since, 0), now, since)
            f.if_(f.compare(">", now - begun, spin), sleep)
            return begun

        def turn(count: Value, since: Value) -> tuple[Value, ...]:
            self.pause(f)
            looks = count + 1
            look = f.compare("==", f.binary("and", looks, 63), 0)
            begun = f.if_(look, lambda: clocked(since), lambda: since, 1)[0]
            done = atomic_load(f, pool, Pool.DONE, "acquire")
            return f.compare("!=", done, chunks), looks, begun

        zero = f.const(0, "i64")
        done = atomic_load(f, pool, Pool.DONE, "acquire")
        f.if_(f.compare("!=", done, chunks), lambda: nothing(f.while_(turn, [zero, zero])))

    def sleep(self, f: Function, pool: Value) -> None:
        """A worker sleeps until there is a new step or the pool stops."""
        atomic_add(f, pool, Pool.SLEEPERS, 1)
        generation = atomic_load(f, pool, Pool.GENERATION, "seq_cst")
        state = atomic_load(f, pool, Pool.STATE, "seq_cst")
        stop = f.compare("!=", atomic_load(f, pool, Pool.STOP, "seq_cst"), 0)
        busy = f.binary("or", claimable(f, state), stop)
        f.if_(busy, lambda: None, lambda: self._park(f, pool, Pool.GENERATION, generation, 1))
        atomic_add(f, pool, Pool.SLEEPERS, -1)

    def summon(self, f: Function, pool: Value) -> None:
        """Wakes workers, on other processors than this one.

        The system likes to wake a thread where its waker runs, and then both share a processor
        until it balances its load milliseconds later.
        """
        if self.parking.futex:
            placed = get_word(f, pool, Pool.PLACED)
            f.if_(f.compare("!=", placed, 0), lambda: self._place(f, pool, placed))
        self.wake_workers(f, pool)

    def _place(self, f: Function, pool: Value, count: Value) -> None:
        """Keeps workers off the processor that this thread is on, where it has moved."""
        cpu = f.cast("zext", f.call("sched_getcpu", "i32"), "i64")

        def move() -> None:
            set_word(f, pool, Pool.CPU, cpu)
            mask = f.at(pool, int(Pool.OTHERS), "i64")

            def word(i: Value) -> None:
                allowed = f.load("i64", f.at(pool, i + int(Pool.ALLOWED), "i64"))
                bit = f.binary("shl", 1, f.binary("and", cpu, 63))
                here = f.compare("==", f.binary("lshr", cpu, 6), i)
                without = f.binary("and", allowed, f.binary("xor", bit, -1))
                f.store(f.select(here, without, allowed), f.at(mask, i, "i64"))

            def thread(i: Value) -> None:
                number = f.load("i64", f.at(pool, i + int(Pool.THREADS), "i64"))
                size = f.const(8 * CPU_WORDS, "i64")
                f.call("sched_setaffinity", "i32", f.cast("trunc", number, "i32"), size, mask)

            f.loop(0, CPU_WORDS, word)
            f.loop(0, count, thread)

        f.if_(f.compare("!=", cpu, get_word(f, pool, Pool.CPU)), move)

    def wake_workers(self, f: Function, pool: Value) -> None:
        atomic_add(f, pool, Pool.GENERATION, 1)
        self.wake(f, pool, Pool.GENERATION, 1)

    def _park(self, f: Function, pool: Value, word: Pool, seen: Value, lock: int) -> None:
        """Sleep while the low half of the word is what was seen; may return without cause."""
        address = f.at(pool, int(word), "i64")
        low = f.cast("trunc", seen, "i32")
        if self.parking.futex:
            self._futex(f, address, _WAIT, low)
            return
        mutex, condition = locks(f, pool, lock)
        f.call("pthread_mutex_lock", "i32", mutex)
        now = f.cast("trunc", atomic_load(f, pool, word, "seq_cst"), "i32")
        f.if_(
            f.compare("==", now, low),
            lambda: nothing(f.call("pthread_cond_wait", "i32", condition, mutex)),
        )
        f.call("pthread_mutex_unlock", "i32", mutex)

    def wake(self, f: Function, pool: Value, word: Pool, lock: int) -> None:
        """Wake all who sleep on a word."""
        if self.parking.futex:
            self._futex(f, f.at(pool, int(word), "i64"), _WAKE, f.const(2**31 - 1, "i32"))
            return
        mutex, condition = locks(f, pool, lock)
        f.call("pthread_mutex_lock", "i32", mutex)
        f.call("pthread_cond_broadcast", "i32", condition)
        f.call("pthread_mutex_unlock", "i32", mutex)

    def _futex(self, f: Function, address: Value, operation: int, value: Value) -> None:
        self.module.declare("syscall", "i64", ["i64", "..."])
        f.op(
            f"call i64 (i64, ...) @syscall(i64 {self.parking.futex}, ptr {address.text}, "
            f"i32 {operation}, i32 {value.text}, ptr null, ptr null, i32 0)",
            "i64",
        )

    def now(self, f: Function, clock: Value) -> Value:
        """Nanoseconds of the steady clock; `clock`: 16 bytes for the answer."""
        f.call("clock_gettime", "i32", f.const(time.CLOCK_MONOTONIC, "i32"), clock)
        seconds = f.load("i64", clock)
        found: Value = seconds * 1_000_000_000 + f.load("i64", f.at(clock, 1, "i64"))
        return found

    def pause(self, f: Function) -> Value:
        """Tells the processor that this thread waits."""
        if self.isa.arch == "x86_64":
            f.call("llvm.x86.sse2.pause", "void")
        elif self.isa.arch == "aarch64":
            f.call("llvm.aarch64.hint", "void", f.const(1, "i32"))
        return f.const(0, "i64")


def claimable(f: Function, state: Value) -> Value:
    """Whether a state, or a ticket, has a chunk left."""
    return f.compare("<", f.binary("and", state, LOW_HALF), f.binary("lshr", state, 32))


def locks(f: Function, pool: Value, lock: int) -> tuple[Value, Value]:
    mutex = f.at(pool, Pool.LOCKS * 8 + lock * LOCK_BYTES)
    return mutex, f.at(mutex, CONDITION_OFFSET)


def nothing(_: object) -> None:
    """For what is called for its effect where nothing is to be carried on."""
