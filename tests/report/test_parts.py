"""Texts, escaping, near misses and the partition, one by one."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, parser

import rewrite
from rewrite.api import find_target, matcher_for
from rewrite.report import nearby as nearby_module
from rewrite.report.markup import element, json_text, table, text_block, with_code
from rewrite.report.nearby import nearby
from rewrite.report.partition import partition
from rewrite.report.picture import picture
from rewrite.report.text import attribute_text, brief_type, shown, size_text, type_text
from rewrite.schema import Type
from tests.report.models import Parsed, page_of

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '

# --- texts ----------------------------------------------------------------------------------------


def test_long_names_keep_beginning_and_end():
    name = "begin" + "x" * 10_000 + "end"
    told = shown(name, 100)
    assert told.startswith("begin")
    assert told.endswith("end (10008 characters)")
    assert len(told) < 130
    assert shown("a\u202eb\x00") == "a\\u202eb\\x00"
    assert shown("größe/шаг_1") == "größe/шаг_1"


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (Type("f32", (1, "batch", "?0", "unk__7")), "f32[1,batch,?,?]"),
        (Type("f32", ()), "f32[]"),
        (Type("f32", None), "f32[…]"),
        (Type(None, None), ""),
        (Type(None, ("?1",)), ""),
        (Type(None, (2, "?1")), "?[2,?]"),
    ],
)
def test_types(type_, text):
    assert type_text(type_) == text


def test_brief_types_cut_names_of_sizes():
    assert brief_type(Type("f32", ("DynamicDimension.0", 3))) == "f32[Dynamic…,3]"
    assert len(brief_type(Type("f32", tuple(range(100, 150))))) == 32


def test_sizes():
    assert [size_text(n) for n in (0, 1023, 1024, 1536 << 10, 3 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 MiB", "3.0 GiB",
    ]  # fmt: skip


def test_attributes():
    weights = np.arange(5, dtype=np.float32)
    found = [
        ir.AttrInt64s("pads", [0, 1]),
        ir.AttrInt64s("many", list(range(100))),
        ir.AttrFloat32("alpha", 0.1),
        ir.AttrString("mode", "a\nb"),
        ir.AttrTensor("value", ir.tensor(np.float32([1.5, 2]))),
        ir.AttrTensor("weights", ir.tensor(weights)),
        ir.AttrTensor("words", ir.StringTensor([b"secret"], shape=ir.Shape([1]))),
        ir.RefAttr("axis", "outer", ir.AttributeType.INT),
    ]
    assert [attribute_text(attribute) for attribute in found] == [
        "pads=[0, 1]",
        "many=[" + ", ".join(map(str, range(24))) + ", … (100 in all)]",
        "alpha=0.1",
        "mode='a\\nb'",
        "value=f32[2] [1.5, 2]",
        "weights=f32[5], 20 B",
        "words=string[1], 16 B",
        "axis=@outer",
    ]


# --- markup ---------------------------------------------------------------------------------------


def test_markup_escapes_text_and_attributes():
    made = element("a", "<b>", element("i", "&"), href='"x', hidden=True, title=None, class_="c")
    assert made == '<a href="&quot;x" hidden class="c">&lt;b&gt;<i>&amp;</i></a>'
    assert text_block("a\n\t<b>\u202e") == "a\n    &lt;b&gt;\\u202e"
    assert with_code("`a<b` held") == "<code>a&lt;b</code> held"
    assert with_code("a ` b") == "a ` b"
    parsed = Parsed(table(("N", "What"), [(1, "<x>"), (2, "y")], "T", (0,)))
    assert parsed.open == []
    assert "<x>" in parsed.texts


def test_json_cannot_end_its_element():
    data = {"</script>": ["<!--", "&amp;", "\u2028\ud7ff", "é"]}
    made = json_text(data)
    assert not set("<>&") & set(made)
    assert made.isascii()
    assert json.loads(made) == data


# --- near misses ----------------------------------------------------------------------------------


NEARLY = (
    HEAD
    + """
g (float[4] x, float[4] w) => (float[4] y, float[4] z)
<float two = {2}>
{ d = Mul(x, two)  y = Relu(d)  z = Add(x, w) }
"""
)


def test_what_is_nearly_matched_and_why():
    result = rewrite.apply(parser.parse_model(NEARLY))
    target = find_target("generic")
    found = nearby(result.loaded.facts, matcher_for(target), target)
    assert found.cut == ""
    told = {one.rule.name: one for one in found.rules}
    (reason,) = told["multiply_one"].reasons
    assert reason.code == "literal"
    assert reason.would == "`two` were the constant 1 (it is 2)"
    assert [node.outputs[0].name for node in reason.nodes] == ["d"]


def test_the_search_says_where_it_was_cut(monkeypatch):
    result = rewrite.apply(parser.parse_model(NEARLY))
    target = find_target("generic")
    monkeypatch.setattr(nearby_module, "MOST_ASKED", 3)
    found = nearby(result.loaded.facts, matcher_for(target), target)
    assert found.cut == "Cut after 3 pairs of a rule and a node."
    monkeypatch.setattr(nearby_module, "MOST_ASKED", 6000)
    monkeypatch.setattr(nearby_module, "_SECONDS", -1.0)
    found = nearby(result.loaded.facts, matcher_for(target), target)
    assert found.cut.startswith("Cut after")
    assert not found.rules


def test_of_each_phase_the_nearest_rules(monkeypatch):
    monkeypatch.setattr(nearby_module, "MOST_RULES", 1)
    result = rewrite.apply(parser.parse_model(NEARLY))
    target = find_target("generic")
    found = nearby(result.loaded.facts, matcher_for(target), target)
    phases = [one.rule.phase for one in found.rules]
    assert len(phases) == len(set(phases)) > 0


# --- partition ------------------------------------------------------------------------------------

SPLIT = (
    HEAD
    + """
g (float[1,2,4,4] x, float[2,2,1,1] w, int64 axis) => (float[1,2,4,4] y)
{ c = Conv(x, w)  r = Relu(c)  s = CumSum(r, axis)  e = Neg(s)  y = CumSum(e, axis) }
"""
)


def test_kernels_and_stretches():
    result = rewrite.apply(parser.parse_model(SPLIT), target="hexagon")
    domain = find_target("hexagon").domain
    after = picture(result.loaded.facts, domain)
    found = partition(after, result.journal.groups, result.stats["unsupported"])
    told = [(k.kind, k.what, k.rule, len(k.cells)) for k in found.kernels]
    assert told == [
        ("group", "Conv + Relu", "conv_chain", 1),
        ("operator", "Neg", "", 1),
        ("elsewhere", "CumSum", "", 2),
    ]
    assert [(s.on_target, len(s.cells)) for s in found.stretches] == [
        (True, 1), (False, 1), (True, 1), (False, 1),
    ]  # fmt: skip
    assert sorted(after.cells[cell].key[1] for cell in found.reasons) == ["s", "y"]


# --- models with unusual parts --------------------------------------------------------------------


def label_encoder() -> onnx.ModelProto:
    keys = helper.make_tensor("k", onnx.TensorProto.STRING, [2], [b"a", b"b"])
    values = helper.make_tensor("v", onnx.TensorProto.INT64, [2], [0, 1])
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_tensor=keys, values_tensor=values,
        default_tensor=helper.make_tensor("d", onnx.TensorProto.INT64, [1], [42]),
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, [3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [3])],
    )
    imports = [helper.make_opsetid("ai.onnx.ml", 4), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


UNUSUAL = {
    "sequence": HEAD + "g (float[2] x) => (int64 n) "
    "{ s = SequenceConstruct(x, x)  n = SequenceLength(s) }",
    "loop": HEAD
    + """
        g (int64 n, bool c, float[2] x) => (float[2] y) {
          y = Loop(n, c, x) <body = b (int64 i, bool k, float[2] v) => (bool k2, float[2] w)
            { k2 = Identity(k)  w = Add(v, x) }>
        }""",
    "several outputs, one unused": HEAD + "g (float[4] x) => (float[2] y) "
    "<int64[2] s = {2, 2}> { y, unused = Split(x, s) }",
    "an operator nobody knows": '<ir_version: 8, opset_import: ["" : 17, "odd" : 1]> '
    "g (float[2] x) => (float[2] y) { y = odd.Thing <k = 3> (x) }",
    "unknown sizes": HEAD + "g (float[N, M] x) => (float y) { y = ReduceSum(x) }",
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_models_with_unusual_parts(name):
    assert Parsed(page_of(parser.parse_model(UNUSUAL[name]))).open == []


def test_a_model_with_tensors_of_strings():
    page = page_of(label_encoder())
    assert "LabelEncoder" in page
    assert "string[2]" in page


def test_a_model_that_is_empty_afterwards():
    model = parser.parse_model(HEAD + "g (float[2] x) => (float[2] x) { unused = Relu(x) }")
    page = page_of(model)
    assert "1 → 0" in page
