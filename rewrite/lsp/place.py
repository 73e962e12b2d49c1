"""A place in rule text, and what stands around it. Works on text that does not parse.

In: the text of a `.rules` file, a line and a column from 0. Out: `Place`: the word there, the
clause, the rule, the brackets that are open.

Strings, texts and comments are blanked first, so that brackets and words in them do not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rewrite.lang.syntax_errors import CLAUSES, ITEMS

_WORD = re.compile(r"(?:[A-Za-z_]\w*\.)?[A-Za-z_]\w*")
_HIDDEN = re.compile(r'"""(?:.|\n)*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*(?:"|$)|#[^\n]*', re.MULTILINE)
# What a file consists of: the word that begins it, its name.
ITEM = re.compile(rf"^[ \t]*({'|'.join(ITEMS).lower()})\b[ \t]*(\w*)", re.MULTILINE)
_CLAUSE = re.compile(  # `group: 1` is an attribute
    rf"\b({'|'.join(sorted(CLAUSES)).lower()})\b(?!\s*:)"
)
_CLOSES = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Bracket:
    """A bracket that is open; `head`: the word before it, `place`: how many commas are inside."""

    sign: str
    head: str
    place: int
    start: int


@dataclass(frozen=True, slots=True)
class Place:
    """`plain`: the text, blanked. `word`: the name at the place, `start` and `end` its offsets;
    `before`: the text of the line up to the place. `clause` is "" where no rule has begun, or its
    head. `body`: where the rule's text begins, behind its name."""

    text: str
    plain: str
    offset: int
    word: str
    start: int
    end: int
    before: str
    clause: str
    item: str  # "rule", "pattern", "refine" or ""
    name: str  # of the rule or pattern
    body: int
    brackets: tuple[Bracket, ...]
    hidden: bool  # within a string, a text or a comment


def blanked(text: str) -> str:
    """The text with strings, texts and comments as blanks: all offsets stay."""
    return _HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def offset_of(text: str, line: int, column: int) -> int:
    """The offset of a line and a column, both from 0; places behind the end are the end."""
    lines = text.split("\n")
    if line >= len(lines):
        return len(text)
    before = sum(len(row) + 1 for row in lines[:line])
    return before + min(column, len(lines[line]))


def place_at(text: str, line: int, column: int) -> Place:
    """What stands at a place."""
    offset = offset_of(text, line, column)
    plain = blanked(text)
    word = _word(plain, offset)
    items = [m for m in ITEM.finditer(plain) if m.start() <= offset]
    begin = items[-1].start() if items else 0
    clauses = list(_CLAUSE.finditer(plain, begin, offset)) if items else []
    row = text.rfind("\n", 0, offset) + 1
    return Place(
        text=text,
        plain=plain,
        offset=offset,
        word=word[0],
        start=word[1],
        end=word[2],
        before=plain[row:offset],
        clause=clauses[-1][1] if clauses else "",
        item=items[-1][1] if items else "",
        name=items[-1][2] if items else "",
        body=items[-1].end() if items else 0,
        brackets=_open(plain, begin, offset),
        hidden=any(m.start() < offset < m.end() for m in _HIDDEN.finditer(text)),
    )


def first_use(place: Place) -> int | None:
    """The offset at which the word first stands within its rule, behind `match` or `let`."""
    if not place.item:
        return None
    begin = re.compile(r"\b(match|=)").search(place.plain, place.body)
    word = re.compile(rf"(?<![\w.]){re.escape(place.word)}(?![\w(])")
    found = word.search(place.plain, begin.start() if begin else place.body)
    if found is None or found.start() > place.end:
        return None
    return found.start()


def _word(plain: str, offset: int) -> tuple[str, int, int]:
    row = plain.rfind("\n", 0, offset) + 1
    end = plain.find("\n", offset)
    for found in _WORD.finditer(plain, row, end if end >= 0 else len(plain)):
        if found.start() <= offset <= found.end():
            return found[0], found.start(), found.end()
    return "", offset, offset


def _open(plain: str, begin: int, offset: int) -> tuple[Bracket, ...]:
    """The brackets that are open at a place, the innermost last."""
    found: list[Bracket] = []
    closed = ""  # the head of a bracket that has been closed: `Conv` in `Conv(x, W) {`
    for at in range(begin, offset):
        sign = plain[at]
        if sign in "([{":
            before = plain[begin:at].rstrip()
            head = _WORD.findall(before)[-1] if re.search(r"\w\Z", before) else ""
            if sign == "{" and before.endswith((")", "]")):
                head = closed
            found.append(Bracket(sign, head, 0, at))
        elif sign in _CLOSES:
            if found and found[-1].sign == _CLOSES[sign]:
                closed = found.pop().head
        elif sign == "," and found:
            last = found[-1]
            found[-1] = Bracket(last.sign, last.head, last.place + 1, last.start)
    # The bracket of the rule itself is none.
    return tuple(b for b in found if not (b.sign == "{" and b is found[0] and _is_rule(plain, b)))


def _is_rule(plain: str, bracket: Bracket) -> bool:
    row = plain.rfind("\n", 0, bracket.start) + 1
    return ITEM.match(plain, row) is not None
