"""Two targets compared fact by fact, and the rules of their packs.

In: two `Target`s and the `RulePack` of each. Out: a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from rewrite.audit.diff import packs
from rewrite.lang.pack import RulePack
from rewrite.match.structure import operator_words
from rewrite.target.target import Target

Report = dict[str, Any]
_ASIDE = ("name", "file", "sources", "extends")  # say nothing of what a target does


def compare(before: Target, after: Target, rules: tuple[RulePack, RulePack]) -> Report:
    """Facts that differ, by key; the rules as `packs.compare` has them."""
    facts: Report = {}
    for field in fields(Target):
        if field.name in _ASIDE:
            continue
        facts.update(
            _differing(field.name, getattr(before, field.name), getattr(after, field.name))
        )
    return {
        "kind": "targets",
        "before": before.name,
        "after": after.name,
        "facts": facts,
        "packs": packs.compare(*rules),
    }


def same(report: Report) -> bool:
    """Whether facts and rules are the same."""
    return not report["facts"] and packs.same(report["packs"])


def _differing(key: str, old: object, new: object) -> Report:
    """What differs under a key: members of sets one by one, tables key by key."""
    if old == new:
        return {}
    if isinstance(old, frozenset) and isinstance(new, frozenset):
        return {key: {"added": _words(new - old), "removed": _words(old - new)}}
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found: Report = {}
        for name in dict.fromkeys((*old, *new)):
            found.update(_differing(f"{key}.{_name(name)}", old.get(name), new.get(name)))
        return found
    if is_dataclass(old) and is_dataclass(new) and type(old) is type(new):
        found = {}
        for field in fields(old):
            part = f"{key}.{field.name}"
            found.update(_differing(part, getattr(old, field.name), getattr(new, field.name)))
        return found
    return {key: [_plain(old), _plain(new)]}


def _name(key: object) -> str:
    return operator_words(key) if isinstance(key, tuple) else str(key)


def _words(members: frozenset[Any]) -> list[str]:
    return sorted(_name(member) for member in members)


def _plain(value: object) -> object:
    """The value as JSON can have it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, frozenset):
        return _words(value)
    if isinstance(value, Mapping):
        return {_name(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        rows = {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
        return {key: item for key, item in rows.items() if item not in (None, [], {})}
    return str(value)
