"""What is known about values and nodes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from graphkit import FLOAT, model, parsed, value
from onnx import TensorProto, helper, numpy_helper

from rewrite.graph import io
from rewrite.graph.facts import Facts, ReferenceAttribute
from rewrite.graph.fixed import is_fixed
from rewrite.ops import legacy, schemas
from rewrite.schema import Type


def loaded(proto: onnx.ModelProto) -> tuple[Facts, list[ir.Node]]:
    made = io.load(proto)
    return made.facts, list(made.model.graph)


def by_name(facts: Facts) -> dict[str, ir.Value]:
    found: dict[str, ir.Value] = {}
    for graph in facts.graphs():
        for v in (*graph.inputs, *graph.initializers.values()):
            found[v.name or ""] = v
        for node in graph:
            for v in node.outputs:
                found[v.name or ""] = v
    return found


# --- types -------------------------------------------------------------------------------------


def test_types_are_inferred_where_the_model_says_nothing():
    facts, _ = loaded(
        parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}>
      { a = MatMul (x, w)  s = Shape (a)  b = Cast <to = 10> (a)  y = Cast <to = 1> (b) }""")
    )
    values = by_name(facts)
    assert facts.type(values["a"]) == Type("f32", ("N", 2))
    assert facts.type(values["b"]) == Type("f16", ("N", 2))
    assert facts.type(values["s"]) == Type("s64", (2,))
    assert facts.type(values["w"]) == Type("f32", (3, 2))


def test_inferred_types_are_not_written():
    proto = parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y) { a = Neg (x)  y = Neg (a) }""")
    assert len(io.to_proto(io.load(proto)).graph.value_info) == 0


def test_types_inside_subgraphs_with_equal_names():
    facts, nodes = loaded(
        parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[2] x, int64[3] n) => (y)
      { y = If (c) <then_branch = t () => (r) { q = Neg (x)  r = Shape (q) },
                    else_branch = e () => (r) { q = Neg (n)  r = Shape (q) }> }""")
    )
    then, other = (a.value for a in nodes[0].attributes.values())
    assert facts.type(next(iter(then)).outputs[0]) == Type("f32", (2,))
    assert facts.type(next(iter(other)).outputs[0]) == Type("s64", (3,))


def test_declared_types_count_where_inference_knows_nothing():
    nodes = [
        helper.make_node("Mine", ["x"], ["a"], domain="custom"),
        helper.make_node("Neg", ["a"], ["y"]),
    ]
    proto = model(nodes, [value("x")], [value("y", ("M",))])
    proto.graph.value_info.append(value("a", ("M",)))
    facts, made = loaded(proto)
    assert facts.type(made[0].outputs[0]) == Type("f32", ("M",))


@pytest.mark.parametrize("word", ["", "?", "None", "unknown", "?3"])
def test_names_that_say_nothing_are_never_equal(word):
    facts, _ = loaded(
        model(
            [helper.make_node("Add", ["a", "b"], ["y"])],
            [value("a", (word,)), value("b", (word,))],
            [value("y", (None,))],
        )
    )
    values = by_name(facts)
    assert facts.type(values["a"]).shape != facts.type(values["b"]).shape
    assert facts.type(values["a"]) == facts.type(values["a"])


def test_unnamed_sizes_get_the_same_names_each_time():
    proto = model(
        [helper.make_node("Neg", ["a"], ["y"])],
        [value("a", (None, None))],
        [value("y", (None, None))],
    )
    seen = []
    for _ in range(2):
        facts, _nodes = loaded(proto)
        seen.append([facts.type(v) for v in by_name(facts).values()])
    assert seen[0] == seen[1]


def test_set_type_and_forget():
    facts, nodes = loaded(
        model([helper.make_node("Neg", ["x"], ["y"])], [value("x")], [value("y")])
    )
    y = nodes[0].outputs[0]
    facts.set_type(y, Type("f16", (7,)))
    assert facts.type(y) == Type("f16", (7,))
    facts.forget(y)
    assert facts.type(y) == Type("f32", (2,))


# --- constants ---------------------------------------------------------------------------------

OVERRIDABLE = """
<ir_version: {}, opset_import: ["": 8]>
g (float[2] x, float[2] w = {{1, 1}}) => (float[2] y) {{ y = Mul (x, w) }}"""


@pytest.mark.parametrize(("ir_version", "constant"), [(3, True), (4, False), (8, False)])
def test_an_initializer_that_is_an_input_is_a_default_from_ir_4_on(ir_version, constant):
    facts, nodes = loaded(parsed(OVERRIDABLE.format(ir_version)))
    w = nodes[0].inputs[1]
    assert w is not None
    assert facts.is_overridable(w) == (not constant)
    assert (facts.constant(w) is not None) == constant
    assert facts.scalar(w) == (1 if constant else None)


@pytest.mark.parametrize(("ir_version", "size"), [(3, 2), (8, "K")])
def test_type_of_an_initializer_that_is_an_input(ir_version, size):
    proto = parsed(OVERRIDABLE.format(ir_version))
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "K"
    facts, nodes = loaded(proto)
    w = nodes[0].inputs[1]
    assert w is not None
    assert facts.type(w) == Type("f32", (size,))


def test_constants_of_the_graph_around_are_constants_inside():
    facts, nodes = loaded(
        parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y) <float[1] w = {5}>
      { k = Constant <value_floats = [2.0]> ()
        y = If (c) <then_branch = t () => (float[1] r) { r = Mul (w, k) },
                    else_branch = e () => (float[1] r) { r = Mul (x, k) }> }""")
    )
    inner = [next(iter(a.value)) for a in nodes[1].attributes.values()]
    assert [facts.scalar(v) for v in inner[0].inputs if v] == [5, 2]
    assert [facts.scalar(v) for v in inner[1].inputs if v] == [None, 2]


def test_inputs_of_a_loop_body_are_no_constants():
    facts, nodes = loaded(
        parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (int64 n, bool c) => (float[1] y) <float[1] w = {5}>
      { y = Loop (n, c, w) <body = b (int64 i, bool k, float[1] a) => (bool k2, float[1] a2)
          { k2 = Identity (k)  a2 = Neg (a) }> }""")
    )
    body = nodes[0].attributes["body"].value
    assert all(facts.constant(v) is None for v in body.inputs)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.float32([2, 2, 2]), 2.0),
        (np.float32(2), 2.0),
        (np.float32([[2]]), 2.0),
        (np.float32([2, 3]), None),
        (np.float32([0.0, -0.0]), None),
        (np.float32([-0.0, -0.0]), -0.0),
        (np.float32([np.inf, np.inf]), np.inf),
        (np.array([], np.float32), None),
        (np.int64([7, 7]), 7),
        (np.uint8(255), 255),
        (np.bool_([True, True]), True),
        (np.float16([1.5]), 1.5),
        (np.array([1.5, 1.5], ml_dtypes.bfloat16), 1.5),
        (np.array([-3, -3], ml_dtypes.int4), -3),
        (np.array(["a"], object), None),
        (np.complex64([1]), None),
        (np.full((1 << 16) + 1, 2, np.int8), None),
        (np.full(1 << 16, 2, np.int8), 2),
    ],
)
def test_scalar(array, expected):
    number = TensorProto.STRING if array.dtype == object else None
    tensor = (
        helper.make_tensor("w", number, array.shape, array.tolist())
        if number
        else numpy_helper.from_array(np.asarray(array), "w")
    )
    node = helper.make_node("Use", ["w"], ["y"], domain="custom")
    facts, nodes = loaded(model([node], [], [value("y")], [tensor]))
    w = nodes[0].inputs[0]
    assert w is not None
    found = facts.scalar(w)
    assert found == expected
    if expected is not None:
        assert type(found) is type(expected)
        assert np.signbit(float(found)) == np.signbit(float(expected))


def test_nan_is_a_scalar():
    facts, nodes = loaded(
        model(
            [helper.make_node("Neg", ["w"], ["y"])],
            [],
            [value("y")],
            [helper.make_tensor("w", FLOAT, [2], [np.nan] * 2)],
        )
    )
    w = nodes[0].inputs[0]
    assert w is not None
    assert np.isnan(facts.scalar(w))  # type: ignore[arg-type]


# --- the newest form ---------------------------------------------------------------------------


def test_legacy_attributes_are_operands():
    facts, nodes = loaded(
        parsed("""
      <ir_version: 7, opset_import: ["": 9]>
      g (float[1, 4, 6] x) => (float[1, 4, 6] a, b, c, d, e, f)
      { a = Clip <min = -1.0, max = 6.0> (x)
        b = Slice <starts = [1], ends = [3], axes = [1]> (x)
        c = Squeeze <axes = [0]> (x)
        d = Pad <pads = [0, 0, 1, 0, 0, 1], value = 0.5> (x)
        e = ReduceMean <axes = [2], keepdims = 0> (x)
        f, g2 = TopK <k = 2> (x) }""")
    )

    def arrays(node: ir.Node) -> list[object]:
        found = [None if v is None else facts.array(v) for v in facts.operands(node)[1:]]
        return [None if f is None else (f.tolist(), f.dtype.name, f.shape) for f in found]

    assert arrays(nodes[0]) == [(-1.0, "float32", ()), (6.0, "float32", ())]
    assert arrays(nodes[1]) == [([1], "int64", (1,)), ([3], "int64", (1,)), ([1], "int64", (1,))]
    assert arrays(nodes[2]) == [([0], "int64", (1,))]
    assert arrays(nodes[3]) == [([0, 0, 1, 0, 0, 1], "int64", (6,)), (0.5, "float32", ())]
    assert arrays(nodes[4]) == [([2], "int64", (1,))]
    assert arrays(nodes[5]) == [([2], "int64", (1,))]
    operands = facts.operands(nodes[0])
    assert facts.operands(nodes[0]) == operands  # the same values each time
    assert facts.type(operands[1]) == Type("f32", ())  # type: ignore[arg-type]


def test_legacy_operands_are_in_no_graph_and_not_written():
    proto = parsed("""
      <ir_version: 7, opset_import: ["": 9]>
      g (float[2] x) => (float[2] a) { a = Clip <max = 6.0> (x) }""")
    made = io.load(proto)
    made.facts.operands(next(iter(made.model.graph)))
    assert len(io.to_proto(made).graph.initializer) == 0


def test_absent_operands_at_the_end_are_left_out():
    facts, nodes = loaded(
        model(
            [
                helper.make_node("Clip", ["x", "", ""], ["y"]),
                helper.make_node("Clip", ["x", "", "h"], ["z"]),
            ],
            [value("x")],
            [value("y"), value("z")],
            [helper.make_tensor("h", FLOAT, [], [1])],
        )
    )
    assert len(facts.operands(nodes[0])) == 1
    assert [v is None for v in facts.operands(nodes[1])] == [False, True, False]


def test_attribute_defaults_of_each_version():
    old = parsed("""<ir_version: 7, opset_import: ["": 11]>
      g (float[1, 2, 4] x) => (y) { y = Softmax (x) }""")
    new = parsed("""<ir_version: 7, opset_import: ["": 13]>
      g (float[1, 2, 4] x) => (y) { y = Softmax (x) }""")
    for proto, axis in ((old, 1), (new, -1)):
        facts, nodes = loaded(proto)
        assert facts.attribute(nodes[0], "axis") == axis
        assert facts.attribute(nodes[0], "nothing") is None


def test_attribute_that_only_a_later_version_has():
    """Gelu-like: `allowzero` came with Reshape-14 and its default is what older versions do."""
    facts, nodes = loaded(
        parsed("""<ir_version: 7, opset_import: ["": 13]>
      g (float[2] x, int64[1] s) => (y) { y = Reshape (x, s) }""")
    )
    assert facts.attribute(nodes[0], "allowzero") == 0


def test_attribute_values():
    node = helper.make_node(
        "Op", ["x"], ["y"], domain="custom", i=1, f=0.5, s="t", ints=[1, 2], strings=["a"]
    )
    facts, nodes = loaded(model([node], [value("x")], [value("y")]))
    found = [facts.attribute(nodes[0], name) for name in ("i", "f", "s", "ints", "strings")]
    assert found == [1, 0.5, "t", (1, 2), ("a",)]


FUNCTION = """
<ir_version: 9, opset_import: ["": 18, "my": 1]>
g (float[2] x) => (float[2] y) { y = my.f <a = 0.5> (x) }
<opset_import: ["": 12], domain: "my">
f <a> (v) => (w) { t = LeakyRelu <alpha: float = @a> (v)  k = Constant <value: tensor = @a> ()
                   u = Squeeze <axes: ints = @a> (t)  w = Squeeze <axes = [0]> (u) }
"""


def test_functions_have_their_own_opset_and_parameters():
    made = Facts(ir.from_proto(parsed(FUNCTION)))
    relu, constant, squeeze, fixed = next(iter(made.model.functions.values())).graph
    assert made.opset(relu) == 12
    assert made.opset(next(iter(made.model.graph))) == 1
    with pytest.raises(ReferenceAttribute):
        made.attribute(relu, "alpha")
    assert made.constant(constant.outputs[0]) is None
    operand = made.operands(squeeze)[1]
    assert operand is not None
    assert made.constant(operand) is None
    known = made.operands(fixed)[1]
    assert known is not None
    assert made.scalar(known) == 0


def test_every_legacy_operand_comes_back_as_the_attribute_it_was():
    """For each operator of the table: read the newest form, write it, get the same attributes."""
    samples = {"ints": (0,), "int": 1, "floats": (1.0,), "float": 0.5, "element": 2.0}
    for op, entries in legacy.TABLE.items():
        opset = min(entry.until for entry in entries.values())
        if schemas.lookup("", op, opset) is None:
            continue
        for index, entry in legacy.operands_of("", op, opset).items():
            array = legacy.legacy_operand("", op, opset, index, samples[entry.form], "f32")
            back = legacy.legacy_attribute("", op, opset, index, array)
            assert back == samples[entry.form], (op, index)


# --- uses and graphs ---------------------------------------------------------------------------


def test_uses_outside_counts_outputs_and_subgraphs():
    facts, nodes = loaded(
        parsed("""
      <ir_version: 8, opset_import: ["": 17]>
      g (bool c, float[1] x) => (float[1] y, float[1] b)
      { a = Neg (x)  b = Neg (a)  d = Neg (b)
        y = If (c) <then_branch = t () => (float[1] r) { r = Neg (d) },
                    else_branch = e () => (float[1] r) { r = Neg (x) }> }""")
    )
    a, b, d = (node.outputs[0] for node in nodes[:3])
    assert not facts.uses_outside(a, {nodes[1]})
    assert facts.uses_outside(a, set())
    assert facts.uses_outside(b, {nodes[2]})
    assert facts.uses_outside(d, {nodes[3]})
    inner = next(iter(nodes[3].attributes["then_branch"].value))
    assert not facts.uses_outside(d, {inner})


def test_names_are_free_in_every_graph():
    facts, _ = loaded(
        parsed("""
      <ir_version: 8, opset_import: ["": 17, "my": 1]>
      g (bool c, float[1] x) => (float[1] y)
      { y = If (c) <then_branch = t () => (float[1] inner) { inner = my.f (x) },
                    else_branch = e () => (float[1] r) { r = Neg (x) }> }
      <opset_import: ["": 17], domain: "my">
      f (body_in) => (body_out) { body_out = Neg (body_in) }""")
    )
    for taken in ("x", "inner", "r", "body_in", "body_out"):
        assert facts.names.fresh(taken) == f"{taken}_1"
    assert [facts.names.fresh("new") for _ in range(3)] == ["new", "new_1", "new_2"]
    assert facts.names.fresh("new_1") == "new_1_1"


# --- what is known before the model runs ---------------------------------------------------------


def test_weights_in_another_form_are_fixed():
    """Codes that become numbers, however many steps that takes; never what depends on an input."""
    facts, _ = loaded(
        parsed("""
            <ir_version: 8, opset_import: ["": 17]>
            g (float[2,2] x, float s) => (float[2,2] y)
            <int8[2,2] q = {1, 2, 3, 4}, float k = {0.5}, int8 z = {0}, int64[2] n = {2, 2}> {
              a = DequantizeLinear(q, k, z)
              b = Transpose(a)
              c = Reshape(b, n)
              d = DequantizeLinear(q, s, z)
              e = RandomNormalLike(a)
              f = Transpose(x)
              g1 = DequantizeLinear(q, k)
              h = Add(c, d)
              i = Add(h, e)
              j = Add(i, f)
              y = Add(j, g1)
            }
        """)
    )
    found = {name for name, v in by_name(facts).items() if is_fixed(facts, v)}
    assert found == {"q", "k", "z", "n", "a", "b", "c", "g1"}
