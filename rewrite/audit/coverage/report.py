"""What the tests of a pack reach, as frozen records.

In: for each rule its items and what each test shows (`Measured`). Out: `PackCoverage`: one `Part`
per rule and per named pattern of the pack.

A named pattern is one text, whichever rules call it: what stands in it counts once, and a test of
any of these rules shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rewrite.audit.coverage.item import Item, keyed
from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.pack import RulePack
from rewrite.lang.walk import nodes


@dataclass(frozen=True, slots=True)
class Test:
    """A test that was measured. `keys`: of the items that it shows."""

    name: str
    fires: bool
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Measured:
    """A rule, its items, its tests."""

    rule: str
    span: Span
    items: tuple[Item, ...]
    tests: tuple[Test, ...]

    @property
    def keys(self) -> frozenset[str]:
        """Of all items that some test shows."""
        return frozenset[str]().union(*(test.keys for test in self.tests))


@dataclass(frozen=True, slots=True)
class Part:
    """A rule or a named pattern. `shown`: key of an item -> the first test that shows it."""

    kind: str  # "rule" | "pattern"
    name: str
    span: Span
    items: tuple[Item, ...]
    shown: Mapping[str, str]
    tests: int

    @property
    def title(self) -> str:
        return self.name if self.kind == "rule" else f"pattern {self.name}"

    @property
    def reachable(self) -> tuple[Item, ...]:
        return tuple(item for item in self.items if not item.unreachable)

    @property
    def missing(self) -> tuple[Item, ...]:
        return tuple(item for item in self.reachable if item.key not in self.shown)

    @property
    def fired(self) -> bool:
        return "fired" in self.shown


@dataclass(frozen=True, slots=True)
class PackCoverage:
    """`texts`: file -> text, of the pack's own files."""

    name: str
    parts: tuple[Part, ...]
    texts: Mapping[str, str]

    @property
    def rules(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.kind == "rule")


@dataclass(frozen=True, slots=True)
class Total:
    """Counts of several parts."""

    rules: int
    fired: int
    items: int
    shown: int
    unreachable: int

    @property
    def percent(self) -> float:
        """Of the items that can be shown; 100 where there are none."""
        return 100.0 * self.shown / self.items if self.items else 100.0

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Total:
        found = tuple(parts)
        rules = [part for part in found if part.kind == "rule"]
        items = sum(len(part.reachable) for part in found)
        return cls(
            rules=len(rules),
            fired=sum(part.fired for part in rules),
            items=items,
            shown=items - sum(len(part.missing) for part in found),
            unreachable=sum(len(part.items) - len(part.reachable) for part in found),
        )


def by_kind(parts: Iterable[Part]) -> dict[str, tuple[int, int]]:
    """Kind of item -> how many are shown, how many there are; in the order of `KINDS`."""
    found: dict[str, tuple[int, int]] = {}
    for part in parts:
        for item in part.reachable:
            shown, count = found.get(item.kind, (0, 0))
            found[item.kind] = shown + (item.key in part.shown), count + 1
    return found


# --- from what was measured ----------------------------------------------------------------------


def gather(pack: RulePack, measured: Sequence[Measured]) -> PackCoverage:
    """The report of a pack, rules and patterns in the order of the text."""
    own = tuple(file.path for file in pack.own_files)
    homes = Homes.of(pack)
    parts = [_rule(one, homes) for one in measured]
    for definition in homes.definitions:
        if definition.span.file in own or not homes.is_shown_elsewhere(definition, pack):
            part = _pattern(definition, measured)
            if part.items:
                parts.append(part)
    texts = {path: pack.texts[path] for path in own}
    texts |= {p.span.file: pack.texts[p.span.file] for p in parts if p.span.file in pack.texts}
    ordered = sorted(parts, key=lambda p: (p.span.file, p.span.line))
    return PackCoverage(pack.name, tuple(ordered), texts)


@dataclass(frozen=True, slots=True)
class Homes:
    """The named patterns of a pack and of those that it extends."""

    definitions: tuple[ast.PatternDef, ...]

    @classmethod
    def of(cls, pack: RulePack) -> Homes:
        return cls(tuple(d for file in pack.files for d in file.tree.patterns))

    def at(self, place: Span) -> ast.PatternDef | None:
        """The pattern in whose text the place is; None: in that of a rule."""
        return next((d for d in self.definitions if inside(place, d.span)), None)

    @staticmethod
    def is_shown_elsewhere(definition: ast.PatternDef, pack: RulePack) -> bool:
        """Whether a rule of another pack uses the pattern, so that it is counted there."""
        others = (r for r in pack.rules if pack.origins[r.name].pack != pack.name)
        return any(
            inside(node.span, definition.span)
            for rule in others
            for statement in rule.match
            for node in nodes(statement)
        )


def inside(span: Span, around: Span) -> bool:
    return (
        span.file == around.file
        and (around.line, around.column) <= (span.line, span.column)
        and (span.end_line, span.end_column) <= (around.end_line, around.end_column)
    )


def _rule(one: Measured, homes: Homes) -> Part:
    items = tuple(item for item in one.items if homes.at(item.place) is None)
    shown = _shown(items, one.tests)
    return Part("rule", one.rule, one.span, items, shown, len(one.tests))


def _shown(items: Sequence[Item], tests: Sequence[Test]) -> dict[str, str]:
    first: dict[str, str] = {}
    for test in tests:
        for key in test.keys:
            first.setdefault(key, test.name)
    return {item.key: first[item.key] for item in items if item.key in first}


def _pattern(definition: ast.PatternDef, measured: Sequence[Measured]) -> Part:
    """What stands in the pattern, from all rules that call it."""
    found: dict[Identity, Item] = {}
    shown: dict[Identity, str] = {}
    tests = 0
    for one in measured:
        own = [item for item in one.items if inside(item.place, definition.span)]
        tests += len(one.tests) if own else 0
        first = _shown(own, one.tests)
        for item in own:
            known = found.setdefault(identity(item), item)
            if known.unreachable and not item.unreachable:
                found[identity(item)] = item
            if item.key in first:
                shown.setdefault(identity(item), f"{one.rule}: {first[item.key]}")
    items, keys = _renamed(found)
    return Part(
        "pattern",
        definition.name,
        definition.span,
        items,
        {keys[place]: test for place, test in shown.items()},
        tests,
    )


class Identity(NamedTuple):
    """What makes an item of a named pattern the same in all rules: its place, not its number."""

    label: str
    place: Span
    span: Span
    value: str


def identity(item: Item) -> Identity:
    """The identity of an item."""
    base, _, value = item.key.partition("=")
    return Identity(base.partition(":")[0], item.place, item.span, value)


def _renamed(found: Mapping[Identity, Item]) -> tuple[tuple[Item, ...], dict[Identity, str]]:
    """The items with keys of the pattern's own: numbered by their place in its text."""
    order = sorted(found, key=_in_text)
    bases = keyed((n, one.place, _label(found[one])) for n, one in enumerate(order))
    keys = {one: bases[n] + (f"={one.value}" if one.value else "") for n, one in enumerate(order)}
    items = tuple(replace(item, key=keys[one]) for one, item in found.items())
    return items, keys


def _in_text(one: Identity) -> tuple[int, int, int, int]:
    return one.place.line, one.place.column, one.span.line, one.span.column


def _label(item: Item) -> str:
    if item.kind == "branch":
        return f"branch.{item.key.rpartition('.')[2]}"
    return item.key.partition("=")[0].partition("#")[0]
