"""`python -m rewrite.audit PACK...`: run the examples of packs; exit status 1 where one fails."""

from __future__ import annotations

import sys
from pathlib import Path

from rewrite import resources
from rewrite.audit.examples import run_pack
from rewrite.errors import RewriteError, render
from rewrite.lang.pack import load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target
from rewrite.target.target import Target


def main(arguments: list[str]) -> int:
    """Arguments: packs (names or folders), then rule names after `--`, if only those are wanted."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    only = frozenset(arguments[cut + 1 :]) or None
    targets = _targets()
    failed = count = 0
    for name in arguments[:cut]:
        shipped = resources.shipped("rules")
        try:
            pack = load_pack(
                shipped.get(name, Path(name)), vocabulary(), [resources.folder("rules")]
            )
        except RewriteError as problem:
            for diagnostic in problem.diagnostics:
                sys.stdout.write(render(diagnostic) + "\n")
            return 2
        for outcome in run_pack(pack, targets, only):
            count += 1
            if outcome.problem is not None:
                failed += 1
                sys.stdout.write(f"FAIL {outcome.name}\n  {render(outcome.problem)}\n")
    sys.stdout.write(f"{count - failed} of {count} examples hold\n")
    return 1 if failed or not count else 0


def _targets() -> list[Target]:
    """The shipped targets that load, `generic` first."""
    found = []
    for name in sorted(resources.shipped("targets"), key=lambda name: (name != "generic", name)):
        try:
            found.append(load_target(name, vocabulary()))
        except RewriteError as problem:
            sys.stderr.write(f"target {name} is left out: {problem}\n")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
