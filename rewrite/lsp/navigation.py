"""Where names of rule text are defined, and what a file has: without loading the pack.

In: texts by path, a `Place`. Out: `Location`s, `Symbol`s. Files need not parse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rewrite.lsp.place import ITEM, Place, blanked, first_use

_EXAMPLE = re.compile(r"\bexample\s+(fires|rejects)\b[ \t]*(\w*)")
_LONGEST = 400  # characters of a definition that are shown


@dataclass(frozen=True, slots=True)
class Location:
    """Offsets in the text of a file."""

    path: Path
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A rule or a pattern: its name, and where it ends. `examples`: where each begins."""

    kind: str
    name: str
    start: int
    name_start: int
    end: int
    examples: tuple[tuple[int, str], ...] = ()

    @property
    def name_end(self) -> int:
        return self.name_start + len(self.name)


def symbols(text: str) -> tuple[Symbol, ...]:
    """The rules and patterns of a file, in order."""
    plain = blanked(text)
    found = list(ITEM.finditer(plain))
    ends = [m.start() for m in found[1:]] + [len(plain)]
    return tuple(
        Symbol(m[1], m[2], m.start(), m.start(2), end, _examples(plain, m.start(), end))
        for m, end in zip(found, ends, strict=True)
        if m[1] != "refine" and m[2]
    )


def _examples(plain: str, start: int, end: int) -> tuple[tuple[int, str], ...]:
    found = _EXAMPLE.finditer(plain, start, end)
    return tuple((m.start(), f"{m[1]} {m[2] or number}") for number, m in enumerate(found, 1))


def definitions(texts: Mapping[Path, str]) -> dict[str, str]:
    """The text of every named pattern."""
    found: dict[str, str] = {}
    for text in texts.values():
        for symbol in symbols(text):
            if symbol.kind == "pattern":
                body = text[symbol.start : symbol.end].strip()
                body = re.split(r"\n\s*\n", body, maxsplit=1)[0]
                found.setdefault(symbol.name, body[:_LONGEST])
    return found


def names(texts: Mapping[Path, str], kind: str) -> list[str]:
    """The names of all rules, or of all patterns."""
    return [s.name for text in texts.values() for s in symbols(text) if s.kind == kind]


def define(place: Place, path: Path, texts: Mapping[Path, str]) -> Location | None:
    """Where the word at the place is defined: a pattern, a rule, a name of this rule."""
    if not place.word or place.hidden:
        return None
    call = place.text[place.end : place.end + 1] == "("
    wanted = "pattern" if call else "rule"
    if call or _names_a_rule(place):
        for file, text in texts.items():
            for symbol in symbols(text):
                if symbol.kind == wanted and symbol.name == place.word:
                    return Location(file, symbol.name_start, symbol.name_end)
    found = first_use(place)
    return None if found is None else Location(path, found, found + len(place.word))


def _names_a_rule(place: Place) -> bool:
    """`over a, b` and `refine a`."""
    return place.item == "refine" or re.search(r"\bover\b[^{]*\Z", place.before) is not None
