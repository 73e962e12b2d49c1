"""The functions of rule text: each against numpy, the ONNX specification or plain arithmetic."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewrite.match.builtins import registry
from rewrite.match.values import Symbol, Tensor, Unknown, working
from rewrite.ops.dtypes import to_numpy
from rewrite.schema import DTYPE_CLASSES, DTYPES
from tests.match.support import read_model

GRAPH = """g (float[N,3] x, float[2,3] z, float16[1] h, int8[4] q, float s)
    => (float[N,3] y, float[2,3] o)
    <float[3] v = {1,2,4}, float[3] u = {5,5,5}, int64[3] i = {2,0,1}>
    { t = LeakyRelu <alpha = 0.5> (x) y = Mul(t, v) w = Relu(t) o = Identity(z) }"""

GRID = Tensor(np.arange(6.0).reshape(2, 3), "f32")
VECTOR = Tensor(np.array([1.0, 2.0, 4.0]), "f32")


@pytest.fixture
def of(compute):
    model = read_model(GRAPH)
    names: dict[str, object] = {n: model.value(n) for n in "xzhqsyovuitw"}
    names |= {"g": GRID, "f": VECTOR, "absent": None}
    return lambda text: compute(text, names, model)


def plain(value: object) -> object:
    if isinstance(value, Tensor):
        return value.array.tolist()
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


ERF = (math.erf(1.0), math.erf(2.0), math.erf(4.0))

VALUES = [
    # elementwise
    ("sqrt(4)", 2.0), ("rsqrt(f)", [1.0, 2**-0.5, 0.5]), ("exp(0)", 1.0), ("log2(f)", [0, 1, 2]),
    ("exp2(3)", 8.0), ("abs(-3)", 3), ("square(f)", [1, 4, 16]), ("sign([-2, 0, 3])", (-1, 0, 1)),
    ("floor(1.5)", 1.0), ("ceil(1.5)", 2.0), ("trunc(-1.5)", -1.0), ("round(2.5)", 2.0),
    ("rint([0.5, 1.5])", (0.0, 2.0)), ("erf(f)", list(ERF)), ("sigmoid(0)", 0.5),
    ("reciprocal(4)", 0.25),
    ("sigmoid(-1000)", 0.0), ("tanh(0)", 0.0), ("cos(0)", 1.0), ("sin(0)", 0.0), ("log(1)", 0.0),
    ("min(3, 1, 2)", 1), ("max([3, 1, 2])", 3), ("max(f, 3)", [3, 3, 4]), ("min(f)", 1.0),
    ("pow(f, 2)", [1, 4, 16]), ("mod(-7, 3)", 2), ("clip(f, 2, 3)", [2, 2, 3]),
    ("select(f > 1, f, 0)", [0, 2, 4]), ("is_nan(f)", [False] * 3), ("is_inf(f / 0)", [True] * 3),
    # moving
    ("along(f, 0, 3)", [[[1]], [[2]], [[4]]]), ("along(f, -1, 2)", [[1, 2, 4]]),
    ("along(7, 0, 3)", [[[7]]]),
    ("reshape(g, [3, -1])", [[0, 1], [2, 3], [4, 5]]), ("flatten(g)", [0, 1, 2, 3, 4, 5]),
    ("transpose(g)", [[0, 3], [1, 4], [2, 5]]), ("permute(g, [1, 0])", [[0, 3], [1, 4], [2, 5]]),
    ("swap_last(g)", [[0, 3], [1, 4], [2, 5]]), ("squeeze(along(f, 1, 3))", [1, 2, 4]),
    ("squeeze(along(f, 1, 3), [0])", [[1], [2], [4]]), ("unsqueeze(f, [0, 2])", [[[1], [2], [4]]]),
    ("broadcast_to(5, [2])", (5, 5)), ("broadcast_to(along(f, 2, 3), [3])", [1, 2, 4]),
    ("expand(f, [2, 1])", [[1, 2, 4], [1, 2, 4]]), ("tile(f, [2])", [1, 2, 4, 1, 2, 4]),
    ("repeat(f, 2)", [1, 1, 2, 2, 4, 4]), ("flip(f, [0])", [4, 2, 1]),
    ("concat([f, f])", [1, 2, 4, 1, 2, 4]),
    ("concat(g, g, axis=1)", [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]),
    ("concat([1], [2, 3])", (1, 2, 3)),
    ("stack([f, f], 1)", [[1, 1], [2, 2], [4, 4]]), ("split(f, [1, 2])", ([1], [2, 4])),
    ("slice(f, 0, 1, 3)", [2, 4]), ("slice(g, 1, -1, 3)", [[2], [5]]),
    ("gather(f, [2, 0])", [4, 1]),
    ("gather(g, [1], 1)", [[1], [4]]), ("take([7, 8, 9], [2, 2])", (9, 9)), ("take(f, 1)", 2.0),
    ("pad(f, [1, 0], 9)", [9, 1, 2, 4]), ("pad(f, [-1, 1])", [2, 4, 0]),
    ("diag(diag(f))", [1, 2, 4]),
    # reducing and combining
    ("sum(f)", 7.0), ("sum(g, [0])", [3, 5, 7]), ("sum(g, 1, keep=true)", [[3], [12]]),
    ("sum([1, 2])", 3),
    ("prod(f)", 8.0), ("prod([2, 3])", 6), ("mean(g, [1])", [1, 4]),
    ("reduce_max(g, [1])", [2, 5]),
    ("reduce_min(g)", 0.0), ("cumsum(f, 0)", [1, 3, 7]), ("argmax(f)", 2), ("norm([3, 4])", 5.0),
    ("matmul(g, f)", [10, 31]), ("matmul(g, swap_last(g))", [[5, 14], [14, 50]]),
    ("dot(f, f)", 21.0),
    ("outer([1, 2], [3, 4])", [[3, 4], [6, 8]]), ("total([f, f, f])", [3, 6, 12]),
    # making
    ("full([2], 7)", (7, 7)), ("zeros(2)", (0, 0)), ("ones([1, 2], f32)", [[1, 1]]),
    ("eye(2)", [[1, 0], [0, 1]]), ("arange(1, 6, 2)", (1, 3, 5)),
    ("like(h, 0.1)", 0.0999755859375),
    ("f32(0.1)", 0.10000000149011612), ("s64([1, 2])", [1, 2]), ("cast(2.9, s32)", 2),
    ("cast(-2.9, s8)", -2),
    ("cast(f, bool)", [True] * 3), ("cast(f > 1, f32)", [0, 1, 1]), ("tensor([1, 2])", (1, 2)),
    # lists
    ("len([1, 2])", 2), ("len(f)", 3), ("range(3)", (0, 1, 2)), ("range(1, 7, 3)", (1, 4)),
    ("ints(i)", (2, 0, 1)), ("numbers(f)", (1.0, 2.0, 4.0)), ("number(s64([4]))", 4),
    ("sort([3, 1, 2])", (1, 2, 3)),
    ("reverse([1, 2, 3])", (3, 2, 1)), ("is_permutation([2, 0, 1])", True),
    ("recode([1, 2, 1], [5, 6, 7], 9, [2, 1, 3])", (6, 5, 9)),
    ('recode(["a", "b"], ["p", "q"], "r", ["b", "c"])', ("q", "r")),
    ("is_permutation([0, 2])", False),
    ("is_identity_permutation([0, 1])", True), ("inverse([2, 0, 1])", (1, 2, 0)),
    ("compose([2, 0, 1], inverse([2, 0, 1]))", (0, 1, 2)), ("pick([7, 8, 9], [-1, 0])", (9, 7)),
    ("without([7, 8, 9], [0, -1])", (8,)), ("replaced([7, 8], -1, 5)", (7, 5)),
    ("inserted([7, 8], 1, 5)", (7, 5, 8)),
    ("copies(4, 3)", (4, 4, 4)), ("index([5, 6], 6)", 1), ("contains([5, 6], 6)", True),
    ("count([1, 2, 1], 1)", 2),
    ("distinct([1, 2, 1])", False), ("same([2, 2])", True), ("all([true, false])", False),
    ("any(f > 3)", True),
    ("all(f > 0)", True), ("axis(-1, 3)", 2), ("axes([-1, 0], 3)", (0, 2)), ("axes(2, 3)", (2,)),
    ("squeeze_axes([1], [0, 1], 4)", (0, 1, 2)), ("unsqueeze_axes([0], [0], 1)", (0, 1)),
    ("keeps_order([0, 2, 1], [4, 1, 5])", True), ("keeps_order([0, 2, 1], [4, 2, 5])", False),
    ("piece([2, 3, 4], 2, 5)", 1), ("piece([2, 3], -3, 99)", 1),
    ("shape_reduced([2, 3, 4], [1], true)", (2, 1, 4)),
    ("shape_reduced([2, 3, 4], [-1], false)", (2, 3)),
    # questions about values
    ("rank(x)", 2), ("shape(x)", (Symbol("N"), 3)), ("dim(x, 1)", 3), ("dims([x, z], 1)", (3, 3)),
    ("size(z)", 6),
    ("dtype(h)", "f16"), ("static(z)", True), ("static(x)", False), ("static(shape(x))", False),
    ("known_rank(x)", True), ("is_const(v)", True), ("is_const(x)", False), ("scalar(u)", 5.0),
    ("scalar(3)", 3),
    ("uses(t)", 2), ("uses(o)", 1), ("is_output(o)", True), ("is_output(t)", False),
    ("is_input(x)", True),
    ("same_shape(x, y)", True), ("same_dtype(x, h)", False), ("same_type(x, y)", True),
    ("is_scalar(h)", True),
    ("is_scalar(s)", True), ("is_scalar(z)", False), ("broadcastable(v, x)", True),
    ("broadcastable(x, v)", False),
    ("broadcastable(s, x)", True), ("broadcast_shape(x, v)", (Symbol("N"), 3)),
    ("broadcast_shape([2, 1], [4])", (2, 4)),
    ("is_float(h)", True), ("is_int(q)", True), ("is_int(s8)", True), ("is_signed(u8)", False),
    ("is_unsigned(u8)", True), ("bits(bf16)", 16), ("bits(q)", 8), ("bits(s4)", 4),
    ("itemsize(u2)", 1),
    ("itemsize(f64)", 8), ("qmin(q)", -128), ("qmax(u4)", 15), ("op(t)", "LeakyRelu"),
    ("op(x)", ""),
    ('attribute(t, "alpha")', 0.5), ("op(operand(y, 0))", "LeakyRelu"), ("operand(y, 2) ?? 1", 1),
    ("used_by(t)", ("Mul", "Relu")), ("reshape_target([3, 4], [12])", (3, 4)),
    ("reshape_target(concat(shape(x), [1]), shape(x))", (0, 3, 1)),
    ("reshape_target([dim(x, 0)], [1, 1])", (-1,)),
    # questions about numbers
    ("finite(f)", True), ("finite(f / 0)", False), ("all_positive(f)", True),
    ("all_nonnegative(f - 1)", True),
    ("all_positive(f - 1)", False), ("all_nonzero(f)", True), ("positive_zero(f - f)", True),
    ("positive_zero(-(f - f))", False), ("is_integer_valued(f)", True),
    ("is_integer_valued(f / 4)", False),
    ("all_equal(u, 5)", True), ("all_equal(f, 1)", False), ("uniform(u)", True),
    ("uniform(f)", False),
    ("equal(f, f)", True), ("equal(f, f + 1)", False), ("close(1, 1.0001, 1e-3)", True),
    ("close(1, 1.1, 1e-3)", False),
    ("min_of(f)", 1.0), ("max_of(f)", 4.0), ("fits(0.5, f16)", True), ("fits(0.1, f16)", False),
    ("fits(300, u8)", False),
    ("normal(1e-5, f16)", False), ("normal(1e-4, f16)", True), ("normal(1e-41, f32)", False),
    ("normal(0, f16)", True),
    ("normal(1e5, f16)", False), ("power_of_two(f)", True), ("power_of_two(3)", False),
    ("power_of_two(0)", False),
    ("is_identity_matrix(eye(3))", True), ("is_identity_matrix(g)", False),
    ("is_ascending(f)", True),
    ("is_arange([0, 1, 2])", True), ("is_arange(f)", False), ("lowest(f32)", -math.inf),
    ("highest(s8)", 127),
    ("highest(f8e4m3fn)", 448.0), ("finite_highest(f16)", 65504.0),
    ("finite_lowest(bf16)", -3.3895313892515355e38),
    ("epsilon(f16)", 2.0**-10), ("epsilon(bf16)", 2.0**-7),
    ("varies_along(along(f, 1, 3), 1, 3)", True),
    ("varies_along(f, 0, 2)", False), ("varies_along(3, 0, 2)", True),
    ("per_axis(along(f, 1, 3), 1, 3)", [1, 2, 4]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_values(of, text, value):
    found = plain(of(text))
    if (isinstance(value, (float, list)) and "erf" in text) or "rsqrt" in text or "tanh" in text:
        np.testing.assert_allclose(found, value, rtol=1e-15)
    else:
        assert found == value


@pytest.mark.parametrize(
    "text",
    [
        "along(g, 0, 2)", "along(f, 3, 2)", "axes([], 3)", "axes([0, 0], 3)", "axes([3], 3)",
        "axis(3, 3)",
        "scalar(f)", "scalar(x)", "inverse([0, 0])", "compose([0, 1], [0, 1, 2])",
        "per_axis(f, 0, 2)",
        "squeeze(f, [0])", "reshape(f, [2, 2])", "split(f, [1, 1])", "piece([2, 3], 1, 3)",
        "index([1], 2)",
        "broadcast_shape([2], [3])", "reshape_target([dim(x, 0), dim(x, 0)], [4])", "size(x)",
        "is_scalar(absent)",
        "matmul(3, f)", "min_of(zeros([0]))", "qmin(f32)", "epsilon(s8)", "highest(string)",
        "bits(string)",
        "like(absent, 1)",  "attribute(x, \"alpha\")", "uses(3)", "gather(f, [0.5])",
        "gather(f, [7])",
        "mean(\"a\")", "pad(f, [1])", "tile(g, [2])", "range(1, 5, 0)", "quantize(f - f, 0, 0, u8)",
        "dtype(3)",
    ],
)  # fmt: skip
def test_what_cannot_be_computed(of, text):
    with pytest.raises(Unknown):
        of(text)


# --- against ONNX's reference --------------------------------------------------------------------


elem = onnx.helper.np_dtype_to_tensor_dtype


def run(op: str, *arrays: np.ndarray, **attributes: object) -> np.ndarray:
    names = [f"x{i}" for i in range(len(arrays))]
    node = onnx.helper.make_node(op, names, ["y"], **attributes)
    inputs = [
        onnx.helper.make_tensor_value_info(
            n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape
        )
        for n, a in zip(names, arrays, strict=True)
    ]
    output = onnx.helper.make_empty_tensor_value_info("y")
    graph = onnx.helper.make_graph([node], "g", inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    feeds = dict(zip(names, arrays, strict=True))
    return np.asarray(onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0])


def sliced(size: int, start: int, end: int, step: int) -> list[int]:
    """The places that ONNX's Slice keeps of an axis, from the words of its specification.

    Negative counts get the size added; then the start is clamped to [0, size] ([0, size - 1] for a
    negative step), the end to [0, size] ([-1, size - 1]). (The reference evaluator uses numpy's
    slices, which differ for starts before the front with a negative step; onnxruntime does this.)
    """
    start, end = start + size * (start < 0), end + size * (end < 0)
    if step > 0:
        return list(range(min(max(start, 0), size), min(max(end, 0), size), step))
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return list(range(start, end, step))


SLICE = st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -2, -1, 1, 2, 3]))


@settings(max_examples=500, deadline=None)
@given(SLICE, SLICE, st.integers(0, 8))
def test_two_slices_are_one(first, second, size):
    from rewrite.match.builtins.movement import slice_compose

    (s1, e1, t1), (s2, e2, t2) = first, second
    kept = sliced(size, s1, e1, t1)
    both = [kept[i] for i in sliced(len(kept), s2, e2, t2)]
    s, e, a, t = slice_compose((s1,), (e1,), (0,), (t1,), (s2,), (e2,), (0,), (t2,), (size,))
    assert (len(s), a) == (1, (0,))
    assert sliced(size, s[0], e[0], t[0]) == both


def test_slices_of_different_axes():
    from rewrite.match.builtins.movement import slice_compose

    shape = (5, Symbol("N"), 7)
    found = slice_compose((1,), (4,), None, None, (2,), (9,), (-2,), None, shape)
    assert found == ((1, 2), (4, 9), (0, 1), (1, 1))
    with pytest.raises(Unknown, match="size N"):
        slice_compose((1,), (4,), (1,), None, (2,), (9,), (1,), None, shape)


@pytest.mark.parametrize("dtype", ["u8", "s8", "u16", "s16"])
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_codes_are_those_of_quantize_linear(dtype, kind):
    from rewrite.match.builtins.movement import dequantize, quantize

    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(0, 40, 200), np.arange(-20, 20) * 0.25, 3e4, -3e4]
    values = values.astype(to_numpy(kind))
    scale, zero = np.array(0.5, to_numpy(kind)), np.array(7, to_numpy(dtype))
    codes = quantize(working(values), working(scale), working(zero), dtype).rounded()
    np.testing.assert_array_equal(codes, run("QuantizeLinear", values, scale, zero))
    back = dequantize(working(codes), working(scale), working(zero)).rounded()
    np.testing.assert_array_equal(back, run("DequantizeLinear", codes, scale, zero))
    ends = quantize(working(np.array([np.inf, -np.inf], np.float32)), working(scale), None, dtype)
    limits = np.iinfo(to_numpy(dtype))
    assert ends.array.tolist() == [limits.max, limits.min], "infinities saturate"


def test_widens_means_that_every_value_is_a_value(of):
    """For all pairs of types with at most 16 bits, by conversion of every value."""
    small = [d for d in (*sorted(DTYPE_CLASSES["int"]), *SMALL_FLOATS) if of(f"bits({d})") <= 16]
    for a in small:
        values = every_value(a)
        for b in small:
            fits = of_type(values, b)
            assert of(f"widens({a}, {b})") is fits, (a, b)


SMALL_FLOATS = ("f16", "bf16", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f4e2m1")


def every_value(dtype: str) -> np.ndarray:
    kind = to_numpy(dtype)
    if dtype in DTYPE_CLASSES["int"]:
        bits = int(dtype[1:])
        low = 0 if dtype[0] == "u" else -(1 << (bits - 1))
        return np.arange(low, low + (1 << bits), dtype=np.float64)
    bits = 4 if dtype == "f4e2m1" else 8 * kind.itemsize
    with np.errstate(invalid="ignore"):
        found = np.arange(1 << bits, dtype=f"u{kind.itemsize}").view(kind).astype(np.float64)
    return found[~np.isnan(found)]


def of_type(values: np.ndarray, dtype: str) -> bool:
    """Whether every number is among the values of the type."""
    return bool(np.isin(values, every_value(dtype)).all())


@pytest.mark.parametrize(
    ("a", "b", "widens"),
    [
        ("s32", "f64", True), ("s64", "f64", False), ("s32", "f32", False), ("s16", "f32", True),
        ("f32", "f64", True), ("f64", "f32", False), ("bool", "s8", True), ("s8", "bool", False),
        ("u32", "s64", True), ("u64", "s64", False), ("string", "string", True),
        ("f32", "c64", True),
        ("f64", "c64", False), ("c64", "c128", True), ("c64", "f64", False),
        ("bool", "string", False),
    ],
)  # fmt: skip
def test_widens_of_larger_types(of, a, b, widens):
    assert of(f"widens({a}, {b})") is widens


# --- the set as a whole --------------------------------------------------------------------------


def test_every_function_says_what_it_does():
    for name, function in registry.functions().items():
        doc = function.signature.doc
        assert doc.endswith("."), name
        assert 10 < len(doc) < 130, name


def test_every_function_is_tried():
    """Here, or by a rule that is shipped, whose examples run."""
    rules = (Path(__file__).parents[2] / "rules").rglob("*.rules")
    tried = " ".join([*(text for text, _ in VALUES), *(p.read_text("utf-8") for p in rules)])
    constants = set(DTYPES)
    left = [
        name
        for name in registry.functions()
        if f"{name}(" not in tried and name not in constants and "__" not in name
        and name not in ("quantize", "dequantize", "slice_compose", "widens", "opset_version")
    ]  # fmt: skip
    assert left == []


def test_the_opset_of_the_model(ask):
    text = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
    assert ask("y = Relu(x)", text, "y", "where opset_version() == 15", opset=15)
