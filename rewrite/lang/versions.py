"""Operator versions within a range of opsets.

In: a `Vocabulary`, operator names, ranges. Out: the schemas in force, and where an operator can be
emitted. Only ai.onnx has opsets that a rule's range speaks of; of other domains all versions count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from rewrite.lang import ast
from rewrite.lang.vocabulary import Vocabulary
from rewrite.schema import AttributeSchema, OpSchema

Range = tuple[int, int]


@dataclass
class Operators:
    """The vocabulary's operators, with what has been asked before remembered."""

    vocabulary: Vocabulary
    _known: dict[tuple[str, str, Range], tuple[OpSchema, ...]] = field(default_factory=dict)

    def domain(self, op: ast.OpName) -> str | None:
        """The domain of a prefix; None where the prefix is not declared."""
        return self.vocabulary.domains.get(op.prefix)

    def all(self, op: ast.OpName) -> tuple[OpSchema, ...]:
        domain = self.domain(op)
        return () if domain is None else self.vocabulary.schemas(domain, op.name)

    def within(self, op: ast.OpName, opsets: Range) -> tuple[OpSchema, ...]:
        """The versions in force at some opset of the range, ascending, none deprecated."""
        key = (op.prefix, op.name, opsets)
        if key not in self._known:
            self._known[key] = _within(self.all(op), opsets)
        return self._known[key]

    def usable(
        self, op: ast.OpName, opsets: Range, fits: Callable[[OpSchema], bool]
    ) -> Range | None:
        """The opsets of the range at which a version that fits is in force.

        They are consecutive for every operator of ONNX; otherwise the newest run is taken.
        """
        versions = self.all(op)
        if self.domain(op) != "":
            return opsets if any(fits(v) for v in versions) else None
        fit = [not v.deprecated and fits(v) for v in versions]
        since = [v.since for v in versions]
        in_force = ((o, bisect_right(since, o) - 1) for o in range(opsets[0], opsets[1] + 1))
        good = [o for o, i in in_force if i >= 0 and fit[i]]
        if not good:
            return None
        low = high = good[-1]
        for opset in reversed(good):
            if opset < low - 1:
                break
            low = opset
        return (low, high)


def _within(versions: tuple[OpSchema, ...], opsets: Range) -> tuple[OpSchema, ...]:
    if versions and versions[0].domain != "":
        return tuple(v for v in versions if not v.deprecated)
    found: list[OpSchema] = []
    for i, version in enumerate(versions):
        until = versions[i + 1].since if i + 1 < len(versions) else opsets[1] + 1
        if version.since <= opsets[1] and until > opsets[0] and not version.deprecated:
            found.append(version)
    return tuple(found)


def most_inputs(schema: OpSchema) -> int | None:
    """None where the last input is variadic."""
    variadic = bool(schema.inputs) and schema.inputs[-1].option == "variadic"
    return None if variadic else len(schema.inputs)


def least_inputs(schema: OpSchema) -> int:
    """How many operands must be given."""
    required = [i for i, x in enumerate(schema.inputs) if x.option != "optional"]
    return required[-1] + 1 if required else 0


def most_outputs(schema: OpSchema) -> int | None:
    variadic = bool(schema.outputs) and schema.outputs[-1].option == "variadic"
    return None if variadic else len(schema.outputs)


def attributes(versions: tuple[OpSchema, ...]) -> dict[str, AttributeSchema]:
    """Every attribute that any of the versions has; of several the newest."""
    found: dict[str, AttributeSchema] = {}
    for version in versions:
        found |= version.attributes
    return dict(sorted(found.items()))


def takes(schema: OpSchema, count: int) -> bool:
    """Whether an operator may have this many operands, trailing ones left out."""
    most = most_inputs(schema)
    return least_inputs(schema) <= count and (most is None or count <= most)
