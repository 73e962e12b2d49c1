"""Check what rules promise on models that are made from them.

Makes models on which a rule fires, and others beside them: other types, opsets, shapes,
numbers, uses. Where the rule fires, the result has to be valid and the numbers within the
claim in an independent runtime. A rule that is refuted is told with its smallest
counterexample. docs/verify.md says what is tried.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite.cli.console import Tell, number_from, working, write_text
from rewrite.cli.packs import HELP, folders, targets
from rewrite.errors import RewriteError, error, visible
from rewrite.told import told

if TYPE_CHECKING:
    from rewrite.audit.claims.result import RuleResult

_SECONDS = 30
_INSTANCES = 60
_RATIO = 8  # models that are tried for one that fires


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", nargs="+", metavar="PATH", help=HELP)
    add("--rule", action="append", default=[], metavar="R", help="only this rule; repeatable")
    add(
        "--target",
        action="append",
        metavar="T",
        help="a name from `rewrite targets`, or a .yaml file; repeatable (all shipped ones). Rules "
        "that ask for the target are verified on each on which an example fires",
    )
    add(
        "--seconds",
        type=number_from(1),
        default=_SECONDS,
        metavar="S",
        help=f"of processor time for each rule ({_SECONDS})",
    )
    add(
        "--instances",
        type=number_from(1),
        default=_INSTANCES,
        metavar="N",
        help=f"models on which each rule is to fire ({_INSTANCES})",
    )
    add("--seed", type=number_from(0), default=0, metavar="N", help="of the choice of models (0)")
    add("-j", "--jobs", type=number_from(1), metavar="N", help="processes (one per core)")
    add("--json", metavar="FILE", help="write the results as JSON; - is stdout")
    add(
        "--out",
        type=Path,
        default=Path("counterexamples"),
        metavar="DIR",
        help="where counterexamples go (counterexamples)",
    )
    add("-v", "--verbose", action="store_true", help="tell of rules that hold, too")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.audit.claims.packs import units, verify
    from rewrite.audit.instances.instance import Budget
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    chosen = units(folders(arguments.path), arguments.rule)
    known = targets(arguments.target)
    for name in known:
        load_target(name, vocabulary())  # what is wrong with one is told before anything is run
    if not chosen:
        raise error("RW735", "there are no rules to verify", subject=", ".join(arguments.path))
    firing = arguments.instances
    budget = Budget(firing, firing * _RATIO, float(arguments.seconds), arguments.seed)
    jobs = arguments.jobs or os.cpu_count() or 1
    found: list[RuleResult] = []
    with working("verifying rules") as tell:
        found += verify(chosen, known, budget, jobs, _progress(tell))
    places = _save(found, arguments.out)
    if arguments.json is not None:
        _write(arguments.json, found, places)
    if arguments.json != "-":
        _print(found, places, arguments.verbose)
    return 0 if all(result.ok for result in found) else 1


def _progress(tell: Tell | None) -> Callable[[int, int], None]:
    def report(done: int, left: int) -> None:
        if tell is not None:
            tell("", done, left)

    return report


def _save(found: Sequence[RuleResult], folder: Path) -> dict[int, Path]:
    """Counterexamples are written; where each lies, by the number of its result."""
    from rewrite.audit.claims.save import save

    return {
        number: save(result.counterexample, folder, f"{result.pack}-{result.rule}")
        for number, result in enumerate(found)
        if result.counterexample is not None
    }


def _write(name: str, found: Sequence[RuleResult], places: dict[int, Path]) -> None:
    rows = [result.to_json() for result in found]
    for number, path in places.items():
        rows[number]["saved"] = str(path)
    text = json.dumps({"rules": rows}, indent=1, ensure_ascii=False) + "\n"
    if name == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(name), text)


def _print(found: Sequence[RuleResult], places: dict[int, Path], verbose: bool) -> None:
    problems = []
    for number, result in enumerate(found):
        for crash in result.crashes:
            print(visible(f"{result.pack}::{result.rule}: a process died while {crash}"))
        if result.ok and verbose:
            print(visible(f"{result.pack}::{result.rule} ({result.claim}): {_words(result)}"))
        problem = result.problem()
        if problem is not None:
            problems.append(problem)
            if number in places:
                print(visible(f"{result.pack}::{result.rule}: counterexample in {places[number]}"))
    for text in told(RewriteError(tuple(problems))) if problems else ():
        print(text)
    counts = Counter(result.status for result in found)
    told_counts = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    print(f"{sum(r.ok for r in found)} of {len(found)} rules hold: {told_counts}")


def _words(result: RuleResult) -> str:
    return f"{result.status} ({result.how})"
