"""Independent runtimes to compare with: onnxruntime where installed, else the reference evaluator.

In: a model, feeds. Out: outputs in the order of the graph, or `CannotRunError` with the reason.
Whatever a runtime raises is such a reason: onnxruntime's exceptions share no base class but
`Exception`, and operators of the reference evaluator raise what numpy does.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import onnx
from onnx import TensorProto

from rewrite.audit.feeds import (
    PLANS,
    Array,
    Feeds,
    NoFeedsError,
    Plan,
    make_feeds,
    open_inputs,
)
from rewrite.ops.dtypes import to_numpy

# How many seconds one run may take; None: as long as it takes. A Loop may have no end.
patience: ContextVar[float | None] = ContextVar("patience", default=None)

_TURN = 0.05  # seconds between looks at the runs
_BFLOAT16 = to_numpy("bf16")  # onnxruntime takes it only as an OrtValue of the raw bits


class CannotRunError(Exception):
    """This runtime does not take this model or these inputs."""


class TookTooLongError(CannotRunError):
    """A run was ended; another runtime, or other inputs, would most likely take as long."""


class Runner(Protocol):
    @property
    def name(self) -> str: ...

    def run(self, feeds: Feeds) -> list[Array | None]: ...


@dataclass(frozen=True, slots=True)
class Source:
    """A model in memory, or the file of one with external data."""

    proto: onnx.ModelProto
    path: Path | None


def source_of(model: onnx.ModelProto | str | Path) -> Source:
    if isinstance(model, onnx.ModelProto):
        return Source(model, None)
    path = Path(model)
    return Source(onnx.load(str(path), "protobuf", load_external_data=False), path)


def has_onnxruntime() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None


def import_onnxruntime() -> Any:
    """The module. Raises ImportError where it is not installed.

    From 1.29 on it tells its makers about each session: names and hashes of the model among it, and
    keeps files for that in the user's cache folder. Models are not ours to tell of, so that is off
    unless the user has set the variable.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def runners() -> list[Runtime]:
    """The runtimes to try, most independent first."""
    return [OnnxRuntime, Reference] if has_onnxruntime() else [Reference]


def working_plan(runner: Runner, model: onnx.ModelProto, seed: int) -> tuple[Plan, Feeds]:
    """The first plan under which the model runs, and its feeds; raises the first reason if none."""
    reason: CannotRunError | NoFeedsError | None = None
    for plan in PLANS:
        try:
            feeds = make_feeds(model, plan, seed)
            runner.run(feeds)
        except TookTooLongError:
            raise
        except (CannotRunError, NoFeedsError) as found:
            reason = reason or found
            if not open_inputs(model):
                break
        else:
            return plan, feeds
    assert reason is not None
    raise reason


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, item: Source) -> None:
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # Constant weights are packed for another kernel, which sums in another order: a weight
        # that only became constant would change the last bits.
        options.add_session_config_entry("session.disable_prepacking", "1")
        text: Any = str(item.path) if item.path else item.proto.SerializeToString()
        try:
            self.session = onnxruntime.InferenceSession(
                text, options, providers=["CPUExecutionProvider"]
            )
        except Exception as problem:
            raise CannotRunError(_first_line(problem)) from problem
        self.outputs = [value.name for value in item.proto.graph.output]
        self._raw = any(
            value.type.tensor_type.elem_type == TensorProto.BFLOAT16
            for value in (*item.proto.graph.input, *item.proto.graph.output)
        )

    def run(self, feeds: Feeds) -> list[Array | None]:
        options = import_onnxruntime().RunOptions()
        options.log_severity_level = 4
        try:
            with _ending(options):
                if self._raw:
                    return self._run_raw(feeds, options)
                return list(self.session.run(self.outputs, feeds, options))
        except Exception as problem:
            if options.terminate:
                raise TookTooLongError(f"a run took more than {patience.get()} s") from problem
            raise CannotRunError(_first_line(problem)) from problem

    def _run_raw(self, feeds: Feeds, options: Any) -> list[Array | None]:
        onnxruntime = import_onnxruntime()
        values = {name: _ort_value(onnxruntime, array) for name, array in feeds.items()}
        results = self.session.run_with_ort_values(self.outputs, values, options)
        return [_from_ort(result) for result in results]


@contextmanager
def _ending(options: Any) -> Iterator[None]:
    """Ends the run with these options where it takes longer than there is patience for."""
    seconds = patience.get()
    if seconds is None:
        yield
        return
    running = _running(os.getpid())
    running[id(options)] = (time.monotonic() + seconds, options)
    try:
        yield
    finally:
        del running[id(options)]


@cache
def _running(process: int) -> dict[int, tuple[float, Any]]:
    """The runs of the process that are to end: until when, the options that end one.

    One thread looks after all of them, as starting one takes longer than most runs. A process that
    was forked has none, and gets its own.
    """
    running: dict[int, tuple[float, Any]] = {}
    threading.Thread(target=_end_late, args=(running,), daemon=True).start()
    return running


def _end_late(running: dict[int, tuple[float, Any]]) -> None:
    while True:  # as long as the process lives
        time.sleep(_TURN)
        now = time.monotonic()
        for end, options in list(running.values()):
            if now > end:
                options.terminate = True


class Reference:
    name = "onnx.reference"

    def __init__(self, item: Source) -> None:
        from onnx.reference import ReferenceEvaluator

        try:
            self.evaluator = ReferenceEvaluator(str(item.path) if item.path else item.proto)
        except Exception as problem:
            raise CannotRunError(_first_line(problem)) from problem

    def run(self, feeds: Feeds) -> list[Array | None]:
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results = self.evaluator.run(None, dict(feeds))
        except Exception as problem:
            raise CannotRunError(_first_line(problem)) from problem
        return list(cast(Sequence[Array | None], results))


Runtime = type[OnnxRuntime] | type[Reference]


def _ort_value(onnxruntime: Any, array: Array) -> Any:
    if array.dtype != _BFLOAT16:
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
        np.ascontiguousarray(array).view(np.uint16), TensorProto.BFLOAT16
    )


def _from_ort(value: Any) -> Array:
    if value.element_type() != TensorProto.BFLOAT16:
        return np.asarray(value.numpy())
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, dtype=_BFLOAT16).reshape(tuple(value.shape()))


def _first_line(problem: Exception) -> str:
    text = str(problem).strip() or type(problem).__name__
    return text.splitlines()[0][:300]
