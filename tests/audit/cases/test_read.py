"""Files of cases: what a case may say, and each way to be wrong with its code and place."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from rewrite.audit.cases import find
from rewrite.audit.cases.case import OPEN, Case
from rewrite.audit.cases.find import cases_of
from rewrite.audit.cases.read import KEYS, MOST_CASES, read_cases
from rewrite.audit.cases.reason import REASONS
from rewrite.errors import Collector, RewriteError
from rewrite.lang.pack import RulePack, load_pack
from rewrite.match.vocabulary import vocabulary

DOCS = Path(__file__).resolve().parents[3] / "docs"
HEAD = "- rule: r\n  name: n\n  before: g\n"


def read(text: str) -> tuple[tuple[Case, ...], list[tuple[str, str, str]]]:
    """The cases; code, line:column and message of each problem."""
    errors = Collector()
    cases = read_cases(text, "t.cases.yaml", 26, errors)
    found = [
        (d.code, f"{d.span.line}:{d.span.column}", d.message)
        for d in errors.found
        if d.span is not None
    ]
    assert len(found) == len(errors.found)
    return cases, found


def test_all_that_a_case_may_say():
    cases, problems = read(
        """\
# first
- rule: relu_relu
  name: a vector of two
  target: chip.yaml
  opset: 20
  before: |
    g (float[2] x) => (float[2] y)
    { y = Relu(x) }
  after: "g"
  fired: 2
  inputs: {x: [1, -2.5, .5, 1e3, inf, -inf, nan, .nan, -.inf], k: 3, b: [true, false]}
  outputs: {y: [[1], [2]]}
- {rule: relu_relu, name: no, before: g, rejects: where, because: "where:1"}
- rule: relu_relu
  name: open
  before: g
  rejects:
- rule: relu_relu
  name: asked
  before: g
  rejects: "?"
- rule: relu_relu
  name: open graph
  before: g
  after:
"""
    )
    assert problems == []
    first, second, *rest = cases
    assert first.before == "g (float[2] x) => (float[2] y)\n{ y = Relu(x) }\n"
    assert (first.rule, first.name, first.target) == ("relu_relu", "a vector of two", "chip.yaml")
    assert (first.opsets, first.after, first.fired, first.rejects) == ((20,), "g", 2, None)
    assert first.inputs is not None
    numbers = first.inputs["x"]
    assert isinstance(numbers, list)
    assert numbers[:6] == [1, -2.5, 0.5, 1000.0, math.inf, -math.inf]
    assert math.isnan(numbers[6])
    assert math.isnan(numbers[7])
    assert numbers[8] == -math.inf
    assert first.inputs["b"] == [True, False]
    assert first.inputs["k"] == 3
    assert first.outputs == {"y": [[1], [2]]}
    assert (first.span.line, first.place("after").line, first.place("rejects").line) == (2, 9, 2)
    assert (second.rejects, second.because) == ("where", "where:1")
    assert [(c.rejects, c.after) for c in rest] == [(OPEN, None), (OPEN, None), (None, OPEN)]


@pytest.mark.parametrize(
    ("text", "code", "place", "words"),
    [
        ("", "RW709", "1:1", "is a list: `- rule: …`"),
        ("# nothing\n", "RW709", "1:1", "is a list: `- rule: …`"),
        ("rule: r\n", "RW709", "1:1", "is a list: `- rule: …`"),
        ("just text", "RW709", "1:1", "is a list: `- rule: …`"),
        ("- [\n", "RW709", "2:1", "expected"),
        ("- rule: r\n  rejects: ?\n", "RW709", "2:12", "mapping keys are not allowed here"),
        ("- rule: \x07\n", "RW709", "1:1", "special characters are not allowed"),
        ("- rule: &a r\n", "RW709", "1:9", "anchors and aliases"),
        ("- rule: *a\n", "RW709", "1:9", "anchors and aliases"),
        ("- !!python/object:os.system r\n", "RW709", "1:3", "tags are not read"),
        ("- rule: !!str r\n", "RW709", "1:9", "tags are not read"),
        (f"- {'[' * 50}\n", "RW709", "1:14", "nested too deep"),
        (f"- {'[' * 20000}\n", "RW709", "1:14", "nested too deep"),
        ("x" * ((1 << 20) + 1), "RW709", "1:1", "at most 1048576 are read"),
        ("- a\n" * (MOST_CASES + 1), "RW709", "1:1", f"at most {MOST_CASES} are read"),
        ("--- []\n--- []\n", "RW709", "2:1", "but found another document"),
        ("- r\n", "RW711", "1:3", "a case"),
        (HEAD + "  after: g\n  nmae: x\n", "RW710", "5:3", "unknown key `nmae`"),
        (HEAD + "  after: g\n  1: x\n", "RW710", "5:3", "unknown key `1`"),
        (HEAD + "  after: g\n  [a]: x\n", "RW710", "5:3", "unknown key ``"),
        (HEAD + "  after: g\n  name: x\n", "RW710", "5:3", "`name` is given twice"),
        ("- rule: r\n  before: g\n  after: g\n", "RW710", "1:3", "`name` is missing"),
        ("- rule: r\n  name: n\n  after: g\n", "RW710", "1:3", "`before` is missing"),
        ("- name: n\n  before: g\n  after: g\n", "RW710", "1:3", "`rule` is missing"),
        (HEAD, "RW710", "1:3", "nothing about what is expected"),
        (HEAD + "  rejects: where\n  after: g\n", "RW710", "5:10", "exclude each other"),
        (HEAD + "  rejects: where\n  fired: 1\n", "RW710", "5:10", "exclude each other"),
        (HEAD + "  after: g\n  because: x\n", "RW710", "5:12", "nothing without `rejects`"),
        (HEAD + "  after: g\n  inputs: {x: 1}\n", "RW710", "5:11", "nothing without `outputs`"),
        (
            '- rule: r\n  name: n\n  before: "<ir_version: 8> g"\n  fired: 1\n  opset: 13\n',
            "RW710", "5:10", "nothing where the model has a header",
        ),
        (HEAD + "  outputs: {x: 1, x: 2}\n", "RW710", "4:19", "`x` is given twice"),
        (HEAD + "  rejects: wehre\n", "RW711", "4:12", "the code of a reason"),
        (HEAD + "  rejects: [where]\n", "RW711", "4:12", "a text"),
        (HEAD + "  after: {a: b}\n", "RW711", "4:10", "a text"),
        (HEAD + "  after: ' '\n", "RW711", "4:10", "a text"),
        (HEAD + "  fired: 0\n", "RW711", "4:10", "from 1 to 100000"),
        (HEAD + "  fired: -1\n", "RW711", "4:10", "a whole number"),
        (HEAD + "  fired: '1'\n", "RW711", "4:10", "a whole number"),
        (HEAD + "  fired: 1.5\n", "RW711", "4:10", "a whole number"),
        (HEAD + "  fired: 9999999999\n", "RW711", "4:10", "a whole number"),
        (HEAD + "  fired: 1\n  opset: 27\n", "RW711", "5:10", "to 26"),
        (HEAD + "  fired: 1\n  opset: 3\n", "RW711", "5:10", "from "),
        (HEAD + "  fired: 1\n  opset: [13, 27]\n", "RW711", "5:15", "to 26"),
        (HEAD + "  fired: 1\n  opset: [13, [14]]\n", "RW711", "5:15", "a whole number"),
        (HEAD + "  fired: 1\n  opset: [14, 13]\n", "RW711", "5:10", "opsets in their order"),
        (HEAD + "  fired: 1\n  opset: [13, 13]\n", "RW711", "5:10", "opsets in their order"),
        (HEAD + "  fired: 1\n  opset: []\n", "RW711", "5:10", "opsets in their order"),
        (HEAD + "  outputs: 3\n", "RW711", "4:12", "a table"),
        (HEAD + "  outputs: {}\n", "RW711", "4:12", "a table"),
        (HEAD + "  outputs: {[a]: 1}\n", "RW711", "4:13", "the name of an input"),
        (HEAD + "  outputs: {y: [1, a]}\n", "RW711", "4:20", "a number"),
        (HEAD + "  outputs: {y: ['1']}\n", "RW711", "4:17", "a number"),
        (HEAD + "  outputs: {y: [1.2.3]}\n", "RW711", "4:17", "a number"),
        (HEAD + f"  outputs: {{y: [{'9' * 41}]}}\n", "RW711", "4:17", "a number"),
        (HEAD + "  outputs: {y: [[1, 2], [3]]}\n", "RW711", "4:16", "one shape"),
        (HEAD + "  outputs: {y: [[1, 2], 3]}\n", "RW711", "4:16", "one shape"),
        (HEAD + f"  outputs: {{y: [{'1,' * 65537}]}}\n", "RW711", "4:16", "at most 65536 numbers"),
        ("- rule: R\n  name: n\n  before: g\n  fired: 1\n", "RW711", "1:9", "in lower_case"),
        ("- rule: r\n  name: a::b\n  before: g\n  fired: 1\n", "RW711", "2:9", "without `::`"),
        ("- rule: r\n  name: |\n    a\n    b\n  before: g\n  fired: 1\n", "RW711", "2:9", "a line"),
        (f"- rule: r\n  name: {'n' * 81}\n  before: g\n  fired: 1\n", "RW711", "2:9", "at most 80"),
        ("- rule: r\n  name: n\n  before:\n  fired: 1\n", "RW711", "3:10", "a text"),
    ],
)  # fmt: skip
def test_what_is_wrong(text, code, place, words):
    cases, problems = read(text)
    assert cases == ()
    assert (code, place) in [(c, p) for c, p, _ in problems], problems
    assert any(c == code and words in message for c, _, message in problems), problems


def test_all_problems_of_all_cases_are_told_and_the_others_read():
    cases, problems = read(
        "- rule: r\n  nmae: x\n" + HEAD + "  fired: 1\n" + HEAD + "  fired: x\n  opset: y\n"
    )
    assert len(cases) == 1
    assert [(c, p) for c, p, _ in problems] == [
        ("RW710", "2:3"),
        ("RW710", "1:3"),
        ("RW710", "1:3"),
        ("RW710", "1:3"),
        ("RW711", "10:10"),
        ("RW711", "11:10"),
    ]


def test_a_lone_question_mark_is_explained():
    errors = Collector()
    read_cases("- rule: r\n  rejects: ?\n", "t", 26, errors)
    assert "leave the value empty" in str(errors.found[0].hint)


# --- the files of a pack ------------------------------------------------------------------------

RULE = '''
rule r in clean {
  """T."""
  match y = Relu(Relu(x))
  emit  y = Relu(x)
  claim exact
  example fires """g (float[2] x) => (float[2] y) { m = Relu(x) y = Relu(m) }"""
  example rejects """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
}
'''
CASE = HEAD + "  fired: 1\n"


def pack(folder: Path, name: str = "test", extra: str = "", rules: str = RULE) -> RulePack:
    place = folder / name
    place.mkdir(exist_ok=True)
    head = f"name: {name}\ndoc: Test.\nopset: [7, 26]\nexample_opset: 18\n{extra}"
    (place / "pack.yaml").write_text(head)
    if rules:
        (place / "test.rules").write_text(rules)
    return load_pack(place, vocabulary())


def problems_of(loaded: RulePack) -> list[tuple[str, str]]:
    with pytest.raises(RewriteError) as raised:
        cases_of(loaded)
    found = [d for d in raised.value.diagnostics if d.span is not None]
    return [
        (d.code, f"{Path(d.span.file).name}:{d.span.line}:{d.span.column}")
        for d in found
        if d.span is not None
    ]


def test_examples_come_first_then_cases_by_file(tmp_path):
    loaded = pack(tmp_path)
    (tmp_path / "test" / "b.cases.yaml").write_text(CASE)
    (tmp_path / "test" / "a.cases.yaml").write_text(CASE.replace("name: n", "name: m"))
    (tmp_path / "test" / "notes.yaml").write_text("- [")
    found = find.tests_of(loaded, loaded.rules[0])
    assert [test.name for test in found] == ["fires 1", "rejects 2", "case m", "case n"]


def test_a_file_that_changes_is_read_again(tmp_path):
    loaded = pack(tmp_path)
    file = tmp_path / "test" / "a.cases.yaml"
    file.write_text(CASE)
    assert len(cases_of(loaded)) == 1
    file.write_text(CASE + CASE.replace("name: n", "name: m"))
    assert len(cases_of(loaded)) == 2


def test_cases_of_no_rule_and_of_one_name(tmp_path):
    loaded = pack(tmp_path)
    (tmp_path / "test" / "a.cases.yaml").write_text(CASE + CASE.replace("rule: r", "rule: rr"))
    (tmp_path / "test" / "b.cases.yaml").write_text(CASE)
    assert problems_of(loaded) == [
        ("RW712", "a.cases.yaml:5:9"),
        ("RW712", "b.cases.yaml:2:9"),
    ]


def test_cases_of_a_pack_below_may_name_rules_that_are_disabled(tmp_path):
    pack(tmp_path, rules=RULE + RULE.replace("rule r ", "rule s "))
    (tmp_path / "test" / "a.cases.yaml").write_text(CASE + CASE.replace("rule: r", "rule: s"))
    child = pack(tmp_path, "child", "extends: [test]\ndisable: [s]\n", rules="")
    assert [case.rule for case in cases_of(child)] == ["r"]
    (tmp_path / "child" / "a.cases.yaml").write_text(CASE.replace("rule: r", "rule: s"))
    assert problems_of(child) == [("RW712", "a.cases.yaml:1:9")]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nothing", "no target is called `nothing`"),
        ("chip.yaml", "there is no file `chip.yaml` beside this one"),
        ("../chip.yaml", "neither a target's name nor a file beside this one"),
        ("/etc/chip.yaml", "neither a target's name nor a file beside this one"),
    ],
)
def test_targets_that_there_are_none_of(tmp_path, target, words):
    loaded = pack(tmp_path)
    (tmp_path / "test" / "a.cases.yaml").write_text(CASE + f"  target: {target}\n")
    with pytest.raises(RewriteError) as raised:
        cases_of(loaded)
    (problem,) = raised.value.diagnostics
    assert problem.code == "RW711"
    assert words in problem.message
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (5, 11)


def test_files_that_are_not_read(tmp_path):
    loaded = pack(tmp_path)
    (tmp_path / "outside.yaml").write_text(CASE)
    (tmp_path / "test" / "a.cases.yaml").symlink_to(tmp_path / "outside.yaml")
    (tmp_path / "test" / "b.cases.yaml").mkdir()
    (tmp_path / "test" / "c.cases.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "test" / "d.cases.yaml").write_text("x" * ((4 << 20) + 1))
    os.mkfifo(tmp_path / "test" / "e.cases.yaml")
    assert problems_of(loaded) == [("RW709", f"{name}.cases.yaml:1:1") for name in "abcde"]


def test_a_link_to_nothing(tmp_path):
    loaded = pack(tmp_path)
    (tmp_path / "test" / "a.cases.yaml").symlink_to(tmp_path / "test" / "gone")
    assert problems_of(loaded) == [("RW709", "a.cases.yaml:1:1")]


@pytest.mark.parametrize("name", ["cases.yaml", "cases.yml", "a.cases.yml"])
def test_names_that_are_nearly_those_of_cases(tmp_path, name):
    """Nobody is to think that these are run."""
    loaded = pack(tmp_path)
    (tmp_path / "test" / name).write_text(CASE)
    assert problems_of(loaded) == [("RW709", f"{name}:1:1")]


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(find, "MOST_FILES", 2)
    loaded = pack(tmp_path)
    for name in "abc":
        (tmp_path / "test" / f"{name}.cases.yaml").write_text(CASE)
    assert problems_of(loaded) == [("RW709", "pack.yaml:1:1")]


def test_the_pages_list_all_keys_and_codes():
    page = (DOCS / "testing.md").read_text()
    assert all(f"`{key}`" in page for key in KEYS)
    language = (DOCS / "language.md").read_text()
    assert all(f"`{code}`" in language or f"`{code}`" in page for code in REASONS)
