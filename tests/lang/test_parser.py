"""Text to tree: meaning of the notation, positions, recovery, bounds."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from lark import Lark, logger

from rewrite.errors import Diagnostic, RewriteError, Span
from rewrite.lang import ast
from rewrite.lang.build_rules import RuleBuilder
from rewrite.lang.limits import FILE_CHARACTERS, SYNTAX_ERRORS
from rewrite.lang.machine import GRAMMAR
from rewrite.lang.parser import parse
from rewrite.lang.walk import nodes, too_deep

EXAMPLES = '''
  example fires plain """g (float x) => (float y) { y = Relu(x) }"""
  example rejects other """g (float x) => (float y) { y = Neg(x) }"""
}
'''


def rule(body: str, claim: str = "exact") -> ast.Rule:
    text = f'rule r in fold {{\n"""Doc."""\n{body}\nclaim {claim}\n{EXAMPLES}'
    return parse(text, "t.rules").rules[0]


def pattern(text: str) -> ast.Pattern:
    return parse(f"pattern p(x) = {text}", "t.rules").patterns[0].pattern


def expr(text: str) -> Any:
    step = rule(f"match y = Relu(x)\nlet a = {text}\nemit y = x").steps[0]
    assert isinstance(step, ast.Let)
    return step.value


def problems(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(RewriteError) as caught:
        parse(text, "t.rules")
    return caught.value.diagnostics


def grouped(node: Any) -> str:
    """An expression or infix pattern with every pair of operands in parentheses."""
    if isinstance(node, ast.Binary):
        return f"({grouped(node.left)} {node.operator} {grouped(node.right)})"
    if isinstance(node, ast.Unary):
        return f"({node.operator} {grouped(node.operand)})"
    if isinstance(node, ast.OpPattern) and node.infix == "neg":
        return f"(- {grouped(node.operands[0])})"
    if isinstance(node, ast.OpPattern):
        left, right = node.operands
        return f"({grouped(left)} {node.infix} {grouped(right)})"
    if isinstance(node, ast.Constant | ast.Number):
        return node.text
    assert isinstance(node, ast.Name | ast.Variable)
    return node.name


# --- operators ----------------------------------------------------------------------------------


# Python's own precedence is the source, but for `??`, which binds loosest, and unary minus of a
# literal, which is part of the literal.
@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("a ** b ** c", "(a ** (b ** c))"),
        ("-a ** b", "(- (a ** b))"),
        ("a ** -b", "(a ** (- b))"),
        ("a ** -b ** c", "(a ** (- (b ** c)))"),
        ("-a * b", "((- a) * b)"),
        ("-1 ** 2", "(- (1 ** 2))"),
        ("2 - -1", "(2 - -1)"),
        ("a // b % c / d", "(((a // b) % c) / d)"),
        ("not a == b", "(not (a == b))"),
        ("not a and b or c", "(((not a) and b) or c)"),
        ("a or b and not c", "(a or (b and (not c)))"),
        ("a not in b and c in d", "((a not in b) and (c in d))"),
        ("a + b < c * d", "((a + b) < (c * d))"),
        ("a ?? b ?? c", "((a ?? b) ?? c)"),
        ("a ?? b + c", "(a ?? (b + c))"),
        ("a or b ?? c", "((a or b) ?? c)"),
        ("(a + b) * c", "((a + b) * c)"),
    ],
)
def test_precedence_of_expressions(text: str, meaning: str) -> None:
    assert grouped(expr(text)) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a / b / c - d", "(((a / b) / c) - d)"),
        ("-a * b", "((- a) * b)"),
        ("a - -b", "(a - (- b))"),
        ("a - -5", "(a - -5)"),
        ("--x", "(- (- x))"),
        ("-(-x)", "(- (- x))"),
        ("-(a + b) / 2", "((- (a + b)) / 2)"),
    ],
)
def test_precedence_of_patterns(text: str, meaning: str) -> None:
    assert grouped(pattern(text)) == meaning


def test_infix_patterns_are_operators() -> None:
    found = pattern("ordered (x * -3)")
    assert isinstance(found, ast.OpPattern)
    assert (found.op.name, found.infix, found.ordered, found.shared) == ("Mul", "*", True, False)
    assert found.operands[1] == ast.Number(found.span, "-3")


# --- parts of patterns --------------------------------------------------------------------------


def test_operands() -> None:
    text = (
        "Op(x, _, B?: const, w: f|s8[2, N, _, ...], c: const[], none, 0.5~1e-3, *rest: f32[B...])"
    )
    found = pattern(text)
    assert isinstance(found, ast.OpPattern)
    x, any_, b, w, c, none, number, rest = found.operands
    s = found.span
    assert x == ast.Variable(s, "x")
    assert any_ == ast.Variable(s, "_")
    assert b == ast.Variable(s, "B", True, ast.TypePattern(s, True, None, None))
    dims = (
        ast.DimPattern(s, "size", size=2),
        ast.DimPattern(s, "name", name="N"),
        ast.DimPattern(s, "any"),
        ast.DimPattern(s, "ellipsis"),
    )
    assert w == ast.Variable(s, "w", False, ast.TypePattern(s, False, ("f", "s8"), dims))
    assert c == ast.Variable(s, "c", False, ast.TypePattern(s, True, None, ()))
    assert none == ast.Absent(s)
    assert number == ast.Number(s, "0.5", "1e-3")
    named = (ast.DimPattern(s, "ellipsis", name="B"),)
    assert rest == ast.Rest(s, "rest", ast.TypePattern(s, False, ("f32",), named))


def test_attributes() -> None:
    found = pattern('ms.Op() { a: -1, b: 1.5 | 2, c: "s" | "t\\n", d: [0, -1], e: v, f: ignored }')
    assert isinstance(found, ast.OpPattern)
    assert (found.op.prefix, found.op.name, found.operands) == ("ms", "Op", ())
    s = found.span
    assert found.attributes == (
        ast.AttributePattern(s, "a", values=(-1,)),
        ast.AttributePattern(s, "b", values=(1.5, 2)),
        ast.AttributePattern(s, "c", values=("s", "t\n")),
        ast.AttributePattern(s, "d", values=((0, -1),)),
        ast.AttributePattern(s, "e", bind="v"),
        ast.AttributePattern(s, "f", ignored=True),
    )


def test_words_are_names_of_attributes() -> None:
    found = pattern("Conv(x) { group: 1, case: 2, in: 3, over: 4 }")
    assert isinstance(found, ast.OpPattern)
    assert [a.name for a in found.attributes] == ["group", "case", "in", "over"]


def test_alternatives() -> None:
    found = pattern("x | Relu(x) as relu | Clip(x, lo) as clip if (lo > 0) | (a | b)")
    assert isinstance(found, ast.Alternatives)
    assert [b.name for b in found.branches] == [None, "relu", "clip", None]
    assert [b.guard is not None for b in found.branches] == [False, False, True, False]
    assert isinstance(found.branches[3].pattern, ast.Alternatives)
    alone = pattern("Relu(x) as relu")
    assert isinstance(alone, ast.Alternatives)
    assert len(alone.branches) == 1


def test_each() -> None:
    found = rule(
        "match each ys over x = MatMul(x, w) if (rank(w) == 2) 3..5\n"
        "each zs over x = Relu(x)\nemit ys = zs"
    ).match
    guarded, plain = found
    assert isinstance(guarded, ast.EachStatement)
    assert isinstance(plain, ast.EachStatement)
    assert isinstance(guarded.pattern, ast.OpPattern)
    assert isinstance(guarded.guard, ast.Binary)
    assert (guarded.least, guarded.most) == (3, 5)
    assert (plain.least, plain.most, plain.guard) == (2, 16, None)


def test_conditions_know_what_they_depend_on() -> None:
    steps = rule(
        "match y = Conv(x, W, B?)\nwhere rank(x) == 2, rank(W) == 2\nif B: rank(B) == 1, B == 0\n"
        "where if B: B > 0\nemit y = x"
    ).steps
    assert [s.when for s in steps if isinstance(s, ast.Where)] == [None, None, "B", "B", "B"]


def test_opset_ranges() -> None:
    texts = {"opset 9..": (9, None), "opset 9..17": (9, 17), "opset ..17": (None, 17)}
    for text, meant in texts.items():
        body = '{ """D.""" match y = Relu(x) emit y = x claim exact }'
        found = parse(f"rule r in fold {text} over a, b {body}", "t").rules[0]
        assert (found.opset, found.over) == (meant, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("exact", ("exact", 0, 0.0, 0.0)),
        ("lsb(2)", ("lsb", 2, 0.0, 0.0)),
        ("equal(rtol=1e-5)", ("equal", 0, 1e-5, 0.0)),
        ("approx(atol=2)", ("approx", 0, 0.0, 2.0)),
    ],
)
def test_claims(text: str, claim: tuple[str, int, float, float]) -> None:
    found = rule("match y = Relu(x)\nemit y = x", text).claim
    assert (found.kind, found.lsb, found.rtol, found.atol) == claim


def test_operators_as_arguments_of_methods() -> None:
    """An UpperCase argument is an operator, unless the rule binds the name."""
    asked = "where target.has(Gelu), target.has(ms.Gelu), target.fuses(Y)"
    text = f"match Y = Relu(X)\n{asked}\nemit Y = X"
    found = [s.condition for s in rule(text).steps if isinstance(s, ast.Where)]
    arguments = [c.arguments[0] for c in found if isinstance(c, ast.MethodCall)]
    s = arguments[0].span
    assert arguments == [ast.OpName(s, "", "Gelu"), ast.OpName(s, "ms", "Gelu"), ast.Name(s, "Y")]


def test_repeated_operator() -> None:
    emitted = rule("match m = Relu(x)\nemit m = @m(Neg(x)) { a: 1 }").emit[0].value
    assert isinstance(emitted, ast.OpExpr)
    assert (emitted.op.prefix, emitted.op.name) == ("@", "m")


def test_texts_lose_their_indentation_only() -> None:
    doc = '"""First.\n\n      Second,\n        indented.\n  """'
    found = parse(f"rule r in fold {{ {doc} match y = Relu(x) emit y = x claim exact }}", "t")
    assert found.rules[0].doc == "First.\n\nSecond,\n  indented."


# --- positions ----------------------------------------------------------------------------------


def test_every_node_knows_its_place() -> None:
    text = (Path(__file__).parent / "pass" / "features.rules").read_text()
    lines = text.split("\n")
    tree = parse(text, "features.rules")
    for node in nodes(tree):
        span = node.span
        assert span.file == "features.rules"
        assert (span.line, span.column) < (span.end_line, span.end_column)
        if isinstance(node, ast.Variable | ast.Name | ast.OpName) and span.line == span.end_line:
            written = lines[span.line - 1][span.column - 1 : span.end_column - 1]
            assert node.name in written or node.name in ("Add", "Sub", "Mul", "Div", "Neg")


def test_spans_are_exclusive_at_the_end() -> None:
    found = parse("pattern p(x) =\n  Relu(x)", "t.rules").patterns[0]
    assert found.span == Span("t.rules", 1, 1, 2, 10)
    assert found.pattern.span == Span("t.rules", 2, 3, 2, 10)
    assert nodes(found.pattern) is not None
    (operand,) = [n for n in nodes(found.pattern) if isinstance(n, ast.Variable)]
    assert operand.span == Span("t.rules", 2, 8, 2, 9)


# --- recovery and bounds ------------------------------------------------------------------------


def test_reading_goes_on_at_the_next_item() -> None:
    text = (
        "pattern a(x) = +\npattern b(x) = Relu(x)\npattern c(x) = *\n\n  pattern d(x) = /\nrefine\n"
    )
    found = [(d.code, d.span.line, d.span.column) for d in problems(text) if d.span is not None]
    # The third error is not seen: its item is indented, so reading goes on after it.
    assert found == [("RW101", 1, 16), ("RW101", 3, 16), ("RW101", 6, 1)]


def test_a_doc_string_in_plain_quotes_is_told_what_it_lacks() -> None:
    with pytest.raises(RewriteError) as caught:
        parse('rule r in fold {\n  "Remove."\n  match y = Relu(x)\n}\n', "t.rules")
    (found,) = caught.value.diagnostics
    assert (found.code, found.span.line if found.span else 0) == ("RW101", 2)
    assert found.hint == 'a doc string stands in `"""..."""`'


def test_no_more_errors_than_anyone_reads() -> None:
    assert len(problems("pattern a(x) = +\n" * 500)) == SYNTAX_ERRORS


def test_an_empty_file_is_a_file() -> None:
    for text in ("", "\n", "# nothing\n"):
        tree = parse(text, "t.rules")
        assert (tree.patterns, tree.rules, tree.refinements) == ((), (), ())


def test_line_ends_and_byte_order_marks() -> None:
    plain = "pattern a(x) = Relu(x)\npattern b(x) = Neg(x)\n"
    assert parse("\ufeff" + plain.replace("\n", "\r\n"), "t") == parse(plain, "t")


def test_a_file_of_a_megabyte_is_refused() -> None:
    found = problems("#" * (FILE_CHARACTERS + 1))
    assert [d.code for d in found] == ["RW111"]


DEEP = 5_000


@pytest.mark.parametrize(
    "body",
    [
        "match y = " + "Relu(" * DEEP + "x" + ")" * DEEP,
        "match y = " + "-" * DEEP + "x",
        "match y = " + "(" * DEEP + "Neg(x)" + ")" * DEEP,
        "match y = x" + " + x" * DEEP,
        "match y = x" + " | x" * 3 + " | (x" * DEEP + ")" * DEEP,
        "match y = Relu(x)\nlet a = " + "[" * DEEP + "]" * DEEP,
        "match y = Relu(x)\nlet a = 1" + " ** 1" * DEEP,
        "match y = Relu(x)\nlet a = " + "not " * DEEP + "true",
        "match y = Relu(x)\nlet a = x" + "[0]" * DEEP,
        "match y = Relu(x)\nlet a = x" + ".b" * DEEP,
        "match y = Relu(x)\nlet a = " + "f(" * DEEP + ")" * DEEP,
        "match y = Relu(x)\nlet a = " + "case { else: " * DEEP + "1" + "}" * DEEP,
        "match y = Relu(x)\nlet a = " + "forall x in x: " * DEEP + "true",
    ],
    ids=lambda b: b[:28].replace("\n", " ") + "...",
)
def test_deep_nesting_is_an_error_not_a_crash(body: str) -> None:
    text = f'rule r in fold {{\n"""D."""\n{body}\nemit y = x\nclaim exact\n{EXAMPLES}'
    if "((((Neg" in text:  # parentheses alone leave no trace in the tree
        assert too_deep(parse(text, "t.rules"), 10) is None
    else:
        assert {d.code for d in problems(text)} == {"RW110"}


def conflicts(grammar: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """lark resolves shift/reduce conflicts in silence; in debug mode it logs them."""
    caplog.clear()
    level, logger.propagate = logger.level, True
    logger.setLevel(logging.DEBUG)
    try:
        with caplog.at_level(logging.DEBUG):
            Lark(grammar, parser="lalr", lexer="basic", debug=True)
    finally:
        logger.setLevel(level)
    return [r.getMessage() for r in caplog.records if "onflict" in r.getMessage()]


def test_the_grammar_has_no_conflicts(caplog: pytest.LogCaptureFixture) -> None:
    assert conflicts(GRAMMAR.read_text(), caplog) == []
    assert conflicts('start: start "+" start | "a"', caplog) != []


def test_every_rule_of_the_grammar_has_its_builder() -> None:
    """lark falls back to its own trees where the builder lacks a method."""
    machine = Lark(GRAMMAR.read_text(), parser="lalr", lexer="basic", maybe_placeholders=False)
    wanted = set()
    for r in machine.rules:
        name = r.alias or r.options.template_source or r.origin.name
        if not name.startswith("_"):
            wanted.add(str(name))
    passing = {"pattern", "expr", "postfix", "atom", "pattern_atom"}  # one child, never a node
    missing = {name for name in wanted - passing if not hasattr(RuleBuilder, name)}
    assert missing == set()
    inlined = {str(r.origin.name) for r in machine.rules if r.origin.name.startswith("_")}
    assert [name for name in sorted(inlined) if hasattr(RuleBuilder, name)] == []


def test_speed() -> None:
    """250 rules of 25 lines; the processor's time, so that other load does not count."""
    text = (Path(__file__).parent / "pass" / "features.rules").read_text()
    copies = 250 // 6 + 1
    whole = "\n".join(text.replace("rule ", f"rule n{i}_") for i in range(copies))
    parse(text, "warm.rules")
    start = time.process_time()
    tree = parse(whole, "speed.rules")
    spent = time.process_time() - start
    assert len(tree.rules) >= 250
    assert spent < 1.0
