"""Operators: order of operands, attributes, legacy forms, outputs, what may be used outside."""

from __future__ import annotations

import pytest

from rewrite.match.rule import Match
from tests.match.support import read_model

MUL = "g (float[2] x) => (float[2] y) { s = Sigmoid(x) y = Mul(%s) }"


@pytest.mark.parametrize("order", ["x, s", "s, x"])
def test_commutative_operators_match_in_both_orders(ask, order):
    found = ask("y = x * Sigmoid(x)", MUL % order)
    assert found.names == {"y": "y", "x": "x"}
    assert found.nodes == ["y", "s"]


def test_ordered_takes_operands_as_written(ask):
    assert ask("y = ordered (x * Sigmoid(x))", MUL % "x, s")
    assert not ask("y = ordered (x * Sigmoid(x))", MUL % "s, x")


def test_operators_that_do_not_commute(ask):
    text = "g (float[2] x) => (float[2] y) { s = Sigmoid(x) y = Sub(s, x) }"
    assert not ask("y = x - Sigmoid(x)", text)
    assert ask("y = Sigmoid(x) - x", text)


def test_the_order_written_comes_first(ask):
    text = "g (float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }"
    assert ask("y = p + q", text).names == {"y": "y", "p": "a", "q": "b"}
    assert ask("y = p + q", text, "y", "where is_input(p), uses(p) == 1").names["p"] == "a"


def test_conditions_choose_among_orders(ask):
    text = "g (float[2] a, float[3,2] b) => (float[3,2] y) { y = Add(a, b) }"
    assert ask("y = p + q", text, "y", "where rank(p) == 2").names == {"y": "y", "p": "b", "q": "a"}


VARIADIC = "g (float[2] a, float[2] b, float[2] c) => (float[2] y) <float k = {0}> { y = %s }"


def test_variadic_operators_commute(ask):
    assert ask("y = Max(0, x)", VARIADIC % "Max(a, k)").names["x"] == "a"
    assert ask("y = Max(0, *xs)", VARIADIC % "Max(a, k, b, c)").names["xs"] == ("a", "b", "c")
    assert ask("y = Max(p, q, 0)", VARIADIC % "Max(k, a, b)").names == {
        "y": "y",
        "p": "a",
        "q": "b",
    }
    assert ask("y = Sum(p, q)", VARIADIC % "Sum(a, b, c)").code == "operands"


def test_the_domain_is_part_of_the_operator(ask):
    text = "g (float[2] x) => (float[2] y) { y = %s(x) }"
    assert ask("y = ms.Gelu(x)", text % "com.microsoft.Gelu")
    assert ask("y = Gelu(x)", text % "com.microsoft.Gelu", opset=20).code == "operator"
    assert ask("y = ms.Gelu(x)", text % "Gelu", opset=20).code == "operator"


# --- attributes ----------------------------------------------------------------------------------

SOFTMAX = "g (float[2,3] x) => (float[2,3] y) { y = Softmax %s (x) }"


@pytest.mark.parametrize(("opset", "default"), [(11, 1), (13, -1)])
def test_defaults_are_those_of_the_version(ask, opset, default):
    """onnx/defs/math: Softmax-1 and -11 have axis 1, Softmax-13 has axis -1."""
    model = SOFTMAX % ""
    assert ask("y = Softmax(x) { axis: a }", model, opset=opset).names["a"] == default
    assert bool(ask("y = Softmax(x) { axis: -1 }", model, opset=opset)) is (default == -1)


def test_attribute_values(ask):
    assert ask("y = Softmax(x) { axis: 0 }", SOFTMAX % "<axis = 0>")
    assert ask("y = Softmax(x) { axis: 0 | 1 }", SOFTMAX % "<axis = 1>")
    assert ask("y = Softmax(x) { axis: 0 }", SOFTMAX % "<axis = 1>").code == "attribute"
    assert ask("y = Softmax(x) { axis: ignored }", SOFTMAX % "<axis = 1>").names == {
        "y": "y",
        "x": "x",
    }


def test_lists_strings_and_floats(ask):
    text = "g (float[1,2,3] x) => (float[3,1,2] y) { y = Transpose <perm = [2,0,1]> (x) }"
    assert ask("y = Transpose(x) { perm: [2, 0, 1] }", text)
    assert not ask("y = Transpose(x) { perm: [2, 1, 0] }", text)
    assert ask("y = Transpose(x) { perm: p }", text).names["p"] == (2, 0, 1)
    text = 'g (float[2] x) => (float[2] y) { y = Gelu <approximate = "tanh"> (x) }'
    assert ask('y = Gelu(x) { approximate: "none" | "tanh" }', text, opset=20)
    assert not ask('y = Gelu(x) { approximate: "none" }', text, opset=20)
    text = "g (float[2] x) => (float[2] y) { y = LeakyRelu <alpha = 0.1> (x) }"
    assert ask("y = LeakyRelu(x) { alpha: 0.1 }", text), "both are the float32 nearest to 0.1"
    assert ask(
        "y = LeakyRelu(x) { alpha: 0.01 }", "g (float[2] x) => (float[2] y) { y = LeakyRelu(x) }"
    )


def test_an_attribute_without_default_is_none(ask):
    text = "g (float[1,2] x) => (float[2,1] y) { y = Transpose(x) }"
    assert ask("y = Transpose(x) { perm: p }", text).names["p"] is None
    assert ask("y = Transpose(x) { perm: [1, 0] }", text).code == "attribute"


def test_an_attribute_that_a_version_lacks_has_its_later_default(ask):
    text = "g (float[2,3] x, int64[1] s) => (float[6] y) { y = Reshape(x, s) }"
    assert ask("y = Reshape(x, s) { allowzero: 0 }", text, opset=13)


def test_element_types_among_attributes(ask):
    text = "g (float[2] x) => (float16[2] y) { y = Cast <to = 10> (x) }"
    assert ask("y = Cast(x) { to: t, saturate: ignored }", text).names["t"] == "f16"
    assert ask("y = Cast(x) { to: t }", text, "y", "where t in [f16, bf16], bits(t) == 16")
    assert ask("y = Cast(x) { to: 10 }", text)


def test_a_name_bound_by_two_attributes_is_one_value(ask):
    text = """g (float[2,3,4] x) => (float[2,3,4] y)
        { t = Softmax <axis = %d> (x) y = Softmax <axis = 1> (t) }"""
    pattern = "y = Softmax(Softmax(x) { axis: a }) { axis: a }"
    assert ask(pattern, text % 1).names["a"] == 1
    assert ask(pattern, text % 2).code == "same"


def test_an_attribute_of_a_function_is_known_to_its_callers_only(ask):
    text = """<ir_version: 9, opset_import: ["" : 18, "d" : 1]>
        g (float[2] x) => (float[2] z) { z = d.f <a = 0.5> (x) }
        <domain: "d", opset_import: ["" : 18]>
        f <a> (p) => (y) { y = LeakyRelu <alpha: float = @a> (p) }
    """
    model = read_model(text)
    found = ask("y = LeakyRelu(x) { alpha: a }", model)
    assert found.code == "attribute"
    assert "function" in found.reason
    assert ask("y = LeakyRelu(x) { alpha: ignored }", model)


# --- one form for all opsets ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opset", "text"),
    [
        (12, "{ y = Squeeze <axes = [0]> (x) }"),
        (13, "<int64[1] a = {0}> { y = Squeeze(x, a) }"),
    ],
)
def test_axes_are_an_operand_at_every_opset(ask, opset, text):
    found = ask("y = Squeeze(x, axes: const)", f"g (float[1,2] x) => (float[2] y) {text}", "y",
                "where ints(axes) == [0]", opset=opset)  # fmt: skip
    assert found


def test_a_legacy_operand_left_out_is_absent(ask):
    text = "g (float[1,2] x) => (float[2] y) { y = Squeeze(x) }"
    assert ask("y = Squeeze(x, axes?: const)", text, opset=11).names["axes"] is None
    assert ask("y = Squeeze(x)", text, opset=11)
    given = "g (float[1,2] x) => (float[2] y) { y = Squeeze <axes = [0]> (x) }"
    assert ask("y = Squeeze(x)", given, opset=11).code == "operands"


@pytest.mark.parametrize("opset", [7, 10, 11, 13])
def test_bounds_of_clip(ask, opset):
    old = "{ y = Clip <min = 0.0, max = 6.0> (x) }"
    new = "<float a = {0}, float b = {6}> { y = Clip(x, a, b) }"
    text = f"g (float[2] x) => (float[2] y) {old if opset < 11 else new}"
    assert ask("y = Clip(x, 0, 6)", text, opset=opset)
    assert ask("y = Clip(x, 0, 5)", text, opset=opset).code == "literal"


def test_rules_are_for_opsets(ask):
    rule = 'rule r in fuse opset 9..12 {{ """T.""" match y = Abs(x) emit y = x claim exact }}'
    text = "g (float[2] x) => (float[2] y) { y = Abs(x) }"
    answers = {n: ask(rule.format(), text, opset=n).code for n in (8, 9, 12, 13)}
    assert answers == {8: "opset", 9: "match", 12: "match", 13: "opset"}


def test_an_emitted_operator_narrows_the_opsets(ask):
    """Gelu exists from opset 20 on."""
    text = "g (float[2] x) => (float[2] y) { y = Abs(x) }"
    emit = 'y = Gelu(x) { approximate: "none" }'
    assert ask("y = Abs(x)", text, emit=emit, opset=19).code == "opset"
    assert ask("y = Abs(x)", text, emit=emit, opset=20)


# --- outputs -------------------------------------------------------------------------------------

SPLIT = "g (float[4] x) => (float[2] %s) { a, b = Split <num_outputs = 2> (x) %s }"


def test_several_outputs(ask):
    pattern = "p, q = Split(x) { num_outputs: 2 } y = Sub(p, q)"
    text = SPLIT % ("y", "y = Sub(a, b)")
    assert ask(pattern, text).names == {"p": "a", "q": "b", "x": "x", "y": "y"}
    assert ask(pattern, SPLIT % ("y", "y = Sub(b, a)")).code == "output"


def test_a_statement_with_several_names_may_be_the_anchor(ask):
    pattern = "p, q = Split(x) { num_outputs: 2 }"
    text = SPLIT % ("b", "c = Relu(a)")
    assert ask(pattern, text, "b", emit="p = x  q = x").nodes == ["a"]


def test_an_operator_inside_a_pattern_is_its_first_output(ask):
    text = SPLIT % ("y", "y = Relu(%s)")
    assert ask("y = Relu(Split(x) { num_outputs: 2 })", text % "a")
    assert ask("y = Relu(Split(x) { num_outputs: 2 })", text % "b").code == "output"


def test_outputs_not_named_must_be_unused(ask):
    text = SPLIT % ("y", "y = Relu(a) z = Abs(b)")
    assert ask("y = Relu(Split(x) { num_outputs: 2 })", text).code == "uses"
    assert ask("y = Relu(shared Split(x) { num_outputs: 2 })", text)


def test_an_output_that_the_node_lacks_is_absent(ask):
    text = "g (float[2] x) => (float[2] y) { y = Dropout(x) }"
    assert ask("y, mask = Dropout(x) { seed: ignored }", text).names["mask"] is None


# --- uses outside --------------------------------------------------------------------------------

CHAIN = "g (float[2] x) => (%s) { t = Relu(x) y = Abs(t) %s }"


def test_inner_values_may_not_be_used_outside(ask):
    found = ask("y = Abs(Relu(x))", CHAIN % ("float[2] y, float[2] z", "z = Neg(t)"))
    assert (found.code, found.reason) == ("uses", "it is also used by Neg")


def test_a_graph_output_is_a_use(ask):
    found = ask("y = Abs(Relu(x))", CHAIN % ("float[2] y, float[2] t", ""))
    assert (found.code, found.reason) == ("uses", "it is also an output of the graph")


def test_shared_allows_uses_outside(ask):
    for text in (CHAIN % ("float[2] y, float[2] t", ""),
                 CHAIN % ("float[2] y, float[2] z", "z = Neg(t)")):  # fmt: skip
        assert ask("y = Abs(shared Relu(x))", text)


def test_the_root_may_be_used_and_be_an_output(ask):
    assert ask("y = Abs(Relu(x))", CHAIN % ("float[2] y, float[2] z", "z = Neg(y)"))


def test_a_capture_by_a_subgraph_is_a_use(ask):
    text = """g (float[2] x, bool c) => (float[2] y, float[2] z) { t = Relu(x) y = Abs(t)
        z = If (c) <then_branch = g1 () => (float[2] p) { p = Neg(t) },
                    else_branch = g2 () => (float[2] q) { q = Identity(x) }> }"""
    assert ask("y = Abs(Relu(x))", text).code == "uses"
    assert ask("y = Abs(shared Relu(x))", text)


def test_all_matched_nodes_lie_in_one_graph(ask):
    text = """g (float[2] x, bool c) => (float[2] z) { t = Relu(x)
        z = If (c) <then_branch = g1 () => (float[2] y) { y = Abs(t) },
                    else_branch = g2 () => (float[2] q) { q = Identity(x) }> }"""
    assert ask("y = Abs(Relu(x))", text).code == "graph"
    assert ask("y = Abs(x)", text).names["x"] == "t", "a captured value is a value"


def test_constants_of_an_outer_graph_are_constants(ask):
    text = """g (float[2] x, bool c) => (float[2] z) <float k = {1}> {
        z = If (c) <then_branch = g1 () => (float[2] y) { y = Mul(x, k) },
                    else_branch = g2 () => (float[2] q) { q = Identity(x) }> }"""
    assert ask("y = Mul(x, 1)", text)


def test_several_roots(ask):
    text = "g (float[2] x) => (float[2] s, float[2] y) { s = Sin(x) y = Cos(x) }"
    found = ask("s = Sin(x) y = Cos(x)", text, emit="s = Abs(x)  y = Neg(x)")
    assert isinstance(found.said, Match)
    assert [r.name for r in found.match.roots] == ["s", "y"]
    assert found.nodes == ["s", "y"], "in the order of the text"


def test_roots_are_different_values(ask):
    text = "g (float[2] x) => (float[2] y) { y = Sin(x) }"
    found = ask("s = Sin(x) y = Sin(x)", text, emit="s = Abs(x)  y = Neg(x)")
    assert found.code == "root"
    both = "g (float[2] x) => (float[2] s, float[2] y) { s = Sin(x) y = Sin(x) }"
    assert ask("s = Sin(x) y = Sin(x)", both, emit="s = Abs(x)  y = Neg(x)").names["s"] == "s"


def test_an_operator_deprecated_for_a_while(ask):
    """GroupNormalization-18 is deprecated, 21 is not; Upsample is gone from opset 10 on."""
    text = "g (float[2] x) => (float[2] y) { y = Abs(x) }"
    emit = "y = GroupNormalization(y, y, y) { num_groups: 1 }"
    answers = {n: ask("y = Abs(x)", text, emit=emit, opset=n).code for n in (18, 20, 21)}
    assert answers == {18: "opset", 20: "opset", 21: "match"}
    emit = 'y = Upsample(y, y) { mode: "nearest" }'
    answers = {n: ask("y = Abs(x)", text, emit=emit, opset=n).code for n in (8, 9, 10)}
    assert answers == {8: "match", 9: "match", 10: "opset"}


def test_two_statements_are_two_nodes(ask):
    attributes = "{ axis: a, largest: l, sorted: s }"
    pattern = f"v, i = shared TopK(x, k) {attributes}  w, j = TopK(x, k) {attributes}"
    head = "g (float[4] x, int64[1] k) => (float[n] v, int64[n] o)"
    one = f"{head} {{ v, i = TopK(x, k)  o = Identity(i) }}"
    assert ask(pattern, one, "v", emit="w = v j = i").code == "same"
    two = f"{head} {{ v, i = TopK(x, k)  w, j = TopK(x, k)  o = Identity(j) }}"
    assert ask(pattern, two, "w", emit="w = v j = i").names["v"] == "v"
