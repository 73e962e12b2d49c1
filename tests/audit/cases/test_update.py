"""What `--update` writes: two keys of a case, and not one byte besides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml

from rewrite.audit.cases.case import Case, Finding, Outcome, RuleTest
from rewrite.audit.cases.read import read_cases
from rewrite.audit.cases.update import Change, changes_of, updated
from rewrite.errors import Collector, Diagnostic, Span

GRAPH = "g (float[2] x)\n<float k = {1}>\n{\n  y = Relu(x)\n}\n"
INDENTED = "    g (float[2] x)\n    <float k = {1}>\n    {\n      y = Relu(x)\n    }\n"

FORMS = {
    "empty": ("  after:\n", "  after: |\n" + INDENTED),
    "comment": ("  after:   # soon\n", "  after: |   # soon\n" + INDENTED),
    "null": ("  after: null\n", "  after: |\n" + INDENTED),
    "tilde": ("  after: ~ # none\n", "  after: | # none\n" + INDENTED),
    "plain": ("  after: g () { }\n", "  after: |\n" + INDENTED),
    "plain lines": ("  after: g ()\n     { }  # two\n", "  after: |  # two\n" + INDENTED),
    "quoted": ("  after: 'g' # old\n", "  after: | # old\n" + INDENTED),
    "quoted lines": ('  after: "g\n    h"\n', "  after: |\n" + INDENTED),
    "literal": ("  after: |\n      old\n        er\n", "  after: |\n" + INDENTED),
    "literal, blanks": ("  after: |\n    a\n\n    b\n\n\n", "  after: |\n" + INDENTED + "\n\n"),
    "literal, comment": ("  after: | # why\n    old\n", "  after: | # why\n" + INDENTED),
    "literal, indentation": ("  after: |2-\n      old\n", "  after: |\n" + INDENTED),
    "folded": ("  after: >+  # c\n    old\n    er\n", "  after: |  # c\n" + INDENTED),
    "empty literal": ("  after: |\n", "  after: |\n" + INDENTED),
}  # fmt: skip
HEAD = "# kept: ünïcode\n- rule:  r   # odd blanks\n  name: 'a'\n\n"
TAIL = "\n  # about the next\n- {rule: s, name: b, before: g, fired: 1}\n"


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("form", FORMS)
def test_only_the_value_changes(form, ends):
    old, new = FORMS[form]
    before = (HEAD + old + "  fired: 1\n" + TAIL).replace("\n", ends)
    after, refused = updated(before, "t", [Change(2, 3, "after", GRAPH)])
    assert refused == []
    assert after == (HEAD + new + "  fired: 1\n" + TAIL).replace("\n", ends)
    assert yaml.safe_load(after)[0]["after"] == GRAPH
    again, _ = updated(after, "t", [Change(2, 3, "after", GRAPH)])
    assert again == after


@pytest.mark.parametrize("form", FORMS)
def test_at_the_end_of_a_file(form):
    """Also of one whose last line does not end."""
    old, new = FORMS[form]
    for end in ("\n", ""):
        before = "- rule: r\n" + old.rstrip("\n") + end
        after, _ = updated(before, "t", [Change(1, 3, "after", GRAPH)])
        assert after == "- rule: r\n" + new.rstrip("\n") + end
        assert str(yaml.safe_load(after)[0]["after"]).rstrip("\n") == GRAPH.rstrip("\n")


def test_the_indentation_of_the_case_is_kept():
    before = "-   rule: r\n    after:\n    fired: 1\n"
    after, _ = updated(before, "t", [Change(1, 5, "after", "a\n b\n")])
    assert after == "-   rule: r\n    after: |\n      a\n       b\n    fired: 1\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  rejects:\n", "  rejects: where\n"),
        ("  rejects:  # why\n", "  rejects: where  # why\n"),
        ("  rejects: '?' # why\n", "  rejects: where # why\n"),
        ("  rejects: null\n", "  rejects: where\n"),
    ],
)
def test_reasons(old, new):
    after, _ = updated(f"- rule: r\n{old}  because: x\n", "t", [Change(1, 3, "rejects", "where")])
    assert after == f"- rule: r\n{new}  because: x\n"


def test_several_cases_at_once():
    before = "\ufeff- rule: r\n  after:\n- rule: r\n  rejects:\n- rule: r\n  after: |\n    c\n"
    changes = [
        Change(5, 3, "after", "C\n"),
        Change(1, 3, "after", "A\n"),
        Change(3, 3, "rejects", "const"),
    ]
    after, _ = updated(before, "t", changes)
    assert after == (
        "\ufeff- rule: r\n  after: |\n    A\n- rule: r\n  rejects: const\n"
        "- rule: r\n  after: |\n    C\n"
    )


def test_braces_have_no_place_for_lines():
    text = "- {rule: r, after: g}\n- rule: r\n  after:\n"
    changes = [Change(1, 3, "after", GRAPH), Change(2, 3, "after", "A\n")]
    after, (refused,) = updated(text, "t", changes)
    assert after == "- {rule: r, after: g}\n- rule: r\n  after: |\n    A\n"
    assert refused.code == "RW717"
    assert refused.span == Span("t", 1, 3, 1, 22)


def test_opsets_that_make_different_graphs():
    """One text cannot be right for both."""
    text = "- rule: r\n  opset: [12, 13]\n  after:\n"
    changes = [Change(1, 3, "after", "A\n"), Change(1, 3, "after", "B\n")]
    after, refused = updated(text, "t", changes)
    assert after == text
    assert {r.code for r in refused} == {"RW717"}
    assert "the opsets of the case do not agree" in refused[0].message


def test_only_files_of_the_folder_are_changed():
    def outcome(file: str, proposed: tuple[tuple[str, str], ...]) -> Outcome:
        span = Span(file, 4, 3, 4, 9)
        case = Case("r", "n", "g", span, {})
        problem = Diagnostic("RW717", "empty", span)
        return Outcome(
            RuleTest("r", "case n", True, "g", span, case), Finding(problem, (), proposed)
        )

    one = outcome("p/a.cases.yaml", (("after", "A"),))
    found = changes_of(
        [one, one, outcome("q/a.cases.yaml", (("after", "A"),)), outcome("p/b.cases.yaml", ())],
        Path("p"),
    )
    assert found == {"p/a.cases.yaml": [Change(4, 3, "after", "A")]}


VALID = """\
# a file
- rule: r
  name: four
  before: |
    g (float[2] x) => (float[2] y) { y = Relu(x) }
  after:   # soon
  inputs: {x: [1, 2, nan]}
  outputs: {y: [0.25, 0.5, nan]}

- rule: r
  name: many
  before: "g () => () { }"
  rejects:
- rule: r
  name: other
  before: g
  after: |
    g () => () { }
"""
PIECES = [
    *"\n\t :-#|>&*!%@`'\"{}[],?~0aé\x00\ufeff\u2028",
    "- ",
    "\n  ",
    "|\n",
    "\r\n",
    "---\n",
    "!!",
]


def test_what_can_be_read_can_be_read_when_updated():
    """Files changed at random: no exception, and nothing but what was to change is another."""
    random = Random(0)
    readable = 0
    for _ in range(500):
        text = VALID
        for _ in range(random.randrange(1, 5)):
            at = random.randrange(len(text))
            text = text[:at] + random.choice(PIECES) + text[at + random.randrange(2) :]
        errors = Collector()
        cases = read_cases(text, "t", 26, errors)
        if errors.found:
            continue
        readable += 1
        changes = [
            Change(c.span.line, c.span.column, key, value)
            for c in cases
            for key, value in (("after", GRAPH), ("rejects", "where"))
            if (key in c.spans and c.rejects != "where")
        ]
        after, refused = updated(text, "t", changes)
        again = read_cases(after, "t", 26, errors)
        assert errors.found == refused == []
        for old, new in zip(cases, again, strict=True):
            written = {"after": new.after, "rejects": new.rejects}
            kept = replace(old, span=new.span, spans=new.spans, **written)
            assert repr(kept) == repr(new)  # NaN is not equal to itself
            assert old.after is None or str(new.after).rstrip("\n") == GRAPH.rstrip("\n")
    assert readable > 30
