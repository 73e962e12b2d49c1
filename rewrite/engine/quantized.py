"""Quantized operators: where they keep codes, scales and zero points.

In: facts of a model, a node. Out: whether a model is quantized at all; the `Part`s of a node, each
a tensor of codes with its parameters; constant weights of contractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.graph.uses import nodes_of
from rewrite.quant.codes import CodeType, code_type, name_of
from rewrite.quant.params import QuantParams, quant_params
from rewrite.schema import Shape

PAIR = ("QuantizeLinear", "DequantizeLinear")
INTEGER = ("ConvInteger", "MatMulInteger")
Outer = Mapping[ir.Value, ir.Value | None]
_NOTHING: Outer = {}
RESULT = -1  # in place of an operand: the first output

# Operator -> (codes, scale, zero point) as operands of it.
_ONE = ((0, 1, 2), (RESULT, 3, 4))
_TWO = ((0, 1, 2), (3, 4, 5), (RESULT, 6, 7))
_PARTS: Mapping[str, tuple[tuple[int, int, int], ...]] = {
    "QLinearConv": _TWO, "QLinearMatMul": _TWO, "QLinearAdd": _TWO, "QLinearMul": _TWO,
    "QGemm": ((0, 1, 2), (3, 4, 5), (RESULT, 7, 8)),
    "QLinearWhere": ((1, 2, 3), (4, 5, 6), (RESULT, 7, 8)),
    "QLinearSigmoid": _ONE, "QLinearLeakyRelu": _ONE, "QLinearSoftmax": _ONE,
    "MatMulIntegerToFloat": ((0, 2, 4), (1, 3, 5)), "DynamicQuantizeMatMul": ((1, 2, 3),),
    "QLinearAveragePool": _ONE, "QLinearGlobalAveragePool": _ONE, "QLinearReduceMean": _ONE,
}  # fmt: skip
_BIAS = {"QLinearConv": 8, "QGemm": 6}
NAMES = frozenset(
    {*PAIR, *INTEGER, *_PARTS, "QLinearConcat", "DynamicQuantizeLinear", "MatMulNBits",
     "DynamicQuantizeLSTM", "QAttention"}
)  # fmt: skip
_OF_NUMBERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
OPERATORS = NAMES | frozenset(_OF_NUMBERS)  # all that `parts` and `contraction` know
_DOMAINS = ("", "com.microsoft")


@dataclass(frozen=True, slots=True)
class Part:
    """Codes of a node: what they are to it (`operand 0`, `result`), their parameters and shape."""

    role: str
    params: QuantParams
    shape: Shape | None
    codes: ir.Value


@dataclass(frozen=True, slots=True)
class Contraction:
    """Operands of a product: codes, constant weights with the axis of their channels, a bias."""

    codes: ir.Value
    zero: ir.Value | None
    weights: ir.Value
    weights_zero: ir.Value | None
    axis: int
    bias: ir.Value | None = None


def is_quantized(facts: Facts) -> bool:
    """Whether any node, in subgraphs and functions too, works with codes."""
    return any(
        node._op_type in NAMES and node._domain in _DOMAINS
        for graph in facts.graphs()
        for node in nodes_of(graph)
    )


def parts(facts: Facts, node: ir.Node) -> Iterator[Part]:
    """The parts whose parameters are constant and whose element types are known."""
    if node.domain not in _DOMAINS:
        return
    if node.op_type in PAIR:
        codes = RESULT if node.op_type == PAIR[0] else 0
        yield from _part(facts, node, (codes, 1, 2))
        return
    places = _PARTS.get(node.op_type, ())
    if node.op_type == "QLinearConcat":
        places = ((RESULT, 0, 1), *((k, k + 1, k + 2) for k in range(2, len(node.inputs) - 2, 3)))
    for place in places:
        yield from _part(facts, node, place)


def operand(facts: Facts, node: ir.Node, index: int) -> ir.Value | None:
    operands = facts.operands(node)
    return operands[index] if index < len(operands) else None


def _part(facts: Facts, node: ir.Node, place: tuple[int, int, int]) -> Iterator[Part]:
    codes = node.outputs[0] if place[0] == RESULT else operand(facts, node, place[0])
    scale, zero = (operand(facts, node, k) for k in place[1:])
    if codes is None or scale is None:
        return
    scales = facts.array(scale)
    zeros = None if zero is None else facts.array(zero)
    if scales is None or scales.dtype.kind in "OSU" or (zero is not None and zeros is None):
        return
    if zeros is not None and zeros.dtype.kind in "OSU":
        return
    if node.op_type == "QLinearMatMul" and scales.ndim > 1:  # per row of each matrix of a batch
        return
    code = _code(facts, codes, zeros if place[0] == RESULT else None)
    if code is None:
        return
    shape = facts.type(codes).shape
    if node.op_type in PAIR and shape is None:
        shape = facts.type(node.inputs[0] or codes).shape
    axis, block = _place(facts, node, place[0], scales, shape)
    role = "" if node.op_type in PAIR else "result" if place[0] == RESULT else f"operand {place[0]}"
    yield Part(role, quant_params(code, scales, zeros, axis, block), shape, codes)


def _code(facts: Facts, codes: ir.Value, zeros: np.ndarray | None) -> CodeType | None:
    name = facts.type(codes).dtype
    if name is None and zeros is not None:
        name = name_of(zeros.dtype)
    return None if name is None else code_type(name)


def _place(
    facts: Facts, node: ir.Node, codes: int, scales: np.ndarray, shape: Shape | None
) -> tuple[int | None, int | None]:
    """Axis from the front where the rank is known, and block size."""
    block = _integer(facts, node, "block_size", 0) if node.op_type in PAIR else 0
    if scales.size == 1 and scales.ndim <= 1 and not block:
        return None, None
    axis = _axis(facts, node, codes, shape)
    if axis is not None and axis < 0 and shape is not None:
        axis += len(shape)
    return axis, block or None


def _axis(facts: Facts, node: ir.Node, codes: int, shape: Shape | None) -> int | None:
    if node.op_type in PAIR:
        return _integer(facts, node, "axis", 1)
    if node.op_type == "QLinearConv" and codes == 3:
        return 0
    if node.op_type == "QLinearMatMul" and codes in (0, 3):
        return -2 if codes == 0 else -1
    if node.op_type in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul") and codes == 1:
        return -1
    if node.op_type == "QGemm" and codes == 3:
        return 0 if _integer(facts, node, "transB", 0) else 1
    return None


def _integer(facts: Facts, node: ir.Node, name: str, default: int) -> int:
    try:
        found = facts.attribute(node, name)
    except ReferenceAttribute:
        return default
    return default if found is None else int(found)


def contraction(facts: Facts, node: ir.Node, outer: Outer = _NOTHING) -> Contraction | None:
    """A product of codes by constant weights, by operators on codes or on what stands for them.

    `outer`: of a node in a function's body, what the caller gives for the function's inputs.
    """
    name = node.op_type
    if node.domain not in _DOMAINS:
        return None
    given = [outer.get(v, v) if v is not None else None for v in facts.operands(node)]
    given += [None] * (9 - len(given))
    bias = None
    if name in ("QLinearConv", "QLinearMatMul", "QGemm"):
        x, _, zero, w, _, w_zero = given[:6]
        bias = given[_BIAS[name]] if name in _BIAS else None
    elif name in INTEGER:
        x, w, zero, w_zero = given[:4]
    elif name in _OF_NUMBERS and node.domain == "":
        if name == "ConvTranspose" and _integer(facts, node, "group", 1) != 1:
            return None
        (x, zero), (w, w_zero), (bias, _) = (_codes_of(facts, v, outer) for v in given[:3])
    else:
        return None
    if x is None or w is None or facts.constant(w) is None:
        return None
    return Contraction(x, zero, w, w_zero, channel_axis(facts, node, w), bias)


def _codes_of(
    facts: Facts, value: ir.Value | None, outer: Outer
) -> tuple[ir.Value | None, ir.Value | None]:
    """Codes and zero point of dequantized codes, or of Cast(codes), or of that - zero point."""
    node = None if value is None else value.producer()
    if node is None or node.domain not in _DOMAINS:
        return None, None
    if node.op_type == PAIR[1]:
        return operand(facts, node, 0), operand(facts, node, 2)
    cast, zero = node, None
    if node.op_type == "Sub" and node.inputs[0] is not None:
        cast, zero = node.inputs[0].producer() or node, node.inputs[1]
    if cast.op_type != "Cast" or cast.inputs[0] is None:
        return None, None
    return outer.get(cast.inputs[0], cast.inputs[0]), zero


def channel_axis(facts: Facts, node: ir.Node, weights: ir.Value) -> int:
    """The axis of the weights along which results have channels."""
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv"):
        return 0
    if node.op_type == "ConvTranspose":
        return 1
    if node.op_type in ("Gemm", "QGemm") and _integer(facts, node, "transB", 0):
        return 0
    shape = facts.type(weights).shape
    return 0 if not shape else len(shape) - 1
