"""Rules come from strangers: nothing they write becomes program text or reaches the machine."""

from __future__ import annotations

import dis
from types import CodeType

import onnx
import onnx.helper as h
import pytest

from rewrite.errors import Span
from rewrite.graph import io
from rewrite.lang import ast
from rewrite.match import codecheck
from rewrite.match.codegen import Program
from rewrite.match.matcher import Entry, entry_of
from rewrite.match.pattern import compile_rule
from rewrite.match.rule import Match
from rewrite.match.vocabulary import vocabulary
from tests.match.support import ask_everyone, compile_text, rule_text

SPAN = Span("t.rules", 1, 1, 1, 2)

HOSTILE = (
    "__import__('os').system('touch broken_out')",
    "x\nimport os\nos._exit(3)\n",
    "');raise SystemExit(3)#",
    '"""\nraise SystemExit\n"""',
    "c0",
    "v1",
    "finish",
    "node",
    "__builtins__",
    "a.b",
    "\\x27 + 1",
    "{x}",
    "%s",
    "\0",
    "é\u202e",
    "",
    "None",
    "lambda: 0",
)


@pytest.fixture(autouse=True)
def _nothing_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / "broken_out").exists()


def hostile_rule(word: str) -> ast.Rule:
    """A rule in which every text that an author chooses is the word: the parser would refuse it."""
    x = ast.Variable(SPAN, word)
    attribute = ast.AttributePattern(SPAN, word, values=(word, 1, 0.5, (word, 2)))
    bound = ast.AttributePattern(SPAN, word + "2", bind=word + "3")
    dims = (ast.DimPattern(SPAN, "name", name=word + "4"), ast.DimPattern(SPAN, "ellipsis"))
    typed = ast.Variable(SPAN, word + "5", True, ast.TypePattern(SPAN, True, ("f32",), dims))
    inner = ast.OpPattern(SPAN, ast.OpName(SPAN, "", word + "Op"), (x,), (attribute,))
    choice = ast.Alternatives(
        SPAN,
        (
            ast.Alternative(SPAN, inner, word + "6", None),
            ast.Alternative(SPAN, x, word + "7", ast.Constant(SPAN, True, "true")),
        ),
    )
    top = ast.OpPattern(SPAN, ast.OpName(SPAN, "ms", word), (choice, typed), (attribute, bound))
    emit = ast.EmitStatement(SPAN, (word + "8",), ast.Name(SPAN, word))
    return ast.Rule(
        span=SPAN, name=word, phase="fuse", opset=(None, None), over=(), doc=word,
        match=(ast.MatchStatement(SPAN, (word + "8",), top),), steps=(), emit=(emit,), group=None,
        claim=ast.Claim(SPAN, "exact"), examples=(),
    )  # fmt: skip


def strings_in(code: CodeType) -> set[str]:
    """Every string that a code object holds, names and nested code included."""
    found = {*code.co_names, *code.co_varnames, *code.co_freevars}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= strings_in(constant)
        elif isinstance(constant, str):
            found.add(constant)
    return found


@pytest.mark.parametrize("word", HOSTILE)
def test_what_authors_write_is_data(word):
    program = entry_of(compile_rule(hostile_rule(word), vocabulary())).program
    assert isinstance(program, Program)
    allowed = codecheck.RUNTIME | {
        "node", "facts", "rule", "target", "graph", "match", "_graph", "_outputs", "_inputs", "len",
        "range", "_producer", "_op_type", "_domain", "_index", "constant", "operands",
    }  # fmt: skip
    for text in strings_in(program.code) - {"<pattern>"}:
        head, _, digits = text.rpartition("_")
        numbered = (text[:1] in "vc" and text[1:].isdigit()) or (
            head in ("branch", "choice") and digits.isdigit()
        )
        assert numbered or text in allowed or text == "<module>", text
    assert word + "Op" in program.constants, "operators are in the table of constants"


@pytest.mark.parametrize("word", [w for w in HOSTILE if "\0" not in w and w])
def test_hostile_names_still_match(word):
    """The same rule on a node of that operator: what is compared is the text itself."""
    node = h.make_node(
        word, ["a", ""], ["y"], domain="com.microsoft", **{word: word, word + "2": 7}
    )
    info = h.make_tensor_value_info
    graph = h.make_graph([node], "g", [info("a", 1, [2])], [info("y", 1, [2])])
    imports = [h.make_opsetid("", 18), h.make_opsetid("com.microsoft", 1)]
    facts = io.load(h.make_model(graph, opset_imports=imports, ir_version=8)).facts
    rule = compile_rule(hostile_rule(word), vocabulary())
    found = ask_everyone(entry_of(rule), next(iter(facts.model.graph)), facts)
    assert isinstance(found, Match)
    assert found.branches == {word + "7"}
    assert found.env[word + "3"] == 7


@pytest.mark.parametrize(
    "text",
    [
        "def match(node, facts, rule, target):\n import os",
        "def match(node, facts, rule, target):\n return open",
        "def match(node, facts, rule, target):\n return node.__class__",
        "def match(node, facts, rule, target):\n return facts.model",
        "def match(node, facts, rule, target):\n return 'text'",
        "def match(node, facts, rule, target):\n return v1.index().real",
        "def match(node, facts, rule, target):\n return __import__",
        "def match(node, facts, rule, target):\n exec(v0)",
        "def match(node, facts, rule, target):\n return node if v0 else vx",
        "def match(node, facts, rule, target):\n return (lambda: v0)()",
        "def match(node, facts, rule, target):\n v0 = {}",
        "def match(node, facts, rule, target): return v0 # comment",
        "def match(node, facts, rule, target): return v0\\",
        "def match(node, facts, rule, target): return 1.5",
        "def match(node, facts, rule, target): return finish2",
        "class match: v0 = 1",
        "while v0: tick()",
        "global v0",
    ],
)
def test_the_check_refuses_what_the_generator_does_not_write(text):
    with pytest.raises(ValueError, match="generated code has"):
        codecheck.check(text)


def test_generated_code_has_no_builtins_but_two():
    program = entry_of(compile_text(rule_text("y = Relu(x)"))).program
    assert isinstance(program, Program)
    names = {i.argval for i in dis.get_instructions(program.code) if "NAME" in i.opname}
    assert names == {"match"}


def test_a_rule_cannot_call_python():
    for text in ("open(1)", "eval(1)", "exec(1)", "getattr(x, 1)", "__import__(1)"):
        with pytest.raises(Exception, match=r"RW262|RW10"):
            entry_steps(text)


def entry_steps(text: str) -> object:
    return compile_text(rule_text("y = Relu(x)", f"where {text}")).steps


def test_a_target_gives_no_python_objects():
    for text in ("target.__class__", "target.packs", "target.kinds", "x.facts", "x._uses"):
        with pytest.raises(Exception, match=r"RW261|RW10"):
            entry_steps(text)


def test_deep_patterns_are_bounded():
    """Alternatives inside alternatives would double the code each time; it is not made."""
    pattern = "Relu(x)"
    for i in range(12):
        pattern = f"Neg({pattern} | Sin({pattern}))" if i < 7 else f"Neg({pattern})"
    entry = entry_of(compile_text(rule_text(f"y = {pattern}")))
    assert isinstance(entry, Entry)
    assert entry.program == "its alternatives would make too much code"
    assert onnx.__version__
