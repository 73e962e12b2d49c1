"""The automaton of the grammar: text to whatever a builder makes of its parts.

In: text, a builder with a method for each part of the grammar. Out: what the builder makes of the
whole; `Misplaced` or `Unreadable` at the first slip, with all that a message about it needs.

The tables are those of grammar.json, which tools/grammar.py writes from grammar.lark:

skipped      what stands between words
patterns     words by pattern, tried in this order; `spelled` ones by their text, longest first
productions  [symbol, size, what it makes, places of lists, whether one child stands for itself]
             makes: the builder's method; "" a list, which goes into that of its parent; "pass"
             its one child
states       for each symbol that may come next: n, the state after it; or ~p, reduce by p first;
             `$END`, the end of the text, leads from the last state to itself
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

GRAMMAR = Path(__file__).with_name("grammar.lark")
TABLES = Path(__file__).with_name("grammar.json")
END = "$END"

Value = Any  # a `Token`, a list of values, or what the builder made


class Token(str):
    """A word of the text. Lines and columns count from 1; the end is exclusive."""

    __slots__ = ("column", "end_column", "end_line", "line", "type")

    type: str
    line: int
    column: int
    end_line: int
    end_column: int


class Misplaced(Exception):  # noqa: N818 - what is wrong with the text
    """A word that may not stand where it does.

    `accepted`: the types of those that may. `values`: what was read, not yet put together.
    """

    def __init__(self, token: Token, accepted: frozenset[str], values: list[Value]) -> None:
        super().__init__(str(token))
        self.token, self.accepted, self.values = token, accepted, values


class Unreadable(Exception):  # noqa: N818 - what is wrong with the text
    """A character that begins no word, at an offset."""

    def __init__(self, line: int, column: int, offset: int) -> None:
        super().__init__(f"{line}:{column}")
        self.line, self.column, self.offset = line, column, offset


class Production(NamedTuple):
    """How the values of some symbols become that of one; `value` None: the one there is stays."""

    symbol: str
    size: int
    value: Callable[[list[Value]], Value] | None


def _production(
    builder: object, symbol: str, size: int, makes: str, lists: list[int], alone: bool
) -> Production:
    if makes == "pass":
        return Production(symbol, size, None)
    make = getattr(builder, makes) if makes else _itself
    if not lists and not alone:
        return Production(symbol, size, make)

    def value(children: list[Value]) -> Value:
        found = _spread(children, lists) if lists else children
        return found[0] if alone and len(found) == 1 else make(found)

    return Production(symbol, size, value)


def _itself(children: list[Value]) -> list[Value]:
    return children


def _spread(children: list[Value], lists: list[int]) -> list[Value]:
    """The children, those of lists in the places of the lists."""
    # A list that comes first is nobody else's: long lists grow in place.
    found: list[Value] = children[0] if lists[0] == 0 else [children[0]]
    for i, child in enumerate(children[1:], 1):
        if i in lists:
            found += child
        else:
            found.append(child)
    return found


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads(TABLES.read_text(encoding="utf-8"))
    return tables


class Machine:
    """One automaton with one builder; `parse` may be called again and again."""

    def __init__(self, builder: object) -> None:
        tables = _tables()
        spelled = [re.escape(word) for word in tables["spelled"] if not word.isalpha()]
        words = [f"(?P<{name}>{pattern})" for name, pattern in tables["patterns"].items()]
        skipped = f"(?>(?:{'|'.join(tables['skipped'])})*)"  # atomic: never tried another way
        self._skipped = re.compile(skipped)
        self._word = re.compile(f"{skipped}(?:{'|'.join(words)}|(?P<SPELLED>{'|'.join(spelled)}))")
        self._spelled: dict[str, str] = tables["spelled"]
        self._states: list[dict[str, int]] = tables["states"]
        self._productions = [_production(builder, *entry) for entry in tables["productions"]]

    def parse(self, text: str) -> Value:
        """What the builder makes of the text; raises `Misplaced`, `Unreadable`."""
        states, values = [0], list[Value]()
        token = None
        offset, line, start = 0, 1, 0  # `start`: the offset at which the line starts
        while (found := self._word.match(text, offset)) is not None:
            kind = found.lastgroup
            assert kind is not None
            first, last = found.span(kind)
            breaks = text.count("\n", offset, first)
            if breaks:
                line, start = line + breaks, text.rfind("\n", offset, first) + 1
            word = text[first:last]
            token = Token(word)
            token.type = self._spelled.get(word, kind)
            token.line, token.column = line, first - start + 1
            breaks = word.count("\n")
            if breaks:
                line, start = line + breaks, text.rfind("\n", first, last) + 1
            token.end_line, token.end_column = line, last - start + 1
            offset = last
            states.append(self._reduce(states, values, token))
            values.append(token)
        self._demand_end(text, offset, line, start)
        self._reduce(states, values, _end_behind(token))
        return values[-1]

    def _reduce(self, states: list[int], values: list[Value], token: Token) -> int:
        """Put together what is complete before the token; the state behind it."""
        kind, rows, productions = token.type, self._states, self._productions
        row = rows[states[-1]]
        while True:
            action = row.get(kind)
            if action is None:
                raise Misplaced(token, self._accepted(states), values)
            if action >= 0:
                return action
            symbol, size, value = productions[~action]
            if value is None:
                states.pop()
            elif size:
                children = values[-size:]
                del states[-size:], values[-size:]
                values.append(value(children))
            else:
                values.append(value([]))
            state = rows[states[-1]][symbol]
            states.append(state)
            row = rows[state]

    def _demand_end(self, text: str, offset: int, line: int, start: int) -> None:
        """Nothing but what is skipped may be left."""
        rest = self._skipped.match(text, offset)
        last = offset if rest is None else rest.end()
        if last == len(text):
            return
        breaks = text.count("\n", offset, last)
        if breaks:
            line, start = line + breaks, text.rfind("\n", offset, last) + 1
        raise Unreadable(line, last - start + 1, last)

    def _accepted(self, states: list[int]) -> frozenset[str]:
        """The types of words that may come next."""
        following = [kind for kind in self._states[states[-1]] if kind.isupper()]
        found = frozenset(kind for kind in following if self._accepts(list(states), kind))
        return found or frozenset(following)

    def _accepts(self, states: list[int], kind: str) -> bool:
        while True:
            action = self._states[states[-1]].get(kind)
            if action is None or action >= 0:
                return action is not None
            production = self._productions[~action]
            if production.size:
                del states[-production.size :]
            states.append(self._states[states[-1]][production.symbol])


def _end_behind(last: Token | None) -> Token:
    """The end of the text, shown where its last word stands."""
    token = Token("")
    token.type = END
    token.line, token.column = (1, 1) if last is None else (last.line, last.column)
    token.end_line, token.end_column = token.line, token.column
    return token
