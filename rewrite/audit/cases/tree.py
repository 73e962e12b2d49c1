"""YAML to nodes that know where they stand, within bounds.

In: the text of a file of cases. Out: its root node, or one diagnostic (RW709). Files come from
strangers: size and nesting are bounded while reading, and anchors, aliases and tags, which can make
a small text large or something else than it looks, are refused. No objects are built.
"""

from __future__ import annotations

from typing import Any

import yaml

from rewrite.errors import Diagnostic, Span

MOST_CHARACTERS = 1 << 20  # of one file
MOST_NESTING = 12
_PLAIN = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Composes nodes one by one; what is not to be read ends it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        peek: Any = self.peek_event
        event = peek()
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not read here", problem_mark=event.start_mark
            )
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="tags are not read here", problem_mark=event.start_mark
            )
        self.depth += 1
        if self.depth > MOST_NESTING:
            raise yaml.MarkedYAMLError(problem="nested too deep", problem_mark=event.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def compose(text: str, file: str) -> yaml.Node | Diagnostic | None:
    """The root node; None where the file has nothing in it."""
    if len(text) > MOST_CHARACTERS:
        message = f"the file has {len(text)} characters; at most {MOST_CHARACTERS} are read"
        return Diagnostic("RW709", message, Span(file, 1, 1, 1, 1), "split it into several files")
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        what = getattr(problem, "problem", None) or getattr(problem, "reason", None)
        span = Span(file, line, column, line, column + 1)
        return Diagnostic("RW709", str(what or "this is not YAML"), span, _hint(str(what)))


def _hint(problem: str) -> str | None:
    if "mapping keys are not allowed here" in problem:
        return "leave the value empty for `rewrite test --update` to fill it in, or quote the `?`"
    return None


def span_of(node: yaml.Node, file: str) -> Span:
    """The place of a node; of one that takes several lines only where it begins."""
    start, end = node.start_mark, node.end_mark
    column = end.column + 1 if end.line == start.line else start.column + 2
    return Span(file, start.line + 1, start.column + 1, start.line + 1, column)


def is_null(node: yaml.Node) -> bool:
    """Whether nothing is written, or `null`."""
    return bool(node.tag == f"{_PLAIN}null")
