"""Which variations of a model may show an item.

In: an item. Out: kinds of variations (rewrite/audit/instances/variations, and `further.py` here),
the likeliest first.
"""

from __future__ import annotations

from collections.abc import Mapping

from rewrite.audit.coverage.item import Item

_SHAPES = (
    "shape of a constant", "slice of a constant", "rank", "more ranks", "dim of one",
    "dim everywhere", "names of sizes",
)  # fmt: skip
_NUMBERS = ("number", "number near", "one element", "exchanged constants")
_BRANCHES = ("branch", "present operand", "absent operand", "surroundings", "order of operands")
_ANY = (
    "attribute", *_SHAPES, *_NUMBERS, "second use", "constness", "dtype", "dtype of one",
    "any dtype", "present operand", "absent operand", "another operand", "surroundings",
    "default attribute", "number of operands", "computed by", "shared constants",
    "repeated operands",
)  # fmt: skip

# Of a test that should not hold, by the kind of the test.
_FALSE: Mapping[str, tuple[str, ...]] = {
    "const": ("constness", "given operand", "copied nodes"),
    "dtype": ("dtype", "any dtype", "dtype of one"),
    "shape": _SHAPES,
    "attribute": ("attribute", "default attribute", "flag", "copied nodes"),
    "literal": ("number near", "number", "given operand", "another operand", "copied nodes"),
    "uses": ("second use", "copied nodes"),
    "same": ("another operand", "copied nodes"),
    "present": ("present operand",),
}
_OTHERS: Mapping[str, tuple[str, ...]] = {
    "opset": ("opset",),
    "dtype": ("dtype", "dtype of one", "opset"),
    "order": ("order of operands", "associated otherwise"),
    "optional": ("present operand", "absent operand", "default attribute"),
    "branch": _BRANCHES,
    "arm": (*_BRANCHES, *_ANY),
    "override": (*_BRANCHES, *_ANY),
    "fired": _ANY,
}


# Models of these kinds are changed once more even where they show nothing new: their nodes can be
# changed one by one.
APART = frozenset({"copied nodes", "another operand"})


def kinds_for(item: Item) -> tuple[str, ...]:
    """The kinds of variations that are tried for the item."""
    if item.kind != "test":
        return _OTHERS[item.kind]
    test = item.key.partition(":")[0]
    if item.key.endswith("=true"):
        return _ANY if test in ("where", "guard") else _BRANCHES
    return _FALSE.get(test, _ANY)
