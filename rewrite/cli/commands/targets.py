"""List targets, or show one.

NAME is a shipped target or the path of a .yaml file; a file is checked in full.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from rewrite import resources
from rewrite.errors import visible

if TYPE_CHECKING:
    from rewrite.target.target import Target


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.target.load import load_target

    if arguments.name is None:
        names = resources.shipped("targets")
        width = max(map(len, names), default=0)
        for name in names:
            print(visible(f"{name:{width}}  {load_target(name, None).doc}"))
        return 0
    for line in _describe(arguments.name):
        print(visible(line))
    return 0


def _describe(name: str) -> Iterator[str]:
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    target = load_target(name, vocabulary())
    yield f"{target.name}: {target.doc}"
    yield f"  file       {target.file}"
    if target.extends:
        yield f"  extends    {target.extends}"
    yield f"  packs      {', '.join(target.packs) or 'none'}"
    yield f"  opset      {target.opset[0]} to {target.opset[1]}"
    yield from _operators(target)
    yield from _machine(target)
    if target.sources:
        yield "  sources"
        yield from _sources(target.sources)


def _operators(target: Target) -> Iterator[str]:
    """What it takes, and how it computes."""
    standard = target.operators is None
    yield f"  operators  {'all standard ones' if standard else len(target.operators or ())}"
    if target.limits:
        count = len(target.limits)
        yield f"  limits     of {count} operator{'' if count == 1 else 's'}"
    if target.groups:
        yield f"  groups     {', '.join(target.kinds) or 'none'}"
    else:
        yield "  groups     not taken; the result is plain ONNX"
    for row in target.dtypes:
        bias = f" + {row.bias}" if row.bias else ""
        yield f"  arithmetic {row.activation} x {row.weight}{bias} in {row.accumulator}"
    if target.requantize:
        how = target.requantize
        point = how.zero_point.replace("_", " ")
        yield f"  requantize {how.mode}, {how.rounding}, zero point {point}"


def _machine(target: Target) -> Iterator[str]:
    """The hardware."""
    if target.isa:
        words = (target.isa.triple, target.isa.cpu, *target.isa.features)
        yield f"  isa        {' '.join(word for word in words if word)}"
    if target.vector_bytes:
        aligned = f", aligned to {target.align_bytes}" if target.align_bytes else ""
        yield f"  vectors    {target.vector_bytes} bytes{aligned}"
    for name, memory in target.memories.items():
        yield f"  memory     {name}, {memory.bytes:,} bytes"
    for layout in target.layouts:
        tiles = "".join(f" {axis}{size}" for axis, size in layout.tile.items())
        yield f"  layout     {layout.name}, {layout.order}{tiles}"
    for name, value in dataclasses.asdict(target.cost).items():
        if value is not None:
            yield f"  cost       {name} {value:g}"


def _sources(sources: Mapping[str, str]) -> Iterator[str]:
    """Where each fact comes from; neighbours in a list that share a source are one row."""
    for (_, source), rows in groupby(sources.items(), key=lambda row: (_list(row[0]), row[1])):
        facts = [fact or "all" for fact, _ in rows]
        yield f"    {facts[0]}{f' to {facts[-1]}' if len(facts) > 1 else ''}: {source}"


def _list(fact: str) -> str:
    """`fused` of `fused[3]`; a fact that is in no list is itself."""
    return fact.rpartition("[")[0] or fact if fact.endswith("]") else fact
