"""Static checks, where a file per code does not say enough: what is allowed, and hints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rewrite.errors import Diagnostic
from rewrite.lang.check import opset_range
from rewrite.lang.parser import parse
from rewrite.lang.vocabulary import Vocabulary

Diagnose = Callable[[str, str], list[Diagnostic]]


def rule(body: str, head: str = "in fold") -> str:
    return (
        f'rule r {head} {{\n"""D."""\n{body}\nclaim exact\n'
        'example fires """g (float x) => (float y) { y = Relu(x) }"""\n'
        'example rejects """g (float x) => (float y) { y = Neg(x) }"""\n}\n'
    )


def codes(diagnose: Diagnose, body: str, head: str = "in fold") -> list[str]:
    return sorted(d.code for d in diagnose(rule(body, head), "t.rules"))


@pytest.mark.parametrize(
    "body",
    [
        # attributes: listed, carried by the same operator, or by one that has them all
        "match y = Softmax(x) { axis: ignored }\nemit y = x",
        "match y = Conv(x, W)\nemit y = Conv(Neg(x), W) { ..y }",
        "match c = Conv(x, W)\ny = Relu(c)\nemit y = Conv(x, W) { ..c, group: 1 }",
        "match y = LogSoftmax(x)\nemit y = Softmax(x) { ..y }",
        "match y = Softmax(x) | LogSoftmax(x)\nemit y = @y(Neg(x))",
        "match y = chain(x, pointwise, 1..1)\nemit y = @y(Neg(x))",
        # operands
        "match y = Clip(x)\nemit y = x",
        "match y = Clip(x, none, hi: const)\nemit y = Clip(x, none, hi)",
        "match y = Max(*xs)\nemit y = Sum(*xs)",
        "match y = Concat(x, *xs) { axis: a }\nemit y = Concat(*xs, x) { axis: a }",
        # a constant of any kind as an operand, a number as an attribute
        "match y = Relu(x)\nemit y = Add(x, 1) * [1, 2] - f32(0.5)",
        "match y = Clip(x, lo?: const)\nemit y = LeakyRelu(x) { alpha: scalar(lo ?? 0) }",
        # element types are values of some attributes
        "match y = Relu(x)\nemit y = Cast(x) { to: f32 }",
        "match y = Cast(x) { to: t, saturate: ignored, round_mode: ignored }\n"
        "where t == f32\nemit y = x",
        # a list of sizes, equality of values, sizes and lists
        "match y = Relu(x: f[B..., N])\nwhere B == shape(x)[:-1], N == 4, x != y\nemit y = x",
        # a constant of the right type can be a root
        "match y = Mul(x, 0)\nwhere static(x)\nemit y = cast(zeros(shape(x)), dtype(x))",
        # a root is what it was in functions of the emitted expressions
        "match y = Relu(x)\nemit y = Reshape(x, tensor(shape(y))) { allowzero: 0 }",
        # several roots, each from what was matched
        "match a, b = Split(x, s) { axis: 0, num_outputs: ignored }\n"
        "emit a, b = Split(Neg(x), s) { axis: 0 }",
        # the same name twice is the same value, also between statements
        "match a = Relu(x)\ny = Add(a, x)\nemit y = Neg(x)",
        # a statement found forwards, through a value that the last one binds
        "match z = Neg(x)\ny = Relu(x)\nemit y = z",
    ],
)
def test_allowed(body: str, diagnose: Diagnose) -> None:
    assert [d.headline() for d in diagnose(rule(body), "t.rules")] == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("match y = Conv(x, W)\nemit y = Conv(Neg(x), W)", "RW209"),
        ("match c = Conv(x, W)\ny = Relu(c)\nemit y = Gemm(x, W) { ..c }", "RW209"),
        ("match y = Softmax(x) | Conv(x, W)\nemit y = Softmax(Neg(x)) { ..y }", "RW209"),
        ("match y = Clip(x, lo, hi, more)\nemit y = x", "RW205"),
        ("match y = Max(*xs)\nemit y = Relu(xs)", "RW226"),
        ("match y = Relu(x)\nemit y = Cast(x) { to: x }", "RW265"),
        ("match y = Relu(x)\nemit y = Conv(x, x) { strides: 1 }", "RW207"),
        ("match y = Relu(x)\nemit y = Relu(x) { alpha: 1 }", "RW206"),
        ("match y = Relu(x: const)\nemit y = Mod(x, x) { fmod: 1.5 }", "RW207"),
        (
            "match y = Relu(x) | Clip(x, z) as clip\nwhere if clip: rank(z) == 0\nemit y = z",
            "RW224",
        ),
    ],
)
def test_refused(body: str, code: str, diagnose: Diagnose) -> None:
    assert codes(diagnose, body) == [code]


def test_a_group_leaves_attributes_open(diagnose: Diagnose) -> None:
    """Its nodes stay as they are, whatever their attributes."""
    body = "match c = Conv(x, W)\ny = Softmax(c)\ngroup y as Kernel"
    assert codes(diagnose, body, "in group") == []


def test_attributes_of_other_opsets_may_be_listed(diagnose: Diagnose) -> None:
    """`spatial` was removed with opset 9, `training_mode` came with 14."""
    body = "match y = BatchNormalization(x, s, b, m, v) { epsilon: ignored, momentum: ignored"
    emit = "\nemit y = x"
    assert codes(diagnose, body + " }" + emit, "in fold opset 9..13") == []
    every = body + ", spatial: 1, training_mode: 0 }" + emit
    assert codes(diagnose, every, "in fold opset 9..13") == []
    assert codes(diagnose, body + " }" + emit, "in fold opset 9..14") == ["RW209"]
    assert codes(diagnose, body + " }" + emit, "in fold opset 8..13") == ["RW209"]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("match y = relu(x)\nemit y = x", "operators are UpperCase"),
        ("match y = Gelux(x)\nemit y = x", "did you mean `Gelu`"),
        ("match y = Conv2D(x, w)\nemit y = x", "did you mean `Conv`?"),
        ("match y = ReLU(x)\nemit y = x", "did you mean `Relu`?"),
        ("match y = Xyzzy(x)\nemit y = x", None),
        ("match y = Relu(x) where target.has(ms.BiasGelo)\nemit y = x", "did you mean `ms.BiasG"),
        ("match y = Relu(x) if (rank(x) == 1) as p\nemit y = x", "the name comes before the guard"),
        ("match y = FastGelu(x)\nemit y = x", "did you mean `ms.FastGelu`?"),
        ("match y = ReduceMean(x) { axes: [1], keepdims: 1, noop_with_empty_axes: 0 }\nemit y = x",
         "`axes` is always written as operand 2"),
        ("match y = Relu(x)\nwhere ranc(x) == 1\nemit y = x", "did you mean `rank`?"),
        ("match y = Softmax(x) { axes: 1, axis: 1 }\nemit y = x", "did you mean `axis`?"),
        ("match y = Relu(x: int8)\nemit y = x", "did you mean `s8`?"),
        ("match y = Relu(x: float)\nemit y = x", "did you mean `f32`?"),
        ("match y = Relu(x: f17)\nemit y = x", "did you mean `f16`"),
        ("match y = Relu(DQ(X: per_axs(0)))\nemit y = zeros([1], f32)", "did you mean `per_axis`?"),
        ("match y = Relu(DQ(X: s8 per_tensr))\nemit y = x", "did you mean `per_tensor`?"),
        ("match y = Relu(DQ(X, zpt=0))\nemit y = x", "did you mean `zp`?"),
        ("match y = Relu(x)\nwhere x.shap == [1]\nemit y = x", "did you mean `shape`?"),
        ("match y = Relu(x)\nwhere x.layout == 1\nemit y = x", "a value has `.shape`, `.dtype`"),
        ("match y = Relu(DQ(X: per_tensor))\nwhere X.scal > 1\nemit y = zeros([1], f32)",
         "did you mean `scale`?"),
        ("match y = Relu(DQ(_: per_axis(0)))\nwhere dq1 > 1\nemit y = zeros([1], f32)",
         "names are bound by `match` and `let`"),
    ],
)  # fmt: skip
def test_hints(body: str, hint: str | None, diagnose: Diagnose) -> None:
    (found,) = diagnose(rule(body), "t.rules")
    assert (found.hint or "").startswith(hint or "")
    assert (found.hint is None) == (hint is None)


def test_opset_range(vocabulary: Vocabulary) -> None:
    """LayerNormalization came with opset 17, Attention with 23."""
    text = rule("match y = Relu(x)\nemit y = LayerNormalization(x, x) { axis: -1 }")
    (found,) = parse(text, "t.rules").rules
    assert opset_range(found, vocabulary, (7, 26)) == (17, 26)
    assert opset_range(found, vocabulary, (7, 18)) == (17, 18)
    assert opset_range(found, vocabulary, (7, 16)) is None


def test_every_error_of_a_file_is_found(diagnose: Diagnose) -> None:
    body = "match y = Softmax(Relux(x), z)\nwhere rank(q) == 1, ranc(x) == 1, z > 0\nemit y = Tanh"
    assert codes(diagnose, body, "in cleanup") == [
        "RW201", "RW203", "RW205", "RW209", "RW220", "RW228", "RW262", "RW265",
    ]  # fmt: skip
