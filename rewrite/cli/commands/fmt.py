"""Format rule files.

Takes .rules files, and folders in which it looks for them. With --check nothing is
written: files that would change are named, and the exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from rewrite.cli.console import read_text
from rewrite.cli.replace import replace
from rewrite.errors import Collector, RewriteError, error


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", type=Path)
    parser.add_argument("--check", action="store_true", help="only say what would change")
    parser.add_argument("--diff", action="store_true", help="show what would change, line by line")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.lang.printer import format_text
    from rewrite.lang.text import normalize

    problems = Collector()
    changed = 0
    for path in _files(arguments.paths):
        try:
            before = normalize(read_text(path, newline=""))
            after = format_text(before, str(path))
        except RewriteError as problem:
            problems.found.extend(problem.diagnostics)
            continue
        if after == before:
            continue
        changed += 1
        if arguments.diff:
            sys.stdout.writelines(_diff(path, before, after))
        elif arguments.check:
            print(f"would format {path}")
        else:
            replace(path, before, after)
            print(f"formatted {path}")
    problems.raise_if_any()
    return 1 if changed and (arguments.check or arguments.diff) else 0


def _files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.rglob("*.rules"))
        elif path.exists():
            found.append(path)
        else:
            raise error("RW005", "cannot read: No such file or directory", subject=str(path))
    return found


def _diff(path: Path, before: str, after: str) -> list[str]:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return list(difflib.unified_diff(*lines, str(path), f"{path} (formatted)"))
