"""Rule text to syntax tree.

In: the text of one `.rules` file. Out: `RuleFile`, or `RewriteError` with every syntax error.
After an error the parser goes on at the next line that starts with `rule`, `pattern` or `refine`.
"""

from __future__ import annotations

import re
from functools import cache
from threading import Lock

from rewrite.errors import Collector, RewriteError
from rewrite.lang import ast, syntax_errors
from rewrite.lang.build_rules import RuleBuilder
from rewrite.lang.limits import SYNTAX_ERRORS
from rewrite.lang.machine import END, Machine, Misplaced, Unreadable
from rewrite.lang.text import admissible, normalize

_ITEM = re.compile(r"^(?:rule|pattern|refine)\b", re.MULTILINE)
_lock = Lock()  # the one builder holds the state of the parse that is going on


@cache
def _machine() -> tuple[Machine, RuleBuilder]:
    builder = RuleBuilder()
    return Machine(builder), builder


def parse(text: str, file: str) -> ast.RuleFile:
    """The tree of one file. All syntax errors that can be found in one pass are raised together."""
    text = normalize(text)
    refused = admissible(text, file)
    if refused is not None:
        raise RewriteError((refused,))
    with _lock:
        machine, builder = _machine()
        errors = Collector()
        builder.begin(file, errors)
        tree = _parse_items(machine, text, file, errors)
    errors.raise_if_any()
    assert tree is not None
    return tree


def _parse_items(machine: Machine, text: str, file: str, errors: Collector) -> ast.RuleFile | None:
    """Parse; at an error blank what was read, so that positions stay, and parse the rest."""
    start = 0
    for _ in range(SYNTAX_ERRORS):
        source = "\n" * text.count("\n", 0, start) + text[start:]
        try:
            tree = machine.parse(source)
        except Misplaced as slip:
            errors.found.append(syntax_errors.token(slip, file))
            line = slip.token.line if slip.token.type != END else None
            column = slip.token.column
        except Unreadable as slip:
            errors.found.append(syntax_errors.character(slip, source, file))
            line, column = slip.line, slip.column
        else:
            assert isinstance(tree, ast.RuleFile)
            return tree
        if line is None:
            return None
        found = _next_item(text, start, _offset(text, line, column))
        if found is None:
            return None
        start = found
    return None


def _offset(text: str, line: int, column: int) -> int:
    offset = 0
    for _ in range(line - 1):
        offset = text.index("\n", offset) + 1
    return offset + column - 1


def _next_item(text: str, start: int, error: int) -> int | None:
    """Where the first item after the one with the error begins."""
    here = _ITEM.search(text, start)
    first = here.start() if here is not None else start
    following = _ITEM.search(text, max(error, first + 1))
    return None if following is None else following.start()
