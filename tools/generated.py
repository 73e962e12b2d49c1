"""Write what is generated from the table of target keys: targets/schema.json, docs/targets.md.

In: `rewrite.target.schema`. Out: the two files; in the guide only the table is replaced.
"""

from __future__ import annotations

import re
from pathlib import Path

from rewrite.target import schema

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    (ROOT / "targets" / "schema.json").write_text(schema.json_schema(), encoding="utf-8")
    guide = ROOT / "docs" / "targets.md"
    text = guide.read_text(encoding="utf-8")
    table = re.compile(r"^\| key \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)
    guide.write_text(table.sub(lambda _: schema.key_table(), text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
