"""Small functions written for one test, compiled and called on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from rewrite.codegen.compile import to_object
from rewrite.codegen.ir import Function, Module
from rewrite.codegen.isa import Isa, native
from rewrite.codegen.kernel import Code
from rewrite.runtime.objects import objects_for
from tests.codegen.harness import address


def run_function(
    name: str,
    write: Callable[[Function], object],
    arrays: Sequence[np.ndarray],
    isa: Isa | None = None,
) -> int:
    """Calls what `write` writes with the arrays' addresses as `p0`, `p1`, …; its result.

    `name` is the function's alone.
    """
    machine = isa or native()
    module = Module(name)
    f = module.function(name, [("ptr", f"p{i}") for i in range(len(arrays))], returns="i64")
    result = write(f)
    f.ret(0 if result is None else result)
    code = Code(name, module.text())
    place = objects_for(machine).load(name, lambda: to_object(code, machine))
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * len(arrays))(place)
    return int(call(*[address(x) for x in arrays]))
