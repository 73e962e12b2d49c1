"""A model in ONNX's text form, as it stands in a file of cases: one form for one model.

In: a `ModelProto`. Out: its text, without what tests do not compare (names of nodes, metadata,
inferred types); `NoTextError` where ONNX's parser would not give the same model back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import AttributeProto, parser

from rewrite.audit.cases.canonical import canonical
from rewrite.audit.cases.words import (
    NoTextError,
    attribute_words,
    identifier,
    operator_words,
    quoted,
    tensor_type_words,
    tensor_words,
    type_words,
)
from rewrite.audit.examples import INVALID, with_header

_WIDTH = 96  # of a line that is not broken


def write_model(model: onnx.ModelProto, opset: int, header: bool) -> str:
    """The text, ending with a line end; without a header where `opset` says all that it would.

    Raises `NoTextError`.
    """
    body = "\n".join(_body(model)) + "\n"
    if not header and _same(model, with_header(body, opset)):
        return body
    whole = _header(model) + body
    if not _same(model, whole):
        raise NoTextError("something that ONNX's parser reads as something else")
    return whole


def _same(model: onnx.ModelProto, text: str) -> bool:
    """Whether the text is the same model."""
    try:
        read = parser.parse_model(text)
    except INVALID:
        return False
    return canonical(read, imports=True) == canonical(model, imports=True)


def _header(model: onnx.ModelProto) -> str:
    return f"<ir_version: {model.ir_version}, opset_import: {_imports(model.opset_import)}>\n"


def _imports(imports: Iterable[onnx.OperatorSetIdProto]) -> str:
    return "[" + ", ".join(f'"{item.domain}" : {item.version}' for item in imports) + "]"


def _body(model: onnx.ModelProto) -> Iterator[str]:
    yield from _graph(model.graph, "")
    for function in model.functions:
        yield from _function(function)


def _graph(graph: onnx.GraphProto, indent: str) -> Iterator[str]:
    defaults = {tensor.name: tensor for tensor in graph.initializer}
    ins = ", ".join(_signature(value, defaults) for value in graph.input)
    outs = ", ".join(_signature(value, {}) for value in graph.output)
    yield f"{identifier(graph.name or 'g')} ({ins}) => ({outs})"
    given = {value.name for value in graph.input}
    constants = [
        f"{tensor_type_words(tensor)} {identifier(tensor.name)} = {tensor_words(tensor)}"
        for tensor in graph.initializer
        if tensor.name not in given
    ]
    if graph.sparse_initializer:
        raise NoTextError("a sparse constant")
    if constants:
        yield from _broken(constants, indent)
    yield from _nodes(graph.node, indent)


def _signature(value: onnx.ValueInfoProto, defaults: Mapping[str, onnx.TensorProto]) -> str:
    words = f"{type_words(value.type)} {identifier(value.name)}"
    default = defaults.get(value.name)
    return words if default is None else f"{words} = {tensor_words(default)}"


def _broken(items: Sequence[str], indent: str) -> Iterator[str]:
    """`<a, b>` on one line where that is short, else one line each."""
    line = f"{indent}<{', '.join(items)}>"
    if len(line) <= _WIDTH:
        yield line
        return
    last = len(items) - 1
    for index, item in enumerate(items):
        opening, closing = "<" if index == 0 else " ", ">" if index == last else ","
        yield f"{indent}{opening}{item}{closing}"


def _nodes(nodes: Iterable[onnx.NodeProto], indent: str) -> Iterator[str]:
    yield f"{indent}{{"
    for node in nodes:
        yield from _node(node, indent + "  ")
    yield f"{indent}}}"


def _node(node: onnx.NodeProto, indent: str) -> Iterator[str]:
    if getattr(node, "overload", ""):
        raise NoTextError("an overloaded function")
    outs = ", ".join(_operand(name) for name in node.output)
    name = operator_words(node.domain, node.op_type)
    operands = f"({', '.join(_operand(name) for name in node.input)})"
    if not node.attribute:
        yield f"{indent}{outs} = {name}{operands}"
        return
    lines = [""]
    for index, attribute in enumerate(node.attribute):
        lines[-1] += ", " if index else ""
        first, *more = _attribute(attribute, indent)
        lines[-1] += first
        lines += more
    lines[0] = f"{indent}{outs} = {name} <{lines[0]}"
    lines[-1] += f"> {operands}"
    yield from lines


def _attribute(attribute: onnx.AttributeProto, indent: str) -> Iterator[str]:
    """The lines of an attribute; graphs take several."""
    if attribute.type != AttributeProto.GRAPH or attribute.ref_attr_name:
        yield attribute_words(attribute)
        return
    first, *more = _graph(attribute.g, indent + "  ")
    yield f"{identifier(attribute.name)} = {first}"
    yield from more


def _operand(name: str) -> str:
    return identifier(name) if name else '""'


def _function(function: onnx.FunctionProto) -> Iterator[str]:
    if function.attribute_proto:
        raise NoTextError("a function whose attributes have defaults")
    yield f"<domain: {quoted(function.domain)}, opset_import: {_imports(function.opset_import)}>"
    attributes = ", ".join(identifier(name) for name in function.attribute)
    ins = ", ".join(identifier(name) for name in function.input)
    outs = ", ".join(identifier(name) for name in function.output)
    listed = f" <{attributes}>" if attributes else ""
    yield f"{identifier(function.name)}{listed} ({ins}) => ({outs})"
    yield from _nodes(function.node, "")
