"""Models made from models: what is varied, that it is valid, that nothing else is."""

from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from rewrite.audit.instances.alone import Alone
from rewrite.audit.instances.draft import Draft, cast
from rewrite.audit.instances.generate import instances_of
from rewrite.audit.instances.grow import grown
from rewrite.audit.instances.hints import Hints
from rewrite.audit.instances.instance import Budget
from rewrite.audit.instances.registry import changes, variations
from rewrite.audit.instances.variations.opsets import classes, move
from rewrite.audit.instances.variations.shapes import resize
from rewrite.lang.pack import load_pack
from rewrite.match.vocabulary import vocabulary
from rewrite.target.load import load_target

PLANTED = Path(__file__).parent / "planted"
HINTS = Hints((6.0,), (), ("f32", "f16"), frozenset(), (7, 24), None)


def model(text, opset=18):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')


@cache
def pack():
    return load_pack(PLANTED, vocabulary(), [])


def rule(name):
    return next(rule for rule in pack().rules if rule.name == name)


def changed(kind, label, of):
    (change,) = [c for c in changes(of, HINTS)[kind] if c.label == label]
    return change.of(of)


BASE = """g (float[2,3] x) => (float[2,3] y) <float[3] c = {1,2,3}, float d = {4}>
{ a = Mul(x, c)  b = Add(a, d)  y = Clip(b, d) }"""


@pytest.mark.parametrize("kind", sorted(variations()))
def test_what_is_made_is_valid_and_the_base_stays(kind):
    base = model(BASE)
    data = base.SerializeToString(deterministic=True)
    made = [c.of(base) for c in changes(base, HINTS).get(kind, [])]
    assert base.SerializeToString(deterministic=True) == data
    for one in made:
        if one is not None:
            onnx.checker.check_model(one, full_check=True)
            assert one.SerializeToString(deterministic=True) != data


def test_every_kind_says_something_of_some_model():
    texts = [
        BASE,
        "g (float[4] x) => (float[4] y) <float l = {1}, float h = {2}> { y = Clip(x, l, h) }",
        "g (uint8[4] x) => (uint8[4] y) { y = Max(x, x) }",
        "g (float[4] a, float[4] b, float[4] c) => (float[4] y) { s = Add(a, b)  y = Add(s, c) }",
        "g (float[1,1,4,4] x) => (float[1,1,3,3] y) { y = MaxPool <kernel_shape = [2,2]> (x) }",
    ]
    found = {kind for text in texts for kind in changes(model(text), HINTS)}
    assert found == set(variations())


def test_infinite_numbers_of_a_rule_are_no_integer_attributes():
    hints = Hints((float("inf"), float("nan"), 3.0), (), ("f32",), frozenset(), (7, 24), None)
    of = model("g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 1> (x) }")
    made = {change.label for change in changes(of, hints)["attribute"]}
    assert "Softmax axis = 3" in made
    assert not [label for label in made if "inf" in label or "nan" in label]


def test_one_type_everywhere():
    made = changed("dtype", "f32 to f16", model(BASE))
    assert made.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    assert {t.data_type for t in made.graph.initializer} == {onnx.TensorProto.FLOAT16}
    assert made.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16


def test_a_size_everywhere():
    draft = Draft(model(BASE))
    assert resize(draft, 3, 5)
    made = draft.finish()
    shape = [d.dim_value for d in made.graph.output[0].type.tensor_type.shape.dim]
    assert shape == [2, 5]
    # elements are repeated
    assert numpy_helper.to_array(made.graph.initializer[0]).tolist() == [1, 2, 3, 1, 2]


def test_sizes_in_a_shape_operand_change_too():
    text = """g (float[2,3] x) => (float[3,2] y) <int64[2] s = {3,2}> { y = Reshape(x, s) }"""
    draft = Draft(model(text))
    assert resize(draft, 3, 5)
    assert numpy_helper.to_array(draft.constants()[0]).tolist() == [5, 2]


def test_opsets_in_classes():
    # ReduceSum changed at 11, 13; the newest of each class is the one before, and the end
    draft = Draft(model("g (float[2] x) => (float[1] y) { y = ReduceSum(x) }"))
    assert classes(draft, 7, 18) == [10, 12, 18]


def test_operands_become_attributes_and_back():
    text = "g (float[2,3] x) => (float[2,1] y) <int64[1] r = {1}> { y = ReduceSum(x, r) }"
    draft = Draft(model(text))
    assert move(draft, 12)
    (node,) = draft.nodes
    assert list(node.input) == ["x"]
    assert [(a.name, list(a.ints)) for a in node.attribute] == [("axes", [1])]
    again = Draft(draft.finish())
    assert move(again, 18)
    (node,) = again.nodes
    assert numpy_helper.to_array(again.constant(node.input[1])).tolist() == [1]
    assert not node.attribute


def test_a_body_captures_a_value():
    made = changed("use in a body", "a is also used in an If", model(BASE))
    (node,) = [n for n in made.graph.node if n.op_type == "If"]
    assert [n.input[0] for a in node.attribute for n in a.g.node] == ["a", "a"]


def test_everything_in_a_body_computes_the_same():
    made = changed("in a body", "inside an If", model(BASE))
    x = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
    given = {"x": x, "condition": np.array(False)}
    (value,) = ReferenceEvaluator(made).run(None, given)
    assert np.array_equal(value, np.maximum(x * [1, 2, 3] + 4, 4))


def test_casts_stay_inside_of_the_type():
    assert cast(np.array([300.0, -7.0, np.nan, 2.5]), "u8").tolist() == [255, 0, 0, 2]
    assert cast(np.array([-200, 127]), "s8").tolist() == [-128, 127]


def test_inference_is_not_asked_what_ends_it():
    draft = Draft(model("g (float[4] x) => (float[2] a, float[2] b) { a, b = Split(x) }", 17))
    draft.graph.node[0].attribute.append(onnx.helper.make_attribute("num_outputs", 1))
    assert draft.finish() is None


def test_branches_that_no_example_takes_are_built(tmp_path):
    (tmp_path / "pack.yaml").write_text("name: p\ndoc: P.\nopset: [13, 20]\n")
    (tmp_path / "a.rules").write_text(
        'rule scaled in clean {\n"""A factor, a quotient or nothing."""\n'
        "match y = Relu(x * (s: const) as times | x / (q: const) as over | x) \n"
        "emit y = case { times: Relu(x) * s; over: Relu(x) / q; else: Abs(x) }\n"
        "claim equal(rtol=1e-6)\n"
        'example fires plain """g (float[2] x) => (float[2] y) <float c = {3}> '
        '{ m = Mul(x, c)  y = Relu(m) }"""\n'
        'example rejects one """g (float[2] x) => (float[2] y) { y = Abs(x) }"""\n}\n'
    )
    loaded = load_pack(tmp_path, vocabulary(), [])
    alone = Alone.of(loaded, loaded.rules[0], load_target("generic", vocabulary()))
    base = model(
        "g (float[2] x) => (float[2] y) <float c = {3}> { m = Mul(x, c)  y = Relu(m) }", 15
    )
    found = {seed.source: seed.model for seed in grown(alone, base, "base")}
    operators = {name: [n.op_type for n in m.graph.node] for name, m in found.items()}
    assert operators == {"base, branch over": ["Div", "Relu"], "base, branch 3": ["Relu"]}
    assert all(alone.apply(m).after is not None for m in found.values())


def test_instances_say_whether_the_rule_fires():
    target = load_target("generic", vocabulary())
    found = instances_of(pack(), rule("clip_upright"), target, Budget(firing=20))
    alone = Alone.of(pack(), rule("clip_upright"), target)
    assert sum(i.fires for i in found) == 20
    for instance in found:
        assert (alone.apply(instance.model).after is not None) == instance.fires
    assert len({i.model.SerializeToString(deterministic=True) for i in found}) == len(found)
