"""Matrix products of ONNX Runtime's own operators.

In: instances. Out: as MatMul and Gemm, with other layouts of operands and steps behind the sums.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rewrite.ops.call import Evaluation
from rewrite.ops.microsoft import DOMAIN, fused_matmul_order
from rewrite.ops.microsoft_value import dequantized_blocks
from rewrite.plan.lower.matmul import added, destination, left_factor, right_factor
from rewrite.plan.lower.matmul_factors import Right, Scheme, plain
from rewrite.plan.lower.matmul_product import multiply
from rewrite.plan.lower.matmul_tail import Tail
from rewrite.plan.lowering import Instance, Lowering, lowers, refuses
from rewrite.plan.spec import Constant
from rewrite.plan.tensor import Tensor

Array = np.ndarray[Any, np.dtype[Any]]


@lowers("FusedMatMul", "TransposeMatMul", domain=DOMAIN, epilogue=True)
def fused_matmul(low: Lowering, op: Instance) -> None:
    """alpha A B, where the batch of an operand may stand behind its rows."""
    left = _turned(low, 0, "A")
    if not low.is_known(1):
        tensor = _turned(low, 1, "B")
        if len(tensor.shape) == 1:
            right = right_factor(low, 1)
        else:
            right = Right(tensor.shape, tensor)
    else:
        right = _known_right(low, op)
    scheme = plain(op.dtype(0))
    tail = Tail(scheme.total, op.out_dtype())
    alpha = op.number("alpha", 1.0)
    if alpha != 1:
        tail.then("Mul", Constant(scheme.total, alpha))
    multiply(low, left, right, destination(low, left, right), tail, scheme)


def _order(op: Instance, index: int, side: str) -> tuple[int, ...]:
    trans = op.integer(f"trans{side}", 0) != 0
    batch = op.integer(f"transBatch{side}", 0) != 0
    return tuple(fused_matmul_order(len(op.shape(index)), trans, batch))


def _turned(low: Lowering, index: int, side: str) -> Tensor:
    if len(low.op.shape(index)) == 1:
        return left_factor(low, index) if side == "A" else low.view(index)
    return low.view(index).permuted(_order(low.op, index, side))


def _known_right(low: Lowering, op: Instance) -> Right:
    if len(op.shape(1)) == 1:
        return right_factor(low, 1)
    order = _order(op, 1, "B")
    shape = tuple(op.shape(1)[a] for a in order)
    return Right(shape, None, 1, ("order", order), lambda w: w.transpose(order))


# --- Gemm and what follows it ------------------------------------------------------------------


@lowers("FusedGemm", domain=DOMAIN, epilogue=True)
def fused_gemm(low: Lowering, op: Instance) -> None:
    """Gemm, then an activation."""
    left = left_factor(low, 0, bool(op.integer("transA", 0)))
    right = right_factor(low, 1, bool(op.integer("transB", 0)))
    scheme = plain(op.dtype(0))
    tail = Tail(scheme.total, op.out_dtype())
    out = destination(low, left, right)
    bias = added(low, tail, out, op.number("alpha", 1.0), op.number("beta", 1.0))
    activation = op.text("activation", "")
    if activation:
        _ACTIVATIONS[activation](tail, op)
    multiply(low, left, right, out, tail, scheme, bias)


@refuses("FusedGemm", domain=DOMAIN)
def fused_gemm_refusal(op: Instance) -> str | None:
    name = op.text("activation", "")
    return None if not name or name in _ACTIVATIONS else f"the activation {name} of FusedGemm"


def _parameters(op: Instance) -> tuple[float, float]:
    return op.number("activation_alpha", 0.0), op.number("activation_beta", 0.0)


def _named(name: str) -> Callable[[Tail, Instance], None]:
    return lambda tail, op: tail.then(name)


def _leaky(tail: Tail, op: Instance) -> None:
    alpha, _ = _parameters(op)
    tail.last = tail.value("LeakyRelu", tail.last, attributes=(("alpha", alpha),))


def _clip(tail: Tail, op: Instance) -> None:
    least, most = _parameters(op)
    tail.then("Max", Constant(tail.total, least))
    tail.then("Min", Constant(tail.total, most))


def _hard_sigmoid(tail: Tail, op: Instance) -> None:
    alpha, beta = _parameters(op)
    attributes = (("alpha", alpha), ("beta", beta))
    tail.last = tail.value("HardSigmoid", tail.last, attributes=attributes)


_ACTIVATIONS: dict[str, Callable[[Tail, Instance], None]] = {
    "Relu": _named("Relu"),
    "Tanh": _named("Tanh"),
    "Sigmoid": _named("Sigmoid"),
    "LeakyRelu": _leaky,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
}


@lowers("GemmFastGelu", domain=DOMAIN, epilogue=True)
def gemm_fast_gelu(low: Lowering, op: Instance) -> None:
    """FastGelu(X W + bias)."""
    left, right = left_factor(low, 0), right_factor(low, 1)
    scheme = plain(op.dtype(0))
    tail = Tail(scheme.total, op.out_dtype())
    if op.has(2):
        bias = tail.operand(low.view(2))
        wide = bias if op.dtype(2) == scheme.total else tail.cast(bias, scheme.total)
        tail.then("Add", wide)
    tail.last = tail.value("FastGelu", tail.last, domain=DOMAIN)
    multiply(low, left, right, destination(low, left, right), tail, scheme)


# --- weights of few bits -----------------------------------------------------------------------


@lowers("MatMulNBits", domain=DOMAIN, epilogue=True)
def matmul_nbits(low: Lowering, op: Instance) -> None:
    """A product with weights that are codes scaled in blocks; they are numbers once packed."""
    left = left_factor(low, 0)
    for index in (2, 3):
        content = op.content(index)
        if content is not None:
            low.weights.keep(content)
    right = Right((op.integer("K", 0), op.integer("N", 0)), None, 1, _block_key(op), _blocks(op))
    scheme = Scheme("plain", "f32", "f32", "f32")
    tail = Tail("f32", op.out_dtype())
    if op.has(5):
        bias = tail.operand(low.view(5))
        tail.then("Add", bias if op.dtype(5) == "f32" else tail.cast(bias, "f32"))
    multiply(low, left, right, destination(low, left, right), tail, scheme)


def _block_key(op: Instance) -> tuple[object, ...]:
    """What the weight is besides its codes: other contents, told apart by who holds them."""
    others = [op.content(i) for i in (2, 3)]
    return ("blocks", *(id(a) for a in others), *(op.integer(n, 0) for n in _BLOCK_ATTRIBUTES))


_BLOCK_ATTRIBUTES = ("K", "N", "bits", "block_size")


def _blocks(op: Instance) -> Callable[[Array], Array]:
    """The weight [K, N] of the operator's known operands."""

    def form(codes: Array) -> Array:
        inputs = [None, codes, *(op.known(i) for i in (2, 3))]
        made = dequantized_blocks(Evaluation(op.opset, inputs, op.attributes, 1))
        assert made is not None, "refused otherwise"
        return made.T.astype(np.float32)

    return form


@refuses("MatMulNBits", domain=DOMAIN)
def matmul_nbits_refusal(op: Instance) -> str | None:
    if any(op.has(i) and not op.is_known(i) for i in (1, 2, 3)):
        return "MatMulNBits whose weights are not known"
    if op.has(4) or op.integer("bits", 4) not in (2, 4, 8) or op.integer("block_size", 0) < 1:
        return "MatMulNBits with reordered groups, or of a number of bits that is not 2, 4 or 8"
    return None
