"""Other element types: of everything that has one type, of one input or constant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rewrite.audit.instances.draft import Draft, array_of, cast, dtype_of
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.registry import Change, variation
from rewrite.schema import DTYPE_ATTRIBUTES, DTYPES

# A type is exchanged for those it stands with; the rule may name further ones.
_FAMILIES = (
    ("f32", "f16", "f64", "bf16"),
    ("f32", "s32", "s64", "u8"),
    ("s64", "s32", "s8", "u8", "u64", "s16", "u16", "u32"),
    ("u8", "s8", "u16", "s16", "s32", "u4", "s4"),
    ("bool", "u8"),
)


@variation("dtype")
def everywhere(draft: Draft, hints: Hints) -> Iterator[Change]:
    """One element type becomes another wherever it stands."""
    for old in _present(draft):
        for new in _others(old, hints):
            yield Change(f"{old} to {new}", partial(_exchange, old=old, new=new, only=None))


@variation("dtype of one")
def of_one(draft: Draft, hints: Hints) -> Iterator[Change]:
    """One input or constant alone has another element type."""
    names = [v.name for v in draft.open_inputs()] + [t.name for t in draft.constants()]
    for name in names:
        old = _dtype(draft, name)
        if old is None:
            continue
        for new in _others(old, hints):
            label = f"{name} is {new}"
            yield Change(label, partial(_exchange, old=old, new=new, only=name))


def _present(draft: Draft) -> list[str]:
    found = [dtype_of(v) for v in draft.graph.input] + [dtype_of(t) for t in draft.constants()]
    return [t for t in dict.fromkeys(found) if t is not None and t != "string"]


def _dtype(draft: Draft, name: str) -> str | None:
    given = draft.input(name) or draft.constant(name)
    return None if given is None else dtype_of(given)


def _others(old: str, hints: Hints) -> list[str]:
    families = [t for family in _FAMILIES if old in family for t in family]
    named = [t for t in hints.dtypes if t in hints.named and t != "string"]
    return [t for t in dict.fromkeys([*families, *named]) if t != old]


def _exchange(draft: Draft, old: str, new: str, only: str | None) -> None:
    for constant in draft.constants():
        if dtype_of(constant) == old and only in (None, constant.name):
            draft.set_constant(constant.name, cast(array_of(constant), new))
    for given in draft.graph.input:
        if dtype_of(given) == old and only in (None, given.name):
            given.type.tensor_type.elem_type = DTYPES[new]
    for node in draft.nodes if only is None else ():
        for attribute in node.attribute:
            if attribute.name in DTYPE_ATTRIBUTES and attribute.i == DTYPES[old]:
                attribute.i = DTYPES[new]
