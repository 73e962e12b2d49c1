"""Mutants of constants: their values, their shapes, and how the model holds them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from rewrite.audit.feeds import PLANS, open_inputs
from tests.property.feeds import feeds_of
from tests.property.mutations import (
    Array,
    Change,
    arrays,
    copy,
    is_float_elem,
    mutator,
    retyped,
    with_constant,
)

_MAX = {"float16": 6e4, "bfloat16": 1e38, "float32": 3e38, "float64": 1e300}
_TINY = {"float16": 1e-7, "bfloat16": 1e-39, "float32": 1e-39, "float64": 1e-300}


@mutator
def values(model: onnx.ModelProto) -> Iterator[Change]:
    """Other values in one constant."""
    for name, array in arrays(model).items():
        for label, other in _others(array):
            made = with_constant(model, name, other.astype(array.dtype))
            yield f"{name}={label}", made
        if array.dtype.kind in "iu":
            for label, other in _others(array):  # sizes and axes change the output's shape
                result = retyped(with_constant(model, name, other.astype(array.dtype)))
                if result is not None:
                    yield f"{name}={label} retyped", result


def _others(array: Array) -> Iterator[tuple[str, Array]]:
    kind = str(array.dtype)
    if kind in _MAX:
        yield from _floats(array, kind)
    elif kind == "bool":
        yield "not", ~array
    elif array.dtype.kind in "iu":
        yield from _integers(array)
    if array.size > 1:
        yield "reversed", array.reshape(-1)[::-1].reshape(array.shape)
        yield "first", np.full(array.shape, array.reshape(-1)[0])


def _floats(array: Array, kind: str) -> Iterator[tuple[str, Array]]:
    rng = np.random.default_rng(array.size)
    for number in (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, 300.0, np.nan, np.inf, -np.inf):
        yield repr(number), np.full(array.shape, number)
    yield "max", np.full(array.shape, _MAX[kind])
    yield "tiny", np.full(array.shape, _TINY[kind])
    yield "negated", -array.astype(np.float64)
    yield "random", rng.standard_normal(array.shape)
    yield "cancelling", np.asarray(1e4 * rng.choice([-1.0, 1.0], array.shape))
    if array.size > 1:
        for number in (0.0, -0.0, np.nan, np.inf, 1e30):
            other = array.astype(np.float64).reshape(-1).copy()
            with np.errstate(all="ignore"):
                other[-1] = min(number, _MAX[kind]) if number == 1e30 else number
            yield f"last {number!r}", other.reshape(array.shape)
    if array.size > 2:
        wide = 10.0 ** rng.uniform(-6, 6, array.shape) * rng.choice([-1, 1], array.shape)
        yield "spread", np.clip(wide, -_MAX[kind], _MAX[kind])


def _integers(array: Array) -> Iterator[tuple[str, Array]]:
    info = np.iinfo(array.dtype)
    wide = array.astype(object)
    for number in (0, 1, 2, -1, -2, int(info.max), int(info.min)):
        if info.min <= number <= info.max:
            yield str(number), np.full(array.shape, number)
    for label, other in (("+1", wide + 1), ("-1", wide - 1), ("-", -wide)):
        yield label, np.clip(other, int(info.min), int(info.max))
    if array.size > 1:
        for number in (0, -1, int(info.max)):
            if info.min <= number:
                other = array.copy().reshape(-1)
                other[-1] = number
                yield f"last {number}", other.reshape(array.shape)
                other = array.copy().reshape(-1)
                other[0] = number
                yield f"first {number}", other.reshape(array.shape)


@mutator
def constant_shapes(model: onnx.ModelProto) -> Iterator[Change]:
    """A constant of a higher rank, of a lower one, shrunk to one element or grown."""
    for name, array in arrays(model).items():
        for label, other in _reshaped(array):
            result = retyped(with_constant(model, name, other))
            if result is not None:
                yield f"{name} {label}", result


def _reshaped(array: Array) -> Iterator[tuple[str, Array]]:
    yield "more", array[None]
    yield "more2", array[None, None]
    yield "after", array[..., None]
    yield "twice", np.concatenate([array[None], array[None]])
    if array.ndim and array.shape[0] == 1:
        yield "less", array[0]
    if array.ndim:
        yield "three", np.repeat(array[:1], 3, axis=0) if array.shape[0] else array
        yield "doubled", np.concatenate([array, array])
        yield "one", array[:1]
        yield "none", array[:0]
        yield "scalar", np.asarray(array.reshape(-1)[0]) if array.size else array
        yield "transposed", array.T
    if array.size == 1:
        yield "rank 0", array.reshape(())


@mutator
def overridable(model: onnx.ModelProto) -> Iterator[Change]:
    """A constant that callers may override: an initializer that is an input, too."""
    for tensor in model.graph.initializer:
        made = copy(model)
        made.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
        yield tensor.name, made


@mutator
def not_constant(model: onnx.ModelProto) -> Iterator[Change]:
    """A constant that becomes an input: with these values, and floats with any."""
    for tensor in model.graph.initializer:
        made = copy(model)
        for other in made.graph.initializer:
            if other.name == tensor.name:
                made.graph.initializer.remove(other)
                break
        made.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
        result = retyped(made)
        if result is None:
            continue
        yield tensor.name, result, {tensor.name: numpy_helper.to_array(tensor)}
        if is_float_elem(tensor.data_type):
            yield f"{tensor.name} any", result


@mutator
def constant_inputs(model: onnx.ModelProto) -> Iterator[Change]:
    """An input, or all of them, as a constant: there is more to compute beforehand."""
    names = [value.name for value in open_inputs(model)]
    for chosen in [[name] for name in names] + ([names] if len(names) > 1 else []):
        for style in ("normal", "halves", "wild"):
            feeds = feeds_of(model, PLANS[0], 0, style, {})
            made = copy(model)
            for value in model.graph.input:
                if value.name in chosen:
                    made.graph.input.remove(value)
                    tensor = numpy_helper.from_array(feeds[value.name], value.name)
                    made.graph.initializer.append(tensor)
            result = retyped(made)
            if result is not None:
                yield f"{' '.join(chosen)} {style}", result


@mutator
def constant_nodes(model: onnx.ModelProto) -> Iterator[Change]:
    """Constants in Constant nodes, or behind an Identity."""
    made = copy(model)
    nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in model.graph.initializer]
    if not nodes:
        return
    del made.graph.initializer[:]
    old = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([*nodes, *old])
    yield "all", made
    for tensor in model.graph.initializer:
        made = copy(model)
        for other in made.graph.initializer:
            if other.name == tensor.name:
                other.name = tensor.name + "_held"
        node = helper.make_node("Identity", [tensor.name + "_held"], [tensor.name])
        made.graph.node.insert(0, node)
        yield f"identity {tensor.name}", made


@mutator
def shared_constants(model: onnx.ModelProto) -> Iterator[Change]:
    """A constant that another node uses as well, or that is an output of the graph."""
    for tensor in model.graph.initializer:
        made = copy(model)
        made.graph.node.append(helper.make_node("Identity", [tensor.name], [tensor.name + "_seen"]))
        made.graph.output.append(
            helper.make_tensor_value_info(
                tensor.name + "_seen", tensor.data_type, list(tensor.dims)
            )
        )
        yield f"{tensor.name} used", made
        made = copy(model)
        made.graph.output.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
        yield f"{tensor.name} given out", made


@mutator
def one_constant_for_another(model: onnx.ModelProto) -> Iterator[Change]:
    """Two constants of one type become one."""
    tensors = model.graph.initializer
    for i, first in enumerate(tensors):
        for second in tensors[i + 1 :]:
            if first.data_type != second.data_type or first.dims != second.dims:
                continue
            made = copy(model)
            for node in made.graph.node:
                for place, name in enumerate(node.input):
                    if name == second.name:
                        node.input[place] = first.name
            result = retyped(made)
            if result is not None:
                yield f"{second.name}={first.name}", result


@mutator
def ir_version_3(model: onnx.ModelProto) -> Iterator[Change]:
    """IR version 3, where every initializer is an input, and constant nevertheless."""
    if any(e.domain in ("", "ai.onnx") and e.version > 8 for e in model.opset_import):
        return
    made = copy(model)
    made.ir_version = 3
    for tensor in model.graph.initializer:
        made.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        )
    yield "all", made
