"""Trees to text: what is printed parses to the same tree, and the formatter keeps comments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from rewrite import resources
from rewrite.errors import RewriteError, Span
from rewrite.lang import ast, printer
from rewrite.lang.comments import find_comments
from rewrite.lang.layout import WIDTH
from rewrite.lang.parser import parse
from rewrite.lang.printer import format_text, print_expr, print_file, print_pattern
from rewrite.lang.text import dedent

S = Span("t.rules", 1, 1, 1, 1)
# Trees have long descriptions, of which hypothesis warns.
pytestmark = pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")

SHIPPED = sorted(resources.folder("rules").rglob("*.rules"))

# --- trees that the parser can give -----------------------------------------------------------
# Left out is what no text means: a sign before a literal (it is part of the literal), an
# alternative of one branch without name and guard (it is the branch).

lower = st.sampled_from(["x", "y", "w1", "value", "over", "opset", "bias_of"])
upper = st.sampled_from(["W", "B", "Xs"])
names = lower | upper
labels = st.sampled_from(["relu", "clip", "plain"])
functions = st.sampled_from(["rank", "max", "concat"])
words = st.sampled_from(["axis", "group", "in", "case", "alpha"])
operators = st.builds(
    ast.OpName, st.just(S), st.sampled_from(["", "ms"]), st.sampled_from(["Conv", "Relu", "Gelu"])
)
integers = st.integers(0, 2**63)
floats = st.floats(0, 1e300, allow_nan=False)
strings = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.just("\n"))


def number_texts() -> st.SearchStrategy[str]:
    return integers.map(str) | floats.map(repr).filter(lambda t: "inf" not in t)


def tuples(inner: st.SearchStrategy[Any], least: int = 0, most: int = 3) -> st.SearchStrategy[Any]:
    return st.lists(inner, min_size=least, max_size=most).map(tuple)


signed_texts = number_texts() | number_texts().map(lambda t: "-" + t) | st.just("inf")
tolerances = st.none() | number_texts()
numbers = st.builds(ast.Number, st.just(S), signed_texts, tolerances).filter(
    lambda n: n.text != "inf" or n.tolerance is None
)
dims = st.one_of(
    st.builds(lambda n: ast.DimPattern(S, "size", size=n), st.integers(0, 999)),
    st.builds(lambda n: ast.DimPattern(S, "name", name=n), names),
    st.just(ast.DimPattern(S, "any")),
    st.builds(lambda n: ast.DimPattern(S, "ellipsis", name=n), st.none() | names),
)
elements = st.sampled_from(["f32", "f", "s8", "bool"])
types = st.builds(
    ast.TypePattern,
    st.just(S),
    st.booleans(),
    st.none() | tuples(elements, 1),
    st.none() | tuples(dims),
).filter(lambda t: t.const or t.dtypes is not None or t.shape is not None)
plain_variables = st.builds(ast.Variable, st.just(S), names | st.just("_"))
variables = st.builds(
    lambda n, t: ast.Variable(S, n, False, t), names | st.just("_"), st.none() | types
)
optionals = st.builds(lambda n, t: ast.Variable(S, n, True, t), names, st.none() | types)
rests = st.builds(ast.Rest, st.just(S), names, st.none() | types)
scalars = (
    st.integers(-(2**63), 2**63)
    | floats
    | floats.map(lambda f: -f)
    | strings.filter(lambda s: True)
)
literals = scalars | tuples(scalars)
attribute_patterns = st.one_of(
    st.builds(lambda n: ast.AttributePattern(S, n, ignored=True), words),
    st.builds(lambda n, b: ast.AttributePattern(S, n, bind=b), words, names),
    st.builds(lambda n, v: ast.AttributePattern(S, n, values=v), words, tuples(literals, 1)),
)


def op_patterns(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operand = inner | variables | optionals | st.just(ast.Absent(S))
    operands = st.builds(lambda items, last: items + last, tuples(operand), tuples(rests, 0, 1))
    flags = (st.booleans(), st.booleans())
    named = st.builds(
        ast.OpPattern, st.just(S), operators, operands, tuples(attribute_patterns), *flags
    )
    infix = st.builds(_infix, st.sampled_from("+-*/"), inner, inner, *flags)
    return named | infix | st.builds(_negated, inner, *flags)


def _infix(symbol: str, left: Any, right: Any, ordered: bool, shared: bool) -> ast.OpPattern:
    op = ast.OpName(S, "", {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div"}[symbol])
    return ast.OpPattern(S, op, (left, right), (), ordered, shared, symbol)


def _negated(operand: Any, ordered: bool, shared: bool) -> Any:
    if isinstance(operand, ast.Number) and not operand.text.startswith("-"):
        return operand
    op = ast.OpName(S, "", "Neg")
    return ast.OpPattern(S, op, (operand,), (), ordered, shared, "neg")


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    guards = st.none() | st.just(ast.Name(S, "x"))
    return st.builds(ast.Alternative, st.just(S), inner, st.none() | labels, guards)


def compound_patterns(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = inner | variables
    return st.one_of(
        op_patterns(inner),
        st.builds(ast.Bag, st.just(S), st.sampled_from(["prod", "sum"]), tuples(items, 1)),
        st.builds(ast.Chain, st.just(S), items, labels, st.integers(1, 4), st.integers(4, 9)),
        st.builds(ast.PatternCall, st.just(S), labels, tuples(items)),
        tuples(branches(inner), 1).map(lambda b: ast.Alternatives(S, b)).filter(_meant),
    )


def _meant(pattern: ast.Alternatives) -> bool:
    only = pattern.branches[0]
    return len(pattern.branches) > 1 or only.name is not None or only.guard is not None


_patterns = st.recursive(plain_variables | variables | numbers, compound_patterns, max_leaves=8)
patterns = st.deferred(lambda: _patterns)  # with a short repr

# --- expressions

constants = st.one_of(
    signed_texts.map(lambda t: ast.Constant(S, ast.Number(S, t).value, t)),
    st.sampled_from([
        ast.Constant(S, True, "true"), ast.Constant(S, False, "false"),
        ast.Constant(S, None, "none"),
    ]),
    strings.map(lambda s: ast.Constant(S, s, printer.print_expr(ast.Constant(S, s, "")))),
)  # fmt: skip
splats = st.builds(ast.Splat, st.just(S), names)
arithmetic = ["+", "-", "*", "/", "//", "%", "**", "??"]
logic = ["==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def compound_exprs(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arguments = inner | splats
    keywords = tuples(st.tuples(words, inner), 0, 2).filter(
        lambda k: len({w for w, _ in k}) == len(k)
    )
    arms = st.builds(ast.CaseArm, st.just(S), st.none() | names, inner)
    emitted = st.builds(ast.AttributeEmit, st.just(S), words, inner)
    again = st.builds(ast.OpName, st.just(S), st.just("@"), names)
    return st.one_of(
        tuples(inner).map(lambda i: ast.ListExpr(S, i)),
        st.builds(ast.Field, st.just(S), inner, lower),
        st.builds(ast.Index, st.just(S), inner, inner, st.none(), st.just(False)),
        st.builds(
            ast.Index, st.just(S), inner, st.none() | inner, st.none() | inner, st.just(True)
        ),
        st.builds(ast.Call, st.just(S), functions, tuples(arguments), keywords),
        st.builds(ast.MethodCall, st.just(S), lower, functions, tuples(_method_arguments(inner))),
        st.builds(_unary, st.sampled_from(["-", "not"]), inner),
        st.builds(ast.Binary, st.just(S), st.sampled_from(arithmetic + logic), inner, inner),
        tuples(arms, 1).map(lambda a: ast.Case(S, a)),
        st.builds(ast.ForAll, st.just(S), names, inner, inner),
        st.builds(
            ast.OpExpr, st.just(S), operators | again, tuples(arguments), tuples(emitted),
            tuples(names),
        ),
    )  # fmt: skip


def _method_arguments(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A bare UpperCase name is an operator: nothing binds names in these trees."""
    return operators | inner.filter(lambda e: not (isinstance(e, ast.Name) and e.name[0].isupper()))


def _unary(operator: str, operand: Any) -> Any:
    number = isinstance(operand, ast.Constant) and isinstance(operand.value, int | float)
    if operator == "-" and number and not isinstance(operand.value, bool):
        return operand
    return ast.Unary(S, operator, operand)


_exprs = st.recursive(
    constants | st.builds(ast.Name, st.just(S), names | st.just("_")), compound_exprs, max_leaves=8
)
exprs = st.deferred(lambda: _exprs)

# --- rules

lines = st.lists(st.sampled_from(["one", "  two", "", '"three"', "four # no comment"]))
texts = lines.map(lambda found: dedent("\n".join(["a", *found])))
statements = st.builds(ast.MatchStatement, st.just(S), tuples(names, 1), patterns)


def _each(over: str, name: str, pattern: Any, guard: Any, least: int) -> ast.EachStatement:
    if isinstance(pattern, ast.Alternatives) and len(pattern.branches) == 1 and guard is None:
        only = pattern.branches[0]
        if only.name is None:
            pattern, guard = only.pattern, only.guard
    return ast.EachStatement(S, name, over, pattern, guard, least, least + 3)


eaches = st.builds(_each, names, names, patterns, st.none() | exprs, st.integers(2, 5))
lets = st.builds(ast.Let, st.just(S), names, exprs)
wheres = st.builds(ast.Where, st.just(S), exprs, st.none() | names)
emits = st.builds(ast.EmitStatement, st.just(S), tuples(names, 1), exprs)
rates = st.floats(0, 1, exclude_min=True) | st.just(0.0) | st.just(2.0)
claims = st.one_of(
    st.just(ast.Claim(S, "exact")),
    st.integers(1, 9).map(lambda n: ast.Claim(S, "lsb", lsb=n)),
    rates.map(lambda r: ast.Claim(S, "equal", rtol=r)),
    rates.map(lambda a: ast.Claim(S, "approx", atol=a)),
)
examples = st.builds(ast.Example, st.just(S), st.booleans(), st.none() | labels, texts)
bounds = st.tuples(st.none() | st.integers(1, 30), st.none() | st.integers(1, 30))


@st.composite
def rules(draw: st.DrawFn) -> ast.Rule:
    grouped = draw(st.booleans())
    return ast.Rule(
        S,
        draw(labels),
        draw(labels),
        draw(bounds),
        draw(tuples(labels)),
        draw(texts),
        draw(tuples(statements | eaches, 1)),
        draw(tuples(lets | wheres)),
        () if grouped else draw(tuples(emits, 1)),
        ast.Group(S, draw(names), "Name") if grouped else None,
        draw(claims),
        draw(tuples(examples)),
    )


files = st.builds(
    ast.RuleFile,
    st.just(S),
    tuples(st.builds(ast.PatternDef, st.just(S), labels, tuples(names), patterns)),
    tuples(rules(), 0, 2),
    tuples(st.builds(ast.Refine, st.just(S), labels, tuples(wheres, 1))),
)

lenient = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)


def parsed_expr(text: str) -> ast.Expr:
    whole = f'rule r in p {{ """D.""" match y = x let a = {text} emit y = x claim exact }}'
    step = parse(whole, "t").rules[0].steps[0]
    assert isinstance(step, ast.Let)
    return step.value


@lenient
@given(exprs)
def test_expressions_survive(expr: ast.Expr) -> None:
    assert parsed_expr(print_expr(expr)) == expr


@lenient
@given(patterns)
def test_patterns_survive(pattern: ast.Pattern) -> None:
    text = f"pattern p() = Op({print_pattern(pattern)})"
    whole = parse(text, "t").patterns[0].pattern
    assert isinstance(whole, ast.OpPattern)
    assert whole.operands == (pattern,)


@lenient
@given(files)
def test_files_survive(file: ast.RuleFile) -> None:
    text = print_file(file)
    again = parse(text, "t")
    assert again == file
    assert print_file(again) == text


# --- shipped packs ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_shipped_packs_survive(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = parse(text, path.name)
    once = format_text(text, path.name)
    assert parse(once, path.name) == tree
    assert format_text(once, path.name) == once
    assert [c.text for c in find_comments(once)] == [c.text for c in find_comments(text)]
    code = re.sub(r'"""(?s:.*?)"""|#.*', "", once)
    assert max(map(len, code.split("\n"))) <= WIDTH


# --- the formatter ------------------------------------------------------------------------------


MESSY = '''
# the file

# the pattern
pattern   a( x )=Relu( x ) # at its end
rule r in fold{ # at the brace
  # before the doc
  """D."""
  match c=Conv(x,
     # inside the operands
     W) # at the end of c
        # before y
        y = Relu(c) # first
          # before the second
          | Neg(c) # second
  let s = 1 # at s
  where rank(x)==2, # at the first condition
        # before the second condition
        rank(W)==2
        # before the third
        if B: rank(B)==1 # third
  # before emit
  emit y = x # at emit
  claim exact # at claim
  # before the example
  example fires """
      a  # in the text
  """ # at the example
  # at the end of the rule
}

# the last words
'''

TIDY = '''# the file

# the pattern
pattern a(x) = Relu(x)  # at its end

rule r in fold {  # at the brace
  """D."""
  # before the doc
  # inside the operands
  match c = Conv(x, W)  # at the end of c
        # before y
        y =
            Relu(c)  # first
            # before the second
          | Neg(c)  # second
  let   s = 1  # at s
  where rank(x) == 2,  # at the first condition
        # before the second condition
        rank(W) == 2
        # before the third
        if B: rank(B) == 1  # third
  # before emit
  emit  y = x  # at emit
  claim exact  # at claim
  # before the example
  example fires """
    a  # in the text
  """  # at the example
  # at the end of the rule
}

# the last words
'''


def test_comments_stay_where_they_belong() -> None:
    assert format_text(MESSY, "t.rules") == TIDY
    assert format_text(TIDY, "t.rules") == TIDY


def test_a_formatter_that_loses_a_comment_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printer, "attach", lambda text, tree: printer.Comments())
    with pytest.raises(RewriteError) as caught:
        format_text("# lost\npattern a(x) = Relu(x)\n", "t.rules")
    assert [d.code for d in caught.value.diagnostics] == ["RW120"]


def test_syntax_errors_are_not_formatted() -> None:
    with pytest.raises(RewriteError) as caught:
        format_text("pattern a(x) = \n", "t.rules")
    assert [d.code for d in caught.value.diagnostics] == ["RW101"]


@lenient
@given(st.data())
def test_a_comment_on_any_line_survives(data: st.DataObject) -> None:
    """After any line outside of texts, and between any two lines."""
    text = (Path(__file__).parent / "pass" / "presence.rules").read_text()
    lines = text.split("\n")
    inside = False
    free = []
    for i, line in enumerate(lines):
        quotes = line.count('"""')
        if not inside and quotes != 1:
            free.append(i)
        inside ^= quotes == 1
    where = data.draw(st.sampled_from(free))
    if data.draw(st.booleans()):
        lines[where] += "  # here"
    else:
        lines.insert(where, "# here")
    result = format_text("\n".join(lines), "t.rules")
    assert result.count("# here") == 1
    assert format_text(result, "t.rules") == result
