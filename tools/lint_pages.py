"""Write docs/lint/RWnnn.md and the table in docs/lint/README.md.

In: the docstrings of the checks. Out: a page each; pages of codes that no check has are removed.
"""

from __future__ import annotations

import re
from pathlib import Path

from rewrite.audit.lint.pages import page, table
from rewrite.audit.lint.registry import checks

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "lint"
_TABLE = re.compile(r"(<!-- generated: checks -->\n).*?(<!-- end -->)", re.DOTALL)


def expected() -> dict[Path, str]:
    """What each file of the folder has to say."""
    readme = FOLDER / "README.md"
    text = _TABLE.sub(lambda m: m[1] + table(checks()) + m[2], readme.read_text(encoding="utf-8"))
    return {readme: text} | {FOLDER / f"{c.code}.md": page(c) for c in checks()}


def main() -> None:
    pages = expected()
    for path in FOLDER.glob("RW*.md"):
        if path not in pages:
            path.unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
