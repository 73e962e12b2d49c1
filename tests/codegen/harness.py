"""Kernels on their own: a spec is compiled and called on numpy arrays.

    run(spec, [x, y, out], items=8)            all work items at once
    run(spec, [...], items=8, splits=3)        in three ranges, last range first

Arrays are passed by address: operands first, then outputs, as the spec's documentation says;
integers are passed as they are. Outputs are changed in place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from rewrite.codegen.isa import Isa, native
from rewrite.plan.spec import Spec
from rewrite.runtime.objects import objects_for

SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


def isas() -> list[Isa]:
    """This machine in full, without AVX-512, and without AVX at all."""
    full = native()
    found = [full]
    if full.vector_bytes > 32:
        found.append(
            native(tuple(sorted(n for n in _on(full) if n.startswith("avx512") or n == "avxvnni")))
        )
    if full.vector_bytes > 16 and full.arch == "x86_64":
        found.append(native(tuple(sorted(n for n in _on(full) if _newer_than_v2(n)))))
    return found


def _on(isa: Isa) -> list[str]:
    return [name[1:] for name in isa.features if name.startswith("+")]


def _newer_than_v2(name: str) -> bool:
    return name.startswith(("avx", "fma", "f16c", "vaes", "vpclmul", "gfni", "xop", "fma4"))


def address(x: np.ndarray) -> int:
    return int(x.__array_interface__["data"][0])


def run(
    spec: Spec,
    words: Sequence[np.ndarray | int],
    items: int,
    *,
    isa: Isa | None = None,
    splits: int = 1,
    scratch: int = 0,
) -> int:
    """Calls the kernel over [0, items) in `splits` ranges; the first status that is not 0."""
    kernel = SIGNATURE(objects_for(isa or native()).address(spec))
    table = np.array([w if isinstance(w, int) else address(w) for w in words], np.int64)
    room = np.zeros(scratch + 64, np.uint8)
    aligned = -(-address(room) // 64) * 64
    bounds = [items * k // splits for k in range(splits + 1)]
    status = 0
    for low, high in reversed(list(pairwise(bounds))):
        if low < high:
            status = int(kernel(address(table), low, high, aligned)) or status
    return status


def aligned(shape: Sequence[int], dtype: object, fill: object = None) -> np.ndarray:
    """An array whose memory starts at a multiple of 64 bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    item = np.dtype(dtype).itemsize
    raw = np.empty(count * item + 64, np.uint8)
    skip = -address(raw) % 64
    found = raw[skip : skip + count * item].view(dtype).reshape(tuple(shape))
    if fill is not None:
        found[...] = fill
    return found
