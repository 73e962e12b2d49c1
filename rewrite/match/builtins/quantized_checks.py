"""Quantization parameters of nodes: what they are, and whether anything is wrong with them.

In: values that QuantizeLinear or DequantizeLinear produces (ai.onnx or com.microsoft), constant
scales. Out: `QuantParams` for the other modules of this folder; truth values for rules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.match.builtins.registry import Value, builtin
from rewrite.match.values import Env, Tensor, Unknown, describe, is_graph_value
from rewrite.quant.clamp import bounds
from rewrite.quant.codes import CodeType, code_type
from rewrite.quant.faults import QuantError
from rewrite.quant.params import QuantParams, faults, quant_params, uniform
from rewrite.schema import Shape

DOMAINS = ("", "com.microsoft")
PAIR = ("QuantizeLinear", "DequantizeLinear")


@dataclass(frozen=True, slots=True)
class Quantized:
    """A QuantizeLinear or DequantizeLinear with constant parameters.

    `operand` is what it reads; `shape` that of codes and values alike, None where not known.
    """

    node: ir.Node
    operand: ir.Value
    params: QuantParams
    shape: Shape | None

    @property
    def faults(self) -> tuple[str, ...]:
        return faults(self.params, self.shape)


def is_pair(node: ir.Node) -> bool:
    """Whether it is one of the two operators."""
    return node.op_type in PAIR and node.domain in DOMAINS


def quantized(facts: Facts, node: ir.Node) -> Quantized | None:
    """The node with its parameters; None where they are not constant or nobody knows the types."""
    if not is_pair(node):
        return None
    operands = facts.operands(node)
    if len(operands) < 2 or operands[0] is None or operands[1] is None:
        return None
    scale = facts.array(operands[1])
    zero = operands[2] if len(operands) > 2 else None
    zeros = None if zero is None else facts.array(zero)
    code = _code(facts, node, operands[0])
    if scale is None or code is None or (zero is not None and zeros is None):
        return None
    if zeros is not None and zeros.dtype.kind in "OSU":
        return None
    shape = facts.type(node.outputs[0]).shape or facts.type(operands[0]).shape
    place = _place(facts, node, shape)
    if place is None:
        return None
    axis, block = place
    if block is None and scale.size == 1 and scale.ndim <= 1:
        axis = None
    return Quantized(node, operands[0], quant_params(code, scale, zeros, axis, block), shape)


def _code(facts: Facts, node: ir.Node, operand: ir.Value) -> CodeType | None:
    value = node.outputs[0] if node.op_type == PAIR[0] else operand
    name = facts.type(value).dtype
    return None if name is None else code_type(name)


def _place(
    facts: Facts, node: ir.Node, shape: Shape | None
) -> tuple[int | None, int | None] | None:
    """Axis from the front (kept as it is where the rank is not known) and block size."""
    try:
        axis = facts.attribute(node, "axis")
        block = facts.attribute(node, "block_size")
    except ReferenceAttribute:
        return None
    axis = 1 if axis is None else int(axis)
    if axis < 0 and shape is not None:
        axis += len(shape)
    return axis, int(block) if block else None


def of_value(env: Env, x: object) -> Quantized:
    """The node that produces the value, with its parameters; `Unknown` where there is none."""
    node = x.producer() if is_graph_value(x) else None
    found = None if node is None else quantized(env.facts, node)
    if found is None:
        raise Unknown(f"{describe(x)} has no constant quantization parameters")
    return found


@builtin
def sound(env: Env, x: object) -> bool:
    """Whether the scale, or all parameters of the QuantizeLinear or DequantizeLinear, are right.

    A scale is positive, finite and not denormal. Of a node, also type and range of the zero
    point, axis and block size; and the tensor is not empty.
    """
    if is_graph_value(x) and env.facts.constant(x) is None:
        found = of_value(env, x).faults
        if found:
            raise Unknown(f"{describe(x)} has a bad quantization: {'; '.join(found)}")
        return True
    return _right_scale(env.tensor(x))


def _right_scale(scale: Tensor) -> bool:
    if scale.array.dtype.kind != "f" or not scale.size:
        return False
    least = {"f16": 2.0**-14, "f64": 2.0**-1022}.get(scale.dtype or "f32", 2.0**-126)
    return bool((np.isfinite(scale.array) & (scale.array >= least)).all())


@builtin
def code_of(env: Env, y: Value, bound: Tensor) -> Tensor:
    """The code that QuantizeLinear `y` gives a number: one, or one for each index of its axis.

    Not known where a division in float32 and an exact one do not give the same.
    """
    found = of_value(env, y)
    if found.faults:
        raise Unknown(f"{describe(y)} has a bad quantization: {'; '.join(found.faults)}")
    if not bound.size:
        raise Unknown("the number is empty")
    try:
        limits = bounds(None, float(bound.reals().reshape(-1)[0]), found.params)
    except QuantError as fault:
        raise Unknown("; ".join(fault.faults)) from fault
    if not limits.agree:
        raise Unknown(f"{describe(y)} has two codes for it: the quotient lies beside a tie")
    return Tensor(np.asarray(limits.high), found.params.code.name)


def per_tensor(found: Quantized) -> QuantParams | None:
    """The parameters as one scale and one zero point; None where they differ along an axis."""
    same = uniform(found.params)
    return same if same.axis is None else None
