"""Write what is generated from tables of keys: schemas of targets and packs, docs/targets.md.

In: `rewrite.target.schema`, `rewrite.lang.manifest`. Out: targets/schema.json, rules/schema.json;
in the guide only the table is replaced.
"""

from __future__ import annotations

import re
from pathlib import Path

from rewrite.lang import manifest
from rewrite.target import schema

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    (ROOT / "targets" / "schema.json").write_text(schema.json_schema(), encoding="utf-8")
    (ROOT / "rules" / "schema.json").write_text(manifest.json_schema(), encoding="utf-8")
    guide = ROOT / "docs" / "targets.md"
    text = guide.read_text(encoding="utf-8")
    table = re.compile(r"^\| key \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)
    guide.write_text(table.sub(lambda _: schema.key_table(), text, count=1), encoding="utf-8")


if __name__ == "__main__":
    main()
