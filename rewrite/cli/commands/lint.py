"""Look for what is wrong, or weak, with rules that load.

Each finding has a code with a page in docs/lint. `# lint: allow RWnnn: reason` on the line above
allows one.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite.cli.console import check_places, number_from, working, write_json
from rewrite.cli.packs import HELP, folders
from rewrite.cli.replace import replace
from rewrite.errors import Diagnostic, RewriteError, error, render, visible
from rewrite.told import pages

if TYPE_CHECKING:
    from rewrite.audit.lint.finding import Finding
    from rewrite.audit.lint.registry import Check
    from rewrite.audit.lint.run import PackReport


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=HELP)
    parser.add_argument("--fix", action="store_true", help="mend what can be mended mechanically")
    parser.add_argument("--diff", action="store_true", help="show what --fix would change")
    parser.add_argument(
        "--select",
        type=_codes,
        default=(),
        metavar="CODES",
        help="only these checks, as RW911,RW92",
    )
    parser.add_argument(
        "--ignore", type=_codes, default=(), metavar="CODES", help="not these checks"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the findings as JSON; - for stdout"
    )
    parser.add_argument(
        "--sarif", type=Path, metavar="FILE", help="write them as SARIF 2.1.0; - for stdout"
    )
    parser.add_argument(
        "-j", "--jobs", type=number_from(1), default=os.cpu_count() or 1, metavar="N",
        help="processes (one per core)",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    from rewrite.audit.lint.run import lint, wanted

    taken = [arguments.diff, arguments.json == Path("-"), arguments.sarif == Path("-")]
    quiet = any(taken[1:])
    if sum(taken) > 1:
        message = "--diff, --json - and --sarif - all write to stdout"
        raise error("RW002", message, hint="name a file instead of -")
    check_places(arguments.json, arguments.sarif)
    packs = folders(arguments.paths)
    chosen = wanted(arguments.select, arguments.ignore)
    if not chosen:
        raise error(
            "RW002",
            "--select and --ignore leave no check",
            hint="docs/lint/README.md lists the codes",
        )
    with working("linting") as tell:
        reports = lint(packs, chosen, arguments.jobs, tell)
        if arguments.fix and _mended(reports, quiet):
            reports = lint(packs, chosen, arguments.jobs, tell)
    if arguments.diff:
        _show(reports)
    _write(arguments, reports, chosen)
    found = [finding for report in reports for finding in report.findings]
    if not quiet:
        _print(found, {f: t for r in reports for f, t in r.texts.items()}, len(packs))
    return 1 if found else 0


def _codes(text: str) -> tuple[str, ...]:
    codes = tuple(code.strip() for code in text.split(","))
    if not all(code.startswith("RW") and code[2:].isdecimal() for code in codes):
        raise argparse.ArgumentTypeError(f"`{text}` is not a list of codes, such as RW911,RW92")
    return codes


def _mended(reports: Sequence[PackReport], quiet: bool) -> bool:
    """Write the text of every file that can be mended; whether there was one."""
    changed = False
    for file, before, text in _changes(reports):
        replace(Path(file), before, text)
        if not quiet:
            print(f"fixed {file}")
        changed = True
    return changed


def _show(reports: Sequence[PackReport]) -> None:
    """What --fix would change."""
    for file, before, after in _changes(reports):
        sys.stdout.writelines(_difference(file, before, after))


def _changes(reports: Sequence[PackReport]) -> Iterator[tuple[str, str, str]]:
    """Files that can be mended, as they are and as they would be; none of a pack that would no
    longer load."""
    from rewrite.audit.lint.fixes import check_loads, fixed

    for report in reports:
        found = fixed(report.texts, report.findings)
        if not found:
            continue
        try:
            check_loads({**report.texts, **found})
        except RewriteError as problem:
            first = problem.diagnostics[0]
            words = f"{report.pack} is not fixed: it would not load ({first.code}: {first.message})"
            print(visible(words), file=sys.stderr)
            continue
        for file, text in sorted(found.items()):
            yield file, report.texts[file], text


def _difference(file: str, before: str, after: str) -> list[str]:
    lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return list(difflib.unified_diff(*lines, file, f"{file} (fixed)"))


def _write(
    arguments: argparse.Namespace, reports: Sequence[PackReport], chosen: Sequence[Check]
) -> None:
    if arguments.json is not None:
        found = [_json(finding, report.pack) for report in reports for finding in report.findings]
        write_json(str(arguments.json), {"findings": found})
    if arguments.sarif is not None:
        from importlib.metadata import version

        from rewrite.audit.lint import sarif

        log = sarif.log(reports, chosen, Path.cwd(), version("onnx-rewrite"))
        write_json(str(arguments.sarif), log)


def _json(finding: Finding, pack: str) -> dict[str, object]:
    span = finding.span
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "hint": finding.hint,
        "pack": pack,
        "subject": finding.subject,
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "fixable": bool(finding.edits),
    }


def _print(found: Sequence[Finding], texts: dict[str, str], packs: int) -> None:
    for finding in found:
        diagnostic = Diagnostic(
            finding.code, finding.message, finding.span, finding.hint, finding.labels
        )
        text = render(diagnostic, texts.get(finding.span.file))
        print(text.replace(f"error[{finding.code}]", f"{finding.severity}[{finding.code}]", 1))
    for row in pages(dict.fromkeys(finding.code for finding in found)):
        print(row)
    packs_word = f"{packs} pack{'' if packs == 1 else 's'}"
    if not found:
        print(f"{packs_word}: nothing found")
        return
    mendable = sum(bool(finding.edits) for finding in found)
    more = f", {mendable} of them for --fix" if mendable else ""
    print(f"{packs_word}: {len(found)} finding{'' if len(found) == 1 else 's'}{more}")
