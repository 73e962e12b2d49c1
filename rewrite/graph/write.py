"""An onnx-ir model to a ModelProto: the opposite of rewrite.graph.read.

In: a model, what it declares, and what to do with its tensors. Out: a ModelProto. Nothing in the
model is changed or renamed on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir import serde

from rewrite.graph.declared import Declared
from rewrite.graph.tensors import SparseTensor, strings
from rewrite.graph.uses import nodes_of

# Fills an empty TensorProto with a tensor; the name is the writer's business.
TensorWriter = Callable[[onnx.TensorProto, ir.TensorProtocol], None]

_A = ir.AttributeType
_PLAIN = {_A.INT: "i", _A.FLOAT: "f"}
_LISTS = {_A.INTS: "ints", _A.FLOATS: "floats"}
_MESSAGES = {_A.SPARSE_TENSOR: "sparse_tensor"}


def write_model(model: ir.Model, declared: Declared, tensors: TensorWriter) -> onnx.ModelProto:
    """The whole model, without its training information."""
    return _Writer(declared, tensors).model(model)


def write_attribute(proto: onnx.AttributeProto, attribute: ir.Attr) -> None:
    """One attribute, its tensors in the message itself."""
    _Writer(Declared(), inline).attribute(proto, attribute)


class _Writer:
    def __init__(self, declared: Declared, tensors: TensorWriter) -> None:
        self._declared = declared
        self._tensors = tensors

    def model(self, model: ir.Model) -> onnx.ModelProto:
        proto = onnx.ModelProto()
        assert model.ir_version is not None
        proto.ir_version = model.ir_version
        for name in ("producer_name", "producer_version", "domain", "doc_string"):
            text = getattr(model, name)
            if text:
                setattr(proto, name, text)
        if model.model_version is not None:
            proto.model_version = model.model_version
        _props(proto.metadata_props, model.metadata_props)
        _imports(proto.opset_import, model.graph.opset_imports)
        for configuration in model.device_configurations:
            proto.configuration.append(serde.serialize_model_configuration(configuration))
        self._graph(proto.graph, model.graph)
        for function in model.functions.values():
            self._function(proto.functions.add(), function)
        return proto

    # --- graphs --------------------------------------------------------------------------------

    def _graph(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        if graph.name:
            proto.name = graph.name
        if graph.doc_string:
            proto.doc_string = graph.doc_string
        _props(proto.metadata_props, graph.metadata_props)
        for value in graph.inputs:
            self._info(proto.input.add(), value)
            self._annotate(proto, value)
        for value in graph.initializers.values():
            self._initializer(proto, value)
        self._nodes(proto, graph)
        self._outputs(proto, graph)
        proto.value_info.extend(self._declared.strays.get(graph, ()))
        proto.quantization_annotation.extend(self._declared.stray_annotations.get(graph, ()))

    def _initializer(self, proto: onnx.GraphProto, value: ir.Value) -> None:
        tensor = value.const_value
        assert tensor is not None
        if isinstance(tensor, SparseTensor):
            sparse = proto.sparse_initializer.add()
            sparse.CopyFrom(tensor.proto)
            sparse.values.name = value.name or ""
        else:
            dense = proto.initializer.add()
            self._tensors(dense, tensor)
            dense.name = value.name or ""
        if value.is_graph_input():
            return
        self._annotate(proto, value)
        if value in self._declared.infos:
            self._info(proto.value_info.add(), value)

    def _nodes(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        infos = self._declared.infos
        add, declare = proto.node.add, proto.value_info.add
        for node in nodes_of(graph):
            self._node(add(), node)
            for value in node._outputs:
                if value in infos and not value.is_graph_output():
                    self._info(declare(), value)
                if self._declared.annotations:
                    self._annotate(proto, value)

    def _outputs(self, proto: onnx.GraphProto, graph: ir.Graph) -> None:
        listed: dict[ir.Value, int] = {}
        for value in graph.outputs:
            source = value.is_graph_input() or value.is_initializer()
            turn = listed.get(value, 0 if source else -1)
            listed[value] = turn + 1
            listings = self._declared.listings.get(value, ())
            info = proto.output.add()
            if 0 <= turn < len(listings):
                info.CopyFrom(listings[turn])
            else:
                self._info(info, value)
            info.name = value.name or ""

    def _info(self, proto: onnx.ValueInfoProto, value: ir.Value) -> None:
        info = self._declared.infos.get(value)
        if info is not None:
            proto.CopyFrom(info)
        elif value.type is not None or value.shape is not None:
            serde.serialize_value_into(proto, value)
        proto.name = value.name or ""

    def _annotate(self, proto: onnx.GraphProto, value: ir.Value) -> None:
        annotation = self._declared.annotations.get(value)
        if annotation is not None:
            made = proto.quantization_annotation.add()
            made.CopyFrom(annotation)
            made.tensor_name = value.name or ""

    # --- functions -----------------------------------------------------------------------------

    def _function(self, proto: onnx.FunctionProto, function: ir.Function) -> None:
        proto.name = function.name
        proto.domain = function.domain
        if function.overload:
            proto.overload = function.overload
        if function.doc_string:
            proto.doc_string = function.doc_string
        _props(proto.metadata_props, function.metadata_props)
        _imports(proto.opset_import, function.opset_imports)
        proto.input.extend(value.name or "" for value in function.inputs)
        proto.output.extend(value.name or "" for value in function.outputs)
        for attribute in function.attributes.values():
            if attribute.value is None:
                proto.attribute.append(attribute.name)
            else:
                self.attribute(proto.attribute_proto.add(), attribute)
        graph = function.graph
        results = [value for node in graph for value in node.outputs]
        for value in (*function.inputs, *results):
            if value in self._declared.infos:
                self._info(proto.value_info.add(), value)
        proto.value_info.extend(self._declared.strays.get(graph, ()))
        for node in graph:
            self._node(proto.node.add(), node)

    # --- nodes ---------------------------------------------------------------------------------

    def _node(self, proto: onnx.NodeProto, node: ir.Node) -> None:
        proto.op_type = node._op_type
        if node._domain:
            proto.domain = node._domain
        if node._name:
            proto.name = node._name
        if node._overload:
            proto.overload = node._overload
        if node.doc_string:
            proto.doc_string = node.doc_string
        proto.input.extend(["" if v is None else v._name or "" for v in node._inputs])
        proto.output.extend([v._name or "" for v in node._outputs])
        if node._attributes.data:
            add = proto.attribute.add
            for attribute in node._attributes.data.values():
                self.attribute(add(), attribute)
        if node._metadata_props:
            _props(proto.metadata_props, node._metadata_props)
        for configuration in node.device_configurations:
            made = serde.serialize_node_device_configuration(configuration)
            proto.device_configurations.append(made)

    def attribute(self, proto: onnx.AttributeProto, attribute: ir.Attr) -> None:
        proto.name = attribute.name
        proto.type = attribute.type.value  # type: ignore[assignment]
        if attribute.doc_string:
            proto.doc_string = attribute.doc_string
        if attribute.is_ref():
            proto.ref_attr_name = attribute.ref_attr_name or ""
            return
        kind, value = attribute.type, attribute.value
        if kind in _PLAIN:
            setattr(proto, _PLAIN[kind], value)
        elif kind in _LISTS:
            getattr(proto, _LISTS[kind]).extend(value)
        elif kind == _A.STRING:
            proto.s = _bytes(value)
        elif kind == _A.STRINGS:
            proto.strings.extend(_bytes(item) for item in value)
        else:
            self._message(proto, kind, value)

    def _message(self, proto: onnx.AttributeProto, kind: ir.AttributeType, value: Any) -> None:
        if kind == _A.TENSOR:
            self._tensor(proto.t, value)
        elif kind == _A.TENSORS:
            for tensor in value:
                self._tensor(proto.tensors.add(), tensor)
        elif kind == _A.GRAPH:
            self._graph(proto.g, value)
        elif kind == _A.GRAPHS:
            for graph in value:
                self._graph(proto.graphs.add(), graph)
        elif kind == _A.SPARSE_TENSOR:
            proto.sparse_tensor.CopyFrom(value)
        elif kind == _A.SPARSE_TENSORS:
            proto.sparse_tensors.extend(value)
        elif kind == _A.TYPE_PROTO:
            proto.tp.CopyFrom(_type(value))
        elif kind == _A.TYPE_PROTOS:
            proto.type_protos.extend(_type(item) for item in value)

    def _tensor(self, proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
        self._tensors(proto, tensor)
        if tensor.name and not proto.name:
            proto.name = tensor.name


def _type(value: onnx.TypeProto | ir.TypeAndShape) -> onnx.TypeProto:
    if isinstance(value, onnx.TypeProto):
        return value
    return serde.serialize_value(ir.Value(name="_", type=value.type, shape=value.shape)).type


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8")


def _props(entries: Any, props: Mapping[str, str]) -> None:
    for key, value in props.items():
        entries.add(key=key, value=value)


def _imports(entries: Any, imports: Mapping[str, int]) -> None:
    for domain, version in imports.items():
        entries.add(domain=domain, version=version)


def inline(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
    """Everything in the message itself."""
    if isinstance(tensor, serde.TensorProtoTensor):
        proto.CopyFrom(tensor.raw)
        return
    describe(proto, tensor)
    if tensor.dtype == ir.DataType.STRING:
        proto.string_data.extend(strings(tensor))
    else:
        proto.raw_data = tensor.tobytes()


def describe(proto: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
    """A tensor's type, shape and notes, without its data."""
    proto.data_type = tensor.dtype.value
    proto.dims.extend(tensor.shape.numpy())
    if tensor.doc_string:
        proto.doc_string = tensor.doc_string
    _props(proto.metadata_props, tensor.metadata_props)
