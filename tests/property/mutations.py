"""Mutants of a model: one change each, of the kinds that fool rewriters.

In: a checked model. Out: `Mutant`s, checked again; those that the ONNX checker refuses are dropped.
Every mutator is a generator of changed copies, registered by `@mutator`; the families live in
mutate_*.py. Order and values are fixed, so that a mutant is found again by its name.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.property.samples import INVALID, ends_the_process, valid

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Mutant:
    """`fixed`: inputs that must have these values (operands that were constants)."""

    name: str
    model: onnx.ModelProto
    fixed: Mapping[str, Array] = field(default_factory=dict)


Change = tuple[str, onnx.ModelProto] | tuple[str, onnx.ModelProto, Mapping[str, Array]]
Mutator = Callable[[onnx.ModelProto], Iterator[Change]]

_MUTATORS: list[tuple[str, Mutator]] = []
_FAMILIES = ("types", "constants", "nodes", "places")
NEWEST_IR = 10


def mutator(function: Mutator) -> Mutator:
    _MUTATORS.append((function.__name__, function))
    return function


def mutators() -> tuple[tuple[str, Mutator], ...]:
    for family in _FAMILIES:
        importlib.import_module(f"tests.property.mutate_{family}")
    return tuple(_MUTATORS)


def mutants(model: onnx.ModelProto, only: frozenset[str] | None = None) -> Iterator[Mutant]:
    """All valid mutants of one model, in a fixed order, each once; `only` these kinds."""
    seen = {model.SerializeToString(deterministic=True)}
    for kind, mutate in mutators():
        if only is not None and kind not in only:
            continue
        for change in mutate(model):
            made = change[1]
            text = made.SerializeToString(deterministic=True)
            if text not in seen and valid(made):
                seen.add(text)
                yield Mutant(f"{kind}:{change[0]}", made, change[2] if len(change) > 2 else {})


def chained(model: onnx.ModelProto, rng: random.Random, steps: int) -> Mutant | None:
    """Several random mutations one after the other; None where none is valid."""
    name, fixed = [], {}
    for _ in range(steps):
        kind, mutate = rng.choice(mutators())
        changes = [c for c in mutate(model) if len(name) or True]
        rng.shuffle(changes)
        for change in changes[:6]:
            if valid(change[1]):
                model = change[1]
                fixed = {**fixed, **(change[2] if len(change) > 2 else {})}
                name.append(f"{kind}:{change[0]}")
                break
    return Mutant(" + ".join(name), model, fixed) if name else None


# --- what mutators share -----------------------------------------------------------------------


def copy(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    return made


def opset_of(model: onnx.ModelProto) -> int:
    return next((e.version for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)


def retyped(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model with output types as inferred; None where inference does not know them.

    Declared shapes of outputs are dropped where inference has none.
    """
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.ClearField("type")
    if ends_the_process(model.graph):
        return None
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except INVALID:
        return None
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        if not known.type.tensor_type.elem_type:
            return None
        value.type.CopyFrom(known.type)
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param.startswith("unk__"):
                dim.ClearField("dim_param")
    return model


def arrays(model: onnx.ModelProto) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def with_constant(model: onnx.ModelProto, name: str, array: Array) -> onnx.ModelProto:
    made = copy(model)
    for tensor in made.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array), name))
    return made


def output_types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Types of all values by ONNX's inference."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except INVALID:
        inferred = model
    graph = inferred.graph
    found = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
    for tensor in graph.initializer:
        found[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
    return found


def is_float_elem(elem: int) -> bool:
    return elem in (
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.DOUBLE,
        TensorProto.BFLOAT16,
    )
