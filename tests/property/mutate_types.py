"""Mutants of element types, shapes and opsets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from tests.property.mutations import (
    Array,
    Change,
    arrays,
    copy,
    mutator,
    opset_of,
    retyped,
    with_constant,
)

_FLOAT_TO = {
    "f16": TensorProto.FLOAT16,
    "f64": TensorProto.DOUBLE,
    "bf16": TensorProto.BFLOAT16,
    "s32": TensorProto.INT32,
    "s64": TensorProto.INT64,
    "s8": TensorProto.INT8,
    "u8": TensorProto.UINT8,
}
_SWAPS = (
    (TensorProto.UINT8, TensorProto.INT8),
    (TensorProto.INT8, TensorProto.UINT8),
    (TensorProto.INT32, TensorProto.INT64),
    (TensorProto.INT32, TensorProto.UINT8),
    (TensorProto.BOOL, TensorProto.INT32),
    (TensorProto.INT64, TensorProto.FLOAT),
    (TensorProto.FLOAT16, TensorProto.FLOAT),
    (TensorProto.INT8, TensorProto.INT16),
    (TensorProto.UINT8, TensorProto.UINT16),
)


@mutator
def element_type(model: onnx.ModelProto) -> Iterator[Change]:
    """All float32 (or other) values become another type."""
    for name, elem in _FLOAT_TO.items():
        yield from _retype(f"f32_{name}", model, TensorProto.FLOAT, elem)
    for old, new in _SWAPS:
        names = TensorProto.DataType.Name
        yield from _retype(f"{names(old)}_{names(new)}".lower(), model, old, new)


def _retype(name: str, model: onnx.ModelProto, old: int, new: int) -> Iterator[Change]:
    made = copy(model)
    found = False
    for value in made.graph.input:
        if value.type.tensor_type.elem_type == old:
            value.type.tensor_type.elem_type = new
            found = True
    for tensor in made.graph.initializer:
        if tensor.data_type == old:
            tensor.CopyFrom(_converted(tensor, new))
            found = True
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == old:
                attribute.i = new
            if attribute.t.data_type == old:
                attribute.t.CopyFrom(_converted(attribute.t, new))
    result = retyped(made) if found else None
    if result is not None:
        yield name, result


def widened(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """All float32, float16 and bfloat16 values in float64; None where inference does not agree."""
    made: onnx.ModelProto | None = model
    for old in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        assert made is not None
        made = next((m for _, m in _retype("", made, old, TensorProto.DOUBLE)), made)
    return made


def _converted(tensor: onnx.TensorProto, elem: int) -> onnx.TensorProto:
    with np.errstate(all="ignore"):
        array = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(elem))
    return numpy_helper.from_array(np.asarray(array), tensor.name)


@mutator
def one_constant_type(model: onnx.ModelProto) -> Iterator[Change]:
    """One integer constant in the other width: indices may be int32 or int64."""
    for name, array in arrays(model).items():
        other = {"int64": np.int32, "int32": np.int64}.get(str(array.dtype))
        if other is not None:
            clipped = np.clip(array, np.iinfo(np.int32).min, np.iinfo(np.int32).max)
            yield name, with_constant(model, name, clipped.astype(other))


@mutator
def index_types(model: onnx.ModelProto) -> Iterator[Change]:
    """The integer constants of one node, or all, in the other width; each node with its own."""
    known = arrays(model)
    for number in (*range(len(model.graph.node)), None):
        made = copy(model)
        chosen = made.graph.node if number is None else [made.graph.node[number]]
        for node in chosen:
            for place, name in enumerate(node.input):
                if name in known and known[name].dtype == np.int64:
                    array = np.clip(known[name], -(2**31), 2**31 - 1).astype(np.int32)
                    label = f"{name}_{node.output[0]}"
                    made.graph.initializer.append(numpy_helper.from_array(array, label))
                    node.input[place] = label
        result = retyped(made)
        if result is not None:
            yield "all" if number is None else model.graph.node[number].output[0], result


# Input that carries, up to this opset, what an attribute carried before.
_LEGACY: dict[str, tuple[tuple[int, str, int], ...]] = {
    **dict.fromkeys(
        (
            "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
            "ReduceMin", "ReduceProd", "ReduceSumSquare",
        ),
        ((1, "axes", 17),),
    ),
    "ReduceSum": ((1, "axes", 12),),
    "Squeeze": ((1, "axes", 12),),
    "Unsqueeze": ((1, "axes", 12),),
    "Clip": ((1, "min", 10), (2, "max", 10)),
    "Dropout": ((1, "ratio", 11),),
    "Pad": ((1, "pads", 10), (2, "value", 10)),
    "Slice": ((1, "starts", 9), (2, "ends", 9), (3, "axes", 9)),
    "Split": ((1, "split", 12),),
    "TopK": ((1, "k", 9),),
}  # fmt: skip
_SCALARS = frozenset({"min", "max", "ratio", "value", "k"})


@mutator
def opset(model: onnx.ModelProto) -> Iterator[Change]:
    """The same model at every other opset that can say it."""
    current = opset_of(model)
    for version in range(7, defs.onnx_opset_version() + 1):
        if version != current and (result := at_opset(model, version)) is not None:
            yield str(version), result


def at_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto | None:
    """The model at another opset; None where that cannot say it."""
    made = copy(model)
    for entry in made.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = version
    return retyped(made) if _converted_nodes(made, version) else None


def _converted_nodes(model: onnx.ModelProto, version: int) -> bool:
    """Operands in the form of the opset; False where it has none."""
    constants = arrays(model)
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        for index, name, until in reversed(_LEGACY.get(node.op_type, ())):
            if version <= until:
                if not _to_attribute(node, index, name, constants):
                    return False
            elif not _to_operand(model, node, index, name):
                return False
        if not _fit_attributes(node, version):
            return False
    return True


def _to_attribute(node: onnx.NodeProto, index: int, name: str, constants: dict[str, Array]) -> bool:
    if index >= len(node.input) or not node.input[index]:
        return True
    array = constants.get(node.input[index])
    if array is None or index != len(node.input) - 1:
        return False
    value = array.reshape(-1).tolist()
    if not value:
        return False
    node.attribute.append(helper.make_attribute(name, value[0] if name in _SCALARS else value))
    del node.input[index:]
    while node.input and not node.input[-1]:
        del node.input[-1]
    return True


def _to_operand(model: onnx.ModelProto, node: onnx.NodeProto, index: int, name: str) -> bool:
    for attribute in node.attribute:
        if attribute.name != name:
            continue
        value = helper.get_attribute_value(attribute)
        node.attribute.remove(attribute)
        dtype = np.float32 if name in ("min", "max", "ratio", "value") else np.int64
        label = f"{node.output[0]}_{name}"
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype), label))
        while len(node.input) < index:
            node.input.append("")
        node.input.append(label)
        return True
    return True


def _fit_attributes(node: onnx.NodeProto, version: int) -> bool:
    """Attributes that the version lacks go where they have their default."""
    try:
        schema = defs.get_schema(node.op_type, version, "")
        newest = defs.get_schema(node.op_type, defs.onnx_opset_version(), "")
    except defs.SchemaError:
        return False
    bare = not any(a.name == "num_outputs" for a in node.attribute) and len(node.input) < 2
    if node.op_type == "Split" and version >= 18 and bare:
        node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
    for attribute in list(node.attribute):
        if attribute.name in schema.attributes:
            continue
        known = newest.attributes.get(attribute.name)
        default = known.default_value if known is not None else None
        if attribute.name != "num_outputs" and (
            default is None
            or helper.get_attribute_value(default) != helper.get_attribute_value(attribute)
        ):
            return False
        node.attribute.remove(attribute)
    return True


@mutator
def sizes(model: onnx.ModelProto) -> Iterator[Change]:
    """One size of one input: 1, 0, another, a name, unknown; all of one size alike."""
    for number, value in enumerate(model.graph.input):
        if not value.type.tensor_type.HasField("shape"):
            continue
        for place, dim in enumerate(value.type.tensor_type.shape.dim):
            for size in (1, 0, 2, 3):
                if dim.HasField("dim_value") and dim.dim_value == size:
                    continue
                yield from _resized(f"{value.name}[{place}]={size}", model, number, place, size)
            yield from _resized(f"{value.name}[{place}]=?", model, number, place, None)
            yield from _resized(f"{value.name}[{place}]=S", model, number, place, "S")
    for size in {d.dim_value for v in model.graph.input for d in v.type.tensor_type.shape.dim}:
        for other in ("N", 1, 0, size + 1):
            made = _all_sizes(model, size, other)
            if made is not None:
                yield f"all {size}={other}", made


def _resized(
    name: str, model: onnx.ModelProto, number: int, place: int, size: int | str | None
) -> Iterator[Change]:
    made = copy(model)
    _set(made.graph.input[number].type.tensor_type.shape.dim[place], size)
    result = retyped(made)
    if result is not None:
        yield name, result


def _set(dim: onnx.TensorShapeProto.Dimension, size: int | str | None) -> None:
    dim.Clear()
    if isinstance(size, int):
        dim.dim_value = size
    elif size is not None:
        dim.dim_param = size


def _all_sizes(model: onnx.ModelProto, size: int, other: int | str) -> onnx.ModelProto | None:
    made = copy(model)
    for value in made.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value == size:
                _set(dim, other)
    return retyped(made)


@mutator
def ranks(model: onnx.ModelProto) -> Iterator[Change]:
    """Inputs of unknown rank, with one more leading axis, or with one less."""
    for number, value in enumerate(model.graph.input):
        for name, change in (("unknown", None), ("more1", 1), ("more2", 2), ("less", -1)):
            made = copy(model)
            tensor = made.graph.input[number].type.tensor_type
            dims = list(tensor.shape.dim)
            if change is None:
                tensor.ClearField("shape")
            elif change < 0:
                if not dims:
                    continue
                del tensor.shape.dim[0]
            else:
                lead = onnx.TensorShapeProto.Dimension(dim_value=change)
                del tensor.shape.dim[:]
                tensor.shape.dim.extend([lead, *dims])
            result = retyped(made)
            if result is not None:
                yield f"{value.name} {name}", result
    made = copy(model)
    for value in made.graph.input:
        value.type.tensor_type.ClearField("shape")
    result = retyped(made)
    if result is not None:
        yield "all unknown", result


@mutator
def aliased_inputs(model: onnx.ModelProto) -> Iterator[Change]:
    """Two inputs of one type are one."""
    inputs = model.graph.input
    for i, first in enumerate(inputs):
        for second in inputs[i + 1 :]:
            if first.type != second.type:
                continue
            made = copy(model)
            for node in made.graph.node:
                for place, name in enumerate(node.input):
                    if name == second.name:
                        node.input[place] = first.name
            for value in made.graph.input:
                if value.name == second.name:
                    made.graph.input.remove(value)
                    break
            yield f"{second.name}={first.name}", made
