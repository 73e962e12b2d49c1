"""Write docs/errors/README.md, the list of all error codes.

In: the first line of each page. Out: one table per kind of error.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "errors"
KINDS = {
    "0": "Command line",
    "1": "Rules: how they are written",
    "2": "Rules: what they mean",
    "3": "Packs",
    "4": "Targets",
    "5": "Models",
    "6": "Rewriting",
    "7": "Tests, coverage, verification and other tools for authors",
    "8": "Running",
}


_HEAD = """# Errors

Each message names a code. A code never changes its meaning. Codes RW9nn are findings of
[`rewrite lint`](../lint/README.md).
"""


def index() -> str:
    parts = [_HEAD]
    for digit, kind in KINDS.items():
        rows = [_row(page) for page in sorted(FOLDER.glob(f"RW{digit}*.md"))]
        if rows:
            parts.append(f"## {kind}\n\n| code | |\n|---|---|\n" + "".join(rows))
    return "\n".join(parts)


def _row(page: Path) -> str:
    title = page.read_text(encoding="utf-8").splitlines()[0].removeprefix(f"# {page.stem}: ")
    return f"| [{page.stem}]({page.name}) | {title} |\n"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(index(), encoding="utf-8")
