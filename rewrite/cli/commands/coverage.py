"""Measure how much of the rules of packs their tests show.

Each rule is tried on the models of its own tests, by the interpreter alone. docs/coverage.md says
what is counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite import resources
from rewrite.cli.console import (
    check_folder,
    check_places,
    make_folder,
    working,
    write_json,
    write_text,
)
from rewrite.cli.options import add_tested
from rewrite.cli.packs import folders, targets
from rewrite.errors import error

if TYPE_CHECKING:
    from rewrite.audit.coverage.report import Measured, PackCoverage
    from rewrite.audit.coverage.run import Job


def options(parser: argparse.ArgumentParser) -> None:
    add_tested(parser)
    parser.add_argument("--html", metavar="DIR|FILE", help="write a page with the rules' text")
    parser.add_argument("--json", metavar="FILE", help="write the items as JSON; - for stdout")
    parser.add_argument(
        "--fail-under",
        type=_percent,
        metavar="N",
        help="exit with status 1 if fewer than N %% of the items are shown",
    )
    parser.add_argument(
        "--suggest",
        nargs="?",
        const="-",
        metavar="FILE",
        help="propose cases for what is missing: added to a .cases.yaml, to one for each .rules "
        "file in a folder, or on stdout",
    )
    parser.add_argument(
        "--models",
        metavar="DIR",
        help="instead: which rules fire on the models of a folder, under the (one) target",
    )
    parser.add_argument(
        "--mutate",
        action="store_true",
        help="instead: which mutants (wrong variants) of the rules the tests and `verify` kill",
    )


def run(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    _check_places(arguments)
    if arguments.models is not None:
        from rewrite.cli import coverage_models

        return coverage_models.run(arguments)
    if arguments.mutate:
        from rewrite.cli import mutation

        return mutation.run(arguments)
    measured = measure_packs(arguments)
    packs = reports(measured)
    if arguments.html is not None:
        from rewrite.audit.coverage.page import page

        write_text(_page_path(arguments.html), page(packs))
    if arguments.json is not None:
        from rewrite.audit.coverage.told import as_json

        write_json(arguments.json, as_json(packs))
    if "-" not in (arguments.json, arguments.suggest):
        from rewrite.cli.coverage import show

        show(packs)
    if arguments.suggest is not None:
        from rewrite.cli import coverage_suggest

        coverage_suggest.run(arguments, measured)
    return status(arguments, packs)


def _check_options(arguments: argparse.Namespace) -> None:
    """Raises RW002 where one option asks for something else than another."""
    instead = [name for name in ("models", "mutate") if getattr(arguments, name)]
    others = ["html", "suggest", *(["fail_under"] if arguments.models is not None else [])]
    clash = instead + [name for name in others if getattr(arguments, name) is not None]
    if instead and len(clash) > 1:
        one, other = (f"--{name.replace('_', '-')}" for name in clash[:2])
        raise error(
            "RW002", f"{one} and {other} exclude each other", hint="rewrite coverage --help"
        )


def _check_places(arguments: argparse.Namespace) -> None:
    """Raises RW003 where something could not be written at the end."""
    check_places(arguments.json)
    page, cases = (None if p is None else Path(p) for p in (arguments.html, arguments.suggest))
    if page is not None and not _is_page(page):
        check_folder(page)
    elif page is not None:
        check_places(page)
    if cases is not None and cases.is_dir():
        check_folder(cases)
    elif cases is not None:
        check_places(cases)


def measure_packs(arguments: argparse.Namespace) -> Mapping[Job, Sequence[Measured]]:
    """Every rule of every pack that is named, measured."""
    from rewrite.audit.coverage.run import Job, measure

    search = (resources.folder("rules"),)
    named = targets(arguments.target)
    jobs = [Job(folder, search, named) for folder in folders(arguments.path)]
    with working("coverage") as tell:
        return measure(jobs, arguments.rule, arguments.jobs, tell)


def reports(measured: Mapping[Job, Sequence[Measured]]) -> tuple[PackCoverage, ...]:
    """What the tests of each pack reach."""
    from rewrite.audit.coverage.run import gathered

    return gathered(measured)


def status(arguments: argparse.Namespace, packs: Sequence[PackCoverage]) -> int:
    """1 where fewer items are shown than demanded."""
    from rewrite.audit.coverage.report import Total

    if arguments.fail_under is None:
        return 0
    total = Total.of(part for pack in packs for part in pack.parts)
    return 0 if total.percent >= arguments.fail_under else 1


def _percent(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 0 to 100")
    return number


def _page_path(text: str) -> Path:
    """The file itself, or `coverage.html` in the folder."""
    path = Path(text)
    if _is_page(path):
        return path
    make_folder(path)
    return path / "coverage.html"


def _is_page(path: Path) -> bool:
    return path.suffix in (".html", ".htm") and not path.is_dir()
