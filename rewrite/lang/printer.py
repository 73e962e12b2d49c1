"""Rules as canonical text, and the formatter behind `rewrite fmt`.

In: a tree, or text with comments. Out: text; parsing it gives the same tree. The formatter keeps
every comment, or refuses (RW120).
"""

from __future__ import annotations

from collections.abc import Sequence

from rewrite.errors import error
from rewrite.lang import ast
from rewrite.lang.comments import Attached, Comment, Comments, attach, find_comments
from rewrite.lang.layout import HARD, Break, Doc, Group, Nest, fill, render
from rewrite.lang.parser import parse
from rewrite.lang.print_nodes import (
    attributes_doc,
    branch_doc,
    branches,
    expr_doc,
    guard_doc,
    number,
    operand_doc,
    pattern_doc,
)
from rewrite.lang.text import normalize

BODY = 2  # indentation of clauses
CLAUSE = 6  # width of a clause keyword with the space after it
NO_COMMENTS = Comments()


def print_file(file: ast.RuleFile, comments: Comments = NO_COMMENTS) -> str:
    """Items in text order, a blank line between them."""
    items: list[ast.Node] = [*file.patterns, *file.rules, *file.refinements]
    items.sort(key=lambda n: (n.span.line, n.span.column))
    texts = [render(_item(item, comments)) for item in items]
    last = "\n".join(_comment_lines(comments.last, ends=True))
    if last:
        texts.append(last)
    return "\n\n".join(texts) + "\n" if texts else ""


def print_pattern(pattern: ast.Pattern) -> str:
    """On one line; as an operand, so that types need no parentheses."""
    return render(operand_doc(pattern), width=1 << 30)


def print_expr(expr: ast.Expr) -> str:
    """On one line."""
    return render(expr_doc(expr), width=1 << 30)


def print_condition(where: ast.Where) -> str:
    text = print_expr(where.condition)
    return text if where.when is None else f"if {where.when}: {text}"


def format_text(text: str, file: str) -> str:
    """The canonical text of a file, comments kept."""
    text = normalize(text)
    tree = parse(text, file)
    result = print_file(tree, attach(text, tree))
    before = sorted(c.text for c in find_comments(text))
    after = sorted(c.text for c in find_comments(result))
    if before != after or parse(result, file) != tree:
        hint = "move comments to lines of their own, before a rule or a clause"
        raise error("RW120", "the file cannot be formatted without loss", tree.span, hint)
    return result


# --- items --------------------------------------------------------------------------------------


def _item(item: ast.Node, comments: Comments) -> Doc:
    own = comments.get(item)
    before: list[Doc] = [(line, HARD) for line in _comment_lines(own.before)]
    if isinstance(item, ast.Rule):
        return (*before, _rule(item, comments))
    if isinstance(item, ast.PatternDef):
        return (*before, _pattern_def(item, comments), _trailing(own))
    assert isinstance(item, ast.Refine)
    first, *others = _wheres(item.where, comments)
    more = Nest(BODY, tuple((HARD, where) for where in others))
    return (*before, f"refine {item.rule} with ", Nest(BODY, first), more, _trailing(own))


def _pattern_def(definition: ast.PatternDef, comments: Comments) -> Doc:
    head = f"pattern {definition.name}({', '.join(definition.parameters)}) ="
    return _assigned(head, definition.pattern, comments)


def _rule(rule: ast.Rule, comments: Comments) -> Doc:
    own = comments.get(rule)
    clauses: list[Doc] = [_doc(rule.doc)] if rule.doc else []
    clauses += _clause("match", rule.match, comments)
    clauses += _steps(rule.steps, comments)
    clauses += _clause("emit", rule.emit, comments)
    if rule.group is not None:
        clauses.append(_group(rule.group, comments))
    clauses.append(_line(f"claim {claim_text(rule.claim)}", rule.claim, comments))
    clauses += [_example(e, comments) for e in rule.examples]
    clauses += list(_comment_lines(own.closing, ends=True))
    body: list[Doc] = [(HARD, clause) for clause in clauses]
    return (_header(rule), " {", _ends(own.opening), Nest(BODY, tuple(body)), HARD, "}")


def _header(rule: ast.Rule) -> Doc:
    text = f"rule {rule.name} in {rule.phase}"
    low, high = rule.opset
    if low is not None or high is not None:
        text += f" opset {'' if low is None else low}..{'' if high is None else high}"
    if not rule.over:
        return text
    return (text, Nest(CLAUSE, Group((Break(), "over ", Nest(CLAUSE, fill(rule.over))))))


# --- clauses ------------------------------------------------------------------------------------


def _clause(word: str, nodes: Sequence[ast.Node], comments: Comments) -> list[Doc]:
    """Statements below each other, the keyword before the first."""
    docs: list[Doc] = []
    for i, node in enumerate(nodes):
        lead = word.ljust(CLAUSE) if i == 0 else " " * CLAUSE
        before = _before(node, comments, "" if i == 0 else lead)
        docs.append((*before, lead, Nest(CLAUSE, _statement(node, comments))))
    return docs


def _statement(node: ast.Node, comments: Comments) -> Doc:
    after = _trailing(comments.get(node))
    if isinstance(node, ast.MatchStatement):
        return (_assigned(f"{', '.join(node.names)} =", node.pattern, comments), after)
    if isinstance(node, ast.EachStatement):
        return (_each(node), after)
    assert isinstance(node, ast.Let | ast.EmitStatement)
    names = (node.name,) if isinstance(node, ast.Let) else node.names
    return (f"{', '.join(names)} = ", Nest(4, expr_doc(node.value)), after)


def _assigned(head: str, pattern: ast.Pattern, comments: Comments) -> Doc:
    """`head pattern`; the branches of a long alternative stand below each other."""
    if not isinstance(pattern, ast.Alternatives) or len(pattern.branches) == 1:
        return (head + " ", Nest(4, pattern_doc(pattern)))
    if not any(_has_comments(comments.get(b)) for b in pattern.branches):
        return Group((head, Nest(2, (Break(" ", "  "), *branches(pattern)))))
    parts: list[Doc] = [head]
    for i, node in enumerate(pattern.branches):
        own = comments.get(node)
        parts += [(HARD, "  " + text) for text in _comment_lines(own.before)]
        parts += [HARD, "| " if i else "  ", Nest(4, branch_doc(node)), _trailing(own)]
    return (parts[0], Nest(2, tuple(parts[1:])))


def _each(node: ast.EachStatement) -> Doc:
    head = f"each {node.name} over {node.over} = "
    bounds = f" {node.least}..{node.most}"
    if node.guard is None:
        return (head, Nest(4, pattern_doc(node.pattern)), bounds)
    return (head, Nest(4, (pattern_doc(node.pattern, 1), guard_doc(node.guard))), bounds)


def _steps(steps: Sequence[ast.Let | ast.Where], comments: Comments) -> list[Doc]:
    """Runs of `let`s share one keyword, and so do runs of conditions."""
    docs: list[Doc] = []
    i = 0
    while i < len(steps):
        end = i
        while end < len(steps) and type(steps[end]) is type(steps[i]):
            end += 1
        run = steps[i:end]
        if isinstance(run[0], ast.Let):
            docs += _clause("let", run, comments)
        else:
            conditions = [s for s in run if isinstance(s, ast.Where)]
            docs += _wheres(conditions, comments)
        i = end
    return docs


def _wheres(conditions: Sequence[ast.Where], comments: Comments) -> list[Doc]:
    """`where` clauses: a condition without `if` after one with it needs a new keyword."""
    docs: list[Doc] = []
    start = 0
    for i in range(1, len(conditions) + 1):
        again = i < len(conditions) and conditions[i].when is None
        if i == len(conditions) or (again and conditions[i - 1].when is not None):
            part = conditions[start:i]
            docs.append((
                *_before(part[0], comments), "where ", Nest(CLAUSE, _conditions(part, comments)),
            ))  # fmt: skip
            start = i
    return docs


def _conditions(conditions: Sequence[ast.Where], comments: Comments) -> Doc:
    """`a, b` and below them `if name: c, d`; comments before the first one are the caller's."""
    parts: list[Doc] = []
    for i, node in enumerate(conditions):
        new_group = i > 0 and node.when != conditions[i - 1].when
        lead = f"if {node.when}: " if node.when is not None and (i == 0 or new_group) else ""
        previous_ends = i > 0 and comments.get(conditions[i - 1]).after
        before = [] if i == 0 else list(_comment_lines(comments.get(node).before))
        if i > 0:
            hard = new_group or previous_ends or before
            parts += [(HARD, line) for line in before]
            inner: Doc = (lead, Nest(4, expr_doc(node.condition)))
            parts.append((HARD, inner) if hard else Group((Break(), inner)))
        else:
            parts.append((lead, Nest(4, expr_doc(node.condition))))
        last = i + 1 == len(conditions) or conditions[i + 1].when != node.when
        parts.append(("" if last else ",", _trailing(comments.get(node))))
    return tuple(parts)


def _group(group: ast.Group, comments: Comments) -> Doc:
    text: Doc = f"group {group.value} as {group.name}"
    if group.attributes:
        text = (text, attributes_doc(group.attributes, ()))
    return (*_before(group, comments), text, _trailing(comments.get(group)))


def claim_text(claim: ast.Claim) -> str:
    if claim.kind == "lsb":
        return f"lsb({claim.lsb})"
    if claim.kind == "equal":
        return f"equal(rtol={number(claim.rtol, keep_float=False)})"
    if claim.kind == "certified":
        return f"certified({claim.certificate})"
    if claim.kind == "approx":
        return f"approx(atol={number(claim.atol, keep_float=False)})"
    return "exact"


def _example(example: ast.Example, comments: Comments) -> Doc:
    word = "fires" if example.fires else "rejects"
    name = f" {example.name}" if example.name is not None else ""
    head = f"example {word}{name} "
    body = _block(example.text) if example.text else '""""""'
    return (*_before(example, comments), head, body, _trailing(comments.get(example)))


def _doc(content: str) -> Doc:
    """A doc string begins on the line of its quotes, unless its indentation would be lost."""
    first, *rest = content.split("\n")
    if first.startswith(('"', " ", "\t")) or (not rest and first.endswith('"')):
        return _block(content)
    if not rest:
        return f'"""{first}"""'
    if all(not line or line[0] in " \t" for line in rest):
        return _block(content)
    return ('"""' + first, *((HARD, line) for line in rest), HARD, '"""')


def _block(content: str) -> Doc:
    """A text on lines of its own."""
    lines: list[Doc] = [(HARD, line) for line in content.split("\n")]
    return ('"""', Nest(BODY, tuple(lines)), HARD, '"""')


# --- comments -----------------------------------------------------------------------------------


def _line(text: str, node: ast.Node, comments: Comments) -> Doc:
    return (*_before(node, comments), text, _trailing(comments.get(node)))


def _before(node: ast.Node, comments: Comments, indent: str = "") -> list[Doc]:
    return [(indent + text, HARD) for text in _comment_lines(comments.get(node).before)]


def _trailing(own: Attached) -> Doc:
    return _ends(own.after)


def _ends(found: Sequence[Comment]) -> str:
    return "  " + " ".join(c.text for c in found) if found else ""


def _has_comments(own: Attached) -> bool:
    return bool(own.before or own.after)


def _comment_lines(found: Sequence[Comment], ends: bool = False) -> list[str]:
    """The comments, with an empty line where the text separates two blocks of them."""
    lines: list[str] = []
    for i, comment in enumerate(found):
        lines.append(comment.text)
        if comment.apart and not (ends and i + 1 == len(found)):
            lines.append("")
    return lines
