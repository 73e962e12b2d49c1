"""The memory that the native loop, its workers and Python share: where what stands.

In: nothing. Out: numbers of 8-byte words in four kinds of records, and how code reads and writes
them.
"""

from __future__ import annotations

from enum import IntEnum

from rewrite.codegen.ir import Function
from rewrite.codegen.value import Value


class Control(IntEnum):
    """What belongs to one instance of a plan."""

    STEPS = 0  # address of the records
    COUNT = 1
    PATCHES = 2  # address of the patches
    PATCH_COUNT = 3
    ARRAYS = 4  # address of a table: where pointers to the data of inputs and outputs stand
    HEADER = 5  # added to each of those
    SCRATCH = 6  # of thread 0
    SCRATCH_STRIDE = 7  # bytes from one thread's scratch to the next one's
    STATUS = 8  # of the step that found fault
    SLICE = 9  # nanoseconds after which `run` returns
    TIMES = 10  # address of nanoseconds per step, added to; only where profiled


class Step(IntEnum):
    """One kernel to be called."""

    KERNEL = 0
    WORDS = 1
    ITEMS = 2
    CHUNK = 3  # items of one chunk
    CHUNKS = 4  # 1: not shared
    WATCH = 5  # 1: look at the clock behind this step


class Patch(IntEnum):
    """A word that follows an input or output: its address is the array's data plus OFFSET."""

    WORD = 0
    ARRAY = 1
    OFFSET = 2


class Pool(IntEnum):
    """What the leader shares with its workers. What is written by different threads lies on
    different cache lines."""

    STATE = 0
    KERNEL = 16
    WORDS = 17
    ITEMS = 18
    CHUNK = 19
    SCRATCH = 20
    SCRATCH_STRIDE = 21
    STATUS = 22  # the largest of the chunks' statuses
    DONE = 32
    WAITING = 33  # the leader sleeps until DONE is complete
    GENERATION = 48
    SLEEPERS = 49
    STOP = 64
    SPIN = 65
    PLACED = 66  # workers whose processors are chosen; 0: the system alone chooses
    CPU = 67  # where the leader was when they were chosen last
    LOCKS = 80  # room for two of the system's mutexes with their conditions
    ALLOWED = 208  # a bit per processor that this process may use
    OTHERS = 224  # the same without the leader's
    THREADS = 240  # the system's numbers of the workers


CONTROL_WORDS, STEP_WORDS, PATCH_WORDS = 16, 8, 3
POOL_WORDS = int(Pool.THREADS)  # and one per worker
CPU_WORDS = 16  # of 64 processors each
LOCK_BYTES, CONDITION_OFFSET = 512, 256  # a mutex, and its condition behind it


# --- access --------------------------------------------------------------------------------------


def get_word(f: Function, base: Value, word: IntEnum, type_: str = "i64") -> Value:
    return f.load(type_, f.at(base, int(word), "i64"), 8)


def set_word(f: Function, base: Value, word: IntEnum, x: Value) -> None:
    f.store(x, f.at(base, int(word), "i64"), 8)


def atomic_load(f: Function, base: Value, word: IntEnum, order: str) -> Value:
    return f.op(f"load atomic i64, ptr {f.at(base, int(word), 'i64').text} {order}, align 8", "i64")


def atomic_store(f: Function, base: Value, word: IntEnum, x: Value) -> None:
    address = f.at(base, int(word), "i64")
    f.do(f"store atomic i64 {x.text}, ptr {address.text} seq_cst, align 8")


def atomic_add(f: Function, base: Value, word: IntEnum, x: Value | int) -> Value:
    """What stood there before."""
    address, added = f.at(base, int(word), "i64"), f.i64(x)
    return f.op(f"atomicrmw add ptr {address.text}, i64 {added.text} seq_cst", "i64")


def atomic_maximum(f: Function, base: Value, word: IntEnum, x: Value) -> None:
    address = f.at(base, int(word), "i64")
    f.op(f"atomicrmw umax ptr {address.text}, i64 {x.text} seq_cst", "i64")
