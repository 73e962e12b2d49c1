"""Packs for which the items that their tests show are known by hand, a pack for each kind."""

import pytest
from lab import fires, lab, rejects, rule

RELUS = "  match y = Relu(Relu(x))\n  emit y = Relu(x)"
TWO = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Relu(m) }"


def test_a_test_that_is_true_in_a_match_and_one_that_is_false_alone(tmp_path):
    body = "  match m = Relu(x)\n        y = Neg(m)\n  where rank(x) == 1\n  emit y = Neg(Relu(x))"
    two = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    # of rank 2, and the inner value is an output: two tests are false, so none decides
    both = "g (float[2,2] x) => (float[2,2] y, float[2,2] m) { m = Relu(x)  y = Neg(m) }"
    rank = "g (float[2,2] x) => (float[2,2] y) { m = Relu(x)  y = Neg(m) }"
    found = lab(tmp_path / "a", rule("neg", body, fires("one", two) + rejects("both", both)))
    assert found.shown("neg") == {"fired", "opset=18", "uses:m=true", "where:1=true"}
    assert found.missing("neg") == {"uses:m=false", "where:1=false"}
    found = lab(tmp_path / "b", rule("neg", body, fires("one", two) + rejects("rank", rank)))
    assert found.missing("neg") == {"uses:m=false"}


CONDITION = "  match y = Neg(x)\n  where {}\n  emit y = Neg(Identity(x))"


def of_shapes(condition: str, *shapes: str) -> str:
    """A rule with this condition, tried on inputs of these shapes."""
    models = [f"g (float[{s}] x) => (float[{s}] y) {{ y = Neg(x) }}" for s in shapes]
    examples = "".join(fires(f"s{n}", model) for n, model in enumerate(models))
    return rule("r", CONDITION.format(condition), examples)


@pytest.mark.parametrize(
    ("condition", "shapes", "shown"),
    [
        # a true, b true: neither decides that the rule fires
        ("rank(x) == 2 or dim(x, 0) == 3", ["3,3"], set()),
        # a alone; b alone
        ("rank(x) == 2 or dim(x, 0) == 3", ["2,2"], {"where:1.1=true"}),
        ("rank(x) == 2 or dim(x, 0) == 3", ["3"], {"where:1.2=true"}),
        # neither: either would do, so each decides
        ("rank(x) == 2 or dim(x, 0) == 3", ["2"], {"where:1.1=false", "where:1.2=false"}),
        # and: both true, each decides
        ("rank(x) == 2 and dim(x, 0) == 3", ["3,3"], {"where:1.1=true", "where:1.2=true"}),
        ("rank(x) == 2 and dim(x, 0) == 3", ["2,2"], {"where:1.2=false"}),
        # both false: none decides
        ("rank(x) == 2 and dim(x, 0) == 3", ["2"], set()),
        # not: the test is `not rank(x) == 2`
        ("not rank(x) == 2", ["3"], {"where:1=true"}),
        ("not rank(x) == 2", ["2,2"], {"where:1=false"}),
        # not (a or b) is (not a) and (not b)
        ("not (rank(x) == 2 or dim(x, 0) == 3)", ["2"], {"where:1.1=true", "where:1.2=true"}),
        ("not (rank(x) == 2 or dim(x, 0) == 3)", ["3"], {"where:1.2=false"}),
        ("not (rank(x) == 2 or dim(x, 0) == 3)", ["3,3"], set()),
        # not (a and b) is (not a) or (not b)
        ("not (rank(x) == 2 and dim(x, 0) == 3)", ["3"], {"where:1.1=true"}),
        ("not (rank(x) == 2 and dim(x, 0) == 3)", ["3,3"], {"where:1.1=false", "where:1.2=false"}),
    ],
)
def test_atoms_of_conditions(tmp_path, condition, shapes, shown):
    found = lab(tmp_path, of_shapes(condition, *shapes))
    assert {key for key in found.shown("r") if key.startswith("where")} == shown


def test_a_condition_that_follows_if_is_asked_only_there(tmp_path):
    body = (
        "  match y = Neg(Relu(x) as relu | Abs(x) as abs)\n"
        "  where rank(x) == 1  if relu: dim(x, 0) == 2\n  emit y = Neg(x)"
    )
    relu = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    abs_ = "g (float[3] x) => (float[3] y) { m = Abs(x)  y = Neg(m) }"
    other = "g (float[3] x) => (float[3] y) { m = Relu(x)  y = Neg(m) }"
    only = lab(tmp_path / "a", rule("r", body, fires("abs", abs_)))
    assert {k for k in only.shown("r") if k[0] in "wb"} == {"branch:1.2", "where:1=true"}
    found = lab(
        tmp_path / "b", rule("r", body, fires("a", relu) + fires("b", abs_) + rejects("c", other))
    )
    assert {k for k in found.shown("r") if k[0] in "wb"} == {
        "branch:1.1", "branch:1.2", "where:1=true", "where:2=true", "where:2=false",
    }  # fmt: skip


def test_branches_without_a_name_and_their_guards(tmp_path):
    body = (
        "  match y = Neg(Relu(x) | Abs(x) if (rank(x) == 1) | Neg(x))\n  emit y = Neg(Identity(x))"
    )
    relu = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    flat = "g (float[2] x) => (float[2] y) { m = Abs(x)  y = Neg(m) }"
    deep = "g (float[2,2] x) => (float[2,2] y) { m = Abs(x)  y = Neg(m) }"
    found = lab(tmp_path, rule("r", body, fires("a", relu) + fires("b", flat) + rejects("c", deep)))
    shown = {k for k in found.shown("r") if k.startswith(("branch", "guard"))}
    assert shown == {"branch:1.1", "branch:1.2", "guard:1=true", "guard:1=false"}
    assert "branch:1.3" in found.missing("r")


def test_optional_operands_orders_literals_and_constants(tmp_path):
    body = "  match c = Clip(x, lo?: const)\n        y = c * 2\n  emit y = Clip(x, lo) * 2"
    absent = "g (float[2] x) => (float[2] y) <float k = {2}> { c = Clip(x)  y = Mul(c, k) }"
    given = (
        "g (float[2] x) => (float[2] y) <float l = {1}, float k = {2}>"
        " { c = Clip(x, l)  y = Mul(k, c) }"
    )
    found = lab(tmp_path / "a", rule("r", body, fires("a", absent)))
    keys = {k for k in found.shown("r") if k.startswith(("optional", "order", "literal", "const"))}
    assert keys == {"optional:lo=absent", "order:Mul=written", "literal:2=true"}
    input_ = (
        "g (float[2] x, float l) => (float[2] y) <float k = {2}> { c = Clip(x, l)  y = Mul(c, k) }"
    )
    three = "g (float[2] x) => (float[2] y) <float k = {3}> { c = Clip(x)  y = Mul(c, k) }"
    examples = fires("a", absent) + fires("b", given) + rejects("c", input_) + rejects("d", three)
    found = lab(tmp_path / "b", rule("r", body, examples))
    keys = {k for k in found.shown("r") if k.startswith(("optional", "order", "literal", "const"))}
    assert keys == {
        "optional:lo=absent", "optional:lo=present", "order:Mul=written", "order:Mul=swapped",
        "literal:2=true", "literal:2=false", "const:lo=true", "const:lo=false",
    }  # fmt: skip


def test_orders_that_cannot_be_told_apart_are_no_items(tmp_path):
    plain = "  match y = Neg(a + b)\n  emit y = Neg(a) - b"
    model = "g (float[2] a, float[2] b) => (float[2] y) { m = Add(a, b)  y = Neg(m) }"
    found = lab(tmp_path / "a", rule("r", plain, fires("a", model)))
    assert not [k for k in found.shown("r") | found.missing("r") if k.startswith("order")]
    asked = "  match y = Neg(a + b)\n  where rank(a) == 1\n  emit y = Neg(a) - b"
    found = lab(tmp_path / "b", rule("r", asked, fires("a", model)))
    assert "order:Add=written" in found.shown("r")
    assert "order:Add=swapped" in found.missing("r")
    same = "  match y = Neg(x + x)\n  where rank(x) == 1\n  emit y = Neg(x)"
    model = "g (float[2] x) => (float[2] y) { m = Add(x, x)  y = Neg(m) }"
    found = lab(tmp_path / "c", rule("r", same, fires("a", model)))
    assert not [i.key for i in found.part("r").items if i.kind == "order"]


def test_a_bag_in_its_order_and_in_another(tmp_path):
    body = "  match y = Neg(prod{2, Relu(x), k: const})\n  emit y = Neg(Relu(x) * (k * 2))"
    first = (
        "g (float[2] x) => (float[2] y) <float t = {2}, float k = {5}>"
        " { r = Relu(x)  p = Mul(t, r)  m = Mul(p, k)  y = Neg(m) }"
    )
    other = first.replace("Mul(p, k)", "Mul(k, p)")
    found = lab(tmp_path / "a", rule("r", body, fires("a", first)))
    assert "order:Mul=written" in found.shown("r")
    assert "order:Mul=swapped" in found.missing("r")
    found = lab(tmp_path / "b", rule("r", body, fires("a", other)))
    assert "order:Mul=swapped" in found.shown("r")


def test_attributes_shapes_types_and_one_name_twice(tmp_path):
    body = (
        "  match y = Gemm(x: f32[N, _], W: const f32, b: f[N]) "
        "{ alpha: 1, beta: ignored, transA: 0, transB: ignored }\n"
        "        z = Neg(y * x)\n  emit z = Neg(y) * x"
    )
    plain = (
        "g (float[2,2] x) => (float[2,2] z) <float[2,2] w = {1,2,3,4}, float[2] b = {1,2}>"
        " { y = Gemm(x, w, b)  m = Mul(y, x)  z = Neg(m) }"
    )
    other = plain.replace("float[2,2] x)", "float[2,2] x, float[2,2] o)").replace(
        "(y, x)", "(y, o)"
    )
    wide = plain.replace("float[2] b = {1,2}", "float[1] b = {1}")
    scaled = plain.replace("Gemm(", "Gemm <alpha = 2.0> (")
    examples = fires("a", plain) + rejects("b", scaled) + rejects("c", other) + rejects("d", wide)
    found = lab(tmp_path, rule("r", body, examples))
    shown = {k for k in found.shown("r") if k.startswith(("attribute", "shape", "dtype", "same"))}
    assert shown == {
        "attribute:Gemm.alpha=true", "attribute:Gemm.alpha=false", "attribute:Gemm.transA=true",
        "shape:x=true", "shape:b=true", "shape:b=false", "dtype:x=true", "dtype:W=true",
        "dtype:b=true", "dtype:x=f32", "dtype:W=f32", "dtype:b=f32", "same:x=true", "same:x=false",
    }  # fmt: skip


def test_dtypes_are_those_that_the_schemas_allow_together(tmp_path):
    body = (
        "  match y = Relu(MatMul(x: f32|f16, W: const f))\n  emit y = Relu(Identity(MatMul(x, W)))"
    )
    model = (
        "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,4}>"
        " { m = MatMul(x, w)  y = Relu(m) }"
    )
    found = lab(tmp_path, rule("r", body, fires("a", model)))
    keys = {i.key for i in found.part("r").items if i.kind == "dtype"}
    # x and W have one type, and x is of two: bfloat16 and double cannot be
    assert keys == {"dtype:x=f32", "dtype:x=f16", "dtype:W=f32", "dtype:W=f16"}
    assert {"dtype:x=f16", "dtype:W=f16"} <= found.missing("r")


def test_a_type_that_every_schema_allows_cannot_be_false(tmp_path):
    body = "  match y = Neg(Sigmoid(x: f))\n  emit y = Neg(Identity(Sigmoid(x)))"
    model = "g (float[2] x) => (float[2] y) { m = Sigmoid(x)  y = Neg(m) }"
    found = lab(tmp_path, rule("r", body, fires("a", model)))
    item = next(i for i in found.part("r").items if i.key == "dtype:x=false")
    assert item.unreachable == "the schemas allow f32, f16, f64, bf16 only"
    assert "dtype:x=false" not in found.missing("r")


def test_arms_of_case_in_let_and_emit(tmp_path):
    body = (
        "  match y = Neg(Relu(x) as relu | Abs(x) as abs)\n"
        "  let   k = case { relu: 1; else: 2 }\n"
        "  emit  y = case { relu: Mul(x, f32(k)); abs: Mul(f32(k), x) }"
    )
    relu = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    abs_ = "g (float[2] x) => (float[2] y) { m = Abs(x)  y = Neg(m) }"
    found = lab(tmp_path / "a", rule("r", body, fires("a", relu)))
    assert {k for k in found.shown("r") if k.startswith("arm")} == {"arm:1.1", "arm:2.1"}
    found = lab(tmp_path / "b", rule("r", body, fires("a", relu) + fires("b", abs_)))
    assert {k for k in found.shown("r") if k.startswith("arm")} == {
        "arm:1.1", "arm:1.2", "arm:2.1", "arm:2.2",
    }  # fmt: skip


def test_an_arm_in_an_arm_that_is_not_taken_is_not_shown(tmp_path):
    body = (
        "  match y = Neg(Relu(x) as relu | Abs(x) as abs)\n"
        "  let   a = rank(x) == 1\n"
        "        k = case { abs: 1; else: case { a: 3; else: 4 } }\n"
        "  emit  y = Mul(x, f32(k))"
    )
    abs_ = "g (float[2] x) => (float[2] y) { m = Abs(x)  y = Neg(m) }"
    relu = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    found = lab(tmp_path / "a", rule("r", body, fires("a", abs_)))
    assert {k for k in found.shown("r") if k.startswith("arm")} == {"arm:1.1"}
    found = lab(tmp_path / "b", rule("r", body, fires("a", relu)))
    assert {k for k in found.shown("r") if k.startswith("arm")} == {"arm:1.2", "arm:2.1"}


def test_classes_of_opsets(tmp_path):
    # Relu: 6, 13, 14. Neg: 6, 13. Gelu: 20.
    model = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    body = "  match y = Neg(Relu(x))\n  emit y = Neg(x)"
    found = lab(tmp_path / "a", rule("r", body, fires("a", model)), opset=(7, 21))
    keys = [i.key for i in found.part("r").items if i.kind == "opset"]
    assert keys == ["opset=7..12", "opset=13", "opset=14..21"]
    assert {k for k in found.shown("r") if k.startswith("opset")} == {"opset=14..21"}


def test_an_opset_without_the_operator_cannot_happen(tmp_path):
    body = "  match y = Neg(Gelu(x) { approximate: ignored })\n  emit y = Neg(x)"
    model = "g (float[2] x) => (float[2] y) { m = Gelu(x)  y = Neg(m) }"
    model = f'<ir_version: 10, opset_import: ["" : 20]> {model}'
    found = lab(tmp_path, rule("r", body, fires("a", model)), opset=(13, 21))
    items = {i.key: i.unreachable for i in found.part("r").items if i.kind == "opset"}
    assert items == {"opset=13..19": "Gelu is not in this opset", "opset=20..21": ""}


def test_a_rule_over_another_one(tmp_path):
    inner = rule(
        "one",
        "  match y = Neg(x)\n  emit y = Neg(Identity(x))",
        fires("a", TWO.replace("Relu(m)", "Neg(m)")),
    )
    body = "  match y = Neg(Relu(x))\n  emit y = Neg(Relu(Identity(x)))"
    both = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    found = lab(tmp_path / "a", inner + rule("two", body, fires("a", both), "in clean over one"))
    assert "over:one" in found.shown("two")
    far = "  match y = Abs(Relu(x))\n  emit y = Abs(Relu(Identity(x)))"
    model = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Abs(m) }"
    found = lab(tmp_path / "b", inner + rule("two", far, fires("a", model), "in clean over one"))
    assert "over:one" in found.missing("two")


def test_a_rule_refined_by_another_pack(tmp_path):
    body = "  match y = Neg(Relu(x))\n  where rank(x) >= 1\n  emit y = Neg(x)"
    flat = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    deep = "g (float[2,2] x) => (float[2,2] y) { m = Relu(x)  y = Neg(m) }"
    examples = fires("a", flat) + fires("b", deep)
    lab(tmp_path / "lab", rule("r", body, examples))
    found = lab(
        tmp_path / "more",
        "refine r with where rank(x) < 2\n",
        name="more",
        extends="extends: [lab]\n",
    )
    # only what the pack adds counts for it, and the other pack's tests show it
    assert found.shown("r") == {"where:2=true", "where:2=false"}
    assert found.missing("r") == set()


def test_a_named_pattern_is_one_text(tmp_path):
    rules = (
        "pattern unary(x) = Relu(x) | Abs(x)\n\n"
        + rule(
            "a",
            "  match y = Neg(unary(x))\n  emit y = Neg(x)",
            fires("a", "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"),
        )
        + rule(
            "b",
            "  match y = Exp(unary(x))\n  emit y = Exp(x)",
            fires("a", "g (float[2] x) => (float[2] y) { m = Abs(x)  y = Exp(m) }"),
        )
    )
    found = lab(tmp_path, rules)
    assert not [k for k in found.shown("a") | found.missing("a") if k.startswith("branch")]
    assert {k for k in found.shown("unary") if k.startswith("branch")} == {"branch.1", "branch.2"}
    assert found.part("unary").shown["branch.2"] == "b: fires a"


def test_codes_and_what_stands_behind_them(tmp_path):
    body = (
        "  match y = Neg(DQ(X: u8 per_tensor))\n  where X.zp == 0\n"
        "  emit y = Neg(DequantizeLinear(X, X.scale))"
    )
    model = (
        "g (uint8[2] x) => (float[2] y) <float s = {0.5}>"
        " { d = DequantizeLinear(x, s)  y = Neg(d) }"
    )
    found = lab(tmp_path, rule("r", body, fires("a", model)))
    keys = {i.key.partition("=")[0] for i in found.part("r").items}
    assert "optional:X.zp" in keys
    # that a scale is constant is the language's, not the rule's
    assert not [k for k in keys if k.startswith(("const", "attribute"))]


def test_a_match_that_the_engine_refuses_shows_nothing(tmp_path):
    # what takes the place of y has another shape
    body = (
        "  match y = Neg(Relu(x))\n  emit y = ReduceSum(x) { keepdims: 0, noop_with_empty_axes: 0 }"
    )
    model = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    found = lab(tmp_path, rule("r", body, fires("a", model)))
    assert found.shown("r") == set()
    assert "fired" in found.missing("r")


CONV = (
    "  match c = Conv(x, W: const f32[O, ...], none)\n        y = c * 2\n  where {}\n"
    "  emit y = Neg(@c(x, W))"
)
CONV_MODEL = (
    "g (float[1,2,4,4] x) => (float[1,3,4,4] y) <float[3,2,1,1] w = {1,2,3,4,5,6}, float k = {2}>"
    " { c = Conv(x, w)  y = Mul(c, k) }"
)


@pytest.mark.parametrize(
    ("condition", "cannot"),
    [
        ("rank(W) >= 1", True),  # no Conv has a kernel of rank 0, whatever the rank of x
        ("W.rank > 0", True),
        ("not rank(W) < 1", True),
        ("rank(W) == 4", False),  # 3 and 5 are ranks of kernels
        ("rank(W) <= 4", False),
        ("rank(W) >= 4", False),
        ("rank(x) >= 1", True),
    ],
)
def test_ranks_that_inference_refuses(tmp_path, condition, cannot):
    found = lab(tmp_path, rule("r", CONV.format(condition), fires("a", CONV_MODEL)))
    items = {item.key: item.unreachable for item in found.part("r").items}
    assert bool(items["where:1=false"]) is cannot
    assert items["shape:W=false"] == "ONNX's inference refuses operand 2 of Conv with rank 0"
    assert items["where:1=true"] == ""


def test_a_name_in_two_branches_is_met_once(tmp_path):
    model = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    body = "  match y = Neg(Relu(x) | Abs(x))\n  emit y = Neg(x)"
    found = lab(tmp_path / "a", rule("r", body, fires("a", model)))
    assert not [i.key for i in found.part("r").items if i.key.startswith("same")]
    body = "  match t = Sin(x)\n        y = Neg(Relu(t) | Abs(t))\n  emit y = Neg(x)"
    found = lab(tmp_path / "c", rule("r", body, fires("a", model)))
    assert not [i.key for i in found.part("r").items if i.key.startswith("same")]
    body = "  match y = Neg(Relu(x) * x | Abs(x))\n  emit y = Neg(x)"
    found = lab(tmp_path / "b", rule("r", body, fires("a", model)))
    keys = [i.key for i in found.part("r").items if i.key.startswith("same")]
    assert keys == ["same:x=true", "same:x=false"]  # of the first branch


@pytest.mark.parametrize(("newest", "reason"), [(17, "attribute"), (18, "")])
def test_an_operand_that_is_an_attribute_is_constant(tmp_path, newest, reason):
    body = (
        "  match m = ReduceMax(x, a: const) { keepdims: 1, noop_with_empty_axes: ignored }\n"
        "        y = Neg(m)\n  emit y = Neg(x)"
    )
    model = "g (float[2] x) => (float[1] y) { m = ReduceMax <axes = [0]> (x)  y = Neg(m) }"
    model = f'<ir_version: 10, opset_import: ["" : 13]> {model}'
    head = f"in clean opset 13..{newest}"
    found = lab(tmp_path, rule("r", body, fires("a", model), head), opset=(13, 18))
    items = {item.key: item.unreachable for item in found.part("r").items}
    assert reason in items["const:a=false"]
    assert bool(items["const:a=false"]) is bool(reason)


@pytest.mark.parametrize(
    ("where", "cannot_happen"),
    [
        # where the second atom is false, the first is true, and the whole is
        ("rank(x) == 0 or (not rank(x) == 0 and shape(x)[0] == 3)", {"where:1.2=false"}),
        # below 2 it is below 3, too
        ("rank(x) >= 2, rank(x) >= 3", {"where:1=false"}),
        ("rank(x) > 0, rank(x) > 0.5", {"where:1=false"}),
        ("0 < rank(x), rank(x) < 4", set()),
        # a rank of 0 and one of at least 2 exclude each other
        (
            "rank(x) >= 2, rank(x) >= 2 or rank(x) == 0",
            {"where:2.1=false", "where:2.2=true", "where:2.2=false"},
        ),
        # float16 and bfloat16 have 16 bits, uint16 has them and is neither
        ("bits(x) == 16, dtype(x) in [f16, bf16]", {"where:1=false"}),
        # an int32 is no float
        ("is_float(x), dtype(x) != s32", {"where:2=false"}),
        # each of three equations follows from the other two
        (
            "dtype(x) == dtype(y), dtype(x) == f16, f16 == dtype(y)",
            {"where:1=false", "where:2=false", "where:3=false"},
        ),
        ('op(x) == "Abs", op(x) != "Relu"', {"where:2=false"}),
        # infinity is a number here: nothing is larger, everything else is smaller
        ("max_of(s) >= inf, max_of(s) > 1", {"where:2=false"}),
        ("max_of(s) < inf, max_of(s) > 1", set()),
        ("x.rank >= 3, 2 <= rank(x)", {"where:2=false"}),
        ('op(x) != "Abs", op(x) != "Relu"', set()),
        ('op(x) not in ["Abs", "Relu"], op(x) != "Relu"', {"where:2=false"}),
    ],
)
def test_atoms_that_leave_each_other_no_room(tmp_path, where, cannot_happen):
    body = f"  match y = Mul(x, s: const)\n  where {where}\n  emit y = Mul(Identity(x), s)"
    model = "g (float[2] x) => (float[2] y) <float s = {3}> { y = Mul(x, s) }"
    found = lab(tmp_path, rule("r", body, fires("a", model)))
    items = [i for i in found.part("r").items if i.key.startswith("where")]
    assert {i.key for i in items if i.unreachable} == cannot_happen


def test_a_guard_that_leaves_an_atom_no_room(tmp_path):
    """Its own atoms do, and the conditions of the rule; other branches do not."""
    body = (
        "  match y = Neg(Relu(x) if (rank(x) == 1 or (not rank(x) == 1 and rank(x) >= 2))"
        " | Abs(x) if (rank(x) == 2))\n  where rank(x) <= 1\n  emit y = Neg(x)"
    )
    model = "g (float[2] x) => (float[2] y) { m = Relu(x)  y = Neg(m) }"
    found = lab(tmp_path, rule("r", body, fires("a", model)))
    items = [i for i in found.part("r").items if i.key.startswith(("guard", "where"))]
    # at most one axis: never at least two, which every match of the second branch would have
    assert {i.key for i in items if i.unreachable} == {
        "guard:1.2=true", "guard:1.2=false", "guard:1.3=true", "guard:2=true",
    }  # fmt: skip
