"""Codes as a function of other codes: the values of the nodes between, for all codes at once.

In: two values of a graph, codes of the one, and of each the channel it lies in. Out: codes of the
other. The meaning is that of `rewrite.audit.oracle`: DequantizeLinear gives (c - z) s exactly,
sums, products and comparisons are exact, other functions are computed in float64, QuantizeLinear
takes the nearest code of the exact quotient, ties to even.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.match import budget
from rewrite.match.builtins.quantized_checks import Quantized, quantized
from rewrite.match.builtins.table_arithmetic import (
    EXACT_STEPS,
    FLOATS,
    Arithmetic,
    Bounded,
    Number,
    Rational,
)
from rewrite.match.values import Unknown, describe
from rewrite.ops import registry, scalar
from rewrite.ops.call import ILL_TYPED, Array, Attributes, Evaluation, InferenceError
from rewrite.ops.cast import convert
from rewrite.ops.dtypes import of_numpy
from rewrite.quant.affine import dequantize_exact
from rewrite.quant.codes import Ints
from rewrite.quant.faults import QuantError
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF

_PASSES = 32  # over all elements, that one node takes
_AT_ONCE = 1 << 16  # elements computed together, so that their numbers stay in a cache
MOST_CONSTANT = 1 << 16  # elements of a constant between codes

Value = Number | Array  # real numbers; integers and truth values


@dataclass(frozen=True, slots=True)
class Channels:
    """Elements whose constants may differ along one axis of a tensor of that rank."""

    axis: int
    rank: int

    def along(self, shape: tuple[int, ...]) -> int | None:
        """The size of the axis, if a constant of this shape differs along no other."""
        wide = (1,) * (self.rank - len(shape)) + shape
        if len(wide) != self.rank or any(d != 1 for k, d in enumerate(wide) if k != self.axis):
            return None
        return wide[self.axis]


@dataclass(frozen=True, slots=True)
class Elements:
    """Codes, and the channel of each where constants may differ by channel."""

    codes: Array
    channel: Ints | None = None

    def of(self, where: Array | slice) -> Elements:
        return Elements(self.codes[where], None if self.channel is None else self.channel[where])


def codes_of(
    facts: Facts, y: ir.Value, x: ir.Value, elements: Elements, channels: Channels | None
) -> Array:
    """The codes that `y` has where `x` has the codes given; `Unknown` where it has none."""
    starts = range(0, max(1, elements.codes.size), _AT_ONCE)
    parts = [elements.of(slice(i, i + _AT_ONCE)) for i in starts]
    return np.concatenate([_codes_of(facts, y, x, part, channels) for part in parts])


def _codes_of(
    facts: Facts, y: ir.Value, x: ir.Value, elements: Elements, channels: Channels | None
) -> Array:
    size = elements.codes.size
    quick = Bounded(size)
    with np.errstate(all="ignore"):
        found = _Evaluator(facts, quick, elements, channels, {x: elements.codes}).plain(y)
        found = np.array(np.broadcast_to(found, (size,)))
        doubt = quick.doubt
        if doubt.any():
            few = elements.of(doubt)
            budget.spend(1000 * few.codes.size)
            slow = _Evaluator(facts, Rational(), few, channels, {x: few.codes}).plain(y)
            found[doubt] = np.broadcast_to(slow, few.codes.shape)
    return found


def constant(facts: Facts, value: ir.Value) -> Array | None:
    """A constant, or constant codes dequantized: floats in float64, exact; else None."""
    array = facts.array(value) if _is_small(facts, value) else None
    if array is not None:
        return _wide(array) if array.dtype.kind not in "OSUTc" else None
    node = value.producer()
    pair = quantized(facts, node) if node is not None else None
    if pair is None or pair.node.op_type != "DequantizeLinear" or pair.faults:
        return None
    codes = facts.array(pair.operand) if _is_small(facts, pair.operand) else None
    try:
        return None if codes is None else dequantize_exact(codes, pair.params)
    except QuantError:
        return None


def _is_small(facts: Facts, value: ir.Value) -> bool:
    tensor = facts.constant(value)
    return tensor is not None and 0 < tensor.size <= MOST_CONSTANT


def is_uniform(array: Array) -> bool:
    """Whether all elements are equal."""
    return array.size == 1 or bool((array == array.reshape(-1)[0]).all())


def _wide(array: Array) -> Array:
    """Floats of every type as float64, the rest as it is."""
    if of_numpy(array.dtype) not in DTYPE_CLASSES["f"]:
        return array
    # Types of ml_dtypes go by way of float32, which holds all of them.
    native = array.dtype.kind == "f"
    return (array if native else array.astype(np.float32)).astype(np.float64)


def is_lookup(facts: Facts, node: ir.Node) -> bool:
    """Whether the node is a Gather from a constant vector."""
    if node.op_type != "Gather" or node.domain != "" or len(node.inputs) != 2:
        return False
    data = node.inputs[0]
    tensor = None if data is None else facts.constant(data)
    if tensor is None or len(tensor.shape) != 1:
        return False
    try:
        return facts.attribute(node, "axis") in (0, -1)
    except ReferenceAttribute:
        return False


def is_normalization(facts: Facts, node: ir.Node) -> bool:
    """Whether the node is a BatchNormalization with constants."""
    if node.op_type != "BatchNormalization" or node.domain != "" or len(node.outputs) != 1:
        return False
    try:
        training = facts.attribute(node, "training_mode")
    except ReferenceAttribute:
        return False
    operands = facts.operands(node)[1:]
    held = [None if v is None else constant(facts, v) for v in operands]
    return not training and len(held) == 4 and all(a is not None and a.ndim == 1 for a in held)


@dataclass(slots=True)
class _Evaluator:
    """Values of nodes for some elements, in one arithmetic."""

    facts: Facts
    arithmetic: Arithmetic
    elements: Elements
    channels: Channels | None
    known: dict[ir.Value, Any] = field(default_factory=dict)

    def plain(self, value: ir.Value) -> Array:
        """Integers or truth values."""
        found = self.value(value)
        if self._is_real(found):
            raise Unknown(f"{describe(value)} holds no codes")
        assert isinstance(found, np.ndarray)
        return found

    def _is_real(self, x: Any) -> bool:
        return isinstance(x, Number) or (isinstance(x, np.ndarray) and x.dtype == object)

    def value(self, value: ir.Value) -> Any:
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._value(value)
        return found

    def _value(self, value: ir.Value) -> Any:
        fixed = constant(self.facts, value)
        if fixed is not None:
            return self._spread(fixed, by_position=True)
        node = value.producer()
        if node is None:
            raise Unknown(f"{describe(value)} is not computed from the codes")
        budget.spend(_PASSES * self.elements.codes.size)
        pair = quantized(self.facts, node)
        if pair is not None:
            return self._pair(pair)
        if is_lookup(self.facts, node):
            return self._looked_up(node)
        if is_normalization(self.facts, node):
            return self._normalized(node)
        operands = [None if v is None else self.value(v) for v in self.facts.operands(node)]
        if node.domain == "" and node.op_type in ("Cast", "Identity", "Where"):
            return self._special(node, operands)
        if any(self._is_real(x) for x in operands):
            return self._body(node, operands)
        return self._integers(node, operands)

    # --- constants

    def _spread(self, array: Array, by_position: bool) -> Any:
        """A constant for each element: by its place in the tensor, or one for each channel."""
        if is_uniform(array):
            flat: Array = array.reshape(-1)[:1].reshape(())
        else:
            self._channels_of(array, by_position)
            assert self.elements.channel is not None
            flat = array.reshape(-1)[self.elements.channel]
        return self.arithmetic.lift(flat) if flat.dtype.kind == "f" else flat

    def _channels_of(self, array: Array, by_position: bool) -> None:
        """Refuse a constant that differs along anything but the axis of the channels."""
        if self.channels is None or self.elements.channel is None:
            raise Unknown("a constant is not one number")
        size = self.channels.along(array.shape) if by_position else array.size
        if size is None or int(self.elements.channel.max(initial=0)) >= size:
            raise Unknown("a constant differs along another axis")

    # --- nodes

    def _pair(self, pair: Quantized) -> Any:
        params = pair.params
        if pair.faults or params.block is not None:
            raise Unknown("; ".join(pair.faults) or "blocked parameters")
        if params.axis is not None and self.channels is not None:
            rank = None if pair.shape is None else len(pair.shape)
            if (params.axis, rank) != (self.channels.axis, self.channels.rank):
                raise Unknown("parameters along another axis")
        scale, zero = (self._of_channel(a) for a in (params.scales, params.zeros))
        operand = self.value(pair.operand)
        if pair.node.op_type == "DequantizeLinear":
            return self.arithmetic.product(np.asarray(operand).astype(np.int64) - zero, scale)
        return self.arithmetic.nearest(self._real(operand), scale, zero, params.code)

    def _of_channel(self, array: Array) -> Array:
        """Parameters as plain arrays: one, or one for each element."""
        if is_uniform(array):
            return np.asarray(array.reshape(-1)[0])
        self._channels_of(array, by_position=False)
        assert self.elements.channel is not None
        return np.asarray(array.reshape(-1)[self.elements.channel])

    def _real(self, x: Any) -> Any:
        return x if self._is_real(x) else self.arithmetic.lift(x)

    def _looked_up(self, node: ir.Node) -> Any:
        data, index = node.inputs
        table = None if data is None else self.facts.array(data)
        if table is None or index is None:
            raise Unknown(f"{describe(data)} is not constant")
        found = _wide(table)[self.plain(index).astype(np.int64)]  # IndexError: out of range
        return self.arithmetic.lift(found) if found.dtype.kind == "f" else found

    def _normalized(self, node: ir.Node) -> Any:
        """(x - mean) / sqrt(var + epsilon) scale + bias; the root in float64."""
        operands = self.facts.operands(node)
        held = [constant(self.facts, v) for v in operands[1:] if v is not None]
        scale, bias, mean, var = (a for a in held if a is not None)
        epsilon = float(np.float32(self.facts.attribute(node, "epsilon")))
        factor = scale / np.sqrt(var + epsilon)
        given = operands[0]
        assert given is not None
        x = self._real(self.value(given))
        m, f, b = (self._spread(a, by_position=False) for a in (mean, factor, bias))
        return self.arithmetic.add(self.arithmetic.mul(self.arithmetic.sub(x, m), f), b)

    def _special(self, node: ir.Node, operands: list[Any]) -> Any:
        if node.op_type == "Identity":
            return operands[0]
        if node.op_type == "Where":
            condition, x, y = operands
            if self._is_real(x) or self._is_real(y):
                return self.arithmetic.select(condition, x, y)
            return np.where(condition, x, y)
        return self._cast(node, operands[0])

    def _cast(self, node: ir.Node, x: Any) -> Any:
        """To float32 and float64 nothing happens to a real number; to integers it is truncated."""
        name = DTYPE_OF.get(_attributes(node).integer("to", 0))
        if name is None:
            raise Unknown("a Cast to an unknown type")
        if name in DTYPE_CLASSES["f"]:
            if name not in ("f32", "f64"):
                raise Unknown(f"a Cast to {name} rounds")
            return self._real(x)
        if not self._is_real(x):
            found = convert(x, name)
        elif name == "bool":
            found = self.arithmetic.nonzero(x)
        else:
            found = convert(self.arithmetic.truncated(x), name)
        if found is None:
            raise Unknown(f"a Cast of values that {name} does not hold")
        return found

    def _body(self, node: ir.Node, operands: list[Any]) -> Any:
        """The scalar body of an elementwise operator on real numbers."""
        definition = registry.find(node.domain, node.op_type)
        body: Any = None if definition is None else definition.body
        if not callable(body):
            raise Unknown(f"{node.op_type} has no value here")
        given = _attributes(node)
        attributes = {
            name: scalar._attribute(given, name, default)  # type: ignore[arg-type]
            for name, default in (body.__kwdefaults__ or {}).items()
        }
        least = body.__code__.co_argcount - 1
        operands = [*operands, *[None] * (least - len(operands))]
        counter = scalar.CountingBuilder()
        body(counter, *operands, **attributes)
        if set(counter.steps) <= EXACT_STEPS:
            return body(self.arithmetic, *operands, **attributes)
        floats = [self.arithmetic.floats(x) if self._is_real(x) else x for x in operands]
        found = np.asarray(body(FLOATS, *floats, **attributes))
        return self.arithmetic.lift(found) if found.dtype.kind == "f" else found

    def _integers(self, node: ir.Node, operands: list[Array | None]) -> Array:
        """An operator on integers or truth values."""
        definition = registry.find(node.domain, node.op_type)
        if definition is None or definition.evaluate is None or not definition.pointwise:
            raise Unknown(f"{node.op_type} has no value here")
        attributes = _attributes(node).attributes
        given = Evaluation(self.facts.opset(node), operands, attributes, 1)
        try:
            found = definition.evaluate(given)
        except (InferenceError, *ILL_TYPED) as problem:
            raise Unknown(f"{node.op_type} cannot be computed for all codes") from problem
        if not found:
            raise Unknown(f"{node.op_type} is not defined for all codes")
        return np.asarray(found[0])


def _attributes(node: ir.Node) -> Attributes:
    held: dict[str, Any] = {}
    for name, attribute in node.attributes.data.items():
        if attribute.is_ref():
            raise Unknown(f"attribute {name} is a parameter of the function")
        held[name] = attribute.value
    return Evaluation(0, (), held, 1)
