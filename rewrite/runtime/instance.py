"""A plan in memory, ready to run.

In: `Plan`, addresses of its kernels. Out: `Instance`: one native call per inference (more only
where it takes long, so that signals are seen).

Everything a run needs is laid out here once: the arena, the words of every kernel, the records of
steps, and the list of words that follow the caller's arrays (rewrite/codegen/runloop.py reads it).
Runs of one instance wait for each other; different instances run at the same time.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewrite.codegen.runloop_layout import (
    CONTROL_WORDS,
    PATCH_WORDS,
    STEP_WORDS,
    Control,
    Step,
)
from rewrite.errors import RewriteError, error
from rewrite.ops.dtypes import to_numpy
from rewrite.plan.spec import FAULTS, Call, Place, Plan, Pointwise
from rewrite.plan.view import BYTES, View
from rewrite.runtime import profile
from rewrite.runtime.forks import renew_after_fork
from rewrite.runtime.memory import ALIGNMENT, Array, address_of, aligned, data_header, words
from rewrite.runtime.threads import Workers
from rewrite.runtime.turns import Record, Turning

SLICE_NANOSECONDS = 50_000_000
CHUNKS_PER_THREAD = 8
# Behind how much work the clock is looked at, in estimated nanoseconds.
_WATCH_EVERY = 2_000.0
_Loop = Callable[[int, int, int], int]
_Turns = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Native:
    """What code the instance calls."""

    kernels: Sequence[int]  # addresses, one per call of the plan
    loop: _Loop
    loop_address: int
    profiled: Callable[[], _Loop]  # compiled when first asked for
    turns: Callable[[], _Turns]  # likewise


# What an array that is passed in must be: element type, shape, strides in bytes (None: row-major
# without gaps) and numpy's flags.
_Form = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...] | None, int]
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x001, 0x100, 0x400  # NPY_ARRAY_* of numpy's ndarraytypes.h


class Instance:
    """Made by `CpuDevice.load`. `close` frees its memory at once."""

    def __init__(
        self, plan: Plan, native: Native, constants: Sequence[Array], workers: Workers
    ) -> None:
        self.plan = plan
        self._native = native
        self._workers = workers
        self._input_count = len(plan.inputs)
        self._forms = [
            *(_form(view, _ALIGNED) for view in plan.inputs),
            *(_form(view, _ALIGNED | _WRITEABLE) for view in plan.outputs),
        ]
        self._calls = [
            (call, kernel)
            for call, kernel in zip(plan.calls, native.kernels, strict=True)
            if call.items > 0
        ]
        self._memory = _Memory(plan, [call for call, _ in self._calls], constants, workers.count)
        self._fill_steps()
        self._control = self._fill_control()
        self._runs = 0
        self._closed = False
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._user = 0  # the thread that holds the lock

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array], profile: bool = False) -> None:
        """Computes `outputs`, arrays of the caller, from `inputs`; they do not overlap."""
        self._refuse_itself()
        with self._lock:
            if self._closed:
                raise error("RW806", "the session is closed", hint="compile the model again")
            self._bind(inputs, outputs)
            if not self._calls:
                return
            loop = self._native.profiled() if profile else self._native.loop
            self._runs += profile
            pool = self._begin()
            try:
                self._drive(loop, pool)
            finally:
                self._end(pool)

    def repeat(self, turning: Turning) -> int:
        """Runs the plan again and again, as `turning` says; how many times."""
        self._refuse_itself()
        with self._lock:
            if self._closed:
                raise error("RW806", "the session is closed", hint="compile the model again")
            self._bind(turning.arrays[: self._input_count], turning.arrays[self._input_count :])
            control, turns = self._memory.control, self._native.turns()
            record = Record(turning, self._native.loop_address, self._control)
            own = control[Control.ARRAYS], control[Control.HEADER]
            pool, status = self._begin(), 0
            try:
                control[Control.ARRAYS], control[Control.HEADER] = record.table, 0
                while status == 0:  # between calls the interpreter handles signals
                    status = turns(record.address, pool)
            finally:
                control[Control.ARRAYS], control[Control.HEADER] = own
                self._end(pool)
            if status < 0:
                raise self._fault(-status - 1)
            return record.done

    def _begin(self) -> int:
        """This thread runs; the pool of threads where steps are shared, else 0."""
        pool = self._workers.acquire() if self._memory.shared else 0
        self._user = threading.get_ident()
        return pool

    def _end(self, pool: int) -> None:
        self._user = 0
        if pool:
            self._workers.release()

    def _refuse_itself(self) -> None:
        """A handler of a signal that interrupts a run would wait for that run without end."""
        if self._user == threading.get_ident():
            raise error(
                "RW806",
                "the session is asked for something while it runs in this very thread",
                hint="handlers of signals may not use the session that they interrupt",
            )

    def _drive(self, loop: _Loop, pool: int) -> None:
        """Between calls of the loop the interpreter handles signals, and may raise."""
        control, at, count = self._control, 0, len(self._calls)
        while 0 <= at < count:
            at = loop(control, at, pool)
        if at < 0:
            raise self._fault(-at - 1)

    def profile(self) -> profile.Profile:
        """What the runs with `profile=True` took."""
        times = self._memory.times.tolist()
        return profile.of([call for call, _ in self._calls], times, self._runs)

    def close(self) -> None:
        """Frees the memory; waits for a run that is under way."""
        self._refuse_itself()
        with self._lock:
            self._closed = True
            self._memory.free()

    # --- a run ---------------------------------------------------------------------------------

    def _bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        arrays = (*inputs, *outputs)
        if len(inputs) != self._input_count or len(arrays) != len(self._forms):
            raise _miscounted(self.plan, len(inputs), len(outputs))
        memory = self._memory
        slots, cells = memory.slots, memory.cells
        for k, array in enumerate(arrays):
            dtype, shape, strides, flags = self._forms[k]
            if (
                not isinstance(array, np.ndarray)
                or array.dtype != dtype
                or array.shape != shape
                or array.flags.num & flags != flags
                or (strides and array.strides != strides)
            ):
                raise _unfit(self.plan, k, array)
            if cells is None:
                slots[k] = id(array)
            else:
                cells[k] = address_of(array)

    def _fault(self, index: int) -> RewriteError:
        call = self._calls[index][0]
        status = int(self._memory.control[Control.STATUS])
        return error(
            "RW820",
            f"{call.label or type(call.spec).__name__}: {FAULTS.get(status, f'status {status}')}",
            hint="the data of this run do not allow the operation; give other data",
            subject=", ".join(call.nodes) or None,
        )

    # --- laid out once -------------------------------------------------------------------------

    def _fill_steps(self) -> None:
        memory, threads = self._memory, self._workers.count + 1
        estimate, word = 0.0, 0
        for k, (call, kernel) in enumerate(self._calls):
            step = memory.steps[k * STEP_WORDS : (k + 1) * STEP_WORDS]
            chunk, chunks = divide(call, threads)
            estimate += _nanoseconds(call)
            step[Step.KERNEL] = kernel
            step[Step.WORDS] = address_of(memory.words) + 8 * word
            step[Step.ITEMS] = call.items
            step[Step.CHUNK], step[Step.CHUNKS] = chunk, chunks
            step[Step.WATCH] = estimate >= _WATCH_EVERY
            estimate = 0.0 if estimate >= _WATCH_EVERY else estimate
            memory.shared |= chunks > 1
            word += len(call.words)

    def _fill_control(self) -> int:
        memory = self._memory
        control = memory.control
        control[Control.STEPS] = address_of(memory.steps)
        control[Control.COUNT] = len(self._calls)
        control[Control.PATCHES] = address_of(memory.patches)
        control[Control.PATCH_COUNT] = memory.patches.size // PATCH_WORDS
        control[Control.ARRAYS] = ctypes.addressof(memory.slots)
        control[Control.HEADER] = memory.header
        control[Control.SCRATCH] = address_of(memory.scratch)
        control[Control.SCRATCH_STRIDE] = memory.scratch_stride
        control[Control.SLICE] = SLICE_NANOSECONDS
        control[Control.TIMES] = address_of(memory.times)
        return address_of(control)


class _Memory:
    """All blocks of one instance."""

    def __init__(
        self, plan: Plan, calls: Sequence[Call], constants: Sequence[Array], workers: int
    ) -> None:
        self.arena = aligned(plan.arena_bytes)
        self.constants = list(constants)
        self.control = words(CONTROL_WORDS)
        self.steps = words(max(1, len(calls) * STEP_WORDS))
        self.times = words(max(1, len(calls)))[: len(calls)]
        self.words = words(max(1, sum(len(call.words) for call in calls)))
        self.scratch_stride = _rounded(max((c.scratch for c in calls), default=0)) + ALIGNMENT
        self.scratch = aligned(self.scratch_stride * (workers + 1))
        self.shared = False
        arrays = len(plan.inputs) + len(plan.outputs)
        # Where the address of each array's data is found: in the array object itself, or in cells.
        self.slots = (ctypes.c_int64 * max(1, arrays))()
        header = data_header()
        self.header = header or 0
        self.cells = words(max(1, arrays)) if header is None else None
        if self.cells is not None:
            self.slots[:] = [address_of(self.cells) + 8 * k for k in range(len(self.slots))]
        self.patches = self._place(plan, calls)

    def _place(self, plan: Plan, calls: Sequence[Call]) -> Array:
        """Fills the words whose value is known; gives the records of the others."""
        sizes = {
            "arena": [plan.arena_bytes],
            "constant": [constant.nbytes for constant in self.constants],
            "input": [_span(view) for view in plan.inputs],
            "output": [_span(view) for view in plan.outputs],
        }
        starts = {
            "arena": [address_of(self.arena)],
            "constant": [address_of(constant) for constant in self.constants],
        }
        first = {"input": 0, "output": len(plan.inputs)}
        patches: list[int] = []
        at = 0
        for call in calls:
            _assert_inside(call, sizes)
            for word in call.words:
                if not isinstance(word, Place):
                    self.words[at] = word
                elif word.region in first:
                    address = address_of(self.words) + 8 * at
                    patches += address, first[word.region] + word.index, word.offset
                else:
                    self.words[at] = starts[word.region][word.index] + word.offset
                at += 1
        found = words(max(PATCH_WORDS, len(patches)))[: len(patches)]
        found[...] = patches
        return found

    def free(self) -> None:
        nothing = words(1)
        self.arena = self.scratch = self.words = self.steps = self.patches = nothing
        self.constants = []


def divide(call: Call, threads: int) -> tuple[int, int]:
    """Items of one chunk, a multiple of the grain, and how many chunks; one where it is not worth
    another thread."""
    if threads == 1 or call.items <= call.grain:
        return call.items, 1
    grain = max(call.grain, 1)
    chunks = min(call.items // grain, CHUNKS_PER_THREAD * threads)
    chunk = -(-call.items // max(chunks, 1))
    chunk = -(-chunk // grain) * grain
    return chunk, -(-call.items // chunk)


def _nanoseconds(call: Call) -> float:
    """A low estimate of the time; large where nothing is known, so that the clock is looked at."""
    if call.bytes == 0 and call.flops == 0:
        return _WATCH_EVERY
    return call.bytes / 32 + call.flops / 64


def _assert_inside(call: Call, sizes: dict[str, list[int]]) -> None:
    """A plan is trusted; a mistake in one must show here, not as a crash."""
    views = _views(call)
    for k, place in enumerate(call.words):
        if not isinstance(place, Place):
            continue
        buffers = sizes[place.region]
        assert 0 <= place.index < len(buffers), f"{call.label}: no {place.region} {place.index}"
        low, high = _reach(views[k]) if views else (0, 0)
        first, last = place.offset + low, place.offset + high
        assert 0 <= first <= last <= buffers[place.index], (
            f"{call.label}: bytes {first} to {last} of {place.region} {place.index},"
            f" which has {buffers[place.index]}"
        )


def _views(call: Call) -> list[View]:
    """Of the call's words, where its spec says them; the first dimension is that of the items."""
    spec = call.spec
    if not isinstance(spec, Pointwise):
        return []
    views = [*spec.operands, *spec.outputs]
    return [replace(v, shape=(call.items, *v.shape[1:])) if v.shape else v for v in views]


def _reach(view: View) -> tuple[int, int]:
    """The bytes of a view, from its first element on; strides may be negative."""
    if view.size == 0:
        return 0, 0
    ends = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    width = BYTES[view.dtype]
    return width * sum(min(e, 0) for e in ends), width * (sum(max(e, 0) for e in ends) + 1)


def _span(view: View) -> int:
    return view.extent * to_numpy(view.dtype).itemsize


def _form(view: View, flags: int) -> _Form:
    dtype = to_numpy(view.dtype)
    if view.contiguous:
        return dtype, view.shape, None, flags | _CONTIGUOUS
    return dtype, view.shape, tuple(s * dtype.itemsize for s in view.strides), flags


def _rounded(count: int) -> int:
    return -(-count // ALIGNMENT) * ALIGNMENT


def _miscounted(plan: Plan, inputs: int, outputs: int) -> RewriteError:
    return error(
        "RW822",
        f"{inputs} inputs and {outputs} outputs are given; the plan has {len(plan.inputs)} and"
        f" {len(plan.outputs)}",
    )


def _unfit(plan: Plan, k: int, array: object) -> RewriteError:
    """Which array is not what the plan was made for, and why."""
    first = len(plan.inputs)
    name = f"input {k}" if k < first else f"output {k - first}"
    view = (*plan.inputs, *plan.outputs)[k]
    if not isinstance(array, np.ndarray):
        return error("RW822", f"{name} is not an array but {type(array).__name__}")
    flags = array.flags
    lacks = [
        word
        for word, fine in (
            ("not contiguous", flags.c_contiguous or not view.contiguous),
            ("not aligned", flags.aligned),
            ("not writable", flags.writeable or k < first),
        )
        if not fine
    ]
    found = ", ".join([f"{array.dtype} of shape {array.shape}", *lacks])
    wanted = f"{to_numpy(view.dtype)} of shape {view.shape}"
    if not view.contiguous:
        wanted += f" and strides {view.strides}"
    return error("RW822", f"{name} is {found}; the plan wants {wanted}")
