"""Run the examples of packs.

The exit status is 0 where all of them hold, 1 where one fails, 2 where a pack or a
target does not load.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from rewrite import resources
from rewrite.audit.cases.run import run_rule_tests
from rewrite.errors import RewriteError, error, render
from rewrite.lang.pack import RulePack, load_pack
from rewrite.lang.words import suggestion
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target
from rewrite.told import pages, source_of, told

PROGRAM = "python -m rewrite.audit"


class _Parser(argparse.ArgumentParser):
    """argparse, with usage errors as diagnostics."""

    def error(self, message: str) -> NoReturn:
        raise error("RW002", message, hint=f"{self.prog} --help")


def main(arguments: Sequence[str]) -> int:
    """Arguments: packs, targets, then rule names after `--`, if only those are wanted."""
    cut = list(arguments).index("--") if "--" in arguments else len(arguments)
    try:
        parsed = _parser().parse_args(arguments[:cut])
        packs = [_load(name) for name in parsed.packs]
        only = _only(arguments[cut + 1 :], packs)
        targets = [load_target(name, vocabulary()) for name in parsed.target or _shipped()]
        return _run(packs, targets, only)
    except RewriteError as problem:
        for text in told(problem):
            sys.stderr.write(text + "\n")
        return 2


def _parser() -> _Parser:
    first, _, rest = (__doc__ or "").partition("\n")
    parser = _Parser(
        prog=PROGRAM,
        usage="%(prog)s [-h] [--target T] PACK... [-- RULE...]",
        description=f"{first}\n{rest}",
        epilog="after --: the names of rules, if only the examples of those are wanted",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "packs", nargs="+", metavar="PACK", help="the name of a shipped pack, or a folder"
    )
    parser.add_argument(
        "--target",
        action="append",
        metavar="T",
        help="a name from `rewrite targets`, or a .yaml file; repeatable. Rules that ask for the "
        "target are tried on each, others on the first. Without it: the shipped targets",
    )
    return parser


def _load(name: str) -> RulePack:
    folder = resources.shipped("rules").get(name, Path(name))
    return load_pack(folder, vocabulary(), [resources.folder("rules")])


def _shipped() -> list[str]:
    """The shipped targets, `generic` first."""
    return sorted(resources.shipped("targets"), key=lambda name: (name != "generic", name))


def _only(names: Sequence[str], packs: Sequence[RulePack]) -> frozenset[str] | None:
    """The rules asked for; None: all of them."""
    known = [rule.name for pack in packs for rule in pack.rules]
    for name in names:
        if name not in known:
            hint = suggestion(name, known)
            raise error("RW004", f"none of the packs has a rule `{name}`", hint=hint)
    return frozenset(names) or None


def _run(packs: Sequence[RulePack], targets: Sequence[Target], only: frozenset[str] | None) -> int:
    failed = count = 0
    codes: dict[str, None] = {}
    chosen = ((p, r) for p in packs for r in p.rules if only is None or r.name in only)
    for outcome in (o for p, r in chosen for o in run_rule_tests(p, r, targets)):
        count += 1
        if outcome.problem is not None:
            failed += 1
            codes[outcome.problem.code] = None
            rows = render(outcome.problem, source_of(outcome.problem)).splitlines()
            sys.stdout.write("\n  ".join([f"FAIL {outcome.name}", *rows]) + "\n")
    sys.stdout.writelines(f"{row}\n" for row in pages(codes))
    sys.stdout.write(f"{count - failed} of {count} examples hold\n")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
