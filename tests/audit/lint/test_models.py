"""Checks that run examples, and models made of two examples."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from rewrite.audit.lint.graft import Place, graft
from rewrite.audit.lint.ignoring import changed, ignored_in
from rewrite.audit.lint.promises import computes, lost_in_half, other_arithmetic
from rewrite.audit.lint.subject import open_pack
from rewrite.audit.lint.witness import Witness
from rewrite.lang.parser import parse
from rewrite.lang.versions import Operators
from rewrite.match.vocabulary import vocabulary
from tests.audit.lint.packs import MANIFEST, rule

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'


def place(text: str, output: str, matched: set[str], anchor: str, name: str) -> Place:
    model = parser.parse_model(HEAD + text)
    loaded = Witness("w", "r", None, model).load()
    assert loaded is not None
    values = [v for node in loaded.model.graph for v in (*node.inputs, *node.outputs)]
    types = {str(v.name): loaded.facts.type(v) for v in values if v is not None}
    node = next(n for n in model.graph.node if n.output[0] == output)
    operator = (node.domain, node.op_type)
    return Place(name, name, model, output, operator, frozenset(matched), anchor, types)


def evaluated(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(model).run(None, feeds))


def test_a_node_is_computed_as_in_the_other_model():
    """|-(x)| on -(z * 2): the node of the first one that is a Neg takes the product."""
    text = "g (float[2] x) => (float[2] y) { n = Neg(x)  y = Abs(n) }"
    upper = place(text, "n", {"n", "y"}, "y", "u")
    lower = place(
        "g (float[2] z) => (float[2] m) <float k = {2}> { p = Mul(z, k)  m = Neg(p) }",
        "m", {"p", "m"}, "m", "l",
    )  # fmt: skip
    made = graft(upper, lower)
    assert made is not None
    onnx.checker.check_model(made, full_check=True)
    assert sorted(n.op_type for n in made.graph.node) == ["Abs", "Mul", "Neg"]
    z = np.array([3.0, -1.0], np.float32)
    names = [i.name for i in made.graph.input]
    feeds = dict.fromkeys(names, z)
    (found,) = evaluated(made, **feeds)
    assert found.tolist() == [6.0, 2.0]


def test_operands_that_the_first_rule_computes_stay():
    """(a b) + c on z + w: the product stays an operand of the sum."""
    upper = place(
        "g (float[2] a, float[2] b, float[2] c) => (float[2] y) { p = Mul(a, b)  y = Add(p, c) }",
        "y", {"p", "y"}, "y", "u",
    )  # fmt: skip
    lower = place(
        "g (float[2] z, float[2] w) => (float[2] s, float[2] t) { s = Add(z, w)  t = Neg(z) }",
        "s", {"s"}, "s", "l",
    )  # fmt: skip
    made = graft(upper, lower)
    assert made is not None
    (add,) = [n for n in made.graph.node if n.op_type == "Add"]
    assert list(add.input) == ["a_p", "b_w"]


def test_types_have_to_be_the_same():
    upper = place("g (float[2] x) => (float[2] y) { n = Neg(x)  y = Abs(n) }", "n", {"n"}, "y", "u")
    lower = place("g (float[3] x) => (float[3] y) { y = Neg(x) }", "y", {"y"}, "y", "l")
    assert graft(upper, lower) is None


def test_a_pair_that_no_example_has_is_found(write):
    """The example of one rule ends where that of the other begins."""
    rules = rule("  match y = Abs(Neg(x))\n  emit  y = Abs(x)\n  claim exact", "outer").replace(
        "{ y = Neg(x) }", "{ n = Neg(x)  y = Abs(n) }"
    ) + rule("  match y = Neg(x * 2)\n  emit  y = x * -2\n  claim exact", "inner").replace(
        '"""g (float x) => (float y) { y = Neg(x) }"""',
        '"""g (float x) => (float y) <float k = {2}> { p = Mul(x, k)  y = Neg(p) }"""',
    )
    subject = open_pack(write(rules))
    (pair,) = subject.meetings.pairs
    assert set(pair) == {"outer", "inner"}
    (meeting, *_) = subject.meetings.pairs[pair]
    assert meeting.witness.example is None
    assert meeting.witness.label == "outer: fires plain, on inner: fires plain"


# --- promises


def of(match: str, emit: str, more: str = "") -> object:
    text = rule(f"  match {match}\n{more}  emit  {emit}\n  claim exact")
    return other_arithmetic(parse(text, "f").rules[0], Operators(vocabulary()))


@pytest.mark.parametrize(
    ("match", "emit", "other"),
    [
        ("y = x * z + w * z", "y = (x + w) * z", True),
        ("y = x * z + w * z", "y = x", False),  # nothing emitted rounds
        ("y = x - Neg(z)", "y = x + z", False),  # one sum either way
        ("y = Abs(Neg(x)) * z", "y = Abs(x) * z", False),
        ("y = (x: s32) * z + w * z", "y = (x + w) * z", False),
        ("y = MatMul(x, z)", "y = Gemm(x, z)", True),
        ("y = Neg(x)", "y = Cast(Cast(x) { to: s32 } - s32(1)) { to: u8 }", False),
    ],
)
def test_other_arithmetic(match, emit, other):
    assert (of(match, emit) is not None) is other


def test_a_condition_on_the_type_counts():
    more = '  where dtype(x) in ["s8", "s32"]\n'
    assert of("y = x * z + w * z", "y = (x + w) * z", more) is None


@pytest.mark.parametrize(
    ("literal", "found"),
    [("0.5", None), ("65504", None), ("-1000000000", "infinity"), ("1e-9", "0"), ("0", None)],
)
def test_literals_in_half_precision(literal, found):
    from rewrite.lang import ast
    from rewrite.lang.walk import nodes

    (tree,) = parse(rule(f"  match y = Sub(x, {literal})\n  emit  y = x\n  claim exact"), "f").rules
    (number,) = [n for n in nodes(tree.match[0]) if isinstance(n, ast.Number)]
    assert lost_in_half(number) == found


@pytest.mark.parametrize(
    ("shape", "found"),
    [("[2,3]", True), ("[0,3]", False), ("[N,0]", False), ("[?,N]", True), ("", True)],
)
def test_outputs_with_elements(shape, found):
    model = parser.parse_model(HEAD + f"g (float{shape} x) => (float{shape} y) {{ y = Neg(x) }}")
    assert computes(model) is found


# --- ignored attributes


def test_values_that_are_tried():
    text = rule(
        "  match c = Cast(x) { to: ignored, saturate: ignored }\n"
        "        l = LeakyRelu(c) { alpha: ignored }\n"
        "        y = Softmax(l) { axis: ignored }\n  emit  y = x\n  claim exact"
    )
    found = ignored_in(parse(text, "f").rules[0], Operators(vocabulary()))
    assert {(i.operator, i.attribute): tuple(i.values) for i in found} == {
        ("Softmax", "axis"): (0, 1, -1),
        ("LeakyRelu", "alpha"): (0.5, 2.0),
        ("Cast", "saturate"): (0, 1),
    }


@pytest.mark.parametrize(
    ("before", "found"),
    [
        ("a = Neg(x)", ["alpha"]),
        ("a = Loop(n, k, x) <body = b (int64 i, bool j, float[2] v) => (bool o, float[2] w) "
         "{ o = Identity(j)  w = Neg(v) }>", []),  # nothing ends a run that goes on for ever
    ],
)  # fmt: skip
def test_examples_with_a_loop_are_not_run(tmp_path, before, found):
    body = (
        "  match y = LeakyRelu(Neg(x: f32)) { alpha: ignored }\n"
        "  emit  y = Relu(Neg(x))\n  claim exact\n"
        '  example fires loop """g (float[2] x) => (float[2] y) '
        f"<int64 n = {{3}}, bool k = {{1}}> {{ {before}  b = Neg(a)  "
        'y = LeakyRelu(b) }"""'
    )
    (tmp_path / "pack.yaml").write_text(MANIFEST)
    (tmp_path / "a.rules").write_text(rule(body))
    subject = open_pack(tmp_path)
    (written,) = subject.own()
    rows = changed(written, subject.witnesses, subject.matchers, subject.operators)
    assert [row.ignored.attribute for row in rows] == found


def test_an_attribute_that_is_asked_for_elsewhere_is_not_tried():
    text = rule(
        "  match y = Elu(Elu(x) { alpha: ignored }) { alpha: 1.0 }\n  emit  y = x\n  claim exact"
    )
    assert ignored_in(parse(text, "f").rules[0], Operators(vocabulary())) == ()
