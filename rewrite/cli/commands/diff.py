"""Compare two packs or two models.

Of packs: rules that were added, removed or changed. Of models: operators, signature and
ledger; with --numeric also the numbers, layer by layer, in steps (LSB) of the last
quantization, on random inputs: the first layer that differs, a histogram of its
differences, and why. The exact oracle computes them, or onnxruntime; a model and itself
in the two shows where a kernel differs. The exit status is 1 if anything differs (with
--numeric: any number).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite import resources
from rewrite.cli.console import working, write_text
from rewrite.errors import error, visible

if TYPE_CHECKING:
    from rewrite.audit.layers import Runtime
    from rewrite.lang.pack import RulePack

RUNTIMES = ("oracle", "onnxruntime")


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("before", metavar="A", help="a model, the folder of a pack, or the name of a shipped one")
    add("after", metavar="B", help="another one")
    add("--numeric", action="store_true", help="compare the numbers of two models")
    add("--runs", metavar="N", type=_count, default=2, help="how many random inputs (2)")
    add("--seed", metavar="S", type=_seed, default=0, help="which random inputs (0)")
    add(
        "--runtime",
        metavar="R[,R]",
        type=_runtimes,
        default=("oracle", "oracle"),
        help="oracle or onnxruntime: one for both models, or one for each (oracle)",
    )
    add("--json", metavar="FILE", help="the report as JSON; - for stdout, instead of the text")


def run(arguments: argparse.Namespace) -> int:
    folders = [_pack_folder(name) for name in (arguments.before, arguments.after)]
    if all(folders):
        return _packs(arguments, [folder for folder in folders if folder is not None])
    if any(folders):
        pack, other = arguments.before, arguments.after
        if folders[0] is None:
            pack, other = other, pack
        message = f"`{pack}` is a pack and `{other}` is not"
        raise error("RW002", message, hint="rewrite diff --help")
    return _models(arguments)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of runs, 1 to 1000")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"`{text}` is not a seed, a number from 0 on")
    return int(text)


def _runtimes(text: str) -> tuple[str, str]:
    names = text.split(",")
    if not 1 <= len(names) <= 2 or any(name not in RUNTIMES for name in names):
        raise argparse.ArgumentTypeError(f"`{text}` is not oracle, onnxruntime or two of them")
    return names[0], names[-1]


# --- packs ------------------------------------------------------------------------------------


def _pack_folder(name: str) -> Path | None:
    """The folder of a pack; None where the name is not one."""
    try:
        if (Path(name) / "pack.yaml").exists():
            return Path(name)
    except (OSError, ValueError):  # a name too long to be a file, or with a NUL
        return None
    if Path(name).exists():
        return None
    return resources.shipped("rules").get(name)


def _load(folder: Path) -> RulePack:
    from rewrite.lang.pack import load_pack
    from rewrite.match.vocabulary import vocabulary

    return load_pack(folder, vocabulary(), [resources.folder("rules")])


def _packs(arguments: argparse.Namespace, folders: list[Path]) -> int:
    from rewrite.cli import difference

    if arguments.numeric:
        raise error("RW002", "--numeric compares models", hint="rewrite diff --help")
    report = difference.packs(_load(folders[0]), _load(folders[1]))
    _write(arguments, report, difference.packs_text(report))
    return 0 if difference.same_packs(report) else 1


# --- models -----------------------------------------------------------------------------------


def _models(arguments: argparse.Namespace) -> int:
    from rewrite.cli import difference
    from rewrite.graph import io

    loaded = [io.load(Path(name)) for name in (arguments.before, arguments.after)]
    report = difference.models(loaded[0], loaded[1])
    if not arguments.numeric:
        _write(arguments, report, difference.models_text(report))
        return 0 if difference.same_models(report) else 1
    found = _numbers(arguments)
    report["numbers"] = found
    lines = [*difference.models_text(report), *difference.numbers_text(found)]
    _write(arguments, report, iter(lines))
    return 0 if found["equal"] else 1


def _numbers(arguments: argparse.Namespace) -> dict[str, Any]:
    from rewrite.audit.feeds import NoFeedsError
    from rewrite.audit.layers import compare_layers
    from rewrite.audit.oracle.step import OracleError
    from rewrite.audit.runtimes import CannotRunError, has_onnxruntime
    from rewrite.cli import difference

    runtimes: tuple[Runtime, Runtime] = arguments.runtime
    if "onnxruntime" in runtimes and not has_onnxruntime():
        raise error("RW707", "onnxruntime is not installed", hint="--runtime oracle needs it not")
    try:
        with working(f"comparing {Path(arguments.before).name} and {Path(arguments.after).name}"):
            found = compare_layers(
                Path(arguments.before),
                Path(arguments.after),
                arguments.runs,
                arguments.seed,
                runtimes,
            )
    except (OracleError, NoFeedsError, CannotRunError) as problem:
        subject = f"{arguments.before}, {arguments.after}"
        raise error("RW707", f"cannot compare: {problem}", subject=subject) from None
    return difference.numbers(found)


def _write(arguments: argparse.Namespace, report: dict[str, Any], lines: Iterator[str]) -> None:
    text = json.dumps(report, indent=2) + "\n"
    if arguments.json == "-":
        sys.stdout.write(text)
        return
    if arguments.json:
        write_text(Path(arguments.json), text)
    print("\n".join(visible(line) for line in lines))
