"""Names, optional and remaining operands, constness, types and shapes."""

from __future__ import annotations

import pytest

TWO = "g (float[2,3] a, float[2,3] b) => (float[2,3] y) { y = Sub(a, b) }"
SAME = "g (float[2,3] a) => (float[2,3] y) { y = Sub(a, a) }"


def test_a_name_binds_any_value(ask):
    assert ask("y = Sub(p, q)", TWO).names == {"y": "y", "p": "a", "q": "b"}


def test_a_name_used_twice_is_the_same_value(ask):
    assert ask("y = Sub(p, p)", SAME).names == {"y": "y", "p": "a"}
    assert ask("y = Sub(p, p)", TWO).code == "same"


def test_underscore_binds_nothing(ask):
    assert ask("y = Sub(_, _)", TWO).names == {"y": "y"}


CLIP = "g (float[2] x) => (float[2] y) <float lo = {0}, float hi = {1}> { y = Clip(x, %s) }"


def test_optional_operands(ask):
    pattern = "y = Clip(x, lo?: const, hi?)"
    assert ask(pattern, CLIP % "lo, hi").names["hi"] == "hi"
    assert ask(pattern, CLIP % "lo").names == {"y": "y", "x": "x", "lo": "lo", "hi": None}
    assert ask(pattern, CLIP % '"", hi').names["lo"] is None


def test_an_operand_that_is_not_optional_must_be_present(ask):
    assert ask("y = Clip(x, lo, hi)", CLIP % "lo").code == "absent"


def test_trailing_operands_not_written_must_be_absent(ask):
    assert ask("y = Clip(x)", CLIP % "lo").code == "operands"
    assert ask("y = Clip(x, lo)", CLIP % "lo")
    assert ask("y = Clip(x, lo)", CLIP % 'lo, ""')


def test_none_is_an_absent_operand(ask):
    assert ask("y = Clip(x, none, hi)", CLIP % '"", hi')
    assert ask("y = Clip(x, none, hi)", CLIP % "lo, hi").code == "present"


def test_a_repeated_optional_name_may_be_absent_twice(ask):
    assert ask("y = Clip(x, b?, b?)", CLIP % '"", ""').names["b"] is None
    assert ask("y = Clip(x, b?, b?)", CLIP % "lo, lo").names["b"] == "lo"
    assert ask("y = Clip(x, b?, b?)", CLIP % "lo").code == "same"
    assert ask("y = Clip(x, b?, b?)", CLIP % '"", lo').code == "same"


CONCAT = "g (float[1] a, float[2] b, float[3] c) => (float[n] y) { y = Concat <axis=0> (%s) }"


def test_remaining_operands_are_a_list(ask):
    pattern = "y = Concat(p, *rest) { axis: 0 }"
    assert ask(pattern, CONCAT % "a, b, c").names == {"y": "y", "p": "a", "rest": ("b", "c")}
    assert ask(pattern, CONCAT % "a, b").names["rest"] == ("b",)
    assert ask(pattern, CONCAT % "a").code == "operands"


def test_every_remaining_operand_has_the_type(ask):
    mixed = CONCAT.replace("{ y", "<float[1] k = {1}> { y")
    assert ask("y = Concat(p, *r: const) { axis: 0 }", mixed % "a, k")
    assert ask("y = Concat(p, *r: const) { axis: 0 }", mixed % "a, k, b").code == "const"
    assert ask("y = Concat(*r: f32[_]) { axis: 0 }", mixed % "a, k, b")
    assert ask("y = Concat(*r: f32[1]) { axis: 0 }", mixed % "a, b").code == "shape"


# --- constants -----------------------------------------------------------------------------------

WEIGHT = "<float[2] w = {1, 2}>"


def test_const_is_an_initializer_or_a_constant_node(ask):
    text = f"g (float[2] x) => (float[2] y) {WEIGHT} {{ y = Add(x, w) }}"
    assert ask("y = Add(x, w: const)", text)
    node = text.replace(WEIGHT, "").replace("{", "{ w = Constant <value = float[2] {1, 2}> ()", 1)
    assert ask("y = Add(x, w: const)", node).nodes == ["y"]


@pytest.mark.parametrize(
    ("ir_version", "code"), [(3, "match"), (4, "overridable"), (10, "overridable")]
)
def test_an_initializer_that_is_an_input_is_constant_before_ir_version_4(ask, ir_version, code):
    # onnx.proto, GraphProto.initializer: a default from IR version 4 on, which callers replace.
    text = "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) }"
    assert ask("y = Add(x, w: const)", text, ir_version=ir_version, opset=8).code == code


def test_a_computed_value_is_not_constant(ask):
    text = "g (float[2] x) => (float[2] y) { w = Relu(x) y = Add(x, w) }"
    found = ask("y = ordered Add(x, w: const)", text)
    assert (found.code, found.reason) == ("const", "it is not constant")


# --- element types and shapes --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "dtype", "matches"),
    [
        ("f32", "float", True), ("f32", "double", False), ("f", "bfloat16", True),
        ("f", "float8e4m3fn", True), ("f", "int32", False), ("s8|u8", "uint8", True),
        ("s8|u8", "int16", False), ("int", "uint4", True), ("s", "uint8", False),
        ("u", "uint8", True), ("num", "complex64", True), ("num", "bool", False),
        ("string", "string", True), ("bool", "bool", True),
    ],
)  # fmt: skip
def test_element_types_and_classes(ask, pattern, dtype, matches):
    text = f"g ({dtype}[2] x) => ({dtype}[2] y) {{ y = Identity(x) }}"
    found = ask(f"y = Identity(x: {pattern})", text, opset=23, ir_version=11)
    assert found.code == ("match" if matches else "dtype")


@pytest.mark.parametrize(
    ("pattern", "shape", "bound"),
    [
        ("[2, 3]", "2,3", {}), ("[2, 3]", "2,4", None), ("[2, 3]", "2,3,1", None),
        ("[N, N]", "3,3", {"N": 3}), ("[N, N]", "3,4", None), ("[_, 3]", "7,3", {}),
        ("[N, ...]", "5,6,7", {"N": 5}), ("[..., N]", "5,6,7", {"N": 7}),
        ("[B..., M, K]", "5,6,7,8", {"B": (5, 6), "M": 7, "K": 8}),
        ("[B..., M, K]", "7,8", {"B": (), "M": 7, "K": 8}), ("[B..., M, K]", "8", None),
        ("[...]", "1,2", {}), ("[1, B...]", "1,2,3", {"B": (2, 3)}), ("[]", "1", None),
        ("[N, N]", "batch,batch", {"N": "batch"}), ("[N, N]", "batch,time", None),
        ("[2, N]", "batch,3", None),
    ],
)  # fmt: skip
def test_shapes(ask, pattern, shape, bound):
    text = f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Identity(x) }}"
    found = ask(f"y = Identity(x: {pattern})", text)
    if bound is None:
        assert found.code == "shape"
    else:
        assert found.names == {"y": "y", "x": "x", **bound}


def test_sizes_of_equal_name_are_equal_across_operands(ask):
    pattern = "y = MatMul(a: f[..., K], b: f[K, N])"
    text = "g (float[2,{k}] a, float[3,4] b) => (float[2,4] y) {{ y = MatMul(a, b) }}"
    assert ask(pattern, text.format(k=3)).names == {"y": "y", "a": "a", "K": 3, "b": "b", "N": 4}
    text = "g (float[3] a, float[1] b) => (float[3] y) { y = Mul(a, b) }"
    assert ask("y = Mul(a: [N], b: [N])", text).code == "shape"


def test_rank_0(ask):
    text = "g (float x) => (float y) { y = Identity(x) }"
    assert ask("y = Identity(x: [])", text)
    assert ask("y = Identity(x: [B...])", text).names["B"] == ()
    assert ask("y = Identity(x: [1])", text).code == "shape"


def test_named_lists_of_sizes_are_equal(ask):
    pattern = "y = Mul(a: [B..., 2], b: [B..., 2])"
    text = "g (float[{}] a, float[4,5,2] b) => (float[4,5,2] y) {{ y = Mul(a, b) }}"
    assert ask(pattern, text.format("4,5,2")).names["B"] == (4, 5)
    assert ask(pattern, text.format("1,5,2")).code == "shape"


def test_unnamed_sizes_are_never_equal(ask):
    text = "g (float[?,3] a, float[?,3] b) => (float[?,3] y) { y = Mul(a, b) }"
    assert ask("y = Mul(a: [N, 3], b: [N, 3])", text).code == "shape"
    assert ask("y = Mul(a: [N, 3], b: [M, 3])", text)
