"""Say why a rule does not apply to a model.

With --rule and --node: the smallest set of facts that would have to be different at
that node, each with a reason code and its place in the rule; for a node that is gone,
which rule took it. With --rule alone: where in the whole model the rule nearly
applies, by reason. With --node alone: what every rule of the target says about it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rewrite.cli.console import check_places, working, write_json
from rewrite.cli.options import add_rewriting
from rewrite.engine.ledger import CLASSES
from rewrite.errors import error, visible


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", type=Path, help="an ONNX file")
    add_rewriting(parser)
    add("--rule", metavar="R", help="the name of a rule")
    add("--node", metavar="N", help="the name of a node, or of one of its outputs")
    add("--json", metavar="FILE", help="the answer as JSON; - for stdout, instead of the text")


def run(arguments: argparse.Namespace) -> int:
    if arguments.rule is None and arguments.node is None:
        message = "give --rule, --node or both: what is to be explained?"
        raise error("RW002", message, hint="rewrite explain --help")
    check_places(arguments.json)
    from rewrite.api import find_target, matcher_for
    from rewrite.audit.explain.answer import answer, text
    from rewrite.audit.explain.story import tell

    limit = arguments.max_class or CLASSES[-1]
    target = find_target(arguments.target)
    matcher = matcher_for(target, arguments.rules, limit)
    with working(f"rewriting {arguments.model.name}"):
        story = tell(arguments.model, target, matcher, limit)
    found = answer(story, arguments.rule, arguments.node)
    if arguments.json is not None:
        write_json(arguments.json, found.to_json())
    if arguments.json != "-":
        print("\n".join(map(visible, text(found))))
    return 0
