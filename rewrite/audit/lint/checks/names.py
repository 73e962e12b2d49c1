"""Checks of names that nothing asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rewrite.audit.lint.finding import Edit, Found
from rewrite.audit.lint.fixes import within
from rewrite.audit.lint.registry import check
from rewrite.audit.lint.subject import Subject
from rewrite.errors import Span
from rewrite.lang import ast
from rewrite.lang.walk import nodes

Binding = ast.Variable | ast.Rest | ast.DimPattern


@check("RW921", "warning")
def unused_binding(subject: Subject) -> Iterator[Found]:
    '''A name is bound and never used.

    A name of an operand, of a size or of an alternative that nothing else mentions makes the reader
    look for what it is there for; often a condition was forgotten. `_` stands for any operand or
    size, an alternative needs no name. `--fix` does that. (A `let` or an attribute that is not used
    is an error when the pack is loaded, RW223.) Arguments of named patterns are left alone.

    ```rule bad
    rule product_with_zero in clean opset 14.. {
      """A product of integers with a zero, or of none, is zero."""
      match y = Mul(x: int, 0) | Mul(x: int, z: int[0]) as empty
      where static(shape(y))
      emit  y = zeros(shape(y), dtype(y))
      claim exact
      example fires zero """
        g (int64[2] x) => (int64[2] y) <int64 z = {0}> { y = Mul(x, z) }
      """
      example rejects one """
        g (int64[2] x) => (int64[2] y) <int64 z = {1}> { y = Mul(x, z) }
      """
    }
    ```

    ```rule good
    rule product_with_zero in clean opset 14.. {
      """A product of integers with a zero, or of none, is zero."""
      match y = Mul(_: int, 0) | Mul(_: int, _: int[0])
      where static(shape(y))
      emit  y = zeros(shape(y), dtype(y))
      claim exact
      example fires zero """
        g (int64[2] x) => (int64[2] y) <int64 z = {0}> { y = Mul(x, z) }
      """
      example rejects one """
        g (int64[2] x) => (int64[2] y) <int64 z = {1}> { y = Mul(x, z) }
      """
    }
    ```
    '''
    for rule in subject.written.values():
        uses = _uses(rule)
        kept = frozenset(_kept(rule))
        for statement in rule.match:
            for node in nodes(statement):
                if isinstance(node, Binding) and id(node) not in kept:
                    if node.name not in (None, "_") and uses[str(node.name)] == 1:
                        yield _operand(node, rule, subject)
                elif isinstance(node, ast.Alternative) and node.name and not uses[node.name]:
                    yield _alternative(node, node.name, rule, subject)


def _kept(rule: ast.Rule) -> Iterator[int]:
    """What needs its name: arguments of named patterns, codes whose axis is asked for."""
    for node in nodes(rule):
        if isinstance(node, ast.PatternCall):
            yield from map(id, node.arguments)
        elif isinstance(node, ast.Dequantized) and node.codes.type is not None:
            granularity = node.codes.type.granularity or ()
            if any(part.kind != "per_tensor" for part in granularity):
                yield id(node.codes)


def _uses(rule: ast.Rule) -> Counter[str]:
    """How often each name is mentioned; that of an alternative, apart from where it is given."""
    found: Counter[str] = Counter()
    for node in nodes(rule):
        if isinstance(node, ast.Alternative):
            continue
        if isinstance(node, ast.MatchStatement | ast.EmitStatement):
            found.update(node.names)
        elif isinstance(node, ast.EachStatement):
            found.update((node.name, node.over))
        elif isinstance(node, Binding | ast.Name | ast.Splat) and node.name is not None:
            found[node.name] += 1
        elif isinstance(node, ast.OpExpr):
            found.update((*node.carry, node.op.name))
        elif isinstance(node, ast.OpName):  # of a target's method, where it may be a value
            found[node.name] += 1
        elif isinstance(node, ast.AttributePattern) and node.bind is not None:
            found[node.bind] += 1
        else:
            found.update(_named(node))
    return found


def _named(node: ast.Node) -> tuple[str, ...]:
    if isinstance(node, ast.Where):
        return () if node.when is None else (node.when,)
    if isinstance(node, ast.CaseArm | ast.ForAll):
        return () if node.name is None else (node.name,)
    if isinstance(node, ast.Group):
        return (node.value,)
    if isinstance(node, ast.Claim):
        return () if node.certificate is None else (node.certificate,)
    return ()


def _operand(node: Binding, rule: ast.Rule, subject: Subject) -> Found:
    name = str(node.name)
    place = within(subject.text(node.span), node.span, rf"\b{name}\b")
    ellipsis = isinstance(node, ast.DimPattern) and node.kind == "ellipsis"
    what = "size" if isinstance(node, ast.DimPattern) else "operand"
    hint = "write `...`" if ellipsis else "write `_`"
    edits = (Edit(place, "" if ellipsis else "_"),)
    message = f"the {what} `{name}` is bound and never used"
    return Found(message, place, rule.name, hint, (), edits)


def _alternative(node: ast.Alternative, name: str, rule: ast.Rule, subject: Subject) -> Found:
    place = within(subject.text(node.span), node.span, rf"\s+as\s+{name}\b", last=True)
    shown = within(subject.text(node.span), node.span, rf"\b{name}\b", last=True)
    message = f"the alternative `{name}` is named and nothing asks for it"
    hint = f"leave `as {name}` out"
    return Found(message, shown, rule.name, hint, (), (Edit(place, ""),))


@check("RW922", "warning")
def unused_pattern(subject: Subject) -> Iterator[Found]:
    '''A named pattern that no rule uses.

    Neither this pack nor one of those linted with it that extends it calls the pattern.

    ```rule bad
    pattern halved(x) = prod{0.5, x} | x / 2

    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(Neg(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```

    ```rule good
    pattern negated(x) = Neg(x)

    rule double_negation in clean {
      """-(-x) = x."""
      match y = Neg(negated(x))
      emit  y = x
      claim exact
      example fires plain """g (float x) => (float y) { a = Neg(x)  b = Neg(a)  y = Abs(b) }"""
      example rejects once """g (float x) => (float y) { a = Neg(x)  y = Abs(a) }"""
    }
    ```
    '''
    for tree in subject.trees:
        for definition in tree.patterns:
            if definition.name not in subject.patterns_called:
                first = _first_line(definition.span)
                message = f"no rule uses the pattern `{definition.name}`"
                yield Found(message, first, definition.name, "remove it, or call it")


def _first_line(span: Span) -> Span:
    return Span(span.file, span.line, span.column, span.line, span.column + len("pattern"))
