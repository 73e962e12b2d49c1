"""One operator with everything known about it when a plan is made.

In: an `Op` and what is known of its operands. Out: `Instance`: concrete types, values known before
the run, operands in the newest form (an operand that an old version has as an attribute is a known
value). It is what lowerings, fusion and refusals look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from rewrite.graph.tensors import ComputedTensor
from rewrite.ops import legacy
from rewrite.ops.call import Attributes
from rewrite.plan.program import Content, Op
from rewrite.schema import Type

Array = np.ndarray[Any, np.dtype[Any]]


class Instance(Attributes):
    """`inputs` and `outputs` are types, `operands` and `results` the numbers of the values.

    Sizes in types are integers. A legacy operand has a negative number of its own.
    """

    __slots__ = (
        "contents", "domain", "group", "inputs", "name", "node", "operands", "outputs", "results",
    )  # fmt: skip

    def __init__(
        self,
        op: Op,
        operands: tuple[int | None, ...],
        inputs: tuple[Type | None, ...],
        contents: tuple[Content | None, ...],
        outputs: tuple[Type, ...] = (),
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        self.domain = op.domain
        self.name = op.name
        self.opset = op.opset
        self.node = op.node
        self.group = op.group
        self.attributes = op.attributes if attributes is None else attributes
        self.operands = operands
        self.results = op.outputs
        self.inputs = inputs
        self.contents = contents
        self.outputs = outputs

    @property
    def key(self) -> tuple[str, str]:
        return self.domain, self.name

    def __repr__(self) -> str:
        """As a line of a plan: `Add(f32[2, 3], f32[3]) -> f32[2, 3]`."""
        return f"{self.name}({_types(self.inputs)}) -> {_types(self.outputs)}"

    def has(self, index: int) -> bool:
        return index < len(self.inputs) and self.inputs[index] is not None

    def type(self, index: int) -> Type:
        """The type of a present operand."""
        found = self.inputs[index]
        assert found is not None, f"{self.name} has no operand {index}"
        return found

    def dtype(self, index: int = 0) -> str:
        found = self.type(index).dtype
        assert found is not None
        return found

    def shape(self, index: int = 0) -> tuple[int, ...]:
        return sizes(self.type(index))

    def out_shape(self, index: int = 0) -> tuple[int, ...]:
        return sizes(self.outputs[index])

    def out_dtype(self, index: int = 0) -> str:
        found = self.outputs[index].dtype
        assert found is not None
        return found

    def known(self, index: int) -> Array | None:
        """The operand's value where it is known before the run."""
        found = self.content(index)
        return found.numpy() if isinstance(found, ComputedTensor) else found

    def content(self, index: int) -> Content | None:
        """The same, or how it is computed: always the same object for a value."""
        return self.contents[index] if index < len(self.contents) else None

    def is_known(self, index: int) -> bool:
        return self.content(index) is not None

    def single(self, index: int) -> Array | None:
        """The operand's value where it is known and one element; others are not computed."""
        return self.known(index) if self.is_known(index) and prod(self.shape(index)) == 1 else None

    def integers_at(self, index: int) -> tuple[int, ...] | None:
        """A known integer operand as a flat tuple."""
        found = self.known(index)
        return None if found is None else tuple(int(v) for v in found.reshape(-1).tolist())

    def wants(self, index: int) -> bool:
        """Whether somebody uses an output."""
        return index < len(self.results) and self.results[index] is not None


def sizes(type_: Type) -> tuple[int, ...]:
    """The shape of a type all of whose sizes are known."""
    assert type_.shape is not None
    assert all(isinstance(n, int) for n in type_.shape), type_
    return tuple(int(n) for n in type_.shape)


def is_concrete(type_: Type | None) -> bool:
    """A dense tensor of known element type and sizes."""
    return (
        type_ is not None
        and type_.dtype is not None
        and type_.shape is not None
        and all(isinstance(n, int) for n in type_.shape)
    )


def legacy_contents(op: Op, dtype: str | None) -> dict[int, Array]:
    """Operands that this version of the operator carries as attributes, by their index."""
    found: dict[int, Array] = {}
    for index, entry in legacy.operands_of(op.domain, op.name, op.opset).items():
        given = op.attributes.get(entry.attribute)
        value = tuple(given) if isinstance(given, (list, tuple)) else given
        array = legacy.legacy_operand(op.domain, op.name, op.opset, index, value, dtype)
        if array is not None:
            found[index] = array
    return found


def implied(op: Op) -> Mapping[str, Any]:
    """The attributes, with those that an old version means without being told."""
    missing = {
        name: value
        for (operator, name), (until, value) in legacy.IMPLIED.items()
        if op.domain == "" and operator == op.name and op.opset <= until
        and name not in op.attributes
    }  # fmt: skip
    if op.key == ("", "STFT") and "onesided" not in op.attributes:
        return {**op.attributes, "onesided": 1}  # left open in rewrite/ops
    return {**op.attributes, **missing} if missing else op.attributes


def _types(types: tuple[Type | None, ...]) -> str:
    return ", ".join(
        "-" if t is None else f"{t.dtype}{list(t.shape) if t.shape is not None else '?'}"
        for t in types
    )
