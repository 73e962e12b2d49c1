"""`rewrite coverage --suggest`: cases for what the tests do not show.

In: what was measured. Out: YAML in a file or on stdout; on stderr what was found besides.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rewrite.audit.cases.read import SUFFIX
from rewrite.audit.coverage.report import Measured
from rewrite.audit.coverage.run import Job
from rewrite.audit.coverage.suggest.run import Suggested, suggest
from rewrite.audit.coverage.suggest.write import write
from rewrite.audit.coverage.told import place
from rewrite.cli.console import read_text, working
from rewrite.cli.replace import append
from rewrite.errors import error, visible
from rewrite.lang.text import normalize
from rewrite.report.words import counted


def run(arguments: argparse.Namespace, measured: Mapping[Job, Sequence[Measured]]) -> None:
    """Write the proposals. Raises RW721 where a file could not hold cases of the packs."""
    place_ = None if arguments.suggest == "-" else _place(arguments.suggest, measured)
    texts = {} if place_ is None else _texts(place_)
    with working("suggestions") as tell:
        found = suggest(measured, arguments.jobs, tell)
    if place_ is None:
        print(_text(found), end="")
    elif place_.is_dir():
        for name, some in _by_file(found).items():
            _append(place_ / name, texts, some)
    else:
        _append(place_, texts, found)
    for line in _told(found):
        sys.stderr.write(visible(line) + "\n")


def _texts(place_: Path) -> dict[Path, str]:
    """The files that cases may be added to, as they are while these are looked for."""
    paths = sorted(place_.glob(f"*{SUFFIX}")) if place_.is_dir() else [place_]
    return {path: normalize(read_text(path, newline="")) for path in paths if path.exists()}


def _append(path: Path, texts: Mapping[Path, str], found: Sequence[Suggested]) -> None:
    """Add the cases to the end of a file."""
    text = _text(found)
    if text:
        append(path, texts.get(path, ""), text)


def _text(found: Sequence[Suggested]) -> str:
    return write([proposal for one in found for proposal in one.proposals])


def _by_file(found: Sequence[Suggested]) -> dict[str, list[Suggested]]:
    """By the name of the file of cases that stands beside the rule's."""
    files: dict[str, list[Suggested]] = {}
    for one in found:
        files.setdefault(f"{Path(one.file).stem}{SUFFIX}", []).append(one)
    return files


def _place(text: str, measured: Mapping[Job, Sequence[Measured]]) -> Path:
    if not text.endswith(SUFFIX) and not Path(text).is_dir():
        raise error(
            "RW721", f"`{text}` is neither a folder nor a file whose name ends with `{SUFFIX}`"
        )
    if len(measured) != 1:
        hint = "name one pack, or leave out the file: the cases are printed then"
        raise error("RW721", f"cases of {len(measured)} packs cannot stand in one file", hint=hint)
    return Path(text)


def _told(found: Sequence[Suggested]) -> list[str]:
    """Doubts about rules, what nothing was found for, how much was."""
    lines = []
    for one in found:
        for doubt in one.doubts:
            keys = ", ".join(doubt.keys)
            lines.append(f"{doubt.rule}: {doubt.words} ({keys}): {doubt.problem.message}")
    for one in found:
        lines += [f"{place(i.span)}: {one.rule}: {i.key}  no case was found" for i in one.left]
    cases = sum(len(one.proposals) for one in found)
    shown = sum(len(proposal.keys) for one in found for proposal in one.proposals)
    left = sum(len(one.left) for one in found)
    show = "shows" if cases == 1 else "show"
    more = counted(shown, "more item")
    lines.append(f"{counted(cases, 'case')} {show} {more}; nothing was found for {left}")
    return lines
