"""Kinds of values in expressions: what takes what, and how kinds are called.

In: the kinds of the vocabulary. Out: `Info`, what is known of an expression before any match.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rewrite.lang.vocabulary import FunctionSignature, Kind, Parameter

Absence = Literal["optional", "branch", "none"]

# What each kind of parameter takes. `value`: anything with a shape; a number is a tensor of rank 0.
ACCEPTED: Mapping[Kind, frozenset[Kind]] = {
    "tensor": frozenset(("tensor", "number", "dim", "list", "bool", "any")),
    "number": frozenset(("number", "dim", "tensor", "bool", "any")),
    "dim": frozenset(("number", "dim", "tensor", "any")),
    "list": frozenset(("list", "tensor", "any")),
    "value": frozenset(("value", "tensor", "number", "dim", "list", "bool", "any")),
    "dtype": frozenset(("dtype", "any")),
    "string": frozenset(("string", "any")),
    "bool": frozenset(("bool", "tensor", "any")),
    "any": frozenset(
        ("tensor", "number", "bool", "string", "list", "dtype", "dim", "value", "any")
    ),
}
# A number is taken for a list of one where a function wants a list.
TAKEN: Mapping[Kind, frozenset[Kind]] = {**ACCEPTED, "list": ACCEPTED["list"] | {"number", "dim"}}
WORDS: Mapping[Kind, str] = {
    "tensor": "a constant", "number": "a number", "bool": "a condition", "string": "a string",
    "list": "a list", "dtype": "an element type", "dim": "a size", "value": "a value",
    "operator": "an operator", "any": "anything",
}  # fmt: skip
NUMERIC = frozenset[Kind](("tensor", "number", "dim", "list", "bool", "any"))
MAKES_NODES = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div"}
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")


@dataclass(frozen=True, slots=True)
class Info:
    """What an expression is. `absent`: why it may be absent; `element`: of a list, if known."""

    kind: Kind
    absent: Absence | None = None
    element: Info | None = None


ANY, NUMBER, BOOL, VALUE, TENSOR = (
    Info("any"), Info("number"), Info("bool"), Info("value"), Info("tensor"),
)  # fmt: skip


def join(left: Info, right: Info) -> Info:
    """What one of two expressions is, or an operation on both gives."""
    absent = left.absent or right.absent
    if left.absent == "none":
        return replace(right, absent=absent)
    if right.absent == "none":
        return replace(left, absent=absent)
    if left.kind == right.kind:
        return Info(left.kind, absent, left.element if left.element == right.element else None)
    kinds = {left.kind, right.kind}
    for kind in ("any", "value", "tensor", "list"):
        if kind in kinds and kinds <= ACCEPTED["value"]:
            return Info(kind, absent)
    return Info("number" if kinds <= {"number", "dim", "bool"} else "any", absent)


def positional(parameters: tuple[Parameter, ...], i: int) -> Parameter | None:
    """The parameter of the argument at place `i`; those behind a variadic one go by name only."""
    for parameter in parameters[: i + 1]:
        if parameter.variadic:
            return parameter
    return parameters[i] if i < len(parameters) else None


def counts(parameters: tuple[Parameter, ...]) -> str:
    least = sum(not (p.optional or p.variadic) for p in parameters)
    if any(p.variadic for p in parameters):
        return f"{least} or more arguments"
    most = len(parameters)
    plural = "" if most == 1 else "s"
    return f"{most} argument{plural}" if least == most else f"{least} to {most} arguments"


def usage(signature: FunctionSignature) -> str:
    words = [
        f"*{p.name}" if p.variadic else f"{p.name}?" if p.optional else p.name
        for p in signature.parameters
    ]
    return f"it is `{signature.name}({', '.join(words)})`"
