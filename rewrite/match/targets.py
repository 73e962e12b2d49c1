"""What expressions may ask a target: `target.has(ms.Gelu)`, `target.fuses(y)`, `target.opset`.

In: the `Target` and the matched nodes, both from the environment. Out: plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from rewrite.lang.vocabulary import FunctionSignature, Kind, Parameter
from rewrite.match.builtins.registry import to_dtype
from rewrite.match.values import Env, Unknown
from rewrite.target.target import Target


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


def _method(name: str, parameters: tuple[Parameter, ...], doc: str) -> FunctionSignature:
    return FunctionSignature(name, parameters, "bool", doc)


_OPERATOR = Parameter("operator", "operator")
_DTYPE = Parameter("dtype", "dtype", optional=True)

METHODS: Mapping[str, Method] = {
    "has": Method(
        _method("has", (_OPERATOR, _DTYPE), "Whether the target has the operator, on the type."),
        _has,
    ),
    "fuses": Method(
        _method(
            "fuses",
            (Parameter("value", "value"),),
            "Whether the matched nodes would be one kernel of the target.",
        ),
        _fuses,
    ),
}

FIELDS: Mapping[str, Callable[[Env], object]] = {
    "name": lambda env: _target(env).name,
    "opset": lambda env: _target(env).opset[1],
    "groups": lambda env: _target(env).groups,
}

FIELD_KINDS: Mapping[str, Kind] = {"name": "string", "opset": "number", "groups": "bool"}
