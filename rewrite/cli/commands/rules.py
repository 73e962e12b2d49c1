"""List packs and rules, or show one.

NAME is a shipped pack, a rule of one, or the folder of a pack.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rewrite import resources
from rewrite.errors import error

if TYPE_CHECKING:
    from rewrite.lang.ast import Claim, Rule
    from rewrite.lang.pack import RulePack


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME")


def run(arguments: argparse.Namespace) -> int:
    for line in _lines(arguments.name):
        print(line)
    return 0


def _lines(name: str | None) -> Iterator[str]:
    shipped = resources.shipped("rules")
    if name is None:
        for path in shipped.values():
            yield from _pack(_load(path))
    elif name in shipped:
        yield from _pack(_load(shipped[name]))
    elif _is_pack(name):
        yield from _pack(_load(Path(name)))
    else:
        yield from _rule(name, [_load(path) for path in shipped.values()])


def _is_pack(name: str) -> bool:
    try:
        return (Path(name) / "pack.yaml").exists()
    except OSError:  # a name too long to be one
        return False


def _load(folder: Path) -> RulePack:
    from rewrite.lang.pack import load_pack
    from rewrite.match.vocabulary import vocabulary

    return load_pack(folder, vocabulary(), [resources.folder("rules")])


def _pack(pack: RulePack) -> Iterator[str]:
    own = [rule for rule in pack.rules if pack.origins[rule.name].pack == pack.name]
    more = len(pack.rules) - len(own)
    inherited = f", and {more} of packs that it extends" if more else ""
    count = f"{len(own)} rule{'' if len(own) == 1 else 's'}"
    yield f"{pack.name}: {pack.doc} ({count}{inherited})"
    width = max((len(rule.name) for rule in own), default=0)
    for rule in own:
        yield f"  {rule.name:{width}}  {_claim(rule.claim):22}  {_summary(rule)}"


def _rule(name: str, packs: list[RulePack]) -> Iterator[str]:
    for pack in packs:
        for rule in pack.rules:
            if rule.name == name:
                yield from _whole(rule, pack)
                return
    from rewrite.lang.words import suggestion

    names = [p.name for p in packs] + [rule.name for p in packs for rule in p.rules]
    hint = suggestion(name, names) or "`rewrite rules` lists them"
    raise error("RW004", f"no pack or rule is called `{name}`", hint=hint)


def _whole(rule: Rule, pack: RulePack) -> Iterator[str]:
    """The rule as it stands in its file."""
    yield f"{rule.span.file}:{rule.span.line}, pack {pack.name}"
    text = Path(rule.span.file).read_text(encoding="utf-8").splitlines()
    yield from text[rule.span.line - 1 : rule.span.end_line]


def _summary(rule: Rule) -> str:
    return " ".join(rule.doc.split())


def _claim(claim: Claim) -> str:
    from rewrite.engine.ledger import Bound

    if claim.kind == "certified":
        return "certified"
    return str(Bound.of(claim))
