"""`rewrite verify --pairs`: what each two rules do together.

In: the command's options, the folder of each rule chosen. Out: what is printed, its exit status.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rewrite.audit.claims.pairs import PackPairs, PairResult
from rewrite.audit.claims.pairs_run import Crashed, pairs_in
from rewrite.audit.claims.save import save
from rewrite.cli.console import working, write_json
from rewrite.errors import Diagnostic, RewriteError, visible
from rewrite.told import told


@dataclass
class _Told:
    out: Path
    quiet: bool
    packs: list[PackPairs] = field(default_factory=list)
    crashed: list[Crashed] = field(default_factory=list)
    rows: list[dict[str, object]] = field(default_factory=list)

    def pack(self, found: PackPairs) -> None:
        self.packs.append(found)
        for result in found.results:
            row = _row(result)
            self.rows.append(row)
            if result.counterexample is not None:
                one, other = result.rules
                name = f"{result.pack}-{one}-{other}"
                row["saved"] = str(save(result.counterexample, self.out, name))
                self.say(f"{result.pack}::{one}, {other}: counterexample in {row['saved']}")
            problem = result.problem()
            if problem is not None:
                self.problem(problem)
        if found.late:
            said = f"{found.late} pairs of {found.pack} were not tried: the time was over"
            self.problem(Diagnostic("RW738", said, None, "give them more with --pair-seconds"))

    def crash(self, found: Crashed) -> None:
        self.crashed.append(found)
        said = f"the process that tried the pairs of {found.pack} died: {found.last}"
        self.problem(Diagnostic("RW739", said, None, "try the pairs of fewer rules with --rule"))

    def problem(self, problem: Diagnostic) -> None:
        if not self.quiet:
            print("\n".join(told(RewriteError((problem,)))), flush=True)

    def say(self, text: str) -> None:
        if not self.quiet:
            print(visible(text))


def verify_pairs(arguments: argparse.Namespace, folders: Sequence[Path]) -> int:
    """`folders`: one for each rule."""
    counted = list(dict.fromkeys(folders))
    seconds, only = float(arguments.pair_seconds), frozenset(arguments.rule)
    tell = _Told(arguments.out, arguments.json == "-")
    with working("trying pairs of rules") as progress:
        for done, found in enumerate(pairs_in(counted, seconds, arguments.jobs, only), 1):
            if progress is not None:
                progress("", done, len(counted) - done)
            if isinstance(found, Crashed):
                tell.crash(found)
            else:
                tell.pack(found)
    if arguments.json is not None:
        _write(arguments.json, tell)
    tried = [result for pack in tell.packs for result in pack.results]
    held, late = sum(r.ok for r in tried), sum(p.late for p in tell.packs)
    touching, unmet = (sum(p.touching for p in tell.packs), sum(p.unmet for p in tell.packs))
    both = sum(r.orders > 0 for r in tried)
    tell.say(
        f"{held} of {len(tried)} pairs hold, in {both} of which both rules applied; "
        f"{touching} can touch by their operators: for {unmet} of them there is no model, "
        f"{late} were not tried"
    )
    return 0 if held == len(tried) and not late and not tell.crashed else 1


def _row(result: PairResult) -> dict[str, object]:
    problem = result.problem()
    return {
        "pack": result.pack,
        "rules": list(result.rules),
        "status": result.status,
        "code": None if problem is None else problem.code,
        "reason": result.reason,
        "models": result.models,
        "orders": result.orders,
        "runs": result.runs,
    }


def _write(name: str, tell: _Told) -> None:
    packs = [
        {
            "pack": p.pack,
            "can_touch": p.touching,
            "without_model": p.unmet,
            "not_tried": p.late,
        }
        for p in tell.packs
    ]
    crashed = [{"pack": c.pack, "last": c.last} for c in tell.crashed]
    write_json(name, {"pairs": tell.rows, "packs": packs, "crashed": crashed})
