"""What every command does with the terminal and with files.

In: diagnostics, texts, paths. Out: messages on stderr, files written whole or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rewrite import files
from rewrite.errors import RewriteError, error
from rewrite.told import told

Tell = Callable[[str, int, int], None]

_UTF8: Mapping[str, Any] = {"encoding": "utf-8", "errors": "replace"}  # odd bytes in paths


def complain(problem: RewriteError) -> None:
    """Diagnostics on stderr, each with the line of text it is about."""
    for text in told(problem):
        sys.stderr.write(text + "\n")


def number_from(least: int) -> Callable[[str], int]:
    """The type of an argument: a whole number, `least` or more."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"`{text}` is not a whole number, {least} or more")
        return int(text)

    return parse


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Where a model that is run gets its inputs from: `random`, a seed, or `input`, files."""
    feeds = parser.add_mutually_exclusive_group()
    seed = number_from(0)
    feeds.add_argument("--random", type=seed, default=0, metavar="SEED", help="random inputs (0)")
    feeds.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an input from a file; repeatable",
    )


def read_text(path: Path, newline: str | None = None) -> str:
    """The text of a file, with `\\n` line ends; with those that it has where `newline` is `""`."""
    try:
        if path.exists() and not path.is_file():  # a pipe would keep us waiting
            raise error("RW005", "cannot read: it is not a file", subject=str(path))
        with path.open(encoding="utf-8", newline=newline) as stream:
            return stream.read()
    except OSError as problem:
        reason = problem.strerror or str(problem)
    except UnicodeDecodeError:
        reason = "not UTF-8 text"
    raise error("RW005", f"cannot read: {reason}", subject=str(path))


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Where a link leads there the file is written; devices and pipes are written to as they are.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("w", **_UTF8) as stream:
                stream.write(text)
        else:
            with files.whole(path.resolve()) as target:
                target.write(text.encode(**_UTF8))
    except (OSError, RuntimeError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error("RW003", f"cannot write: {reason}", subject=str(path)) from None


def check_places(*places: str | os.PathLike[str] | None) -> None:
    """That files can be written there, before much is computed for them. Raises RW003.

    None and `-`, stdout, are no files.
    """
    for place in places:
        reason = None if place is None or str(place) == "-" else _obstacle(Path(place))
        if reason is not None:
            raise error("RW003", f"cannot write: {os.strerror(reason)}", subject=str(place))


def _obstacle(path: Path) -> int | None:
    """The number of the error that writing would meet."""
    try:
        path = path.resolve()
        if path.is_dir():
            return errno.EISDIR
        if path.exists():
            if not os.access(path, os.W_OK):
                return errno.EACCES
            if not path.is_file():  # a device is written to as it is
                return None
        elif not path.parent.is_dir():
            return errno.ENOTDIR if path.parent.exists() else errno.ENOENT
        return None if os.access(path.parent, os.W_OK | os.X_OK) else errno.EACCES
    except RuntimeError:  # a circle of links
        return errno.ELOOP
    except OSError as problem:
        return problem.errno


def check_folder(path: Path) -> None:
    """That the folder is there or can be made, and can be written into. Raises RW003."""
    there = next((p for p in (path, *path.absolute().parents) if os.path.lexists(p)), path)
    reason = None
    if not there.is_dir():
        reason = errno.ENOTDIR
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = errno.EACCES
    if reason is not None:
        raise error("RW003", f"cannot write: {os.strerror(reason)}", subject=str(path))


def write_json(place: str, data: object) -> None:
    """Data as JSON in a file, whole or not at all; on stdout where the place is `-`."""
    write_to(place, json.dumps(data, indent=1) + "\n")


def write_to(place: str, text: str) -> None:
    """Text in a file, whole or not at all; on stdout where the place is `-`."""
    if place == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(place), text)


def make_folder(path: Path) -> None:
    """Make a folder, and those it is in; one that is there stays. Raises RW003."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise error("RW003", f"cannot write: {reason}", subject=str(path)) from None


@contextlib.contextmanager
def working(what: str) -> Iterator[Tell | None]:
    """A progress bar on stderr while something runs; nothing where stderr is not a terminal.

    Yields the function to report with: stage, how much is done, how much is known to be left.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn())
    stage = TextColumn("{task.fields[stage]}")
    with Progress(*columns, stage, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, stage="")

        def tell(name: str, done: int, left: int) -> None:
            bar.update(task, total=done + left, completed=done, stage=name)

        yield tell
