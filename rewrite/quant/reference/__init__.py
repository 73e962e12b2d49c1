"""The exact value of every quantized operator, one call at a time.

In: operator name, operands and attributes as a model holds them. Out: arrays, or None for an
operator that is not here; `QuantError` names operands that have no defined result.

Results are those of rational arithmetic by the text of ONNX (and of onnxruntime's operator
documents), rounded once. `Arithmetic` chooses another requantizer, the order of rounding and zero
point, and so on: the same functions are the oracle of every target.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewrite.quant.codes import Array
from rewrite.quant.faults import QuantError
from rewrite.quant.reference import floats, linear, pointwise, pooling
from rewrite.quant.reference.call import Arithmetic, Arrays, Call

MICROSOFT = "com.microsoft"

OPERATORS: Mapping[tuple[str, str], Callable[[Call], Arrays]] = {
    ("", "QuantizeLinear"): floats.quantize_linear,
    ("", "DequantizeLinear"): floats.dequantize_linear,
    ("", "DynamicQuantizeLinear"): floats.dynamic_quantize_linear,
    ("", "QLinearConv"): linear.qlinear_conv,
    ("", "QLinearMatMul"): linear.qlinear_matmul,
    ("", "ConvInteger"): linear.conv_integer,
    ("", "MatMulInteger"): linear.matmul_integer,
    (MICROSOFT, "QuantizeLinear"): floats.quantize_linear,
    (MICROSOFT, "DequantizeLinear"): floats.dequantize_linear,
    (MICROSOFT, "QLinearConv"): linear.qlinear_conv,
    (MICROSOFT, "QGemm"): linear.qgemm,
    (MICROSOFT, "MatMulIntegerToFloat"): linear.matmul_integer_to_float,
    (MICROSOFT, "DynamicQuantizeMatMul"): linear.dynamic_quantize_matmul,
    (MICROSOFT, "QLinearAdd"): pointwise.qlinear_add,
    (MICROSOFT, "QLinearMul"): pointwise.qlinear_mul,
    (MICROSOFT, "QLinearSigmoid"): pointwise.qlinear_sigmoid,
    (MICROSOFT, "QLinearLeakyRelu"): pointwise.qlinear_leaky_relu,
    (MICROSOFT, "QLinearSoftmax"): pointwise.qlinear_softmax,
    (MICROSOFT, "QLinearConcat"): pointwise.qlinear_concat,
    (MICROSOFT, "QLinearWhere"): pointwise.qlinear_where,
    (MICROSOFT, "QLinearAveragePool"): pooling.qlinear_average_pool,
    (MICROSOFT, "QLinearGlobalAveragePool"): pooling.qlinear_global_average_pool,
    (MICROSOFT, "QLinearReduceMean"): pooling.qlinear_reduce_mean,
}


def evaluate(
    domain: str,
    name: str,
    inputs: Sequence[Array | None],
    attributes: Mapping[str, Any],
    arithmetic: Arithmetic | None = None,
) -> Arrays | None:
    """The outputs of one call, in their storage types."""
    function = OPERATORS.get((domain, name))
    if function is None:
        return None
    try:
        return function(Call(name, inputs, attributes, arithmetic or Arithmetic()))
    except QuantError:
        raise
    except ValueError as problem:  # numpy: shapes that do not fit each other, or an axis
        raise QuantError(f"{name}: {problem}") from problem
