"""List targets, or show one.

NAME is a shipped target or the path of a .yaml file; a file is checked in full.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rewrite import resources


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME")


def run(arguments: argparse.Namespace) -> int:
    from rewrite.target.load import load_target

    if arguments.name is None:
        names = resources.shipped("targets")
        width = max(map(len, names), default=0)
        for name in names:
            print(f"{name:{width}}  {load_target(name, None).doc}")
        return 0
    for line in _describe(arguments.name):
        print(line)
    return 0


def _describe(name: str) -> Iterator[str]:
    from rewrite.match.vocabulary import vocabulary
    from rewrite.target.load import load_target

    target = load_target(name, vocabulary())
    yield f"{target.name}: {target.doc}"
    yield f"  file       {target.file}"
    if target.extends:
        yield f"  extends    {target.extends}"
    yield f"  packs      {', '.join(target.packs)}"
    yield f"  opset      {target.opset[0]} to {target.opset[1]}"
    standard = target.operators is None
    yield f"  operators  {'all standard ones' if standard else len(target.operators or ())}"
    if target.groups:
        yield f"  groups     {', '.join(target.kinds) or 'none'}"
    else:
        yield "  groups     not taken; the result is plain ONNX"
    for row in target.dtypes:
        bias = f" + {row.bias}" if row.bias else ""
        yield f"  arithmetic {row.activation} x {row.weight}{bias} in {row.accumulator}"
    if target.isa:
        yield f"  isa        {' '.join([target.isa.triple, target.isa.cpu, *target.isa.features])}"
    if target.vector_bytes:
        yield f"  vectors    {target.vector_bytes} bytes, aligned to {target.align_bytes or '?'}"
    if target.sources:
        yield "  sources"
        for fact, source in target.sources.items():
            yield f"    {fact or 'all'}: {source}"
