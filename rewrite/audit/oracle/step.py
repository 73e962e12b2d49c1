"""One node whose value is wanted: its operands, attributes, and where to note what went wrong.

In: values of operands in newest form. Out: `Step`, which operators of the oracle are written on.
A value is a numpy array (integers, booleans, strings; floats that are constants or computed in the
model's own precision) or a `Real`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewrite.audit.oracle.real import Doubts, Real, lift
from rewrite.ops.call import Attributes
from rewrite.quant.codes import Array

Value = Array | Real
Values = tuple[Value | None, ...]


class OracleError(Exception):
    """The model, or this run of it, has no defined exact value; the message says why."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that runtimes need not agree on happened in a node."""

    node: str
    what: str
    count: int


@dataclass(slots=True)
class Notes:
    """What a run found out besides the values."""

    doubts: Doubts = field(default_factory=Doubts)
    faults: list[Fault] = field(default_factory=list)
    # Where somebody asks for them: by the output of a quantization, its numbers in steps.
    steps: dict[str, Array] | None = None


class Step(Attributes):
    """One node and the values of its operands."""

    __slots__ = ("domain", "inputs", "key", "n_outputs", "name", "notes", "op")

    def __init__(
        self,
        domain: str,
        op: str,
        opset: int,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
        n_outputs: int,
        name: str,
        notes: Notes,
        key: str = "",
    ) -> None:
        self.domain = domain
        self.op = op
        self.opset = opset
        self.inputs = inputs
        self.attributes = attributes
        self.n_outputs = n_outputs
        self.name = name
        self.notes = notes
        self.key = key  # its first output

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise OracleError(f"operand {index} is missing")
        return found

    def real(self, index: int) -> Real:
        return lift(self.value(index))

    def array(self, index: int) -> Array:
        """An operand that has to be plain numbers: codes, shapes, scales.

        Real numbers are, where they were only moved: a scale behind Identity, Reshape or Cast.
        """
        found = self.value(index)
        if not isinstance(found, Real):
            return found
        plain = found.plain
        if plain is None:
            raise OracleError(f"operand {index} is computed in real numbers")
        return plain

    def optional(self, index: int) -> Array | None:
        return self.array(index) if self.has(index) else None

    def fault(self, what: str, count: int) -> None:
        if count:
            self.notes.faults.append(Fault(self.name, what, count))

    def replaced(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> Step:
        """Another node in the place of this one."""
        return Step("", op, self.opset, inputs, attributes, 1, self.name, self.notes, self.key)


Operator = Callable[[Step], Values | None]
OPERATORS: dict[tuple[str, str], Operator] = {}


def operator(*names: str, domain: str = "") -> Callable[[Operator], Operator]:
    """Register an operator's exact value."""

    def register(function: Operator) -> Operator:
        for name in names:
            OPERATORS[(domain, name)] = function
        return function

    return register
