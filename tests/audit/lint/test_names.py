"""Names that nothing asks for, and the text without them."""

from __future__ import annotations

import pytest

from rewrite.audit.lint.fixes import fixed
from rewrite.audit.lint.run import lint_pack, wanted
from rewrite.audit.lint.subject import open_pack
from tests.audit.lint.packs import rule

EMIT = "  emit  y = Identity(Identity({}))\n  claim equal(rtol=0.5)"


def mended(write, text: str) -> str:
    """The text after --fix; what is mended loads, and nothing is found in it."""
    folder = write(text)
    report = lint_pack(open_pack(folder), wanted(("RW921",), ()))
    (file,) = {f.span.file for f in report.findings}
    new = fixed(report.texts, report.findings)[file]
    write(new)
    assert lint_pack(open_pack(folder), wanted(("RW921",), ())).findings == ()
    return new


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = Add(x, z)", "y = Add(x, _)"),
        ("y = Add(x, z: const f32[2])", "y = Add(x, _: const f32[2])"),
        ("y = x + (z: const)", "y = x + (_: const)"),
        ("y = Clip(x, lo?, hi?)", "y = Clip(x, _?, _?)"),
        ("y = Sum(x, *zs)", "y = Sum(x, *_)"),
        ("y = Neg(x: [N, M, 2])", "y = Neg(x: [_, _, 2])"),
        ("y = Neg(x: [B..., 2])", "y = Neg(x: [..., 2])"),
        ("y = Neg(x) as neg | Abs(x) as absolute", "y = Neg(x) | Abs(x)"),
        ("y = prod{x, z, w}", "y = prod{x, _, _}"),
        ("y = Add(x, DQ(K: u8 per_tensor))", "y = Add(x, DQ(_: u8 per_tensor))"),
        ("y = Add(x, DQ(K?: s32))", "y = Add(x, DQ(_?: s32))"),
        ("y = Q(Add(x, _), Y: u8)", "y = Q(Add(x, _), _: u8)"),
    ],
)
def test_fixes(write, before, after):
    text = rule(f"  match {before}\n" + EMIT.format("x"))
    assert mended(write, text) == text.replace(before, after)


@pytest.mark.parametrize(
    "match",
    [
        "y = Add(x, x)",
        "y = Neg(x: [N, N])",
        "a = Neg(x)\n        y = Abs(a)",
        "y = Add(x, DQ(K: const s8 per_axis(0)))",  # the axis is that of K
        "y, i = TopK(x, k) { axis: 0, largest: ignored, sorted: ignored }\n  where size(k) == 1",
    ],
)
def test_names_in_use(lint, match):
    assert lint(rule(f"  match {match}\n" + EMIT.format("x")), "RW921") == ()


def test_arguments_of_named_patterns_are_left_alone(lint):
    text = "pattern twice(v) = v + v\n\n" + rule("  match y = twice(x)\n" + EMIT.format("y2"))
    text = text.replace("Identity(Identity(y2))", "zeros(shape(y), f32)")
    assert lint(text, "RW921") == ()


def test_patterns_that_a_pack_of_the_run_calls_are_used(tmp_path, write):
    folder = write(
        "pattern negated(v) = Neg(v)\n\n" + rule("  match y = Abs(x)\n" + EMIT.format("x"))
    )
    alone = lint_pack(open_pack(folder), wanted(("RW922",), ()))
    assert [f.subject for f in alone.findings] == ["negated"]
    other = tmp_path / "other"
    other.mkdir()
    base = tmp_path / "page"
    base.mkdir()
    for name in ("pack.yaml", "page.rules"):
        (base / name).write_text((folder / name).read_text())
    (other / "pack.yaml").write_text("name: other\ndoc: Another.\nextends: [page]\n")
    (other / "o.rules").write_text(rule("  match y = negated(x)\n" + EMIT.format("x"), "other"))
    both = lint_pack(open_pack(base, (base, other)), wanted(("RW922",), ()))
    assert both.findings == ()
