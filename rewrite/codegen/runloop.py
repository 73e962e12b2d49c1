"""Native code that runs plans: the loop over steps, and the life of a worker thread.

In: an `Isa`, how threads wait. Out: `Code` of one function each:

    i64 run(ptr control, i64 first, ptr pool)     `run_code`
    i64 work(ptr pool, i64 thread)                `worker_code`
    i64 gate(ptr pool, i64 stop)                  `gate_code`: makes a pool ready, or ends it
    i64 turns(ptr record, ptr pool)               `turns_code`: see rewrite/codegen/runloop_turns.py

`run` calls the kernels of steps first, first + 1, … and returns the number of the step to go on
with: the number of steps when all is done, fewer when its slice of time is over (the caller looks
for signals and calls again), -(k + 1) when step k found fault with the data. A step that is divided
into chunks is shared with the workers of `pool`, where that is not null.

How threads share a step. One word of the pool, STATE, is (chunks << 32 | next): adding 1 to it
claims the chunk `next` of the step that the high half belongs to; claims at or above `chunks` are
void. Whoever holds a valid claim is counted in DONE later, and the leader (the thread in `run`)
publishes no other step before DONE is complete: so the fields of a step stand still while anybody
works on it, a worker that comes late finds nothing to claim or a chunk of a later step, and no
thread ever waits for a worker that holds no claim.

Waiting is spinning for SPIN nanoseconds, then sleeping on a word: GENERATION for workers, DONE for
the leader. Both sides write before they read, sequentially consistent, so no wake-up is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache

from rewrite.codegen.ir import Function, Module
from rewrite.codegen.isa import Isa
from rewrite.codegen.kernel import Code
from rewrite.codegen.runloop_layout import (
    PATCH_WORDS,
    STEP_WORDS,
    Control,
    Patch,
    Pool,
    Step,
    atomic_add,
    atomic_load,
    atomic_maximum,
    atomic_store,
    get_word,
    set_word,
)
from rewrite.codegen.runloop_turns import write_turns
from rewrite.codegen.runloop_waiting import (
    LOW_HALF,
    Parking,
    Waiting,
    claimable,
    locks,
    nothing,
)
from rewrite.codegen.value import Value

# --- the functions ------------------------------------------------------------------------------


@cache
def run_code(isa: Isa, parking: Parking, profiled: bool = False) -> Code:
    """The loop over steps."""
    return _module("run", isa, parking, lambda writer, name: writer.run(name, profiled))


@cache
def worker_code(isa: Isa, parking: Parking) -> Code:
    """What a worker does until the pool stops."""
    return _module("worker", isa, parking, lambda writer, name: writer.worker(name))


@cache
def gate_code(isa: Isa, parking: Parking) -> Code:
    """What is called once before the first worker begins, and once to end them all."""
    return _module("gate", isa, parking, lambda writer, name: writer.gate(name))


@cache
def turns_code(isa: Isa, parking: Parking) -> Code:
    """The loop over turns of a plan."""
    return _module(
        "turns", isa, parking, lambda writer, name: write_turns(writer.module, name, writer.wait)
    )


def _module(
    prefix: str, isa: Isa, parking: Parking, function: Callable[[_Writer, str], None]
) -> Code:
    """A module of one function. Its symbol digests its text, so that objects on disk can be found
    by it."""

    def written(symbol: str) -> str:
        module = Module(prefix)
        function(_Writer(module, isa, parking), symbol)
        return module.text()

    digest = hashlib.sha256(f"{isa!r}\n{written(prefix)}".encode()).hexdigest()
    symbol = f"{prefix}_{digest[:24]}"
    return Code(symbol, written(symbol))


class _Writer:
    """Writes the functions of one module."""

    def __init__(self, module: Module, isa: Isa, parking: Parking) -> None:
        self.module = module
        self.isa = isa
        self.parking = parking
        self.wait = Waiting(module, isa, parking)

    def run(self, symbol: str, profiled: bool) -> None:
        self._share()
        self._lead()
        f = self.module.function(
            symbol, [("ptr", "control"), ("i64", "first"), ("ptr", "pool")], returns="i64"
        )
        control, first, pool = f.arg("control"), f.arg("first"), f.arg("pool")
        restore = self._standard_floats(f)
        f.if_(f.compare("==", first, 0), lambda: _bind(f, control))
        steps = get_word(f, control, Control.STEPS, "ptr")
        count = get_word(f, control, Control.COUNT)
        scratch = get_word(f, control, Control.SCRATCH, "ptr")
        slice_ = get_word(f, control, Control.SLICE)
        times = get_word(f, control, Control.TIMES, "ptr")
        clock = f.slot("i64", count=2)

        def step(i: Value, deadline: Value, before: Value, _: Value) -> tuple[Value, ...]:
            record = f.at(steps, i * STEP_WORDS, "i64")
            status = self._call(f, control, pool, record, scratch)
            after = before
            if profiled:
                after = self.wait.now(f, clock)
                spent = f.at(times, i, "i64")
                f.store(f.load("i64", spent) + (after - before), spent)
            watch = f.compare("!=", get_word(f, record, Step.WATCH), 0)
            late, until = f.if_(
                watch,
                lambda: _late(f, after if profiled else self.wait.now(f, clock), deadline, slice_),
                lambda: (f.const(False, "i1"), deadline),
                2,
            )
            following = i + 1
            over = f.binary("or", late, f.compare("!=", status, 0))
            again = f.binary(
                "and", f.compare("<", following, count), f.binary("xor", over, f.const(True, "i1"))
            )
            return again, following, until, after, status

        zero = f.const(0, "i64")
        begin = self.wait.now(f, clock) if profiled else zero
        following, _, _, status = f.while_(step, [first, zero, begin, zero])
        set_word(f, control, Control.STATUS, status)
        restore()
        f.ret(f.select(f.compare("!=", status, 0), f.neg(following), following))

    def worker(self, symbol: str) -> None:
        self._share()
        f = self.module.function(symbol, [("ptr", "pool"), ("i64", "thread")], returns="i64")
        pool, thread = f.arg("pool"), f.arg("thread")
        self._standard_floats(f)
        clock = f.slot("i64", count=2)
        spin = get_word(f, pool, Pool.SPIN)

        def turn(count: Value, since: Value) -> tuple[Value, ...]:
            """One look at the pool; `since`: when it last had work, `count`: looks since then."""
            worked = f.if_(
                claimable(f, atomic_load(f, pool, Pool.STATE, "acquire")),
                lambda: (f.call("share", "i64", pool, thread), f.const(0, "i64")),
                lambda: (self.wait.pause(f), count + 1),
                2,
            )[1]
            rest = f.binary("and", worked, 63)
            looked = f.compare("==", rest, 0)
            since_, again = f.if_(looked, lambda: clocked(worked, since), lambda: (since, yes), 2)
            return again, worked, since_

        def clocked(count: Value, since: Value) -> tuple[Value, Value]:
            now = self.wait.now(f, clock)
            fresh = f.compare("==", count, 0)
            begun = f.select(fresh, now, since)
            bored = f.compare(">", now - begun, spin)
            f.if_(bored, lambda: self.wait.sleep(f, pool))
            stop = atomic_load(f, pool, Pool.STOP, "acquire")
            rested = f.if_(bored, lambda: self.wait.now(f, clock), lambda: begun, 1)[0]
            return rested, f.compare("==", stop, 0)

        yes = f.const(True, "i1")
        f.while_(turn, [f.const(0, "i64"), self.wait.now(f, clock)])
        f.ret(0)

    def gate(self, symbol: str) -> None:
        f = self.module.function(symbol, [("ptr", "pool"), ("i64", "stop")], returns="i64")
        pool = f.arg("pool")

        def prepare() -> None:
            for lock in (0, 1) if not self.parking.futex else ():
                mutex, condition = locks(f, pool, lock)
                f.call("pthread_mutex_init", "i32", mutex, f.zero("ptr"))
                f.call("pthread_cond_init", "i32", condition, f.zero("ptr"))

        def end() -> None:
            atomic_store(f, pool, Pool.STOP, f.const(1, "i64"))
            self.wait.wake_workers(f, pool)

        f.if_(f.compare("==", f.arg("stop"), 0), prepare, end)
        f.ret(0)

    # --- functions that others do not see -------------------------------------------------------

    def _call(
        self, f: Function, control: Value, pool: Value, record: Value, scratch: Value
    ) -> Value:
        """A step on this thread, or shared; its status."""
        chunks = get_word(f, record, Step.CHUNKS)
        shared = f.binary("and", f.compare(">", chunks, 1), f.compare("!=", pool, f.zero("ptr")))

        def alone() -> Value:
            kernel = get_word(f, record, Step.KERNEL, "ptr")
            words = get_word(f, record, Step.WORDS, "ptr")
            return _kernel(
                f, kernel, words, f.const(0, "i64"), get_word(f, record, Step.ITEMS), scratch
            )

        return f.if_(shared, lambda: f.call("lead", "i64", pool, control, record), alone, 1)[0]

    def _lead(self) -> None:
        """i64 lead(pool, control, record): publishes a step, works on it, waits for the others."""
        f = self.module.function(
            "lead", [("ptr", "pool"), ("ptr", "control"), ("ptr", "record")], "i64", internal=True
        )
        pool, control, record = f.arg("pool"), f.arg("control"), f.arg("record")
        for target, source in _PUBLISHED:
            set_word(f, pool, target, get_word(f, record, source))
        set_word(f, pool, Pool.SCRATCH, get_word(f, control, Control.SCRATCH))
        set_word(f, pool, Pool.SCRATCH_STRIDE, get_word(f, control, Control.SCRATCH_STRIDE))
        set_word(f, pool, Pool.STATUS, f.const(0, "i64"))
        set_word(f, pool, Pool.DONE, f.const(0, "i64"))
        chunks = get_word(f, record, Step.CHUNKS)
        atomic_store(f, pool, Pool.STATE, f.binary("shl", chunks, 32))
        asleep = atomic_load(f, pool, Pool.SLEEPERS, "seq_cst")
        f.if_(f.compare("!=", asleep, 0), lambda: self.wait.summon(f, pool))
        f.call("share", "i64", pool, f.const(0, "i64"))
        self.wait.await_done(f, pool, chunks)
        f.ret(get_word(f, pool, Pool.STATUS))

    def _share(self) -> None:
        """i64 share(pool, thread): works on chunks of the published step while there are any."""
        f = self.module.function(
            "share", [("ptr", "pool"), ("i64", "thread")], "i64", internal=True
        )
        pool, thread = f.arg("pool"), f.arg("thread")

        def claimed() -> None:
            kernel, words = (
                get_word(f, pool, Pool.KERNEL, "ptr"),
                get_word(f, pool, Pool.WORDS, "ptr"),
            )
            items, chunk = get_word(f, pool, Pool.ITEMS), get_word(f, pool, Pool.CHUNK)
            mine = thread * get_word(f, pool, Pool.SCRATCH_STRIDE)
            scratch = f.at(get_word(f, pool, Pool.SCRATCH, "ptr"), mine)

            def work(ticket: Value, count: Value) -> tuple[Value, ...]:
                begin = f.binary("and", ticket, LOW_HALF) * chunk
                end = f.intrinsic("llvm.smin", "i64", begin + chunk, items)
                status = _kernel(f, kernel, words, begin, end, scratch)
                f.if_(
                    f.compare("!=", status, 0), lambda: atomic_maximum(f, pool, Pool.STATUS, status)
                )
                following = atomic_add(f, pool, Pool.STATE, 1)
                return claimable(f, following), following, count + 1

            _, count = f.while_(work, [first, f.const(0, "i64")])
            before = atomic_add(f, pool, Pool.DONE, count)
            last = f.compare("==", before + count, f.binary("lshr", first, 32))
            waits = f.compare("!=", atomic_load(f, pool, Pool.WAITING, "seq_cst"), 0)
            f.if_(f.binary("and", last, waits), lambda: self.wait.wake(f, pool, Pool.DONE, 0))

        first = atomic_add(f, pool, Pool.STATE, 1)
        f.if_(claimable(f, first), claimed)
        f.ret(0)

    def _standard_floats(self, f: Function) -> Callable[[], None]:
        """Rounds to nearest and keeps subnormal numbers, whatever a library of this process has
        set; gives what restores the setting."""
        if self.isa.arch == "x86_64":
            return _mxcsr(f)
        if self.isa.arch == "aarch64":
            before = f.call("llvm.aarch64.get.fpcr", "i64")
            f.call("llvm.aarch64.set.fpcr", "void", f.const(0, "i64"))
            return lambda: nothing(f.call("llvm.aarch64.set.fpcr", "void", before))
        return lambda: None


# --- parts of them ------------------------------------------------------------------------------

_MXCSR = 0x1F80  # its value at a process's start: all exceptions masked, nothing flushed
_PUBLISHED = (
    (Pool.KERNEL, Step.KERNEL),
    (Pool.WORDS, Step.WORDS),
    (Pool.ITEMS, Step.ITEMS),
    (Pool.CHUNK, Step.CHUNK),
)


def _bind(f: Function, control: Value) -> None:
    """Writes the addresses of inputs and outputs into the words of kernels."""
    patches = get_word(f, control, Control.PATCHES, "ptr")
    arrays = get_word(f, control, Control.ARRAYS, "ptr")
    header = get_word(f, control, Control.HEADER)

    def patch(i: Value) -> None:
        record = f.at(patches, i * PATCH_WORDS, "i64")
        owner = f.load("ptr", f.at(arrays, get_word(f, record, Patch.ARRAY), "i64"), 8)
        data = f.load("i64", f.at(owner, header), 8)
        f.store(data + get_word(f, record, Patch.OFFSET), get_word(f, record, Patch.WORD, "ptr"))

    f.loop(0, get_word(f, control, Control.PATCH_COUNT), patch)


def _late(f: Function, now: Value, deadline: Value, slice_: Value) -> tuple[Value, Value]:
    """Whether the slice of time is over; it begins when the clock is first looked at."""
    until = f.select(f.compare("==", deadline, 0), now + slice_, deadline)
    return f.compare(">", now, until), until


def _kernel(
    f: Function, kernel: Value, words: Value, begin: Value, end: Value, scratch: Value
) -> Value:
    passed = f"ptr {words.text}, i64 {begin.text}, i64 {end.text}, ptr {scratch.text}"
    return f.op(f"call i64 {kernel.text}({passed})", "i64")


def _mxcsr(f: Function) -> Callable[[], None]:
    kept, standard = f.slot("i32"), f.slot("i32")
    f.store(f.const(_MXCSR, "i32"), standard)
    f.call("llvm.x86.sse.stmxcsr", "void", kept)
    f.call("llvm.x86.sse.ldmxcsr", "void", standard)
    return lambda: nothing(f.call("llvm.x86.sse.ldmxcsr", "void", kept))
