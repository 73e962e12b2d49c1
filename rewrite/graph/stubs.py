"""Messages without large tensor data, for what looks at the structure of a model only.

In: a `LoadedModel`, or an onnx-ir model of the caller. Out: ModelProtos.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx
import onnx_ir as ir
from onnx_ir import serde

from rewrite.errors import error
from rewrite.graph import wire, write
from rewrite.graph.declared import Declared
from rewrite.graph.facts import walk
from rewrite.graph.model import LoadedModel
from rewrite.graph.save import message

QUANTIZATION = "quant_parameter_tensor_names"  # onnx-ir keeps quantization_annotation under it
SMALL = 1024  # tensors up to this many bytes are kept: shape inference reads their values


def small_forms(loaded: LoadedModel) -> tuple[bytes, bytes]:
    """The model's bytes for shape inference, and for the ONNX checker.

    Inference gets type and shape of large tensors, and no values. The checker wants values: there
    a large tensor has ones as shape and one zero.
    """
    stubs: list[onnx.TensorProto] = []

    def write_small(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
        if tensor.dtype == ir.DataType.STRING or tensor.nbytes <= SMALL:
            write.inline(proto, tensor)
        else:
            write.describe(proto, tensor)
            stubs.append(proto)

    proto = message(loaded, write_small)
    for_checker = for_inference = proto.SerializeToString()
    if proto.graph.sparse_initializer:
        for_inference = _dense(for_inference)
    if not stubs:
        return for_inference, for_checker
    for stub in stubs:
        rank = len(stub.dims)
        del stub.dims[:]
        stub.dims.extend([1] * rank)
        stub.raw_data = b"\0" * math.ceil(ir.DataType(stub.data_type).itemsize)
    return for_inference, proto.SerializeToString()


def _dense(data: bytes) -> bytes:
    """Sparse initializers as dense ones: shape inference takes their values for sparse tensors."""
    proto = onnx.ModelProto.FromString(data)
    for sparse in proto.graph.sparse_initializer:
        values = sparse.values
        proto.graph.initializer.add(name=values.name, data_type=values.data_type, dims=sparse.dims)
    del proto.graph.sparse_initializer[:]
    return bytes(proto.SerializeToString())


def from_ir(model: ir.Model) -> tuple[onnx.ModelProto, Sequence[ir.TensorProtocol]]:
    """The caller's model as a message; its tensors stay where they are, the message has numbers."""
    for graph, _, _ in walk(model):
        for name, value in graph.initializers.items():
            if value.const_value is None:
                raise error("RW508", f"initializer '{name}' has no value", subject="model")
    tensors: list[ir.TensorProtocol] = []

    def number(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
        write.describe(proto, tensor)
        proto.MergeFromString(wire.note(len(tensors), 0))
        tensors.append(tensor)

    return write.write_model(model, _declared(model), number), tensors


def _declared(model: ir.Model) -> Declared:
    """What an onnx-ir model holds about its values."""
    found = Declared()
    for graph, _, _ in walk(model):
        results = (value for node in graph for value in node.outputs)
        weights = [v for v in graph.initializers.values() if v.doc_string or v.metadata_props]
        for value in (*graph.inputs, *weights, *results):
            if value.type or value.shape or value.doc_string or value.metadata_props:
                found.infos[value] = serde.serialize_value(value)
            names = value.meta.get(QUANTIZATION)
            if names:
                annotation = found.annotations[value] = onnx.TensorAnnotation()
                for key, name in names.items():
                    annotation.quant_parameter_tensor_names.add(key=key, value=name)
    return found
