"""Packs as commands are given them.

In: names of shipped packs, folders of packs, folders that hold packs. Out: folders of packs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewrite import resources
from rewrite.errors import error
from rewrite.lang.words import suggestion

HELP = "a pack: its folder, the name of a shipped one, or a folder that holds packs"


def folders(paths: Sequence[str]) -> tuple[Path, ...]:
    """The folder of every pack, in the order given. Raises RW004 where there is none."""
    found: dict[Path, None] = {}
    for path in paths:
        found |= dict.fromkeys(_folders(path))
    return tuple(found)


def _folders(path: str) -> tuple[Path, ...]:
    shipped = resources.shipped("rules")
    if path in shipped:
        return (shipped[path],)
    folder = Path(path)
    try:
        if (folder / "pack.yaml").exists():
            return (folder,)
        inside = tuple(p.parent for p in sorted(folder.glob("*/pack.yaml")))
    except (OSError, ValueError):  # no path at all
        inside = ()
    if not inside:
        hint = suggestion(path, sorted(shipped)) or "a pack is a folder with a pack.yaml"
        raise error("RW004", f"there is no pack at `{path}`", hint=hint)
    return inside


def targets(names: Sequence[str] | None) -> tuple[str, ...]:
    """The targets named, else those shipped, `generic` first."""
    return tuple(names) if names else resources.target_names()
