"""Errors of codes on their way through a graph.

In: facts of a model, where errors begin (`Source`). Out: the `Reach` of every value that they get
to.

A product multiplies an error by the largest sum of magnitudes of a channel's weights and by the
ratio of scales; each rounding makes integers of it, which is one step more; a table by how much
its entries differ; a clamp keeps it in its range. Nothing bounds what lies behind an operator whose
gain is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from rewrite.engine.quantized import contraction
from rewrite.engine.quantized_codes import code_range
from rewrite.engine.quantized_errors import Operands, errors_of
from rewrite.engine.quantized_faults import rows_of
from rewrite.engine.quantized_reach import Reach, lost, of_array, rounded
from rewrite.graph.facts import Facts
from rewrite.graph.names import holds_graph
from rewrite.match.structure import operator_words
from rewrite.quant.codes import Array, Floats

_MOVED = 4097  # by so many of its last place a multiplier may be another than the nearest one
_SUMS = ("QConv", "QMatMul", "QConvTranspose", "QAveragePool")


@dataclass(frozen=True, slots=True)
class Source:
    """An error that begins at a value, in its own units; or why nothing bounds it."""

    error: float = 0.0
    reason: str = ""

    def with_(self, other: Source) -> Source:
        return Source(self.error + other.error, self.reason or other.reason)


class Walk:
    """Errors of values; those that are not here have none.

    `groups`: calls by the name of their output that rules made in this run.
    """

    def __init__(
        self, facts: Facts, sources: Mapping[ir.Value, Source], groups: frozenset[str] = frozenset()
    ) -> None:
        self.facts = facts
        self.sources = sources
        self.groups = groups
        self.errors: dict[ir.Value, Reach] = {}

    def run(self, nodes: Iterable[ir.Node]) -> None:
        """`nodes`: operands first."""
        for node in nodes:
            for value, reach in zip(node.outputs, self._results(node), strict=True):
                if reach is not None and reach.error:
                    self.errors[value] = reach
                self.begin(value)

    def begin(self, value: ir.Value) -> None:
        """Errors that begin at the value are added to those that it has."""
        source = self.sources.get(value)
        if source is None:
            return
        before = self.errors.get(value) or self.exact(value)
        reason = before.reason or source.reason
        self.errors[value] = lost(reason) if reason else before.off(before.error + source.error)

    # --- values --------------------------------------------------------------------------------

    def exact(self, value: ir.Value) -> Reach:
        """A value without error."""
        if self.facts.constant(value) is not None:
            array = self.facts.array(value)
            return Reach() if array is None else of_array(array)
        found = code_range(self.facts, value)
        if found is not None:
            return Reach(float(found[0]), float(found[1]), integer=True)
        node = value.producer()
        if node is not None and node.op_type == "DequantizeLinear":
            made = errors_of(self._operands(node))
            return Reach() if made is None else made
        return Reach()

    def reach(self, value: ir.Value | None) -> Reach:
        if value is None:
            return Reach()
        return self.errors.get(value) or self.exact(value)

    def _operands(self, node: ir.Node) -> Operands:
        values = self.facts.operands(node)
        return Operands(
            self.facts,
            node,
            values,
            tuple(self.reach(v) for v in values),
            lambda v: None if v is None else self.facts.array(v),
            lambda v: None if v is None else self.facts.type(v).dtype,
        )

    # --- nodes ---------------------------------------------------------------------------------

    def _results(self, node: ir.Node) -> list[Reach | None]:
        nothing: list[Reach | None] = [None] * len(node.outputs)
        if holds_graph(node) and self.errors:
            reason = f"{operator_words((node.domain, node.op_type))} holds a graph"
            return [lost(reason) for _ in node.outputs]
        if not any(v in self.errors for v in node.inputs if v is not None):
            return nothing
        why = next((r.reason for r in self._read(node) if r.reason), "")
        if why:
            return [lost(why) for _ in node.outputs]
        function = self.facts.model.functions.get(node.op_identifier())
        if function is None:
            found = errors_of(self._operands(node))
        else:
            found = _Group(self, node, function).result()
        if found is None or (not math.isfinite(found.error) and not found.reason):
            words = operator_words((node.domain, node.op_type))
            found = lost(f"errors behind {words} ('{node.outputs[0].name}') are not known")
        return [self._capped(value, found) for value in node.outputs]

    def _read(self, node: ir.Node) -> Iterable[Reach]:
        return (self.errors[v] for v in node.inputs if v is not None and v in self.errors)

    def _capped(self, value: ir.Value, reach: Reach) -> Reach:
        """Two codes are at most the range of codes apart."""
        known = code_range(self.facts, value)
        if known is None or reach.reason:
            return reach
        low, high = float(known[0]), float(known[1])
        return replace(reach, low=low, high=high, integer=True).off(reach.error)


class _Group:
    """A call of a local function: errors through its body, or its stated multiplier."""

    def __init__(self, walk: Walk, node: ir.Node, function: ir.Function) -> None:
        self.walk, self.facts = walk, walk.facts
        self.node, self.function = node, function
        self.outer = dict(zip(function.inputs, node.inputs, strict=False))
        self.inside: dict[ir.Value, Reach] = {}

    def result(self) -> Reach | None:
        if len(self.function.outputs) != 1:
            return None
        return self._by_multiplier() or self._by_body()

    def _by_body(self) -> Reach | None:
        for node in self.function:
            values = self.facts.operands(node)
            given = tuple(self._reach(v) for v in values)
            if node.op_type == "Constant" or not any(reach.error for reach in given):
                continue
            found = errors_of(
                Operands(self.facts, node, values, given, self._array, lambda v: None)
            )
            if found is None:
                found = Reach(error=math.inf, integer=True)
            for value in node.outputs:
                self.inside[value] = found
        return self.inside.get(self.function.outputs[0])

    def _reach(self, value: ir.Value | None) -> Reach:
        if value is None:
            return Reach()
        if value in self.outer:
            return self.walk.reach(self.outer[value])
        found = self.inside.get(value)
        if found is not None:
            return found
        array = self.facts.array(value)
        return Reach(integer=True) if array is None else of_array(array)

    def _array(self, value: ir.Value | None) -> Array | None:
        value = value if value is None else self.outer.get(value, value)
        return None if value is None else self.facts.array(value)

    def _by_multiplier(self) -> Reach | None:
        """Sums with constant weights, requantized: the codes are those of the exact ratio but for
        what the application's own certificate says, which is counted where it was applied."""
        made = self.node.outputs[0].name in self.walk.groups
        if not made or not self.node.op_type.startswith(_SUMS):
            return None
        ratio, sums = _ratios(self.node), self._sums()
        codes = self.node.inputs[0]
        if ratio is None or sums is None or codes is None or ratio.size not in (1, len(sums)):
            return None
        if any(self.walk.reach(v).error for v in self.node.inputs[1:]):
            return None
        ends = code_range(self.facts, self.node.outputs[0])
        if ends is None:
            return None
        error = float((sums * ratio).max()) * self.walk.reach(codes).error
        return Reach(float(ends[0]), float(ends[1]), integer=True).off(rounded(error))

    def _sums(self) -> Floats | None:
        """The sum of the magnitudes of each channel's weights."""
        for node in self.function:
            found = contraction(self.facts, node, self.outer)
            rows = None if found is None else rows_of(self.facts, found)
            if rows is not None:
                return np.asarray(np.abs(rows).sum(1), np.float64)
        return None


def _ratios(node: ir.Node) -> Floats | None:
    """At least the ratios of scales, by what the group states."""
    found: Mapping[str, ir.Attr] = node.attributes
    if "multiplier" not in found or "shift" not in found:
        return None
    given = (np.atleast_1d(np.asarray(found[name].value)) for name in ("multiplier", "shift"))
    multiplier, shift = given
    if multiplier.size not in (1, shift.size) and shift.size != 1:
        return None
    most = multiplier.astype(np.float64)
    if multiplier.dtype.kind == "f":
        return np.asarray(most * (1.0 + _MOVED * 2.0**-23))
    return np.asarray(np.ldexp(most + _MOVED, -shift.astype(np.int64)))
