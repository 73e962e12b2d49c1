"""Write the generated parts of docs/language.md.

In: the grammar, the vocabulary of `rewrite.match`, the error pages. Out: the page, with only the
text between its markers replaced.
"""

from __future__ import annotations

from pathlib import Path

from rewrite.lang.docs import update
from rewrite.match.vocabulary import vocabulary

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    page = DOCS / "language.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(update(text, vocabulary(), DOCS / "errors"), encoding="utf-8")


if __name__ == "__main__":
    main()
