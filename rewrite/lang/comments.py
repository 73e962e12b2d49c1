"""Comments of rule text, and the nodes that they belong to.

In: the text and the tree of a file. Out: `Comments`: for each node that is printed on a line of its
own, the comments before it and the one at its end. A comment inside a longer node moves before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.text import position

_TOKEN = re.compile(r'"""(?s:.*?)"""|"(?:[^"\\\n]|\\.)*"|#[^\n]*')

Key = tuple[type, Span]


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    line: int
    column: int
    alone: bool  # on its line
    apart: bool  # a blank line follows


@dataclass(slots=True)
class Attached:
    before: list[Comment] = field(default_factory=list)
    after: list[Comment] = field(default_factory=list)  # at the end of its line
    closing: list[Comment] = field(default_factory=list)  # before the `}` of a rule
    opening: list[Comment] = field(default_factory=list)  # at the end of the first line of a rule


@dataclass(slots=True)
class Comments:
    of: dict[Key, Attached] = field(default_factory=dict)
    last: list[Comment] = field(default_factory=list)  # after the last item

    def get(self, node: ast.Node) -> Attached:
        return self.of.get((type(node), node.span)) or Attached()

    def put(self, node: ast.Node) -> Attached:
        return self.of.setdefault((type(node), node.span), Attached())


def find_comments(text: str) -> list[Comment]:
    """Every comment, in order."""
    found: list[Comment] = []
    for match in _TOKEN.finditer(text):
        if not match[0].startswith("#"):
            continue
        line, column = position(text, match.start())
        start = match.start() - column + 1
        alone = not text[start : match.start()].strip()
        rest = text[match.end() + 1 :].split("\n", 1)[0]
        ends = match.end() >= len(text) - 1
        apart = not ends and not rest.strip()
        found.append(Comment(match[0].rstrip(), line, column, alone, apart))
    return found


def attach(text: str, tree: ast.RuleFile) -> Comments:
    """Give each comment to a node."""
    comments = Comments()
    items = sorted(
        (*tree.patterns, *tree.rules, *tree.refinements),
        key=lambda n: (n.span.line, n.span.column),
    )
    for comment in find_comments(text):
        _place(comment, items, comments)
    return comments


def _place(comment: Comment, items: list[ast.Node], comments: Comments) -> None:
    inside = _containing(comment, items)
    if inside is None:
        ended = [n for n in items if n.span.end_line == comment.line and not comment.alone]
        following = next((n for n in items if _starts_after(n, comment)), None)
        if ended and not isinstance(ended[-1], ast.Rule):
            comments.put(ended[-1]).after.append(comment)
        elif ended:
            comments.put(ended[-1]).closing.append(comment)
        elif following is not None:
            comments.put(following).before.append(comment)
        else:
            comments.last.append(comment)
        return
    if isinstance(inside, ast.Rule) and comment.line == inside.span.line:
        comments.put(inside).opening.append(comment)
        return
    _place_inside(comment, inside, comments)


def _place_inside(comment: Comment, item: ast.Node, comments: Comments) -> None:
    anchors = list(_anchors(item))
    around = _containing(comment, anchors)
    if around is not None:
        _place_in_branches(comment, around, comments)
        return
    ended = [n for n in anchors if n.span.end_line == comment.line and not comment.alone]
    if ended:
        comments.put(ended[-1]).after.append(comment)
        return
    following = next((n for n in anchors if _starts_after(n, comment)), None)
    if following is not None:
        comments.put(following).before.append(comment)
    else:
        comments.put(item).closing.append(comment)


def _place_in_branches(comment: Comment, node: ast.Node, comments: Comments) -> None:
    """Inside a node: at a branch of its alternative if it stands between two, else before all."""
    branches = _branches(node)
    before = [b for b in branches if not _starts_after(b, comment)]
    after = [b for b in branches if _starts_after(b, comment)]
    if _containing(comment, branches) is not None:
        comments.put(node).before.append(comment)
    elif comment.alone and after:
        comments.put(after[0]).before.append(comment)
    elif before:
        comments.put(before[-1]).after.append(comment)
    else:
        comments.put(node).before.append(comment)


def _anchors(item: ast.Node) -> Iterable[ast.Node]:
    """The nodes inside an item that begin a line, in text order."""
    if isinstance(item, ast.Rule):
        group = () if item.group is None else (item.group,)
        yield from item.match
        yield from item.steps
        yield from item.emit
        yield from group
        yield item.claim
        yield from item.examples
    elif isinstance(item, ast.Refine):
        yield from item.where
    elif isinstance(item, ast.PatternDef):
        yield item


def _branches(node: ast.Node) -> list[ast.Node]:
    """The branches of a statement or definition that is an alternative."""
    if isinstance(node, ast.MatchStatement | ast.PatternDef) and isinstance(
        node.pattern, ast.Alternatives
    ):
        return list(node.pattern.branches)
    return []


def _containing(comment: Comment, nodes: Iterable[ast.Node]) -> ast.Node | None:
    here = (comment.line, comment.column)
    for node in nodes:
        span = node.span
        if (span.line, span.column) <= here < (span.end_line, span.end_column):
            return node
    return None


def _starts_after(node: ast.Node, comment: Comment) -> bool:
    return (node.span.line, node.span.column) > (comment.line, comment.column)
