"""What two ModelProtos say differently.

In: two models. Out: one line for each difference; none where they mean the same. Order does not
count where ONNX gives it no meaning (nodes, initializers, value_info, metadata), the form in which
a tensor stores its values neither. Nothing of `rewrite` takes part: the tests of reading and
writing rest on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

_A = onnx.AttributeProto
_SCALARS = ("producer_name", "producer_version", "domain", "model_version", "doc_string")


def differences(a: onnx.ModelProto, b: onnx.ModelProto, folder: str = "") -> list[str]:
    """Every difference. `folder` is where external data of both models lies."""
    return list(_Comparer(folder).models(a, b))


class _Comparer:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def models(self, a: onnx.ModelProto, b: onnx.ModelProto) -> Iterator[str]:
        for name in ("ir_version", *_SCALARS):
            if getattr(a, name) != getattr(b, name):
                yield f"{name}: {getattr(a, name)!r} and {getattr(b, name)!r}"
        yield from _mappings("opset imports", _imports(a), _imports(b))
        yield from _mappings("metadata", _props(a), _props(b))
        yield from _messages("training_info", a.training_info, b.training_info)
        yield from _messages("configuration", a.configuration, b.configuration)
        yield from self.graphs("graph", a.graph, b.graph)
        yield from self._named("function", a.functions, b.functions, _function_key, self.functions)

    def graphs(self, where: str, a: onnx.GraphProto, b: onnx.GraphProto) -> Iterator[str]:
        for name in ("name", "doc_string"):
            if getattr(a, name) != getattr(b, name):
                yield f"{where}: {name}: {getattr(a, name)!r} and {getattr(b, name)!r}"
        yield from _mappings(f"{where}: metadata", _props(a), _props(b))
        yield from _messages(f"{where}: inputs", a.input, b.input)
        yield from _messages(f"{where}: outputs", a.output, b.output)
        listed = {info.name for info in (*a.input, *a.output)}  # their own listing counts
        infos = [{i.name: i for i in g.value_info if i.name not in listed} for g in (a, b)]
        yield from _mappings(f"{where}: value_info", *infos)
        annotations = [
            {
                q.tensor_name: _pairs(q.quant_parameter_tensor_names)
                for q in g.quantization_annotation
            }
            for g in (a, b)
        ]
        yield from _mappings(f"{where}: quantization_annotation", *annotations)
        name_of = _name_of
        yield from self._named(
            f"{where}: initializer", a.initializer, b.initializer, name_of, self.tensors
        )
        yield from self._named(
            f"{where}: sparse initializer",
            a.sparse_initializer,
            b.sparse_initializer,
            _sparse_name,
            self.sparse,
        )
        yield from self._nodes(where, a.node, b.node)

    def functions(self, where: str, a: onnx.FunctionProto, b: onnx.FunctionProto) -> Iterator[str]:
        for name in ("input", "output", "attribute"):
            if list(getattr(a, name)) != list(getattr(b, name)):
                yield f"{where}: {name}: {list(getattr(a, name))} and {list(getattr(b, name))}"
        if a.doc_string != b.doc_string:
            yield f"{where}: doc_string"
        yield from _mappings(f"{where}: opset imports", _imports(a), _imports(b))
        yield from _mappings(f"{where}: metadata", _props(a), _props(b))
        infos = [{i.name: i for i in f.value_info} for f in (a, b)]
        yield from _mappings(f"{where}: value_info", *infos)
        defaults = (a.attribute_proto, b.attribute_proto)
        yield from self._named(f"{where}: default", *defaults, _name_of, self.attributes)
        yield from self._nodes(where, a.node, b.node)

    def _nodes(self, where: str, a: Any, b: Any) -> Iterator[str]:
        if len(a) != len(b):
            yield f"{where}: {len(a)} and {len(b)} nodes"
        yield from self._named(f"{where}: node", a, b, _node_key(), self.nodes, _node_key())

    def nodes(self, where: str, a: onnx.NodeProto, b: onnx.NodeProto) -> Iterator[str]:
        for name in ("name", "op_type", "overload", "doc_string"):
            if getattr(a, name) != getattr(b, name):
                yield f"{where}: {name}: {getattr(a, name)!r} and {getattr(b, name)!r}"
        if _domain(a.domain) != _domain(b.domain):
            yield f"{where}: domain: {a.domain!r} and {b.domain!r}"
        for name in ("input", "output"):
            if _trimmed(getattr(a, name)) != _trimmed(getattr(b, name)):
                yield f"{where}: {name}: {list(getattr(a, name))} and {list(getattr(b, name))}"
        yield from _mappings(f"{where}: metadata", _props(a), _props(b))
        devices = (a.device_configurations, b.device_configurations)
        yield from _messages(f"{where}: device_configurations", *devices)
        yield from self._named(
            f"{where}: attribute", a.attribute, b.attribute, _name_of, self.attributes
        )

    def attributes(
        self, where: str, a: onnx.AttributeProto, b: onnx.AttributeProto
    ) -> Iterator[str]:
        for name in ("type", "ref_attr_name", "doc_string"):
            if getattr(a, name) != getattr(b, name):
                yield f"{where}: {name}: {getattr(a, name)!r} and {getattr(b, name)!r}"
        if a.type != b.type:
            return
        many: dict[int, tuple[str, Callable[[str, Any, Any], Iterator[str]]]] = {
            _A.GRAPHS: ("graphs", self.graphs),
            _A.TENSORS: ("tensors", self.tensors),
            _A.SPARSE_TENSORS: ("sparse_tensors", self.sparse),
        }
        single: dict[int, tuple[str, Callable[[str, Any, Any], Iterator[str]]]] = {
            _A.GRAPH: ("g", self.graphs),
            _A.TENSOR: ("t", self.tensors),
            _A.SPARSE_TENSOR: ("sparse_tensor", self.sparse),
        }
        if a.type in single:
            field, compare = single[a.type]
            yield from compare(where, getattr(a, field), getattr(b, field))
        elif a.type in many:
            field, compare = many[a.type]
            first, second = getattr(a, field), getattr(b, field)
            if len(first) != len(second):
                yield f"{where}: {len(first)} and {len(second)} of them"
            for number, (x, y) in enumerate(zip(first, second, strict=False)):
                yield from compare(f"{where}[{number}]", x, y)
        elif _plain(a) != _plain(b):
            yield f"{where}: value"

    def tensors(self, where: str, a: onnx.TensorProto, b: onnx.TensorProto) -> Iterator[str]:
        for name in ("name", "data_type", "doc_string"):
            if getattr(a, name) != getattr(b, name):
                yield f"{where}: {name}: {getattr(a, name)!r} and {getattr(b, name)!r}"
        if list(a.dims) != list(b.dims):
            yield f"{where}: shape: {list(a.dims)} and {list(b.dims)}"
        yield from _mappings(f"{where}: metadata", _props(a), _props(b))
        if a.data_type == b.data_type and self._content(a) != self._content(b):
            yield f"{where}: values"

    def _content(self, tensor: onnx.TensorProto) -> object:
        array = numpy_helper.to_array(tensor, self._folder)
        if array.dtype.kind in "OSU":
            return array.reshape(-1).tolist()
        return np.ascontiguousarray(array).tobytes()

    def sparse(
        self, where: str, a: onnx.SparseTensorProto, b: onnx.SparseTensorProto
    ) -> Iterator[str]:
        if list(a.dims) != list(b.dims):
            yield f"{where}: shape: {list(a.dims)} and {list(b.dims)}"
        yield from self.tensors(f"{where}: values", a.values, b.values)
        yield from self.tensors(f"{where}: indices", a.indices, b.indices)

    def _named(
        self,
        where: str,
        a: Iterable[Any],
        b: Iterable[Any],
        key: Callable[[Any], object],
        compare: Callable[[str, Any, Any], Iterator[str]],
        other_key: Callable[[Any], object] | None = None,
    ) -> Iterator[str]:
        """Compare what has the same key; report what has no partner."""
        first = {key(item): item for item in a}
        second = {(other_key or key)(item): item for item in b}
        for name, item in first.items():
            if name in second:
                yield from compare(f"{where} {name!r}", item, second[name])
            else:
                yield f"{where} {name!r}: only in the first"
        for name in second:
            if name not in first:
                yield f"{where} {name!r}: only in the second"


def _mappings(where: str, a: Mapping[Any, Any], b: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted(a.keys() | b.keys()):
        if a.get(key) != b.get(key):
            yield f"{where}: {key!r}: {a.get(key)!r} and {b.get(key)!r}"


def _messages(where: str, a: Any, b: Any) -> Iterator[str]:
    if list(a) != list(b):
        yield f"{where}: {list(a)} and {list(b)}"


def _imports(proto: Any) -> dict[str, int]:
    return {_domain(entry.domain): entry.version for entry in proto.opset_import}


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _pairs(entries: Iterable[Any]) -> dict[str, str]:
    return {entry.key: entry.value for entry in entries}


def _props(proto: Any) -> dict[str, str]:
    return _pairs(proto.metadata_props)


def _name_of(proto: Any) -> object:
    return proto.name


def _sparse_name(proto: Any) -> object:
    return proto.values.name


def _function_key(proto: Any) -> object:
    return proto.domain, proto.name, proto.overload


def _node_key() -> Callable[[Any], object]:
    """Nodes by their first result; those without any, in order."""
    count = [0]

    def key(node: Any) -> object:
        for name in node.output:
            if name:
                return name
        count[0] += 1
        return f"#{count[0]}"

    return key


def _trimmed(names: Iterable[str]) -> list[str]:
    found = list(names)
    while found and not found[-1]:
        found.pop()
    return found


def _plain(attribute: onnx.AttributeProto) -> object:
    kept = onnx.AttributeProto()
    kept.CopyFrom(attribute)
    kept.ClearField("doc_string")
    return kept.SerializeToString(deterministic=True)
