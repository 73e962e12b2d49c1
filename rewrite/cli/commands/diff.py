"""Compare two models, packs or targets.

Of packs: rules that were added, removed or changed, and in what. Of targets: facts, and
the rules of their packs. With --models DIR also what the two do to each model there.
Of models: operators, nodes, types, initializers, signature and ledger; with --numeric
also the numbers on random inputs, layer by layer, in steps (LSB) of the last
quantization: the first layer that differs, a histogram of its differences, and why.
The exact oracle computes them, or onnxruntime; one model compared with itself in the
two shows where a kernel differs. The exit status is 1 if anything differs (with
--numeric: any number).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewrite import resources
from rewrite.cli.console import check_places, working, write_json
from rewrite.errors import RewriteError, error, visible

if TYPE_CHECKING:
    from rewrite.audit.layers import Runtime
    from rewrite.cli.effects import Side
    from rewrite.lang.pack import RulePack

RUNTIMES = ("oracle", "onnxruntime")


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "before",
        metavar="A",
        help="a model, a pack or a target: its path, or the name of a shipped one",
    )
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
    add("--models", metavar="DIR", type=Path, help="what two packs or targets do to these models")
    add("--target", metavar="T", help="the target that two packs are added to (generic)")
    add("--json", metavar="FILE", help="the report as JSON; - for stdout, instead of the text")


def run(arguments: argparse.Namespace) -> int:
    check_places(arguments.json)
    names = (arguments.before, arguments.after)
    kinds = [_kind(name) for name in names]
    if kinds[0] != kinds[1]:
        if "model" in kinds:
            _demand_known(names[kinds.index("model")])
        raise _misused(f"`{names[0]}` is a {kinds[0]} and `{names[1]}` is a {kinds[1]}")
    kind = kinds[0]
    if arguments.numeric and kind != "model":
        raise _misused("--numeric is for models, not for packs and targets")
    if arguments.models is not None and kind == "model":
        raise _misused("--models is for packs and targets, not for models")
    if arguments.target is not None and (kind != "pack" or arguments.models is None):
        raise _misused("--target is for two packs, with --models")
    return {"model": _models, "pack": _packs, "target": _targets}[kind](arguments)


def _misused(message: str, hint: str | None = None) -> RewriteError:
    return error("RW002", message, hint=hint or "rewrite diff --help")


def _kind(name: str) -> str:
    """Whether a name is that of a pack, a target or a model; packs and files come first."""
    if _pack_folder(name) is not None:
        return "pack"
    if name.endswith((".yaml", ".yml")):
        return "target"
    is_target = name in resources.shipped("targets")
    return "target" if is_target and not os.path.lexists(name) else "model"


def _demand_known(name: str) -> None:
    """Whatever is not a pack or a target is a model, unless there is no such file."""
    if os.path.lexists(name):
        return
    from rewrite.lang.words import suggestion

    message = f"`{name}` is neither a file nor the name of a pack or a target"
    known = [*resources.shipped("rules"), *resources.shipped("targets")]
    raise _misused(message, suggestion(name, known))


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


def _packs(arguments: argparse.Namespace) -> int:
    from rewrite.audit.diff import packs
    from rewrite.cli import difference

    folders = [_folder(name) for name in (arguments.before, arguments.after)]
    found = [_load(folder) for folder in folders]
    report = packs.compare(found[0], found[1])
    lines = list(difference.packs_text(report))
    same = packs.same(report)
    if arguments.models is not None:
        from rewrite.api import find_target
        from rewrite.cli.effects import Side

        target = find_target(arguments.target or "generic")
        names = {pack.name for pack in found}
        others = replace(target, packs=tuple(p for p in target.packs if p not in names))
        same &= _effects(arguments, report, lines, [Side(others, (f,)) for f in folders])
    _write(arguments, report, lines)
    return 0 if same else 1


def _folder(name: str) -> Path:
    folder = _pack_folder(name)
    assert folder is not None  # `run` has looked
    return folder


def _targets(arguments: argparse.Namespace) -> int:
    from rewrite.api import find_target
    from rewrite.audit.diff import targets
    from rewrite.cli import difference
    from rewrite.cli.effects import Side
    from rewrite.lang.pack import load_packs
    from rewrite.match.vocabulary import vocabulary

    found = [find_target(name) for name in (arguments.before, arguments.after)]
    search = [resources.folder("rules")]
    rules = [
        load_packs([_named(pack) for pack in target.packs], vocabulary(), search)
        for target in found
    ]
    report = targets.compare(found[0], found[1], (rules[0], rules[1]))
    lines = list(difference.targets_text(report))
    same = targets.same(report)
    if arguments.models is not None:
        same &= _effects(arguments, report, lines, [Side(target) for target in found])
    _write(arguments, report, lines)
    return 0 if same else 1


def _named(pack: str) -> str | Path:
    return pack if pack in resources.shipped("rules") else Path(pack)


def _effects(
    arguments: argparse.Namespace, report: dict[str, Any], lines: list[str], sides: list[Side]
) -> bool:
    """Add what the two sides do to the models; whether it is the same."""
    from rewrite.cli import difference, effects

    with working(f"rewriting the models of {arguments.models}") as tell:
        report["effects"] = effects.compare(sides, arguments.models, tell)
    lines += difference.effects_text(report["effects"])
    return not report["effects"]["differing"]


# --- models -----------------------------------------------------------------------------------


def _models(arguments: argparse.Namespace) -> int:
    from rewrite.audit.diff import models
    from rewrite.cli import difference
    from rewrite.graph import io

    loaded = [io.load(Path(name)) for name in (arguments.before, arguments.after)]
    report = models.compare(loaded[0], loaded[1])
    if not arguments.numeric:
        _write(arguments, report, difference.models_text(report))
        return 0 if models.same(report) else 1
    found = _numbers(arguments)
    report["numbers"] = found
    lines = [*difference.models_text(report), *difference.numbers_text(found)]
    _write(arguments, report, lines)
    return 0 if found["equal"] else 1


def _numbers(arguments: argparse.Namespace) -> dict[str, Any]:
    from rewrite.audit.feeds import NoFeedsError
    from rewrite.audit.layers import compare_layers
    from rewrite.audit.oracle.step import OracleError
    from rewrite.audit.runtimes import CannotRunError, has_onnxruntime
    from rewrite.cli import difference

    runtimes: tuple[Runtime, Runtime] = arguments.runtime
    if "onnxruntime" in runtimes and not has_onnxruntime():
        raise error(
            "RW707", "onnxruntime is not installed", hint="`--runtime oracle` works without it"
        )
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


def _write(arguments: argparse.Namespace, report: dict[str, Any], lines: Iterable[str]) -> None:
    if arguments.json is not None:
        write_json(arguments.json, report)
    if arguments.json != "-":
        print("\n".join(map(visible, lines)))
