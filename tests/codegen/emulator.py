"""Plans on an emulated aarch64 processor: the same kernels, the same loop over steps, no library.

In: `Plan`s. Out: `EmulatedDevice`, which has the interface of `rewrite.runtime.device.CpuDevice`:
a session that is given it runs whole models on the other processor.

A program of it is an ELF file without any library. All of its memory is one block at a fixed
address, laid out here and read from standard input; then it runs the loop and writes the front of
the block, which holds control words and outputs, to standard output. System calls need two words of
machine code, which LLVM takes as data before a function's first instruction (`prologue`), so no
assembler or compiler of C is needed: only a linker, and qemu.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rewrite.codegen.compile import to_object
from rewrite.codegen.isa import AARCH64, Isa
from rewrite.codegen.kernel import Code, generate, symbol_of
from rewrite.codegen.runloop import run_code
from rewrite.codegen.runloop_layout import CONTROL_WORDS, STEP_WORDS, Control, Step
from rewrite.codegen.runloop_waiting import parking_of
from rewrite.errors import error
from rewrite.ops.dtypes import to_numpy
from rewrite.plan.spec import FAULTS, Place, Plan
from rewrite.plan.view import View
from rewrite.runtime.profile import Profile

Array = np.ndarray[Any, Any]
BASE = 0x1000_0000  # of the block of memory
LINE = 64
SECONDS = 120


@cache
def linker() -> list[str] | None:
    """A linker of ELF files for other processors."""
    for name in ("ld.lld", *(f"ld.lld-{n}" for n in range(22, 13, -1))):
        if shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "ld.lld"] if find_spec("ziglang") else None


@cache
def emulator() -> str | None:
    return shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")


def missing() -> str | None:
    """Why nothing here works; None where it does."""
    if emulator() is None:
        return "code for aarch64 runs under qemu-aarch64, which is not installed (qemu-user)"
    if linker() is None:
        return "code for aarch64 is linked by ld.lld, which is not installed (lld, or ziglang)"
    return None


# --- the program -------------------------------------------------------------------------------

# mov x8, x3; svc 0; ret: the fourth argument is the number of the system call.
_SYSTEM_CALL = (0xAA0303E8, 0xD4000001, 0xD65F03C0)
_READ, _WRITE, _EXIT = 63, 64, 93  # include/uapi/asm-generic/unistd.h

# What the loop over steps asks of a library; none of it is reached with one thread.
_LIBRARY = """
define i32 @clock_gettime(i32 %c, ptr %t) { ret i32 0 }
define i64 @syscall(i64 %n, ...) { ret i64 0 }
define i32 @sched_getcpu() { ret i32 0 }
define i32 @sched_setaffinity(i32 %t, i64 %n, ptr %m) { ret i32 0 }
"""

_MAIN = """
@memory = global [{size} x i8] zeroinitializer, align 4096
define weak i64 @system(i64 %a, i64 %b, i64 %c, i64 %n) noinline nounwind
    prologue [3 x i32] [{words}] {{ ret i64 0 }}
define void @move(i64 %file, i64 %count, i64 %call) noinline nounwind {{
entry:
  %start = ptrtoint ptr @memory to i64
  br label %more
more:
  %at = phi i64 [0, %entry], [%next, %more]
  %p = add i64 %start, %at
  %left = sub i64 %count, %at
  %moved = call i64 @system(i64 %file, i64 %p, i64 %left, i64 %call)
  %next = add i64 %at, %moved
  %some = icmp sgt i64 %moved, 0
  %missing = icmp slt i64 %next, %count
  %again = and i1 %some, %missing
  br i1 %again, label %more, label %done
done:
  ret void
}}
define void @_start() nounwind {{
  call void @move(i64 0, i64 {size}, i64 {read})
{steps}
  %at = call i64 @{run}(ptr @memory, i64 0, ptr null)
  %told = getelementptr i64, ptr @memory, i64 {told}
  store i64 %at, ptr %told, align 8
  call void @move(i64 1, i64 {front}, i64 {write})
  call i64 @system(i64 0, i64 0, i64 0, i64 {exit})
  unreachable
}}
"""
_TOLD = CONTROL_WORDS - 1  # the control word where the program leaves what `run` returned


class _Block:
    """Memory that is laid out: control words and outputs first."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, bytes]] = []
        self.size = 0

    def place(self, content: bytes | int) -> int:
        """The address of new memory, filled or not."""
        count = content if isinstance(content, int) else len(content)
        start = self.size
        self.size = -(-(start + count) // LINE) * LINE + LINE
        if isinstance(content, bytes):
            self.parts.append((start, content))
        return BASE + start

    def image(self) -> bytearray:
        made = bytearray(self.size)
        for start, content in self.parts:
            made[start : start + len(content)] = content
        return made


class EmulatedInstance:
    """A plan as a program. Each run starts it anew."""

    def __init__(self, plan: Plan, isa: Isa, folder: Path) -> None:
        self.plan = plan
        self.isa = isa
        calls = [call for call in plan.calls if call.items > 0]
        self.calls = calls
        block = _Block()
        block.place(8 * CONTROL_WORDS)
        self.outputs = [block.place(_span(view)) for view in plan.outputs]
        self.front = block.size
        self.inputs = [block.place(_span(view)) for view in plan.inputs]
        regions = {
            "arena": [block.place(plan.arena_bytes)],
            "constant": [block.place(np.ascontiguousarray(c).tobytes()) for c in plan.constants],
            "input": self.inputs,
            "output": self.outputs,
        }
        scratch = block.place(max((call.scratch for call in calls), default=0))
        steps = np.zeros((max(1, len(calls)), STEP_WORDS), np.int64)
        for step, call in zip(steps, calls, strict=False):
            words = [
                regions[w.region][w.index] + w.offset if isinstance(w, Place) else w
                for w in call.words
            ]
            step[Step.WORDS] = block.place(np.array(words, np.int64).tobytes())
            step[Step.ITEMS] = step[Step.CHUNK] = call.items
            step[Step.CHUNKS] = 1
        control = np.zeros(CONTROL_WORDS, np.int64)
        control[Control.STEPS] = records = block.place(steps.tobytes())
        control[Control.COUNT] = len(calls)
        control[Control.SCRATCH] = scratch
        block.parts.append((0, control.tobytes()))
        self.image = block.image()
        symbols = [symbol_of(call.spec, isa) for call in calls]
        main = self._main(symbols, records - BASE)
        self.program = _linked(main, dict(zip(symbols, calls, strict=True)), isa, folder)

    def _main(self, symbols: Sequence[str], records: int) -> str:
        """The text of the module with `_start`, which writes kernels' addresses into the steps."""
        stores = [
            f"  %s{k} = getelementptr i8, ptr @memory, i64 {records + 8 * STEP_WORDS * k}\n"
            f"  store ptr @{symbol}, ptr %s{k}, align 8"
            for k, symbol in enumerate(symbols)
        ]
        run = run_code(self.isa, parking_of(self.isa)).symbol
        declared = [f"declare i64 @{name}(ptr, i64, i64, ptr)" for name in dict.fromkeys(symbols)]
        declared.append(f"declare i64 @{run}(ptr, i64, ptr)")
        text = _MAIN.format(
            size=len(self.image),
            words=", ".join(f"i32 {w}" for w in _SYSTEM_CALL),
            steps="\n".join(stores),
            run=run,
            told=_TOLD,
            front=self.front,
            read=_READ,
            write=_WRITE,
            exit=_EXIT,
        )
        return _LIBRARY + text + "\n".join(declared) + "\n"

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array], profile: bool = False) -> None:
        image = bytearray(self.image)
        for array, address in zip(inputs, self.inputs, strict=True):
            raw = array.tobytes(order="A")
            image[address - BASE : address - BASE + len(raw)] = raw
        if not self.calls:
            return
        program = emulator()
        assert program is not None
        done = subprocess.run(
            [program, "-cpu", self.isa.cpu, str(self.program)],
            input=bytes(image),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, (done.returncode, done.stderr[-500:])
        assert len(done.stdout) == self.front
        control = np.frombuffer(done.stdout[: 8 * CONTROL_WORDS], np.int64)
        if control[_TOLD] < 0:
            call = self.calls[int(-control[_TOLD] - 1)]
            what = FAULTS[int(control[Control.STATUS])]
            raise error("RW820", f"{call.label}: {what}", subject=", ".join(call.nodes))
        assert control[_TOLD] == len(self.calls)
        for array, address in zip(outputs, self.outputs, strict=True):
            raw = done.stdout[address - BASE : address - BASE + array.nbytes]
            array[...] = np.frombuffer(raw, array.dtype).reshape(array.shape)

    def profile(self) -> Profile:
        return Profile(0, ())

    def close(self) -> None:
        self.program.unlink(missing_ok=True)


class EmulatedDevice:
    """What a session runs plans on."""

    def __init__(self, isa: Isa | None = None, threads: int = 1) -> None:
        del isa, threads
        self.isa = AARCH64
        self._folder = tempfile.TemporaryDirectory()

    def load(self, plan: Plan, progress: Callable[[int], None] | None = None) -> EmulatedInstance:
        del progress
        return EmulatedInstance(plan, self.isa, Path(self._folder.name))

    def close(self) -> None:
        self._folder.cleanup()


def _span(view: View) -> int:
    return view.extent * to_numpy(view.dtype).itemsize


@cache
def _object(code: Code, isa: Isa) -> bytes:
    return to_object(code, isa, jit=False)


def _linked(main: str, calls: dict[str, Any], isa: Isa, folder: Path) -> Path:
    """An ELF file with `_start`, the loop and the kernels."""
    command = linker()
    assert command is not None
    codes = [generate(call.spec, isa, symbol) for symbol, call in calls.items()]
    codes.append(run_code(isa, parking_of(isa)))
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        paths = [Path(scratch) / f"{k}.o" for k in range(len(codes) + 1)]
        paths[0].write_bytes(to_object(Code("main", main), isa, jit=False))
        for path, code in zip(paths[1:], codes, strict=True):
            path.write_bytes(_object(code, isa))
        handle, name = tempfile.mkstemp(dir=folder)
        import os

        os.close(handle)
        done = subprocess.run(
            [
                *command,
                *("-m", "aarch64linux", "-e", "_start", f"--section-start=.bss={BASE:#x}"),
                *("-o", name, *map(str, paths)),
            ],
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    return Path(name)
