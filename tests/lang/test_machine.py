"""The automaton against lark's own, from the same grammar: where it stops, what it would take."""

from __future__ import annotations

import random
import re
import runpy
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lark import Lark, UnexpectedCharacters, UnexpectedToken

from rewrite.lang.machine import END, GRAMMAR, TABLES, Machine, Misplaced, Token, Unreadable

ROOT = Path(__file__).resolve().parents[2]
FEATURES = Path(__file__).parent / "pass" / "features.rules"
PIECES = (
    "( ) { } [ ] , : ; . .. ... = == ?? ? ~ @ ** // <= | - rule match where emit let case none "
    'const if in over opset x Relu 0.5 "s" """t""" "open """open & $ é'
)


class Counting:
    """A builder that takes every part and keeps the words."""

    def __getattr__(self, name: str) -> Any:
        return lambda children: [w for c in children for w in (c if type(c) is list else [c])]


@cache
def oracle() -> Lark:
    return Lark(GRAMMAR.read_text(), parser="lalr", lexer="basic", keep_all_tokens=True)


def outcome_here(text: str) -> object:
    try:
        words: list[Token] = Machine(Counting()).parse(text)
    except Misplaced as slip:
        where = slip.token
        return where.type, str(where), where.line, where.column, slip.accepted
    except Unreadable as slip:
        return slip.line, slip.column, slip.offset
    return [(w.type, str(w), w.line, w.column, w.end_line, w.end_column) for w in words]


def outcome_there(text: str) -> object:
    try:
        tree = oracle().parse(text)
    except UnexpectedToken as slip:
        where = slip.token
        return where.type, str(where), where.line, where.column, frozenset(slip.accepts)
    except UnexpectedCharacters as slip:
        return slip.line, slip.column, slip.pos_in_stream
    words = list(tree.scan_values(lambda _: True))
    return [(w.type, str(w), w.line, w.column, w.end_line, w.end_column) for w in words]


def test_the_tables_are_those_of_the_grammar() -> None:
    """`python tools/grammar.py` writes them."""
    written = runpy.run_path(str(ROOT / "tools" / "grammar.py"))["text"]()
    assert TABLES.read_text(encoding="utf-8") == written


@pytest.mark.parametrize("text", ["", " \n", "# only this", "\n#a\n\n  ", "rule", '"""'])
def test_short_texts(text: str) -> None:
    assert outcome_here(text) == outcome_there(text)


def test_texts_with_slips_stop_where_lark_stops() -> None:
    rng = random.Random(7)
    items = re.findall(r"^(?:rule|pattern|refine)\b.*?(?=^rule|^pattern|^refine|\Z)",
                       FEATURES.read_text(), re.MULTILINE | re.DOTALL)  # fmt: skip
    seen: set[str] = set()
    for _ in range(250):
        text = "\n".join(rng.choice(items) for _ in range(2))
        at = rng.choice([m.start() for m in re.finditer(r"\w+|[^\w\s]", text)])
        text = text[:at] + rng.choice(PIECES.split()) + " " + text[at + rng.randrange(3) :]
        here = outcome_here(text)
        assert here == outcome_there(text)
        seen.add(type(here).__name__ + str(len(here) if isinstance(here, tuple) else ""))
    assert seen == {"list", "tuple3", "tuple5"}


def test_the_end_stands_at_the_last_word() -> None:
    with pytest.raises(Misplaced) as caught:
        Machine(Counting()).parse("rule r in\n  fold {  # open\n\n")
    token = caught.value.token
    assert (token.type, token.line, token.column) == (END, 2, 8)


def test_space_before_a_slip_is_read_once() -> None:
    """A pattern that tried every way to part it would not end."""
    start = time.process_time()
    with pytest.raises(Unreadable):
        Machine(Counting()).parse(" \n" * 2000 + "# c\n" * 500 + "$")
    assert time.process_time() - start < 1
