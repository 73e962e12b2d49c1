"""Which rules can match at all, judged by the operators next to the anchor.

In: a pattern; a node's neighbourhood as a `Key`. Out: `Outline`, small and plain, and whether it
admits the key. A key that is admitted may still not match; one that is not admitted cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import onnx_ir as ir

from rewrite.match import form as f
from rewrite.match.structure import arrangements

# Only so many operands are looked at.
LOOKED_AT = 3

CONSTANT = ""  # no node produces the operand: an initializer, an input of the graph
ABSENT = None

# (domain, number of operands, what produces each of the first operands)
Key = tuple[object, ...]
Slot = frozenset[str | None] | None  # operators that may produce an operand; None: anything


@dataclass(frozen=True, slots=True)
class Outline:
    """One operator that the anchor may be, and what may produce its operands."""

    operator: f.Operator
    slots: tuple[Slot, ...]
    most: int | None  # operands
    any_order: bool
    needs: str | None = None  # an operator that must produce one of the operands


def key_of(node: ir.Node) -> Key:
    """The neighbourhood of a node: what `Outline.admits` looks at."""
    inputs = node.inputs
    found: list[object] = [node.domain, len(inputs)]
    for value in inputs[:LOOKED_AT]:
        if value is None:
            found.append(ABSENT)
        else:
            producer = value.producer()
            found.append(CONSTANT if producer is None else producer.op_type)
    return tuple(found)


def admits(outline: Outline, key: Key) -> bool:
    """Whether a node with this neighbourhood may be the anchor."""
    domain, count, *producers = key
    assert isinstance(count, int)
    if domain != outline.operator[0]:
        return False
    beyond = producers[outline.most :] if outline.most is not None else []
    if count <= LOOKED_AT and any(p is not ABSENT for p in beyond):
        return False
    if count > LOOKED_AT and outline.any_order:
        return True
    if outline.needs is not None and outline.needs not in producers:
        return False
    if not outline.any_order:
        return _fits(outline.slots, producers, count)
    width = max(len(producers), len(outline.slots))
    padded = [*producers, *[ABSENT] * (width - len(producers))]
    return any(_fits(outline.slots, list(p), count) for p in permutations(padded))


def _fits(slots: tuple[Slot, ...], producers: list[object], count: int) -> bool:
    for place, slot in enumerate(slots):
        if slot is None or (place >= LOOKED_AT and place < count):
            continue
        if (producers[place] if place < len(producers) else ABSENT) not in slot:
            return False
    return True


def outlines(pattern: f.Pattern) -> tuple[Outline, ...]:
    """What the anchor may look like, one entry for each operator form that it may be."""
    return tuple(_outlines(pattern.statements[pattern.anchor].form, pattern))


def _outlines(form: f.Form, pattern: f.Pattern) -> list[Outline]:
    if isinstance(form, f.Choice):
        return [o for b in form.branches for o in _outlines(b.form, pattern)]
    if isinstance(form, f.Reference):
        return _outlines(pattern.statements[form.statement].form, pattern)
    if isinstance(form, f.Chain):
        return [Outline(o, (), None, False) for o in sorted(form.operators)]
    if isinstance(form, f.Bag):
        if len(form.items) == 2:
            slots = tuple(_slot(item, pattern) for item in form.items)
            return [Outline(form.operator, slots, 2, True)]
        return [Outline(form.operator, (), 2, True, form.operator[1])]
    if not isinstance(form, f.Op):
        return []
    slots = tuple(_slot(operand, pattern) for operand in form.operands)
    if form.legacy:
        slots = tuple(_or_attribute(slot) for slot in slots)
    most = None if form.rest is not None else len(form.operands)
    in_order = len(list(arrangements(form, max(2, len(slots) + (most is None))))) <= 1
    return [Outline(form.operator, slots, most, not in_order)]


def _or_attribute(slot: Slot) -> Slot:
    """An operand that a version carries as an attribute is not among the inputs."""
    return None if slot is None else slot | {ABSENT}


def _slot(form: f.Form, pattern: f.Pattern) -> Slot:
    if isinstance(form, f.Absent):
        return frozenset({ABSENT})
    if isinstance(form, f.Number):
        return frozenset({CONSTANT, "Constant"})
    if isinstance(form, f.Any):
        if form.type is None or not form.type.const:
            return None
        constant = frozenset[str | None]({CONSTANT, "Constant"})
        return constant | {ABSENT} if form.optional else constant
    if isinstance(form, f.Choice):
        slots = [_slot(b.form, pattern) for b in form.branches]
        known = [s for s in slots if s is not None]
        return frozenset().union(*known) if len(known) == len(slots) else None
    if isinstance(form, f.Reference):
        return _slot(pattern.statements[form.statement].form, pattern)
    tops = f.tops(form, pattern.statements)
    return None if tops is None else frozenset(name for _, name in tops)
