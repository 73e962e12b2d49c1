"""What a kernel is: the border between planning and code generation.

In: nothing. Out: frozen records. A *spec* says all that code is generated for (element types,
shapes and strides as far as the code depends on them, the scalar steps); equal specs share one
piece of machine code. Where the operands lie is not part of it.

Every kernel has one signature (rewrite/codegen/kernel.py):

    i64 kernel(ptr words, i64 begin, i64 end, ptr scratch)

`words` is a table of 8-byte words, one per operand (its address) and one per integer parameter.
[begin, end) is a range of the kernel's work items: any split of [0, items) into ranges, run in any
order or at once by several threads, gives the same result. `scratch` is memory of one thread,
64-byte aligned. The result is 0, or a `FAULTS` code where the data do not allow the operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewrite.plan.view import View

# What a kernel may find wrong with the data it is given.
FAULTS = {
    1: "an index is out of range",
    2: "a division of integers by zero",
    3: "a negative or too large size",
}
INDEX_OUT_OF_RANGE, DIVISION_BY_ZERO, BAD_SIZE = 1, 2, 3


# --- scalar steps ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A number in a scalar program."""

    dtype: str
    number: float | int | bool


@dataclass(frozen=True, slots=True)
class Step:
    """One pointwise operator on elements: `args` number the values before it, or are constants.

    Value 0 … n-1 are the operands of the program (for an epilogue, value 0 is what the kernel
    computed), n + k is the result of step k. `attributes` are sorted pairs, all defaults filled in.
    `dtype` is the element type of the result, to which it is rounded.
    """

    domain: str
    name: str
    args: tuple[int | Constant | None, ...]
    dtype: str
    attributes: tuple[tuple[str, Any], ...] = ()
    opset: int = 0


@dataclass(frozen=True, slots=True)
class Body:
    """A scalar program: `dtypes` of its operands, steps, and which values it gives."""

    dtypes: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def dtype(self, value: int) -> str:
        n = len(self.dtypes)
        return self.dtypes[value] if value < n else self.steps[value - n].dtype


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done with each element that a kernel computes before it is stored.

    `body` takes the computed element as value 0 and then one element of each of `operands`, views
    of the kernel's output shape (stride 0 where broadcast). Their words follow the kernel's own.
    """

    body: Body
    operands: tuple[View, ...] = ()


# --- kernels -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spec:
    """The base of all kernel specs."""


@dataclass(frozen=True, slots=True)
class Pointwise(Spec):
    """outputs[...] = body(operands[...]) for every place of `shape`.

    Words: operands, then outputs. Items: elements of the outermost dimensions, as codegen splits
    them (`items_of`). All views have the shape `shape`.
    """

    shape: tuple[int, ...]
    operands: tuple[View, ...]
    outputs: tuple[View, ...]
    body: Body


# --- plans -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operand lies: a region, which of its buffers, and the offset in bytes."""

    region: str  # "arena" | "constant" | "input" | "output"
    index: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel with its operands: what a plan is made of."""

    spec: Spec
    words: tuple[Place | int, ...]
    items: int
    grain: int = 1  # work items that are worth handing to a thread at least
    scratch: int = 0  # bytes per thread
    nodes: tuple[str, ...] = ()  # names of the nodes it computes, for messages and profiles
    label: str = ""
    bytes: int = 0  # read and written, each operand once
    flops: int = 0


@dataclass(frozen=True)
class Plan:
    """A straight run of kernels over one arena."""

    calls: tuple[Call, ...]
    arena_bytes: int
    constants: tuple[Any, ...]  # numpy arrays: weights as kernels want them
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
