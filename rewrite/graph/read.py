"""A ModelProto to an onnx-ir model, with everything the ModelProto says.

In: a ModelProto whose large tensors may be notes (rewrite.graph.wire). Out: `Read`: the model, what
it declares, and whether its nodes are out of order. All problems found are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnx_ir as ir
from onnx_ir import serde

from rewrite.errors import Diagnostic, RewriteError, error
from rewrite.graph import making
from rewrite.graph.declared import Declared
from rewrite.graph.load_tensors import TensorLoader
from rewrite.graph.tensors import own
from rewrite.lang.words import suggestion

DEEPEST = 28  # graphs inside graphs: 3 messages each, and protobuf reads no more than 100
MOST_PROBLEMS = 20
_MOST_COMPARED = 2000  # names of values that a missing one is compared with

_A = onnx.AttributeProto
_PLAIN: dict[int, str] = {_A.INT: "i", _A.FLOAT: "f"}
_LISTS: dict[int, str] = {_A.INTS: "ints", _A.FLOATS: "floats"}
_TYPES = {int(t): t for t in ir.AttributeType}

Scope = dict[str, ir.Value]


class TooMany(Exception):  # noqa: N818 - ends the reading, not an error by itself
    """Enough problems were found."""


class NotTextError(Exception):
    """A text field holds bytes that are no text."""


@dataclass(slots=True)
class Problems:
    """What is wrong with a model, in the order found."""

    subject: str
    found: list[Diagnostic] = field(default_factory=list)

    def add(self, code: str, message: str, hint: str | None = None) -> None:
        """Note a problem; ends the reading where there are many."""
        self.found.append(Diagnostic(code, message, subject=self.subject, hint=hint))
        if len(self.found) >= MOST_PROBLEMS:
            raise TooMany

    def raise_if_any(self) -> None:
        """End with all of them."""
        if self.found:
            raise RewriteError(tuple(self.found))


@dataclass(slots=True)
class Read:
    """A model that was read."""

    model: ir.Model
    declared: Declared
    in_order: bool
    nested: bool  # some node holds a graph
    domains: frozenset[str]  # of all nodes, as they were written
    op_types: frozenset[str]
    notes: tuple[str, ...]


def read_model(proto: onnx.ModelProto, loader: TensorLoader, problems: Problems) -> Read:
    """The whole model. Raises `RewriteError` with every problem of its structure."""
    loader.report_to(problems.add)
    reader = _Reader(loader, problems)
    try:
        model = reader.model(proto)
    except NotTextError as failure:
        message = "this is not an ONNX model: text in it is not UTF-8"
        raise error("RW502", message, subject=problems.subject) from failure
    except TooMany:
        problems.raise_if_any()
        raise
    problems.raise_if_any()
    return Read(
        model,
        reader.declared,
        reader.in_order,
        reader.nested,
        frozenset(reader.domains),
        frozenset(reader.op_types),
        tuple(dict.fromkeys(reader.notes)),
    )


class _Reader:
    def __init__(self, loader: TensorLoader, problems: Problems) -> None:
        self._loader = loader
        self._problems = problems
        self._sources: set[ir.Value] = set()  # inputs and initializers of all graphs
        self.declared = Declared()
        self.in_order = True
        self.nested = False
        # One object for each name: they are compared very often.
        self.domains: dict[str, str] = {}
        self.op_types: dict[str, str] = {}
        self.notes: list[str] = []

    def model(self, proto: onnx.ModelProto) -> ir.Model:
        graph = self._graph(proto.graph, [], "the main graph")
        imports = self._imports(proto.opset_import, "the model")
        graph.opset_imports.update(imports)
        functions = self._functions(proto.functions)
        _all_text(*self.domains, *self.op_types)
        return ir.Model(
            graph,
            ir_version=proto.ir_version,
            producer_name=_text(proto.producer_name) or None,
            producer_version=_text(proto.producer_version) or None,
            domain=_text(proto.domain) or None,
            model_version=proto.model_version if proto.HasField("model_version") else None,
            doc_string=_text(proto.doc_string) or None,
            functions=functions,
            metadata_props=_props(proto.metadata_props),
            device_configurations=tuple(
                serde.deserialize_model_configuration(c) for c in proto.configuration
            ),
        )

    def _imports(self, protos: Iterable[onnx.OperatorSetIdProto], who: str) -> dict[str, int]:
        """Versions by domain. Of several imports of a domain the last counts, as in the checker."""
        found: dict[str, int] = {}
        for proto in protos:
            domain = "" if proto.domain == "ai.onnx" else _text(proto.domain)
            if found.get(domain, proto.version) != proto.version:
                name = domain or "ai.onnx"
                self.notes.append(
                    f"{who} imports several versions of {name}: {proto.version} counts"
                )
            found[domain] = proto.version
        return found

    # --- graphs --------------------------------------------------------------------------------

    def _graph(self, proto: onnx.GraphProto, scopes: list[Scope], where: str) -> ir.Graph:
        if len(scopes) > DEEPEST:
            self._problems.add("RW511", f"graphs are nested more than {DEEPEST} deep")
            raise TooMany
        self.nested = self.nested or bool(scopes)
        infos = {info.name: info for info in proto.value_info}
        values: Scope = {}
        inputs = self._inputs(proto, values, where)
        initializers = self._initializers(proto, values, infos, where)
        self._sources.update(values.values())
        outputs_of = self._declare_outputs(proto.node, values, infos, where)
        scopes.append(values)
        nodes = self._nodes(proto.node, outputs_of, scopes, where)
        scopes.pop()
        outputs = self._outputs(proto, values, where)
        if self._problems.found:
            return _no_graph()  # onnx-ir would refuse what was reported already
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            initializers=initializers,
            doc_string=_text(proto.doc_string) or None,
            name=_text(proto.name) or None,
            metadata_props=_props(proto.metadata_props),
        )
        self._annotate(proto, graph, values)
        strays = [info for name, info in infos.items() if name not in values]
        if strays:
            self.declared.strays[graph] = strays
        return graph

    def _inputs(self, proto: onnx.GraphProto, values: Scope, where: str) -> list[ir.Value]:
        found = []
        for info in proto.input:
            value = ir.Value(name=_text(info.name))
            if not info.name:
                self._problems.add("RW507", f"an input of {where} has no name")
            elif info.name in values:
                self._problems.add("RW507", f"{where} has two inputs named '{info.name}'")
            values[info.name] = value
            self.declared.infos[value] = info
            found.append(value)
        return found

    def _initializers(
        self,
        proto: onnx.GraphProto,
        values: Scope,
        infos: Mapping[str, onnx.ValueInfoProto],
        where: str,
    ) -> list[ir.Value]:
        found: dict[str, ir.Value] = {}
        for dense in proto.initializer:
            tensor = self._loader.dense(dense, f"initializer '{dense.name}'")
            self._initializer(dense.name, tensor, values, infos, found, where)
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            tensor = self._loader.sparse(sparse, f"sparse initializer '{name}'")
            self._initializer(name, tensor, values, infos, found, where)
        return list(found.values())

    def _initializer(
        self,
        name: str,
        tensor: ir.TensorProtocol | None,
        values: Scope,
        infos: Mapping[str, onnx.ValueInfoProto],
        found: dict[str, ir.Value],
        where: str,
    ) -> None:
        if not name:
            self._problems.add("RW507", f"an initializer of {where} has no name")
            return
        if name in found:
            self._problems.add("RW507", f"{where} has two initializers named '{name}'")
            return
        value = values.get(name)
        if value is None:
            value = values[name] = ir.Value(name=_text(name))
            if name in infos:
                self.declared.infos[value] = infos[name]
        value.const_value = tensor
        found[name] = value

    def _declare_outputs(
        self,
        nodes: Iterable[onnx.NodeProto],
        values: Scope,
        infos: Mapping[str, onnx.ValueInfoProto],
        where: str,
    ) -> list[list[ir.Value]]:
        """The outputs of all nodes, made first: a node may come before the node that it needs."""
        declared = self.declared.infos
        make, made = ir.Value, []
        for node in nodes:
            outputs: list[ir.Value] = []
            for name in node.output:
                if not name:
                    value = make(name="")
                elif name in values:
                    self._problems.add("RW507", f"'{name}' has two definitions in {where}")
                    value = values[name]
                else:
                    value = values[_text(name)] = make(name=name)
                    if name in infos:
                        declared[value] = infos[name]
                outputs.append(value)
            made.append(outputs)
        return made

    def _outputs(self, proto: onnx.GraphProto, values: Scope, where: str) -> list[ir.Value]:
        found: list[ir.Value] = []
        seen: set[ir.Value] = set()
        for info in proto.output:
            value = values.get(info.name)
            if value is None:
                message = f"output '{info.name}' of {where} is not defined"
                self._problems.add("RW505", message, _meant(info.name, values))
                continue
            if value in self._sources or value in seen:
                self.declared.listings.setdefault(value, []).append(info)
            else:
                self.declared.infos[value] = info
            seen.add(value)
            found.append(value)
        return found

    def _annotate(self, proto: onnx.GraphProto, graph: ir.Graph, values: Scope) -> None:
        for annotation in proto.quantization_annotation:
            value = values.get(annotation.tensor_name)
            if value is None:
                self.declared.stray_annotations.setdefault(graph, []).append(annotation)
            else:
                self.declared.annotations[value] = annotation

    # --- functions -----------------------------------------------------------------------------

    def _functions(self, protos: Iterable[onnx.FunctionProto]) -> list[ir.Function]:
        found: dict[tuple[str, str, str], ir.Function] = {}
        for proto in protos:
            key = (_text(proto.domain), _text(proto.name), _text(proto.overload))
            if key in found:
                self._problems.add("RW507", f"the function {_full(key)} is defined twice")
            found[key] = self._function(proto)
        return list(found.values())

    def _function(self, proto: onnx.FunctionProto) -> ir.Function:
        where = f"function {_full((proto.domain, proto.name, proto.overload))}"
        infos = {info.name: info for info in proto.value_info}
        values: Scope = {}
        inputs = []
        for name in proto.input:
            if name in values or not name:
                self._problems.add("RW507", f"{where} has two inputs named '{name}'")
            value = values[name] = ir.Value(name=_text(name))
            if name in infos:
                self.declared.infos[value] = infos[name]
            inputs.append(value)
        self._sources.update(inputs)
        outputs_of = self._declare_outputs(proto.node, values, infos, where)
        nodes = self._nodes(proto.node, outputs_of, [values], where)
        outputs = []
        for name in proto.output:
            if name not in values:
                message = f"output '{name}' of {where} is not defined"
                self._problems.add("RW505", message, _meant(name, values))
                continue
            outputs.append(values[name])
        if self._problems.found:
            return ir.Function(proto.domain, proto.name, graph=_no_graph(), attributes=())
        graph = ir.Graph(
            inputs,
            outputs,
            nodes=nodes,
            doc_string=_text(proto.doc_string) or None,
            opset_imports=self._imports(proto.opset_import, where),
            name="",
            metadata_props=_props(proto.metadata_props),
        )
        strays = [info for name, info in infos.items() if name not in values]
        if strays:
            self.declared.strays[graph] = strays
        attributes = [self._attribute(a, [], where) for a in proto.attribute_proto]
        undefined = ir.AttributeType.UNDEFINED
        attributes += [ir.Attr(_text(name), undefined, None) for name in proto.attribute]
        return ir.Function(
            proto.domain, proto.name, proto.overload, graph=graph, attributes=attributes
        )

    # --- nodes ---------------------------------------------------------------------------------

    def _nodes(
        self,
        protos: Iterable[onnx.NodeProto],
        outputs_of: Iterable[list[ir.Value]],
        scopes: list[Scope],
        where: str,
    ) -> list[ir.Node]:
        values, sources = scopes[-1], self._sources
        domains, op_types = self.domains, self.op_types
        made: list[ir.Node] = []
        for proto, outputs in zip(protos, outputs_of, strict=True):
            inputs: list[ir.Value | None] = []
            for name in proto.input:
                value = values.get(name)
                if value is None:
                    value = self._outer(name, scopes, proto, where) if name else None
                elif value._producer is None and value not in sources:
                    self.in_order = False
                inputs.append(value)
            if self._problems.found and any(v.producer() is not None for v in outputs):
                continue  # a second definition: reported already
            entries = proto.attribute
            attributes = [self._attribute(a, scopes, where) for a in entries] if entries else ()
            domain, op_type = proto.domain, proto.op_type
            node = making.node(
                domains.setdefault(domain, domain),
                op_types.setdefault(op_type, op_type),
                inputs,
                {attribute.name: attribute for attribute in attributes} if attributes else {},
                outputs,
                _text(proto.name),
                overload=proto.overload,
                doc_string=proto.doc_string or None,
                metadata_props=_props(proto.metadata_props),
            )
            if proto.device_configurations:
                self._devices(proto, node, scopes)
            if node.overload or node.doc_string:
                _all_text(node.overload, node.doc_string or "")
            made.append(node)
        return made

    def _outer(
        self, name: str, scopes: list[Scope], proto: onnx.NodeProto, where: str
    ) -> ir.Value | None:
        """A value of a graph around this one."""
        for values in reversed(scopes[:-1]):
            value = values.get(name)
            if value is not None:
                if value.producer() is None and value not in self._sources:
                    self.in_order = False
                return value
        node = f"node '{proto.name}' ({proto.op_type})" if proto.name else f"a {proto.op_type}"
        message = f"{node} in {where} uses '{name}', which is not defined"
        self._problems.add("RW505", message, _meant(name, *scopes))
        return None

    def _devices(self, proto: onnx.NodeProto, node: ir.Node, scopes: list[Scope]) -> None:
        visible: Scope = {}
        for values in scopes:
            visible.update(values)
        node.device_configurations = tuple(
            serde.deserialize_node_device_configuration(c, visible)
            for c in proto.device_configurations
        )

    def _attribute(self, proto: onnx.AttributeProto, scopes: list[Scope], where: str) -> ir.Attr:
        kind = proto.type
        name = _text(proto.name)
        doc = _text(proto.doc_string) or None
        type_ = _TYPES[kind]
        if proto.ref_attr_name:
            return ir.Attr(name, type_, None, _text(proto.ref_attr_name), doc_string=doc)
        return ir.Attr(name, type_, self._content(proto, kind, scopes, where), doc_string=doc)

    def _content(
        self, proto: onnx.AttributeProto, kind: int, scopes: list[Scope], where: str
    ) -> Any:
        if kind in _PLAIN:
            return getattr(proto, _PLAIN[kind])
        if kind in _LISTS:
            return tuple(getattr(proto, _LISTS[kind]))
        if kind == _A.STRING:
            return _decoded(proto.s)
        if kind == _A.STRINGS:
            return tuple(_decoded(s) for s in proto.strings)
        if kind == _A.GRAPH:
            return self._graph(proto.g, scopes, f"graph '{proto.g.name}'")
        if kind == _A.GRAPHS:
            return tuple(self._graph(g, scopes, f"graph '{g.name}'") for g in proto.graphs)
        return self._message(proto, kind, f"attribute '{proto.name}' in {where}")

    def _message(self, proto: onnx.AttributeProto, kind: int, about: str) -> Any:
        if kind == _A.TENSOR:
            return self._loader.dense(proto.t, about)
        if kind == _A.TENSORS:
            return tuple(self._loader.dense(t, about) for t in proto.tensors)
        if kind == _A.SPARSE_TENSOR:
            sparse = self._loader.sparse(proto.sparse_tensor, about)
            return None if sparse is None else sparse.proto
        if kind == _A.SPARSE_TENSORS:
            return tuple(own(t) for t in proto.sparse_tensors)
        if kind == _A.TYPE_PROTO:
            return own(proto.tp)
        if kind == _A.TYPE_PROTOS:
            return tuple(own(t) for t in proto.type_protos)
        return None


def _meant(name: str, *scopes: Scope) -> str | None:
    """A hint with names like this one, where there are not too many to compare."""
    known = [other for scope in scopes for other in scope]
    return suggestion(name, known) if len(known) <= _MOST_COMPARED else None


def _no_graph() -> ir.Graph:
    """Stands for a graph with problems until they are raised."""
    return ir.Graph([], [], nodes=[])


def _text(field: str) -> str:
    """A text field. Protobuf gives bytes where it is not UTF-8."""
    if field.__class__ is not str:
        raise NotTextError
    return field


def _all_text(*fields: str) -> None:
    for text in fields:
        _text(text)


def _decoded(data: bytes) -> str | bytes:
    """Strings of custom operators may hold any bytes; those stay bytes."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _props(entries: Any) -> dict[str, str] | None:
    return {_text(entry.key): _text(entry.value) for entry in entries} if entries else None


def _full(key: tuple[str, str, str]) -> str:
    domain, name, overload = key
    return f"{domain}:{name}" + (f":{overload}" if overload else "")
