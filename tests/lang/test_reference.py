"""The language reference: its generated parts are up to date and say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from rewrite.lang import docs
from rewrite.lang.machine import GRAMMAR
from rewrite.lang.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "language.md"
ERRORS = ROOT / "docs" / "errors"


def test_generated_parts_are_up_to_date(vocabulary: Vocabulary) -> None:
    """`python tools/language.py` writes them."""
    text = PAGE.read_text(encoding="utf-8")
    assert docs.update(text, vocabulary, ERRORS) == text


def test_an_old_page_is_seen(vocabulary: Vocabulary) -> None:
    old = "before\n<!-- generated: words -->\nsomething old\n<!-- end -->\nafter\n"
    new = docs.update(old, vocabulary, ERRORS)
    assert new.startswith("before\n<!-- generated: words -->\n`and` `as` ")
    assert new.endswith("<!-- end -->\nafter\n")
    assert docs.update(new, vocabulary, ERRORS) == new


def test_every_function_and_error_is_on_the_page(vocabulary: Vocabulary) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in (n for n in vocabulary.functions if "__" not in n):  # else not for rule text
        assert f"\n| `{name}(" in text
    for path in ERRORS.glob("RW[123]*.md"):
        assert f"(errors/{path.name})" in text


def test_the_grammar_shown_has_every_rule() -> None:
    shown = docs.grammar()
    written = re.findall(r"^[?_]*([a-z_]+):", GRAMMAR.read_text(), re.MULTILINE)
    assert len(written) > 50
    assert [name for name in written if f"\n{name} = " not in shown] == []
    assert re.findall(r"\b[A-Z_]{2,}\b", shown) == []
