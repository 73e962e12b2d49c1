"""Write what is generated from tables of keys and words: schemas, docs/targets.md, an editor's.

In: `rewrite.target.schema`, `rewrite.lang.manifest`, the words of the rule language. Out:
targets/schema.json, rules/schema.json; in the guide for target authors only the table, and in the
TextMate grammar only the lists of words, are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from rewrite.lang import manifest
from rewrite.lang.build_base import LITERAL_NAMES
from rewrite.lang.syntax_errors import CLAUSES, ITEMS, NAMES, WORDS
from rewrite.lang.vocabulary import CLAIMS
from rewrite.ops.dtypes import ONNX_NAMES
from rewrite.schema import DTYPES
from rewrite.target import schema

ROOT = Path(__file__).resolve().parents[1]
_TABLE = re.compile(r"^\| key \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)
_ALTERNATIVES = re.compile(r"\([\w|]+\)")


def expected() -> dict[Path, str]:
    """What each file has to say."""
    guide = ROOT / "docs" / "targets.md"
    grammar = ROOT / "docs" / "editors" / "rewrite.tmLanguage.json"
    text = guide.read_text(encoding="utf-8")
    return {
        ROOT / "targets" / "schema.json": schema.json_schema(),
        ROOT / "rules" / "schema.json": manifest.json_schema(),
        guide: _TABLE.sub(lambda _: schema.key_table(), text, count=1),
        grammar: editor_grammar(grammar.read_text(encoding="utf-8")),
    }


def editor_grammar(text: str) -> str:
    """The TextMate grammar with the words of the language: of a pattern the first alternatives."""
    grammar = json.loads(text)
    parts = grammar["repository"]
    (of_examples,) = (p for p in parts["example"]["patterns"] if p["name"] == "support.type.onnx")
    names = {"LOWER", "UPPER"}  # terminals that are no words
    lists: tuple[tuple[dict[str, str], Iterable[str]], ...] = (
        (parts["item"], ITEMS),
        (parts["clause"], CLAUSES | NAMES - names),
        (parts["reserved"], {*WORDS, *LITERAL_NAMES, "IGNORED"} - CLAUSES - {*ITEMS}),
        (parts["claim"], (claim.partition("(")[0] for claim in CLAIMS)),
        (parts["type"], DTYPES),
        (of_examples, ONNX_NAMES),
    )
    for part, words in lists:
        found = "|".join(sorted(word.lower() for word in words))
        part["match"] = _ALTERNATIVES.sub(f"({found})", part["match"], count=1)
    return json.dumps(grammar, indent=1) + "\n"


def main() -> None:
    for path, text in expected().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
