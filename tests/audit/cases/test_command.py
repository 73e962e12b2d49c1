"""`rewrite test` from the outside."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from rewrite.cli import main

PAGES = Path(__file__).resolve().parents[3] / "docs" / "errors"
PACK = "name: mine\ndoc: A test.\nopset: [7, 26]\nexample_opset: 18\n"
TARGET = "doc: A chip without Relu.\npacks: []\nopset: [7, 26]\ngroups: false\noperators: [Max]\n"
RULE = '''
rule relu_to_max in lower {
  """Relu where a target has none."""
  match y = Relu(x: f32)
  where not target.has(Relu)
  emit  y = Max(x, 0)
  claim equal(rtol=0)
  example fires plain """g (float[2] x) => (float[2] y) { y = Relu(x) }"""
  example rejects integers """g (int32[2] x) => (int32[2] y) { y = Relu(x) }"""
}
'''
CASES = """\
# The chip has no Relu.
- rule: relu_to_max
  name: two
  target: chip.yaml
  before: |
    g (float[2] x) => (float[2] y) { m = Relu(x) y = Relu(m) }
  after:  # two of them
  fired: 2
- rule: relu_to_max
  name: doubles
  before: |
    g (double[2] x) => (double[2] y) { y = Relu(x) }
  rejects:
"""


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A folder with a pack for a chip, and the chip."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "pack.yaml").write_text(PACK)
    (tmp_path / "mine" / "all.rules").write_text(RULE)
    (tmp_path / "chip.yaml").write_text(TARGET)
    (tmp_path / "mine" / "chip.yaml").write_text(TARGET)
    return tmp_path


def run(*arguments: str) -> int:
    return main(["test", "-j", "1", *arguments])


def test_help(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["test", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "--target" in out
    assert "--update" in out


def test_a_rule_for_a_chip_of_ones_own(work, capsys):
    assert run("--target", "chip.yaml", "mine") == 0
    assert capsys.readouterr().out == "2 of 2 tests hold\n"
    assert run("--target", "generic", "mine") == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL relu_to_max: fires plain\n  mine/all.rules:8:3: error[RW702]: ")
    assert '\n      8 |   example fires plain """' in out
    assert out.endswith(f"\n  page: {PAGES / 'RW702.md'}\n1 of 2 tests hold\n")


def test_rules_by_name(work, capsys):
    assert run("mine", "--target", "chip.yaml", "--rule", "relu_to_max") == 0
    assert run("mine", "--rule", "relu_max") == 2
    err = capsys.readouterr().err
    assert err == (
        "error[RW004]: none of the packs has a rule `relu_max`\n"
        "  hint: did you mean `relu_to_max`?\n"
        f"  page: {PAGES / 'RW004.md'}\n"
    )


def test_what_does_not_load_is_shown_in_its_text(work, capsys):
    (work / "mine" / "pack.yaml").write_text(PACK + "extends: [nothing]\n")
    assert run("mine") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mine/pack.yaml:5:11: error[RW3")
    assert "\n    5 | extends: [nothing]\n" in err
    assert run() == 2
    assert "error[RW002]" in capsys.readouterr().err
    (work / "mine" / "pack.yaml").write_text(PACK)
    assert run("mine", "--target", "chop.yaml") == 2
    assert "error[RW4" in capsys.readouterr().err


def test_a_rule_that_cannot_be_matched(work, capsys):
    """Some faults of patterns show only when the rule is compiled."""
    text = RULE.replace("match y = Relu(x: f32)", "match y = Relu(x: f32)\n        x = Abs(v)")
    (work / "mine" / "all.rules").write_text(text)
    assert run("mine", "--target", "chip.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mine/all.rules:4:")
    assert "error[RW270]" in err


def test_malformed_cases_of_all_packs_are_bad_input(work, capsys):
    (work / "mine" / "a.cases.yaml").write_text("- rule: relu_to_max\n  nmae: x\n")
    (work / "mine" / "b.cases.yaml").write_text("- [\n")
    (work / "child").mkdir()
    (work / "child" / "pack.yaml").write_text(PACK.replace("mine", "child") + "extends: [mine]\n")
    (work / "child" / "c.cases.yaml").write_text("[{}]\n")
    assert run("mine", "child") == 2
    err = capsys.readouterr().err
    assert err.count("unknown key `nmae`") == 1
    assert "child/c.cases.yaml:1:2: error[RW710]: the key `rule` is missing" in err
    assert "mine/a.cases.yaml:2:3: error[RW710]: unknown key `nmae`" in err
    assert "mine/b.cases.yaml:2:1: error[RW709]" in err


def test_update_fills_in_and_keeps_the_rest(work, capsys):
    file = work / "mine" / "relu.cases.yaml"
    file.write_text(CASES)
    assert run("mine", "--target", "chip.yaml") == 1
    assert "2 of 4 tests hold" in capsys.readouterr().out
    assert file.read_text() == CASES
    assert run("mine", "--target", "chip.yaml", "--update") == 0
    out = capsys.readouterr().out
    assert out.startswith("--- mine/relu.cases.yaml\n+++ mine/relu.cases.yaml (updated)\n")
    assert "\n-  rejects:\n+  rejects: dtype\n" in out
    assert out.endswith("4 of 4 tests hold\n")
    after = file.read_text()
    assert after.startswith(CASES[: CASES.index("  after:")] + "  after: |  # two of them\n    g (")
    assert after.endswith(CASES[CASES.index("  fired: 2") :].replace("rejects:", "rejects: dtype"))
    assert after.count("Max(") == 2
    assert run("mine", "--target", "chip.yaml", "--update") == 0
    assert capsys.readouterr().out == "4 of 4 tests hold\n"
    assert file.read_text() == after


def test_update_leaves_files_of_packs_below_alone(work, capsys):
    (work / "mine" / "relu.cases.yaml").write_text(CASES)
    (work / "child").mkdir()
    (work / "child" / "pack.yaml").write_text(PACK.replace("mine", "child") + "extends: [mine]\n")
    assert run("child", "--target", "mine/chip.yaml", "--update") == 1
    assert "2 of 4 tests hold" in capsys.readouterr().out
    assert (work / "mine" / "relu.cases.yaml").read_text() == CASES


def test_selection(work, capsys):
    (work / "mine" / "relu.cases.yaml").write_text(CASES.replace("rejects:", "rejects: dtype"))
    assert run("mine", "--target", "chip.yaml", "-k", "plain or (case and not TWO)") == 0
    assert capsys.readouterr().out == "2 of 2 tests hold, 2 not selected\n"
    assert run("mine", "-k", "nothing") == 1
    assert capsys.readouterr().err.startswith("error[RW719]: none of the 4 tests is selected\n")
    for wrong in ("", "and", "a b", "(a", "not", "a or", ")"):
        assert run("mine", "-k", wrong) == 2
        assert "error[RW002]: -k: " in capsys.readouterr().err


def test_cases_for_other_targets_are_left_out(work, capsys):
    (work / "mine" / "relu.cases.yaml").write_text(CASES.replace("rejects:", "rejects: dtype"))
    assert run("mine", "--target", "hexagon") == 1
    assert capsys.readouterr().out.endswith("2 of 3 tests hold, 1 not selected\n")


def test_a_pack_without_rules_of_its_own_runs_those_below_once(work, capsys):
    (work / "child").mkdir()
    (work / "child" / "pack.yaml").write_text(PACK.replace("mine", "child") + "extends: [mine]\n")
    assert run(".", "--target", "chip.yaml", "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(t["pack"], t["name"]) for t in found["tests"]] == [
        ("mine", "fires plain"),
        ("mine", "rejects integers"),
    ]


def test_json_and_junit(work, capsys):
    (work / "mine" / "relu.cases.yaml").write_text(CASES)
    assert (
        run(
            "mine",
            "--target",
            "chip.yaml",
            "--json",
            "o.json",
            "--junit",
            "o.xml",
            "--durations",
            "1",
        )
        == 1
    )
    assert " s  relu_to_max: " in capsys.readouterr().out
    found = json.loads((work / "o.json").read_text())
    assert found["counts"] == {"tests": 4, "failed": 2, "refined": 0, "not_selected": 0}
    by_name = {test["name"]: test for test in found["tests"]}
    assert by_name["fires plain"]["outcome"] == "held"
    assert by_name["fires plain"]["runtime"] == "onnxruntime"
    two = by_name["case two"]
    assert (two["outcome"], two["code"], two["at"]["line"]) == ("failed", "RW717", 7)
    suite = ElementTree.fromstring((work / "o.xml").read_text())[0]
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("mine", "4", "2")
    case = next(c for c in suite if c.get("name") == "case two")
    assert case.get("classname") == "mine.relu_to_max"
    assert case[0].get("type") == "RW717"
    assert "mine/relu.cases.yaml:7:3: error[RW717]" in str(case[0].text)


def test_junit_on_stdout(work, capsys):
    assert run("mine", "--target", "chip.yaml", "--junit", "-") == 0
    suite = ElementTree.fromstring(capsys.readouterr().out)[0]  # and nothing besides
    assert (suite.get("name"), suite.get("tests")) == ("mine", "2")
    assert not (work / "-").exists()


def test_processes_give_the_same_in_the_same_order(work, capsys):
    rules = [RULE.replace("relu_to_max", f"relu_{n}") for n in range(12)]
    rules[7] = rules[7].replace("Max(x, 0)", "Max(x, 1)")
    (work / "mine" / "all.rules").write_text("".join(rules))
    texts = []
    for jobs in ("1", "2"):
        assert main(["test", "mine", "--target", "chip.yaml", "-j", jobs]) == 1
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].startswith("FAIL relu_7: fires plain\n")
    assert texts[0].endswith("23 of 24 tests hold\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_process_that_ends(work, capsys, monkeypatch, jobs):
    """A runtime may take the process with it: that costs the test that it happened at."""
    import os

    from rewrite.audit.cases.run import RuleRunner

    rules = [RULE.replace("relu_to_max", f"relu_{n}") for n in range(8)]
    (work / "mine" / "all.rules").write_text("".join(rules))
    runs = RuleRunner.run

    def run_or_end(runner, test):
        if test.rule in ("relu_2", "relu_7") and not test.fires:
            os._exit(3)
        return runs(runner, test)

    monkeypatch.setattr(RuleRunner, "run", run_or_end)
    assert main(["test", "mine", "--target", "chip.yaml", "-j", jobs]) == 1
    out = capsys.readouterr().out
    assert out.count("error[RW705]: the test cannot be run (its process: ended with 3)") == 2
    failed = [row for row in out.splitlines() if row.startswith("FAIL")]
    assert failed == ["FAIL relu_2: rejects integers", "FAIL relu_7: rejects integers"]
    assert out.endswith("14 of 16 tests hold\n")


def test_a_model_that_takes_too_much_memory(work, capsys):
    """12 GB where a process may take 6: the test fails, and nothing else comes to harm."""
    (work / "mine" / "relu.cases.yaml").write_text(
        "- rule: relu_to_max\n  name: wide\n  fired: 1\n  before: |\n"
        "    g (float[1] x) => (float[n] y) <int64[1] n = {2999999999}>\n"
        "    { m = Relu(x) y = Expand(m, n) }\n"
    )
    assert run("mine", "--target", "chip.yaml") == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL relu_to_max: case wide\n")
    assert "error[RW705]: the test cannot be run" in out
    assert out.endswith("2 of 3 tests hold\n")


def test_a_rule_whose_tests_are_all_excluded(work, capsys):
    """The pack adds a condition that none of the examples below meets."""
    (work / "child").mkdir()
    (work / "child" / "pack.yaml").write_text(PACK.replace("mine", "child") + "extends: [mine]\n")
    (work / "child" / "all.rules").write_text("refine relu_to_max with where rank(x) == 3\n")
    assert run("child", "--target", "chip.yaml") == 1
    out = capsys.readouterr().out
    assert "error[RW718]: the rule `relu_to_max` has no test that fires: the conditions" in out
    (work / "child" / "relu.cases.yaml").write_text(
        "- rule: relu_to_max\n  name: cube\n  fired: 1\n"
        "  before: g (float[1,1,2] x) => (float[1,1,2] y) { y = Relu(x) }\n"
    )
    assert run("child", "--target", "chip.yaml") == 0
    assert capsys.readouterr().out == "3 of 3 tests hold\n"
