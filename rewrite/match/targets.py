"""What expressions may ask a target: `target.has(ms.Gelu)`, `target.fuses(y)`, `target.opset`.

In: the `Target` and the matched nodes, both from the environment. Out: plain values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.lang.vocabulary import FunctionSignature, Kind, Parameter
from rewrite.match.builtins.registry import to_dtype, to_int, to_number
from rewrite.match.calls import refusal
from rewrite.match.values import Env, Unknown, is_graph_value
from rewrite.target.target import Arithmetic, Fixed, Operator, Target


@dataclass(frozen=True, slots=True)
class Method:
    signature: FunctionSignature
    call: Callable[[Env, tuple[object, ...]], object]


def _target(env: Env) -> Target:
    if env.target is None:
        raise Unknown("no target is given")
    return env.target


def _has(env: Env, arguments: tuple[object, ...]) -> bool:
    operator, *rest = arguments
    if not isinstance(operator, tuple):
        raise Unknown("target.has takes the name of an operator")
    dtype = to_dtype(env, rest[0]) if rest else None
    return _target(env).has(str(operator[0]), str(operator[1]), dtype)


def _fuses(env: Env, arguments: tuple[object, ...]) -> bool:
    del arguments  # the value names the group for the reader; the group is what was matched
    operators = [(n.domain, n.op_type) for n in in_order(env.nodes)]
    return _target(env).fuses(operators)


def in_order(nodes: tuple[ir.Node, ...]) -> tuple[ir.Node, ...]:
    """Producers before consumers; otherwise as given."""
    inside = set(nodes)
    done: dict[ir.Node, None] = {}
    for node in nodes:
        stack = [node]
        while stack:
            top = stack[-1]
            above = [value.producer() for value in top.inputs if value is not None]
            waiting = [p for p in above if p in inside and p not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done[stack.pop()] = None
    return tuple(done)


def _requantizes(env: Env, arguments: tuple[object, ...]) -> bool:
    del arguments
    return _target(env).requantize is not None


def _contracts(env: Env, arguments: tuple[object, ...]) -> bool:
    return _arithmetic(env, arguments) is not None


def _arithmetic(env: Env, arguments: tuple[object, ...]) -> Arithmetic | None:
    activation, weight = (to_dtype(env, a) for a in arguments[:2])
    return _target(env).dtypes_of(activation, weight)


def _zero_weights(env: Env, arguments: tuple[object, ...]) -> bool:
    row = _arithmetic(env, arguments)
    return row is not None and row.weight_zero_point == "zero"


def _zero_data(env: Env, arguments: tuple[object, ...]) -> bool:
    row = _arithmetic(env, arguments)
    return row is not None and row.activation_zero_point == "zero"


def _saturates(env: Env, arguments: tuple[object, ...]) -> bool:
    row = _arithmetic(env, arguments)
    return row is not None and row.intermediate is not None and row.intermediate.saturates


def _scales_per(env: Env, arguments: tuple[object, ...]) -> bool:
    operator, granularity = arguments
    return _target(env).takes_scales(_operator(operator), str(granularity))


def _weight_sum(env: Env, arguments: tuple[object, ...]) -> float:
    limits = _target(env).limits.get(_operator(arguments[0]))
    return math.inf if limits is None or limits.weight_sum is None else limits.weight_sum


def _same_qparams(env: Env, arguments: tuple[object, ...]) -> bool:
    operator, *rest = arguments
    position = to_int(env, rest[0]) if rest else None
    return _target(env).same_qparams(_operator(operator), position)


def _fixed(env: Env, arguments: tuple[object, ...]) -> Fixed | None:
    operator, dtype = arguments
    return _target(env).fixed_qparams(_operator(operator), to_dtype(env, dtype))


def _fixes(env: Env, arguments: tuple[object, ...]) -> bool:
    return _fixed(env, arguments) is not None


def _parameter(name: str) -> Callable[[Env, tuple[object, ...]], object]:
    def call(env: Env, arguments: tuple[object, ...]) -> object:
        fixed = _fixed(env, arguments)
        if fixed is None:
            raise Unknown("the target fixes no parameters of this operator")
        number: object = getattr(fixed, name)
        return number

    return call


def _lut(env: Env, arguments: tuple[object, ...]) -> bool:
    return _target(env).table(to_int(env, arguments[0])) is not None


def _lut_entries(env: Env, arguments: tuple[object, ...]) -> int:
    table = _target(env).table(to_int(env, arguments[0]))
    return 0 if table is None else table.entries


def _fuses_activation(env: Env, arguments: tuple[object, ...]) -> bool:
    operator, *rest = arguments
    if len(rest) == 1:
        raise Unknown("target.fuses_activation takes both bounds or none")
    bounds = (float(to_number(env, rest[0])), float(to_number(env, rest[1]))) if rest else None
    return _target(env).fuses_activation(_operator(operator), bounds)


def _takes(env: Env, arguments: tuple[object, ...]) -> bool:
    value, *rest = arguments
    node = value.producer() if is_graph_value(value) else None
    if node is None:
        raise Unknown("target.takes asks about the operator that made a value; nothing made this")
    dtype = to_dtype(env, rest[0]) if rest else None
    return refusal(_target(env), node, env.facts, dtype) is None


def _mode(target: Target) -> str:
    return "none" if target.requantize is None else target.requantize.mode


def _same_scale(target: Target) -> bool:
    fusion = target.activation_fusion
    return fusion is not None and fusion.same_scale_required


def _operator(argument: object) -> Operator:
    if not isinstance(argument, tuple):
        raise Unknown("an operator is asked for")
    return (str(argument[0]), str(argument[1]))


_OPERATOR = Parameter("operator", "operator")
_DTYPE = Parameter("dtype", "dtype", optional=True)
_CODES = Parameter("dtype", "dtype")
_VALUE = Parameter("value", "value")
_PAIR = (Parameter("activation", "dtype"), Parameter("weight", "dtype"))
_BITS = (Parameter("bits", "number"),)


def _method(
    name: str,
    parameters: tuple[Parameter, ...],
    doc: str,
    call: Callable[[Env, tuple[object, ...]], object],
    result: Kind = "bool",
) -> tuple[str, Method]:
    return name, Method(FunctionSignature(name, parameters, result, doc), call)


METHODS: Mapping[str, Method] = dict(
    [
        _method(
            "has",
            (_OPERATOR, _DTYPE),
            "Whether the target has the operator, on the type.",
            _has,
        ),
        _method(
            "fuses",
            (_VALUE,),
            "Whether the matched nodes would be one kernel of the target.",
            _fuses,
        ),
        _method(
            "takes",
            (_VALUE, _DTYPE),
            "Whether the operator that made the value is within the target's limits; the type, if "
            "given, stands in for that of its first operand.",
            _takes,
        ),
        _method(
            "requantizes",
            (),
            "Whether the target has a way to turn accumulators into codes.",
            _requantizes,
        ),
        _method("contracts", _PAIR, "Whether the target contracts these types.", _contracts),
        _method(
            "zero_weights",
            _PAIR,
            "Whether weights must have the zero point 0 in contractions of these types.",
            _zero_weights,
        ),
        _method(
            "zero_data",
            _PAIR,
            "Whether data must have the zero point 0 in contractions of these types.",
            _zero_data,
        ),
        _method(
            "saturates",
            _PAIR,
            "Whether the fastest contraction of these types saturates on the way to the sum.",
            _saturates,
        ),
        _method(
            "scales_per",
            (_OPERATOR, Parameter("granularity", "string")),
            'Whether weights of the operator may have a scale per "tensor", "channel" or "block".',
            _scales_per,
        ),
        _method(
            "weight_sum",
            (_OPERATOR,),
            "The most that magnitudes of the weights of one output may sum up to.",
            _weight_sum,
            "number",
        ),
        _method(
            "same_qparams",
            (_OPERATOR, Parameter("position", "number", optional=True)),
            "Whether the operand at the position, or any, must have the output's scale and zero "
            "point.",
            _same_qparams,
        ),
        _method(
            "fixes_qparams",
            (_OPERATOR, _CODES),
            "Whether the output of the operator must have one scale and zero point as this type.",
            _fixes,
        ),
        _method(
            "fixed_scale",
            (_OPERATOR, _CODES),
            "The scale that the output must have.",
            _parameter("scale"),
            "number",
        ),
        _method(
            "fixed_zp",
            (_OPERATOR, _CODES),
            "The zero point that the output must have.",
            _parameter("zp"),
            "number",
        ),
        _method("lut", _BITS, "Whether the target has tables for codes of so many bits.", _lut),
        _method(
            "lut_entries",
            _BITS,
            "Entries of the table for codes of so many bits; 0 where there is none.",
            _lut_entries,
            "number",
        ),
        _method(
            "fuses_activation",
            (
                _OPERATOR,
                Parameter("low", "number", optional=True),
                Parameter("high", "number", optional=True),
            ),
            "Whether the function, a Clip with these bounds, becomes part of what it follows.",
            _fuses_activation,
        ),
    ]
)

FIELDS: Mapping[str, Callable[[Env], object]] = {
    "name": lambda env: _target(env).name,
    "opset": lambda env: _target(env).opset[1],
    "groups": lambda env: _target(env).groups,
    "requantize": lambda env: _mode(_target(env)),
    "fused_same_scale": lambda env: _same_scale(_target(env)),
    "single_partition": lambda env: _target(env).partition == "single",
}

FIELD_KINDS: Mapping[str, Kind] = {
    "name": "string",
    "opset": "number",
    "groups": "bool",
    "requantize": "string",
    "fused_same_scale": "bool",
    "single_partition": "bool",
}
