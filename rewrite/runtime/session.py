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
from rewrite.errors import error
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
from rewrite.runtime.profile import Profile, Row
from rewrite.runtime.reference import run_node
from rewrite.runtime.spill import Spilled
from rewrite.schema import Type

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a model: element type and shape as declared; None: not a tensor."""

    name: str
    type: Type | None
    optional: bool = False  # an input that has a default


@dataclass(frozen=True, slots=True)
class Options:
    """How a session runs a model."""

    threads: int = 1
    strict: bool = False  # refuse operators without kernels
    fuse: bool = True
    isa: Isa | None = None  # None: this machine's
    progress: Callable[[int], None] | None = None  # told how many kernels are yet to compile


class Session:
    """A model compiled for this machine."""

    def __init__(self, loaded: LoadedModel, options: Options | None = None) -> None:
        self.options = options or Options()
        if self.options.threads < 1:
            raise error("RW806", f"a session needs at least one thread, not {self.options.threads}")
        self._program: Program = read(loaded)
        self._spilled = Spilled(self._program)
        self._device = CpuDevice(self.options.isa or host_isa(), self.options.threads)
        self._weights = Weights(self._device.isa)
        self._numbers = itertools.count(self._program.count)
        self._lock = threading.Lock()
        self._nodes: dict[str, str] = {}  # node -> the device that ran it
        self._seen: dict[int, Node] = {}
        self._closed = False
        self._latest: Mapping[str, Value] | None = None  # feeds, for a profile
        settings = Settings(
            self._weights,
            lambda name: next(self._numbers),
            self._program.opset,
            self.options.strict,
            self.options.fuse,
        )
        self._context = Context(settings, self._load, self._reference, run_control, self._visit)
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
            raise error("RW806", "the session is closed")
        values = self._bind(feeds)
        self._latest = feeds
        given = self._given(outputs, values)
        results = self._runner.run(values, None, given)
        named = dict(zip(self._program.output_names, results, strict=True))
        for name, target in (outputs or {}).items():
            if named[name] is not target:
                _fill(name, target, named[name])
                named[name] = target
        return named

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
            elif port.type is None and _is_optional(port):
                values.append(None)
            else:
                raise error("RW807", f"input `{port.name}` is missing")
        return values

    def _given(
        self, outputs: Mapping[str, Array] | None, values: Sequence[Value]
    ) -> dict[int, Array]:
        """Output arrays that kernels can write to directly: row-major, and apart from inputs."""
        found: dict[int, Array] = {}
        numbers = dict(zip(self._program.output_names, self._program.graph.outputs, strict=True))
        for name, array in (outputs or {}).items():
            if name not in self._program.output_names:
                raise error("RW807", f"the model has no output `{name}`")
            if not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise error("RW808", f"output `{name}` is not an array that can be written to")
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


def _is_optional(port: Port) -> bool:
    return port.type is None


def _bound(port: Port, value: Value, sizes: dict[str, tuple[int, str]]) -> Value:
    """One input, checked against what the model declares."""
    if port.type is None or not isinstance(value, (np.ndarray, np.generic, list, float, int)):
        return value
    if isinstance(value, list) and port.type.dtype is None:
        return value
    array = np.asarray(value)
    if port.type.dtype == "string" or array.dtype.kind in "OUST":
        return array
    if of_numpy(array.dtype) != port.type.dtype and port.type.dtype is not None:
        wanted = to_numpy(port.type.dtype)
        raise error(
            "RW808", f"input `{port.name}` has elements of type {array.dtype}, not {wanted}",
            hint=f"convert it: x.astype({wanted.name!r})",
        )  # fmt: skip
    _check_sizes(port, array.shape, sizes)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if _usable(array) else np.require(array, requirements=["C", "A"])


def _usable(array: Array) -> bool:
    return bool(array.flags.c_contiguous and array.flags.aligned)


def _check_sizes(port: Port, shape: tuple[int, ...], sizes: dict[str, tuple[int, str]]) -> None:
    declared = port.type.shape if port.type is not None else None
    if declared is None:
        return
    told = "[" + ", ".join("?" if str(d).startswith("?") else str(d) for d in declared) + "]"
    if len(declared) != len(shape):
        raise error("RW809", f"input `{port.name}` has shape {list(shape)}, the model wants {told}")
    for dim, size in zip(declared, shape, strict=True):
        if isinstance(dim, int) and dim != size:
            raise error(
                "RW809", f"input `{port.name}` has shape {list(shape)}, the model wants {told}"
            )
        if isinstance(dim, str) and not dim.startswith("?"):
            before, owner = sizes.setdefault(dim, (size, port.name))
            if before != size:
                raise error(
                    "RW809",
                    f"`{dim}` is {before} in input `{owner}` and {size} in `{port.name}`",
                )


def _fill(name: str, target: Array, result: Value) -> None:
    if not isinstance(result, np.ndarray) or result.shape != target.shape:
        shape = list(result.shape) if isinstance(result, np.ndarray) else type(result).__name__
        raise error("RW809", f"output `{name}` is {shape}, the array given {list(target.shape)}")
    if result.dtype != target.dtype:
        raise error("RW808", f"output `{name}` is {result.dtype}, the array given {target.dtype}")
    np.copyto(target, result)
