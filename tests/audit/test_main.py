"""`python -m rewrite.audit` from the outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewrite.audit.__main__ import main

PAGES = Path(__file__).resolve().parents[2] / "docs" / "errors"
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


@pytest.fixture
def work(tmp_path, monkeypatch) -> Path:
    """A folder with a pack for a chip, and the chip."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "pack.yaml").write_text(PACK)
    (tmp_path / "mine" / "all.rules").write_text(RULE)
    (tmp_path / "chip.yaml").write_text(TARGET)
    return tmp_path


def test_help(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "--target" in out
    assert "[-- RULE...]" in out


def test_a_rule_for_a_chip_of_ones_own(work, capsys):
    assert main(["--target", "chip.yaml", "mine"]) == 0
    assert capsys.readouterr().out == "2 of 2 examples hold\n"
    assert main(["--target", "generic", "mine"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("FAIL relu_to_max: fires plain\n  mine/all.rules:8:3: error[RW702]: ")
    assert '\n      8 |   example fires plain """' in out
    assert out.endswith(f"\n  page: {PAGES / 'RW702.md'}\n1 of 2 examples hold\n")


def test_rules_by_name(work, capsys):
    assert main(["mine", "--target", "chip.yaml", "--", "relu_to_max"]) == 0
    assert main(["mine", "--", "relu_max"]) == 2
    err = capsys.readouterr().err
    assert err == (
        "error[RW004]: none of the packs has a rule `relu_max`\n"
        "  hint: did you mean `relu_to_max`?\n"
        f"  page: {PAGES / 'RW004.md'}\n"
    )


def test_what_does_not_load_is_shown_in_its_text(work, capsys):
    (work / "mine" / "pack.yaml").write_text(PACK + "extends: [nothing]\n")
    assert main(["mine"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mine/pack.yaml:5:11: error[RW3")
    assert "\n    5 | extends: [nothing]\n" in err
    assert main([]) == 2
    assert "error[RW002]" in capsys.readouterr().err
    (work / "mine" / "pack.yaml").write_text(PACK)
    assert main(["mine", "--target", "chop.yaml"]) == 2
    assert "error[RW4" in capsys.readouterr().err


def test_a_rule_that_cannot_be_matched(work, capsys):
    """Some faults of patterns show only when the rule is compiled."""
    text = RULE.replace("match y = Relu(x: f32)", "match y = Relu(x: f32)\n        x = Abs(v)")
    (work / "mine" / "all.rules").write_text(text)
    assert main(["mine", "--target", "chip.yaml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mine/all.rules:4:")
    assert "error[RW270]" in err
