"""What rule text may name: operators, functions, classes, phases. Filled by later layers.

In: nothing. Out: `Vocabulary`, the one argument through which `check` and `pack` learn about ONNX
and about the functions that `match` offers, so that this layer imports neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rewrite.schema import OpSchema

# What an argument or a result is, coarsely.
#   value    a graph value: only its shape, dtype, rank, constness and uses are known
#   tensor   a known constant: a value matched with `const`, or computed from such
#   operator the name of an operator (`ms.Gelu`), only as an argument of a target's method
#   any      anything; as a result: not known before the match
Kind = Literal[
    "tensor", "number", "bool", "string", "list", "dtype", "dim", "value", "operator", "any"
]

PHASE_DOCS: Mapping[str, str] = {
    "clean": "removes and canonicalizes",
    "fold": "moves constants into weights",
    "fuse": "makes one operator of several",
    "quantize": "changes how numbers are stored",
    "lower": "makes operators of the target",
    "group": "makes functions of what is one kernel",
}
PHASES = tuple(PHASE_DOCS)

# What a rule may claim, one of each kind.
CLAIMS = ("exact", "lsb(1)", "equal(rtol=1e-5)", "approx(atol=1e-6)", "certified(p)")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. A variadic one takes any number of arguments; those behind it need a name.

    `optional`: it may be left out. `nullable`: it takes an operand that may be absent.
    """

    name: str
    kind: Kind
    optional: bool = False
    variadic: bool = False
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A function of the closed set, or a method of `target`. `doc` is one sentence.

    `makes`: it makes nodes, in `emit` only; its arguments may be nodes.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Kind
    doc: str
    makes: bool = False


@dataclass(frozen=True)
class Vocabulary:
    """Everything that rule text may refer to and that is not defined in rule text."""

    schemas: Callable[[str, str], tuple[OpSchema, ...]]  # (domain, name) -> ascending `since`
    domains: Mapping[str, str]  # prefix -> domain
    commutative: frozenset[tuple[str, str]]  # (domain, name)
    classes: Mapping[str, frozenset[tuple[str, str]]]  # "pointwise" -> (domain, name)s
    functions: Mapping[str, FunctionSignature]
    target_methods: Mapping[str, FunctionSignature]
    target_fields: Mapping[str, Kind] = field(default_factory=dict)  # `target.opset`
    value_fields: Mapping[str, Kind] = field(default_factory=dict)  # `x.scale`
    phases: tuple[str, ...] = PHASES
    newest_opset: int = 26
    operators: Callable[[], tuple[str, ...]] = tuple  # all as they are written: `Conv`, `ms.Gelu`
