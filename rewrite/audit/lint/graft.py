"""Models in which two rules have a node in common, made of an example of each.

In: where rules match in their own examples. Out: `Graft`s: the model of one rule in which a node of
its match is computed as in the model of the other, operands that the first one asks for kept.
Whether both rules match what comes out is for the matcher to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

from rewrite.schema import Type

MOST_NODES = 40  # of a model that is grafted
MOST_PAIRS = 4  # of places of two rules


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a rule's match in one of its examples. `nodes`: first outputs of those matched."""

    rule: str
    label: str
    model: onnx.ModelProto
    output: str
    operator: tuple[str, str]
    nodes: frozenset[str]
    anchor: str
    types: Mapping[str, Type]

    @property
    def type(self) -> Type:
        return self.types[self.output]


def graft(upper: Place, lower: Place) -> onnx.ModelProto | None:
    """The upper model, the node at its place computed as in the lower one; None where it cannot be.

    The types of both places have to be the same, and so have the opsets.
    """
    if upper.type != lower.type or _imports(upper.model) != _imports(lower.model):
        return None
    above, below = _renamed(upper.model, "a_"), _renamed(lower.model, "b_")
    old = _producer(above, f"a_{upper.output}")
    new = _producer(below, f"b_{lower.output}")
    if old is None or new is None:
        return None
    _keep_operands(old, new, upper, lower)
    nodes = [*below.node, *(_with_input(n, old, new) for n in above.node if n is not old)]
    ordered = _sorted(nodes)
    if ordered is None or len(ordered) > MOST_NODES:
        return None
    made = onnx.ModelProto()
    made.CopyFrom(upper.model)
    del made.graph.node[:], made.graph.input[:], made.graph.output[:], made.graph.initializer[:]
    del made.graph.value_info[:]
    made.graph.node.extend(ordered)
    made.graph.input.extend([*below.input, *above.input])
    made.graph.initializer.extend([*below.initializer, *above.initializer])
    outputs = [o for o in below.output if o.name != new.output[0]]
    gone = set(old.output)
    made.graph.output.extend([*(o for o in above.output if o.name not in gone), *outputs])
    return made if made.graph.output else None


def _imports(model: onnx.ModelProto) -> dict[str, int]:
    return {o.domain: o.version for o in model.opset_import}


def _renamed(model: onnx.ModelProto, prefix: str) -> onnx.GraphProto:
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    for node in graph.node:
        node.input[:] = [prefix + n if n else "" for n in node.input]
        node.output[:] = [prefix + n if n else "" for n in node.output]
    for named in (*graph.input, *graph.output, *graph.initializer):
        named.name = prefix + named.name
    return graph


def _producer(graph: onnx.GraphProto, output: str) -> onnx.NodeProto | None:
    return next((n for n in graph.node if n.output and n.output[0] == output), None)


def _keep_operands(old: onnx.NodeProto, new: onnx.NodeProto, upper: Place, lower: Place) -> None:
    """Operands that the upper match computes stay, where the lower one takes any value."""
    for i, name in enumerate(old.input):
        if i >= len(new.input) or not new.input[i]:
            continue
        wanted, there = name[2:], new.input[i][2:]
        same = upper.types.get(wanted) == lower.types.get(there) is not None
        if wanted in upper.nodes and there not in lower.nodes and same:
            new.input[i] = name


def _with_input(node: onnx.NodeProto, old: onnx.NodeProto, new: onnx.NodeProto) -> onnx.NodeProto:
    names = dict(zip(old.output, new.output, strict=False))
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(n, n) for n in node.input]
    return copy


def _sorted(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto] | None:
    """Producers first; None where they go round in a circle."""
    made = {name for node in nodes for name in node.output if name}
    done: set[str] = set()
    ordered: list[onnx.NodeProto] = []
    waiting = list(nodes)
    while waiting:
        ready = [n for n in waiting if all(i not in made or i in done for i in n.input)]
        if not ready:
            return None
        for node in ready:
            done.update(node.output)
        ordered += ready
        waiting = [n for n in waiting if not any(n is r for r in ready)]
    return ordered


def stacked(places: Sequence[Place]) -> Iterator[tuple[Place, Place]]:
    """An upper and a lower place of two rules, with the same operator; the lower one is where its
    rule ends."""
    ends: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        if place.output == place.anchor:
            ends.setdefault(place.operator, []).append(place)
    for upper in places:
        for lower in ends.get(upper.operator, ()):
            if upper.rule != lower.rule:
                yield upper, lower


def pairs(places: Sequence[Place], own: frozenset[str]) -> Iterator[tuple[Place, Place]]:
    """Those of the same type; of two rules, one among `own`, at most `MOST_PAIRS`."""
    count: Counter[tuple[str, str]] = Counter()
    for upper, lower in stacked(places):
        rules = (upper.rule, lower.rule)
        fits = upper.type == lower.type and not own.isdisjoint(rules)
        if fits and count[rules] < MOST_PAIRS:
            count[rules] += 1
            yield upper, lower
