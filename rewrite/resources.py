"""Where the shipped rule packs and targets lie.

In: nothing. Out: `folder(kind)` and `shipped(kind)` for "rules" and "targets". An installed
wheel carries both inside the package (pyproject.toml, force-include); a checkout, and an editable
install of it, has them beside the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rewrite.errors import error

Kind = Literal["rules", "targets"]


def folder(kind: Kind) -> Path:
    """The folder that holds the shipped packs or targets."""
    package = Path(__file__).resolve().parent
    for place in (package / "_data" / kind, package.parent / kind):
        if place.is_dir():
            return place
    raise error(
        "RW001",
        f"the installed package has no {kind}/ folder",
        hint="install onnx-rewrite again",
        subject=str(package),
    )


def shipped(kind: Kind) -> dict[str, Path]:
    """Name -> pack folder or target file, in name order."""
    if kind == "rules":
        return {p.parent.name: p.parent for p in sorted(folder(kind).glob("*/pack.yaml"))}
    return {p.stem: p for p in sorted(folder(kind).glob("*.yaml"))}
