"""Comments that allow findings, and edits."""

from __future__ import annotations

from rewrite.audit.lint.finding import Edit, Finding
from rewrite.audit.lint.fixes import fixed, without_item
from rewrite.audit.lint.run import lint_pack, wanted
from rewrite.audit.lint.subject import open_pack
from rewrite.errors import Span
from tests.audit.lint.packs import rule

BODY = "  match y = Neg(x: f32)\n  where {}dtype(x) == f32\n  emit  y = Abs(Abs(x))\n  claim exact"


def codes(lint, text: str) -> list[str]:
    return [f.code for f in lint(text, "RW911", "RW947", "RW948")]


def test_a_comment_allows_what_begins_on_the_next_line(lint):
    text = rule(BODY.format("")).replace("  where", "  # lint: allow RW911: to be seen\n  where")
    assert codes(lint, text) == []


def test_other_comments_may_stand_between(lint):
    comments = "  # lint: allow RW911: to be seen\n  # Of floats.\n  where"
    assert codes(lint, rule(BODY.format("")).replace("  where", comments)) == []


def test_before_a_rule_it_holds_for_all_of_it(lint):
    assert codes(lint, "# lint: allow RW911: to be seen\n" + rule(BODY.format(""))) == []


def test_at_the_end_of_a_line_it_holds_for_that_line(lint):
    text = rule(BODY.format("")).replace("== f32", "== f32  # lint: allow RW911: to be seen")
    assert codes(lint, text) == []


def test_it_does_not_hold_further_down(lint):
    text = rule(BODY.format("")).replace("  match", "  # lint: allow RW911: to be seen\n  match")
    assert sorted(codes(lint, text)) == ["RW911", "RW948"]


def test_without_a_reason_it_allows_nothing(lint):
    for comment in ("# lint: allow RW911", "# lint: allow RW911:", "# lint: allow RW911: -"):
        text = rule(BODY.format("")).replace("  where", f"  {comment}\n  where")
        assert sorted(codes(lint, text)) == ["RW911", "RW947"]


def test_codes_that_do_not_exist_and_other_forms(lint):
    for comment in ("# lint: allow RW999: why not", "# lint: off", "# lint: allow all: why not"):
        text = rule(BODY.format("")).replace("  where", f"  {comment}\n  where")
        assert "RW947" in codes(lint, text)


def test_a_comment_for_two_codes_of_which_one_is_idle(write):
    text = "# lint: allow RW911, RW913: to be seen\n" + rule(BODY.format(""))
    report = lint_pack(open_pack(write(text)), wanted(("RW91", "RW948"), ()))
    (finding,) = report.findings
    assert finding.code == "RW948"
    (new,) = fixed(report.texts, report.findings).values()
    assert new == text.replace("RW911, RW913", "RW911")


def test_codes_that_were_not_looked_for_are_not_idle(write):
    text = "# lint: allow RW911: to be seen\n" + rule(BODY.format(""))
    report = lint_pack(open_pack(write(text)), wanted(("RW948",), ()))
    assert report.findings == ()


def test_an_idle_comment_is_removed_with_its_line(write):
    text = rule(BODY.format("")).replace("  match", "  # lint: allow RW913: to be seen\n  match")
    report = lint_pack(open_pack(write(text)), wanted(("RW913", "RW948"), ()))
    (new,) = fixed(report.texts, report.findings).values()
    assert new == rule(BODY.format(""))


def test_a_condition_leaves_its_list(write):
    for before, after in (
        ("rank(x) > 1, dtype(x) == f32", "rank(x) > 1"),
        ("dtype(x) == f32, rank(x) > 1", "rank(x) > 1"),
        ("rank(x) > 1,\n        dtype(x) == f32", "rank(x) > 1"),
    ):
        text = rule(BODY.format("")).replace("dtype(x) == f32", before)
        report = lint_pack(open_pack(write(text)), wanted(("RW911",), ()))
        (new,) = fixed(report.texts, report.findings).values()
        assert new == text.replace(before, after)


def test_the_only_condition_stays(lint):
    (finding,) = lint(rule(BODY.format("")), "RW911")
    assert finding.edits == ()


def finding(*edits: Edit) -> Finding:
    return Finding("m", edits[0].span, "s", edits=edits, code="RW911", severity="warning")


def span(start: int, end: int) -> Span:
    return Span("f", 1, start, 1, end)


def test_edits_that_touch_wait_for_the_next_run():
    first = finding(Edit(span(1, 4), "X"))
    second = finding(Edit(span(3, 5), "Y"), Edit(span(6, 7), "Z"))
    assert fixed({"f": "abcdefg"}, [first, second]) == {"f": "Xdefg"}
    assert fixed({"f": "abcdefg"}, [second]) == {"f": "abYeZg"}


def test_items_of_lists():
    assert without_item("a, b, c", span(4, 5)) == span(2, 5)
    assert without_item("a, b, c", span(1, 2)) == span(1, 4)
    assert without_item("a", span(1, 2)) is None
