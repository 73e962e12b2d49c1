"""Inputs that look for trouble, and runs of a model on them.

In: a model, values that some inputs must have. Out: feeds by style; outputs of onnxruntime, or of
ONNX's reference evaluator where onnxruntime has no kernel.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from rewrite.audit.feeds import FLOATS, PLANS, NoFeedsError, Plan, make_feeds, open_inputs
from rewrite.audit.runtimes import CannotRunError, OnnxRuntime, Reference, Runner, source_of

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
Runtime = type[OnnxRuntime] | type[Reference]

_WILD = (np.inf, -np.inf, np.nan, 0.0, -0.0, 0.5, -1.5, 2.5, 1.0, -1.0, 3.0)
_INFINITE = tuple(v for v in _WILD if not np.isnan(v))

STYLES: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "unit": lambda rng, shape: rng.random(shape),
    "large": lambda rng, shape: rng.standard_normal(shape) * 30.0,
    "negative": lambda rng, shape: -np.abs(rng.standard_normal(shape)) - 0.25,
    "tiny": lambda rng, shape: rng.standard_normal(shape) * 1e-4,
    "zero": lambda rng, shape: np.zeros(shape) * rng.choice([1.0, -1.0], shape),
    "halves": lambda rng, shape: rng.integers(-8, 9, shape) / 2.0,
    "huge": lambda rng, shape: rng.standard_normal(shape) * 10.0 ** rng.uniform(0, 30, shape),
    "wild": lambda rng, shape: rng.choice(_WILD, shape),
    "infinite": lambda rng, shape: rng.choice(_INFINITE, shape),
}
_NO_KERNEL = ("NOT_IMPLEMENTED", "INVALID_GRAPH", "is not a registered", "officially supported")
# Out of the range of an integer type, or NaN: what becomes of them is not defined.
UNBOUNDED = frozenset({"huge", "wild", "infinite"})


def feeds_of(
    model: onnx.ModelProto, plan: Plan, seed: int, style: str, fixed: Mapping[str, Array]
) -> Feeds:
    """Inputs in a style; `fixed` ones as they are. Integers come from the plan."""
    feeds = make_feeds(model, plan, seed)
    if style == "overridden":
        feeds.update(_overridden(model, seed))
        style = "normal"
    for value in open_inputs(model):
        name, elem = value.name, value.type.tensor_type.elem_type
        if name in fixed:
            feeds[name] = fixed[name]
        elif elem in FLOATS:
            rng = np.random.default_rng([seed, zlib.crc32((style + name).encode())])
            dtype = helper.tensor_dtype_to_np_dtype(elem)
            with np.errstate(all="ignore"):
                wanted = STYLES[style](rng, feeds[name].shape)
                if style == "huge":  # as huge as the type allows, not beyond
                    limit = float(ml_dtypes.finfo(dtype).max) / 4
                    wanted = np.clip(wanted, -limit, limit)
                feeds[name] = np.asarray(wanted).astype(dtype)
    return feeds


def _overridden(model: onnx.ModelProto, seed: int) -> Feeds:
    """Other values for float initializers that callers may override."""
    inputs = {value.name for value in model.graph.input}
    rng = np.random.default_rng(seed)
    return {
        t.name: rng.standard_normal(tuple(t.dims)).astype(
            helper.tensor_dtype_to_np_dtype(t.data_type)
        )
        for t in model.graph.initializer
        if t.name in inputs and t.data_type in FLOATS and model.ir_version >= 4
    }


def is_overridable(model: onnx.ModelProto) -> bool:
    return bool(_overridden(model, 0))


def is_open(model: onnx.ModelProto) -> bool:
    """Whether some size of an input is left to the caller."""
    tensors = [value.type.tensor_type for value in open_inputs(model)]
    return any(
        not t.HasField("shape") or any(not d.HasField("dim_value") for d in t.shape.dim)
        for t in tensors
    )


def start(model: onnx.ModelProto, fixed: Mapping[str, Array]) -> tuple[Runtime, Runner, Plan]:
    """A runtime that takes the model, and a plan of sizes under which it runs."""
    problem: Exception = CannotRunError("no runtime takes the model")
    for runtime in (OnnxRuntime, Reference):
        try:
            runner: Runner = runtime(source_of(model))
        except CannotRunError as found:
            if not _lacks_kernel(found):
                raise
            problem = found
            continue
        for plan in PLANS[:6]:
            try:
                runner.run(feeds_of(model, plan, 0, "normal", fixed))
            except (CannotRunError, NoFeedsError) as found:
                problem = found
            else:
                return runtime, runner, plan
        if not _lacks_kernel(problem):
            break
    raise CannotRunError(str(problem))


def _lacks_kernel(problem: Exception) -> bool:
    """Whether the runtime has no kernel, rather than the model being wrong."""
    return any(words in str(problem) for words in _NO_KERNEL)
