"""Run the tests of packs: the examples in rules, and the cases beside them.

Every `example` of a rule and every case of a `*.cases.yaml` is run, each with its rule alone.
Prints those that do not hold. docs/testing.md says what a case can expect.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite import resources
from rewrite.cli.console import (
    check_places,
    complain,
    number_from,
    working,
    write_json,
    write_text,
    write_to,
)
from rewrite.cli.options import add_tested
from rewrite.cli.packs import folders, targets
from rewrite.cli.replace import changed
from rewrite.errors import Collector, Diagnostic, RewriteError, collected, error, visible
from rewrite.told import pages

if TYPE_CHECKING:
    from rewrite.audit.cases.report import Ran
    from rewrite.audit.cases.suite import Selection, Unit
    from rewrite.lang.pack import RulePack
    from rewrite.target.target import Target


def options(parser: argparse.ArgumentParser) -> None:
    add_tested(parser)
    parser.add_argument(
        "-k",
        dest="expression",
        metavar="EXPR",
        help="only tests whose name `pack::rule::test` has these words, joined by and, or, not, ()",
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="write what was found into the case files: `after`, and a `rejects` that is empty",
    )
    parser.add_argument(
        "--durations", type=number_from(0), metavar="N", help="list the N slowest tests"
    )
    parser.add_argument("--json", metavar="FILE", help="write the outcomes as JSON; - for stdout")
    parser.add_argument(
        "--junit", metavar="FILE", help="write the outcomes as JUnit XML; - for stdout"
    )


def run(arguments: argparse.Namespace) -> int:
    from rewrite.audit.cases.suite import units
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    check_places(arguments.json, arguments.junit)
    packs = _packs(arguments.path)
    known = [load_target(name, vocabulary()) for name in targets(arguments.target)]
    selection = _selection(arguments, packs, known)
    chosen, left = units(packs, selection)
    if not chosen:
        complain(_nothing(left))
        return 1
    texts = _texts(packs) if arguments.update else {}
    quiet = "-" in (arguments.json, arguments.junit)  # nothing else is written to stdout then
    ran = _run(chosen, known, arguments.jobs)
    if arguments.update:
        files = _update(chosen, ran, texts, show=not quiet)
        chosen, _ = units(packs, selection)  # as the files are now
        again = [number for number, unit in enumerate(chosen) if _touches(unit, files)]
        repeated = _run([chosen[number] for number in again], known, arguments.jobs)
        for number, each in zip(again, repeated, strict=True):
            ran[number] = each
    flat = [one for each in ran for one in each]
    _write(arguments, flat, known, left)
    if not quiet:
        _print(flat, left, arguments.durations or 0)
    return 1 if any(one.outcome.finding is not None for one in flat) else 0


def _packs(paths: Sequence[str]) -> list[RulePack]:
    """The packs, or all that is wrong with any of them or with their cases."""
    from rewrite.audit.cases.find import open_pack

    search = [resources.folder("rules")]
    return collected(folders(paths), lambda folder: open_pack(folder, search))


def _selection(
    arguments: argparse.Namespace, packs: Sequence[RulePack], known: Sequence[Target]
) -> Selection:
    from rewrite.audit.cases.find import demand_rules
    from rewrite.audit.cases.select import wanted
    from rewrite.audit.cases.suite import Selection

    demand_rules(arguments.rule, packs, [rule.name for pack in packs for rule in pack.rules])
    return Selection(
        rules=frozenset(arguments.rule) or None,
        expression=None if arguments.expression is None else wanted(arguments.expression),
        targets=frozenset(target.name for target in known) if arguments.target else None,
    )


def _nothing(left: int) -> RewriteError:
    if left:
        message = f"none of the {left} tests is selected"
        return error("RW719", message, hint="names are `pack::rule::test`, see `--json -`")
    return error("RW719", "there are no tests", hint="a rule has examples: `example fires …`")


def _run(chosen: Sequence[Unit], known: Sequence[Target], jobs: int) -> list[list[Ran]]:
    """What was found, unit by unit."""
    from rewrite.audit.cases.report import Ran
    from rewrite.audit.cases.suite import running

    found: list[list[Ran]] = []
    with working("tests") as tell:
        for unit, each in zip(chosen, running(chosen, known, jobs), strict=True):
            found.append([Ran(unit.pack.name, outcome) for outcome in each])
            if tell is not None:
                tell(unit.rule.name, len(found), len(chosen) - len(found))
    return found


def _texts(packs: Sequence[RulePack]) -> dict[str, str | Diagnostic]:
    """Files of cases as they are when their tests are run, or why they are not read."""
    from rewrite.audit.cases.find import files_of, text_of

    return {str(path): text_of(path) for pack in packs for path in files_of(pack)}


def _update(
    chosen: Sequence[Unit],
    ran: Sequence[Sequence[Ran]],
    texts: Mapping[str, str | Diagnostic],
    show: bool,
) -> frozenset[str]:
    """Write what the outcomes propose; the files written."""
    from rewrite.audit.cases.find import text_of
    from rewrite.audit.cases.update import changes_of, updated

    problems = Collector()
    written: dict[str, None] = {}
    for folder in dict.fromkeys(unit.pack.folders[-1] for unit in chosen):
        pairs = zip(chosen, ran, strict=True)
        own = [one.outcome for u, each in pairs if u.pack.folders[-1] == folder for one in each]
        for file, changes in sorted(changes_of(own, folder).items()):
            before = text_of(Path(file))
            if isinstance(before, Diagnostic):
                problems.found.append(before)
                continue
            if before != texts[file]:
                problems.found += changed(Path(file)).diagnostics
                continue
            after, refused = updated(before, file, changes)
            problems.found += refused
            if after == before:
                continue
            write_text(Path(file), after)
            written[file] = None
            if show:
                sys.stdout.writelines(_difference(file, before, after))
    if problems.found:
        complain(RewriteError(tuple(problems.found)))
    return frozenset(written)


def _difference(file: str, before: str, after: str) -> list[str]:
    old, new = before.splitlines(), after.splitlines()
    rows = difflib.unified_diff(old, new, file, f"{file} (updated)", lineterm="")
    return [f"{visible(row)}\n" for row in rows]


def _touches(unit: Unit, files: frozenset[str]) -> bool:
    return any(test.span.file in files for test in unit.tests)


def _write(
    arguments: argparse.Namespace, ran: Sequence[Ran], known: Sequence[Target], left: int
) -> None:
    from rewrite.audit.cases.report import as_json, as_junit

    if arguments.json is not None:
        write_json(arguments.json, as_json(ran, [target.name for target in known], left))
    if arguments.junit is not None:
        write_to(arguments.junit, as_junit(ran))


def _print(ran: Sequence[Ran], left: int, slowest: int) -> None:
    from rewrite.audit.cases.report import rows

    failed = [one for one in ran if one.outcome.finding is not None]
    for one in failed:
        print("\n  ".join([f"FAIL {one.outcome.name}", *rows(one.outcome)]))
    codes = dict.fromkeys(one.outcome.problem.code for one in failed if one.outcome.problem)
    for row in pages(codes):
        print(row)
    for one in sorted(ran, key=lambda one: -one.outcome.seconds)[:slowest]:
        print(f"{one.outcome.seconds:8.3f} s  {one.outcome.name}")
    more = f", {left} not selected" if left else ""
    print(f"{len(ran) - len(failed)} of {len(ran)} tests hold{more}")
