"""The questions that a pattern asks of a graph, one function each.

In: facts, a value or node, a part of a pattern. Out: answers, or the ways to go on where there are
several. Interpreter and generated code both ask here; what differs is who keeps track of choices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.graph.tensors import elements
from rewrite.graph.uses import use_count, uses_of
from rewrite.match.form import (
    AttributeTest,
    Chain,
    Number,
    Op,
    Operator,
    ShapeDim,
    ShapeTest,
    TypeTest,
)
from rewrite.match.values import ElementType, Symbol, Tensor, Unknown, working
from rewrite.schema import DTYPE_ATTRIBUTES, DTYPE_CLASSES, DTYPE_OF, Dim

# Relative error of a literal in a rule that is not exact, by the constant's element type.
TOLERANCES: Mapping[str, float] = {"f32": 4 * 2.0**-23, "f16": 1e-3, "bf16": 1e-2, "f64": 1e-7}

# How many choices one attempt at an anchor may meet: then the search is given up.
MOST_STEPS = 20_000
CLOCK_EVERY = 256
# How many candidates one search through uses, and one search for chains, may look at.
MOST_FORWARD = 512
MOST_PATHS = 64


class OutOfSteps(Exception):  # noqa: N818 - a stop reason
    """The search was given up."""


# --- attributes --------------------------------------------------------------------------------


def read_attribute(facts: Facts, node: ir.Node, name: str) -> object:
    """The value, default resolved, as expressions see it; None where there is none."""
    return as_value(name, raw_attribute(facts, node, name))


def raw_attribute(facts: Facts, node: ir.Node, name: str) -> object:
    """The value, default resolved, lists as tuples; `Unknown` where only a caller knows it."""
    try:
        value = facts.attribute(node, name)
    except ReferenceAttribute as reference:
        raise Unknown(f"attribute {name} is a parameter of the function") from reference
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, (list, tuple)) or type(value).__name__ == "RepeatedScalarContainer":
        return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in value)
    return value


# Not ir.TensorProtocol: to check a protocol, Python asks for every member, and `nbytes` of strings
# raises.
_TENSORS = (
    ir.Tensor,
    ir.TensorProtoTensor,
    ir.StringTensor,
    ir.ExternalTensor,
    ir.LazyTensor,
    ir.PackedTensor,
)


def as_value(name: str, raw: object) -> object:
    """An attribute in expressions: element types by name, tensors as constants."""
    if name in DTYPE_ATTRIBUTES and isinstance(raw, int) and raw in DTYPE_OF:
        return ElementType(DTYPE_OF[raw])
    if raw is None or isinstance(raw, (int, float, str, tuple)):
        return raw
    return working(elements(raw)) if isinstance(raw, _TENSORS) else raw


def attribute_holds(test: AttributeTest, raw: object) -> bool:
    """Whether the value is one of those the pattern allows."""
    return test.values is None or any(_same_literal(raw, v) for v in test.values)


def _same_literal(raw: object, literal: object) -> bool:
    if isinstance(literal, tuple):
        if not isinstance(raw, tuple) or len(raw) != len(literal):
            return False
        return all(_same_literal(r, v) for r, v in zip(raw, literal, strict=True))
    if isinstance(raw, float) and isinstance(literal, (int, float)):
        # Float attributes are stored as float32.
        return raw == literal or raw == float(np.float32(literal))
    return type(raw) is type(literal) and raw == literal


def same_attribute(a: object, b: object) -> bool:
    """Equality of two bound attributes."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and np.array_equal(a.array, b.array)
    return type(a) is type(b) and a == b


# --- constants and types -----------------------------------------------------------------------


def number_holds(facts: Facts, value: ir.Value, form: Number) -> bool:
    """Whether the value is a constant all of whose elements are the number."""
    found = facts.scalar(value)
    if found is None:
        return False
    dtype = facts.type(value).dtype
    if dtype is None or form.value == 0 or dtype not in DTYPE_CLASSES["f"]:
        return found == form.value
    if found == rounded(form.value, dtype):
        return True
    if form.exact and form.tolerance is None:
        return False
    tolerance = form.tolerance if form.tolerance is not None else TOLERANCES.get(dtype, 0.0)
    return abs(found - form.value) <= tolerance * abs(form.value)


@lru_cache(maxsize=4096)
def rounded(number: float, dtype: str) -> float:
    """The number as a value of a float type; not a number where it overflows."""
    try:
        return float(Tensor(np.array(float(number)), dtype).rounded())
    except Unknown:
        return float("nan")


def type_mismatch(
    facts: Facts, value: ir.Value, test: TypeTest, names: dict[str, object]
) -> tuple[str, str] | None:
    """The first of `type_mismatches`."""
    return next(type_mismatches(facts, value, test, names), None)


def type_mismatches(
    facts: Facts, value: ir.Value, test: TypeTest, names: dict[str, object]
) -> Iterator[tuple[str, str]]:
    """Code and reason of everything in which the value has not the type, first what matters most.

    Where the shape is that of the pattern, its named sizes are added to `names` at the end.
    """
    if test.const and facts.constant(value) is None:
        if facts.is_overridable(value):
            yield "overridable", "it can be overridden by the caller"
        else:
            yield "const", "it is not constant"
    if test.dtypes is None and test.shape is None:
        return
    found = facts.type(value)
    if test.dtypes is not None and found.dtype is None:
        yield "dtype", "its element type is not known"
    elif test.dtypes is not None and found.dtype not in test.dtypes:
        yield "dtype", f"its element type is {found.dtype}, not {test.words}"
    if test.shape is None:
        return
    if found.shape is None:
        yield "shape", "its shape is not known"
        return
    sizes = shape_sizes(test.shape, found.shape, names)
    if sizes is None:
        yield "shape", f"its shape is {list(found.shape)}, not {test.words}"
        return
    names.update(sizes)


def shape_sizes(
    test: ShapeTest, shape: tuple[Dim, ...], known: Mapping[str, object]
) -> dict[str, object] | None:
    """The sizes that the pattern names, or None where the shape does not match."""
    front, back = len(test.front), len(test.back)
    middle = len(shape) - front - back
    if middle < 0 or (middle and not test.ellipsis):
        return None
    found: dict[str, object] = {}
    for pattern, dim in zip(test.front, shape, strict=False):
        if not _dim_holds(pattern, dim, known, found):
            return None
    for pattern, dim in zip(test.back, shape[front + middle :], strict=True):
        if not _dim_holds(pattern, dim, known, found):
            return None
    if test.name is not None:
        inside = tuple(_size(d) for d in shape[front : front + middle])
        if not _agrees(test.name, inside, known, found):
            return None
    return found


def _dim_holds(
    pattern: ShapeDim, dim: Dim, known: Mapping[str, object], found: dict[str, object]
) -> bool:
    if pattern.size is not None:
        return dim == pattern.size
    return pattern.name is None or _agrees(pattern.name, _size(dim), known, found)


def _agrees(name: str, size: object, known: Mapping[str, object], found: dict[str, object]) -> bool:
    """Equal to what the name already is; sizes and names of sizes compare by being the same."""
    if name in found:
        return found[name] == size
    if known.get(name) is not None:
        return known[name] == size
    found[name] = size
    return True


def _size(dim: Dim) -> int | Symbol:
    return dim if isinstance(dim, int) else Symbol(dim)


# --- words -------------------------------------------------------------------------------------


def operator_words(operator: Operator) -> str:
    """`Conv`, `com.microsoft.Gelu`."""
    domain, name = operator
    return f"{domain}.{name}" if domain else name


def subject_words(subject: object) -> str:
    """The node or value that an attempt ended at."""
    if isinstance(subject, ir.Node):
        output = subject.outputs[0].name if subject.outputs else None
        return f"{operator_words((subject.domain, subject.op_type))} node of `{output}`"
    if isinstance(subject, ir.Value):
        return f"value `{subject.name}`"
    return ""


# --- ways through the graph --------------------------------------------------------------------


def trimmed(operands: Sequence[ir.Value | None]) -> tuple[ir.Value | None, ...]:
    """Operands without absent ones at the end."""
    found = tuple(operands)
    while found and found[-1] is None:
        found = found[:-1]
    return found


def arrangements(form: Op, count: int) -> Iterator[tuple[int, ...]]:
    """For a node with `count` operands: which of them each operand of the pattern may be.

    A place from `count` on means absent. As written first, then the others in ascending order.
    """
    wanted = len(form.operands)
    if count > wanted if form.rest is None else count <= wanted:
        return
    written = tuple(range(wanted))
    if not form.commutes or count < max(wanted, 2):
        yield written
    elif form.variadic:
        yield from permutations(range(count), wanted)
    else:
        yield written
        yield (1, 0, *written[2:])


def output_name(names: tuple[str | None, ...], value: ir.Value) -> str | None:
    """What a statement with several names calls this output of its node."""
    place = value.index()
    return None if place is None or place >= len(names) else names[place]


def fewest_uses(values: list[object]) -> ir.Value | None:
    """Of the values given, the one with the fewest uses, the first of several."""
    present = [v for v in values if isinstance(v, ir.Value)]
    return min(present, key=use_count, default=None)


def single_use(value: ir.Value) -> bool:
    """Whether the value is one operand of one node and nothing else."""
    return use_count(value) == 1 and not value.is_graph_output()


def one_consumer(value: ir.Value) -> bool:
    """Whether one node uses the value, as any number of operands, and nothing else does."""
    uses = uses_of(value)
    if not uses or value.is_graph_output():
        return False
    if len(uses) == 1:
        return True
    first = next(iter(uses)).node
    return all(use.node is first for use in uses)


def cuts(
    value: ir.Value, operator: Operator, leaves: int, graph: object
) -> Iterator[tuple[tuple[ir.Node, ...], tuple[ir.Value, ...]]]:
    """Every way to see the value as a tree of the operator with that many leaves.

    Inner nodes are single-use. Gives the nodes, root first, and the leaves from left to right.
    """
    node = value._producer
    if not _is_made_by(node, operator, graph) or len(node._inputs) != 2:
        return
    left, right = node._inputs
    if left is None or right is None:
        return
    # How many leaves either side may have.
    most_left = leaves - 1 if _is_made_by(left._producer, operator, graph) else 1
    most_right = leaves - 1 if _is_made_by(right._producer, operator, graph) else 1
    for count in range(max(1, leaves - most_right), min(most_left, leaves - 1) + 1):
        for left_nodes, left_leaves in _subcuts(left, operator, count, graph):
            for right_nodes, right_leaves in _subcuts(right, operator, leaves - count, graph):
                yield (node, *left_nodes, *right_nodes), left_leaves + right_leaves


def _is_made_by(node: ir.Node | None, operator: Operator, graph: object) -> TypeGuard[ir.Node]:
    """Whether it is a node of the operator in the graph."""
    if node is None or node._op_type != operator[1]:
        return False
    return node._domain == operator[0] and node._graph is graph


def _subcuts(
    value: ir.Value, operator: Operator, leaves: int, graph: object
) -> Iterator[tuple[tuple[ir.Node, ...], tuple[ir.Value, ...]]]:
    if leaves == 1:
        yield (), (value,)
    elif single_use(value):
        yield from cuts(value, operator, leaves, graph)


Path = tuple[tuple[ir.Node, ...], ir.Value]


def paths(
    value: ir.Value, chain: Chain, starts: Collection[Operator] | None, graph: object
) -> Iterator[Path]:
    """Chains of single-use nodes that end in the value, the longest first.

    Gives the nodes, last one first, and the value that the first of them consumes: one that an
    operator of `starts` produces, or any value where that is None.
    """
    found: list[list[Path]] = [[] for _ in range(chain.most + 1)]
    top = value.producer()
    level: list[tuple[ir.Node, ...]] = []
    if top is not None and (top.domain, top.op_type) in chain.operators:
        level = [(top,)] if _is_link(value, top, graph) else []
    length = 1
    while level:
        following: list[tuple[ir.Node, ...]] = []
        for nodes in level:
            inputs = nodes[-1].inputs
            for operand in inputs if len(inputs) == 1 else dict.fromkeys(inputs):
                if operand is None:
                    continue
                node = operand.producer()
                operator = None if node is None else (node.domain, node.op_type)
                if starts is None or operator in starts:
                    found[length].append((nodes, operand))
                if node is None or length == chain.most or operator not in chain.operators:
                    continue
                if _is_link(operand, node, graph) and one_consumer(operand):
                    following.append((*nodes, node))
        level = following[:MOST_PATHS]
        length += 1
    for length in range(chain.most, chain.least - 1, -1):
        yield from found[length]


def _is_link(value: ir.Value, node: ir.Node, graph: object) -> bool:
    """Whether a chain may go through the node that produces the value."""
    return node.graph is graph and value.index() == 0


def consumers_within(value: ir.Value, reach: int) -> Iterator[ir.Node]:
    """Nodes that use the value, then those that use them, up to `reach` steps away."""
    seen: dict[ir.Node, None] = {}
    level = [value]
    for _ in range(reach):
        following: list[ir.Value] = []
        for top in level:
            for use in uses_of(top):
                if use.node in seen:
                    continue
                seen[use.node] = None
                if len(seen) > MOST_FORWARD:
                    return
                yield use.node
                following += use.node.outputs
        level = following
