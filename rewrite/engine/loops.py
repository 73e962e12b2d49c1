"""Rule sets that undo each other, found while they run.

In: each application. Out: a `Cycle` where one must be cut.

Only applications that do not shrink the graph are watched: every loop contains one. Signs:
  - the same rule puts the same nodes in the place of the same root a third time (A -> B -> A);
  - one node has `_GROWN` descendants by applications that grow the graph (A -> A with more);
  - a node descends from another through more applications than the model had nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from rewrite.engine.journal import Cycle

_REPEATS = 2
_GROWN = 256
_SMALL = 64  # elements of a constant that are part of a key; larger ones count by name


@dataclass(frozen=True, slots=True)
class _Descent:
    """One watched application and the one that made what it matched."""

    rule: str
    root: str
    parent: _Descent | None
    depth: int
    family: list[int]  # one number: growing applications among all that descend from one node


@dataclass(slots=True)
class LoopWatch:
    deepest: int  # nodes of the model
    _seen: dict[tuple[object, ...], int] = field(default_factory=dict)
    _descent: dict[ir.Node, _Descent] = field(default_factory=dict)

    def check(
        self,
        rule: str,
        matched: Sequence[ir.Node],
        anchor: str,
        new: Sequence[ir.Node],
    ) -> Cycle | None:
        """Called before an application is committed; a `Cycle` means: do not."""
        if len(new) < len(matched):
            return None
        parent = self._parent(matched)
        depth, family = (0, [0]) if parent is None else (parent.depth, parent.family)
        descent = _Descent(rule, anchor, parent, depth + 1, family)
        if descent.depth > self.deepest or family[0] > _GROWN:
            return _cycle(descent)
        key = (rule, anchor, _structure(new))
        count = self._seen.get(key, 0)
        if count >= _REPEATS:
            return _cycle(descent)
        self._seen[key] = count + 1
        family[0] += len(new) > len(matched)
        for node in new:
            self._descent[node] = descent
        return None

    def inherit(self, matched: Sequence[ir.Node], new: Sequence[ir.Node]) -> None:
        """A shrinking application passes on where its nodes came from."""
        if not self._descent:
            return
        parent = self._parent(matched)
        if parent is not None:
            for node in new:
                self._descent.setdefault(node, parent)

    def _parent(self, matched: Sequence[ir.Node]) -> _Descent | None:
        found: _Descent | None = None
        for node in matched:
            descent = self._descent.get(node)
            if descent is not None and (found is None or descent.depth > found.depth):
                found = descent
        return found


def _cycle(last: _Descent) -> Cycle:
    """The rules from the last one back to where it fired before."""
    rules, roots = [last.rule], [last.root]
    step = last.parent
    while step is not None and step.rule != last.rule:
        rules.append(step.rule)
        roots.append(step.root)
        step = step.parent
    return Cycle(tuple(reversed(rules)), tuple(dict.fromkeys(reversed(roots))))


def _structure(nodes: Sequence[ir.Node]) -> tuple[object, ...]:
    """New nodes up to the names of their own outputs."""
    numbers: dict[ir.Value, int] = {}
    parts: list[object] = []
    for node in nodes:
        operands = tuple(_operand(value, numbers) for value in node.inputs)
        attributes = tuple(sorted((a.name, str(a.value)) for a in node.attributes.values()))
        parts.append((node.domain, node.op_type, operands, attributes, len(node.outputs)))
        for output in node.outputs:
            numbers[output] = len(numbers)
    return tuple(parts)


def _operand(value: ir.Value | None, numbers: dict[ir.Value, int]) -> object:
    if value is None:
        return None
    if value in numbers:
        return numbers[value]
    tensor = value.const_value
    if tensor is None:
        return value.name
    if tensor.size > _SMALL:
        return (str(tensor.dtype), tuple(tensor.shape))
    return (str(tensor.dtype), tuple(tensor.shape), np.asarray(tensor.numpy()).tobytes())
