"""Check what rules promise on models that are made from them.

Makes models on which a rule fires, and others beside them: other types, opsets, shapes,
numbers, uses. Where the rule fires, the result has to be valid and the numbers within the
claim in an independent runtime. A rule that is refuted is told with its smallest
counterexample. docs/verify.md says what is tried.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite.cli.console import (
    Tell,
    check_folder,
    check_places,
    complain,
    number_from,
    working,
    write_json,
)
from rewrite.cli.options import add_tested
from rewrite.cli.packs import folders, targets
from rewrite.errors import RewriteError, error, visible
from rewrite.told import told

if TYPE_CHECKING:
    from rewrite.audit.claims.counterexample import Counterexample
    from rewrite.audit.claims.result import RuleResult

_OUT = "counterexamples"
_SECONDS = 30
_PAIR_SECONDS = 200
_INSTANCES = 60
_RATIO = 8  # models that are tried for one that fires


def options(parser: argparse.ArgumentParser) -> None:
    add_tested(parser)
    add = parser.add_argument
    add(
        "--seconds",
        type=number_from(1),
        default=_SECONDS,
        metavar="S",
        help=f"processor time for each rule, in seconds ({_SECONDS})",
    )
    add(
        "--instances",
        type=number_from(1),
        default=_INSTANCES,
        metavar="N",
        help=f"models on which each rule is to fire ({_INSTANCES})",
    )
    add("--seed", type=number_from(0), default=0, metavar="N", help="choose other models (0)")
    add("--json", metavar="FILE", help="write the results as JSON; - for stdout")
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"where counterexamples go ({_OUT})",
    )
    add(
        "--pairs",
        action="store_true",
        help="verify each two rules of a pack that can touch, not each rule alone",
    )
    add(
        "--pair-seconds",
        type=number_from(1),
        default=_PAIR_SECONDS,
        metavar="S",
        help=f"processor time for all pairs, in seconds ({_PAIR_SECONDS})",
    )
    add("-v", "--verbose", action="store_true", help="print rules that hold, too")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.audit.claims.packs import units, verify
    from rewrite.audit.claims.smt import is_installed
    from rewrite.audit.instances.instance import Budget
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    check_places(arguments.json)
    if arguments.out is None:
        arguments.out = Path(_OUT)  # made only where there is a counterexample
    else:
        check_folder(arguments.out)
    chosen = units(folders(arguments.path), arguments.rule)
    known = targets(arguments.target)
    for name in known:
        load_target(name, vocabulary())  # what is wrong with one is told before anything is run
    if not chosen:
        subject = ", ".join(arguments.path)
        complain(error("RW735", "there are no rules to verify", subject=subject))
        return 1
    if arguments.pairs:
        from rewrite.cli.verified_pairs import verify_pairs

        return verify_pairs(arguments, [unit.folder for unit in chosen])
    firing = arguments.instances
    budget = Budget(firing, firing * _RATIO, float(arguments.seconds), arguments.seed)
    found: list[RuleResult] = []
    places: dict[int, Path] = {}
    with working("verifying rules") as tell:
        for result in verify(chosen, known, budget, arguments.jobs, _progress(tell)):
            if result.counterexample is not None:
                places[len(found)] = _save(result, result.counterexample, arguments.out)
            if arguments.json != "-":
                _tell(result, places.get(len(found)), arguments.verbose)
            found.append(result)
    if arguments.json is not None:
        _write(arguments.json, found, places)
    if arguments.json != "-":
        counts = Counter(result.status for result in found)
        kinds = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        print(f"{sum(r.ok for r in found)} of {len(found)} rules hold: {kinds}")
        if not is_installed():
            print("proofs by z3 were not tried: it is not installed (the extra `verify`)")
    return 0 if all(result.ok for result in found) else 1


def _progress(tell: Tell | None) -> Callable[[int, int], None]:
    def report(done: int, left: int) -> None:
        if tell is not None:
            tell("", done, left)

    return report


def _save(result: RuleResult, counterexample: Counterexample, folder: Path) -> Path:
    from rewrite.audit.claims.save import save

    return save(counterexample, folder, f"{result.pack}-{result.rule}")


def _write(name: str, found: Sequence[RuleResult], places: dict[int, Path]) -> None:
    rows = [result.to_json() for result in found]
    for number, path in places.items():
        rows[number]["saved"] = str(path)
    write_json(name, {"rules": rows})


def _tell(result: RuleResult, place: Path | None, verbose: bool) -> None:
    """What there is to say of one rule, as soon as it is known."""
    name = f"{result.pack}::{result.rule}"
    for crash in result.crashes:
        print(visible(f"{name}: a process died: {crash}"))
    if result.ok and verbose:
        print(visible(f"{name} ({result.claim}): {result.status} ({result.how})"))
    if place is not None:
        print(visible(f"{name}: counterexample in {place}"))
    problem = result.problem()
    if problem is not None:
        print("\n".join(told(RewriteError((problem,)))), flush=True)
