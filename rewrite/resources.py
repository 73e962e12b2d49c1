"""Where the shipped rule packs, targets and pages lie.

In: nothing. Out: `folder(kind)` and `shipped(kind)` for "rules" and "targets", `target_names()`,
`page(code)` for the page of an error or of a finding. An installed wheel carries them inside the
package (pyproject.toml, sources); a checkout, and an editable install of it, has them beside the
package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rewrite.errors import error

Kind = Literal["rules", "targets"]

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: Kind) -> Path:
    """The folder that holds the shipped packs or targets."""
    for place in _places(kind):
        if place.is_dir():
            return place
    raise error(
        "RW001",
        f"the installed package has no {kind}/ folder",
        hint="install onnx-rewrite again",
        subject=str(_PACKAGE),
    )


def page(code: str) -> Path | None:
    """The page that explains an error or a finding, where the pages were installed."""
    kind = "lint" if code.startswith("RW9") else "errors"
    pages = (place / kind / f"{code}.md" for place in _places("docs"))
    return next((path for path in pages if path.is_file()), None)


def _places(name: str) -> tuple[Path, Path]:
    return _PACKAGE / "_data" / name, _PACKAGE.parent / name


def shipped(kind: Kind) -> dict[str, Path]:
    """Name -> pack folder or target file, in name order."""
    if kind == "rules":
        return {p.parent.name: p.parent for p in sorted(folder(kind).glob("*/pack.yaml"))}
    return {p.stem: p for p in sorted(folder(kind).glob("*.yaml"))}


def target_names() -> tuple[str, ...]:
    """The shipped targets in the order in which rules are tried for them: `generic` first."""
    return tuple(sorted(shipped("targets"), key=lambda name: (name != "generic", name)))
