"""Which rules can match at all, judged by the operators above the anchor.

In: a pattern; a node's neighbourhood as a `Tree`. Out: a `Prefilter`, small and plain, and whether
it admits the tree. A tree that is admitted may still not match; one that is not admitted cannot.
"""

from __future__ import annotations

from itertools import islice, permutations
from typing import Any

import onnx_ir as ir

from rewrite.match import form as f
from rewrite.match.structure import arrangements

LOOKED_AT = 3  # only so many operands of a node are looked at
LEVELS = 3  # how many nodes up
MOST_PARTS = 2000  # of a prefilter

CONSTANT = ""  # no node produces the operand: an initializer, an input of the graph

# The keys are made at every look at a node, so they read onnx-ir's fields and not its properties,
# each of which costs as much as the rest of the step.
#
# What produces a value: None (absent), CONSTANT, the name of an operator about whose operands
# nothing is said, or (name, number of operands, the trees of the first of them).
Tree = Any

# What may produce a value: None (anything), or
#   ("const", optional)                    a constant, or perhaps nothing
#   ("absent",)                            nothing
#   ("or", prefilters)                     one of these
#   ("op", names, slots, most, any_order)  an operator; slots None: any operands
#   ("bag", name, items)                   a tree of one operator
#   ("chain", names, start)                operators of a class above one another
Prefilter = Any


def near_key(node: ir.Node) -> Tree:
    """The node's neighbourhood one level up."""
    inputs = node._inputs
    count = len(inputs)
    found: list[object] = [node._op_type, count]
    for value in inputs if count <= LOOKED_AT else inputs[:LOOKED_AT]:
        if value is None:
            found.append(None)
        elif value._producer is None:
            found.append(CONSTANT)
        else:
            found.append(value._producer._op_type)
    return tuple(found)


def far_key(node: ir.Node, levels: int = LEVELS) -> Tree:
    """The node's neighbourhood `levels` up."""
    if levels == 1:
        return near_key(node)
    inputs, further = node._inputs, levels - 1
    count = len(inputs)
    found: list[object] = [node._op_type, count]
    for value in inputs if count <= LOOKED_AT else inputs[:LOOKED_AT]:
        if value is None:
            found.append(None)
        elif value._producer is None:
            found.append(CONSTANT)
        else:
            found.append(far_key(value._producer, further))
    return tuple(found)


# --- may it match --------------------------------------------------------------------------------


def admits(prefilter: Prefilter, tree: Tree) -> bool:
    """Whether a value that is produced like this may match."""
    if prefilter is None:
        return True
    kind = prefilter[0]
    if kind == "or":
        return any(admits(o, tree) for o in prefilter[1])
    if kind == "absent":
        return tree is None
    if tree is None:
        return bool(kind == "const" and prefilter[1])
    name = tree if isinstance(tree, str) else tree[0]
    if kind == "const":
        return name in (CONSTANT, "Constant")
    if kind == "bag":
        return name == prefilter[1] and (isinstance(tree, str) or _bag(prefilter, tree))
    if kind == "chain":
        return _chain(prefilter, tree)
    if name not in prefilter[1]:
        return False
    return isinstance(tree, str) or prefilter[2] is None or _operands(prefilter, tree)


def _operands(prefilter: Prefilter, tree: Tree) -> bool:
    _, _, slots, most, any_order = prefilter
    count, trees = tree[1], list(tree[2:])
    if most is not None and count <= LOOKED_AT and any(t is not None for t in trees[most:]):
        return False
    if not any_order:
        return _fits(slots, trees, count)
    if count > LOOKED_AT or len(slots) > LOOKED_AT + 1:
        return True
    padded = trees + [None] * (len(slots) - len(trees))
    return any(_fits(slots, order, count) for order in permutations(padded))


def _fits(slots: tuple[Prefilter, ...], trees: Any, count: int) -> bool:
    for place, slot in enumerate(slots):
        if place < len(trees):
            if not admits(slot, trees[place]):
                return False
        elif place >= count and not admits(slot, None):
            return False
    return True


def _bag(prefilter: Prefilter, tree: Tree) -> bool:
    _, name, items = prefilter
    if len(items) == 2:
        return _operands(("op", (), items, 2, True), tree)
    leaves, complete = _leaves(name, tree)
    if not any(t == name or (isinstance(t, tuple) and t[0] == name) for t in leaves):
        return False
    return not complete or all(any(admits(item, t) for t in leaves) for item in items)


def _chain(prefilter: Prefilter, tree: Tree) -> bool:
    """Whether a path through operators of the class leads to what the chain may start from."""
    _, names, start = prefilter
    if isinstance(tree, str):
        return tree in names
    if tree is None or tree[0] not in names:
        return False
    if start is None or tree[1] > LOOKED_AT:
        return True
    return any(t is not None and (admits(start, t) or _chain(prefilter, t)) for t in tree[2:])


def _leaves(name: str, tree: Tree) -> tuple[list[Tree], bool]:
    """Everything below through nodes of the operator, and whether nothing was cut off."""
    found: list[Tree] = []
    complete = True
    stack = [tree]
    while stack:
        top = stack.pop()
        for child in top[2:]:
            found.append(child)
            if child == name:
                complete = False
            elif isinstance(child, tuple) and child[0] == name:
                stack.append(child)
    return found, complete


# --- prefilters ----------------------------------------------------------------------------------


def prefilter_of(pattern: f.Pattern) -> Prefilter:
    """What the anchor may look like."""
    return _Prefilters(pattern).prefilter(pattern.statements[pattern.anchor].form, LEVELS)


class _Prefilters:
    """Follows references and alternatives; what would get too large is not looked at."""

    def __init__(self, pattern: f.Pattern) -> None:
        self.statements = pattern.statements
        self.count = 0

    def prefilter(self, form: f.Form, levels: int) -> Prefilter:
        self.count += 1
        if self.count > MOST_PARTS:
            return None
        if isinstance(form, f.Absent):
            return ("absent",)
        if isinstance(form, f.Number):
            return ("const", False)
        if isinstance(form, f.Any):
            const = form.type is not None and form.type.const
            return ("const", form.optional) if const else None
        if isinstance(form, f.Reference):
            return self.prefilter(self.statements[form.statement].form, levels)
        if isinstance(form, f.Choice):
            parts = [self.prefilter(b.form, levels) for b in form.branches]
            return None if any(p is None for p in parts) else ("or", tuple(parts))
        if isinstance(form, f.Chain):
            names = frozenset(name for _, name in form.operators)
            return ("chain", names, self.prefilter(form.start, levels - 1) if levels else None)
        if isinstance(form, f.Bag):
            if levels == 0:
                return ("op", frozenset({form.operator[1]}), None, None, False)
            items = tuple(self.prefilter(item, levels - 1) for item in form.items)
            return ("bag", form.operator[1], items)
        return self.operator(form, levels) if isinstance(form, f.Op) else None

    def operator(self, form: f.Op, levels: int) -> Prefilter:
        names = frozenset({form.operator[1]})
        if levels == 0:
            return ("op", names, None, None, False)
        slots = tuple(self.prefilter(operand, levels - 1) for operand in form.operands)
        if form.legacy:
            # An operand that a version carries as an attribute is not among the inputs.
            slots = tuple(None if s is None else ("or", (s, ("absent",))) for s in slots)
        most = None if form.rest is not None else len(form.operands)
        ways = islice(arrangements(form, max(2, len(slots) + (most is None))), 2)
        return ("op", names, slots, most, len(list(ways)) > 1)
