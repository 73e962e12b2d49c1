"""Whether a target's narrow sums of products can overflow, weight by weight.

In: a rewritten model, its target. Out: one record for each product of codes by constant weights
that the target has an instruction with narrow sums for; the same as metadata of the node.

An instruction like vpmaddubsw adds `terms` neighbouring products in 16 bits. Whether that sum can
leave them depends on the weights and on the range of the activations, which the clamp of the group
before may have made smaller. K is taken in the order in which the weights lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from rewrite.engine.quantized import Contraction, contraction
from rewrite.engine.quantized_codes import Range, code_range, pads
from rewrite.engine.quantized_faults import rows_of, zero_of
from rewrite.graph.facts import Facts
from rewrite.graph.uses import nodes_of
from rewrite.match.structure import operator_words
from rewrite.ops.dtypes import integer_range
from rewrite.quant.accumulator import group_sums
from rewrite.quant.codes import Ints
from rewrite.target.target import Target

SATURATION = "rewrite.saturation"  # metadata of nodes


@dataclass(frozen=True, slots=True)
class Saturation:
    """A node by its first output; channels and groups of `terms` neighbours in K that overflow."""

    node: str
    operator: str
    instruction: str
    channels: int
    unsafe_channels: int
    unsafe_pairs: int
    activations: Range

    def __str__(self) -> str:
        if not self.unsafe_channels:
            return "safe"
        return f"{self.unsafe_channels} of {self.channels} channels"


def saturation(facts: Facts, target: Target) -> tuple[Saturation, ...]:
    """The records in graph order; each node gets its own as metadata."""
    if all(row.intermediate is None for row in target.dtypes):
        return ()
    found = []
    for node in nodes_of(facts.model.graph):
        record = _of_node(facts, target, node)
        if record is not None:
            node.metadata_props[SATURATION] = str(record)
            found.append(record)
    return tuple(found)


def _of_node(facts: Facts, target: Target, node: ir.Node) -> Saturation | None:
    product, head, grouped = _product(facts, node)
    if product is None or head is None:
        return None
    dtype, rows = facts.type(product.codes).dtype, rows_of(facts, product)
    reach = code_range(facts, product.codes)
    if dtype is None or rows is None or reach is None or (rows == 1).all():  # 1: a sum
        return None
    weight = _narrow(rows) if grouped else facts.type(product.weights).dtype
    row = None if weight is None else target.dtypes_of(dtype, weight)
    if row is None or row.intermediate is None:
        return None
    if "Conv" in head.op_type and pads(facts, head):
        zero = zero_of(facts, product.zero)
        reach = integer_range(dtype) if zero is None else (min(reach[0], zero), max(reach[1], zero))
    sums = group_sums(rows, row.intermediate.terms, *reach)
    half = 1 << (row.intermediate.bits - 1)
    unsafe = (sums.low < -half) | (sums.high >= half)
    return Saturation(
        node=str(node.outputs[0].name),
        operator=operator_words((node.domain, node.op_type)),
        instruction=row.intermediate.instruction or f"sums of {row.intermediate.bits} bits",
        channels=len(rows),
        unsafe_channels=int(unsafe.any(1).sum()),
        unsafe_pairs=int(unsafe.sum()),
        activations=reach,
    )


def _product(facts: Facts, node: ir.Node) -> tuple[Contraction | None, ir.Node | None, bool]:
    """The product that the node is, or that the body of the group has; its operator; which.

    An operator multiplies the codes of weights as they are; whoever compiles a group may take them
    less their zero points.
    """
    function = facts.model.functions.get(node.op_identifier())
    if function is None:
        product = contraction(facts, node)
        return (None if product is None else replace(product, weights_zero=None)), node, False
    outer = dict(zip(function.inputs, node.inputs, strict=False))
    for inner in function:
        product = contraction(facts, inner, outer)
        if product is not None:
            return product, inner, True
    return None, None, True


def _narrow(rows: Ints) -> str:
    """The type of weights less their zero points."""
    return "s8" if int(rows.min()) >= -128 and int(rows.max()) <= 127 else "u8"
