"""The operators that the tool knows: declarations found by scanning this folder.

In: decorated functions in the family modules (`elementwise.py`, `movement.py`, ...). Out: `find`.
A new operator is one declaration in a family module; nothing else lists it.

    @op("Transpose", kind="movement")
    def transpose(call: Call) -> Types: ...         the types of the outputs

    @value("Transpose")
    def transpose_value(e: Evaluation) -> Arrays: ...  the values of the outputs

Elementwise operators are one scalar body from which both follow: see `rewrite/ops/scalar.py`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from rewrite.ops.call import Arrays, Call, Evaluation, Types

Infer = Callable[[Call], Types]
Evaluate = Callable[[Evaluation], Arrays | None]
Key = tuple[str, str]  # domain, name

Kind = Literal[
    "elementwise", "reduction", "contraction", "convolution", "pooling", "normalization",
    "movement", "indexing", "resize", "generate", "quantize", "attention", "recurrent",
    "random", "signal", "loss", "text", "other",
]  # fmt: skip

# How the first output's shape follows from the operands': that of the first operand, or all
# operands broadcast against each other. It lets a shape of unknown rank be followed by name.
ShapeClass = Literal["first", "broadcast"]

EXACT: Literal["exact"] = "exact"


@dataclass(frozen=True, slots=True)
class OpDef:
    """One operator. `evaluation`: "exact" where every conforming runtime gives the bits that
    `evaluate` gives, else the relative error by which it may differ; `exact_integers`: integers
    are exact even so (`evaluation_of` takes both into account)."""

    domain: str
    name: str
    kind: Kind
    commutative: bool
    pointwise: bool
    shape_class: ShapeClass | None
    infer: Infer
    evaluate: Evaluate | None
    evaluation: Literal["exact"] | float | None
    exact_integers: bool
    body: object | None  # the scalar body, or the parts of a reduction
    doc: str

    def evaluation_of(self, dtype: str | None) -> Literal["exact"] | float | None:
        """The same for outputs of one element type."""
        integer = dtype is not None and (dtype[0] in "su" and dtype != "string")
        return EXACT if self.exact_integers and integer else self.evaluation


@dataclass(frozen=True, slots=True)
class _Declared:
    kind: Kind
    commutative: bool
    pointwise: bool
    shape_class: ShapeClass | None
    infer: Infer
    body: object | None
    doc: str


@dataclass(frozen=True, slots=True)
class _Valued:
    evaluate: Evaluate
    evaluation: Literal["exact"] | float
    exact_integers: bool


_DECLARED: dict[Key, _Declared] = {}
_VALUED: dict[Key, _Valued] = {}

F = TypeVar("F", bound=Callable[..., Any])


def op(
    *names: str,
    kind: Kind,
    domain: str = "",
    commutative: bool = False,
    pointwise: bool = False,
    shape_class: ShapeClass | None = None,
    body: object | None = None,
) -> Callable[[F], F]:
    """Declares operators by the function that infers the types of their outputs."""

    def declare(function: F) -> F:
        for name in names:
            doc = function.__doc__ or ""
            declare_infer(
                (domain, name),
                _Declared(kind, commutative, pointwise, shape_class, function, body, doc),
            )
        return function

    return declare


def value(
    *names: str,
    domain: str = "",
    error: Literal["exact"] | float = EXACT,
    exact_integers: bool = False,
) -> Callable[[F], F]:
    """Declares the function that computes the outputs of operators from arrays.

    The function gives None where the standard leaves the values open.
    """

    def declare(function: F) -> F:
        for name in names:
            declare_value((domain, name), function, error, exact_integers)
        return function

    return declare


def declare_scalar(
    key: Key,
    infer: Infer,
    body: Callable[..., Any],
    commutative: bool,
    shape_class: ShapeClass,
) -> None:
    """Declares an elementwise operator; rewrite/ops/scalar.py calls this."""
    doc = body.__doc__ or ""
    declare_infer(key, _Declared("elementwise", commutative, True, shape_class, infer, body, doc))


def declare_infer(key: Key, declared: _Declared) -> None:
    if key in _DECLARED:
        raise ValueError(f"{key} is declared twice")
    _DECLARED[key] = declared


def declare_value(
    key: Key, evaluate: Evaluate, error: Literal["exact"] | float, exact_integers: bool = False
) -> None:
    if key in _VALUED:
        raise ValueError(f"{key} has two values")
    _VALUED[key] = _Valued(evaluate, error, exact_integers)


def find(domain: str, name: str) -> OpDef | None:
    """The declaration of an operator; None where there is none."""
    return operators().get(("" if domain == "ai.onnx" else domain, name))


@cache
def operators() -> Mapping[Key, OpDef]:
    """Every declared operator, in order of domain and name. Imports the family modules."""
    package = importlib.import_module("rewrite.ops")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            importlib.import_module(f"rewrite.ops.{module.name}")
    missing = sorted(set(_VALUED) - set(_DECLARED))
    if missing:
        raise ValueError(f"values without a declaration: {missing}")
    return MappingProxyType({key: _definition(key) for key in sorted(_DECLARED)})


def _definition(key: Key) -> OpDef:
    declared, valued = _DECLARED[key], _VALUED.get(key)
    return OpDef(
        domain=key[0],
        name=key[1],
        kind=declared.kind,
        commutative=declared.commutative,
        pointwise=declared.pointwise,
        shape_class=declared.shape_class,
        infer=declared.infer,
        evaluate=valued.evaluate if valued else None,
        evaluation=valued.evaluation if valued else None,
        exact_integers=valued.exact_integers if valued else False,
        body=declared.body,
        doc=declared.doc,
    )


def commutative() -> frozenset[Key]:
    """Operators whose first two operands may be exchanged (all of them, where variadic)."""
    return frozenset(key for key, definition in operators().items() if definition.commutative)


def pointwise() -> frozenset[Key]:
    """Operators that compute each output element from the elements at the same place."""
    return frozenset(key for key, definition in operators().items() if definition.pointwise)
