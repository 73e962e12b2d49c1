"""Other opsets: one of each class, that is of opsets at which all operators have one version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import onnx
from onnx import helper

from rewrite.audit.instances.draft import Draft, array_of, dtype_of, tensor
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation
from rewrite.ops import legacy, schemas


@variation("opset")
def other(draft: Draft, hints: Hints) -> Iterator[Change]:
    """The newest opset of each class in the rule's range, and one outside on either side."""
    now = opset_of(draft)
    low, high = hints.opset
    for opset in classes(draft, low, high):
        if opset != now:
            yield Change(f"opset {opset}", partial(move, opset=opset))


def opset_of(draft: Draft) -> int:
    return next((e.version for e in draft.model.opset_import if e.domain in ("", "ai.onnx")), 0)


def classes(draft: Draft, low: int, high: int) -> list[int]:
    """The newest opset of each class of the range."""
    names = {n.op_type for n in draft.nodes if n.domain in ("", "ai.onnx")}
    starts = {s.since for name in names for s in schemas.versions("", name)}
    ends = {s - 1 for s in starts if low < s <= high}
    return sorted({*ends, high})


def move(draft: Draft, opset: int) -> bool:
    """The model at another opset; operands that were attributes take the form of that opset."""
    now = opset_of(draft)
    for node in draft.nodes:
        if node.domain not in ("", "ai.onnx"):
            continue
        if schemas.lookup("", node.op_type, opset) is None:
            return False
        before = legacy.operands_of("", node.op_type, now)
        after = legacy.operands_of("", node.op_type, opset)
        for index in sorted({*before, *after}):
            if index in before and index not in after and not _to_operand(draft, node, index, now):
                return False
            if (
                index in after
                and index not in before
                and not _to_attribute(draft, node, index, opset)
            ):
                return False
    for entry in draft.model.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = opset
    return True


def _to_operand(draft: Draft, node: onnx.NodeProto, index: int, now: int) -> bool:
    """The attribute becomes an operand."""
    operand = legacy.operands_of("", node.op_type, now)[index]
    found = next((a for a in node.attribute if a.name == operand.attribute), None)
    if found is None:
        return True
    value = helper.get_attribute_value(found)
    value = tuple(value) if not isinstance(value, (int, float)) else value
    dtype = _input_dtype(draft, node)
    array = legacy.legacy_operand("", node.op_type, now, index, value, dtype)
    if array is None:
        return False
    name = draft.fresh(operand.name)
    draft.graph.initializer.append(tensor(name, array))
    while len(node.input) <= index:
        node.input.append("")
    node.input[index] = name
    node.attribute.remove(found)
    return True


def _to_attribute(draft: Draft, node: onnx.NodeProto, index: int, opset: int) -> bool:
    """The constant operand becomes an attribute."""
    if index >= len(node.input) or not node.input[index]:
        return True
    constant = draft.constant(node.input[index])
    if constant is None:
        return False
    operand = legacy.operands_of("", node.op_type, opset)[index]
    array = array_of(constant)
    values = array.reshape(-1).tolist()
    if operand.form in ("int", "float", "element"):
        if len(values) != 1:
            return False
        made = helper.make_attribute(
            operand.attribute, int(values[0]) if operand.form == "int" else float(values[0])
        )
    elif not values:
        return False
    else:
        made = helper.make_attribute(operand.attribute, values)
    node.attribute.append(made)
    node.input[index] = ""
    while node.input and not node.input[-1]:
        node.input.pop()
    return True


def _input_dtype(draft: Draft, node: onnx.NodeProto) -> str | None:
    """The element type of the first operand, where the model says it."""
    name = node.input[0]
    given = draft.input(name) or draft.constant(name)
    return "f32" if given is None else dtype_of(given)
