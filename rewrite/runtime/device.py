"""The processor that this program runs on: plans in, instances out.

In: an `Isa`, how many threads, plans. Out: `Instance`s. Kernels are compiled or found in the cache
(rewrite/runtime/objects.py); constants that several plans use are kept once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from typing import Any

from rewrite.codegen.compile import to_object
from rewrite.codegen.isa import Isa, check_runs_here, host_isa
from rewrite.codegen.kernel import Code
from rewrite.codegen.runloop import run_code, turns_code
from rewrite.errors import error
from rewrite.plan.spec import Plan
from rewrite.runtime.instance import Instance, Native
from rewrite.runtime.memory import Constants
from rewrite.runtime.objects import Objects, objects_for
from rewrite.runtime.threads import Workers

_LOOP = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_TURNS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


class CpuDevice:
    """Runs plans here. One device may have many instances; `close` ends its threads."""

    def __init__(
        self, isa: Isa | None = None, threads: int = 1, objects: Objects | None = None
    ) -> None:
        if threads < 1:
            raise error(
                "RW806",
                f"a device needs one thread or more, not {threads}",
                hint="threads=1 or more",
            )
        self.isa = host_isa() if isa is None else isa
        check_runs_here(self.isa)
        self.threads = threads
        self.objects = objects_for(self.isa) if objects is None else objects
        self._workers = Workers(self.objects, threads - 1)
        self._constants = Constants()

    def load(self, plan: Plan, progress: Callable[[int], None] | None = None) -> Instance:
        """Compiles what is missing, lays out memory. `progress` is told how many kernels are
        still missing."""
        native = Native(
            kernels=self.objects.addresses((call.spec for call in plan.calls), progress),
            loop=self._loop,
            loop_address=self._loop_address,
            profiled=lambda: self._profiled,
            turns=lambda: self._turns,
        )
        constants = [self._constants.place(array) for array in plan.constants]
        return Instance(plan, native, constants, self._workers)

    def close(self) -> None:
        """Ends the threads. Instances can still run, on one thread; each has its own `close`."""
        self._workers.close()

    @cached_property
    def _loop_address(self) -> int:
        return self._address(run_code(self.isa, self._workers.parking))

    @cached_property
    def _loop(self) -> Any:
        return _LOOP(self._loop_address)

    @cached_property
    def _profiled(self) -> Any:
        return _LOOP(self._address(run_code(self.isa, self._workers.parking, profiled=True)))

    @cached_property
    def _turns(self) -> Any:
        return _TURNS(self._address(turns_code(self.isa, self._workers.parking)))

    def _address(self, code: Code) -> int:
        return self.objects.load(code.symbol, lambda: to_object(code, self.isa))
