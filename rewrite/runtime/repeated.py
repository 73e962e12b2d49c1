"""The turns of a Loop or a Scan whose body is one plan: run in native code, not by the driver.

In: a body that has run one turn, the values of the next one, what changes from turn to turn. Out:
what the turns gave; None where the body is more than one plan, or its sizes change, or values go
around in ways that cells cannot follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rewrite.ops.dtypes import to_numpy
from rewrite.plan.view import View
from rewrite.runtime.executor import GraphRunner, Node, Value
from rewrite.runtime.turns import Turning

FEW = 3  # turns that are not worth the preparation
_STACKED = 1 << 24  # bytes that outputs of one batch of turns take

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Around:
    """Inputs and outputs of a body, by position.

    `states`: an input, and the output that is its next value. `scanned`: an input that is another
    part of an array in each turn, by how many bytes it moves on. `stacked`: outputs that are kept
    of each turn. `counter`: the input that is the number of the turn. `condition`: the input and
    the output that say whether there is another turn.
    """

    states: tuple[tuple[int, int], ...]
    stacked: tuple[int, ...]
    scanned: Mapping[int, int] = field(default_factory=dict)
    counter: int | None = None
    condition: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Turned:
    """What some turns gave. `going`: the condition lets another one begin."""

    turns: int
    states: list[Value]
    stacked: list[Array]
    going: bool


def repeated(
    body: GraphRunner,
    inputs: Sequence[Value],
    outer: Mapping[int, Value],
    around: Around,
    limit: int,
) -> Turned | None:
    """`limit` turns, or as many as there is room for at once, or as the condition lets."""
    if limit < FEW or body.context.profiling:
        return None
    body.context.refuse_closed()
    found = body.planned(inputs, outer)
    if found is None:
        return None
    node, env = found
    assert node.stage.segment is not None
    if not any(call.items > 0 for call in node.stage.segment.plan.calls):
        return None
    batch = _Batch(body, node, inputs, env, around)
    return batch.run(limit) if batch.prepare(limit) else None


class _Batch:
    """Turns of one plan being prepared: an array for each of its inputs and outputs."""

    def __init__(
        self,
        body: GraphRunner,
        node: Node,
        inputs: Sequence[Value],
        env: Mapping[int, Value],
        around: Around,
    ) -> None:
        assert node.stage.segment is not None
        self.node, self.inputs, self.around = node, inputs, around
        self.empty = body.context.outputs.empty
        self.plan = node.stage.segment.plan
        self.takes, self.gives = body.graph.inputs, body.graph.outputs
        read, written = node.stage.segment.inputs, node.stage.segment.outputs
        self.cells = {number: k for k, number in enumerate(read)}
        self.places = {number: len(read) + k for k, number in enumerate(written)}
        self.arrays: list[Array | None] = [env[number] for number in read] + [None] * len(written)
        self.exchanges: list[tuple[int, int, bool]] = []
        self.advances: list[tuple[int, int]] = []
        self.finals: list[Callable[[int], Value]] = []  # of states, behind so many turns
        self.stacks: dict[int, Array] = {}  # by the cell
        self.counter = np.zeros(1, np.int64)
        self.condition: Array | None = None

    def prepare(self, limit: int) -> bool:
        """Whether the turns can be run so."""
        around = self.around
        for place, moved in around.scanned.items():
            cell = self.cells.get(self.takes[place])
            if cell is not None:
                self.advances.append((cell, moved))
        if around.counter is not None:
            self.counter = np.array(self.inputs[around.counter], np.int64)
            cell = self.cells.get(self.takes[around.counter])
            if cell is not None:
                self.arrays[cell] = self.counter
        return (
            self._stack(limit)
            and all(self._state(i, o) for i, o in around.states)
            and self._ends()
            and self._rest()
        )

    def run(self, limit: int) -> Turned:
        """The turns."""
        arrays = [array for array in self.arrays if array is not None]
        assert len(arrays) == len(self.arrays)
        turning = Turning(
            arrays=tuple(arrays),
            exchanges=tuple(self.exchanges),
            advances=tuple(self.advances),
            limit=min(limit, self._most(limit)),
            counter=self.counter,
            condition=self.condition,
        )
        assert self.node.loaded is not None
        done = self.node.loaded.repeat(turning)
        return Turned(
            turns=done,
            states=[final(done) for final in self.finals],
            stacked=self._kept(done),
            going=self.condition is None or bool(self.condition.reshape(-1)[0]),
        )

    def _kept(self, done: int) -> list[Array]:
        """Of each stacked output, an array of its own."""
        made: list[Array] = []
        seen: set[int] = set()
        for output in self.around.stacked:
            place = self._place(output)
            array = self.stacks[place][:done]
            made.append(array.copy() if place in seen else array)
            seen.add(place)
        return made

    def _most(self, limit: int) -> int:
        """Turns whose outputs there is room for."""
        places = {self._place(o) for o in self.around.stacked}
        size = sum(self._view(place).bytes for place in places)
        return max(FEW, _STACKED // size) if size else limit

    def _place(self, output: int) -> int:
        number = self.gives[output]
        return -1 if number is None else self.places.get(number, -1)

    def _view(self, place: int) -> View:
        return self.plan.outputs[place - len(self.plan.inputs)]

    def _stack(self, limit: int) -> bool:
        """Outputs that are kept lie one behind the other."""
        places = [self._place(o) for o in self.around.stacked]
        if -1 in places:
            return False
        room = min(limit, self._most(limit))
        for place in dict.fromkeys(places):
            view = self._view(place)
            stack = self.empty((room, *view.shape), to_numpy(view.dtype))
            self.stacks[place] = stack
            self.arrays[place] = stack[0, ...]
            self.advances.append((place, view.bytes))
        return True

    def _state(self, given: int, output: int) -> bool:
        """A value that goes around: it is written to one of two arrays in turn, or read where it
        was stacked."""
        value, number = self.inputs[given], self.gives[output]
        if number == self.takes[given]:
            self.finals.append(lambda done: value)
            return True
        place, cell = self._place(output), self.cells.get(self.takes[given])
        if place < 0 or not _is_like(value, self._view(place)):
            return False
        if place in self.stacks:
            stack = self.stacks[place]
            self.finals.append(lambda done: stack[done - 1].copy())
            if cell is not None:
                self.exchanges.append((cell, place, False))
            return True
        if self.arrays[place] is not None:  # two states have one next value
            return False
        first, second = value.copy(), self.empty(value.shape, value.dtype)
        self.arrays[place] = second
        if cell is None:
            self.finals.append(lambda done: second)
            return True
        self.arrays[cell] = first
        self.exchanges.append((cell, place, True))
        self.finals.append(lambda done: second if done % 2 else first)
        return True

    def _ends(self) -> bool:
        """What ends the turns: nothing, or one element that each of them computes."""
        if self.around.condition is None:
            return True
        given, output = self.around.condition
        number = self.gives[output]
        if number == self.takes[given]:
            return True
        place = self._place(output)
        if place < 0:
            return number is not None and self._is_always_true(number)
        view = self._view(place)
        if self.arrays[place] is not None or view.size != 1:
            return False
        self.condition = self.arrays[place] = np.ones(view.shape, np.bool_)
        return True

    def _is_always_true(self, number: int) -> bool:
        known = self.node.stage.known.get(number)
        content = None if known is None else known.content
        return content is not None and content.size == 1 and bool(content.reshape(-1)[0])

    def _rest(self) -> bool:
        """Arrays for outputs that nobody asks for."""
        for number, place in self.places.items():
            if number >= 0 and self.arrays[place] is None:
                view = self._view(place)
                self.arrays[place] = self.empty(view.shape, to_numpy(view.dtype))
        return all(array is not None for array in self.arrays)


def _is_like(value: Value, view: View) -> bool:
    """Whether an array is as the plan's output will be: then the next turn has the same sizes."""
    return (
        isinstance(value, np.ndarray)
        and value.shape == view.shape
        and value.dtype == to_numpy(view.dtype)
    )
