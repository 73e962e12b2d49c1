"""Variations that coverage wants besides those of rewrite/audit/instances.

In: a `Draft`. Out: `Change`s: an optional operand that is given, an operand that is another value,
a flag that is set, more or fewer operands, an input that an operator computes; see also types.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import onnx

from rewrite.audit.coverage.suggest.types import any_dtype, ranks, slices
from rewrite.audit.feeds import Array
from rewrite.audit.instances.draft import (
    Draft,
    array_of,
    cast,
    dims_of,
    tensor,
    value_info,
)
from rewrite.audit.instances.registry import Change
from rewrite.audit.instances.variations.opsets import move, opset_of
from rewrite.engine.completion import Completer
from rewrite.errors import RewriteError
from rewrite.graph import io
from rewrite.ops import schemas
from rewrite.ops.dtypes import from_type_string
from rewrite.schema import OpSchema

_MOST_OPERANDS = 6  # behind those given that are tried
_AXES = (0, 1, -1)


def further(draft: Draft, words: Iterable[str]) -> dict[str, list[Change]]:
    """By kind. `words`: strings of the rule, some of which are names of operators."""
    return {
        "present operand": list(_present(draft, _dtypes(draft))),
        "another operand": list(_another(draft)),
        "any dtype": list(any_dtype(draft)),
        "slice of a constant": list(slices(draft)),
        "given operand": list(_given(draft)),
        "flag": list(_flags(draft)),
        "more ranks": list(ranks(draft)),
        "number of operands": list(_counts(draft)),
        "computed by": list(_computed(draft, words)),
        "copied nodes": list(_copied(draft)),
    }


def moved(opsets: Iterable[int]) -> list[Change]:
    """The model at each of these opsets."""
    return [Change(f"opset {opset}", partial(move, opset=opset)) for opset in opsets]


def _dtypes(draft: Draft) -> dict[str, str]:
    """Value -> element type, of values that nodes compute, too."""
    try:
        loaded = io.load(draft.model)
    except RewriteError:
        return {}
    facts = loaded.facts
    facts.complete = Completer(facts)
    graph = loaded.model.graph
    values = [*graph.inputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]
    known = {str(v.name): facts.type(v).dtype for v in values}
    return {name: dtype for name, dtype in known.items() if dtype is not None}


def _present(draft: Draft, dtypes: Mapping[str, str]) -> Iterator[Change]:
    """An optional operand that is absent is a constant."""
    for index, node in enumerate(draft.nodes):
        schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
        if schema is None:
            continue
        last = min(len(schema.inputs), len(node.input) + _MOST_OPERANDS)
        for place in range(last):
            given = place < len(node.input) and node.input[place]
            if given or schema.inputs[place].option != "optional" or place in schema.legacy:
                continue
            for words, array in _arrays(draft, node, place, schema, dtypes):
                name = schema.inputs[place].name
                label = f"{node.op_type} with {name}, {words}"
                yield Change(label, partial(_give, index=index, place=place, array=array))


def _arrays(
    draft: Draft, node: onnx.NodeProto, place: int, schema: OpSchema, dtypes: Mapping[str, str]
) -> Iterator[tuple[str, Array]]:
    """Constants that may stand there: a number, a vector along an axis of another operand."""
    dtype = _dtype(node, place, schema, dtypes)
    if dtype is None or dtype == "string":
        return
    for value in (0, 1, 2, -1) if dtype[0] != "u" else (0, 1, 2):
        yield f"the number {value}", cast(np.array(value), dtype)
    sizes = [size for n in node.input for size in _sizes(draft, n)]
    for size in list(dict.fromkeys(sizes))[:4]:
        yield f"a vector of {size}", cast(np.arange(size) % 3, dtype)
        yield f"zeros in a vector of {size}", cast(np.zeros(size), dtype)
    for axis in _AXES:
        yield f"the axis {axis}", cast(np.array([axis]), dtype)


def _sizes(draft: Draft, name: str) -> list[int]:
    constant, given = draft.constant(name), draft.input(name)
    dims = list(constant.dims) if constant is not None else dims_of(given) if given else []
    return [d for d in dims or () if isinstance(d, int) and 0 < d <= 64]


def _dtype(
    node: onnx.NodeProto, place: int, schema: OpSchema, dtypes: Mapping[str, str]
) -> str | None:
    """The element type that the operand has to have."""
    wanted = schema.inputs[place].type
    ends = [*zip(node.input, schema.inputs, strict=False)]
    ends += [*zip(node.output, schema.outputs, strict=False)]
    for name, parameter in ends:
        if parameter.type == wanted and name in dtypes:
            return dtypes[name]
    allowed = schema.types.get(wanted)
    if allowed is None:
        return from_type_string(wanted)
    usual = [t for t in (dtypes.get(node.input[0]), "u8", "f32", "s64") if t in allowed]
    return usual[0] if usual else None


def _give(draft: Draft, index: int, place: int, array: Array) -> None:
    node = draft.graph.node[index]
    name = draft.fresh("given")
    draft.graph.initializer.append(tensor(name, array))
    while len(node.input) <= place:
        node.input.append("")
    node.input[place] = name


def _another(draft: Draft) -> Iterator[Change]:
    """One of several uses of a value reads another value of the same type."""
    for index, node in enumerate(draft.nodes):
        for place, name in enumerate(node.input):
            uses = sum(list(n.input).count(name) for n in draft.nodes)
            if name and uses > 1 and (draft.input(name) or draft.constant(name)):
                label = f"operand {place + 1} of {node.op_type} is another one than {name}"
                yield Change(label, partial(_exchange, index=index, place=place, changed=True))
                label = f"operand {place + 1} of {node.op_type} is a copy of {name}"
                yield Change(label, partial(_exchange, index=index, place=place, changed=False))
            elif name and uses > 1:
                label = f"operand {place + 1} of {node.op_type} is computed from {name}"
                yield Change(label, partial(_compute, index=index, place=place))


def _exchange(draft: Draft, index: int, place: int, changed: bool) -> None:
    node = draft.graph.node[index]
    name = node.input[place]
    made = draft.fresh(f"{name}_other")
    constant, given = draft.constant(name), draft.input(name)
    if constant is not None:
        array = array_of(constant)
        if changed and array.dtype.kind in "fiu":
            array = (array + array.dtype.type(1)).astype(array.dtype)
        draft.graph.initializer.append(tensor(made, array))
    elif given is not None:
        copy = draft.graph.input.add()
        copy.CopyFrom(given)
        copy.name = made
    node.input[place] = made


def _compute(draft: Draft, index: int, place: int) -> None:
    node = draft.graph.node[index]
    name = node.input[place]
    made = draft.fresh(f"{name}_other")
    node.input[place] = made
    draft.graph.node.insert(index, onnx.helper.make_node("Identity", [name], [made]))


def _given(draft: Draft) -> Iterator[Change]:
    """One of several uses of a constant is an input."""
    for index, node in enumerate(draft.nodes):
        for place, name in enumerate(node.input):
            uses = sum(list(n.input).count(name) for n in draft.nodes)
            if uses > 1 and draft.constant(name) is not None:
                label = f"operand {place + 1} of {node.op_type} is an input"
                yield Change(label, partial(_take_in, index=index, place=place))


def _take_in(draft: Draft, index: int, place: int) -> None:
    node = draft.graph.node[index]
    constant = draft.constant(node.input[place])
    assert constant is not None
    made = draft.fresh(f"{constant.name}_given")
    draft.graph.input.append(value_info(made, constant.data_type, list(constant.dims)))
    node.input[place] = made


def _flags(draft: Draft) -> Iterator[Change]:
    """A number that is 0 by default is 1, and the node has all its outputs."""
    for index, node in enumerate(draft.nodes):
        schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
        if schema is None or len(schema.outputs) <= len(node.output):
            continue
        for name, known in schema.attributes.items():
            if known.kind == "int" and known.default == 0:
                label = f"{node.op_type} {name} = 1, with all outputs"
                yield Change(label, partial(_raise_flag, index=index, name=name))


def _raise_flag(draft: Draft, index: int, name: str) -> None:
    node = draft.graph.node[index]
    schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
    assert schema is not None
    for attribute in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(attribute)
    node.attribute.append(onnx.helper.make_attribute(name, 1))
    for output in schema.outputs[len(node.output) :]:
        node.output.append(draft.fresh(output.name))


def _counts(draft: Draft) -> Iterator[Change]:
    """One operand fewer of an operator that takes any number, or the last one twice."""
    for index, node in enumerate(draft.nodes):
        schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
        if schema is None or not schema.inputs or schema.inputs[-1].option != "variadic":
            continue
        for place in range(len(node.input) if len(node.input) > 1 else 0):
            label = f"{node.op_type} without operand {place + 1}"
            yield Change(label, partial(_drop, index=index, place=place))
        label = f"{node.op_type} with its last operand twice"
        yield Change(label, partial(_repeat, index=index))


def _drop(draft: Draft, index: int, place: int) -> None:
    del draft.graph.node[index].input[place]


def _repeat(draft: Draft, index: int) -> None:
    node = draft.graph.node[index]
    node.input.append(node.input[-1])


def _computed(draft: Draft, words: Iterable[str]) -> Iterator[Change]:
    """An input comes from an operator that the rule asks for by name."""
    for word in words:
        schema = schemas.lookup("", word, opset_of(draft))
        if schema is None or not 1 <= len(schema.inputs) <= 3:
            continue
        count = sum(p.option == "single" for p in schema.inputs)
        for given in draft.open_inputs() if 1 <= count <= 2 else ():
            label = f"{given.name} from {word}"
            yield Change(label, partial(_insert, name=given.name, operator=word, count=count))


def _insert(draft: Draft, name: str, operator: str, count: int) -> None:
    made = draft.fresh(f"{name}_from")
    for node in draft.nodes:
        node.input[:] = [made if n == name else n for n in node.input]
    operands = [name]
    if count == 2:
        given = draft.input(name)
        copy = draft.graph.input.add()
        copy.CopyFrom(given)
        copy.name = draft.fresh(f"{name}_other")
        operands.append(copy.name)
    draft.graph.node.insert(0, onnx.helper.make_node(operator, operands, [made]))


def _copied(draft: Draft) -> Iterator[Change]:
    """One of several uses of a value gets nodes of its own: one, two, or all down to inputs."""
    for index, node in enumerate(draft.nodes):
        for place, name in enumerate(node.input):
            uses = sum(list(n.input).count(name) for n in draft.nodes)
            if name and uses > 1 and draft.producer(name) is not None:
                for depth, words in ((1, "a node"), (2, "two nodes"), (len(draft.nodes), "nodes")):
                    label = f"operand {place + 1} of {node.op_type} has {words} of its own"
                    make = partial(_copy_above, index=index, place=place, depth=depth)
                    yield Change(label, make)


def _copy_above(draft: Draft, index: int, place: int, depth: int) -> None:
    """Copies of the nodes that compute an operand, `depth` of them one above the other."""
    nodes = draft.nodes
    node = draft.graph.node[index]
    above = {node.input[place]: depth}
    for other in reversed(nodes[:index]):
        left = max((above.get(name, 0) for name in other.output), default=0)
        for name in other.input if left > 1 else ():
            above[name] = max(left - 1, above.get(name, 0))
    copied = [n for n in nodes[:index] if any(name in above for name in n.output)]
    renamed = {name: draft.fresh(f"{name}_copy") for n in copied for name in n.output if name}
    node.input[place] = renamed[node.input[place]]
    for offset, other in enumerate(copied):
        copy = onnx.NodeProto()
        copy.CopyFrom(other)
        copy.input[:] = [renamed.get(n, n) for n in other.input]
        copy.output[:] = [renamed.get(n, n) for n in other.output]
        draft.graph.node.insert(index + offset, copy)
