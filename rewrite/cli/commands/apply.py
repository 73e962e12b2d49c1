"""Rewrite a model for a target.

Writes MODEL.TARGET.onnx beside the model unless -o names another file, and a report
on stdout. The model itself is never changed, and the output is written whole or not
at all. With --verify N the result is checked before it is written, and both models
are run N times on random inputs and compared within what the ledger allows; the exit
status is 1 if they differ or cannot be run.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite.cli.console import Tell, number_from, working, write_text
from rewrite.cli.options import add_rewriting
from rewrite.engine.ledger import CLASSES
from rewrite.errors import error, visible
from rewrite.graph import collector

if TYPE_CHECKING:
    from rewrite.api import Result
    from rewrite.audit.verify import Verification


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="an ONNX file")
    add_rewriting(parser)
    add("-o", "--output", metavar="OUT", type=Path, help="where to write (MODEL.TARGET.onnx)")
    add(
        "--verify",
        metavar="N",
        type=number_from(1),
        default=0,
        help="compare N runs with the original",
    )
    add("--json", metavar="FILE", help="the report as JSON; - for stdout, instead of the text")
    add("--report", metavar="FILE.html", type=Path, help="the report as a page")
    add("--trace", metavar="FILE", type=Path, help="every step, one JSON object a line")
    add("--dry-run", action="store_true", help="report only, write no model")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.cli import report as reports

    output = None if arguments.dry_run else _output(arguments)
    json_file = None if arguments.json in (None, "-") else Path(arguments.json)
    _check_places(
        {
            "--output": output,
            "--json": json_file,
            "--report": arguments.report,
            "--trace": arguments.trace,
        },
        arguments.model,
    )
    with working(f"rewriting {arguments.model.name}") as tell:
        result = _rewrite(arguments, output, tell)
    verification = None
    if arguments.verify:
        with working(f"comparing with {arguments.model.name}"):
            verification = _verify(arguments, result, output)
    name = None if output is None else str(output)
    report = reports.build(result, str(arguments.model), name, verification)
    if arguments.report:
        with working(f"drawing {arguments.model.name}"):
            page = _page(arguments, result, report)
        write_text(arguments.report, page)
    if arguments.trace:
        write_text(arguments.trace, "".join(reports.trace(result)))
    if json_file:
        write_text(json_file, reports.to_json(report))
    if arguments.json == "-":
        sys.stdout.write(reports.to_json(report))
    else:
        print("\n".join(map(visible, reports.text(report))))
    return 0 if verification is None or verification.ok else 1


def _output(arguments: argparse.Namespace) -> Path:
    """Where the model goes: beside the input, named after both."""
    model: Path = arguments.model
    if arguments.output is not None:
        given: Path = arguments.output
        return given
    if not model.name:
        raise error("RW005", "cannot read: Is a directory", subject=str(model))
    target = Path(arguments.target)
    name = target.stem if target.suffix in (".yaml", ".yml") else target.name
    return model.with_name(f"{model.stem}.{name}.onnx")


def _check_places(places: dict[str, Path | None], model: Path) -> None:
    """No two outputs are one file, and each can be written as far as is known before the work."""
    options: dict[Path, str] = {}
    for option, place in places.items():
        if place is None:
            continue
        _check_place(place, model)
        if place.exists() and not place.is_file():
            continue  # a device, a pipe
        other = options.setdefault(place.resolve(), option)
        if other != option:
            raise error("RW002", f"{other} and {option} name one file", subject=str(place))


def _check_place(place: Path, model: Path) -> None:
    """What can be known before the work about a file to be written; never the input."""
    try:
        place.stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as problem:  # a name too long, a circle of links, a NUL
        reason = getattr(problem, "strerror", None) or str(problem)
        raise error("RW003", f"cannot write: {reason}", subject=str(place)) from None
    if _one_file(place, model):
        hint = "name another file with -o"
        raise error("RW006", "the output is the input", hint=hint, subject=str(place))
    if place.is_dir():
        raise error("RW003", "cannot write: Is a directory", subject=str(place))
    if not place.parent.is_dir():
        raise error("RW003", "cannot write: No such file or directory", subject=str(place))
    device = place.exists() and not place.is_file()
    if not os.access(place if device else place.parent, os.W_OK):
        hint = "-o, --json, --report and --trace name the places"
        raise error("RW003", "cannot write: Permission denied", hint=hint, subject=str(place))


def _one_file(place: Path, model: Path) -> bool:
    try:
        return place.samefile(model)
    except OSError:  # one of them is not there
        return False


def _rewrite(arguments: argparse.Namespace, output: Path | None, tell: Tell | None) -> Result:
    with collector.paused():  # there is no garbage among what modules make
        from rewrite.api import apply

    result = apply(
        arguments.model,
        target=arguments.target,
        rules=arguments.rules,
        max_class=arguments.max_class,
        progress=tell,
    )
    if arguments.verify:
        from rewrite.graph.validate import check_graph

        check_graph(result.loaded)
    if output is not None:
        result.save(output)
    return result


def _page(arguments: argparse.Namespace, result: Result, report: dict[str, Any]) -> str:
    """The report as a page; what the model was is read once more."""
    from rewrite.api import find_target, matcher_for
    from rewrite.graph import io
    from rewrite.report.page import Run, page

    target = find_target(arguments.target)
    matcher = matcher_for(target, arguments.rules, arguments.max_class or CLASSES[-1])
    with collector.paused():
        before = io.load(arguments.model)
    return page(report, Run(before, result.loaded, result.journal, target, matcher))


def _verify(arguments: argparse.Namespace, result: Result, output: Path | None) -> Verification:
    from rewrite.audit.apart import compare

    if output is not None:
        return compare(arguments.model, output, arguments.verify, result.ledger)
    import tempfile

    from rewrite.graph import io

    with tempfile.TemporaryDirectory(prefix="rewrite-") as folder:
        path = Path(folder) / "rewritten.onnx"
        io.save(result.loaded, path)
        return compare(arguments.model, path, arguments.verify, result.ledger)
