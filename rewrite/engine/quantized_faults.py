"""Quantizations that no rule may touch, because their parameters are bad.

In: facts of a model. Out: one record for each quantized operator with a fault, named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from rewrite.engine.quantized import OPERATORS, Contraction, contraction, is_quantized, parts
from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of
from rewrite.match.structure import operator_words
from rewrite.ops.dtypes import integer_range
from rewrite.quant import accumulator
from rewrite.quant.codes import Ints
from rewrite.quant.params import faults

_BYTES = ("u8", "s8")
_LARGE = 1 << 24  # weights; more of them are not looked at


@dataclass(frozen=True, slots=True)
class QuantizationFault:
    """A node by its first output, its operator, and what is wrong with it."""

    node: str
    operator: str
    reason: str


class Faults:
    """What is wrong with nodes of one model, kept as long as their operands stay."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.any = is_quantized(facts)
        self._known: dict[ir.Node, tuple[Sequence[ir.Value | None], tuple[str, ...]]] = {}

    def among(self, nodes: Iterable[ir.Node]) -> str | None:
        """The first fault of any of the nodes, with the name of that node."""
        if not self.any:
            return None
        for node in nodes:
            if node._op_type in OPERATORS:
                reasons = self.of(node)
                if reasons:
                    return f"'{node.outputs[0].name}' has a bad quantization: {'; '.join(reasons)}"
        return None

    def of(self, node: ir.Node) -> tuple[str, ...]:
        inputs = node.inputs
        known = self._known.get(node)
        if known is None or known[0] != inputs:
            known = self._known[node] = (inputs, _reasons(self._facts, node))
        return known[1]

    def all(self) -> tuple[QuantizationFault, ...]:
        """The nodes with faults in all graphs, in order."""
        if not self.any:
            return ()
        found = []
        for graph in self._facts.graphs():
            for node in nodes_of(graph):
                if node._op_type not in OPERATORS:
                    continue
                reasons = _reasons(self._facts, node)
                if reasons:
                    words = operator_words((node.domain, node.op_type))
                    name = str(node.outputs[0].name)
                    found.append(QuantizationFault(name, words, "; ".join(reasons)))
        return tuple(found)


def _reasons(facts: Facts, node: ir.Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_of_parameters(facts, node), *_of_bias(facts, node))))


def _of_parameters(facts: Facts, node: ir.Node) -> Iterator[str]:
    for part in parts(facts, node):
        if part.role and part.params.zero_point.size == 1:
            # Quantized operators take one zero point beside a scale for each channel.
            spread = np.broadcast_to(part.params.zero_point.reshape(()), part.params.scale.shape)
            part = replace(part, params=replace(part.params, zero_point=spread))
        for fault in faults(part.params, part.shape, even_blocks=True):
            yield f"{part.role}: {fault}" if part.role else fault


def _of_bias(facts: Facts, node: ir.Node) -> Iterator[str]:
    """A bias with which sums leave the accumulator of 32 bits."""
    found = contraction(facts, node)
    if found is None or found.bias is None or facts.type(found.bias).dtype != "s32":
        return
    bias, dtype = facts.array(found.bias), facts.type(found.codes).dtype
    if bias is None or not bias.size or dtype not in _BYTES or _is_small(facts, found, bias):
        return
    rows, zero = rows_of(facts, found), zero_of(facts, found.zero)
    if rows is None or zero is None or bias.size not in (1, len(rows)):
        return
    low, high = integer_range(dtype)
    spread = np.broadcast_to(bias.reshape(-1), (len(rows),)).astype(np.int64)
    sums = accumulator.sums(rows, low, high, zero, bias=spread)
    bad = int((~sums.never_overflows).sum())
    if bad:
        yield f"bias out of range: sums of {bad} of {len(rows)} channels do not fit 32 bits"


def _is_small(facts: Facts, found: Contraction, bias: np.ndarray) -> bool:
    """Whether no weights could make the sums leave 32 bits: products are less than 2^16."""
    weights = facts.constant(found.weights)
    largest = max(int(bias.max()), -int(bias.min()))
    return weights is not None and largest + (int(weights.size) << 16) < 1 << 31


def rows_of(facts: Facts, found: Contraction) -> Ints | None:
    """Weights less their zero points as [channels, K], K in the order in which they lie."""
    array = facts.array(found.weights)
    if array is None or array.dtype.kind not in "iu" or not 0 < array.size <= _LARGE:
        return None
    if not array.ndim:
        return None
    rows = accumulator.by_channel(array, found.axis)
    if found.weights_zero is None:
        return rows
    zeros = facts.array(found.weights_zero)
    if zeros is None or zeros.dtype.kind not in "iuf" or zeros.size not in (1, len(rows)):
        return None
    return np.asarray(rows - zeros.astype(np.int64).reshape(-1, 1))


def zero_of(facts: Facts, value: ir.Value | None) -> int | None:
    """The zero point of activations: 0 where there is none, None where it is not one integer."""
    if value is None:
        return 0
    array = facts.array(value)
    if array is None or array.size != 1 or array.dtype.kind not in "iuf":
        return None
    return int(array.reshape(-1)[0])
