"""What two targets, or one target with two packs, do to a set of models.

In: two sides, each a target and further packs; a folder of models. Out: a dictionary: for each
model the kernels that are left and how often each rule fired.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewrite.api import matcher_for
from rewrite.audit.coverage.models import models_in
from rewrite.cli.console import Tell
from rewrite.engine import driver
from rewrite.engine.limits import Limits
from rewrite.engine.report import kernels, unsupported
from rewrite.errors import RewriteError
from rewrite.graph import collector, io
from rewrite.target.target import Target

Report = dict[str, Any]
SECONDS = 60.0  # of rewriting, for each model and side


@dataclass(frozen=True, slots=True)
class Side:
    """A target, and packs after its own."""

    target: Target
    packs: tuple[Path, ...] = ()


def compare(sides: Sequence[Side], folder: Path, tell: Tell | None) -> Report:
    """Every model of the folder under both sides. A model that is refused is told with its error.

    Raises RW722 where there are no models.
    """
    models = models_in(folder)
    rows: dict[str, Report] = {}
    for number, path in enumerate(models):
        if tell is not None:
            tell(path.name, number, len(models) - number)
        rows[os.fspath(path.relative_to(folder))] = _row(sides, path)
    differing = [name for name, row in rows.items() if not _same(row)]
    return {"models": rows, "differing": differing}


def _row(sides: Sequence[Side], path: Path) -> Report:
    try:
        old, new = (_rewritten(side, path) for side in sides)
    except RewriteError as problem:
        return {"error": problem.diagnostics[0].headline()}
    names = dict.fromkeys((*old["fired"], *new["fired"]))
    fired = {name: [old["fired"].get(name, 0), new["fired"].get(name, 0)] for name in names}
    return {
        "sides": [{k: v for k, v in side.items() if k != "fired"} for side in (old, new)],
        "fired": {name: pair for name, pair in fired.items() if pair[0] != pair[1]},
    }


def _rewritten(side: Side, path: Path) -> Report:
    with collector.paused():
        loaded = io.load(path)
        matcher = matcher_for(side.target, side.packs)
        journal = driver.run(loaded, matcher, side.target, Limits(seconds=SECONDS))
        return {
            "kernels": kernels(loaded.facts),
            "unsupported": len(unsupported(loaded, side.target)),
            "stop": journal.stop.reason,
            "fired": journal.fired(),
        }


def _same(row: Report) -> bool:
    return "error" not in row and not row["fired"] and row["sides"][0] == row["sides"][1]
