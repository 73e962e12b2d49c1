"""A model that runs, and what it gives on inputs of each style.

In: a model. Out: `Subject`: runtime, outputs kept; None for models that do not run twice alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import onnx

from rewrite.audit.feeds import FLOATS, NoFeedsError, Plan, is_float
from rewrite.audit.runtimes import CannotRunError, Runner, source_of
from tests.property.feeds import (
    STYLES,
    UNBOUNDED,
    Array,
    Feeds,
    Runtime,
    feeds_of,
    is_open,
    is_overridable,
    start,
)

_EPS = {1: 2.0**-23, 10: 2.0**-10, 11: 2.0**-52, 16: 2.0**-7}
_MAX = {1: 3.4e38, 10: 65504.0, 11: 1.8e308, 16: 3.4e38}
_TO_INTEGERS = frozenset({"Cast", "CastLike", "QuantizeLinear", "DynamicQuantizeLinear"})
_DRAWS = frozenset({"Dropout", "Bernoulli", "Multinomial", "BatchNormalization"})
_SIZES = (Plan(1, 1, 2), Plan(3, 5, 2), Plan(1, 4, 2), Plan(4, 1, 2), Plan(0, 2, 1), Plan(2, 0, 1))


@dataclass
class Subject:
    """A model that runs, with what is needed to run it again."""

    model: onnx.ModelProto
    runtime: Runtime
    runner: Runner
    plan: Plan
    fixed: Mapping[str, Array]
    wide_open: Runner | bool | None = None
    _outputs: dict[tuple[str, int], tuple[Feeds, list[Array | None]] | None] = field(
        default_factory=dict
    )

    def on(self, style: str, seed: int) -> tuple[Feeds, list[Array | None]] | None:
        """Feeds and outputs; None where the model does not take inputs of this style.

        The style "sizes k" has other sizes, those of plan k, where the model leaves them open.
        """
        key = style, seed
        if key not in self._outputs:
            word, _, number = style.partition(" ")
            plan = _SIZES[int(number)] if number else self.plan
            style = "normal" if number else word
            try:
                feeds = feeds_of(self.model, plan, seed, style, self.fixed)
                outputs = self.runner.run(feeds)
                declared = _as_declared(self.model, feeds, outputs)
                self._outputs[key] = (feeds, outputs) if declared else None
            except (CannotRunError, NoFeedsError):
                self._outputs[key] = None
        return self._outputs[key]


def subject(model: onnx.ModelProto, fixed: Mapping[str, Array] | None = None) -> Subject | None:
    """None where no runtime runs the model, or not twice with the same result."""
    try:
        runtime, runner, plan = start(model, fixed or {})
    except (CannotRunError, NoFeedsError):
        return None
    item = Subject(model, runtime, runner, plan, fixed or {})
    ran = item.on("normal", 0)
    if ran is None or not _repeats(item, *ran):
        return None
    return item


def _as_declared(model: onnx.ModelProto, feeds: Feeds, outputs: list[Array | None]) -> bool:
    """Whether the outputs have the shapes that the model says: else it is wrong, or the runtime."""
    sizes: dict[str, int] = {}
    for value in model.graph.input:
        if value.name in feeds:
            shape = feeds[value.name].shape
            dims = value.type.tensor_type.shape.dim
            sizes.update((d.dim_param, s) for d, s in zip(dims, shape, strict=False) if d.dim_param)
    for value, array in zip(model.graph.output, outputs, strict=True):
        if array is None or not value.type.tensor_type.HasField("shape"):
            continue
        dims = value.type.tensor_type.shape.dim
        if len(dims) != np.ndim(array):
            return False
        for dim, size in zip(dims, np.shape(array), strict=True):
            wanted = dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param, size)
            if wanted != size:
                return False
    return True


def _repeats(item: Subject, feeds: Feeds, outputs: list[Array | None]) -> bool:
    """Whether a second run, and a second session, give the same: no random numbers, no state."""
    draws = any("Random" in op or op in _DRAWS for op in operators(item.model.graph))
    for runner in (item.runner, item.runtime(source_of(item.model)), *([item.runner] * 10 * draws)):
        try:
            again = runner.run(feeds)
        except CannotRunError:
            return False
        for a, b in zip(outputs, again, strict=True):
            if (a is None) != (b is None) or (a is not None and not same_bits(a, b)):
                return False
    return True


def styles(model: onnx.ModelProto) -> list[str]:
    more = [f"sizes {k}" for k in range(len(_SIZES))] if is_open(model) else []
    return _by_operators(model) + more + ["overridden"] * is_overridable(model)


def _by_operators(model: onnx.ModelProto) -> list[str]:
    used = set(operators(model.graph))
    for function in model.functions:
        used.update(node.op_type for node in function.node)
    if used & _TO_INTEGERS:
        return [style for style in STYLES if style not in UNBOUNDED]
    return list(STYLES)


def operators(graph: onnx.GraphProto) -> list[str]:
    found = []
    for node in graph.node:
        found.append(node.op_type)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += operators(inner)
    return found


def same_bits(a: Array, b: Array) -> bool:
    """NaN payloads apart."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype == object or a.dtype.kind in "SU":
        return bool((a == b).all())
    if a.tobytes() == b.tobytes():
        return True
    if not is_float(a):
        return False
    raw = np.dtype(f"u{a.dtype.itemsize}")
    equal = np.ascontiguousarray(a).view(raw) == np.ascontiguousarray(b).view(raw)
    with np.errstate(all="ignore"):
        nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return bool((equal.reshape(a.shape) | nan).all())


def largest(model: onnx.ModelProto) -> float:
    """The largest number of the narrowest float type of the model."""
    elems = _float_elems(model)
    return min((_MAX[e] for e in elems if e in _MAX), default=_MAX[1])


@cache
def _eps_of(elems: frozenset[int]) -> float:
    return max((_EPS[e] for e in elems if e in _EPS), default=2.0**-23)


def coarsest(model: onnx.ModelProto) -> float:
    """The largest eps of the float types of the model's inputs, outputs and weights."""
    return _eps_of(_float_elems(model))


def _float_elems(model: onnx.ModelProto) -> frozenset[int]:
    values = (*model.graph.input, *model.graph.output, *model.graph.value_info)
    elems = [v.type.tensor_type.elem_type for v in values]
    elems += [t.data_type for t in model.graph.initializer]
    return frozenset(e for e in elems if e in FLOATS)
