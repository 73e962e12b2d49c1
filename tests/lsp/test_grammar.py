"""The TextMate grammar: it knows every word of the language, and colours shipped rules sensibly.

Only what the grammar uses of the format is read here: `match`, `begin` with `end`, at one level.
"""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from rewrite import resources
from rewrite.lang import ast
from rewrite.lang.parser import parse
from rewrite.lang.walk import nodes
from rewrite.schema import DTYPES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FILE = DOCS / "editors" / "rewrite.tmLanguage.json"
GRAMMAR = json.loads(FILE.read_text("utf-8"))
PARTS = GRAMMAR["repository"]
RULES = [PARTS[pattern["include"][1:]] for pattern in GRAMMAR["patterns"]]
COMPILED = [re.compile(rule.get("match") or rule["begin"], re.MULTILINE) for rule in RULES]
FILES = sorted(resources.folder("rules").glob("*/*.rules"))


def coloured(text):
    """Every character's scope: of the patterns that match first in the text, the first one."""
    found = [""] * len(text)
    ahead = [pattern.search(text) for pattern in COMPILED]
    at = 0
    while True:
        for number, match in enumerate(ahead):
            if match is not None and match.start() < at:
                ahead[number] = COMPILED[number].search(text, at)
        hits = [(m.start(), number) for number, m in enumerate(ahead) if m is not None]
        if not hits:
            return found
        start, number = min(hits)
        at = _colour(found, text, RULES[number], ahead[number], start)


def _colour(found, text, rule, match, start):
    end = match.end()
    if "end" in rule:
        end = re.compile(rule["end"]).search(text, end).end()
    found[start:end] = [rule.get("name", "")] * (end - start)
    for group, named in (rule.get("captures") or rule.get("beginCaptures") or {}).items():
        a, b = match.span(int(group))
        found[a:b] = [named["name"]] * (b - a)
    return max(end, start + 1)


def offset(text, span):
    rows = text.split("\n")
    return sum(len(row) + 1 for row in rows[: span.line - 1]) + span.column - 1


def test_its_words_are_up_to_date():
    tool = runpy.run_path(str(ROOT / "tools" / "generated.py"))
    assert FILE.read_text("utf-8") == tool["expected"]()[FILE]


def test_every_element_type_and_reserved_word_is_known():
    kinds = re.compile(PARTS["type"]["match"])
    assert all(kinds.fullmatch(name) for name in DTYPES)
    page = (DOCS / "language.md").read_text("utf-8")
    words = re.search(r"<!-- generated: words -->\n(.*?)<!-- end -->", page, re.DOTALL)[1]
    patterns = " ".join(PARTS[key]["match"] for key in ("clause", "reserved", "item"))
    assert set(re.findall(r"`(\w+)`", words)) <= set(re.findall(r"[a-z]+", patterns))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shipped_rules_are_coloured(path):
    text = path.read_text("utf-8")
    scopes = coloured(text)
    for rule in parse(text, str(path)).rules:
        name = text.index(rule.name, offset(text, rule.span))
        assert scopes[name].startswith("entity.name.type")
        for example in rule.examples:
            start = text.index('"""', offset(text, example.span)) + 3
            inside = set(scopes[start : text.index('"""', start)])
            assert inside == {"string.quoted.triple.example.rewrite"}
        for node in nodes(rule):
            if isinstance(node, (ast.OpPattern, ast.OpExpr)):
                start = offset(text, node.span)
                if text.startswith(f"{node.op.name}(", start):  # not one written infix
                    assert scopes[start] == "entity.name.function.operator.rewrite"
    signs = [scope for sign, scope in zip(text, scopes, strict=True) if sign == "#"]
    assert all(scope.startswith(("comment", "string")) for scope in signs)
