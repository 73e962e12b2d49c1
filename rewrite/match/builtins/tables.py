"""Lookup tables: what lies between codes and codes, element by element, as one constant.

In: a value that holds codes. Out: the codes that it is a function of (`codes_behind`), and that
function as a constant for Gather (`lookup`, `after_lookup`).

The function is evaluated in its real-number meaning: DequantizeLinear gives (c - z) s, operators
between it and QuantizeLinear compute in float64, and QuantizeLinear divides exactly, rounds half
to even, adds the zero point and saturates. NaN has no code: then there is no table.

Index c of a signed code stands at place c mod n, where Gather looks for a negative index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.match import budget
from rewrite.match.builtins.quantized_checks import Quantized, is_pair, per_tensor, quantized
from rewrite.match.builtins.registry import Value, builtin
from rewrite.match.structure import raw_attribute
from rewrite.match.values import Env, Tensor, Unknown, describe, is_graph_value, working
from rewrite.ops import registry
from rewrite.ops.call import ILL_TYPED, Array, Evaluation, InferenceError
from rewrite.ops.cast import convert
from rewrite.ops.dtypes import of_numpy
from rewrite.quant.affine import dequantize_exact, quantize_exact
from rewrite.quant.codes import code_type, every_code
from rewrite.quant.faults import QuantError
from rewrite.schema import DTYPE_CLASSES, DTYPE_OF

MOST_NODES = 128  # that one search looks at
_PASSES = 16  # over all codes, that one node takes
CODES = ("u2", "s2", "u4", "s4", "u8", "s8", "u16", "s16")

_CONSTANT: Literal["constant"] = "constant"
# What a value is a function of: one tensor of codes, nothing, or more than that (None).
_Origin = ir.Value | Literal["constant"] | None


# --- where a value comes from -------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    """Goes from a value to the one tensor of codes that it is a function of."""

    facts: Facts
    graph: ir.Graph
    left: int = MOST_NODES
    known: dict[ir.Value, _Origin] = field(default_factory=dict)

    def origin(self, value: ir.Value) -> _Origin:
        """The deepest such tensor whose table is not larger than one over the codes on the way."""
        if value in self.known:
            return self.known[value]
        self.known[value] = found = self._origin(value)
        return found

    def _origin(self, value: ir.Value) -> _Origin:
        if self.facts.constant(value) is not None:
            return _CONSTANT if self.facts.scalar(value) is not None else None
        own = value if self.facts.type(value).dtype in CODES else None
        behind = self._behind(value)
        if behind is None or isinstance(behind, str):
            return behind or own
        return behind if own is None or self._entries(behind) <= self._entries(own) else own

    def _entries(self, codes: ir.Value) -> int:
        return 1 << 16 if str(self.facts.type(codes).dtype).endswith("16") else 1 << 8

    def _behind(self, value: ir.Value) -> _Origin:
        """The one origin of the operands of a pointwise node."""
        node = value.producer()
        if node is None or node.graph is not self.graph or value.index() != 0:
            return None
        operands = mapped(self.facts, node)
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


def mapped(facts: Facts, node: ir.Node) -> tuple[ir.Value, ...] | None:
    """The operands of which the node's value is a function, element by element; None: no such."""
    if is_pair(node):
        found = quantized(facts, node)
        right = found is not None and not found.faults and per_tensor(found) is not None
        return (found.operand,) if right and found is not None else None
    if is_lookup(facts, node):
        index = node.inputs[1]
        return None if index is None else (index,)
    definition = registry.find(node.domain, node.op_type)
    if definition is None or not definition.pointwise or len(node.outputs) != 1:
        return None
    return tuple(operand for operand in facts.operands(node) if operand is not None)


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


# --- what the function is -----------------------------------------------------------------------


@dataclass(slots=True)
class _Evaluator:
    """Computes values for all codes of one tensor at once; floats are float64."""

    facts: Facts
    known: dict[ir.Value, Array]
    cost: int  # of one node, as `budget` counts

    def value(self, value: ir.Value) -> Array:
        found = self.known.get(value)
        if found is None:
            found = self.known[value] = self._value(value)
        return found

    def _value(self, value: ir.Value) -> Array:
        if self.facts.constant(value) is not None:
            return self._constant(value)
        node = value.producer()
        if node is None:
            raise Unknown(f"{describe(value)} is not computed from the codes")
        budget.spend(self.cost)
        pair = quantized(self.facts, node)
        if pair is not None:
            return self._pair(pair)
        if is_lookup(self.facts, node):
            return self._looked_up(node)
        operands = [None if v is None else self.value(v) for v in self.facts.operands(node)]
        if node.op_type == "Cast" and node.domain == "":
            return self._cast(node, operands)
        return self._node(node, operands)

    def _constant(self, value: ir.Value) -> Array:
        array = self.facts.array(value)
        if array is None or array.size == 0:
            raise Unknown(f"{describe(value)} is not constant")
        return _wide(array.reshape(-1)[0].reshape(()))

    def _looked_up(self, node: ir.Node) -> Array:
        data, index = node.inputs
        table = None if data is None else self.facts.array(data)
        if table is None or index is None:
            raise Unknown(f"{describe(data)} is not constant")
        return np.asarray(_wide(table)[self.value(index).astype(np.int64)])

    def _pair(self, pair: Quantized) -> Array:
        params = per_tensor(pair)
        if params is None:
            raise Unknown("the parameters differ along an axis")
        operand = self.value(pair.operand)
        if pair.node.op_type == "DequantizeLinear":
            return dequantize_exact(operand, params)
        return np.asarray(quantize_exact(operand, params))

    def _cast(self, node: ir.Node, operands: list[Array | None]) -> Array:
        """Between floats nothing happens to a real number that has room in the new type."""
        to, x = raw_attribute(self.facts, node, "to"), operands[0]
        name = DTYPE_OF.get(to) if isinstance(to, int) else None
        if name is None or x is None:
            raise Unknown("a Cast to an unknown type")
        if name in DTYPE_CLASSES["f"]:
            if name not in ("f32", "f64"):
                raise Unknown(f"a Cast to {name} rounds")
            return x.astype(np.float64)
        found = convert(x, name)
        if found is None:
            raise Unknown(f"a Cast of values that {name} does not hold")
        return found

    def _node(self, node: ir.Node, operands: list[Array | None]) -> Array:
        definition = registry.find(node.domain, node.op_type)
        if definition is None or definition.evaluate is None:
            raise Unknown(f"{node.op_type} has no value here")
        attributes: dict[str, Any] = {}
        for name, attribute in node.attributes.data.items():
            if attribute.is_ref():
                raise Unknown(f"attribute {name} is a parameter of the function")
            attributes[name] = attribute.value
        given = Evaluation(self.facts.opset(node), operands, attributes, 1)
        try:
            found = definition.evaluate(given)
        except (InferenceError, *ILL_TYPED) as problem:
            raise Unknown(f"{node.op_type} cannot be computed for all codes") from problem
        if not found:
            raise Unknown(f"{node.op_type} is not defined for all codes")
        return np.asarray(found[0])


def _wide(array: Array) -> Array:
    """Floats of every type as float64, the rest as it is."""
    if of_numpy(array.dtype) not in DTYPE_CLASSES["f"]:
        return array
    # Types of ml_dtypes go by way of float32, which holds all of them.
    native = array.dtype.kind == "f"
    return (array if native else array.astype(np.float32)).astype(np.float64)


# --- functions of the rule language -------------------------------------------------------------


@builtin
def codes_behind(env: Env, y: Value) -> object:
    """The integers of at most 16 bits that the value is a function of, element by element.

    None where it depends on more than one such tensor, or on more than its single elements.
    """
    node = y.producer() if is_graph_value(y) else None
    if node is None or node.graph is None or not is_graph_value(y):
        return None
    found = _Search(env.facts, node.graph)._behind(y)
    return None if isinstance(found, str) else found


@builtin
def lookup(env: Env, y: Value, x: Value) -> Tensor:
    """The codes `y` for every code of `x`, of which it is a function, in the order for Gather."""
    if not (is_graph_value(y) and is_graph_value(x)):
        raise Unknown("a table is of two values of the graph")
    code = code_type(env.facts.type(x).dtype or "")
    if code is None:
        raise Unknown(f"the element type of {describe(x)} is not known")
    codes = every_code(code)
    codes = np.roll(codes, code.low)  # 0, 1, ..., then the negative ones
    try:
        found = _Evaluator(env.facts, {x: codes}, _PASSES * codes.size).value(y)
    except QuantError as fault:
        raise Unknown("; ".join(fault.faults)) from fault
    return working(np.ascontiguousarray(np.broadcast_to(found, codes.shape)))
