"""Keys of tensors and attributes: equal keys, equal content.

In: a tensor or an attribute, not one that holds graphs. Out: something that can be looked up.
"""

from __future__ import annotations

from collections.abc import Hashable

import onnx
import onnx_ir as ir

from rewrite.graph.tensors import strings

MESSAGES = frozenset(
    {
        ir.AttributeType.SPARSE_TENSOR,
        ir.AttributeType.SPARSE_TENSORS,
        ir.AttributeType.TYPE_PROTO,
        ir.AttributeType.TYPE_PROTOS,
    }
)

_INT = ir.AttributeType.INT
_FLOATS = (ir.AttributeType.FLOAT, ir.AttributeType.FLOATS)
_TENSORS = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)

Message = onnx.SparseTensorProto | onnx.TypeProto


def content(tensor: ir.TensorProtocol) -> Hashable:
    """The elements; two tensors of one type with equal content are equal bit for bit."""
    if tensor.dtype == ir.DataType.STRING:
        return tuple(strings(tensor))
    return tensor.tobytes()


def tensor_key(tensor: ir.TensorProtocol) -> Hashable:
    return tensor.dtype.name, tuple(tensor.shape.numpy()), content(tensor)


def tensors_of(attribute: ir.Attr) -> tuple[ir.TensorProtocol, ...]:
    """The dense tensors that an attribute holds."""
    if attribute.type == ir.AttributeType.TENSOR:
        return (attribute.value,)
    return tuple(attribute.value) if attribute.type == ir.AttributeType.TENSORS else ()


def attribute_key(attribute: ir.Attr) -> tuple[str, str, Hashable]:
    if attribute.is_ref():
        return attribute.name, "ref", attribute.ref_attr_name
    kind, value = attribute.type, attribute.value
    if kind is _INT:
        return attribute.name, "INT", value
    if kind in _TENSORS:
        value = tuple(tensor_key(tensor) for tensor in tensors_of(attribute))
    elif kind in _FLOATS:
        value = repr(value)  # tells -0.0 from 0.0 and finds NaN equal to itself
    elif kind in MESSAGES:
        items = value if isinstance(value, tuple) else (value,)
        value = tuple(_bytes_of(item) for item in items)
    return attribute.name, kind.name, value


def _bytes_of(message: Message | ir.TypeAndShape) -> Hashable:
    if isinstance(message, ir.TypeAndShape):
        return repr(message)
    return bytes(message.SerializeToString(deterministic=True))
