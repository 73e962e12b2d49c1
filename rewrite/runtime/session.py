"""A session: a model that runs here.

In: a `LoadedModel`, and how to run it. Out: `Session`: `run(feeds)`, `profile()`, `devices()`,
`close()`. Plans are made for the sizes that runs bring and kept. A session may be used from several
threads at once.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import numpy as np

from rewrite.codegen.isa import Isa, host_isa
from rewrite.errors import RewriteError, error
from rewrite.graph.model import LoadedModel
from rewrite.ops.dtypes import of_numpy, to_numpy
from rewrite.plan.program import Op, Program, read
from rewrite.plan.proto import node_of
from rewrite.plan.spec import Plan
from rewrite.plan.stage import Settings
from rewrite.plan.weights import Weights
from rewrite.runtime.control import run_control
from rewrite.runtime.device import CpuDevice
from rewrite.runtime.executor import Context, GraphRunner, Node, close_runner
from rewrite.runtime.outputs import separated
from rewrite.runtime.profile import Profile, Row
from rewrite.runtime.reference import run_node
from rewrite.runtime.spill import Spilled
from rewrite.schema import Shape, Type

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a model: element type and shape as declared; None: not a tensor."""

    name: str
    type: Type | None
    optional: bool = False  # an input that has a default

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The element type in numpy's terms."""
        name = self.type.dtype if self.type is not None else None
        return None if name is None else to_numpy(name)

    def __str__(self) -> str:
        """`x: float32[N,3]`."""
        if self.dtype is None:
            return self.name
        sizes = () if self.shape is None else self.shape
        shape = ",".join("?" if n is None else str(n) for n in sizes)
        return f"{self.name}: {self.dtype}[{shape}]" if sizes else f"{self.name}: {self.dtype}"

    @property
    def shape(self) -> tuple[int | str | None, ...] | None:
        """A size that has a name is that name, any other that is not fixed None."""
        if self.type is None or self.type.shape is None:
            return None
        return tuple(None if str(n).startswith("?") else n for n in self.type.shape)


@dataclass(frozen=True, slots=True)
class Options:
    """How a session runs a model."""

    threads: int = 1
    strict: bool = False  # refuse operators without kernels
    fuse: bool = True
    isa: Isa | None = None  # None: this machine's
    progress: Callable[[int], None] | None = None  # told how many kernels are yet to compile
    fast_math: bool = False  # algorithms for f32 whose rounding errors are some times as large


class Session:
    """A model compiled for this machine."""

    def __init__(self, loaded: LoadedModel, options: Options | None = None) -> None:
        self.options = options or Options()
        threads = self.options.threads
        if not isinstance(threads, int) or threads < 1:
            raise error("RW806", f"a session needs one thread or more, not {threads!r}")
        self._program: Program = read(loaded)
        self._spilled = Spilled(self._program)
        self._device = CpuDevice(self.options.isa or host_isa(), self.options.threads)
        self._weights = Weights(self._device.isa)
        self._numbers = itertools.count(self._program.count)
        self._lock = threading.Lock()
        self._nodes: dict[str, str] = {}  # node -> the device that ran it
        self._seen: dict[int, Node] = {}
        self._closed = False
        self._ready: dict[object, _Ready] = {}
        self._latest: Mapping[str, Value] | None = None  # feeds, for a profile
        settings = Settings(
            self._weights,
            lambda name: next(self._numbers),
            self._program.opset,
            self.options.strict,
            self.options.fuse,
            self.options.fast_math,
        )
        self._context = Context(settings, self._load, self._reference, run_control, self._visit)
        self._context.dropped = self._forget
        self._context.planning = self._spilled.check
        self._runner = GraphRunner(self._program.graph, self._context, {})
        program = self._program
        self.inputs = tuple(
            Port(name, type_, number in program.graph.defaults)
            for name, type_, number in zip(
                program.input_names, program.input_types, program.graph.inputs, strict=True
            )
        )
        self.outputs = tuple(
            Port(name, type_)
            for name, type_ in zip(program.output_names, program.output_types, strict=True)
        )

    def __repr__(self) -> str:
        """What goes in and what comes out, in one line."""
        given, made = (", ".join(map(str, ports)) for ports in (self.inputs, self.outputs))
        return f"<Session{' (closed)' if self._closed else ''}: {given} -> {made}>"

    @property
    def is_large(self) -> bool:
        """Whether constants were left in files."""
        return self._spilled.large

    # --- running ----------------------------------------------------------------------------

    def run(
        self, feeds: Mapping[str, Value], outputs: Mapping[str, Array] | None = None
    ) -> dict[str, Value]:
        """All outputs by name. `outputs`: arrays that results are written to.

        Arrays go in without copies where they are row-major, and come out without copies. Raises
        `RewriteError`: RW806 closed or misused, RW807 names, RW808 types, RW809 sizes.
        """
        if self._closed:
            raise error("RW806", "the session is closed", hint="compile the model again")
        _check_mapping("feeds", feeds)
        if outputs is None:
            found = self._run_again(feeds)
            if found is not None:
                return found
        else:
            _check_mapping("outputs", outputs)
        values = self._bind(feeds)
        self._latest = feeds
        given = self._given(outputs, values)
        try:
            results = self._runner.run(values, None, given)
        except MemoryError as problem:  # arrays made while planning, or results
            message = f"the system does not give so much memory: {problem or 'nothing is left'}"
            raise error("RW811", message, hint="give smaller inputs") from problem
        results = separated(results, values, given.values())
        named = dict(zip(self._program.output_names, results, strict=True))
        for name, target in (outputs or {}).items():
            if named[name] is not target:
                _fill(name, target, named[name])
                named[name] = target
        self._remember(feeds, values)
        return named

    # A model that is one plan needs no driver once its sizes have been met: what was found about
    # arrays of these types and shapes holds again.

    def _run_again(self, feeds: Mapping[str, Value]) -> dict[str, Value] | None:
        """The outputs, where such arrays have been given before and one plan is all there is."""
        key = self._signature(feeds)
        ready = None if key is None else self._ready.get(key)
        if ready is None or self._context.profiling:
            return None
        self._latest = feeds
        empty = self._context.outputs.empty
        results = [empty(shape, dtype) for shape, dtype in ready.outputs]
        ready.run([feeds[name] for name in ready.inputs], results)
        return {name: results[index] for name, index in ready.names}

    def _signature(self, feeds: Mapping[str, Value]) -> object | None:
        """The types and shapes of feeds; None where they have to be looked at one by one."""
        if len(feeds) != len(self.inputs):
            return None
        key = []
        for port in self.inputs:
            array = feeds.get(port.name)
            if type(array) is not np.ndarray or array.flags.num & _USABLE != _USABLE:
                return None
            if not array.dtype.isnative:
                return None
            key.append((array.dtype, array.shape))
        return tuple(key)

    def _remember(self, feeds: Mapping[str, Value], values: Sequence[Value]) -> None:
        key = self._signature(feeds)
        if key is None or key in self._ready or len(self._ready) >= _MOST_READY:
            return
        planned = self._runner.planned(values)
        if planned is None:
            return
        node = planned[0]
        segment, plan = node.stage.segment, node.loaded
        assert segment is not None
        assert plan is not None
        places = {number: k for k, number in enumerate(segment.outputs)}
        graph = self._program.graph
        names = dict(zip(graph.inputs, self._program.input_names, strict=True))
        if not all(v in places for v in graph.outputs) or not all(
            v in names for v in segment.inputs
        ):
            return
        self._ready[key] = _Ready(
            plan.run,
            tuple(names[v] for v in segment.inputs),
            tuple((view.shape, to_numpy(view.dtype)) for view in segment.plan.outputs),
            tuple(
                (name, places[v])
                for name, v in zip(self._program.output_names, graph.outputs, strict=True)
                if v is not None
            ),
        )

    def _bind(self, feeds: Mapping[str, Value]) -> list[Value]:
        unknown = [name for name in feeds if name not in self._program.input_names]
        if unknown:
            known = ", ".join(self._program.input_names) or "none"
            raise error(
                "RW807", f"the model has no input `{unknown[0]}`", hint=f"its inputs are {known}"
            )
        sizes: dict[str, tuple[int, str]] = {}
        values: list[Value] = []
        for port, number in zip(self.inputs, self._program.graph.inputs, strict=True):
            if port.name in feeds:
                values.append(_bound(port, feeds[port.name], sizes))
            elif port.optional:
                values.append(self._program.graph.defaults[number])
            elif port.type is None:
                values.append(None)
            else:
                given = ", ".join(f"`{name}`" for name in feeds) or "nothing"
                raise error("RW807", f"input `{port.name}` is missing", hint=f"given: {given}")
        return values

    def _given(
        self, outputs: Mapping[str, Array] | None, values: Sequence[Value]
    ) -> dict[int, Array]:
        """Output arrays that kernels can write to directly: row-major, and apart from inputs."""
        found: dict[int, Array] = {}
        numbers = dict(zip(self._program.output_names, self._program.graph.outputs, strict=True))
        for name, array in (outputs or {}).items():
            if name not in self._program.output_names:
                known = ", ".join(self._program.output_names)
                raise error(
                    "RW807", f"the model has no output `{name}`", hint=f"its outputs are {known}"
                )
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise error("RW808", f"output `{name}` is not an array that can be written to")
            for other, before in (outputs or {}).items():
                if other == name:
                    break
                if np.may_share_memory(before, array):
                    raise error(
                        "RW806", f"the arrays given for `{other}` and `{name}` share memory",
                        hint="give each output an array of its own",
                    )  # fmt: skip
            number = numbers[name]
            apart = not any(
                isinstance(v, np.ndarray) and np.may_share_memory(v, array) for v in values
            )
            if number is not None and _usable(array) and apart:
                found[number] = array
        return found

    # --- what the executor asks for -----------------------------------------------------------

    def _load(self, plan: Plan) -> Any:
        made = self._device.load(plan, self.options.progress)
        self._spilled.release()
        return made

    def _reference(self, op: Op, operands: Sequence[Value]) -> list[Value]:
        return run_node(node_of(op), op.opset, op.attributes, operands, op.node)

    def _visit(self, node: Node) -> None:
        if id(node) not in self._seen:
            with self._lock:
                self._seen[id(node)] = node

    def _forget(self) -> None:
        """A plan was dropped: nothing else holds on to it."""
        self._ready.clear()
        with self._lock:
            self._seen.clear()

    # --- reports ----------------------------------------------------------------------------

    def devices(self) -> dict[str, str]:
        """Which device has run each node: `native`, `reference`, or `driver` for control flow."""
        found: dict[str, str] = {}
        for node in list(self._seen.values()):
            segment = node.stage.segment
            for call in segment.plan.calls if segment is not None else ():
                for name in call.nodes:
                    found.setdefault(name, "native")
            for step in node.stage.steps:
                found[step.op.node] = "driver" if step.kind == "control" else "reference"
        return found

    def profile(self, feeds: Mapping[str, Value] | None = None, runs: int = 10) -> Profile:
        """Runs the model and says what each kernel took, moved and computed.

        `feeds` None: those of the latest run. Control flow counts as a row of its own, and the
        kernels inside it as rows too.
        """
        if not isinstance(runs, int) or runs < 1:
            raise error("RW806", f"a profile needs one run or more, not {runs!r}")
        given = self._latest if feeds is None else feeds
        if given is None:
            raise error("RW806", "nothing has run yet", hint="give feeds: session.profile(feeds)")
        self.run(given)
        with self._lock:
            self._context.profiling = True
        try:
            for _ in range(runs):
                self.run(given)
        finally:
            self._context.profiling = False
        rows = [row for node in list(self._seen.values()) for row in _rows(node, runs)]
        total = sum(row.nanoseconds for row in rows)
        shared = (replace(r, share=r.nanoseconds / total if total else 0.0) for r in rows)
        return Profile(runs, tuple(shared))

    @property
    def plan(self) -> tuple[Plan, ...]:
        """The plans made so far, in the order in which they first ran."""
        segments = (node.stage.segment for node in list(self._seen.values()))
        return tuple(segment.plan for segment in segments if segment is not None)

    # --- life -------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees plans, arenas and threads; the session cannot run any more."""
        if self._closed:
            return
        self._closed = True
        self._ready.clear()
        with self._context.lock:  # nothing is planned behind this
            self._context.closed = True
        close_runner(self._runner)
        self._device.close()
        self._weights.clear()
        self._spilled.clear()
        self._context.outputs.clear()
        self._seen.clear()
        self._latest = None

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


_USABLE = 0x001 | 0x100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
_MOST_READY = 256


@dataclass(frozen=True, slots=True)
class _Ready:
    """A plan, the names of what goes into it, its outputs, and which of them have which name."""

    run: Callable[[Sequence[Array], Sequence[Array]], None]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    names: tuple[tuple[str, int], ...]


def _rows(node: Node, runs: int) -> Iterator[Row]:
    """What profiled runs took, per run of the model: a stage in a loop runs more often."""
    if not node.profiled:
        return
    times = node.profiled / runs
    if node.loaded is not None:
        for row in node.loaded.profile().rows:
            yield replace(row, nanoseconds=row.nanoseconds * times)
    for index, spent in node.spent.items():
        step = node.stage.steps[index]
        device = "driver" if step.kind == "control" else "reference"
        yield Row(step.op.name, device, (step.op.node,), spent / runs, 0.0, 0, 0)


def _bound(port: Port, value: Value, sizes: dict[str, tuple[int, str]]) -> Value:
    """One input, checked against what the model declares."""
    if port.type is None or (port.type.dtype is None and not isinstance(value, np.ndarray)):
        return value
    array = _array(port, value)
    if port.type.dtype == "string" and array.dtype.kind in "OUST":
        _check_sizes(port, array.shape, sizes)
        return array
    if of_numpy(array.dtype) != port.type.dtype and port.type.dtype is not None:
        raise _mistyped(port, array.dtype)
    _check_sizes(port, array.shape, sizes)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if _usable(array) else np.require(array, requirements=["C", "A"])


def _array(port: Port, value: Value) -> Array:
    """What was given as an array: numpy's, its scalars, numbers and lists of them."""
    if not isinstance(value, (np.ndarray, np.generic, list, tuple, float, int, str)):
        raise error(
            "RW808", f"input `{port.name}` is of type {type(value).__name__}, not an array",
            hint="give a numpy array",
        )  # fmt: skip
    try:
        return np.asarray(value)
    except ValueError as problem:  # rows of different lengths
        raise error("RW808", f"input `{port.name}` is not an array: {problem}") from problem


def _mistyped(port: Port, found: np.dtype[Any]) -> RewriteError:
    assert port.type is not None
    assert port.type.dtype is not None
    name = port.type.dtype if port.type.dtype == "string" else to_numpy(port.type.dtype).name
    return error(
        "RW808",
        f"input `{port.name}` has elements of type {found}, not {name}",
        hint="give an array of str" if name == "string" else f"convert it: x.astype({name!r})",
    )


def _check_mapping(what: str, given: object) -> None:
    if not isinstance(given, Mapping):
        raise error(
            "RW807", f"{what} are of type {type(given).__name__}, not arrays by name",
            hint='give a dictionary: {"x": x}',
        )  # fmt: skip


def _usable(array: Array) -> bool:
    return bool(array.flags.c_contiguous and array.flags.aligned)


def _check_sizes(port: Port, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    declared = port.type.shape if port.type is not None else None
    if declared is None or declared == shape:
        return
    if len(declared) != len(shape):
        raise _missized(port, shape, declared)
    for dim, size in zip(declared, shape, strict=True):
        if dim.__class__ is int:
            if dim != size:
                raise _missized(port, shape, declared)
        elif isinstance(dim, str) and not dim.startswith("?"):
            before, owner = sizes.setdefault(dim, (size, port.name))
            if before != size:
                raise error(
                    "RW809",
                    f"`{dim}` is {before} in input `{owner}` and {size} in `{port.name}`",
                )


def _missized(port: Port, shape: tuple[int, ...], declared: Shape) -> RewriteError:
    wanted = ", ".join("?" if str(d).startswith("?") else str(d) for d in declared)
    message = f"input `{port.name}` has shape {list(shape)}, the model wants [{wanted}]"
    return error("RW809", message)


def _fill(name: str, target: Array, result: Value) -> None:
    if not isinstance(result, np.ndarray) or result.shape != target.shape:
        shape = list(result.shape) if isinstance(result, np.ndarray) else type(result).__name__
        raise error("RW809", f"output `{name}` is {shape}, the array given {list(target.shape)}")
    if result.dtype != target.dtype:
        raise error("RW808", f"output `{name}` is {result.dtype}, the array given {target.dtype}")
    np.copyto(target, result)
