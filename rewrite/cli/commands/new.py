"""Begin a pack, a rule or a target.

`pack NAME` makes a folder with a pack, `rule NAME` a rule in the pack of this folder
(or --pack), `target NAME` the file NAME.yaml. What is made passes `test`, `lint` and
`verify` as it is. Nothing that exists is overwritten.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rewrite.errors import error
from rewrite.lang.vocabulary import PHASES


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kind", choices=("pack", "rule", "target"))
    add("name", metavar="NAME")
    add("--in", dest="folder", metavar="DIR", type=Path, help="where a pack or target is made (.)")
    add("--pack", metavar="DIR", type=Path, help="the pack that a rule is made in (.)")
    add("--phase", choices=PHASES[:-1], help="the phase of a rule (clean)")
    add(
        "--packs",
        metavar="P,...",
        help="the packs of a target (algebra,fusion and those beside it)",
    )


def run(arguments: argparse.Namespace) -> int:
    _check_options(arguments)
    made = {"pack": _pack, "rule": _rule, "target": _target}[arguments.kind](arguments)
    for path in made:
        print(path)
    return 0


def _check_options(arguments: argparse.Namespace) -> None:
    """Each option is about some kinds only."""
    meant = {"pack": ("folder",), "rule": ("pack", "phase"), "target": ("folder", "packs")}
    words = {"folder": "--in", "pack": "--pack", "phase": "--phase", "packs": "--packs"}
    for option, word in words.items():
        if getattr(arguments, option) is not None and option not in meant[arguments.kind]:
            raise error("RW002", f"{word} is not for a {arguments.kind}")


def _pack(arguments: argparse.Namespace) -> list[Path]:
    from rewrite.cli import scaffold

    files = scaffold.pack(arguments.name)
    folder = (arguments.folder or Path()) / arguments.name
    try:
        folder.mkdir()
    except FileExistsError:
        raise _exists(folder) from None
    except OSError as problem:
        reason = f"cannot write: {problem.strerror or problem}"
        raise error("RW003", reason, subject=str(folder)) from None
    try:
        return [_written(folder / file.name, file.text) for file in files]
    except BaseException:  # half a pack would be in the way of the next attempt
        for file in files:
            (folder / file.name).unlink(missing_ok=True)
        folder.rmdir()
        raise


def _rule(arguments: argparse.Namespace) -> list[Path]:
    from rewrite.cli import scaffold
    from rewrite.cli.console import read_text

    scaffold.check_rule(arguments.name)
    folder = arguments.pack or Path()
    if not (folder / "pack.yaml").is_file():
        hint = "--pack DIR names the folder of a pack; `rewrite new pack NAME` makes one"
        raise error("RW752", "there is no pack here", hint=hint, subject=str(folder))
    texts = [read_text(path) for path in sorted(folder.glob("*.rules"))]
    file = scaffold.rule(arguments.name, arguments.phase or "clean", texts)
    _check_new(arguments.name, folder)
    return [_written(folder / file.name, file.text)]


def _check_new(name: str, folder: Path) -> None:
    """The pack must load, and have no rule of the name, its own or from packs that it extends."""
    from rewrite import resources
    from rewrite.lang.pack import load_pack
    from rewrite.match.vocabulary import vocabulary

    pack = load_pack(folder, vocabulary(), [resources.folder("rules")])
    origin = pack.origins.get(name)
    if origin is not None:
        message = f"pack `{origin.pack}` has a rule `{name}` already"
        raise error("RW751", message, hint="choose another name", subject=str(folder))


def _target(arguments: argparse.Namespace) -> list[Path]:
    from rewrite.cli import scaffold

    folder = arguments.folder or Path()
    if arguments.packs is None:
        beside = sorted(path.parent.name for path in folder.glob("*/pack.yaml"))
        packs = ["algebra", "fusion", *beside]
    else:
        packs = [word.strip() for word in arguments.packs.split(",") if word.strip()]
    file = scaffold.target(arguments.name, packs)
    return [_written(folder / file.name, file.text)]


def _written(path: Path, text: str) -> Path:
    from rewrite.cli.console import write_text

    if path.exists() or path.is_symlink():
        raise _exists(path)
    write_text(path, text)
    return path


def _exists(path: Path) -> Exception:
    return error("RW751", "it exists already", hint="choose another name", subject=str(path))
