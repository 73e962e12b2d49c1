"""Lookup tables: what lies between codes and codes, element by element, as one constant.

In: a value that holds codes. Out: the codes that it is a function of (`codes_behind`), and that
function as a constant for Gather (`lookup`). See table_values for the meaning.

Index c of a signed code stands at place c mod n, where Gather looks for a negative index. With a
table for each channel the place of code c in channel k is n k + c - low.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts
from rewrite.match.builtins.quantized_checks import is_pair, per_tensor, quantized
from rewrite.match.builtins.registry import Value, builtin
from rewrite.match.builtins.table_values import (
    Channels,
    Elements,
    codes_of,
    constant,
    is_lookup,
    is_normalization,
    is_uniform,
)
from rewrite.match.values import Env, Tensor, Unknown, describe, is_graph_value, working
from rewrite.ops import registry
from rewrite.quant.certificate import Certificate, Claim, exhaust_unary
from rewrite.quant.codes import CodeType, code_type, every_code
from rewrite.quant.faults import QuantError
from rewrite.quant.table import Interpolated, Table, interpolate

MOST_NODES = 128  # that one search looks at
MOST_NEAR = 24  # nodes between two tensors of codes that are next to each other
MOST_ENTRIES = 1 << 19  # of the tables of all channels together
CODES = ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16")

_CONSTANT: Literal["constant"] = "constant"
# What a value is a function of: one tensor of codes, nothing, or more than that (None).
_Origin = ir.Value | Literal["constant"] | None


@dataclass(slots=True)
class _Search:
    """Goes from a value to the one tensor of codes that it is a function of."""

    facts: Facts
    graph: ir.Graph
    channels: Channels | None
    left: int = MOST_NODES
    known: dict[ir.Value, _Origin] = field(default_factory=dict)

    def origin(self, value: ir.Value) -> _Origin:
        """The deepest such tensor whose table is not larger than one over the codes on the way."""
        if value in self.known:
            return self.known[value]
        self.known[value] = found = self._origin(value)
        return found

    def _origin(self, value: ir.Value) -> _Origin:
        if _is_constant(self.facts, value):
            return _CONSTANT if self._fits(value) else None
        own = value if self.facts.type(value).dtype in CODES else None
        behind = self.behind(value)
        if behind is None or isinstance(behind, str):
            return own
        return behind if own is None or self._entries(behind) <= self._entries(own) else own

    def _fits(self, value: ir.Value) -> bool:
        """Whether a constant is one number, or differs along the axis of the channels only."""
        if self.facts.scalar(value) is not None:
            return True
        held = constant(self.facts, value)
        if held is None:
            return False
        return is_uniform(held) or (
            self.channels is not None and self.channels.along(held.shape) is not None
        )

    def _entries(self, codes: ir.Value) -> int:
        return 1 << 16 if str(self.facts.type(codes).dtype).endswith("16") else 1 << 8

    def behind(self, value: ir.Value) -> _Origin:
        """The one origin of the operands of a node that computes element by element."""
        node = value.producer()
        if node is None or node.graph is not self.graph or value.index() != 0:
            return None
        operands = self._mapped(node)
        if operands is None:
            return None
        if self.left == 0:
            raise Unknown("too many nodes lie between the codes")
        self.left -= 1
        found: _Origin = _CONSTANT
        for operand in operands:
            origin = self.origin(operand)
            if origin is None or not (found == _CONSTANT or origin in (_CONSTANT, found)):
                return None
            found = origin if origin != _CONSTANT else found
        return found

    def _mapped(self, node: ir.Node) -> tuple[ir.Value, ...] | None:
        """The operands of which the node's value is a function, element by element."""
        facts = self.facts
        if is_pair(node):
            found = quantized(facts, node)
            if found is None or found.faults or found.params.block is not None:
                return None
            own = None if found.shape is None else (found.params.axis, len(found.shape))
            here = None if self.channels is None else (self.channels.axis, self.channels.rank)
            right = per_tensor(found) is not None or (own is not None and own == here)
            return (found.operand,) if right else None
        if is_lookup(facts, node):
            index = node.inputs[1]
            return None if index is None else (index,)
        if node.op_type == "BatchNormalization":
            right = self.channels is not None and self.channels.axis == 1
            data = node.inputs[0]
            return (data,) if right and data is not None and is_normalization(facts, node) else None
        return _pointwise(facts, node)


def _pointwise(facts: Facts, node: ir.Node) -> tuple[ir.Value, ...] | None:
    definition = registry.find(node.domain, node.op_type)
    if definition is None or not definition.pointwise or len(node.outputs) != 1:
        return None
    return tuple(operand for operand in facts.operands(node) if operand is not None)


def _is_constant(facts: Facts, value: ir.Value) -> bool:
    """A constant, or constant codes dequantized."""
    if facts.constant(value) is not None:
        return True
    node = value.producer()
    if node is None or node.op_type != "DequantizeLinear":
        return False
    codes = node.inputs[0]
    return codes is not None and facts.constant(codes) is not None


@dataclass(slots=True)
class _Near:
    """Along which axis constants and parameters differ between a value and the codes next to it."""

    facts: Facts
    rank: int
    axes: set[int] = field(default_factory=set)
    seen: dict[ir.Value, None] = field(default_factory=dict)

    def visit(self, value: ir.Value) -> None:
        if value in self.seen or len(self.seen) == MOST_NEAR:
            return
        self.seen[value] = None
        node = value.producer()
        if node is None:
            return
        if is_pair(node):
            self._pair(node)
            return
        if node.op_type == "BatchNormalization":
            self.axes.add(1)
        operands = _pointwise(self.facts, node) or node.inputs[:1]
        for operand in operands:
            if operand is not None:
                self._operand(operand)

    def _pair(self, node: ir.Node) -> None:
        found = quantized(self.facts, node)
        if found is None:
            return
        if per_tensor(found) is None and found.params.axis is not None:
            self.axes.add(found.params.axis)
        if node.op_type == "QuantizeLinear" and not self.seen.keys() - {node.outputs[0]}:
            self.visit(found.operand)

    def _operand(self, operand: ir.Value) -> None:
        if not _is_constant(self.facts, operand):
            if self.facts.type(operand).dtype not in CODES:
                self.visit(operand)
            return
        held = constant(self.facts, operand)
        if held is None or is_uniform(held):
            return
        wide = (1,) * (self.rank - held.ndim) + held.shape
        self.axes.update(k for k, size in enumerate(wide) if size != 1)


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """A table, and that every code was computed for it."""

    entries: Tensor
    certificate: Certificate


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Every 128th entry of a table of 16 bits, lines between, and how far off they are."""

    thin: Interpolated
    certificate: Certificate


# --- functions of the rule language -------------------------------------------------------------


def _graph_of(y: object) -> tuple[ir.Value, ir.Graph] | None:
    node = y.producer() if is_graph_value(y) else None
    if node is None or node.graph is None or not is_graph_value(y):
        return None
    return y, node.graph


@builtin
def codes_behind(env: Env, y: Value, axis: int | None = None) -> object:
    """The integers of at most 16 bits that the value is a function of, element by element.

    With an axis the function may be another one at each index of it. None where the value depends
    on more than one such tensor, or on more than its single elements.
    """
    found = _graph_of(y)
    if found is None:
        return None
    value, graph = found
    channels = None if axis is None else Channels(axis, _rank(env, value))
    behind = _Search(env.facts, graph, channels).behind(value)
    return None if isinstance(behind, str) else behind


@builtin
def varying_axis(env: Env, y: Value) -> int:
    """The axis along which constants differ between the value and the codes before it."""
    found = _graph_of(y)
    if found is None:
        raise Unknown("no node computes it")
    near = _Near(env.facts, _rank(env, found[0]))
    near.visit(found[0])
    if len(near.axes) != 1:
        raise Unknown(f"the constants before {describe(y)} do not differ along one axis")
    return min(near.axes)


def _rank(env: Env, value: ir.Value) -> int:
    shape = env.facts.type(value).shape
    if shape is None:
        raise Unknown(f"the rank of {describe(value)} is not known")
    return len(shape)


@builtin
def lookup(env: Env, y: Value, x: Value, axis: int | None = None) -> Tensor:
    """The codes `y` for every code of `x`, of which it is a function, in the order for Gather.

    With an axis: a row of them for each of its indices, codes ascending.
    """
    if not (is_graph_value(y) and is_graph_value(x)):
        raise Unknown("a table is of two values of the graph")
    code = code_type(env.facts.type(x).dtype or "")
    if code is None:
        raise Unknown(f"the element type of {describe(x)} is not known")
    try:
        if axis is not None:
            return _by_channel(env, y, x, code, axis)
        codes = np.roll(every_code(code), code.low)  # 0, 1, ..., then the negative ones
        return working(codes_of(env.facts, y, x, Elements(codes), None))
    except QuantError as fault:
        raise Unknown("; ".join(fault.faults)) from fault


def _by_channel(env: Env, y: ir.Value, x: ir.Value, code: CodeType, axis: int) -> Tensor:
    shape = env.facts.type(y).shape
    size = None if shape is None or not -len(shape) <= axis < len(shape) else shape[axis]
    if shape is None or not isinstance(size, int):
        raise Unknown("the number of channels is not known")
    if size * code.count > MOST_ENTRIES:
        raise Unknown(f"tables of {size * code.count} entries")
    codes = np.tile(every_code(code), size)
    elements = Elements(codes, np.repeat(np.arange(size), code.count))
    found = codes_of(env.facts, y, x, elements, Channels(axis % len(shape), len(shape)))
    return working(found.reshape(size, code.count))


@builtin
def table(env: Env, y: Value, x: Value, axis: int | None = None) -> object:
    """`lookup`, with a certificate: the code of the result was computed for every code."""
    found = lookup(env, y, x, axis)
    cases = found.array.size
    return Looked(found, Certificate("exhausted", Claim("exact"), cases, 0, 0))


@builtin
def entries(table: object) -> Tensor:
    """What a table holds, in one row."""
    if not isinstance(table, Looked):
        raise Unknown("this is not a table")
    return Tensor(table.entries.array.reshape(-1), table.entries.dtype)


@builtin
def lines(env: Env, y: Value, x: Value) -> object:
    """Every 128th entry of a table of 16-bit codes, for lines between; with a certificate."""
    full = lookup(env, y, x)
    source = code_type(env.facts.type(x).dtype or "") if is_graph_value(x) else None
    target = code_type(full.dtype or "")
    if source is None or target is None or source.bits != 16:
        raise Unknown("lines are for tables of 16 bits")
    whole = Table(source, target, np.roll(full.rounded(), -source.low))
    thin = interpolate(whole)
    return Lines(thin, exhaust_unary(thin.apply, whole.apply, source, target))


@builtin
def points(lines: object) -> Tensor:
    """Where lines begin: 512 entries."""
    return Tensor(_lines(lines).thin.points[:-1], "s32")


@builtin
def rises(lines: object) -> Tensor:
    """How far each line rises over 128 codes."""
    return Tensor(np.diff(_lines(lines).thin.points), "s32")


@builtin
def most_off(lines: object) -> int:
    """How many steps lines are off at most."""
    return _lines(lines).certificate.max_lsb


def _lines(found: object) -> Lines:
    if not isinstance(found, Lines):
        raise Unknown("these are not lines")
    return found
