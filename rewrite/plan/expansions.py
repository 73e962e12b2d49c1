"""Operators of ONNX Runtime's own as functions over other operators.

In: nothing. Out: `FunctionProto`s, as ONNX has them for operators of its own: what they say is what
the operator means, and planning puts their nodes in its place. An operand that is absent is absent
in the function, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import onnx
from onnx import helper

_DOMAIN = "com.microsoft"


@cache
def expansion(domain: str, name: str) -> onnx.FunctionProto | None:
    """The function that an operator is; None where there is none here."""
    make = _EXPANSIONS.get(name) if domain == _DOMAIN else None
    return None if make is None else make()


def _function(name: str, inputs: list[str], nodes: list[onnx.NodeProto]) -> onnx.FunctionProto:
    """A function whose result is Y."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_DOMAIN, 1)]
    return helper.make_function(_DOMAIN, name, inputs, ["Y"], nodes, opsets)


def _dynamic_quantize_matmul() -> onnx.FunctionProto:
    """A is quantized by its range; the product with codes is scaled."""
    codes = helper.make_node("DynamicQuantizeLinear", ["A"], ["a", "a_scale", "a_zero_point"])
    operands = ["a", "B", "a_scale", "b_scale", "a_zero_point", "b_zero_point", "bias"]
    product = helper.make_node("MatMulIntegerToFloat", operands, ["Y"], domain=_DOMAIN)
    inputs = ["A", "B", "b_scale", "b_zero_point", "bias"]
    return _function("DynamicQuantizeMatMul", inputs, [codes, product])


_EXPANSIONS: dict[str, Callable[[], onnx.FunctionProto]] = {
    "DynamicQuantizeMatMul": _dynamic_quantize_matmul,
}
