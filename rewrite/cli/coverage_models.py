"""`rewrite coverage --models DIR`: which rules fire on real models.

In: the arguments of `rewrite coverage`. Out: text or JSON; status 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rewrite import resources
from rewrite.audit.coverage.models import Fired, fire
from rewrite.cli.console import working, write_json
from rewrite.cli.packs import folders
from rewrite.errors import error, visible

_MOST_REFUSALS = 20  # that are told on the terminal


def run(arguments: argparse.Namespace) -> int:
    names = arguments.target or ["generic"]
    if len(names) > 1:
        raise error("RW002", "--models takes one --target", hint="rewrite coverage --help")
    packs = folders(arguments.path)
    search = (resources.folder("rules"),)
    with working("models") as tell:
        found = fire(Path(arguments.models), packs, search, names[0], arguments.jobs, tell)
    if arguments.json is not None:
        write_json(arguments.json, _as_json(found))
    if arguments.json != "-":
        print("\n".join(map(visible, _lines(found))))
    return 0


def _lines(found: Fired) -> Iterator[str]:
    counts = found.counts()
    width = max((len(rule) for rule, _, _ in counts), default=0)
    for rule, times, models in counts:
        yield f"{rule:{width}}  {times:7} times in {models:5} models"
    never = found.never()
    yield f"never fired: {len(never)} of {len(found.rules)} rules"
    yield from (f"  {rule}" for rule in never)
    refusals = found.refusals()
    if refusals:
        yield f"refused: {sum(n for _, n in refusals)} times"
        yield from (f"  {count:5}  {words}" for words, count in refusals[:_MOST_REFUSALS])
    stopped = [run for run in found.runs if run.stop not in ("", "fixpoint")]
    yield from (f"{run.path}: stopped: {run.stop}" for run in stopped)
    unread = [run for run in found.runs if run.problem]
    yield from (f"{run.path}: {run.problem}" for run in unread)
    read = len(found.runs) - len(unread)
    yield f"{read} of {len(found.runs)} models were read; {len(counts)} rules fired"


def _as_json(found: Fired) -> dict[str, Any]:
    return {
        "fired": [
            {"rule": rule, "times": times, "models": models}
            for rule, times, models in found.counts()
        ],
        "never": found.never(),
        "refused": [{"what": words, "times": count} for words, count in found.refusals()],
        "models": [
            {
                "model": run.path,
                "fired": dict(run.fired),
                "stop": run.stop or None,
                "problem": run.problem or None,
            }
            for run in found.runs
        ],
    }
