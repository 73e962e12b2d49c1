"""Mutants of nodes: attributes, operands, operators next to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from tests.property.mutations import (
    Change,
    copy,
    is_float_elem,
    mutator,
    opset_of,
    output_types,
    retyped,
)

_STRINGS: dict[str, tuple[str, ...]] = {
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "mode": ("constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "DCR", "CRD"),
    "approximate": ("none", "tanh"),
    "reduction": ("none", "add", "mul", "max"),
    "coordinate_transformation_mode": (
        "half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize", "pytorch_half_pixel",
    ),
    "nearest_mode": ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
}  # fmt: skip
_LISTS: dict[str, tuple[list[int], ...]] = {
    "pads": ([0, 0], [1, 1], [0, 1], [1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]),
    "strides": ([2], [2, 2], [1], [1, 1]),
    "dilations": ([2], [2, 2], [1, 1]),
    "kernel_shape": ([1], [2], [3], [1, 1], [2, 2], [1, 2]),
    "output_padding": ([1], [0], [1, 1]),
    "output_shape": ([5], [6], [5, 5]),
    "axes": ([0], [1], [-1], [0, 1]),
}


@mutator
def attributes(model: onnx.ModelProto) -> Iterator[Change]:
    """Another value of one attribute, or one that was left out."""
    version = opset_of(model)
    for number, node in enumerate(model.graph.node):
        present = {a.name: a for a in node.attribute}
        for name, value in _candidates(node, version):
            if name in present and helper.get_attribute_value(present[name]) == value:
                continue
            made = copy(model)
            _set(made.graph.node[number], name, value)
            result = retyped(made)
            if result is not None:
                yield f"{node.op_type}.{name}={value}", result
        for name in present:
            made = copy(model)
            _set(made.graph.node[number], name, None)
            result = retyped(made)
            if result is not None:
                yield f"{node.op_type}.{name} gone", result


def _set(node: onnx.NodeProto, name: str, value: Any) -> None:
    for attribute in node.attribute:
        if attribute.name == name:
            node.attribute.remove(attribute)
            break
    if value is not None:
        node.attribute.append(helper.make_attribute(name, value))


def _candidates(node: onnx.NodeProto, version: int) -> Iterator[tuple[str, Any]]:
    try:
        schema = defs.get_schema(node.op_type, version if not node.domain else 1, node.domain)
        names = {n: a.type for n, a in schema.attributes.items()}
    except defs.SchemaError:
        names = {a.name: a.type for a in node.attribute}
    kinds = defs.OpSchema.AttrType
    for name in sorted(names):
        kind = names[name]
        if name in _STRINGS:
            yield from ((name, s) for s in _STRINGS[name])
        elif name in _LISTS:
            yield from ((name, v) for v in _LISTS[name])
        elif name == "perm":
            yield from ((name, p) for p in _permutations(node))
        elif name in ("to", "dtype"):
            yield from ((name, e) for e in (1, 2, 3, 6, 7, 9, 10, 11, 16))
        elif kind in (kinds.INT, onnx.AttributeProto.INT):
            yield from ((name, i) for i in (0, 1, 2, -1, -2, 3))
        elif kind in (kinds.FLOAT, onnx.AttributeProto.FLOAT):
            yield from ((name, f) for f in (0.0, 1.0, 0.5, 2.0, -0.25, -0.0))


def _permutations(node: onnx.NodeProto) -> Iterator[list[int]]:
    given = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
    for rank in (len(given),) if given else (2, 3, 4):
        yield list(range(rank))
        yield list(range(rank))[::-1]
        yield [*range(1, rank), 0]
        yield [rank - 1, *range(rank - 1)]
        if rank > 2:
            yield [0, *range(2, rank), 1]
            yield [1, 0, *range(2, rank)]


@mutator
def swapped_operands(model: onnx.ModelProto) -> Iterator[Change]:
    """Two neighbouring operands of a node exchanged."""
    for number, node in enumerate(model.graph.node):
        for place in range(len(node.input) - 1):
            made = copy(model)
            inputs = made.graph.node[number].input
            inputs[place], inputs[place + 1] = inputs[place + 1], inputs[place]
            result = retyped(made)
            if result is not None:
                yield f"{node.output[0]}:{place}", result


@mutator
def other_operand(model: onnx.ModelProto) -> Iterator[Change]:
    """An operand replaced by another value of the same type."""
    types = output_types(model)
    names = list(types)
    defined: set[str] = {v.name for v in model.graph.input}
    defined |= {t.name for t in model.graph.initializer}
    for number, node in enumerate(model.graph.node):
        for place, name in enumerate(node.input):
            for other in names:
                if other == name or other not in defined or types.get(name) != types[other]:
                    continue
                made = copy(model)
                made.graph.node[number].input[place] = other
                result = retyped(made)
                if result is not None:
                    yield f"{node.output[0]}:{place}={other}", result
        defined |= set(node.output)


@mutator
def optional_operands(model: onnx.ModelProto) -> Iterator[Change]:
    """An operand left out, or one more given."""
    version = opset_of(model)
    for number, node in enumerate(model.graph.node):
        for place in range(1, len(node.input)):
            if not node.input[place]:
                continue
            made = copy(model)
            made.graph.node[number].input[place] = ""
            while made.graph.node[number].input and not made.graph.node[number].input[-1]:
                del made.graph.node[number].input[-1]
            result = retyped(made)
            if result is not None:
                yield f"{node.output[0]} without {place}", result
        yield from _added(model, number, version)


def _added(model: onnx.ModelProto, number: int, version: int) -> Iterator[Change]:
    node = model.graph.node[number]
    try:
        schema = defs.get_schema(node.op_type, version if not node.domain else 1, node.domain)
    except defs.SchemaError:
        return
    single = defs.OpSchema.FormalParameterOption.Variadic
    for place in range(len(schema.inputs)):
        if schema.inputs[place].option == single:
            return
        if place < len(node.input) and node.input[place]:
            continue
        for label, array in _operands(schema.inputs[place].type_str):
            made = copy(model)
            inputs = made.graph.node[number].input
            while len(inputs) <= place:
                inputs.append("")
            inputs[place] = "added"
            made.graph.initializer.append(numpy_helper.from_array(array, "added"))
            result = retyped(made)
            if result is not None:
                yield f"{node.output[0]} with {place}={label}", result


def _operands(kind: str) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    if "int64" in kind or kind == "Tind":
        for values in ([0], [1], [-1], [0, 1], [2, 2]):
            yield str(values), np.asarray(values, np.int64)
        return
    if kind == "tensor(bool)" or kind == "T2":
        yield "true", np.asarray(True)
    for shape in ((), (1,), (2,), (3,), (4,)):
        for number in (0.0, 0.5):
            yield f"{number}{list(shape)}", np.full(shape, number, np.float32)
    for dtype in (np.uint8, np.int8, np.int32):
        yield f"{dtype.__name__} 1", np.asarray(1, dtype)


@mutator
def operators(model: onnx.ModelProto) -> Iterator[Change]:
    """One operator for another of the same form."""
    groups = (
        ("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu", "Mod"),
        ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Sqrt", "Identity", "LeakyRelu"),
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"),
        ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"),
        ("And", "Or", "Xor"),
        ("Ceil", "Floor", "Round"),
        ("Squeeze", "Unsqueeze"),
        ("AveragePool", "MaxPool", "LpPool"),
        ("Softmax", "LogSoftmax"),
        ("GlobalAveragePool", "GlobalMaxPool"),
    )
    for number, node in enumerate(model.graph.node):
        for group in groups:
            if node.op_type not in group:
                continue
            for other in group:
                if other != node.op_type:
                    made = copy(model)
                    made.graph.node[number].op_type = other
                    result = retyped(made)
                    if result is not None:
                        yield f"{node.output[0]} {other}", result


@mutator
def neighbours(model: onnx.ModelProto) -> Iterator[Change]:
    """An operator before an input or after an output."""
    for op in ("Relu", "Neg", "Transpose", "Identity", "Exp", "Cast"):
        for value in model.graph.output:
            made = copy(model)
            _rename(made, value.name, value.name + "_inner")
            extra = {"to": 11} if op == "Cast" else {}
            made.graph.node.append(
                helper.make_node(op, [value.name + "_inner"], [value.name], **extra)
            )
            result = retyped(made)
            if result is not None:
                yield f"{op} after {value.name}", result
    for op in ("Relu", "Abs", "Neg", "Transpose", "Sigmoid"):
        for value in model.graph.input:
            if not is_float_elem(value.type.tensor_type.elem_type):
                continue
            made = copy(model)
            for node in made.graph.node:
                for place, name in enumerate(node.input):
                    if name == value.name:
                        node.input[place] = value.name + "_inner"
            made.graph.node.insert(0, helper.make_node(op, [value.name], [value.name + "_inner"]))
            result = retyped(made)
            if result is not None:
                yield f"{op} before {value.name}", result


def _rename(model: onnx.ModelProto, old: str, new: str) -> None:
    for node in model.graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name == old:
                    names[place] = new
