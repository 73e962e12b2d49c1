"""The mutation score of packs on the terminal: `rewrite coverage --mutate`.

In: the arguments of `rewrite coverage`. Out: text or JSON, the exit status.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite import resources
from rewrite.cli.console import working, write_json
from rewrite.cli.packs import folders, targets
from rewrite.errors import collected, render, visible
from rewrite.told import nearby, source_of

if TYPE_CHECKING:
    from rewrite.audit.mutation.judge import Verdict
    from rewrite.audit.mutation.run import Score


def run(arguments: argparse.Namespace) -> int:
    """1 where a survivor is not explained, an explanation is stale, or too few are killed."""
    from rewrite.audit.cases.find import open_pack
    from rewrite.audit.mutation.run import score
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    search = [resources.folder("rules")]
    packs = collected(folders(arguments.path), lambda f: (f, open_pack(f, search)))
    chosen = [load_target(name, vocabulary()) for name in targets(arguments.target)]
    with working("mutants") as tell:
        scores = score(packs, chosen, arguments.rule, arguments.jobs, tell)
    _write(arguments, scores)
    counted, killed = sum(s.counted for s in scores), sum(s.killed for s in scores)
    enough = 100 * killed >= (arguments.fail_under or 0) * counted
    clean = not any(s.unexplained or s.stale for s in scores)
    return 0 if enough and clean else 1


def _write(arguments: argparse.Namespace, scores: Sequence[Score]) -> None:
    if arguments.json is not None:
        write_json(arguments.json, [s.to_json() for s in scores])
    if arguments.json != "-":
        print("\n".join(map(visible, _text(scores))))


def _text(scores: Sequence[Score]) -> Iterator[str]:
    for one in scores:
        yield from _pack(one)
    counted, killed = sum(s.counted for s in scores), sum(s.killed for s in scores)
    share = 100 * killed / counted if counted else 100.0
    explained = sum(len(s.survivors) - len(s.unexplained) for s in scores)
    left = sum(len(s.unexplained) for s in scores)
    told = f"{killed} of {counted} mutants are killed ({share:.1f} %)"
    yield f"{told}, {explained} survive with an explanation, {left} without"


def _pack(one: Score) -> Iterator[str]:
    fates = one.by_fate()
    by = ", ".join(f"{fates[fate]} by {words}" for fate, words in _BY.items() if fates[fate])
    share = 100 * one.killed / one.counted if one.counted else 100.0
    yield f"{one.pack}: {one.killed} of {one.counted} killed ({share:.1f} %)" + (
        f": {by}" if by else ""
    )
    for verdict in one.survivors:
        because = one.because.get((verdict.rule, verdict.key))
        yield f"  {_place(verdict)}: {verdict.rule}: {verdict.key}"
        if because is not None:
            yield f"      {because}"
    for diagnostic in one.stale:
        yield from render(diagnostic, source_of(diagnostic)).splitlines()


_BY = {"test": "tests", "numbers": "their numbers", "verify": "verify", "fault": "a fault"}


def _place(verdict: Verdict) -> str:
    span = verdict.span
    return f"{nearby(Path(span.file))}:{span.line}:{span.column}"
