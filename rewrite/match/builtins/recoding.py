"""Several values of codes brought to one scale, and back to numbers; in `emit` only.

In: lists of values. Out: lists of new values; each that has the wanted parameters stays as it is.
"""

from __future__ import annotations

import numpy as np

from rewrite.match.builtins.maker import Maker
from rewrite.match.builtins.quantized_checks import of_value
from rewrite.match.builtins.registry import Dtype, Items, builtin
from rewrite.match.values import Env, Tensor, Unknown, is_graph_value
from rewrite.quant.affine import dequantize_exact, quantize_exact
from rewrite.quant.codes import CodeType, code_type, every_code
from rewrite.quant.params import QuantParams, quant_params


@builtin
def recoded(maker: Maker, list_: Items, scale: Tensor, zero_point: Tensor, dtype: Dtype) -> Items:
    """Codes behind dequantized values as codes with another scale, by tables of all of them."""
    code = code_type(dtype)
    if code is None:
        raise Unknown("these are not codes")
    to = quant_params(code, scale.rounded("f32"), zero_point.array)
    made: list[object] = []
    for item in list_:
        found = of_value(maker.env, item)
        if found.params.axis is not None or found.params.block is not None:
            raise Unknown("the codes have more than one scale")
        if found.params == to:
            made.append(found.operand)
            continue
        source = found.params.code
        codes = np.roll(every_code(source), source.low)  # 0, 1, ..., then the negative ones
        table = quantize_exact(dequantize_exact(codes, found.params), to)
        index = maker.make("Cast", (found.operand,), {"to": "s32"})
        made.append(maker.make("Gather", (maker.fixed(np.asarray(table)), index), {"axis": 0}))
    return tuple(made)


@builtin
def recodable(env: Env, list_: Items, scale: Tensor, zero_point: Tensor) -> bool:
    """Whether all are dequantized codes with one scale, some not with this scale and zero point."""
    found = [of_value(env, item) for item in list_]
    if any(f.faults or f.params.axis is not None or f.params.block is not None for f in found):
        return False
    return any(f.params != _wanted(f.params.code, scale, zero_point) for f in found)


def _wanted(code: CodeType, scale: Tensor, zero_point: Tensor) -> QuantParams | None:
    """The parameters for codes of the type; None where the zero point is of another one."""
    if code.name != zero_point.dtype:
        return None
    return quant_params(code, scale.rounded("f32"), zero_point.array)


@builtin
def requantized(maker: Maker, list_: Items, scale: Tensor, zero_point: Tensor) -> Items:
    """Dequantized values, each of another scale or zero point quantized and dequantized again."""
    made: list[object] = []
    for item in list_:
        found = of_value(maker.env, item).params
        if found == _wanted(found.code, scale, zero_point):
            made.append(item)
            continue
        constants = maker.fixed(scale.rounded("f32")), maker.fixed(zero_point.rounded())
        codes = maker.make("QuantizeLinear", (item, *constants), {})
        made.append(maker.make("DequantizeLinear", (codes, *constants), {}))
    return tuple(made)


@builtin
def signed_codes(maker: Maker, list_: Items) -> Items:
    """The codes of u8 as codes of s8, 128 less."""
    made: list[object] = []
    for item in list_:
        wide = maker.make("Cast", (item,), {"to": "s32"})
        less = maker.make("Sub", (wide, maker.fixed(np.array(128, np.int32))), {})
        made.append(maker.make("Cast", (less,), {"to": "s8"}))
    return tuple(made)


@builtin
def dequantized(maker: Maker, triples: Items) -> Items:
    """Numbers from codes, scale and zero point of the first, of the second, ..."""
    if len(triples) % 3 or not all(is_graph_value(v) for v in triples):
        raise Unknown("three operands are needed for each value")
    made: list[object] = []
    for i in range(0, len(triples), 3):
        codes, scale, zero = triples[i : i + 3]
        constants = [_scalar(maker, v) for v in (scale, zero)]
        made.append(maker.make("DequantizeLinear", (codes, *constants), {}))
    return tuple(made)


def _scalar(maker: Maker, value: object) -> object:
    array = maker.env.facts.array(value)  # type: ignore[arg-type]
    if array is None or array.size != 1:
        raise Unknown("a scale or zero point is not one constant number")
    return maker.fixed(array.reshape(()))
