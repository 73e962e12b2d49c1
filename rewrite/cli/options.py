"""Options that several commands have.

In: the parser of a command. Out: nothing; the parser has the options.
"""

from __future__ import annotations

import argparse
import os

from rewrite.cli.console import number_from
from rewrite.cli.packs import HELP
from rewrite.engine.ledger import CLASSES


def add_tested(parser: argparse.ArgumentParser) -> None:
    """What is tested: `path` the packs, `rule` some of their rules, `target` where they are tried;
    `jobs`: in how many processes."""
    add = parser.add_argument
    add("path", nargs="+", metavar="PATH", help=HELP)
    add("--rule", action="append", default=[], metavar="R", help="only this rule; repeatable")
    add(
        "--target",
        action="append",
        metavar="T",
        help="a name from `rewrite targets`, or a .yaml file; repeatable (all shipped ones). Rules "
        "that ask for the target are tried on each, others on the first",
    )
    jobs, cores = number_from(1), os.cpu_count() or 1
    add("-j", "--jobs", type=jobs, default=cores, metavar="N", help="processes (one per core)")


def add_rewriting(parser: argparse.ArgumentParser) -> None:
    """What a model is rewritten with: `target`, further packs `rules`, `max_class`."""
    add = parser.add_argument
    name = "a name from `rewrite targets`, or a .yaml file"
    add("--target", required=True, metavar="T", help=name)
    more = "one more pack, a folder or the name of a shipped one; repeatable"
    add("--rules", metavar="DIR", action="append", default=[], help=more)
    add("--max-class", choices=CLASSES, help="use only rules that claim this or better")
