"""Running a graph: stages one after the other, planned when their sizes are first met.

In: a `Graph`, values of its inputs and of what it captures. Out: values of its outputs. Values are
numpy arrays (row-major), lists (sequences), None (an optional that is empty).

What has been planned is a tree: a node is a stage, its children are keyed by the types, and where
plans depend on them the elements, of what the stage has produced. The same sizes again cost one
look into a dictionary per stage.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np

from rewrite.errors import error
from rewrite.graph import collector
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.plan.known import Known, of_array
from rewrite.plan.program import Graph, Op
from rewrite.plan.spec import Plan
from rewrite.plan.stage import DriverStep, Settings, Stage, learned, next_stage
from rewrite.runtime.outputs import Outputs, check_memory
from rewrite.runtime.profile import Profile
from rewrite.runtime.turns import Turning
from rewrite.schema import Type

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any  # an array, a list of them, None

MOST_CHILDREN = 64  # plans kept per stage; the oldest is dropped


class Loaded(Protocol):
    """A plan that can be run."""

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array], profile: bool = False
    ) -> None: ...

    def repeat(self, turning: Turning) -> int: ...

    def profile(self) -> Profile: ...

    def close(self) -> None: ...


@dataclass
class Node:
    """A stage that was planned, what runs it, and what may come behind it."""

    stage: Stage
    loaded: Loaded | None
    keep: frozenset[int]  # values that are asked for behind this stage
    children: dict[object, Node] = field(default_factory=dict)
    runners: dict[int, dict[str, GraphRunner]] = field(default_factory=dict)  # by step
    spent: dict[int, int] = field(default_factory=dict)  # nanoseconds of profiled steps
    profiled: int = 0  # runs


@dataclass
class Context:
    """What all graphs of a session share."""

    settings: Settings
    load: Callable[[Plan], Loaded]
    reference: Callable[[Op, Sequence[Value]], list[Value]]
    control: Callable[[Context, Node, int, DriverStep, Mapping[int, Value]], list[Value]]
    visit: Callable[[Node], None] = lambda node: None  # told of every node before it runs
    planning: Callable[[], None] = lambda: None  # told before a plan is made
    outputs: Outputs = field(default_factory=Outputs)
    dropped: Callable[[], None] = lambda: None  # told when a plan is not kept any longer
    lock: threading.RLock = field(default_factory=threading.RLock)
    profiling: bool = False
    closed: bool = False

    def refuse_closed(self) -> None:
        """A run that is under way in another thread ends where it begins its next stage."""
        if self.closed:
            raise error("RW806", "the session is closed", hint="compile the model again")


class GraphRunner:
    """One graph and its plans."""

    def __init__(self, graph: Graph, context: Context, captured: Mapping[int, Known]) -> None:
        self.graph = graph
        self.context = context
        self.captured = captured  # captures whose elements are known
        self._roots: dict[object, Node] = {}
        self._outputs = frozenset(v for v in graph.outputs if v is not None)

    def run(
        self,
        inputs: Sequence[Value],
        outer: Mapping[int, Value] | None = None,
        given: Mapping[int, Array] | None = None,
    ) -> list[Value]:
        """`outer`: values around the graph; `given`: arrays that outputs are to be written to."""
        env = self._environment(inputs, outer)
        node = self._root(env)
        while True:
            self._execute(node, env, given or {})
            if not node.stage.rest:
                break
            for number in [v for v in env if v not in node.keep]:
                del env[number]
            node = self._next(node, env)
        return [None if v is None else self._result(node, env, v) for v in self.graph.outputs]

    def _result(self, node: Node, env: Mapping[int, Value], number: int) -> Value:
        if number in env:
            return env[number]
        content = node.stage.known[number].content
        assert content is not None
        return content.copy()

    def _environment(
        self, inputs: Sequence[Value], outer: Mapping[int, Value] | None
    ) -> dict[int, Value]:
        """The values of inputs and captures, by number."""
        env: dict[int, Value] = dict(zip(self.graph.inputs, inputs, strict=True))
        for number in self.graph.captures:
            if number not in self.captured:
                assert outer is not None
                env[number] = outer[number]
        return env

    def planned(
        self, inputs: Sequence[Value], outer: Mapping[int, Value] | None = None
    ) -> tuple[Node, dict[int, Value]] | None:
        """The node for such inputs, and the values by number, where it is one plan and nothing
        else; it has been met."""
        env = self._environment(inputs, outer)
        node = self._roots.get(tuple(_type_key(v) for v in env.values()))
        if node is None or node.loaded is None or node.stage.segment is None:
            return None
        alone = not node.stage.rest and not node.stage.steps and not node.stage.segment.trims
        return (node, env) if alone else None

    # --- planning ---------------------------------------------------------------------------

    def _root(self, env: Mapping[int, Value]) -> Node:
        key = tuple(_type_key(v) for v in env.values())
        found = self._roots.get(key)
        if found is not None:
            return found
        with self.context.lock:
            found = self._roots.get(key)
            if found is None:
                known = {number: known_of(value) for number, value in env.items()}
                known.update(self.captured)
                known.update((n, of_array(a)) for n, a in self.graph.constants.items())
                found = self._node(self.graph.ops, known)
                _remember(self.context, self._roots, key, found)
        return found

    def _next(self, node: Node, env: Mapping[int, Value]) -> Node:
        stage = node.stage
        types = tuple(_type_key(env[v]) for v in stage.types)
        elements = tuple(_content_key(env[v]) for v in stage.contents)
        key = (types, elements)
        found = node.children.get(key)
        if found is not None:
            return found
        with self.context.lock:
            found = node.children.get(key)
            if found is None:
                seen = {v: known_of(env[v]) for v in stage.types}
                arrays = {v: np.array(env[v]) for v in stage.contents}
                found = self._node(stage.rest, learned(stage, seen, arrays))
                _remember(self.context, node.children, key, found)
        return found

    def _node(self, ops: Sequence[Op], known: Mapping[int, Known]) -> Node:
        self.context.refuse_closed()
        self.context.planning()
        with collector.paused(collects=True):
            stage = next_stage(ops, known, self._outputs, self.context.settings)
        loaded = None
        if stage.segment is not None and stage.segment.plan.calls:
            check_memory(stage.segment.plan.arena_bytes)
            loaded = self.context.load(stage.segment.plan)
        keep = set(self._outputs)
        for op in stage.rest:
            keep.update(v for v in op.inputs if v is not None)
            for inner in op.graphs():
                keep.update(inner.captures)
        return Node(stage, loaded, frozenset(keep))

    # --- running ----------------------------------------------------------------------------

    def _execute(self, node: Node, env: dict[int, Value], given: Mapping[int, Array]) -> None:
        self.context.refuse_closed()
        profile = self.context.profiling
        node.profiled += profile
        self.context.visit(node)
        if node.stage.segment is not None:
            _run_segment(node, env, given, profile, self.context.outputs)
        for index, step in enumerate(node.stage.steps):
            start = time.perf_counter_ns() if profile else 0
            if step.kind == "control":
                results = self.context.control(self.context, node, index, step, _Values(node, env))
            else:
                operands = [_operand(node, env, v) for v in step.op.inputs]
                results = self.context.reference(step.op, operands)
            for number, value in zip(step.op.outputs, results, strict=False):
                if number is not None:
                    env[number] = _ordered(value)
            if profile:
                spent = time.perf_counter_ns() - start
                node.spent[index] = node.spent.get(index, 0) + spent


class _Values(Mapping[int, Value]):
    """Values by number: those that were computed, and those that are known without it."""

    def __init__(self, node: Node, env: Mapping[int, Value]) -> None:
        self._node, self._env = node, env

    def __getitem__(self, number: int) -> Value:
        return _operand(self._node, self._env, number)

    def __iter__(self) -> Any:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def _operand(node: Node, env: Mapping[int, Value], number: int | None) -> Value:
    if number is None:
        return None
    if number in env:
        return env[number]
    content = node.stage.known[number].content
    assert content is not None, f"value {number} is not there"
    return content


def _run_segment(
    node: Node,
    env: dict[int, Value],
    given: Mapping[int, Array],
    profile: bool,
    outputs: Outputs,
) -> None:
    """The kernels of a stage; their results are new arrays."""
    segment = node.stage.segment
    assert segment is not None
    plan = segment.plan
    results: list[Array] = []
    for number, view in zip(segment.outputs, plan.outputs, strict=True):
        own = given.get(number)
        dtype = to_numpy(view.dtype)
        fits = own is not None and own.shape == view.shape and own.dtype == dtype
        results.append(own if own is not None and fits else outputs.empty(view.shape, dtype))
    if node.loaded is not None:
        node.loaded.run([env[v] for v in segment.inputs], results, profile)
    for trim in segment.trims:
        results[trim.output] = _trimmed(
            results[trim.output], trim.axis, int(results[trim.count][0])
        )
    env.update((n, a) for n, a in zip(segment.outputs, results, strict=True) if n >= 0)


def _trimmed(array: Array, axis: int, count: int) -> Array:
    """What a kernel has found stands at the beginning, row-major at the true sizes."""
    shape = [*array.shape[:axis], count, *array.shape[axis + 1 :]]
    return array.reshape(-1)[: prod(shape)].reshape(shape).copy()


def _ordered(value: Value) -> Value:
    """Arrays as kernels take them: row-major."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        return np.ascontiguousarray(value)
    return value


def known_of(value: Value) -> Known:
    """What a value's type says; its elements stay unknown."""
    if not isinstance(value, np.ndarray):
        return Known(None)
    return Known(Type(of_numpy(value.dtype), tuple(value.shape)))


def _type_key(value: Value) -> object:
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape
    return type(value)


def _content_key(value: Value) -> object:
    return value.dtype, value.shape, value.tobytes()


def _remember(context: Context, kept: dict[Any, Node], key: object, node: Node) -> None:
    """Keep a node; the oldest goes where there are too many. It is not closed: another thread may
    be running it, and its memory is freed with its last user."""
    if len(kept) >= MOST_CHILDREN:
        kept.pop(next(iter(kept)))
        context.dropped()
    kept[key] = node


def close(node: Node) -> None:
    """Frees the plans of a node and of all behind it."""
    if node.loaded is not None:
        node.loaded.close()
    for child in list(node.children.values()):
        close(child)
    for runners in list(node.runners.values()):
        for runner in list(runners.values()):
            close_runner(runner)


def close_runner(runner: GraphRunner) -> None:
    for node in list(runner._roots.values()):
        close(node)
    runner._roots.clear()
