"""The canonical form of a model: equal for models that differ only in names and order.

In: a `ModelProto`. Out: lines. Values inside have names made from operators (`%relu2`), in the
order of a walk from the outputs along the operands; so the lines are the same whatever the names of
values and nodes and the order of independent nodes are. Inputs and outputs keep their names and
types: they are what the model promises. Constants stand where they are used. Metadata, inferred
types and doc strings are left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import AttributeProto

from rewrite.audit.cases.words import (
    NoTextError,
    attribute_words,
    elements,
    tensor_type_words,
    type_words,
)

_SHOWN = 8  # elements of a constant


def canonical(model: onnx.ModelProto, imports: bool) -> tuple[str, ...]:
    """The lines; with `imports` also the opsets that the model imports."""
    lines: list[str] = []
    if imports:
        known = sorted((item.domain, item.version) for item in model.opset_import)
        lines += [f"import {domain or 'ai.onnx'} {version}" for domain, version in known]
    lines += _signature(model.graph)
    outputs = [value.name for value in model.graph.output]
    lines += _Walk(model.graph, named=True).lines(outputs)
    for function in sorted(model.functions, key=lambda f: (f.domain, f.name)):
        lines += _function(function)
    return tuple(lines)


def _signature(graph: onnx.GraphProto) -> Iterator[str]:
    defaults = {tensor.name: tensor for tensor in graph.initializer}
    for value in graph.input:
        default = defaults.get(value.name)
        given = "" if default is None else f" = {_constant(default)}"
        yield f"input {_type(value.type)} {value.name}{given}"
    for value in graph.output:
        yield f"output {_type(value.type)} {value.name}"


def _function(function: onnx.FunctionProto) -> Iterator[str]:
    name = f"{function.domain}.{function.name}" if function.domain else function.name
    attributes = ", ".join(sorted(function.attribute))
    yield f"function {name}({len(function.input)} inputs, {len(function.output)} outputs)" + (
        f" <{attributes}>" if attributes else ""
    )
    body = onnx.GraphProto(node=function.node)
    body.input.extend(onnx.ValueInfoProto(name=name) for name in function.input)
    yield from (f"  {line}" for line in _Walk(body).lines(function.output))


def _type(kind: onnx.TypeProto) -> str:
    try:
        return type_words(kind)
    except NoTextError:
        return f"type#{_hash(kind.SerializeToString(deterministic=True))}"


def _constant(tensor: onnx.TensorProto) -> str:
    """Type and elements; of many the first, and a hash of all."""
    try:
        words, found = tensor_type_words(tensor), elements(tensor)
    except NoTextError:
        return f"constant#{_hash(tensor.SerializeToString(deterministic=True))}"
    if len(found) <= _SHOWN:
        return f"{words}{{{', '.join(found)}}}"
    shown = ", ".join(found[:_SHOWN])
    return f"{words}{{{shown}, … #{_hash(','.join(found).encode())}}}"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


@dataclass(slots=True)
class _Walk:
    """One graph. `named`: its inputs and outputs are known by name, else by position."""

    graph: onnx.GraphProto
    named: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    outer: dict[str, str] = field(default_factory=dict)  # names of graphs around it -> `^1`
    found: list[str] = field(default_factory=list)
    inner: dict[tuple[int, str], tuple[list[str], tuple[str, ...]]] = field(default_factory=dict)

    def lines(self, outputs: Sequence[str]) -> list[str]:
        for tensor in self.graph.initializer:
            self.labels[tensor.name] = _constant(tensor)
        for number, value in enumerate(self.graph.input, 1):
            self.labels[value.name] = value.name if self.named else f"%in{number}"
        for index, node in enumerate(self.graph.node):
            self._subgraphs(index, node)
            self.producers.update((name, index) for name in node.output if name)
        if self.named:
            self.labels |= {name: name for name in outputs if name in self.producers}
        for name in outputs:
            if name in self.producers:
                self._reach(self.producers[name])
        self._unused()
        ends = ", ".join(self._label(name) for name in outputs)
        return self.found if self.named else [*self.found, f"return {ends}"]

    def _subgraphs(self, index: int, node: onnx.NodeProto) -> None:
        """The lines of the graphs inside a node, and the names from outside in the order met."""
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                walk = _Walk(attribute.g)
                lines = walk.lines([value.name for value in attribute.g.output])
                types = [f"{_type(v.type)}" for v in (*attribute.g.input, *attribute.g.output)]
                head = f"graph ({len(attribute.g.input)} inputs: {', '.join(types)})"
                self.inner[index, attribute.name] = ([head, *lines], tuple(walk.outer))

    def _needs(self, index: int) -> list[str]:
        """The values that a node reads, those that its graphs take from outside included."""
        node = self.graph.node[index]
        found = [name for name in node.input if name]
        for attribute in _sorted(node.attribute):
            found += self.inner.get((index, attribute.name), ([], ()))[1]
        return found

    def _reach(self, first: int) -> None:
        """A node, after all that it needs."""
        if first in self.done:
            return
        seen = {first}
        stack = [(first, iter(self._needs(first)))]
        while stack:
            index, needs = stack[-1]
            made = (self.producers.get(need) for need in needs)
            above = next(
                (i for i in made if i is not None and i not in self.done and i not in seen), None
            )
            if above is None:
                stack.pop()
                self.done.add(index)
                self.found += self._node(index)
            else:
                seen.add(above)
                stack.append((above, iter(self._needs(above))))

    def _unused(self) -> None:
        """Nodes that no output needs, in the order of what they compute."""
        left = [i for i in range(len(self.graph.node)) if i not in self.done]
        if not left:
            return
        used = {name for index in left for name in self._needs(index)}
        ends = [i for i in left if not any(name in used for name in self.graph.node[i].output)]
        keys = self._hashes()
        for index in sorted(ends, key=lambda i: keys[i]):
            self._reach(index)

    def _hashes(self) -> list[str]:
        """For each node a hash of all that it computes; nodes stand after those they need."""
        made: list[str] = []
        known = {name: label for name, label in self.labels.items() if name not in self.producers}
        for index, node in enumerate(self.graph.node):
            parts = [node.domain, node.op_type, *self._attributes(index)]
            parts += [known.get(name, name) for name in self._needs(index)]
            made.append(_hash("\n".join(parts).encode()))
            known |= {name: f"{made[-1]}.{i}" for i, name in enumerate(node.output) if name}
        return made

    def _node(self, index: int) -> Iterator[str]:
        node = self.graph.node[index]
        operands = ", ".join(self._label(name) for name in node.input)
        outs = ", ".join(self._name(node, name) for name in node.output)
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        attributes = list(self._attributes(index))
        words = f" <{', '.join(attributes)}> " if attributes else ""
        yield f"{outs} = {name}{words}({operands})"
        for attribute in _sorted(node.attribute):
            lines, outer = self.inner.get((index, attribute.name), ([], ()))
            if lines:
                taken = "".join(f", ^{i} = {self._label(n)}" for i, n in enumerate(outer, 1))
                yield f"  {attribute.name} = {lines[0]}{taken}"
                yield from (f"    {line}" for line in lines[1:])

    def _attributes(self, index: int) -> Iterator[str]:
        for attribute in _sorted(self.graph.node[index].attribute):
            if (index, attribute.name) not in self.inner:
                yield _attribute(attribute)

    def _name(self, node: onnx.NodeProto, name: str) -> str:
        """The label of an output, made when its node is met."""
        if not name:
            return "_"
        if name not in self.labels:
            word = node.op_type.lower()
            count = self.counts[word] = self.counts.get(word, 0) + 1
            self.labels[name] = f"%{word}{count if count > 1 else ''}"
        return self.labels[name]

    def _label(self, name: str) -> str:
        if not name:
            return "_"
        if name not in self.labels:
            self.outer[name] = self.labels[name] = f"^{len(self.outer) + 1}"
        return self.labels[name]


def _sorted(attributes: Iterable[onnx.AttributeProto]) -> list[onnx.AttributeProto]:
    return sorted(attributes, key=lambda a: a.name)


def _attribute(attribute: onnx.AttributeProto) -> str:
    try:
        if attribute.type == AttributeProto.TENSOR and not attribute.ref_attr_name:
            return f"{attribute.name} = {_constant(attribute.t)}"
        return attribute_words(attribute)
    except NoTextError:
        return f"{attribute.name} = #{_hash(attribute.SerializeToString(deterministic=True))}"
