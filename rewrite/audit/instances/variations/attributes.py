"""Other attributes: values the operator may have, those that the rule names, none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from onnx import AttributeProto, helper

from rewrite.audit.instances.draft import Draft
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation
from rewrite.audit.instances.variations.opsets import opset_of
from rewrite.ops import schemas
from rewrite.schema import DTYPE_ATTRIBUTES, DTYPES, AttributeSchema

# What strings an attribute may be (onnx/defs gives them in words only).
_WORDS = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "mode": (
        "nearest", "linear", "cubic", "constant", "reflect", "edge", "wrap", "DCR", "CRD", "avg",
    ),
    "coordinate_transformation_mode": (
        "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_crop_and_resize",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "reduction": ("none", "add", "mul", "max", "min"),
    "direction": ("LEFT", "RIGHT", "forward", "reverse", "bidirectional"),
    "approximate": ("none", "tanh"),
    "padding_mode": ("zeros", "border", "reflection"),
}  # fmt: skip
_INTS = (0, 1, -1, 2, -2, 3)
_FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-3, 1e30)


@variation("attribute")
def values(draft: Draft, hints: Hints) -> Iterator[Change]:
    """An attribute has another value, also one that the node does not give."""
    for i, node in enumerate(draft.nodes):
        schema = schemas.lookup(node.domain, node.op_type, opset_of(draft))
        if schema is None or node.domain == "ai.onnx.ml":  # tables, keys and values of which fit
            continue
        given = {
            a.name: helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name
        }
        for name, known in schema.attributes.items():
            for value in _candidates(name, known, given.get(name), hints):
                label = f"{node.op_type} {name} = {_text(value)}"
                yield Change(label, partial(_set, index=i, name=name, value=value))


@variation("default attribute")
def defaults(draft: Draft, _: Hints) -> Iterator[Change]:
    """An attribute is not given."""
    for i, node in enumerate(draft.nodes):
        for attribute in node.attribute:
            if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                label = f"{node.op_type} without {attribute.name}"
                yield Change(label, partial(remove_attribute, index=i, name=attribute.name))


def _candidates(name: str, known: AttributeSchema, given: object, hints: Hints) -> list[object]:
    now = known.default if given is None else given
    if isinstance(now, bytes):
        now = now.decode("utf-8", "replace")
    found: list[object] = []
    if known.kind == "string":
        found = [*_WORDS.get(name, ()), *(hints.words if name in _WORDS else ())]
    elif known.kind == "int":
        found = _ints(name, now, hints)
    elif known.kind == "float":
        found = [n for n in (*_FLOATS, *hints.numbers) if n >= 0 or name != "epsilon"]
    elif known.kind == "ints" and now is not None:
        found = _lists(list(now))  # type: ignore[call-overload]
    return [v for v in _unique(found) if v != now]


def _ints(name: str, now: object, hints: Hints) -> list[object]:
    if name in DTYPE_ATTRIBUTES:
        return [DTYPES[t] for t in hints.dtypes]
    near = [now + 1, now - 1] if isinstance(now, int) else []
    named = [int(n) for n in hints.numbers if abs(n) < 1 << 31 and n == int(n)]
    return [*_INTS, *near, *named]


def _lists(now: list[int]) -> list[object]:
    found: list[object] = [[n] * len(now) for n in (1, 2, 0)] if now else []
    found.append(now[::-1])
    found.append([n - len(now) for n in now])
    for place in range(min(len(now), 6)):
        found += [[n + step * (i == place) for i, n in enumerate(now)] for step in (1, -1)]
    if len(now) > 1:  # an empty list has no type
        found += [now[1:], [*now[1:], *now[:1]]]
    return found


def _unique(found: list[object]) -> list[object]:
    return list({repr(v): v for v in found}.values())


def _text(value: object) -> str:
    return repr(value).replace("'", '"')


def _set(draft: Draft, index: int, name: str, value: object) -> None:
    remove_attribute(draft, index, name)
    draft.graph.node[index].attribute.append(helper.make_attribute(name, value))


def remove_attribute(draft: Draft, index: int, name: str) -> None:
    """The node at a place does not give it."""
    node = draft.graph.node[index]
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
