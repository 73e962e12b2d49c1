"""What the code of a row program starts with: its words in registers, its schedule, its lanes.

In: a `Rows` spec and a kernel under construction. Out: `Frame`, which the two shapes of the loop
(rewrite/codegen/kernels/rows.py) share, and `Cell`: the program's values at one vector of elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rewrite.codegen.body import emit_body
from rewrite.codegen.ir import Function, Int
from rewrite.codegen.kernel import Kernel
from rewrite.codegen.kernels.rows_exp import exp_below
from rewrite.codegen.kernels.rows_memory import (
    Partial,
    load_partial,
    slot_for_partial,
    store_partial,
)
from rewrite.codegen.memory import load, memory_type, register_type, store
from rewrite.codegen.types import bits, lanes, vector
from rewrite.codegen.value import Value
from rewrite.plan.spec import Body, Step
from rewrite.plan.specs.rows import (
    ANY,
    EXP_BELOW,
    Access,
    Fold,
    Rows,
    args_of,
    dtype_of,
    levels_of,
    needed_of,
    storage_dtype,
)
from rewrite.plan.view import BYTES

MOST_LANES = 64


class Frame:
    """The kernel's words, loaded once, and what is known of the program."""

    def __init__(self, k: Kernel, spec: Rows) -> None:
        self.k, self.f, self.isa, self.spec = k, k.f, k.isa, spec
        self.accesses = (*spec.operands, *spec.outputs)
        self.levels = levels_of(tuple(a.element for a in spec.operands), spec.steps)
        self.lanes = _lanes_of(k, spec)
        self.slot = slot_for_partial(k.f)
        rows, outers = spec.row_rank, spec.outer_rank
        at = len(self.accesses)
        self.pointers = [k.pointer(i) for i in range(at)]
        self.count = k.integer(at)
        self.row_sizes = [k.integer(at + 1 + d) for d in range(rows)]
        self.outer_sizes = [k.integer(at + 1 + rows + d) for d in range(outers)]
        at += 1 + rows + outers
        self.group = k.integer(at)
        at += 1
        self.row_strides: list[list[Int]] = []
        self.outer_strides: list[list[Int]] = []
        for access in self.accesses:
            self.row_strides.append(self._strides(access.row, at))
            self.outer_strides.append(self._strides(access.outer, at + rows))
            at += rows + outers
        self.kept = self._kept()
        first = len(spec.operands)
        homes = zip(spec.kept, spec.homes, strict=True)
        self.homes = {value: first + home for value, home in homes if home >= 0}

    def _strides(self, classes: Sequence[int], at: int) -> list[Int]:
        return [self.k.integer(at + d) if c == ANY else c for d, c in enumerate(classes)]

    def _kept(self) -> dict[int, Value]:
        """Where the kept values of a row begin in the scratch memory."""
        found: dict[int, Value] = {}
        at: Value = self.k.scratch
        per_element = MOST_LANES if self.spec.across else 1
        for value, home in zip(self.spec.kept, self.spec.homes, strict=True):
            if home >= 0:
                continue
            found[value] = at
            room = self.count * (per_element * BYTES[storage_dtype(self.dtype(value))]) + 128
            at = self.f.at(at, self.f.binary("and", room, -64))
        return found

    def dtype(self, value: int) -> str:
        return dtype_of(self.spec.operands, self.spec.steps, value)

    def step(self, value: int) -> Step | Fold | None:
        at = value - len(self.spec.operands)
        return None if at < 0 else self.spec.steps[at]

    def stride(self, access: int) -> Int:
        """From lane to lane."""
        strides = self.outer_strides if self.spec.across else self.row_strides
        return strides[access][-1]

    def moved(self, access: int, pointer: Value, index: Int, stride: Int) -> Value:
        name = memory_type(self.accesses[access].dtype)
        return self.f.at(pointer, self.f.mul(index, stride), name)

    @cached_property
    def needed(self) -> frozenset[int]:
        """Values that some output follows from."""
        return needed_of(len(self.spec.operands), self.spec.steps, self.spec.results)

    def level(self, value: int) -> int:
        return self.levels.level[value]

    def is_element(self, value: int) -> bool:
        return self.levels.element[value]

    def run_step(self, value: int, args: Sequence[Value]) -> Value:
        """One pointwise step on registers."""
        step = self.step(value)
        assert isinstance(step, Step)
        if step.name == EXP_BELOW:
            return exp_below(self.f, self.isa, args[0])
        numbers = args_of(step)
        places = iter(range(len(numbers)))
        renumbered = tuple(next(places) if isinstance(a, int) else a for a in step.args)
        dtypes = tuple(self.dtype(a) for a in numbers)
        body = Body(dtypes, (replace(step, args=renumbered),), (len(numbers),))
        return emit_body(self.f, self.isa, body, args)[0]


def _lanes_of(k: Kernel, spec: Rows) -> int:
    """As many as the widest value of the program leaves room for."""
    dtypes = [a.dtype for a in (*spec.operands, *spec.outputs)] + [s.dtype for s in spec.steps]
    widest = max(max(1, bits(register_type(d, 0)) // 8) for d in dtypes)
    return max(1, min(MOST_LANES, k.isa.vector_bytes // widest))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cell is: the address of its first element in each access that has one there, its
    position in kept values in vectors or elements, and the lanes inside (None: all)."""

    pointers: Mapping[int, Value]
    kept: Value | None
    part: Partial | None


class Cell:
    """The values of the program at one vector of elements.

    `row`: values of the row, as vectors. `remembered`: the kept values that are there to be read.
    """

    def __init__(
        self, frame: Frame, place: Place, row: Mapping[int, Value], remembered: frozenset[int]
    ) -> None:
        self.frame, self.place, self.row = frame, place, row
        self.remembered = remembered
        self._values: dict[int, Value] = {}
        self._waiting: list[tuple[int, Value]] = []  # kept where an operand may lie

    def get(self, value: int) -> Value:
        found = self.row.get(value)
        if found is None:
            found = self._values.get(value)
        if found is None:
            found = self._values[value] = self._made(value)
        return found

    def _made(self, value: int) -> Value:
        frame = self.frame
        if value in self.remembered:
            return self._recalled(value)
        step = frame.step(value)
        if step is None:
            return self._loaded(value)
        made = frame.run_step(value, [self.get(a) for a in args_of(step)])
        if value in frame.spec.kept:
            self._keep(value, made)
        return made

    def _loaded(self, access: int) -> Value:
        frame, place = self.frame, self.place
        dtype, stride = frame.accesses[access].dtype, frame.stride(access)
        pointer = place.pointers[access]
        if place.part is None:
            return load(frame.f, frame.isa, dtype, pointer, frame.lanes, stride)
        return load_partial(frame.f, frame.isa, dtype, pointer, frame.lanes, stride, place.part)

    def _stored(self, access: int, value: Value) -> None:
        frame, place = self.frame, self.place
        dtype, stride = frame.accesses[access].dtype, frame.stride(access)
        given = (frame.f, frame.isa, dtype, value, place.pointers[access], frame.lanes, stride)
        if place.part is None:
            store(*given)
        else:
            store_partial(*given, place.part)

    def store(self, output: int) -> None:
        """Stores an output with one value per element, unless keeping the value has done so."""
        frame, access = self.frame, len(self.frame.spec.operands) + output
        result = frame.spec.results[output]
        value = splat_to(frame.f, self.get(result), frame.lanes)
        if frame.homes.get(result) != access:
            self._stored(access, value)

    def _keep(self, value: int, made: Value) -> None:
        frame = self.frame
        if value in frame.homes:
            self._waiting.append((frame.homes[value], made))
            return
        dtype = storage_dtype(frame.dtype(value))
        store(frame.f, frame.isa, dtype, made, self._kept_at(value), frame.lanes)

    def settle(self) -> None:
        """Stores what is kept in memory of outputs, once nothing more is read."""
        for access, made in self._waiting:
            self._stored(access, made)
        self._waiting.clear()

    def _recalled(self, value: int) -> Value:
        frame = self.frame
        if value in frame.homes:
            return self._loaded(frame.homes[value])
        dtype = storage_dtype(frame.dtype(value))
        return load(frame.f, frame.isa, dtype, self._kept_at(value), frame.lanes)

    def _kept_at(self, value: int) -> Value:
        name = memory_type(storage_dtype(self.frame.dtype(value)))
        assert self.place.kept is not None
        return self.frame.f.at(self.frame.kept[value], self.place.kept, name)


def splat_to(f: Function, x: Value, count: int) -> Value:
    """A value of the row in every lane."""
    return x if lanes(x.type) else f.splat(x, vector(x.type, count))


__all__ = ["Access", "Cell", "Frame", "Place", "splat_to"]
